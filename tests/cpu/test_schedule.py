"""The schedule of a parallel loop: parts of it that threads have beforehand, or chunks that they take one by one."""

import numba
import numpy as np
import pytest
from numba import prange, types

from backends.cpu._compile.jit import in_chunks, jit
from harness import machine, threads

pytestmark = [
    pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="loops of Python are not parallel"),
    pytest.mark.skipif(machine.detect().cores < 2, reason="one core"),
]
SLOW_US, ITERATIONS = 300_000, 6
usleep = types.ExternalFunction("usleep", types.int32(types.uint32))
own_thread = types.ExternalFunction("pthread_self", types.intp())


def record(threads_of):
    """Write the thread of each iteration; the first takes long."""
    for i in prange(threads_of.size):
        threads_of[i] = own_thread()
        if i == 0:
            usleep(SLOW_US)


@pytest.fixture(scope="module")
def kernel():
    return jit(None, types.intp[::1])(record)


def test_threads_have_equal_parts_beforehand_unless_they_take_chunks(kernel):
    found = {}
    for name, run in (("static", kernel), ("chunks", in_chunks(kernel, 1))):
        found[name] = np.zeros(ITERATIONS, np.intp)
        with threads.limit(2, libraries=False):
            run(found[name])
    static, chunks = found["static"], found["chunks"]
    assert (static[: ITERATIONS // 2] == static[0]).all(), "the slow iteration holds up those behind it"
    assert (chunks[1:] != chunks[0]).all(), "the other thread takes all that are left"


def test_the_chunks_of_the_caller_are_as_they_were(kernel):
    in_chunks(kernel, 4)(np.zeros(ITERATIONS, np.intp))
    assert numba.get_parallel_chunksize() == 0
