"""Call mixed products from many threads at once, and count wrong ones: ``python mixed_calls.py THREADS CALLS [PLANT]``.

PLANT is a race to be found: ``tables``, in which all threads share the tables of addresses of `LargeProducts`.
"""

import contextlib
import copy
import json
import sys
import threading

import numpy as np

import harness
from harness import SEMIRINGS, free_memory, gemm, gemm_argk
from harness.threads import limit, read_back

OPERATIONS = {
    "plus_times": (np.add, np.multiply),
    "min_plus": (np.minimum, np.add),
    "max_min": (np.maximum, np.minimum),
}
SIZES = (1, 2, 5, 8, 17, 30, 47)
LARGEST = (96, 110, 120)  # of which a product releases Python's lock


class NoLock(contextlib.nullcontext):
    """Takes no lock, and never is one."""

    def locked(self):
        return False


def plant_shared_tables():
    """Have all threads use the tables of one, without the lock that tells when they are in use."""
    from backends.cpu._simd import small_products

    private = small_products.LargeProducts

    class Shared:
        compute, _compute = private.compute, private._compute

        def __init__(self, *args, **kwargs):
            private.__init__(self, *args, **kwargs)
            self._lock = NoLock()

    small_products.LargeProducts = Shared


def defined(a, b, semiring):
    """Return the product by its definition."""
    add, multiply = OPERATIONS[semiring]
    return add.reduce(multiply(a[..., :, :, None], b[..., None, :, :]), axis=-2)


def cases(rng):
    """Return calls with their right results: arrays of whole numbers, so that every order of a sum gives the same."""
    made = []
    for number in range(144):  # each of eight kinds of call meets each semiring and dtype: few, since each is compiled
        semiring = list(OPERATIONS)[number // 8 % len(OPERATIONS)]
        dtype = (np.float64, np.int32)[number // 24 % 2]
        sizes = LARGEST if number % 10 == 0 else SIZES
        m, k, n = rng.choice(sizes, 3)
        batch = (3,) if number % 7 == 0 else ()
        a = rng.integers(-9, 9, (*batch, m, k)).astype(dtype)
        b = rng.integers(-9, 9, (*batch, k, n)).astype(dtype)
        if number % 3 == 0:
            b = np.ascontiguousarray(b.swapaxes(-1, -2)).swapaxes(-1, -2)
        want, kind = defined(a, b, semiring).astype(dtype), number % 8
        if kind == 5 and not batch and semiring == "min_plus":
            at = (a[:, :, None] + b[None]).argmin(axis=1)
            made.append((lambda a=a, b=b, s=semiring: gemm_argk(a, b, semiring=s), (want, at)))
        elif kind == 6 and not batch and semiring == "plus_times":
            made.append((lambda a=a, b=b: (harness.einsum("ik,kj->ij", a, b),), (want,)))
        elif kind == 7 and not batch:
            c = rng.integers(-9, 9, (m, n)).astype(dtype)
            full = OPERATIONS[semiring][0](want, c)
            one = SEMIRINGS[semiring].one(np.dtype(dtype))
            made.append((lambda a=a, b=b, c=c, s=semiring, x=one: (gemm(a, b, c, beta=x, semiring=s),), (full,)))
        elif kind == 4:
            made.append((lambda a=a, b=b, w=want, s=semiring: (gemm(a, b, semiring=s, out=np.empty_like(w)),), (want,)))
        else:
            made.append((lambda a=a, b=b, s=semiring: (gemm(a, b, semiring=s),), (want,)))
    return made


def main(threads, calls, plant=""):  # noqa: C901 threads with what they share
    """Print the number of calls, of wrong results, and the exceptions."""
    if plant:
        plant_shared_tables()
    known = cases(np.random.default_rng(0))
    wrong, raised, done = [], [], []
    start, is_over = threading.Barrier(threads + 1), threading.Event()
    original = SEMIRINGS["min_plus"]

    def call(seed):
        start.wait()
        rng, count = np.random.default_rng(seed), 0
        try:
            equal = copy.copy(original)
            if equal != original or equal.meaning is not original.meaning:
                wrong.append("meaning")
            for number in rng.integers(0, len(known), calls).tolist():
                compute, want = known[number]
                if not all(map(np.array_equal, compute(), want)):
                    wrong.append(number)
                count += 1
        except Exception as error:  # noqa: BLE001 reported below
            raised.append(repr(error))
        done.append(count)

    def disturb():
        start.wait()
        try:
            while not is_over.wait(0.01):
                free_memory()
                with limit(1):
                    read_back()
        except Exception as error:  # noqa: BLE001
            raised.append(repr(error))

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    callers = [threading.Thread(target=call, args=(seed,)) for seed in range(threads)]
    other = threading.Thread(target=disturb)
    for thread in (*callers, other):
        thread.start()
    for thread in callers:
        thread.join()
    is_over.set()
    other.join()
    sys.setswitchinterval(before)
    gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    found = {"calls": sum(done), "wrong": len(wrong), "kinds": sorted(set(map(str, wrong))), "raised": raised}
    sys.stdout.write(json.dumps({**found, "gil": gil}) + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
