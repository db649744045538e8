"""gpu-strassen through whole calls on a GPU that the host plays: every form, level, edge, scalar and special value."""

import numpy as np
import pytest

from backends.gpu._cuda.kernel_files import compile_kernel, resources
from backends.gpu._program.program import Matrix, Place
from backends.gpu._strassen import passes
from backends.gpu.libraries import _peer
from harness import Operands, PlanError, Problem, gemm, registry
from harness.api.remembered import repeats
from harness.interface import prepare
from harness.machine import detect
from harness.proof.verify import verify
from tests._support.pairs import pairs
from tests.gpu.host_gpu import CAPTURING, install
from tests.gpu.host_kernels import BY_THE_SHIM
from tests.gpu.on_cpu import RUNGS, needs_nvrtc

pytestmark = BY_THE_SHIM

BACKEND = RUNGS["gpu-strassen"]
SCALED = {"alpha": 2.0, "beta": -1.0, "accumulate": True}


@pytest.fixture
def gpu(monkeypatch):
    """Return a GPU that the host plays, on which nothing is remembered."""
    repeats.forget()
    monkeypatch.setattr(repeats, "classes", set())
    monkeypatch.setattr(_peer, "_is_installed", lambda package: False)
    monkeypatch.setattr(passes, "SCANNERS", 3)  # threads that take turns: a few are enough
    yield install(monkeypatch)
    repeats.forget()


def plan_of(problem, crossover, base="gpu-cublas", form="winograd"):
    return BACKEND.plan(problem, detect()).override({"crossover": crossover, "base": base, "form": form})


def compute(problem, operands, crossover, **options):
    product = prepare(BACKEND, plan_of(problem, crossover, **options), operands)
    operands.out[...] = 77
    return product.run_once()


def whole_numbers(problem):
    operands, rng = Operands.generate(problem, 1), np.random.default_rng(1)
    for x in operands.inputs():
        x[...] = rng.integers(-4, 5, x.shape)
    return operands


def exact(problem, operands):
    product = operands.a @ operands.b * problem.dtype.type(1 if problem.alpha is None else problem.alpha)
    if problem.accumulate:
        product = product + operands.c * problem.dtype.type(1 if problem.beta is None else problem.beta)
    return product


WHOLE = pairs(
    ((64, 64, 64), (66, 68, 72), (61, 67, 59), (128, 32, 40)), ("float32", "float64"), ("winograd", "classic")
)


