"""``backend="auto"``: never a backend that loosens the bound of ordinary sums, however high its step."""

from __future__ import annotations

import numpy as np
import pytest

from harness import (
    Backend,
    Execution,
    Machine,
    Operands,
    Plan,
    Problem,
    Semiring,
    gemm,
    gemm_argk,
    machine,
    registry,
    scalars,
)
from harness.api import gemm as api_gemm
from harness.api.choice import choose
from harness.composite import Composite
from harness.dtypes import named_dtype
from harness.errors import BackendUnavailable
from harness.paths import shortest_paths
from harness.tuning import static_order
from tests._support.planted_registry import entry_of, plant_entries


class Loose(Backend):
    """A planted backend of the highest step, whose sums are off by a thousandth."""

    name, step, idea, source = "cpu-loose", 999, "loose sums", "planted"
    takes = frozenset({"mixed", "half"})

    def extra_error(self, plan: Plan, operands: Operands) -> float:
        return 1e9

    def plan(self, problem: Problem, machine: Machine) -> Plan:
        return Plan(problem)

    def prepare(self, plan: Plan, operands: Operands) -> Execution:
        raise AssertionError("the loose backend was chosen")


class LooseWhereMixed(Loose):
    name = "cpu-loose-where-mixed"

    def loosens(self, problem: Problem) -> bool:
        return problem.is_mixed


@pytest.fixture
def loose(monkeypatch: pytest.MonkeyPatch) -> None:
    plant_entries(monkeypatch, [*registry.discover(), *(entry_of(cls()) for cls in (Loose, LooseWhereMixed))])
    monkeypatch.setattr(LooseWhereMixed, "refuses", lambda self, problem: None if problem.is_mixed else "mixed only")
    monkeypatch.setattr(api_gemm, "known_shortcuts", {})


def _own(x: float, y: float) -> float:
    return x + 2 * y


