"""Products by cublasLt, played by the host: what it is told of matrices, and when another routine takes them."""

from __future__ import annotations

import ctypes
import types
from typing import Any

import numpy as np
import pytest

from backends.gpu.libraries import _cublas_lt, cublas
from harness import gemm
from harness.dtypes import named_dtype
from harness.errors import HarnessError
from tests.gpu.host_gpu import _DTYPES, _matrix


class Lt:
    """The library: descriptions by handle, as it keeps them, and products by NumPy."""

    def __init__(self, gpu: Any) -> None:
        self.gpu, self.kept, self.asked, self.status, self.count = gpu, dict[int, Any](), list[Any](), 0, 1
        self.workspace = 0
        self.callback = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_uint64] * 16)(self.multiply)

    def _keep(self, place: Any, **fields: Any) -> int:
        place._obj.value = len(self.kept) + 77
        self.kept[place._obj.value] = types.SimpleNamespace(**fields)
        return 0

    def __getattr__(self, name: str) -> Any:
        if name.endswith("Create"):
            plain = lambda x: getattr(x, "value", x)  # noqa: E731
            return lambda place, *given: self._keep(place, given=[plain(x) for x in given])
        if name.endswith("SetAttribute"):
            return self._set
        assert name.endswith("Destroy")
        return lambda place: self.kept.pop(place.value)

    def _set(self, place: Any, attribute: int, value: Any, size: Any) -> int:
        assert ctypes.sizeof(value._obj) == size.value
        setattr(self.kept[place.value], f"at{attribute}", value._obj.value)
        return 0

    def cublasLtMatmulAlgoGetHeuristic(self, handle: Any, *given: Any) -> int:  # noqa: N802
        *_, preference, most, found, count = given
        assert most == 1
        self.asked.append(vars(self.kept[preference.value]))
        found._obj[0], found._obj[8], count._obj.value = 4321, self.workspace, self.count
        return self.status

    def multiply(self, handle, desc, alpha, a, of_a, b, of_b, beta, c, of_c, d, of_d, algo, work, size, stream) -> int:
        assert (c, of_c, work, size) == (d, of_d, 0, 0)
        assert ctypes.c_uint64.from_address(algo).value == 4321
        told = self.kept[desc]
        dtype = np.dtype(_DTYPES[told.given[1]])
        alpha, beta = (np.frombuffer(ctypes.string_at(x, dtype.itemsize), dtype)[0] for x in (alpha, beta))
        self.gpu.launches.append(("lt", stream))
        layouts = [self.kept[x] for x in (of_a, of_b, of_d)]
        for i in range(getattr(layouts[0], "at5", 1)):
            x, y, z = (_by_columns(p, layout, i) for p, layout in zip((a, b, d), layouts, strict=True))
            x, y = x.T if told.at3 else x, y.T if told.at4 else y
            z[...] = alpha * (x.astype(dtype) @ y.astype(dtype)) + (beta * z if beta else 0)
        return 0


def _by_columns(address: int, layout: Any, number: int) -> np.ndarray:
    kind, rows, columns, ld = layout.given
    dtype = named_dtype(_DTYPES[kind])
    address += number * getattr(layout, "at6", 0) * dtype.itemsize
    return _matrix(address, columns, rows, ld, dtype, 0).T


@pytest.fixture
def lt(gpu, monkeypatch):
    played = Lt(gpu)
    monkeypatch.setattr(_cublas_lt, "library", lambda: played)
    monkeypatch.setattr(_cublas_lt, "address", lambda: ctypes.cast(played.callback, ctypes.c_void_p).value)
    _cublas_lt._handle.cache_clear()
    yield played
    _cublas_lt._handle.cache_clear()


def numbers(gpu, shape, dtype, seed):
    return gpu.array(np.random.default_rng(seed).integers(-4, 5, shape).astype(named_dtype(dtype)))


@pytest.mark.parametrize("dtype", ("float32", "float64", "float16", "bfloat16"))
@pytest.mark.parametrize("columns", ("", "a", "b", "ab"))
@pytest.mark.parametrize("batch", ((), (3,)))
def test_it_is_told_how_matrices_lie(dtype, columns, batch, gpu, lt):
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    wide = "float64" if dtype == "float64" else "float32"
    shapes = {"a": (*batch, 7, 5), "b": (*batch, 5, 9)}
    for seed in range(3):
        a, b = (
            numbers(gpu, (*shape[:-2], shape[-1], shape[-2]), dtype, seed).swapaxes(-1, -2)
            if name in columns
            else numbers(gpu, shape, dtype, seed + 9)
            for name, shape in shapes.items()
        )
        c = numbers(gpu, (*batch, 7, 9), wide, seed)
        want = a.get().astype(float) @ b.get().astype(float)
        with gpu.on_stream(6):
            for given, expected in (((a, b), want), ((a, b, c), want + c.get())):
                gpu.launches.clear()
                assert np.array_equal(gemm(*given, dtype=wide, backend="gpu-cublas").get(), expected)
                assert gpu.launches[-1] == ("lt", 6)
    assert all(asked["at1"] == 1 << 25 for asked in lt.asked), "as cuBLAS asks, whose choice it is to be"
    assert gpu.contexts == []


def test_addresses_are_as_aligned_as_it_is_told(gpu, lt):
    room = numbers(gpu, (9, 8), "float32", 0)
    for a, alignment in ((room[:8], 16), (room[1:, :7], 16), (room[:8, 1:], 4)):
        lt.asked.clear()
        gemm(a, numbers(gpu, (a.shape[1], 8), "float32", 1), backend="gpu-cublas")
        assert {x for asked in lt.asked for x in (asked["at5"], asked["at6"], asked["at7"], asked["at8"])} == {
            alignment
        }


@pytest.mark.parametrize("reason", ("none found", "refused", "work memory", "long", "not installed"))
def test_what_it_does_not_take_goes_to_the_other_routine(reason, gpu, lt, monkeypatch):
    if reason == "long":
        monkeypatch.setattr(cublas, "_MOST_KEPT", 6**3 - 1)
    lt.workspace = 4096 if reason == "work memory" else 0
    if reason == "not installed":
        monkeypatch.setattr(_cublas_lt, "library", lambda: None)
    lt.status, lt.count = 15 if reason == "refused" else 0, 0 if reason == "none found" else 1
    a, b = numbers(gpu, (6, 6), "float32", 0), numbers(gpu, (6, 6), "float32", 1)
    assert np.array_equal(gemm(a, b, backend="gpu-cublas").get(), a.get() @ b.get())
    assert gpu.launches == [("cublas", 0)]


def test_what_was_described_goes_with_the_routine(gpu, lt):
    layout = _cublas_lt.Layout(0, 4, 4, 4)
    scalars = np.ones(1, "f4"), np.zeros(1, "f4")
    routine = _cublas_lt.matmul((layout, layout, layout), (0, 0), (68, 0), scalars, 0, 16)
    assert len(lt.kept) == 6  # and the handle of the library, which stays
    del routine
    assert len(lt.kept) == 1


def test_a_refusal_of_a_launch_is_an_error(gpu, lt, monkeypatch):
    refused = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_uint64] * 16)(lambda *_: 13)
    monkeypatch.setattr(_cublas_lt, "address", lambda: ctypes.cast(refused, ctypes.c_void_p).value)
    a = numbers(gpu, (6, 6), "float32", 0)
    with pytest.raises(HarnessError, match=r"compute the product(.|\n)*13"):
        gemm(a, a, backend="gpu-cublas")
