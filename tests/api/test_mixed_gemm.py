"""What a mixed product is to `gemm` and Problem: dtypes that fit, records, refusals."""

import json
from fractions import Fraction
from operator import mul

import ml_dtypes
import numpy as np
import pytest

from harness import Operands, PlanError, Problem, VerificationError, einsum, gemm, gemv, ger, machine, registry
from harness.dtypes import factors_dtype, mixed_dtypes
from harness.errors import ProblemError
from harness.proof.verify import verify
from harness.run import task
from harness.semiring import Semiring
from tests._support.mixed_products import assert_right
from tests._support.processes import python

BFLOAT16, E4M3, E5M2 = map(np.dtype, (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2))


class TestProblem:
    def test_records_keep_the_operands_dtype_and_old_ones_load(self):
        for narrow, wide in mixed_dtypes():
            problem = Problem(2, 3, 4, "plus_times", wide, operand_dtype=narrow, accumulate=True)
            assert Problem.from_json(json.loads(json.dumps(problem.to_json()))) == problem
            assert problem.bytes_moved == narrow.itemsize * (2 * 4 + 4 * 3) + wide.itemsize * 2 * 6
            assert str(problem) == f"plus_times {narrow.name} to {wide.name} 2x3x4"
        ordinary = Problem(2, 3, 4)
        assert "operand_dtype" not in ordinary.to_json()  # the keys of stored results are hashes of records
        assert Problem.from_json(ordinary.to_json()) == ordinary
        assert not ordinary.is_mixed
        assert Problem(2, 3, 4, operand_dtype=np.dtype(np.float64)) == ordinary

    @pytest.mark.parametrize(
        ("semiring", "dtype", "operands", "says"),
        (
            ("plus_times", "float64", "float16", "not summed in float64"),
            ("plus_times", "float32", "int8", "not summed in float32"),
            ("plus_times", "float32", "float64", "not summed in float32"),
            ("min_plus", "float64", "float32", "no mixed products"),
            ("min_plus", "float32", "float16", "no mixed products"),
            (Semiring.of("plus", "absdiff"), "float32", "float16", "no mixed products"),
        ),
    )
    def test_other_pairs_and_semirings_are_refused(self, semiring, dtype, operands, says):
        with pytest.raises(ProblemError, match=says):
            Problem(2, 2, 2, semiring, np.dtype(dtype), operand_dtype=np.dtype(operands))

    def test_a_stored_problem_is_a_task(self):
        for narrow, wide in mixed_dtypes():
            problem = Problem(90, 80, 70, "plus_times", wide, operand_dtype=narrow, alpha=2, beta=3, accumulate=True)
            made = task.gemm(problem=problem.to_json(), backend="cpu-mixed", seed=1, threads=1)
            made.spoil()
            with pytest.raises(VerificationError):
                made.verify()
            made.run()
            assert made.verify()
            assert made.facts()["problem"]["operand_dtype"] == narrow.name

    def test_without_the_package_there_is_no_bfloat16_and_all_else_works(self):
        program = (
            "import sys; sys.modules['ml_dtypes'] = None; import numpy as np; from harness import gemm, Problem;"
            "from harness.dtypes import mixed_dtypes; print(len(mixed_dtypes()));"
            "x = np.ones((2, 2), np.int8); print(gemm(x, x, dtype='int32').dtype);"
            "Problem.from_json({'m': 1, 'n': 1, 'k': 1, 'dtype': 'float32', 'operand_dtype': 'bfloat16'})"
        )
        done = python("-c", program, status=1)
        assert done.stdout.split() == ["5", "int32"]
        assert "bfloat16 needs the package ml_dtypes" in done.stderr


def of(*dtypes, size=3):
    return [np.ones((size, size), dtype) for dtype in dtypes]