@pytest.mark.usefixtures("loose")
class TestWhatLoosensTheBound:
    def test_is_never_chosen_automatically(self) -> None:
        rng = np.random.default_rng(3)
        a, b = rng.random((9, 7)), rng.random((7, 5))
        own = Semiring.from_functions("own_sums", scalars.plus, _own, zero=0.0)
        assert np.allclose(gemm(a, b), a @ b)
        assert np.allclose(gemm(a, b, a @ b, alpha=2, beta=3), 5 * (a @ b))
        assert np.allclose(gemm(a, b, semiring=own), a.sum(1)[:, None] + 2 * b.sum(0))
        assert np.array_equal(gemm_argk(a, b)[0], (a[:, :, None] + b).min(1))
        assert np.array_equal(gemm_argk(a > 0.5, b > 0.5, semiring="lor_land")[0], (a > 0.5) @ (b > 0.5))
        assert shortest_paths(np.where(np.eye(5, dtype=bool), 0.0, a[:5, :5])).shape == (5, 5)

    @pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
    def test_nor_for_mixed_products_whose_sums_are_large(self, dtype: str) -> None:
        a = np.full((4, 200), 30, named_dtype(dtype))
        assert (gemm(a, a.T, dtype="float32") == 180_000).all()

    def test_nor_as_the_first_choice(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(static_order, "AUTO_FIRST", (Loose.name,))
        assert choose(Problem(9, 9, 9), "auto").name != Loose.name

    def test_nor_as_a_base(self) -> None:
        problem = Problem(9, 9, 9, "plus_times", np.dtype(np.float32))
        strassen = registry.find("cpu-strassen")
        assert isinstance(strassen, Composite)
        assert strassen.choose_base(problem, ("cpu-loose",)) != Loose.name
        assert strassen.find_base(Loose.name, problem).name == Loose.name

    def test_computes_for_who_names_it(self) -> None:
        with pytest.raises(AssertionError, match="the loose backend was chosen"):
            gemm(np.ones((2, 2)), np.ones((2, 2)), backend=Loose.name)


class Installed(Backend):
    """A planted peer of the highest step, which computes any product: a package that somebody has installed."""

    name, step, idea, source = "cpu-installed", 999, "a package", "planted"
    takes, is_optional = frozenset({"mixed", "half"}), True

    def plan(self, problem: Problem, machine: Machine) -> Plan:
        return Plan(problem)

    def prepare(self, plan: Plan, operands: Operands) -> Execution:
        raise AssertionError("a package became a base")


class InstalledForGpu(Installed):
    name, takes = "gpu-installed", frozenset({"mixed", "half", "device arrays"})


class TestBases:
    """What composites cut a product for: not what happens to be installed."""

    @pytest.fixture(autouse=True)
    def _gpu_and_peers(self, monkeypatch: pytest.MonkeyPatch) -> None:
        entries = [entry_of(type(entry.backend)()) for entry in registry.discover() if entry.backend]
        for entry in entries:
            if entry.backend is not None and entry.name.startswith("gpu-") and not entry.backend.is_optional:
                monkeypatch.setattr(entry.backend, "missing", lambda: None)
        plant_entries(monkeypatch, [*entries, entry_of(Installed()), entry_of(InstalledForGpu())])

    @pytest.mark.parametrize("semiring", ["plus_times", "min_plus"])
    @pytest.mark.parametrize("name", ["cpu-triangle", "gpu-triangle", "cpu-strassen", "gpu-strassen"])
    def test_are_no_packages(self, name: str, semiring: str) -> None:
        composite = registry.find(name)
        assert isinstance(composite, Composite)
        size = Problem(2048, 2048, 512, semiring, np.dtype(np.float32), triangle="d" if "tri" in name else "")
        if composite.refuses(size) is None:
            assert "installed" not in str(composite.plan(size, machine.detect()).options["base"])

    def test_are_no_packages_where_nothing_is_preferred(self) -> None:
        problem = Problem(64, 64, 64, "plus_times", np.dtype(np.float32))
        for name in ("cpu-triangle", "gpu-triangle"):
            composite = registry.find(name)
            assert isinstance(composite, Composite)
            assert not registry.find(composite.choose_base(problem, ())).is_optional
            assert composite.find_base(f"{name[:3]}-installed", problem).is_optional  # if it is named

    def test_of_triangles_on_a_gpu_are_what_auto_tries_first(self) -> None:
        bases = {}
        for triangle, (m, n, k) in (("a", (4096, 1, 4096)), ("d", (4096, 4096, 4096))):
            problem = Problem(m, n, k, "plus_times", np.dtype(np.float32), triangle=triangle)
            bases[triangle] = registry.find("gpu-triangle").plan(problem, machine.detect()).options["base"]
        assert bases["a"] == "gpu-mv-tuned"
        assert bases["d"] in static_order.AUTO_FIRST_ON_GPU


class Device(Loose):
    name = "gpu-planted"
    takes = frozenset({"device arrays"})

    def loosens(self, problem: Problem) -> bool:
        return False

    def missing(self) -> str | None:
        raise AssertionError("a product of host arrays asks for a device, which a forked child must not")


def test_a_device_is_not_asked_for_while_a_backend_of_the_host_is_able(monkeypatch: pytest.MonkeyPatch) -> None:
    plant_entries(monkeypatch, [*registry.discover(), entry_of(Device())])
    half = np.ones((4, 200), np.float16)
    assert (gemm(half, half.T, dtype="float32") == 200).all()
    own = Semiring.from_functions("own_sums_too", scalars.plus, _own, zero=0.0)
    assert (gemm(np.ones((2, 3)), np.ones((3, 2)), semiring=own) == 9).all()
    assert gemm_argk(np.ones((2, 3)), np.ones((3, 2)), backend="cpu-packed")[0].shape == (2, 2)
    assert gemm(np.ones((2, 3)), np.ones((3, 2)), backend="cpu-strassen").shape == (2, 2)
    monkeypatch.setattr(Device, "missing", lambda self: None)
    plant_entries(monkeypatch, [entry_of(Device())])
    assert choose(Problem(9, 9, 9, "plus_times", np.dtype(np.int8)), "auto").name == Device.name  # the last resort


def test_says_why_no_backend_computes_a_product() -> None:
    half = np.ones((2, 2), np.float16)
    with pytest.raises(BackendUnavailable, match="cpu-mixed: alpha multiplies the sums, and inf would"):
        gemm(half, half, dtype="float32", alpha=np.inf)


def test_who_has_an_error_of_its_own_says_so_of_what_it_loosens() -> None:
    half = Problem(8, 8, 8, "plus_times", np.dtype(np.float32), operand_dtype=np.dtype(np.float16))
    problems = [Problem(8, 8, 8, "plus_times", np.dtype(name)) for name in ("float32", "float64")] + [half]
    problems.append(Problem(8, 8, 8, "plus_times", np.dtype(np.complex64)))
    backends = {entry.name: entry.backend for entry in registry.discover() if entry.backend}
    loose = {
        name: [problem.input_dtype.name for problem in problems if backend.loosens(problem)]
        for name, backend in backends.items()
        if type(backend).extra_error is not Backend.extra_error
    }
    assert loose == {
        "cpu-mixed": [],  # docs/mixed.md says why
        "cpu-strassen": ["float32", "float64", "float16", "complex64"],
        "cpu-three-m": ["complex64"],
        "cpu-torch": ["float16"],
        "cpu-triangle": [],  # as accurate as its base
        "gpu-four-m": [],  # unless a base that rounds is named
        "gpu-cublas": [],  # no tensor core is more accurate beside subnormal operands
        "gpu-cublas-tf32": ["float32", "float64", "float16", "complex64"],
        "gpu-ozaki": [],  # unless an option turns its proof off
        "gpu-strassen": ["float32", "float64", "float16", "complex64"],
        "gpu-tensor-core": ["float32"],
        "gpu-torch": [],  # float8 as gpu-tensor-core
        "gpu-triangle": [],
    }
    assert not any(backends[name].loosens(p) for name in backends.keys() - loose.keys() for p in problems)
