"""Subinterpreters, and threads beside the main one: they may not handle signals, and no error of Python says so."""

import threading

import pytest

from harness.run import ending
from harness.surroundings import interrupts_held
from tests._support.processes import python

# Python 3.13 renamed the module, and 3.12 on can have several locks, which NumPy refuses.
IN_A_SUBINTERPRETER = """
try:
    import _interpreters
    here = _interpreters.create("legacy")
except ImportError:
    import _xxsubinterpreters as _interpreters
    here = _interpreters.create(isolated=False)
_interpreters.run_string(here, '''
import warnings
warnings.simplefilter("ignore")  # NumPy warns of subinterpreters
try:
    import numpy as np
except ImportError:
    print("no NumPy")
from harness import BackendUnavailable, gemm
from harness.run import ending
from harness.surroundings import interrupts_held
for block in (interrupts_held, ending.raising, ending.delayed):
    with block():
        print(block.__name__)
for options in ({}, {"semiring": "min_plus"}, {"threads": 1, "backend": "cpu-packed"}):
    try:
        gemm(np.ones((300, 300)), np.ones((300, 300)), **options)
    except BackendUnavailable as error:
        print(error.what.partition(":")[0])
''')
"""


def test_a_product_in_a_subinterpreter_is_refused_and_does_not_hang():
    # with threads of OpenBLAS the end of Python waits for ever, where NumPy alone was imported there too
    answer = python("-c", IN_A_SUBINTERPRETER, OPENBLAS_NUM_THREADS="1")
    if answer.stdout.splitlines() == ["no NumPy"]:
        pytest.skip("NumPy cannot be imported in a subinterpreter of this Python")
    refused = "products cannot be computed in a subinterpreter"
    assert answer.stdout.splitlines() == ["interrupts_held", "raising", "delayed", *[refused] * 3], answer.stderr


def test_blocks_that_handle_signals_do_nothing_in_other_threads():
    entered = []

    def run():
        for block in (interrupts_held, ending.raising, ending.delayed):
            with block():
                entered.append(block)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert len(entered) == 3