class TestGemm:
    @pytest.mark.parametrize(("narrow", "wide"), mixed_dtypes(), ids=str)
    def test_a_mixed_product(self, narrow, wide):
        problem = Problem(33, 45, 70, "plus_times", wide, operand_dtype=narrow, accumulate=True)
        operands = Operands.generate(problem, 3)
        result = gemm(operands.a, operands.b, operands.c, dtype=wide)
        assert_right(problem, operands, result)
        stack = gemm(np.stack([operands.a, operands.a]), operands.b, operands.c, dtype=wide.name)
        np.testing.assert_array_equal(stack, np.stack([result, result]))
        out = operands.c.copy()
        assert gemm(operands.a, operands.b, out, dtype=wide, out=out) is out
        np.testing.assert_array_equal(out, result)

    def test_alpha_and_beta_belong_to_the_sums(self):
        a, b = np.full((5, 6), 100, np.int8), np.full((6, 7), 100, np.int8)
        c = np.full((5, 7), 10, np.int32)
        np.testing.assert_array_equal(gemm(a, b, c, alpha=1000, beta=-3, dtype="int32"), np.full((5, 7), 59999970))
        half = np.ones((2, 3), np.float16)
        np.testing.assert_array_equal(gemm(half, half.T, alpha=1e6, dtype="float32"), np.full((2, 2), 3e6))

    @pytest.mark.parametrize("dtype", ("float16", BFLOAT16))
    def test_without_a_dtype_the_error_names_it(self, dtype):
        with pytest.raises(ProblemError, match="dtype='float32' in the call"):
            gemm(*of(dtype, dtype))

    def test_without_a_dtype_int8_wraps_as_it_did(self):
        a = np.full((2, 2), 100, np.int8)
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(gemm(a, a), a @ a)
        assert gemm(a, a).dtype == np.int8

    def test_a_dtype_that_promotion_gives_changes_nothing(self):
        assert gemm(*of("float32", "float32"), dtype="float32").dtype == np.float32
        assert gemm(*of("float16", "float32"), dtype=np.float32).dtype == np.float32
        assert gemm(*of(BFLOAT16, "float32")).dtype == np.float32

    @pytest.mark.parametrize(
        ("arrays", "dtype", "says"),
        (
            (of("float64", "float64"), "float32", "not that of the product"),
            (of("float32", "float32"), "int64", "not that of the product"),
            (of("int8", "int8"), "float32", "not that of the product"),
            (of("int8", "int16"), "int32", "not that of the product"),
            (of("uint8", "uint8"), "uint32", "not that of the product"),
            (of("float16", BFLOAT16), "float32", "no common dtype"),
            (of("float16", BFLOAT16), None, "no common dtype"),
            (of("float16", "float16", "float16"), "float32", "c has not the dtype of the sums"),
            (of("int8", "int8", "int64"), "int32", "c has not the dtype of the sums"),
            (of("float32", "float32"), "nonsense", "not a NumPy dtype"),
        ),
    )
    def test_nothing_is_converted_silently(self, arrays, dtype, says):
        with pytest.raises(ProblemError, match=says):
            gemm(*arrays, dtype=dtype)

    def test_out_must_have_the_dtype_of_the_sums(self):
        with pytest.raises(ProblemError, match="out cannot take the result"):
            gemm(*of("int8", "int8"), dtype="int32", out=np.empty((3, 3), np.int8))


