"""The launches of steps of sequences, executed on the CPU between fences, against loops in float64."""

from __future__ import annotations

import types
from typing import Any

import numpy as np

from backends.gpu._program.program import Program
from backends.gpu._sequences import program as sequences
from backends.gpu._sequences.program import Layout, StepsProgram, trace_program
from harness import SEMIRINGS
from harness.machine import detect
from harness.problem import Problem
from harness.proof.reference import algebra
from tests.gpu.host_kernels import HostExecution, fenced
from tests.gpu.on_cpu import RUNGS

COUNT, STEPS = 3, 6
LENGTHS, FIRSTS = np.array([5, 0, 3]), np.array([1, 6, 0])
MOST_SHARED = 1 << 17


def compute(
    semiring: str, dtype: str, states: int, *, each: bool = False, is_traced: bool = False, spread: float = 2.0,
    of_matrix: float = 1.0, keeps: str = "after",
) -> None:  # fmt: skip
    """Compute sequences of several lengths and beginnings, and raise AssertionError unless all is right.

    Values have the `spread`, those of matrices so many times as much. The first sequence becomes impossible.
    """
    kind, rng = np.dtype(dtype), np.random.default_rng(states)
    lengths, firsts = LENGTHS, 0 * FIRSTS if is_traced else FIRSTS
    shapes = {
        "initial": (COUNT, states),
        "transition": (COUNT, STEPS - 1, states, states) if each else (states, states),
        "emission": (COUNT, STEPS, states),
    }
    arrays = {
        name: drawn(rng, shape, kind, spread * (of_matrix if name == "transition" else 1))
        for name, shape in shapes.items()
    }
    if spread and not is_traced:
        arrays["emission"][0, 4] = -np.inf
    begin = {
        **arrays, "lengths": lengths, "firsts": firsts,
        "out": np.full((COUNT, STEPS, states), SEMIRINGS[semiring].zero(kind), kind),
        "last": np.zeros((COUNT, states), kind), "offsets": np.zeros(COUNT), "taken": np.zeros((COUNT, STEPS)),
        "paths": np.zeros((COUNT, STEPS), np.int32),
    }  # fmt: skip
    layout = Layout(
        COUNT, STEPS, states, ((STEPS - 1) * states**2, states**2, states) if each else (0, 0, states),
        (STEPS * states, states), not each,
    )  # fmt: skip
    problem = Problem(COUNT, states, states, SEMIRINGS[semiring], kind)
    buffers = run(steps_program(problem, layout, keeps), begin)
    if is_traced:
        arrays_there = {name: begin[name] for name in ("transition", "lengths", "paths")}
        if not each:
            arrays_there["transition"] = np.ascontiguousarray(arrays["transition"].T)
        buffers |= run(trace_program(problem, layout), {"x": buffers["out"], **arrays_there})
    for b, (length, first) in enumerate(zip(lengths, firsts, strict=True)):
        matrices = arrays["transition"][b] if each else np.broadcast_to(arrays["transition"], (STEPS, states, states))
        before, after, path = by_definition(
            semiring, kind, arrays["initial"][b], matrices[first:], arrays["emission"][b, first:][:length]
        )
        expected = before if keeps == "before" else after
        near(buffers["out"][b, first : first + length], expected, kind, spread)
        rest = np.delete(buffers["out"][b], np.s_[first : first + length], axis=0)
        assert (rest == SEMIRINGS[semiring].zero(kind)).all()
        if length:
            near(buffers["last"][b] + buffers["offsets"][b], after[-1], kind, spread)
        if is_traced:
            possible = length and after[-1].max() > -np.inf
            assert buffers["paths"][b].tolist() == [*(path if possible else [0] * length), *[-1] * (STEPS - length)]


def drawn(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any], spread: float) -> np.ndarray:
    """Return values, integers if spread is 0; of logarithms a fifth are -inf."""
    if not spread:
        return rng.integers(-1, 2, shape).astype(dtype)
    x = rng.normal(0, spread, shape)
    x[rng.random(shape) < 0.2] = -np.inf
    return x.astype(dtype)


def steps_program(problem: Problem, layout: Layout, keeps: str) -> Program:
    """Return the launches of all steps."""
    backend = RUNGS["gpu-tuned"]

    def multiply(problem: Problem, *matrices: Any) -> Any:
        return backend.program(backend.plan(problem, detect()), *matrices)

    program = StepsProgram(problem, layout, keeps, MOST_SHARED, multiply, is_relative=False).program
    assert program is not None
    return program


