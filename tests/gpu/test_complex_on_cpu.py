"""Complex products of GPUs, executed: by four real ones around each base, and by residues with two layers a modulus."""

import itertools

import numpy as np
import pytest

from backends.gpu import four_m
from backends.gpu._base import backend as gpu_backend
from backends.gpu._program.program import Matrix, Place
from backends.gpu._residues.moduli import root_of, table
from backends.gpu._tensor import residue_product, row_product
from backends.gpu._tensor.residue_product import SPLIT_MODULI
from harness import gemm, hemv, herk
from harness.api.arrays import kind_of
from harness.api.choice import choose
from harness.api.remembered import repeats
from harness.dtypes import named_dtype
from harness.errors import PlanError
from harness.interface import prepare
from harness.machine import detect
from harness.operands import Operands, conjugated
from harness.problem import Problem
from harness.proof.verify import verify
from harness.tuning.gpu import residues as tuning
from harness.tuning.gpu import tensor_cores, thin_tensor_cores
from tests.api.test_in_place import check as check_in_place
from tests.gpu.host_gpu import install
from tests.gpu.host_kernels import BY_THE_SHIM
from tests.gpu.on_cpu import RUNGS, check_resources, matrices, needs_nvrtc
from tests.gpu.residue_products import ByteProducts, compute

pytestmark = BY_THE_SHIM

OFF = {"gate": "off", "moduli": 15}


@pytest.fixture
def bytes_by_numpy(on_the_cpu, monkeypatch):
    monkeypatch.setattr(gpu_backend, "GpuExecution", ByteProducts)


def test_pairs_of_residues_multiply_as_complex_numbers(rng):
    assert all(np.gcd(p, q) == 1 for p, q in itertools.combinations(SPLIT_MODULI, 2))
    for p in SPLIT_MODULI:
        s = root_of(p)
        re, im, u, v = (int(x) for x in rng.integers(-(2**62), 2**62, 4))
        plus, minus = (re + s * im) * (u + s * v) % p, (re - s * im) * (u - s * v) % p
        assert (plus + minus - 2 * (re * u - im * v)) % p == 0
        assert (plus - minus - 2 * s * (re * v + im * u)) % p == 0


@pytest.mark.parametrize("part", ("re", "im"))
@pytest.mark.parametrize("count", tuning.NUMBERS["complex128"].counts)
def test_sums_of_two_bytes_times_upper_weights_are_exact(count, part):
    x = table(count, part)
    grain = min(int(u) & -int(u) for u in x.upper if u)
    assert sum(2 * 255 * int(u) for u in x.upper) < grain << 53
    assert 2 ** (2 * x.half_bits + 1) < x.product


@pytest.mark.deep(but=3)
@pytest.mark.parametrize("dtype", ("complex64", "complex128"))
@pytest.mark.parametrize("layout", ("CCC", "FFC", "CFF", "FCF"))
def test_residues_in_any_layout(layout, dtype, bytes_by_numpy):
    for moduli in tuning.NUMBERS[dtype].counts:
        compute((19, 70, 35), dtype=dtype, layout=layout, gate="off", moduli=moduli)
    scalars = {"accumulate": True, "alpha": 2.5 - 1j, "beta": -0.5j}
    for conjugate in ("a", "b", "ab"):
        compute((19, 70, 35), dtype=dtype, layout=layout, conjugate=conjugate, **scalars, gate="off")


def whole_numbers(operands):
    for x in (operands.a, operands.b):
        x.real[...], x.imag[...] = np.rint(100 * x.real), np.rint(100 * x.imag)


@pytest.mark.deep(but=2)
@pytest.mark.parametrize("size", ((1, 1, 1), (2, 65, 128), (17, 64, 129), (33, 31, 127), (3, 130, 1030)))
def test_sizes_around_every_edge_are_exact_in_whole_numbers(size, bytes_by_numpy):
    operands, result, _ = compute(size, whole_numbers, dtype="complex128", gate="off")
    assert (result == operands.a @ operands.b).all()


def test_products_too_long_for_one_launch_and_panels_of_columns(bytes_by_numpy, monkeypatch):
    monkeypatch.setattr(residue_product, "LONGEST", 128)
    operands, result, _ = compute((9, 140, 300), whole_numbers, dtype="complex128", gate="off", panel=64)
    assert (result == operands.a @ operands.b).all()