class TestTwoFormats:
    """Factors of two narrow floats, against sums of their exact products in float64."""

    PAIRS = ((E4M3, E5M2), (E5M2, E4M3), (E4M3, np.dtype("float16")), (BFLOAT16, E5M2))

    @staticmethod
    def drawn(shape, dtype, seed):
        bits = np.random.default_rng(seed).integers(0, 256, (*shape, dtype.itemsize), np.uint8)
        values = bits.view(dtype)[..., 0]
        with np.errstate(invalid="ignore"):  # of NaN
            return np.where(np.abs(values.astype(float)) < 1000, values, dtype.type(1))

    @staticmethod
    def check(result, terms, *, added=0.0, factor=1.0):
        """`terms`: of each element the exact products, along the last axis."""
        count = terms.shape[-1] + 3
        allowed = count * 2.0**-24 * (abs(factor) * np.abs(terms).sum(-1) + np.abs(added)) + count * 2.0**-126
        assert result.dtype == np.float32
        assert (np.abs(result - (factor * terms.sum(-1) + added)) <= 1.01 * allowed).all()

    @pytest.mark.parametrize("pair", PAIRS, ids=str)
    def test_the_common_format_holds_every_number_of_both(self, pair):
        common = factors_dtype(*pair)
        assert common == factors_dtype(*reversed(pair))
        for dtype in pair:
            values = np.arange(1 << 8 * dtype.itemsize, dtype=f"u{dtype.itemsize}").view(dtype)
            with np.errstate(invalid="ignore"):
                np.testing.assert_array_equal(values.astype(common).astype(float), values.astype(float))

    @pytest.mark.parametrize(
        "pair", ((E4M3, "float32"), ("float16", BFLOAT16), ("int8", "uint8"), ("float16", "float32"), ("int8", E4M3))
    )
    def test_others_have_none(self, pair):
        assert factors_dtype(*map(np.dtype, pair)) is None

    @pytest.mark.parametrize(("of_a", "of_b"), PAIRS, ids=str)
    @pytest.mark.parametrize("scalars", ({}, {"alpha": -1.5}, {"alpha": 3.0, "beta": 0.25}))
    @pytest.mark.parametrize("layout", ("CC", "FC", "CF", "FF"))
    def test_products_batches_c_and_out(self, of_a, of_b, scalars, layout):
        for turn in range(3):  # the second call of a kind, and the third, are remembered ones
            a, b = self.drawn((2, 13, 70), of_a, turn), self.drawn((70, 9), of_b, turn + 9)
            c = np.random.default_rng(turn).standard_normal((13, 9)).astype(np.float32) if "beta" in scalars else None
            terms = a.astype(float)[:, :, None] * b.astype(float).T
            added = 0.0 if c is None else scalars["beta"] * c.astype(float)
            turned = [np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2) for x in (a, b)]
            x, y = (t if order == "F" else x for x, t, order in zip((a, b), turned, layout, strict=True))
            before = x.tobytes(), y.tobytes()
            self.check(gemm(x, y, c, dtype="float32", **scalars), terms, added=added, factor=scalars.get("alpha", 1))
            out = np.empty((13, 9), np.float32)
            assert gemm(x[1], y, c, dtype="float32", out=out, **scalars) is out
            self.check(out, terms[1], added=added, factor=scalars.get("alpha", 1))
            assert before == (x.tobytes(), y.tobytes())

    @pytest.mark.parametrize(("of_a", "of_b"), PAIRS[:2], ids=str)
    def test_einsum_and_vectors(self, of_a, of_b):
        a, b = self.drawn((4, 6, 33), of_a, 1), self.drawn((4, 33, 5), of_b, 2)
        wide_a, wide_b = a.astype(float), b.astype(float)
        terms = wide_a[:, :, None] * wide_b.swapaxes(-1, -2)[:, None]
        self.check(einsum("bik,bkj->bij", a, b, dtype="float32"), terms)
        self.check(einsum("bik,bkj->ij", a, b, dtype="float32"), np.moveaxis(terms, 0, -2).reshape(6, 5, -1))
        self.check(gemv(a[0], b[0, :, 0], dtype="float32"), terms[0, :, 0])
        self.check(ger(a[0, 0], b[0, 0], dtype="float32"), np.multiply.outer(wide_a[0, 0], wide_b[0, 0])[..., None])
        three = einsum("ik,kj,jl->il", a[0], b[0], b[0].T, dtype="float32")
        np.testing.assert_allclose(three, wide_a[0] @ wide_b[0] @ wide_b[0].T, rtol=1e-4, atol=1e3)

    @pytest.mark.parametrize("dtype", (E4M3, E5M2))
    def test_float8_of_any_strides_beside_wide_numbers(self, dtype):
        values = np.arange(256, dtype=np.uint8).view(dtype)
        values = np.where(np.isfinite(values.astype(float)), values, dtype.type(3)).reshape(16, 16)
        for x in (values, values.T, values[::-2, 3:], values[::2].T, values[:1], values[:, ::-1]):
            wide = np.eye(x.shape[1], dtype=np.float32)
            with np.errstate(all="raise"):
                np.testing.assert_array_equal(gemm(x, wide), x.astype(np.float32))
            stack = np.broadcast_to(x, (2, *x.shape)).transpose(0, 2, 1)
            np.testing.assert_array_equal(gemm(np.eye(x.shape[1]), stack), stack.astype(float))
        assert einsum("ii->", values, dtype="float32") == values.astype(float).trace()
        of_two = einsum(",->", values[0, 3], values[1, 2], dtype="float32")
        assert of_two == float(values[0, 3]) * float(values[1, 2])

    def test_what_is_remembered_tells_formats_apart(self):
        bits = np.arange(64, dtype=np.uint8).reshape(8, 8)
        for of_a, of_b in ((E4M3, E4M3), (E4M3, E5M2), (E5M2, E4M3), (E5M2, E5M2), (E4M3, E4M3)):
            a, b = bits.view(of_a), bits.view(of_b)
            self.check(gemm(a, b, dtype="float32"), a.astype(float)[:, None] * b.astype(float).T)

    @pytest.mark.parametrize("dtype", (None, E4M3, "float64"))
    def test_other_results_are_refused_with_the_dtype_that_there_is(self, dtype):
        a, b = np.ones((3, 4), E4M3), np.ones((4, 5), E5M2)
        for call in (lambda: gemm(a, b, dtype=dtype), lambda: gemv(a, b[:, 0], dtype=dtype)):
            with pytest.raises(ProblemError, match="no common dtype") as caught:
                call()
            assert caught.value.fix.startswith("dtype='float32' in the call")
        with pytest.raises(ProblemError, match="dtype float8_e4m3fn is not supported") as caught:
            gemm(a, a.T, dtype=E4M3)
        assert caught.value.fix.startswith("dtype='float32' in the call")
        with pytest.raises(ProblemError, match="out cannot take the result"):
            gemm(a, b, dtype="float32", out=np.empty((3, 5), E4M3))

    @pytest.mark.parametrize("name", ("alpha", "beta"))
    def test_scales_are_one_number_each(self, name):
        a, b, c = np.ones((3, 4), E4M3), np.ones((4, 5), E5M2), np.ones((3, 5), np.float32)
        for scale in (np.ones(3, np.float32), np.ones((3, 1), np.float32), np.ones(1, E4M3)):
            with pytest.raises(ProblemError, match=f"{name} is no value") as caught:
                gemm(a, b, c, dtype="float32", **{name: scale})
            assert caught.value.fix == "one number: scales of rows and of columns multiply the result"
        for scale in (E4M3.type(2), np.float32(2), np.array(2, BFLOAT16)):
            assert gemm(a, b, dtype="float32", alpha=scale)[0, 0] == 8


