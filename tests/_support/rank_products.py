"""Products on every grid of the ranks, each compared with one rank's; ``mpiexec -n P python -m mpi4py`` runs it.

Arguments ``products 7x50+1x40 8x60``: 50 products on 7 ranks, 40 on the one that is left meanwhile, then 60 on 8. Or
``faults NAME...``: those to plant, one after the other, until a product is wrong. All ranks draw the same cases. Local
products follow the definition, so that nothing is compiled and no backend is loaded: `rank_kernels` has the backends
compute them.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
import types

import numpy as np
from mpi4py import MPI

from harness.distributed import gemm, grids, pieces, spmd, volume
from harness.distributed.grid import BLOCKS, FACES, Decomposition
from harness.distributed.reduction import pieces_arrive
from harness.distributed.share import Share
from harness.dtypes import named_dtype
from harness.operands import Operands
from harness.problem import Problem
from harness.proof import reference
from harness.proof.verify import verify
from tests._support import distributed_faults
from tests._support.local_function import LocalFunction

WORLD = COMM = MPI.COMM_WORLD  # COMM: of the ranks that compute together
SEED, UNTIL_WRONG = 1, 40
SIZES = ((1, 1, 1), (0, 5, 4), (4, 0, 3), (3, 2, 0), (2, 3, 1), (5, 7, 11), (13, 4, 17), (1, 19, 23), (29, 1, 6))
# semiring, dtype, dtype of A and B; floats of plus_times are integers, unless the name ends with "!"
KINDS = (
    ("min_plus", "float64", ""),
    ("min_plus", "float16", ""),
    ("max_plus", "float32", ""),
    ("min_plus", "int16", ""),
    ("plus_times", "int64", ""),
    ("plus_times", "uint8", ""),
    ("plus_times", "float64", ""),
    ("plus_times!", "float32", ""),
    ("plus_times", "complex64", ""),
    ("plus_times!", "complex128", ""),
    ("plus_times", "complex128", "complex64"),
    ("plus_times", "int32", "int8"),
    ("plus_times", "float32", "float16"),
    ("plus_times", "float32", "bfloat16"),
    ("lor_land", "bool", ""),
    ("lxor_land", "bool", ""),
    ("logaddexp_plus!", "float64", ""),
)
CHOICES = {
    "layout": ("rows", "columns", "root", "blocks"),
    "panel": (0, 1, 2, np.int64(3), 50),
    "in_flight": (1, 2, 3),
    "reduction": ("exchange", "mpi"),
    "largest_message": (1 << 30, 64, 7),
    "pieces": (BLOCKS, BLOCKS, FACES),
    "transport": ("shared", "auto", "mpi"),
    "a_host": (1, 2, 3),  # ranks that share memory where the transport is chosen automatically
    "form": ("C", "F", "strided", "reversed", "read-only"),
    "scalars": ("no c", "no c", "c", "alpha, beta", "beta zero"),
    "out": ("", "C", "strided", "c"),
}
made: list[Share] = []


class WatchedShare(Share):
    """Keeps the last one made, for what this rank has counted. Its messages have `largest_message` bytes at most."""

    def __init__(self, largest_message, comms, sizes, problem, local, schedule, **options):
        schedule = dataclasses.replace(schedule, largest_message=largest_message)
        super().__init__(comms, sizes, problem, local, schedule, **options)
        made[:] = [self]


def by_definition(problem, backend, threads):
    """Return the local product that follows the definition."""

    def local(a, b, c, alpha, beta, out):
        sizes = {"m": a.shape[0], "n": b.shape[1], "k": a.shape[1]}
        part = dataclasses.replace(problem, **sizes, alpha=alpha, beta=beta, accumulate=c is not None)
        out[...] = reference.product(part, a, b, c)

    return LocalFunction(local, in_place=problem.k % 2 == 1)


# What stands for a backend, in `harness.distributed.spmd`: it is never asked to compute.
LOCAL = {"host_local": by_definition, "choose": lambda *_: types.SimpleNamespace(accumulates_in_place=True)}


def operands(rng, sizes, kind, scalars):
    """Return the problem and its operands, with the arguments of the call that are scalars."""
    semiring, dtype, operand = kind[0].removesuffix("!"), np.dtype(kind[1]), kind[2]
    narrow = named_dtype(operand) if operand else dtype
    arguments = {}
    if scalars in {"alpha, beta", "beta zero"}:
        arguments = dict(zip(("alpha", "beta"), draw(rng, (2,), dtype, kind), strict=True))
    fields = {"operand_dtype": narrow if operand else None, "accumulate": scalars in {"c", "alpha, beta"}}
    is_read = scalars != "beta zero"
    problem = Problem(*sizes, semiring, dtype, **fields, **(arguments if is_read else {"alpha": arguments["alpha"]}))
    if not is_read:
        arguments["beta"] = problem.semiring.zero(dtype)
    m, n, k = sizes
    a, b, c = draw(rng, (m, k), narrow, kind), draw(rng, (k, n), narrow, kind), draw(rng, (m, n), dtype, kind)
    held = Operands(a, b, c if problem.accumulate else None, np.empty((m, n), dtype))
    return problem, held, arguments, (c if scalars != "no c" else None)


def draw(rng, shape, dtype, kind):
    """Return values whose sums are exact, unless the kind is marked otherwise."""
    if dtype.kind == "c":
        parts_of = draw(rng, (*shape, 2), np.dtype(np.float64), kind)
        return (parts_of[..., 0] + 1j * parts_of[..., 1]).astype(dtype)
    if dtype.kind == "b":
        return rng.random(shape) < 0.4
    if kind[0].startswith("plus_times") and not kind[0].endswith("!"):
        return rng.integers(0 if dtype.kind == "u" else -9, 9, shape).astype(dtype)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
    return rng.standard_normal(shape).astype(dtype)


def formed(x, form):
    """Return `x` in memory of another form."""
    if form == "F":
        return np.asfortranarray(x)
    if form in {"strided", "reversed"}:
        room = np.zeros((2 * x.shape[0], 3 * x.shape[1]), x.dtype)
        view = room[::2, ::3] if form == "strided" else room[::-2, ::-3]
        view[...] = x
        return view
    x = np.ascontiguousarray(x)
    x.flags.writeable = form != "read-only"
    return x


def parts(rng, layout, sizes, grid):
    """Return for each rank the slices of A, B, C and D that it holds, by name; None: nothing at all."""
    m, n, k = sizes
    if layout == "blocks":
        return [pieces(m, n, k, grid, rank) for rank in range(COMM.size)]
    if layout == "root":
        whole = slice(None), slice(None)
        return [dict.fromkeys("abcd", whole), *[None] * (COMM.size - 1)]
    spread = 0 if layout == "rows" else 1
    extents = {"a": (m, k), "b": (k, n), "c": (m, n)}
    cuts = {
        name: [0, *np.sort(rng.integers(0, x[spread] + 1, COMM.size - 1)), x[spread]] for name, x in extents.items()
    }
    held = []
    for rank in range(COMM.size):
        along = {name: slice(int(cut[rank]), int(cut[rank + 1])) for name, cut in cuts.items()}
        held.append({name: (x, slice(None)) if spread == 0 else (slice(None), x) for name, x in along.items()})
    return held


def place_of_d(place, layout, *, has_c):
    """Return the slices of D of a rank that holds those of `place`: those of C, else as rows of A or columns of B."""
    if has_c or layout in {"blocks", "root"}:
        return place["c"]
    return (place["a"][0], slice(None)) if layout == "rows" else (slice(None), place["b"][1])


def room_for(x, c, form):
    """Return an array for a part of D that is like `x`: a new one, or C itself if that can be written to; or None."""
    if form == "c":
        return c if c is not None and c.flags.writeable else None
    return formed(np.full(x.shape, 1, x.dtype), form) if form else None


def compute(rng, grid, sizes, kind, choices, fault=""):
    """Compute one product; return what is wrong with it, as rank 0 sees it, or nothing."""
    problem, held, scalars, c = operands(rng, sizes, kind, choices["scalars"])
    layout = choices["layout"]
    places = parts(rng, layout, sizes, grid)
    mine, given = places[COMM.rank], {"a": None, "b": None, "c": None}
    for name, x in (("a", held.a), ("b", held.b), ("c", c)):
        if mine is not None and x is not None:
            given[name] = formed(x[mine[name]].copy(), choices["form"])
    d_places = [None if place is None else place_of_d(place, layout, has_c=c is not None) for place in places]
    out = None if mine is None else room_for(held.out[d_places[COMM.rank]], given["c"], choices["out"])
    cut = BLOCKS if layout == "blocks" else choices["pieces"]
    share = functools.partial(WatchedShare, choices["largest_message"])
    with distributed_faults.planted(fault, {**LOCAL, "Share": share}):
        spmd.Decomposition = functools.partial(Decomposition, layout=cut)
        if choices["transport"] == "auto":
            spmd.memory_domain = lambda: f"host {COMM.rank // choices['a_host']}"
        options = {name: choices[name] for name in ("layout", "panel", "in_flight", "reduction", "transport")}
        d, report = gemm(
            **given, comm=COMM, semiring=problem.semiring, grid=grid, dtype=problem.dtype, out=out, **scalars, **options
        )
    decomposition = Decomposition(*sizes, grid, cut)
    wrong = "" if out is None or d is out else "another array than out"
    wrong = wrong or miscounted(decomposition) or mismeasured(report, problem, choices["reduction"])
    ranks_wrong = [f"rank {rank}: {what}" for rank, what in enumerate(COMM.allgather(wrong)) if what]
    gathered = COMM.gather(d)
    if COMM.rank:
        return ""
    for place, piece in zip(d_places, gathered, strict=True):
        if piece is not None:
            held.out[place] = piece
    return "; ".join(ranks_wrong) or compared(problem, held, kind)


def miscounted(decomposition):
    """Return how the words that this rank has received differ from the formula."""
    share = made[0]
    names = {"a": "gather A", "b": "gather B", "d": "reduce"}
    counted = {name: share.stages.words.get(stage, 0) for name, stage in names.items()}
    is_idle = COMM.rank >= decomposition.grid.size
    expected = dict.fromkeys("abd", 0) if is_idle else decomposition.words(COMM.rank)
    return "" if counted == expected else f"received {counted} words, by the formula {expected}"


def mismeasured(report, problem, reduction):
    """Return how the memory used differs from that predicted."""
    ours = pieces_arrive(problem.semiring.add, problem.dtype, reduction)
    right = report.used_bytes == report.predicted_bytes if ours else report.used_bytes <= report.predicted_bytes
    return "" if right else f"{report.used_bytes} bytes used, {report.predicted_bytes} predicted"


def compared(problem, held, kind):
    """Return how D differs from one rank's, in any bit if the sums are exact."""
    if kind[0].endswith("!"):
        try:
            verify(problem, held, held.out, seed=1)
        except Exception as error:  # noqa: BLE001 whatever it is, it is printed with its case
            return str(error)
        return ""
    expected = reference.product(problem, held.a, held.b, held.c)
    return "" if expected.tobytes() == held.out.tobytes() else f"expected\n{expected}\ngot\n{held.out}"