@pytest.mark.parametrize(
    ("dtype", "change", "chosen"),
    [
        pytest.param("complex128", "normal", 15, marks=pytest.mark.deep),
        ("complex64", "normal", 7),
        ("complex128", "real", 0),  # half of all elements are zeros: nothing is proven
        ("complex128", "wide", 0),
        ("complex64", "nan", 0),
        ("complex128", "infinite", 0),
    ],
)
def test_gate_chooses_by_the_values(dtype, change, chosen, bytes_by_numpy, monkeypatch, rng):
    monkeypatch.setattr(ByteProducts, "has_native", dtype == "complex64")

    def fill(operands):
        for x in (operands.a, operands.b):
            x.real[...], x.imag[...] = rng.standard_normal(x.shape), rng.standard_normal(x.shape) * (change != "real")
        if change == "wide":
            operands.a *= np.exp2(rng.integers(-40, 40, operands.a.shape))
        if change in ("nan", "infinite"):
            operands.a[3, 5] = {"nan": np.nan, "infinite": complex(1, np.inf)}[change]

    size = (24, 20, 3000) if chosen else (13, 20, 200)
    for options in (
        {"layout": "CCC"},
        {"layout": "FCF", "alpha": 1j, "accumulate": True, "beta": 2.0, "conjugate": "b"},
    ):
        _, _, execution = compute(size, fill, dtype=dtype, **options)
        assert execution.found("moduli")[0] == chosen


def test_without_terms_there_is_c_alone(bytes_by_numpy):
    compute((3, 4, 0), dtype="complex64", accumulate=True, beta=2j)
    compute((3, 4, 0), dtype="complex128")


def test_what_bounds_single_elements_is_of_real_numbers(bytes_by_numpy):
    with pytest.raises(PlanError, match="neither certified nor balanced"):
        compute((3, 4, 5), dtype="complex128", gate="certified")


# ------------------------------------------------------------------------------- whole calls, by the libraries too

BASES = ("gpu-naive", "gpu-tiled", "gpu-tuned", "gpu-cublas")
LAYOUTS = ("CCC", "FFC", "CFF", "FCF")


@pytest.fixture
def gpu(monkeypatch):
    """Return a GPU that the host plays, on which nothing is remembered."""
    repeats.forget()
    yield install(monkeypatch)
    repeats.forget()


def call(name, size, change=lambda operands: None, base=None, **kind):
    """Compute twice by a backend, and prove it right."""
    problem = Problem(*size, **kind)
    operands = Operands.generate(problem, sum(size))
    change(operands)
    backend = RUNGS[name]
    plan = backend.plan(problem, detect()).override({"base": base} if base else {})
    product = prepare(backend, plan, operands)
    for _ in range(2):
        operands.out[...] = 77
        result = product.run_once()
        verify(problem, operands, result, seed=1, extra_error=backend.extra_error(plan, operands))
    return operands, result


@pytest.mark.parametrize("base", BASES)
def test_four_real_products_by_any_base_in_any_layout(base, gpu):
    for layout in LAYOUTS:
        call("gpu-four-m", (19, 37, 21), base=base, dtype="complex128", layout=layout)
    for layout, conjugate in itertools.product(LAYOUTS, ("a", "b", "ab")):
        kind = {"dtype": "complex64", "alpha": 2.5 - 1j, "beta": -0.5j, "accumulate": True}
        call("gpu-four-m", (9, 34, 40), base=base, layout=layout, conjugate=conjugate, **kind)


# Rows, columns and steps whose lines are whole ones of a cache, in each layout; several tiles, and edges of all.
BROUGHT = (
    ("CCC", (137, 72, 40)),
    ("FFC", (72, 137, 24)),
    ("CFF", (75, 70, 24)),
    ("FCC", (72, 64, 37)),
    ("CCF", (9, 8, 16)),
)


def bring(patch):
    """Let the copy engine bring tiles for products of any size."""
    patch.setattr(row_product, "reads_complex", lambda *_: True)
    patch.setattr(tensor_cores, "suits_hopper", lambda *_: True)
    patch.setattr(thin_tensor_cores, "thin_choice", lambda *_, **__: None)


@pytest.fixture
def brought(gpu, monkeypatch):
    bring(monkeypatch)