class TestFloat32WithSumsOfFloat64:
    """The lecture's product on the host. Sums are held against exact ones, of fractions."""

    BACKENDS = (None, "cpu-mixed", "cpu-packed", "cpu-naive")
    ROWS = (None, "cpu-mixed", "cpu-naive", pytest.param("cpu-packed", marks=pytest.mark.deep))

    @staticmethod
    def exact(a, b):
        rows, columns = ([[Fraction(float(x)) for x in line] for line in lines] for lines in (a, b.T))
        return np.array([[float(sum(map(mul, row, column))) for column in columns] for row in rows])

    @pytest.mark.parametrize("backend", ROWS)
    def test_only_sums_of_float64_are_rounded(self, backend):
        rng = np.random.default_rng(3)
        a, b = (rng.standard_normal(size).astype(np.float32) for size in ((9, 130), (130, 7)))
        a[:, 65:], b[65:] = -a[:, :65], b[:65] * np.float32(1 - 2.0**-20)  # sums that nearly cancel
        result = gemm(a, b, dtype="float64", backend=backend or "auto")
        wanted, magnitude = self.exact(a, b), np.abs(a).astype(float) @ np.abs(b).astype(float)
        assert result.dtype == np.float64
        assert (np.abs(result - wanted) <= 131 * 2.0**-53 * magnitude).all()
        assert np.abs(gemm(a, b) - wanted).max() > 1e5 * np.abs(result - wanted).max(), "sums of float32 are far worse"

    @pytest.mark.parametrize("backend", ROWS)
    def test_alpha_beta_c_strides_and_sizes(self, backend):
        for m, n, k in ((0, 3, 2), (3, 2, 0), (1, 1, 1), (13, 11, 37)):
            for layout in ("CCC", "FFC", "AAF"):
                for scalars in ({}, {"alpha": 1 / 3, "beta": -2.5, "accumulate": True}):
                    problem = Problem(m, n, k, operand_dtype=np.dtype(np.float32), layout=layout, **scalars)
                    operands = Operands.generate(problem, 7)
                    factors = {"alpha": problem.alpha, "beta": problem.beta} if scalars else {}
                    out = operands.out
                    gemm(
                        operands.a,
                        operands.b,
                        operands.c,
                        out=out,
                        dtype="float64",
                        backend=backend or "auto",
                        **factors,
                    )
                    verify(problem, operands, out, seed=1)

    def test_special_values_a_batch_and_a_second_call(self):
        a = np.array([[np.inf, 1, 0], [np.nan, 3e38, 1]], np.float32)
        b = np.array([[1, 0], [3e38, 1], [-1e-45, 2]], np.float32)
        for backend in self.BACKENDS[1:]:
            for _ in range(2):
                with np.errstate(invalid="ignore"):
                    want = a.astype(float) @ b.astype(float)
                np.testing.assert_array_equal(gemm(a, b, dtype="float64", backend=backend), want)
        stack = gemm(np.stack([a[:, 1:]] * 3), b[1:], dtype="float64")
        np.testing.assert_array_equal(stack, np.stack([a[:, 1:].astype(float) @ b[1:].astype(float)] * 3))

    def test_packing_is_what_widens(self):
        problem = Problem(5, 6, 7, operand_dtype=np.dtype(np.float32))
        backend = registry.find("cpu-packed")
        plan = backend.plan(problem, machine.detect()).override({"packing": "off"})
        with pytest.raises(PlanError, match="packing is what widens"):
            backend.prepare(plan, Operands.generate(problem, 1))
