"""Tasks of products of floats over families of data; facts hold their errors against exact sums.

cuBLAS has an emulation of its own, which environment variables turn on before the library is loaded. A worker that
measures it is a process of its own, so they reach nothing else.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from harness import machine, registry
from harness.operands import Operands
from harness.problem import Problem
from harness.run.task import GemmTask
from harness.timing.clock import timed

# By which cuBLAS emulates float64 from 13.0 update 2 on.
EMULATION = {"CUBLAS_EMULATE_DOUBLE_PRECISION": "1", "CUBLAS_EMULATION_STRATEGY": "eager"}

SAMPLES = 200  # elements whose errors are facts
_SPLITTER = 2.0**27 + 1
# For so long products are repeated while their energy is counted, and so many are launched at once: the counter of a
# GPU is refreshed some ten times a second.
ENERGY_S, ENERGY_BURST = 0.5, 8

Draw = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]


def _wide(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return (rng.random(shape) - 0.5) * np.exp(rng.standard_normal(shape))


# Families of which A and B are drawn alike.
DRAWS: dict[str, Draw] = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "positive": lambda rng, shape: rng.random(shape),
    "wide": _wide,
    "half zeros": lambda rng, shape: rng.standard_normal(shape) * (rng.random(shape) < 0.5),
    "graded": lambda rng, shape: rng.standard_normal(shape),
}
_GRADES = 20  # binary orders by which "graded" columns of A grow and rows of B shrink, or the reverse


def fill(family: str, operands: Operands, seed: int) -> None:
    """Fill A and B with data of `family`, and both parts of complex numbers alike."""
    rng = np.random.default_rng(seed)
    for x in (operands.a, operands.b):
        for part in (x.real, x.imag) if np.iscomplexobj(x) else (x,):
            part[...] = DRAWS[family](rng, x.shape)
    if family == "graded":
        grades = rng.integers(-_GRADES, _GRADES + 1, operands.a.shape[1])
        operands.a *= np.exp2(grades)
        operands.b *= np.exp2(-grades[:, None])


def errors(operands: Operands, result: np.ndarray, seed: int) -> tuple[float, float]:
    """Return the greatest and the root mean square error of sampled elements, in units of u |A||B|.

    Of complex numbers each part is a sum of twice as many products of parts.
    """
    rng, unit = np.random.default_rng(seed), float(np.finfo(result.dtype).eps) / 2
    found = []
    for i, j in zip(*(rng.integers(0, size, SAMPLES) for size in result.shape), strict=True):
        for a, b, sum_ in _real_sums(operands.a[i], operands.b[:, j], result[i, j]):
            exact, size = _exact(a, b)
            found.append(abs(float(sum_) - exact) / size / unit if size else 0.0)
    return max(found), math.sqrt(math.fsum(x * x for x in found) / len(found))


def _real_sums(a: np.ndarray, b: np.ndarray, result: Any) -> list[tuple[np.ndarray, np.ndarray, Any]]:
    """Return the vectors whose dot products the parts of `result` are, each with that part."""
    if not np.iscomplexobj(a):
        return [(a, b, result)]
    parts = np.concatenate([a.real, a.imag])
    real, imaginary = np.concatenate([b.real, -b.imag]), np.concatenate([b.imag, b.real])
    return [(parts, real, result.real), (parts, imaginary, result.imag)]


def _exact(a: np.ndarray, b: np.ndarray) -> tuple[float, float]:
    """Return the exact sum of products, and that of their sizes.

    Exact products are a b = p + e, by Dekker's splitting.
    """
    a, b = a.astype(np.float64), b.astype(np.float64)
    (high_a, low_a), (high_b, low_b) = _split(a), _split(b)
    product = a * b
    rest = ((high_a * high_b - product) + high_a * low_b + low_a * high_b) + low_a * low_b
    return math.fsum([*product, *rest]), float(np.abs(product).sum())


def _split(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    high = _SPLITTER * x - (_SPLITTER * x - x)
    return high, x - high


def joules(execution: Any, seconds: float) -> float | None:
    """Return the energy of one product [J], of all that the GPU takes meanwhile; None where nothing counts it."""
    count = getattr(getattr(execution, "queue", None), "joules", lambda: None)
    execution.run()
    execution.wait()
    before, spent, products = count(), dict[str, float](), 0
    if before is None:
        return None
    while sum(spent.values()) < seconds:
        with timed(spent, "bursts", execution.wait):
            for _ in range(ENERGY_BURST):
                execution.run()
        products += ENERGY_BURST
    after = count()
    return None if after is None else float(after - before) / products


class FamilyTask(GemmTask):
    """A product over data of one family."""

    family = "normal"

    def verify(self) -> str:
        """Return a sentence that says what was compared; raise VerificationError if the result is wrong."""
        from harness.proof.verify import verify

        result, problem = self.execution.result(), self.plan.problem
        return verify(problem, self.operands, result, seed=self.seed, extra_error=self.extra_error)

    def facts(self) -> dict[str, Any]:
        """Return the work, the errors of one product, and its energy where the GPU counts that."""
        self.run()
        self.wait()
        greatest, rms = errors(self.operands, self.execution.result(), self.seed)
        energy = joules(self.execution, ENERGY_S)
        facts = {**super().facts(), "family": self.family, "greatest_error": greatest, "rms_error": rms}
        return facts if energy is None else {**facts, "joules": energy}


def product(
    *,
    problem: Mapping[str, Any],
    family: str,
    backend: str,
    seed: int,
    threads: int,
    parameters: Mapping[str, int | str],
    is_vendors_emulation: bool = False,
) -> FamilyTask:
    """Prepare a product.

    Raises
    ------
    Declined
        If the backend is missing here.
    """
    if is_vendors_emulation:
        os.environ.update(EMULATION)
    decoded = Problem.from_json(dict(problem))
    chosen = registry.admit(backend, decoded)
    plan = chosen.plan(decoded, machine.detect().with_threads(threads)).override(parameters)
    operands = Operands.generate(decoded, seed)
    fill(family, operands, seed)
    execution, extra_error = chosen.prepare(plan, operands), chosen.extra_error(plan, operands)
    if is_vendors_emulation:
        extra_error = math.inf  # its errors are facts; no bound of them is known
    task = FamilyTask(plan, operands, execution, seed, extra_error)
    task.family = family
    return task