@pytest.mark.deep(but=2)
@pytest.mark.parametrize(("layout", "size"), BROUGHT)
def test_complex_numbers_are_multiplied_as_they_lie(layout, size, brought, monkeypatch):
    backend = RUNGS["gpu-four-m"]
    for conjugate, scalars in itertools.product(
        ("", "a", "b", "ab"), ({}, {"accumulate": True}, {"accumulate": True, "beta": -0.5j})
    ):
        kind = {"dtype": "complex128", "layout": layout, "conjugate": conjugate, **scalars}
        with monkeypatch.context() as without:
            without.setattr(four_m, "add_split", None)
            _, joined = call("gpu-four-m", size, base="gpu-tensor-core", **kind)
        problem = Problem(*size, **kind)
        plan = backend.plan(problem, detect()).override({"base": "gpu-tensor-core", "join": "passes"})
        operands = Operands.generate(problem, sum(size))
        np.testing.assert_allclose(joined, prepare(backend, plan, operands).run_once(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("layout", ("CCC", "FFC"))
def test_batches_of_complex_numbers_are_multiplied_as_they_lie(layout, brought, monkeypatch):
    monkeypatch.setattr(four_m, "add_split", None)
    for batch in ((3,), (2, 2)):
        kind = {"dtype": "complex128", "layout": layout, "batch": batch, "conjugate": "a"}
        call("gpu-four-m", (72, 72, 24), base="gpu-tensor-core", **kind)
        call("gpu-four-m", (72, 72, 24), base="gpu-tensor-core", accumulate=True, beta=2j, **kind)


def program(size, **kind):
    """Return the launches of a product around gpu-tensor-core."""
    problem = Problem(*size, **{"dtype": "complex128", **kind})
    plan = RUNGS["gpu-four-m"].plan(problem, detect()).override({"base": "gpu-tensor-core"})
    return RUNGS["gpu-four-m"].program(plan, *matrices(problem))


def stems(size, **kind):
    return [kernel.stem for kernel in program(size, **kind).kernels()]


def test_passes_are_for_what_is_not_read_as_it_lies(brought):
    assert stems((9, 16, 24)) == ["tensor_core_c128"]
    assert stems((9, 16, 24), accumulate=True) == ["planes", "tensor_core_c128"]
    for other in ({"alpha": 2j}, {"operand_dtype": "complex64"}, {"dtype": "complex64"}):
        assert stems((9, 16, 24), **other)[0] == stems((9, 16, 24), **other)[-1] == "planes"
    for size in ((9, 16, 25), (9, 17, 24)):
        assert stems(size) == ["planes", "tensor_core_f64_tma", "planes"]


@pytest.mark.deep(but=1)
@needs_nvrtc
@pytest.mark.parametrize("layout", ("CCC", "FFC", "CFC", "FCC"))
def test_the_kernel_that_reads_complex_numbers_does_not_spill(layout, gpu):
    of_whole_tiles = program((4096, 4096, 4096), layout=layout, conjugate="a")
    assert [kernel.stem for kernel in of_whole_tiles.kernels()] == ["tensor_core_c128"]
    check_resources(of_whole_tiles)


def test_a_round_of_tiles_with_little_to_do_is_spared(gpu):
    for n, is_read in ((1024, True), (2048, True), (4096, True), (1536, False), (2056, False), (512, False)):
        assert (stems((n, n, n))[-1] == "tensor_core_c128") == is_read


def test_scratch_of_a_base_that_begins_as_zeros_does_so_in_the_whole_program(gpu):
    call("gpu-four-m", (19, 37, 21), base="gpu-ozaki", dtype="complex128", alpha=1j)
    problem = Problem(19, 37, 21, dtype="complex128")
    plan = RUNGS["gpu-four-m"].plan(problem, detect()).override({"base": "gpu-ozaki"})
    matrices = (Matrix(Place(name), ld) for name, ld in (("a", 21), ("b", 37), ("out", 37)))
    assert RUNGS["gpu-four-m"].program(plan, *matrices).zeroed >= {"look", "ticket"}


def test_host_arrays_by_columns_come_back_from_rows(gpu):
    call("gpu-ozaki", (20, 30, 40), dtype="float64", layout="CCF")
    call("gpu-ozaki", (20, 30, 40), dtype="complex128", layout="CFF", accumulate=True, beta=1j)


def test_wide_sums_of_narrow_operands(gpu):
    kind = {"dtype": "complex128", "operand_dtype": "complex64", "alpha": 1j, "conjugate": "a", "layout": "FCC"}
    call("gpu-four-m", (9, 10, 33), base="gpu-tiled", **kind)


def test_parts_are_those_of_four_products(gpu):
    def special(operands):
        operands.a[0, 0], operands.a[1, 1], operands.b[2, 3] = (
            complex(np.inf, 1),
            complex(0, np.nan),
            complex(-0.0, -0.0),
        )

    with np.errstate(invalid="ignore"):
        call("gpu-four-m", (5, 6, 7), special, "gpu-naive", dtype="complex128")


@pytest.mark.parametrize("name", ("gpu-four-m", "gpu-cublas", "gpu-ozaki"))
def test_small_and_empty_sizes_with_and_without_c(name, gpu):
    base = "gpu-naive" if name == "gpu-four-m" else None
    for size in itertools.product((0, 1, 2), repeat=3):
        call(name, size, base=base, dtype="complex64", accumulate=True, beta=1j)
        call(name, size, base=base, dtype="complex128")


def test_cublas_with_every_scalar_and_layout(gpu):
    for dtype, layout in itertools.product(("complex64", "complex128"), LAYOUTS):
        call("gpu-cublas", (9, 10, 11), dtype=dtype, layout=layout)
        for beta in (None, 0.5j):
            call("gpu-cublas", (9, 10, 11), dtype=dtype, layout=layout, alpha=1 - 2j, beta=beta, accumulate=True)


def test_a_base_that_is_none_is_refused(gpu):
    with pytest.raises(PlanError, match="base"):
        call("gpu-four-m", (4, 4, 4), base="cpu-numpy", dtype="complex128")


def complex_array(rng, *shape):
    return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


def test_gemm_of_arrays_of_the_gpu(gpu, rng):
    a, b, c = complex_array(rng, 9, 12), complex_array(rng, 12, 7), complex_array(rng, 9, 7)
    on_gpu = [gpu.array(x) for x in (a, b, c)]
    for _ in range(3):
        np.testing.assert_allclose(gemm(*on_gpu[:2]).values, a @ b)
        out = gpu.array(c)
        assert gemm(*on_gpu[:2], out, alpha=2j, beta=1 - 1j, out=out) is out
        np.testing.assert_allclose(out.values, 2j * (a @ b) + (1 - 1j) * c)
        np.testing.assert_allclose(gemm(on_gpu[0], on_gpu[0].T, conjugate="b").values, a @ a.conj().T)
        np.testing.assert_allclose(
            gemm(on_gpu[0].T, on_gpu[0], conjugate="a", backend="gpu-four-m").values, a.conj().T @ a
        )


@pytest.mark.parametrize("backend", ("auto", "gpu-four-m"))
def test_batches_of_complex_numbers(backend, gpu, rng):
    a, b, c = complex_array(rng, 4, 3, 5, 6), complex_array(rng, 6, 7), complex_array(rng, 4, 3, 5, 7)
    for scalars in ({}, {"c": gpu.array(c), "beta": 1j}):
        found = gemm(gpu.array(a), gpu.array(b), backend=backend, **scalars)
        np.testing.assert_allclose(found.values, a @ b + (1j * c if scalars else 0))


def test_hermitian_matrices_and_triangles(gpu, rng):
    a, b = complex_array(rng, 9, 9), complex_array(rng, 9, 4)
    hermitian = np.tril(a, -1) + np.tril(a, -1).conj().T + np.diag(a.diagonal().real)
    np.testing.assert_allclose(gemm(gpu.array(a), gpu.array(b), triangle="h").values, hermitian @ b)
    symmetric = np.tril(a) + np.tril(a, -1).T
    np.testing.assert_allclose(gemm(gpu.array(a), gpu.array(b), triangle="a").values, symmetric @ b)
    np.testing.assert_allclose(np.tril(herk(gpu.array(a)).values), np.tril(a @ a.conj().T))


def test_c_may_be_the_output(gpu):
    for name in ("gpu-four-m", "gpu-cublas"):
        check_in_place(name, [("plus_times", "complex128")], gpu.array, lambda x: x.values)


def test_conjugates_of_subnormal_numbers_are_kept(gpu, rng):
    x = (complex_array(rng, 5, 7) * 1e-42).astype(np.complex64)
    for view in (x, x.T, x[::2, ::-1], x[:0]):
        assert (conjugated(gpu.array(view), gpu).values == view.conj()).all()
    y = np.full((7, 3), 2.0**20, np.complex64)
    found = gemm(gpu.array(x), gpu.array(y), conjugate="a", dtype="complex128", backend="gpu-four-m")
    np.testing.assert_allclose(found.values, x.conj().astype(complex) @ y)
    found = gemm(gpu.array(x.T), gpu.array(y[:5]), conjugate="a", backend="gpu-cublas")
    np.testing.assert_allclose(found.values, x.T.conj() @ y[:5], 1e-5)
    square = gpu.array(x[:, :5])
    below = np.tril(x[:, :5], -1)
    hermitian = below + below.conj().T + np.diag(x.diagonal().real)
    np.testing.assert_allclose(gemm(square, gpu.array(y[:5]), triangle="h").values, hermitian @ y[:5], 1e-5)


@pytest.mark.parametrize("dtype", ("float64", "int64", "float32", "uint8"))
def test_real_operands_of_complex_products_stay_as_they_are(dtype, gpu, rng):
    a, x = complex_array(rng, 5, 5), np.arange(5).astype(dtype)
    hermitian = np.tril(a, -1) + np.tril(a, -1).conj().T + np.diag(a.diagonal().real)
    np.testing.assert_allclose(hemv(gpu.array(a), gpu.array(x), conjugate="b").values, hermitian @ x)
    for name in ("gpu-four-m", "gpu-cublas", "auto"):
        found = gemm(gpu.array(a), gpu.array(x.reshape(5, 1)), conjugate="ab", backend=name)
        np.testing.assert_allclose(found.values, a.conj() @ x.reshape(5, 1))


def test_auto_finds_a_backend_for_every_complex_product(gpu, rng):
    on_gpu = kind_of("gemm", {"a": gpu.array(complex_array(rng, 2, 2))})

    def chosen(*size, **kind):
        return choose(Problem(*size, **kind), "auto", on_gpu).name

    assert chosen(4096, 4096, 4096, dtype="complex128") == "gpu-ozaki"
    assert chosen(64, 64, 64, dtype="complex64") == "gpu-cublas"
    assert chosen(64, 64, 64, dtype="complex64", alpha=complex(np.inf, 1)) == "gpu-four-m"
    assert chosen(64, 64, 64, dtype="complex128", alpha=0.0) == "gpu-four-m"
    assert chosen(64, 64, 64, dtype="complex128", operand_dtype="complex64") == "gpu-four-m"
    for triangle in "ahd":
        assert chosen(64, 64, 64, dtype="complex128", operand_dtype="complex64", triangle=triangle) == "gpu-triangle"
    a, b = complex_array(rng, 4, 4).astype(np.complex64), complex_array(rng, 4, 4).astype(np.complex64)
    found = gemm(gpu.array(a), gpu.array(b), dtype="complex128", triangle="a")
    np.testing.assert_allclose(found.values, (np.tril(a) + np.tril(a, -1).T).astype(complex) @ b)


@pytest.mark.parametrize(
    ("narrow", "wide"), (("float32", "float64"), ("complex64", "complex128"), ("float32", "complex128"))
)
def test_subnormal_numbers_are_kept_where_they_are_converted(narrow, wide, gpu, rng):
    drawn = complex_array(rng, 6, 9) * 1e-42
    x = (drawn if narrow == "complex64" else drawn.real).astype(narrow)
    assert (np.abs(x) > 0).all()
    for view in (x, x.T, x[::2, ::-1], np.asfortranarray(x)):
        on_gpu = gpu.array(view)
        converted = kind_of("test", {"x": on_gpu}).converted(on_gpu, np.dtype(wide))
        np.testing.assert_array_equal(converted.values, view.astype(wide))


def test_subnormal_numbers_of_bfloat16_are_kept_where_they_are_converted(gpu):
    x = np.arange(1, 127, dtype=np.uint16).view(named_dtype("bfloat16")).reshape(2, 63)
    converted = kind_of("test", {"x": gpu.array(x)}).converted(gpu.array(x), np.dtype(np.float32))
    np.testing.assert_array_equal(converted.values, x.astype(np.float32))
