"""The arrows of the architecture, read from the source; and that importing the harness is light."""

from __future__ import annotations

import ast
import graphlib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
# "composite" is how a backend gets another one, by name and when it plans, without importing it or the registry. It
# makes no cycle: the registry imports backends while it discovers, never when it is imported itself.
OPEN_TO_BACKENDS = {
    "errors",
    "semiring",
    "problem",
    "plan",
    "tuning",
    "tuning_amx",
    "tuning_simd",
    "tuned_gpu",
    "tuning_gpu",
    "tuning_tensor_cores",
    "machine",
    "memory",
    "operands",
    "interface",
    "composite",
    "threads",
}
# Parts that are tasks of experiments: they prove what they time, and say by which clock.
TASKS = {"gpu-_device_task", "gpu-_ceilings", "gpu-_layouts", "gpu-_transfers"}
OPEN_TO_TASKS = {"device_clock", "registry", "verify"}
LAYERS = {
    "errors": set(),
    "machine": set(),
    "memory": set(),
    "scalars": set(),
    "semiring": {"errors", "scalars"},
    "problem": {"errors", "semiring"},
    "plan": {"errors", "problem"},
    "promotion": {"errors", "problem"},
    "operands": {"problem"},
    "tuned": {"errors", "machine", "provenance"},
    "tuning": {"machine", "plan", "problem"},
    "tuning_simd": {"machine", "plan", "problem", "tuned", "tuning"},
    "tuning_amx": {"machine", "plan", "problem", "tuning", "tuning_simd"},
    "tuning_argk": {"machine", "problem", "tuning"},
    "tuning_gpu": {"plan", "problem"},
    "tuned_gpu": {"errors", "plan", "problem", "tuned", "tuning_gpu"},
    "tuning_tensor_cores": {"plan", "problem"},
    "interface": {"machine", "operands", "plan", "problem", "semiring"},
    "registry": {"errors", "interface", "problem"},
    "composite": {"errors", "interface", "problem", "registry"},
    "reference": {"problem", "semiring"},
    "diagnosis": {"operands", "problem", "reference", "semiring"},
    "projection": {"operands", "problem"},
    "verify": {"diagnosis", "errors", "operands", "problem", "projection", "reference"},
    "statistics": set(),
    "significance": set(),
    "verdict": {"significance", "statistics"},
    "changepoints": set(),
}
MEASURING = set(
    """clock measure runner worker task trial isolation registry product cli cli_inspect cli_experiments cli_track
    regression source_tree pytest_bench""".split()
)
HEAVY = ("numba", "cupy", "mpi4py", "matplotlib", "scipy", "pandas", "torch", "ml_dtypes")


def _imports(path: Path) -> list[str]:
    """Return the full names of all modules that a file imports anywhere; of `from x import y` both x and x.y."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return found


def _harness_imports(path: Path) -> set[str]:
    """Return the modules of the harness that a file imports, by their short names."""
    modules = {file.stem for file in (ROOT / "harness").glob("*.py")}
    parts = [name.split(".") for name in _imports(path) if name.startswith("harness")]
    return {name[1] for name in parts if len(name) > 1 and name[1] in modules}


def _backend_files() -> list[Path]:
    return sorted(path for path in (ROOT / "backends").rglob("*.py") if path.name != "__init__.py")


@pytest.mark.parametrize("path", _backend_files(), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_backend_imports_only_what_is_open_to_it(path: Path) -> None:
    is_task = f"{path.parent.name}-{path.stem}" in TASKS
    assert _harness_imports(path) <= OPEN_TO_BACKENDS | (OPEN_TO_TASKS if is_task else set())
    own = f"backends.{path.parent.name}._"
    others = [name for name in _imports(path) if name.startswith("backends") and not name.startswith(own)]
    assert not others, f"not a part of its own folder: {others}"


@pytest.mark.parametrize("layer", LAYERS)
def test_layer_imports_only_layers_below(layer: str) -> None:
    path = ROOT / "harness" / f"{layer}.py"
    assert path.exists()
    assert _harness_imports(path) <= LAYERS[layer]


def test_nobody_imports_a_backend_by_name() -> None:
    for path in [*(ROOT / "harness").glob("*.py"), *(ROOT / "experiments").glob("*.py")]:
        assert not [name for name in _imports(path) if name.startswith("backends.")], path


def test_plots_never_measure() -> None:
    for path in (ROOT / "harness").glob("plot*.py"):
        assert not _harness_imports(path) & MEASURING, path


@pytest.mark.parametrize("layer", ["statistics", "significance"])
def test_statistics_are_pure(layer: str) -> None:
    names = {name.split(".")[0] for name in _imports(ROOT / "harness" / f"{layer}.py")}
    allowed = "__future__ collections dataclasses enum functools math numpy statistics typing"
    assert names <= set(allowed.split())


def test_reference_knows_no_kernel() -> None:
    text = (ROOT / "harness" / "reference.py").read_text()
    assert ".ufunc" not in text
    assert "multiply_function" not in text


def test_imports_of_the_harness_have_no_cycle() -> None:
    files = [path for path in (ROOT / "harness").glob("*.py") if path.stem != "__init__"]
    graph = {path.stem: _top_level_imports(path) - {path.stem} for path in files}
    graphlib.TopologicalSorter(graph).prepare()


def _top_level_imports(path: Path) -> set[str]:
    """Return the modules of the harness that a file imports when it is imported itself."""
    lines = [
        ast.unparse(node) for node in ast.parse(path.read_text()).body if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    modules = {file.stem for file in (ROOT / "harness").glob("*.py")}
    names = [name for line in lines for node in ast.parse(line).body for name in _names(node)]
    return {name.split(".")[1] for name in names if name.startswith("harness.")} & modules


def _names(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else []


def test_importing_the_harness_is_light() -> None:
    program = f"import sys, harness; print(*(name for name in {HEAVY!r} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_backends_import_without_a_gpu_library() -> None:
    program = (
        "import sys; sys.modules['cupy'] = None; from harness import registry; "
        "print(*(e.origin for e in registry.discover() if e.origin.startswith('backends.gpu') and e.backend is None))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
