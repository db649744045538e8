"""Random programs in tests: Hypothesis as their source, memory of a GPU that the host plays, and planted faults."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import hypothesis
import hypothesis.strategies as st
import numpy as np

from harness.cli.fuzz import CALLS
from harness.proof.programs.drawing import Combination, Limits, Seeded, draw_program
from harness.proof.programs.memory import Memory
from harness.proof.programs.program import View
from harness.proof.programs.run import run
from tests._support.fake_arrays import Array

Call = Callable[..., Any]

# Hypothesis would take minutes to make a program simpler.
PHASES = (hypothesis.Phase.explicit, hypothesis.Phase.generate)

# Kernels of few semirings and dtypes are compiled; sizes, layouts and calls are free.
ON_HOST = (
    Combination("min_plus", "float32", "float32"),
    Combination("plus_times", "float64", "float64"),
    Combination("plus_times", "int32", "int8"),
    Combination("lor_land", "bool", "bool"),
)
ON_GPU = (
    Combination("min_plus", "float32", "float32"),
    Combination("plus_times", "float64", "float64"),
    Combination("plus_times", "int8", "int8"),  # four elements a word
    Combination("plus_times", "complex64", "complex64"),
    Combination("plus_times", "complex128", "complex64"),
    Combination("plus_times", "float32", "float8_e4m3fn"),  # of which CuPy has no arrays
)
SMALL_HOST = Limits(most_pairs=1 << 14, most_size=65)
SMALL_GPU = Limits(
    on_device=True,
    calls=("gemm", "gemm_argk", "einsum", "gemv", "symv", "ger", "syr", "syrk"),  # the others call CuPy for more
    most_pairs=1 << 11,
    most_size=33,
)


class Drawn:
    """Hypothesis as the source of a program."""

    def __init__(self, data: st.DataObject) -> None:
        self._data = data

    def integers(self, low: int, high: int) -> int:
        return self._data.draw(st.integers(low, high))

    def choice(self, options: Sequence[Any]) -> Any:
        return self._data.draw(st.sampled_from(list(options)))


class PlayedMemory:
    """Arrays of a `HostGpu`."""

    on_device = True

    def __init__(self, gpu: Any) -> None:
        self._gpu = gpu

    def place(self, buffer: np.ndarray) -> Array:
        placed: Array = self._gpu.empty(buffer.shape, buffer.dtype)
        placed.set(buffer)
        return placed

    def store(self, placed: Array, buffer: np.ndarray) -> None:
        placed.set(buffer)

    def view(self, placed: Array, view: View) -> Array:
        return Array(view.of(placed.values), placed.device.id)

    def fetch(self, array: Array) -> np.ndarray:
        return array.get()


def what_is_found(fault: str, memory: Memory, limits: Limits, kind: Combination) -> str:
    """Return what the first of some random programs is told to be wrong that meets a planted fault."""
    name, plant = FAULTS[fault]
    calls = {**CALLS, name: plant(CALLS[name])}
    for number in range(300):
        outcome = run(draw_program(Seeded(number), kind, limits._replace(calls=(name,))), calls, memory)
        if outcome.wrong:
            return outcome.wrong
    return ""


def _values(x: Any) -> np.ndarray:
    values: np.ndarray = getattr(x, "values", x)
    return values


def _argk_again(gemm_argk: Call) -> Call:
    """A further product of a layout by columns is refused, as an option of a constructor was."""
    seen = set()

    def planted(a: Any, b: Any, **options: Any) -> Any:
        layout = a.shape, b.shape, a.strides, b.strides
        if layout in seen and abs(a.strides[-1]) > a.itemsize:
            raise TypeError("of() got an unexpected keyword argument")
        seen.add(layout)
        return gemm_argk(a, b, **options)

    return planted


def _triangles(syrk: Call) -> Call:
    """Of a batch of triangles what is above the diagonal is written."""

    def planted(a: Any, *rest: Any, **options: Any) -> Any:
        result = syrk(a, *rest, **options)
        if result.ndim > 2 and min(result.shape) > 1:
            _values(result)[..., 0, 1] += 3
        return result

    return planted


def _last_column(gemm: Call) -> Call:
    """The second product of a layout by columns has a wrong last column."""
    seen = set()

    def planted(a: Any, b: Any, *rest: Any, **options: Any) -> Any:
        layout = a.shape, b.shape, a.strides, b.strides
        result = gemm(a, b, *rest, **options)
        if layout in seen and b.strides[-1] > b.itemsize and result.size:
            _values(result)[..., -1] = 77
        seen.add(layout)
        return result

    return planted


def _operand(gemm: Call) -> Call:
    """The last element of an operand is negated."""

    def planted(a: Any, b: Any, *rest: Any, **options: Any) -> Any:
        result = gemm(a, b, *rest, **options)
        x = _values(b)
        if x.size > 1 and x.flags.writeable:
            x[(-1,) * x.ndim] *= -1
        return result

    return planted


def _longer_path(closure: Call) -> Call:
    """The longest of all paths to the last vertex is longer by one."""

    def planted(*rest: Any, **options: Any) -> Any:
        result = closure(*rest, **options)
        lengths = _values(result[0] if isinstance(result, tuple) else result)
        if lengths.shape[-1] > 2 and lengths.size:
            finite = np.where(lengths[..., -1] < 1e6, lengths[..., -1], 0)
            lengths[..., finite.argmax(), -1] += 1
        return result

    return planted


def _circle(closure: Call) -> Call:
    """Where a path leads to the last vertex by the one before, that one has the last for its own predecessor."""

    def planted(*rest: Any, **options: Any) -> Any:
        result = closure(*rest, **options)
        if isinstance(result, tuple) and (n := result[1].shape[-1]) > 2:
            before = _values(result[1])
            row = before[..., :1, :]  # none without sources
            row[..., n - 2] = np.where((row[..., n - 1] == n - 2) & (row[..., n - 2] >= 0), n - 1, row[..., n - 2])
        return result

    return planted


def _last_state(forward: Call) -> Call:
    """The last state of long sequences is a thousandth too likely."""

    def planted(*rest: Any, **options: Any) -> Any:
        total, alphas = forward(*rest, **options)
        if alphas.shape[-2] > 8:
            alphas[..., 8, -1] += 1e-3
        return total, alphas

    return planted


def _other_path(viterbi: Call) -> Call:
    """Of equal paths the last one is taken."""

    def planted(initial: Any, transition: Any, emission: Any, **options: Any) -> Any:
        path, score = viterbi(initial[..., ::-1], transition[..., ::-1, ::-1], emission[..., ::-1], **options)
        return np.where(path < 0, path, emission.shape[-1] - 1 - path), score

    return planted


def _posterior_beyond(posterior: Call) -> Call:
    """What is beyond the end of a sequence is not 0."""

    def planted(*rest: Any, lengths: Any = None, **options: Any) -> Any:
        return posterior(*rest, **options)

    return planted


def _columns(scan: Call) -> Call:
    """Suffixes are multiplied from the left."""

    def planted(a: Any, *rest: Any, reverse: bool = False, **options: Any) -> Any:
        result = scan(a[..., ::-1, :, :] if reverse else a, *rest, **options)
        return np.flip(result, a.ndim - 3 - (result.ndim < a.ndim)) if reverse and result.ndim == a.ndim else result

    return planted


# The public call that a fault is in, and what returns it with the fault.
FAULTS: dict[str, tuple[str, Callable[[Call], Call]]] = {
    "last state": ("forward", _last_state),
    "other path": ("viterbi", _other_path),
    "beyond the end": ("posterior", _posterior_beyond),
    "order of suffixes": ("scan", _columns),
    "argk again": ("gemm_argk", _argk_again),
    "batch of triangles": ("syrk", _triangles),
    "last column again": ("gemm", _last_column),
    "operand written": ("gemm", _operand),
    "longer path": ("closure", _longer_path),
    "circle of predecessors": ("closure", _circle),
}
