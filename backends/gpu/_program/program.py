"""A product as a list of launches: kernels, arguments and buffers, as data; nothing here touches a GPU.

A program is pure data: CuPy runs it on a GPU (`execution.py`), and a test runs it on a CPU from the same ``.cu``
files.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

import numpy as np

from backends.gpu._cuda.kernel_files import Defines, Job, as_defines
from backends.gpu._cuda.launches import Routine
from backends.gpu._program.operators import Form, batch_defines, semiring_defines, triangle_defines
from harness.errors import PlanError
from harness.plan import count_tiles
from harness.problem import Problem

# Extents of a grid along y and z end at 65535.
_MOST_ALONG_Y = 1 << 15


@dataclass(frozen=True)
class Kernel:
    """One function of one ``.cu`` file, made for one purpose.

    Parameters
    ----------
    stem, function : str
    defines : Defines
    block : tuple of int
        Threads, x first.
    shared_bytes : int
        Dynamic shared memory of a block.
    suffix : str
        Appended to the architecture, as in `load_kernel`.
    is_chained : bool
        Whether it waits itself for the launches before it (chain.cuh), so that it may begin while they end.
    """

    stem: str
    defines: Defines
    block: tuple[int, ...]
    shared_bytes: int = 0
    function: str = "gemm"
    suffix: str = ""
    is_chained: bool = False

    def __hash__(self) -> int:
        return self._hash

    @functools.cached_property
    def _hash(self) -> int:
        return hash((self.stem, self.function, self.defines, self.block, self.shared_bytes, self.suffix))

    def __getstate__(self) -> dict[str, Any]:
        return {x.name: getattr(self, x.name) for x in fields(self)}  # hashes differ from process to process

    @functools.cached_property
    def halves(self) -> tuple[Kernel, Kernel]:
        """The kernel for tiles that are computed whole, and the one for tiles of which some are shared: tuned.cu."""
        of_whole, of_shared = (
            replace(self, defines=self.defines + as_defines({"IS_SPLIT": is_split})) for is_split in (False, True)
        )
        return of_whole, of_shared


class Place(NamedTuple):
    """A position in a buffer.

    Attributes
    ----------
    buffer : str
        ``"a"``, ``"b"``, ``"c"``, ``"out"``, or the name of a scratch buffer.
    offset : int
        In elements.
    """

    buffer: str
    offset: int = 0


class Matrix(NamedTuple):
    """A matrix in a buffer, row-major unless it is by columns.

    Attributes
    ----------
    place : Place
        Its first element.
    ld : int
        Leading dimension, in elements.
    alignment : int
        Bytes that its address is known to be a multiple of.
    by_columns : bool
        Whether its columns are contiguous, and not its rows; only where `GpuBackend.columns_taken`.
    next : (int, int)
        Distances, in elements, of the matrices of a batch: along its outer and its inner dimension (`Batch`).
    line : int
        Elements of a row, or column if it is by columns, that may be read; 0: all `ld`.
    """

    place: Place
    ld: int
    alignment: int = 16
    by_columns: bool = False
    next: tuple[int, int] = (0, 0)
    line: int = 0

    @property
    def steps(self) -> tuple[int, int]:
        """The distances, in elements, of neighbours in a column and in a row."""
        return (1, self.ld) if self.by_columns else (self.ld, 1)


class Batch(NamedTuple):
    """Products that one launch computes, in two dimensions: number ``outer * inner + rest`` of `count`.

    They lie along y and z of a grid, since x is for the tiles of one product.
    """

    count: int
    inner: int

    @classmethod
    def of(cls, sizes: tuple[int, ...]) -> Batch | None:
        """Return the batch of one or two dimensions; None without any."""
        return cls(math.prod(sizes), sizes[-1]) if sizes else None

    @property
    def grid(self) -> tuple[int, int]:
        """The extents of a grid along y and z; some of its last blocks may have no product."""
        y = min(self.count, _MOST_ALONG_Y)
        return y, ceil_div(self.count, y)

    def arguments(self, *matrices: Matrix) -> tuple[Any, ...]:
        """Return the arguments of batch.cuh, for the matrices of a kernel in its order."""
        return self.count, self.inner, *(np.int64(step) for x in matrices for step in x.next)


class Product(NamedTuple):
    """One product for kernels to compute: ``out := [out (+)] a (x) b``, for m, n, k >= 1.

    Attributes
    ----------
    a, b, out : Matrix
    m, n, k : int
    form : Form
        The form of (x) that the kernel has.
    accumulate : bool
    extremes : Place
        Position of the extremes of A and B, if they decide the form.
    edge : str
        Treatment of partial tiles; ``"padded"`` also if all tiles are whole.
    is_triangle : bool
        Whether nothing above the diagonal of out is computed.
    batch : Batch or None
        All products of a batch, of which these are the matrices of the first.
    """

    a: Matrix
    b: Matrix
    out: Matrix
    m: int
    n: int
    k: int
    form: Form
    accumulate: bool
    extremes: Place
    edge: str = ""
    is_triangle: bool = False
    batch: Batch | None = None

    @property
    def arguments(self) -> tuple[Any, ...]:
        """The arguments of a kernel: GEMM_PARAMETERS of semiring.cuh."""
        a, b, out = self.a, self.b, self.out
        of_batch = self.batch.arguments(a, b, out) if self.batch else ()
        return a.place, b.place, out.place, self.m, self.n, self.k, a.ld, b.ld, out.ld, self.extremes, *of_batch

    def grid(self, blocks: int) -> tuple[int, ...]:
        """Return the grid with so many blocks for each product."""
        return (blocks, *self.batch.grid) if self.batch else (blocks,)

    def tiles(self, bm: int, bn: int) -> int:
        """Return how many tiles of bm x bn cover C, or its triangle.

        Raises
        ------
        PlanError
            If the tiles of a triangle have no side that is a multiple of the other, as grid.cuh counts them.
        """
        if self.is_triangle and max(bm, bn) % min(bm, bn):
            raise PlanError(
                "these tiles do not cut a triangle",
                expected="a multiple of bn for bm, or of bm for bn",
                got=f"{bm}x{bn}",
            )
        return count_tiles(self.m, self.n, bm, bn, triangle=self.is_triangle)


_int32 = functools.lru_cache(4096)(np.int32)  # of sizes, most of which come again


class Step(NamedTuple):
    """One launch.

    Attributes
    ----------
    kernel : Kernel
    grid : tuple of int
        Blocks, x first.
    arguments : tuple
        A Place stands for the address of its element; everything else is a NumPy scalar, passed by value.
    """

    kernel: Kernel
    grid: tuple[int, ...]
    arguments: tuple[Any, ...]

    @classmethod
    def of(cls, kernel: Kernel, grid: int | tuple[int, ...], *arguments: Any) -> Step:
        """Return a launch; Python integers become 32-bit arguments, and symbols do when they have a value."""
        scalars = tuple([_int32(x) if isinstance(x, int) else x for x in arguments])
        return cls(kernel, grid if isinstance(grid, tuple) else (grid,), scalars)


def no_others(kernels: Iterable[Job]) -> list[Job]:
    """Return nothing: products of other layouts need no kernels in place of `kernels`, or it is not known which."""
    return []


class Call(NamedTuple):
    """A step that is a library's routine.

    Attributes
    ----------
    load : callable
        ``load()`` is called before the first launch, on the GPU that computes. It returns a `Routine` of C, or
        ``launch(stream, *addresses)``, with the handle of the stream and an address for each argument, in integers. No
        two threads call one such function at once.
    arguments : tuple of Place
    """

    load: Callable[[], Routine | Callable[..., object]]
    arguments: tuple[Place, ...]


@dataclass
class Program:
    """The steps of a product, in order, and the scratch that they need.

    Parameters
    ----------
    steps : list of Step or Call
    scratch : dict
        ``{name: (elements, dtype)}``, uninitialised.
    zeroed : set of str
        Those of the scratch buffers that hold zeros before the first run; every run leaves zeros behind.
    alike : callable
        Returns the kernels that further products need in place of some, given and returned as `compile_together` takes
        them.
    """

    steps: list[Step | Call] = field(default_factory=list)
    scratch: dict[str, tuple[int, np.dtype[Any]]] = field(default_factory=dict)
    zeroed: set[str] = field(default_factory=set)
    alike: Callable[[Iterable[Job]], list[Job]] = no_others

    def reserve(self, name: str, elements: int, dtype: np.dtype[Any], *, is_zeroed: bool = False) -> Place:
        """Add a scratch buffer and return its beginning."""
        assert name not in self.scratch
        self.scratch[name] = (elements, dtype)
        if is_zeroed:
            self.zeroed.add(name)
        return Place(name)

    def share(self, part: Program) -> None:
        """Reserve the scratch of another program, whose steps come before or after these: one buffer for both."""
        for name, (elements, dtype) in part.scratch.items():
            before, known = self.scratch.get(name, (0, dtype))
            assert known == dtype, name
            self.scratch[name] = max(elements, before), dtype
        self.zeroed |= part.zeroed

    def launch(self, kernel: Kernel, grid: int | tuple[int, ...], *arguments: Any) -> None:
        """Add a step; Python integers become 32-bit arguments."""
        self.steps.append(Step.of(kernel, grid, *arguments))

    def call(self, load: Callable[[], Routine | Callable[..., object]], *arguments: Place) -> None:
        """Add a step that is a library's routine."""
        self.steps.append(Call(load, arguments))

    def kernels(self) -> list[Kernel]:
        """Return the kernels of all steps, in their order."""
        return [step.kernel for step in self.steps if isinstance(step, Step)]


def product_defines(problem: Problem, product: Product, **tile: int) -> Defines:
    """Return the macros of a kernel that computes `product`, with its own macros, `tile`."""
    macros = semiring_defines(problem.semiring, problem.dtype, form=product.form, accumulate=product.accumulate)
    return macros + triangle_defines(problem) + batch_defines(product.batch) + as_defines(tile)


def ceil_div(x: int, y: int) -> int:
    """Return how many pieces of `y` cover `x`."""
    return -(-x // y)


def largest_power(x: int, most: int) -> int:
    """Return the greatest common divisor of `x` and a power of two, `most`, also of symbols."""
    while x % most:
        most //= 2
    return most