def check_volume(rng, grid):
    """Return what is wrong with the words counted where sizes divide."""
    m, n, k = 2 * grid.pm * grid.pk, 2 * grid.pn, grid.pm * grid.pn * grid.pk
    a, b = (draw(rng, shape, np.dtype(float), KINDS[0]) for shape in ((m, k), (k, n)))
    mine = pieces(m, n, k, grid, COMM.rank)
    _, report = gemm(a[mine["a"]], b[mine["b"]], comm=COMM, semiring="min_plus", grid=grid, layout="blocks")
    if report.words != volume(m, n, k, grid):
        return f"{grid}: {report.words} words, {volume(m, n, k, grid)} by the formula"
    return ""


def products(count, fault=""):
    """Compute so many products with a fault; yield of each, on rank 0, a sentence that says what is wrong, or ""."""
    rng, done = np.random.default_rng(SEED), 0
    all_grids = list(grids(COMM.size)) + (list(grids(COMM.size - 1)) if COMM.size > 1 else [])
    while done < count:
        for grid in all_grids[: count - done]:
            sizes, kind = SIZES[rng.integers(len(SIZES))], KINDS[rng.integers(len(KINDS))]
            choices = {name: values[rng.integers(len(values))] for name, values in CHOICES.items()}
            wrong = compute(rng, grid, sizes, kind, choices, fault)
            yield f"{grid} {sizes} {kind} {choices}: {wrong}" if wrong else ""
            done += 1


