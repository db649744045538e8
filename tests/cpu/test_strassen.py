"""Strassen's algorithm with several levels of recursion, its base, and its own error bound."""

import dataclasses
import tracemalloc

import numpy as np
import pytest

from backends._strassen.form import FORMS, PRODUCTS
from backends.cpu import strassen
from backends.cpu.strassen import StrassenExecution
from harness import Operands, PlanError, Problem, Semiring, VerificationError, gemm, registry
from harness.api.choice import choose
from harness.composite import Composite
from harness.errors import BackendUnavailable
from harness.proof.contract import run_case
from harness.proof.contract_cases import cases
from harness.proof.verify import verify
from harness.tuning.cpu import STRASSEN_CROSSOVER
from tests._support.strassen_products import BACKEND, HERE, compute, plan_of, whole_numbers

# A base whose kernels over int16 and bool other tests compile too: five loops of cpu-packed take seconds a dtype.
OF_ANY_DTYPE = "cpu-naive"
ODD_SIZES = ((5, 5, 5), (8, 8, 8), (9, 14, 11), (16, 17, 33), (31, 7, 19), (37, 41, 43))


def levels_of(problem, crossover):
    execution = BACKEND.prepare(plan_of(problem, crossover), Operands.generate(problem, 1))
    return len(execution._levels) if isinstance(execution, StrassenExecution) else 0


class TestRecursion:
    @pytest.mark.parametrize(
        ("sizes", "crossover", "levels"),
        [
            ((16, 16, 16), 17, 0),
            ((16, 16, 16), 9, 0),
            ((16, 16, 16), 8, 1),
            ((17, 17, 17), 9, 1),
            ((17, 17, 17), 5, 2),
            ((64, 64, 9), 5, 1),
            ((64, 7, 64), 2, 2),
            ((16, 16, 16), 1, 4),
            ((1, 16, 16), 1, 0),
            ((16, 16, 0), 1, 0),
        ],
    )
    def test_halves_the_sizes_while_no_half_is_smaller_than_the_crossover(self, sizes, crossover, levels):
        assert levels_of(Problem(*sizes), crossover) == levels

    @pytest.mark.deep
    def test_every_case_of_the_contract_passes_with_recursion(self):
        """Of every other dtype the contract itself has cases with recursion, among its small blocks."""
        found = [
            dataclasses.replace(case, parameters={"crossover": 4})
            for case in cases(BACKEND, Problem(64, 64, 64, dtype=np.dtype(np.float32)), HERE)
            # A (x) I is A up to the bound: quarters of A are added and subtracted again, and round.
            if case.aspect != "identity"
        ]
        assert max(levels_of(case.problem, 4) for case in found) >= 3
        for case in found:
            if BACKEND.refuses(case.problem) is None:
                run_case(BACKEND, case, HERE)

    @pytest.mark.deep(but=8)
    @pytest.mark.parametrize("sizes", ODD_SIZES)
    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    @pytest.mark.parametrize("layout", ["CCC", "FAF"])
    def test_whole_numbers_are_exact_at_every_size_and_level(self, sizes, dtype, layout):
        problem = Problem(*sizes, dtype=np.dtype(dtype), layout=layout)
        operands = whole_numbers(problem)
        for crossover in (1 if max(sizes) < 20 else 4, 8, 100):
            np.testing.assert_array_equal(compute(problem, operands, crossover), operands.a @ operands.b)

    @pytest.mark.deep
    def test_integers_wrap_exactly(self, rng):
        problem = Problem(21, 18, 23, dtype=np.dtype(np.int16), alpha=3, beta=2, accumulate=True)
        operands = Operands.generate(problem, 1)
        for x in (operands.a, operands.b, operands.c):
            x[...] = rng.integers(-(1 << 15), 1 << 15, x.shape, np.int16)
        expected = operands.a @ operands.b * np.int16(3) + operands.c * np.int16(2)
        np.testing.assert_array_equal(compute(problem, operands, 2, OF_ANY_DTYPE), expected)

    def test_sums_modulo_two(self):
        problem = Problem(21, 18, 23, "lxor_land", np.dtype(bool))
        operands = Operands.generate(problem, 1)
        expected = (operands.a.astype(int) @ operands.b.astype(int)) % 2 == 1
        np.testing.assert_array_equal(compute(problem, operands, 2, OF_ANY_DTYPE), expected)

    def test_takes_the_levels_that_its_plan_says_through_the_public_call(self, monkeypatch):
        prepared = []
        allocate = strassen._allocate
        monkeypatch.setattr(strassen, "strassen_crossover", lambda base: 4)
        monkeypatch.setattr(strassen, "_allocate", lambda *a: prepared.append(a) or allocate(*a))
        a = whole_numbers(Problem(19, 19, 19)).a
        c = a[::-1].copy()
        expected = 2 * a @ a.T - c
        np.testing.assert_array_equal(gemm(a, a.T, c, alpha=2, beta=-1, out=c, backend="cpu-strassen"), expected)
        squared = a @ a
        np.testing.assert_array_equal(gemm(a, a, out=a, backend="cpu-strassen"), squared)
        assert [level for _, level in prepared] == [1, 2, 1, 2]

    def test_run_allocates_nothing(self):
        problem = Problem(201, 202, 203, alpha=2.0, accumulate=True)
        operands = Operands.generate(problem, 1)
        execution = BACKEND.prepare(plan_of(problem, 40), operands)
        execution.run()
        tracemalloc.start()
        execution.run()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < operands.a.nbytes / 20

    def test_workspace_is_what_the_docstring_says(self):
        problem = Problem(80, 120, 160)
        execution = BACKEND.prepare(plan_of(problem, 20), Operands.generate(problem, 1))
        held = sum(x.size for level in execution._levels for x in level)
        assert held == 7 * (80 * 160 + 160 * 120 + 80 * 120) * (1 / 4 + 1 / 16)