def run(program: Program, begin: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Execute the launches, and return the buffers."""
    buffers = {}
    for name, x in begin.items():
        buffers[name] = fenced(x.size, x.dtype, at_end=True)
        buffers[name][...] = x.reshape(-1)
    execution = HostExecution(program, types.SimpleNamespace(buffers=buffers))  # type: ignore[arg-type]
    for step in program.steps:
        execution.launch(step)
    return {name: buffers[name].reshape(x.shape) for name, x in begin.items()}


def by_definition(
    semiring: str, dtype: np.dtype[Any], initial: np.ndarray, matrices: np.ndarray, emission: np.ndarray
) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Return the states before and after the emission, and the best path."""
    wide = np.dtype(np.float64) if dtype.kind == "f" else dtype
    operations = algebra(SEMIRINGS[semiring], wide)
    add: Any = operations.add
    x, before, after, pointers = initial.astype(wide), [], [], []
    with np.errstate(all="ignore"):
        for t, e in enumerate(emission.astype(wide)):
            if t:
                terms = operations.multiply(x[:, None], matrices[t - 1].astype(wide))
                pointers.append(terms.argmax(axis=0))
                x = add.reduce(terms, axis=0)
            before.append(x)
            x = operations.multiply(x, e)
            after.append(x)
    path = [int(x.argmax())]
    for which in pointers[::-1]:
        path.insert(0, int(which[path[0]]))
    shape = (len(emission), len(initial))
    return np.reshape(before, shape), np.reshape(after, shape), path if len(emission) else []


def near(got: np.ndarray, expected: np.ndarray, dtype: np.dtype[Any], spread: float) -> None:
    tolerance = 0.0 if dtype.kind != "f" or not spread else 1e-5 if dtype.itemsize == 4 else 1e-13
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance * max(spread, 1))


def by_factors(patch: Any) -> None:
    """Sums of exponentials, where some underflow too, of few states and of more than a block has columns for."""
    patch.setattr(sequences, "HELD_THREADS", 0)
    compute("logaddexp_plus", "float64", 40)
    compute("logaddexp_plus", "float32", 5, spread=60.0)
    compute("logaddexp_plus", "float32", 70, spread=60.0, keeps="before")
    for spread, of_matrix in ((10.0, 1), (200.0, 0.01), (2.0, 100)):
        compute("logaddexp_plus", "float32", 70, spread=spread, of_matrix=of_matrix)
        compute("logaddexp_plus", "float32", 7, spread=spread, of_matrix=of_matrix)


def by_blocks_that_hold(patch: Any) -> None:
    """A matrix in registers, and in shared memory too, of sizes that fill no tile."""
    for states in (5, 70):
        compute("logaddexp_plus", "float32", states, spread=60.0)
        compute("max_plus", "int32", states, spread=0)
    patch.setattr(sequences, "HELD_BYTES", 64)
    compute("logaddexp_plus", "float64", 40, keeps="before")
    compute("max_plus", "float32", 100)


def by_products(patch: Any) -> None:
    """A product for each step."""
    patch.setattr(sequences, "PRODUCT_STATES", 30)
    patch.setattr(sequences, "PRODUCT_COUNT", 2)
    for spread, of_matrix in ((2.0, 1), (60.0, 1), (300.0, 0.01)):
        compute("logaddexp_plus", "float32", 37, spread=spread, of_matrix=of_matrix)
    compute("max_plus", "float32", 37, spread=0, is_traced=True)
    patch.setattr(sequences, "LEAST_DEPTH", 8)  # a product in shares
    compute("logaddexp_plus", "float32", 40, spread=60.0)
    compute("max_plus", "int32", 40, spread=0, is_traced=True)


def best_paths() -> None:
    """Paths of equal scores."""
    for dtype in ("int32", "float32"):
        compute("max_plus", dtype, 70, spread=0, is_traced=True)
        compute("max_plus", dtype, 33, spread=0, is_traced=True, each=True)
    compute("max_plus", "int32", 300, spread=0, is_traced=True)
    compute("max_plus", "float64", 70, spread=3.0, is_traced=True)


def best_paths_in_chunks(patch: Any) -> None:
    """Paths of equal scores, of chunks of two steps."""
    patch.setattr(sequences, "CHUNK_STEPS", 4)
    for states in (5, 40):
        compute("max_plus", "int32", states, spread=0, is_traced=True)
        compute("max_plus", "float32", states, spread=3.0, is_traced=True, each=True)