@pytest.mark.deep(but=4)
@pytest.mark.parametrize(("sizes", "dtype", "form"), WHOLE, ids=str)
def test_whole_numbers_are_exact_at_every_size_and_level(gpu, sizes, dtype, form):
    for options in ({}, SCALED):
        problem = Problem(*sizes, dtype=np.dtype(dtype), **options)
        operands = whole_numbers(problem)
        for crossover in (-(-min(sizes) // 2), -(-min(sizes) // 4)):
            found = compute(problem, operands, crossover, form=form)
            np.testing.assert_array_equal(found, exact(problem, operands))


def test_seven_products_of_halves_and_49_of_quarters(gpu):
    problem = Problem(64, 64, 64)
    for levels, products in ((0, 1), (1, 7), (2, 49)):
        gpu.launches.clear()
        compute(problem, whole_numbers(problem), 64 >> levels if levels else 65)
        assert [name for name, _ in gpu.launches].count("cublas") == products


def test_operands_that_are_quarters_are_not_copied_where_rows_are_aligned(gpu):
    def rooms(n):
        plan = plan_of(Problem(n, n, n), -(-n // 2))
        program = BACKEND.program(plan, *(Matrix(Place(name), n) for name in ("a", "b", "out")))
        spreads = [dict(step.kernel.defines) for step in program.steps if getattr(step, "kernel", None)]
        return [(each["COUNT"], each["WIDTH"]) for each in spreads if "COUNT" in each]

    assert rooms(64) == [("4", "2"), ("4", "2")]
    assert rooms(63) == [("7", "1"), ("7", "1")]
    assert rooms(66) == [("7", "1"), ("7", "1")], "quarters of 33 elements do not begin at 16 bytes"


@pytest.mark.parametrize(("semiring", "dtype"), (("plus_times", "int16"), ("lxor_land", "bool")))
def test_other_rings_are_exact(gpu, semiring, dtype):
    scalars = {"alpha": 3, "beta": 2, "accumulate": True} if dtype == "int16" else {"accumulate": True}
    problem = Problem(37, 40, 33, semiring, np.dtype(dtype), **scalars)
    operands = Operands.generate(problem, 1)
    found = compute(problem, operands, 10, base="gpu-naive")
    verify(problem, operands, found, seed=1)


@pytest.mark.parametrize("base", ("gpu-tuned", "gpu-naive"))
def test_a_rung_is_a_base_too(gpu, base):
    problem = Problem(48, 40, 56, dtype=np.dtype(np.float32), **SCALED)
    operands = whole_numbers(problem)
    np.testing.assert_array_equal(compute(problem, operands, 20, base=base), exact(problem, operands))


@pytest.mark.parametrize("value", (np.nan, -np.inf, 1e300))
@pytest.mark.parametrize("where", "ab")
@pytest.mark.parametrize("options", ({}, SCALED), ids=("plain", "scaled"))
def test_what_no_sum_may_hold_reaches_its_own_row_or_column_only(gpu, value, where, options):
    problem = Problem(38, 42, 46, **options)
    operands = whole_numbers(problem)
    getattr(operands, where)[17, 4] = value
    with np.errstate(invalid="ignore"):  # of the products that are forgotten
        found = compute(problem, operands, 10)
    touched = np.isnan(found) | (np.abs(found) > 1e3)
    lines = touched[17] if where == "a" else touched[:, 4]
    assert lines.any()
    lines[...] = False
    assert not touched.any()
    assert BACKEND.extra_error(plan_of(problem, 10), operands) == 0
    verify(problem, operands, found, seed=1)


@pytest.mark.parametrize("form", ("winograd", "classic"))
def test_errors_are_within_the_bound_of_the_form(gpu, form):
    problem = Problem(96, 97, 95, dtype=np.dtype(np.float32))
    operands = Operands.generate(problem, 2)
    operands.b[:, ::3] *= np.float32(1e4)
    true = operands.a.astype(float) @ operands.b.astype(float)
    for crossover in (48, 24, 12):
        error = np.abs(compute(problem, operands, crossover, form=form) - true).max()
        assert 0 < error < BACKEND.extra_error(plan_of(problem, crossover, form=form), operands)


def test_c_may_be_the_output_and_a_further_call_prepares_nothing(gpu, monkeypatch):
    monkeypatch.setattr("backends.gpu.strassen.strassen_crossover", lambda base, dtype: 16)
    for seed in (1, 2):
        a, b, c = (gpu.array(np.random.default_rng(seed + i).integers(-4, 5, (40, 40)) * 1.0) for i in range(3))
        expected = 2 * a.get() @ b.get() - c.get()
        if seed == 2:
            monkeypatch.setattr("harness.api.gemm.prepare", lambda *_: pytest.fail("it was not remembered"))
        np.testing.assert_array_equal(gemm(a, b, c, alpha=2, beta=-1, out=c, backend="gpu-strassen").get(), expected)


def test_a_graph_may_capture_a_call(gpu, monkeypatch):
    monkeypatch.setattr("backends.gpu.strassen.strassen_crossover", lambda base, dtype: 16)
    a, b = (gpu.array(np.random.default_rng(i).integers(-4, 5, (40, 40)) * 1.0) for i in range(2))
    out = gpu.empty((40, 40), "float64")
    gemm(a, b, out=out, backend="gpu-strassen")
    with gpu.on_stream(CAPTURING):
        gemm(b, a, out=out, backend="gpu-strassen")
    np.testing.assert_array_equal(out.get(), b.get() @ a.get())
    assert {stream for _, stream in gpu.launches[-12:]} == {CAPTURING}


def test_an_infinite_alpha_is_left_to_the_base(gpu):
    problem = Problem(9, 9, 9, alpha=np.inf)
    operands = Operands.generate(problem, 1)
    verify(problem, operands, compute(problem, operands, 2, base="gpu-naive"), seed=1)


@pytest.mark.parametrize(
    ("problem", "reason"),
    (
        (Problem(4, 4, 4, "min_plus"), "min has no inverse, Strassen needs subtraction"),
        (Problem(4, 4, 4, "plus_min"), "min does not distribute over plus, Strassen multiplies sums"),
    ),
)
def test_declines_what_is_no_ring(problem, reason):
    assert BACKEND.declines(problem) == reason


@pytest.mark.parametrize("options", ({"base": "gpu-strassen"}, {"base": "cpu-simd"}, {"crossover": 0}, {"form": "own"}))
def test_illegal_options_are_refused_by_name(gpu, options):
    problem = Problem(16, 16, 16)
    plan = BACKEND.plan(problem, detect()).override({"crossover": 4, **options})
    with pytest.raises(PlanError, match=str(*options.values())):
        BACKEND.prepare(plan, Operands.generate(problem, 1))


def test_is_never_chosen_automatically(gpu):
    chosen = [backend.name for backend in registry.automatic(Problem(9000, 9000, 9000), on_device=True)]
    assert "gpu-tuned" in chosen
    assert "gpu-strassen" not in chosen


@pytest.mark.deep(but=2)
@needs_nvrtc
@pytest.mark.parametrize("dtype", ("float32", "float64"))
@pytest.mark.parametrize("form", ("winograd", "classic"))
def test_sums_compile_and_spill_nothing(gpu, form, dtype):
    for n in (8192, 8191):
        problem = Problem(n, n, n, dtype=np.dtype(dtype), **SCALED)
        matrices = (Matrix(Place(x), n) for x in ("a", "b", "c", "out"))
        program = BACKEND.program(plan_of(problem, 4096, form=form), *matrices)
        for kernel in {kernel for kernel in program.kernels() if kernel.stem in ("spread", "gather")}:
            taken = resources(compile_kernel(kernel.stem, kernel.defines, "sm_90"))[kernel.function]
            assert taken.spill_bytes == 0
            assert taken.registers <= 128