class TestForms:
    """Winograd's form and the classic one, as data and as kernels."""

    @pytest.mark.parametrize("form", FORMS.values(), ids=lambda form: form.name)
    def test_sums_are_those_of_the_product_of_quarters(self, form, rng):
        a, b = rng.integers(-9, 9, (2, 4, 4))
        left, right = (quarters_and_sums(x, seven) for x, seven in ((a, form.left), (b, form.right)))
        values = {
            f"p{i + 1}": left[x] @ right[y]
            for i, (x, y) in enumerate(zip(form.left.names, form.right.names, strict=True))
        }
        evaluate(values, form.results)
        top, bottom = (np.hstack([values[f"c{i}1"], values[f"c{i}2"]]) for i in (1, 2))
        np.testing.assert_array_equal(np.vstack([top, bottom]), a @ b)

    def test_seven_products_and_15_or_18_sums(self):
        counts = {f.name: len(f.left.sums) + len(f.right.sums) + len(f.results) for f in FORMS.values()}
        assert counts == {"winograd": 15, "classic": 18}
        assert {len(seven.names) for form in FORMS.values() for seven in (form.left, form.right)} == {PRODUCTS}

    @pytest.mark.deep(but=2)
    @pytest.mark.parametrize("sizes", ODD_SIZES)
    def test_whole_numbers_are_exact_by_the_classic_form(self, sizes):
        problem = Problem(*sizes)
        operands = whole_numbers(problem)
        for crossover in (4, 8):
            found = compute(problem, operands, crossover, form="classic")
            np.testing.assert_array_equal(found, operands.a @ operands.b)

    def test_the_classic_form_has_the_smaller_bound_and_is_within_it(self):
        problem = Problem(96, 97, 95)
        operands = Operands.generate(problem, 2)
        true = np.longdouble(operands.a) @ np.longdouble(operands.b)
        for crossover in (12, 24, 48):
            bounds = [BACKEND.extra_error(plan_of(problem, crossover, form=name), operands) for name in FORMS]
            error = float(np.abs(compute(problem, operands, crossover, form="classic") - true).max())
            assert 0 < error < bounds[1] < bounds[0]


def quarters_and_sums(x, seven):
    values = {f"x{i + 1}{j + 1}": x[2 * i : 2 * i + 2, 2 * j : 2 * j + 2] for i in range(2) for j in range(2)}
    return evaluate(values, seven.sums)


def evaluate(values, sums):
    for name, sign, x, y in sums:
        values[name] = values[x] + values[y] if sign == "+" else values[x] - values[y]
    return values