def proven(count):
    """Return, on rank 0, how many of so many products are wrong, with the first of them."""
    failures = list(filter(None, products(count)))
    with distributed_faults.planted("", LOCAL):
        rng = np.random.default_rng(SEED)
        failures += filter(None, (check_volume(rng, grid) for grid in grids(COMM.size)))
    return "\n".join([*failures[:3], f"{COMM.size} ranks: {count} products, {len(failures)} wrong"])


def side_by_side(groups):
    """Compute on groups of ranks at once, each so many products, and return what the first rank of each says."""
    global COMM  # noqa: PLW0603
    parts = [tuple(map(int, group.split("x"))) for group in groups.split("+")]
    owners = [number for number, (size, _) in enumerate(parts) for _ in range(size)]
    mine = dict(enumerate(owners)).get(WORLD.rank)
    COMM = WORLD.Split(MPI.UNDEFINED if mine is None else mine)
    said = "" if mine is None else proven(parts[mine][1])
    is_first = mine is not None and COMM.rank == 0
    return said if is_first else ""


def main(what, *arguments):
    """Compute, compare, and print what is wrong; or print whether a product is wrong with each fault."""
    if what == "products":
        mine = [side_by_side(groups) for groups in arguments]
        said = [sentence for of_rank in WORLD.allgather(mine) for sentence in of_rank if sentence]
    else:
        said = [f"{name}: {any(map(WORLD.bcast, products(UNTIL_WRONG, name)))}" for name in arguments]
    if WORLD.rank == 0:
        sys.stdout.write("\n".join([*said, ""]))


if __name__ == "__main__":
    main(*sys.argv[1:])
