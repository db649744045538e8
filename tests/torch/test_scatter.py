"""The kernel that scatters gradients: compiled by NVRTC, and executed on the CPU; both without PyTorch and a GPU."""

from __future__ import annotations

import ast
import ctypes
import shutil
from pathlib import Path

import numpy as np
import pytest

from backends.gpu._cuda import nvrtc
from harness import BackendUnavailable
from tests._support import fake_backends

# Read from the source, since the module imports PyTorch.
MODULE = ast.parse((Path(__file__).resolve().parents[2] / "harness/torch/scatter.py").read_text(encoding="utf-8"))
CONSTANTS = {
    node.targets[0].id: node.value for node in MODULE.body if isinstance(node, ast.Assign) and len(node.targets) == 1
}
SOURCE, DERIVATIVES = (ast.literal_eval(CONSTANTS[name]) for name in ("SOURCE", "DERIVATIVES"))
ON_HOST = "static const Index gridDim{1};\ntemplate <class T> void atomicAdd(T* to, T x) { *to += x; }\n"


def macros(multiply, real):
    first, second = DERIVATIVES[multiply]
    return f"#define REAL {real}\n#define D1 {first}\n#define D2 {second}\n"


@pytest.mark.parametrize("multiply", DERIVATIVES)
def test_it_compiles(multiply):
    try:
        nvrtc.library()
    except BackendUnavailable:
        pytest.skip("NVRTC is not installed")
    compiled = nvrtc.compile_source(macros(multiply, "double") + SOURCE, "scatter.cu", "sm_90")
    assert "0 bytes spill stores" in compiled.log


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
@pytest.mark.parametrize("multiply", ("plus", "times", "min"))
@pytest.mark.parametrize("steps", ((0, 0), (1, 0), (1, 1)))
def test_it_adds_each_element_where_its_term_came_from(multiply, steps):
    rng = np.random.default_rng(1)
    batch, m, n, k = max(steps) * 2 + 1, 5, 4, 6
    a, b = rng.standard_normal((batch, m, k)), rng.standard_normal((batch, n, k)).swapaxes(1, 2)
    which, g = rng.integers(-1, k, (batch, m, n), np.int32), rng.standard_normal((batch, m, n))
    if not steps[0]:
        a[:] = a[:1]
    if not steps[1]:
        b[:] = b[:1]
    of_a, of_b = np.zeros((batch if steps[0] else 1, m, k)), np.zeros((batch if steps[1] else 1, k, n))
    library = fake_backends.compiled(ON_HOST + macros(multiply, "double") + SOURCE)
    pointers = [ctypes.c_void_p(x.ctypes.data) for x in (a, b, which, g, of_a, of_b)]
    moves = steps[0] * m * k, steps[1] * n * k
    sizes = g.size, m, n, k, moves[0], k, 1, moves[1], 1, k, *moves
    library.scatter(*pointers, *map(ctypes.c_longlong, sizes))
    expected_a, expected_b = np.zeros_like(of_a), np.zeros_like(of_b)
    derivatives = {
        "plus": lambda x, y: (1, 1),
        "times": lambda x, y: (y, x),
        "min": lambda x, y: (float(x <= y), float(x > y)),
    }
    for z, i, j in np.ndindex(g.shape):
        q = which[z, i, j]
        if q >= 0:
            by_a, by_b = derivatives[multiply](a[z, i, q], b[z, q, j])
            expected_a[z * steps[0], i, q] += g[z, i, j] * by_a
            expected_b[z * steps[1], q, j] += g[z, i, j] * by_b
    np.testing.assert_allclose(of_a, expected_a)
    np.testing.assert_allclose(of_b, expected_b)