class TestBase:
    @pytest.mark.parametrize("base", ["cpu-naive", "cpu-simd", "cpu-numpy"])
    def test_any_backend_computes_the_parts(self, base):
        problem = Problem(21, 26, 19, alpha=2.0, beta=0.5, accumulate=True)
        operands = whole_numbers(problem)
        expected = 2 * operands.a @ operands.b + 0.5 * operands.c
        np.testing.assert_array_equal(compute(problem, operands, 4, base), expected)

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            *(("base", base) for base in ("cpu-none", "cpu-strassen", "gpu-naive", 3)),
            *(("crossover", size) for size in (0, -1, "many", True)),
            ("form", "own"),
        ],
    )
    def test_an_option_without_a_meaning_is_refused_by_name(self, name, value):
        problem = Problem(16, 16, 16)
        with pytest.raises(PlanError, match=f"{name}={value!r}"):
            BACKEND.prepare(plan_of(problem, **{"crossover": 4, name: value}), Operands.generate(problem, 1))

    def test_the_default_is_the_first_that_was_measured_and_is_able(self, monkeypatch):
        problem = Problem(16, 16, 16)
        names = [backend.name for backend in registry.able(problem)]
        first = next(name for name in STRASSEN_CROSSOVER if name in names)
        assert BACKEND.plan(problem, HERE).options == {
            "base": first,
            "crossover": STRASSEN_CROSSOVER[first],
            "form": "winograd",
        }
        others = [registry.find(name) for name in ("cpu-strassen", "cpu-tiled", "cpu-naive")]
        monkeypatch.setattr(registry, "able", lambda problem, **_: iter(others))
        assert BACKEND.plan(problem, HERE).options["base"] == "cpu-tiled"
        monkeypatch.setattr(registry, "able", lambda problem, **_: iter(others[:1]))
        with pytest.raises(BackendUnavailable, match="no backend here computes the parts"):
            BACKEND.plan(problem, HERE)

    def test_is_never_chosen_automatically(self):
        for name, dtype in (("plus_times", float), ("plus_times", int), ("lxor_land", bool)):
            assert not isinstance(choose(Problem(4096, 4096, 4096, name, np.dtype(dtype)), "auto"), Composite)

    def test_the_base_gets_the_threads_of_the_plan(self, monkeypatch):
        planned = []
        packed = registry.find("cpu-packed")
        plan = type(packed).plan
        monkeypatch.setattr(type(packed), "plan", lambda self, p, m: planned.append(m.threads) or plan(self, p, m))
        problem = Problem(16, 16, 16)
        own = BACKEND.plan(problem, HERE.with_threads(1)).override({"base": "cpu-packed", "crossover": 4})
        BACKEND.prepare(own, Operands.generate(problem, 1))
        assert set(planned) == {1}


@pytest.mark.parametrize(
    ("semiring", "reason"),
    [
        ("min_plus", "min has no inverse, Strassen needs subtraction"),
        ("lor_land", "lor has no inverse, Strassen needs subtraction"),
        ("logaddexp_plus", "logaddexp has no inverse, Strassen needs subtraction"),
        ("plus_min", "min does not distribute over plus, Strassen multiplies sums"),
        (Semiring.of("lxor", "lor"), "lor does not distribute over lxor, Strassen multiplies sums"),
        (
            Semiring.from_functions("own", lambda c, t: c + t, lambda x, y: x * y, zero=0),
            "own.add has no inverse, Strassen needs subtraction",
        ),
    ],
)
def test_declines_what_is_no_ring(semiring, reason):
    dtype = np.dtype(bool if reason.startswith("lor") else float)
    assert BACKEND.declines(Problem(4, 4, 4, semiring, dtype)) == reason


class TestSpecialValues:
    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300])
    @pytest.mark.parametrize("where", ["a", "b"])
    def test_what_no_sum_may_hold_reaches_its_own_row_or_column_only(self, value, where):
        problem = Problem(19, 21, 23)
        operands = whole_numbers(problem)
        getattr(operands, where)[17, 4] = value
        result = compute(problem, operands, 3)
        touched = np.isnan(result) | (np.abs(result) > 1e3)
        lines = touched[17] if where == "a" else touched[:, 4]
        assert lines.any()
        lines[...] = False
        assert not touched.any()
        assert BACKEND.extra_error(plan_of(problem, 3), operands) == 0
        verify(problem, operands, result, seed=1)

    def test_largest_values_that_are_let_into_sums_do_not_overflow(self):
        problem = Problem(16, 16, 16, dtype=np.dtype(np.float32))
        operands = Operands.generate(problem, 1)
        levels, k = 4, 16
        largest = np.float32(np.sqrt(float(np.finfo(np.float32).max) / (4 * k * 32**levels)))
        operands.a[...] = np.where(operands.a > 0, largest, -largest)
        operands.b[...] = np.where(operands.b > 0, largest, -largest)
        assert BACKEND.extra_error(plan_of(problem, 1), operands) > 0
        assert np.isfinite(compute(problem, operands, 1)).all()
        operands.a[3, 5] *= 2
        assert BACKEND.extra_error(plan_of(problem, 1), operands) == 0

    def test_an_infinite_alpha_is_left_to_the_base(self):
        problem = Problem(9, 9, 9, alpha=np.inf)
        operands = Operands.generate(problem, 1)
        verify(problem, operands, compute(problem, operands, 2), seed=1)


class TestErrorBound:
    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    @pytest.mark.parametrize(("crossover", "levels"), [(64, 1), (32, 2), (16, 3), (8, 4)])
    def test_formula(self, dtype, crossover, levels):
        problem = Problem(128, 128, 128, dtype=np.dtype(dtype), alpha=-2.0)
        operands = whole_numbers(problem)
        k0 = 128 >> levels
        a = operands.a.astype(float).reshape(128, -1, k0)
        b = operands.b.astype(float).reshape(-1, k0, 128)
        norms = np.sqrt((a**2).sum(axis=2).max() * (b**2).sum(axis=1).max())
        f = 18**levels * (k0 + 6) - 6 * 2**levels
        unit = np.finfo(dtype).eps / 2
        expected = 2 * norms * f * unit / (1 - f * unit)
        assert BACKEND.extra_error(plan_of(problem, crossover), operands) == pytest.approx(expected, rel=1e-6)

    def test_there_is_none_without_recursion_and_none_of_integers(self):
        for problem, crossover in ((Problem(64, 64, 64), 64), (Problem(64, 64, 64, dtype=np.dtype(int)), 8)):
            assert BACKEND.extra_error(plan_of(problem, crossover), Operands.generate(problem, 1)) == 0

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    @pytest.mark.parametrize("crossover", [50, 25, 6])
    def test_unevenly_scaled_rows_obey_it_but_not_the_element_wise_bound(self, dtype, crossover):
        problem = Problem(101, 103, 107, dtype=np.dtype(dtype))
        operands = Operands.generate(problem, 1)
        operands.a[:40] *= 1e-6
        result = compute(problem, operands, crossover)
        extra = BACKEND.extra_error(plan_of(problem, crossover), operands)
        said = verify(problem, operands, result, seed=1, extra_error=extra)
        assert f"of the bound for ordinary sums plus {extra:.2g}" in said
        with pytest.raises(VerificationError):
            verify(problem, operands, result, seed=1)

    @pytest.mark.parametrize("scale", [1.0, 1e-3, 1e4])
    def test_error_of_every_element_is_within_it(self, scale):
        problem = Problem(96, 97, 95, dtype=np.dtype(np.float32), alpha=scale)
        operands = Operands.generate(problem, 2)
        operands.b[:, ::3] *= np.float32(scale)
        exact = scale * operands.a.astype(float) @ operands.b.astype(float)
        for crossover in (6, 12, 48):
            error = np.abs(compute(problem, operands, crossover) - exact).max()
            assert 0 < error < BACKEND.extra_error(plan_of(problem, crossover), operands)

    def test_the_check_and_the_record_use_it(self):
        from harness.run.task import gemm as task_of

        parameters = {"base": "cpu-packed", "crossover": 20}
        problem = Problem(80, 80, 80).to_json()
        task = task_of(problem=problem, backend="cpu-strassen", seed=1, threads=1, parameters=parameters)
        task.run()
        assert "of the bound for ordinary sums plus" in task.verify()
        task.operands.out[79, 79] += 1e-3
        with pytest.raises(VerificationError):
            task.verify()
