"""The floor plan: which folder may import which, read from the source; and that importing the harness is light.

An arrow is an import anywhere in a file, or the name of a module in a string ("harness.run.task:gemm").
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests._support.processes import ROOT, python

FACADE = {"harness", "harness.__main__", "harness.paths"}
# The public nouns, and which of them each may import. `composite` is how a backend gets another one, by name and when
# it plans. That makes no cycle: the registry imports backends while it discovers, never when it is imported itself.
NOUNS = {
    "arithmetic": set(),
    "dtypes": {"errors"},
    "elimination": {"semiring"},
    "errors": set(),
    "machine": {"surroundings"},
    "memory": set(),
    "scalars": {"dtypes"},
    "surroundings": set(),
    "semiring": {"dtypes", "errors", "scalars", "surroundings"},
    "problem": {"dtypes", "errors", "scalars", "semiring"},
    "plan": {"errors", "problem", "scalars"},
    "operands": {"dtypes", "problem"},
    "interface": {"errors", "machine", "operands", "plan", "problem", "semiring", "surroundings"},
    "registry": {"errors", "interface", "problem", "surroundings"},
    "composite": {"errors", "interface", "machine", "operands", "plan", "problem", "registry"},
    "threads": {"errors", "machine", "scalars", "surroundings"},
    "experiment": {"errors", "machine", "plan", "problem", "semiring"},
    "catalogue": {"errors", "experiment", "registry", "surroundings"},
}
# Folders, imported by the names of the nouns alone.
NOUNS_IN_PARTS = {"interface", "operands", "registry", "semiring", "surroundings"}
# The wings, and which other wings each may import. Every wing may import every noun.
WINGS = {
    "cli": set(
        "compare autotune page report run analysis timing store proof api linalg contraction".split()
        + "sequences tuning stats".split()
    ),
    "compare": set("report run analysis timing store stats".split()),
    "autotune": set("run timing tuning proof stats".split()),
    "page": set("report analysis store stats".split()),
    "report": set("analysis store stats".split()),
    "run": set("timing proof store tuning stats".split()),
    "analysis": set("distributed store stats".split()),  # of distributed the arithmetic of grids
    "distributed": {"api", "tuning"},
    "linalg": {"api"},
    "contraction": {"api"},
    "torch": {"api"},
    "sequences": {"api", "torch", "tuning"},
    "jax": {"api", "contraction", "sequences"},
    "api": {"tuning"},
    "timing": {"stats"},
    "store": {"stats"},
    "proof": set(),
    "tuning": set(),
    "stats": set(),
}
# What must not be reached by any chain of arrows.
NEVER = {
    "page": {"run", "timing", "api", "tuning"},
    "report": {"run", "timing", "api", "tuning"},
    "analysis": {"run", "timing", "api", "tuning"},
    "api": {"run", "timing", "store"},
    "autotune": {"api"},
    "distributed": {"run", "timing", "store"},
    "linalg": {"run", "timing", "store"},
    "contraction": {"run", "timing", "store"},
    "torch": {"run", "timing", "store"},
    "sequences": {"run", "timing", "store"},
    "jax": {"run", "timing", "store"},
    "proof": {"tuning"},
    "backends": set(WINGS) - {"tuning"},
    "strategies": set(WINGS) - {"tuning", "distributed", "api"},
}
# Tasks of experiments below `backends/`: they prove what they time, and say by which clock.
TASKS = ("backends.gpu._tasks.",)
OPEN_TO_TASKS = {"harness.timing.device_clock", "harness.proof.verify"}
# Who asks the registry for another backend by itself, when it plans; all others are composites, or need none.
ASKED = "harness.registry"
MAY_ASK = {"backends.cpu.mixed", "backends.distributed._job.strategy", "backends.gpu._tasks.transfers"}
# What the harness loads by name when it is asked for: backends, experiments, and parts that have no other way in. And
# what launches on a GPU take of the host's compiled code.
LOADED_BY_NAME = {
    "harness.registry.sources": {"backends"},
    "harness.experiment": {"backends.cpu._ceilings"},
    "harness.catalogue": {"backends", "experiments"},
    "harness.api.argk.numbering": {"backends.cpu._argk.passes"},
    "backends.gpu._cuda.launches": {"backends.cpu._ir.call_list"},
}
# Folders of parts of a family of backends, lowest floor first: each imports, and includes, from floors below it alone.
FLOORS = {
    "cpu": (
        "_vector _cache",
        "_ir",
        "_threads",
        "_compile",
        "_ladder",
        "_simd",
        "_log_sum _mixed _argk _strassen _paths",
        "_sequences",
        "_batch",
    ),
    "gpu": (
        "_cuda",
        "_program",
        "_passes",
        "_complex",
        "_simt _tensor",
        "_paths _sequences",
        "_base",
        "_residues _strassen _matrix_vector _tasks",
    ),
}
MOST_FLAT, MOST_IN_A_WING = 16, 14
HEAVY = ("numba", "cupy", "mpi4py", "matplotlib", "scipy", "pandas", "torch", "jax", "ml_dtypes", "jinja2")

_TASK = re.compile(r"^((?:harness|backends|experiments)(?:\.\w+)+)(?::\w*)?$")


def _sources() -> dict[str, str]:
    """Return the text of every module of the project's packages, by its dotted name."""
    folders = [ROOT / "harness", ROOT / "backends", ROOT / "experiments" / "_parts"]  # and no results
    files = [*(path for folder in folders for path in folder.rglob("*.py")), *(ROOT / "experiments").glob("*.py")]
    return {_name(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in files}


def _name(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


@functools.cache
def _names(text: str) -> tuple[str, ...]:
    """Return the names that a text imports, or names in a string, as far as they can be modules of the project."""
    names = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "a relative import"
            names += [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and (match := _TASK.match(node.value)):
            names.append(match[1])
    return tuple(name for name in names if name.startswith(("harness", "backends", "experiments")))


def _arrows(text: str, modules: Mapping[str, str]) -> set[str]:
    """Return the modules, of those known, that a text imports or names."""
    candidates = {name if name in modules else name.rpartition(".")[0] for name in _names(text)}
    return candidates & modules.keys()


def _room(module: str) -> str:
    """Return the wing of a module, the noun that it is, ``facade``, ``strategies``, or its package."""
    if module in FACADE:
        return "facade"
    if module.startswith("backends.distributed"):
        return "strategies"
    parts = module.split(".")
    return parts[1] if parts[0] == "harness" else parts[0]


def _is_part(module: str) -> bool:
    return any(part.startswith("_") for part in module.split("."))


def _allows(module: str, target: str) -> bool:
    """Return whether an arrow from `module` to `target` goes down."""
    if target.startswith("backends"):
        return _may_import_part(module, target)
    is_open_to_task = module.startswith(TASKS) and target in OPEN_TO_TASKS
    return is_open_to_task or target in LOADED_BY_NAME.get(module, ()) or _room(target) in _open_rooms(_room(module))


def _open_rooms(room: str) -> set[str]:
    """Return the rooms that modules of `room` may import."""
    everything = NOUNS.keys() | WINGS.keys()
    open_rooms = {"facade": everything, "experiments": everything | {"facade", "experiments"}}
    open_rooms |= {"backends": NOUNS.keys() | {"tuning"}, "strategies": NOUNS.keys() | {"tuning", "distributed"}}
    open_rooms |= {wing: NOUNS.keys() | below | {wing} for wing, below in WINGS.items()}
    return open_rooms.get(room) or NOUNS[room] | {room}


def _may_import_part(module: str, target: str) -> bool:
    """Return whether `module` may import a module of `backends/`: a part, of its own family or of all families."""
    family = target.partition(".")[2].partition(".")[0]
    is_ours = module.startswith(f"backends.{family}.") or (module.startswith("backends.") and family.startswith("_"))
    is_named = target in {*LOADED_BY_NAME.get(module, ()), ".".join(module.split(".")[:2])}
    return is_named or (_is_part(target) and (is_ours or module.startswith("experiments.")))


def _wrong_arrows(modules: Mapping[str, str]) -> list[str]:
    """Return the arrows against the floors, direct ones and chains."""
    graph = {module: _arrows(text, modules) - {module} for module, text in modules.items()}
    wrong = [f"{a} -> {b}" for a, targets in graph.items() for b in targets if not _allows(a, b)]
    for module in graph:
        if module in FACADE or module.startswith(TASKS):
            continue
        forbidden = NEVER.get(_room(module), set())
        wrong += [f"{module} ->> {target}" for target in _reached(module, graph) if _room(target) in forbidden]
    return sorted(set(wrong))


def _reached(module: str, graph: Mapping[str, set[str]]) -> set[str]:
    """Return what chains of arrows from `module` lead to. The facade is what users import: no chain goes through it."""
    seen, ahead = set(), [module]
    while ahead:
        for target in graph.get(ahead.pop(), ()):
            if target not in seen and _room(target) not in {"facade", "backends", "strategies"}:
                seen.add(target)
                ahead.append(target)
    return seen


def test_arrows_go_down() -> None:
    assert _wrong_arrows(_sources()) == []


@pytest.mark.parametrize(
    ("module", "text", "arrow"),
    [
        ("harness.report.planted", "import harness.run.task", "harness.report.planted -> harness.run.task"),
        (
            "harness.proof.new",
            "def f():\n    from harness.tuning import cpu",
            "harness.proof.new -> harness.tuning.cpu",
        ),
        ("harness.plan", 'TASK = "harness.run.task:gemm"', "harness.plan -> harness.run.task"),
        ("backends.cpu.planted", "from harness.store import store", "backends.cpu.planted -> harness.store.store"),
        ("backends.cpu.planted", "from backends.cpu import simd", "backends.cpu.planted -> backends.cpu.simd"),
        ("backends.cpu.new", "from backends.gpu._cuda import nvrtc", "backends.cpu.new -> backends.gpu._cuda.nvrtc"),
        (
            "harness.store.schema",
            "from harness.timing import clock",
            "harness.report.machine_report ->> harness.timing.clock",
        ),
        ("harness.machine", "import harness", "harness.machine -> harness"),
    ],
)
def test_a_planted_arrow_is_found(module: str, text: str, arrow: str) -> None:
    assert arrow in _wrong_arrows({**_sources(), module: text})


@pytest.mark.parametrize("family", FLOORS)
def test_folders_of_a_family_have_floors(family: str) -> None:
    floor_of = {folder: floor for floor, folders in enumerate(FLOORS[family]) for folder in folders.split()}
    root = ROOT / "backends" / family
    assert {path.name for path in root.glob("_*/") if path.name != "__pycache__"} == floor_of.keys()
    found = {(user, used) for user, used in _arrows_between_folders(root) if user in floor_of}
    assert found
    assert [arrow for arrow in found if floor_of[arrow[0]] <= floor_of.get(arrow[1], len(floor_of))] == []


def _arrows_between_folders(root: Path) -> set[tuple[str, str]]:
    """Return the pairs of subfolders of `root` of which the first imports, or includes, from the second."""
    name, sources = ".".join(root.relative_to(ROOT).parts), {x.name: x for x in root.rglob("*.cu*")}
    found = set()
    for path in (*root.rglob("*.py"), *sources.values()):
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".py":
            used = [root.joinpath(*x.removeprefix(f"{name}.").split(".")) for x in _names(text) if x.startswith(name)]
        else:
            used = [sources[header] for header in re.findall(r'^#include "([\w.]+)"$', text, re.MULTILINE)]
        found |= {(_folder(path, root), _folder(x, root)) for x in used}
    return {(user, used) for user, used in found if user != used and used}


def _folder(path: Path, root: Path) -> str:
    """Return the subfolder of `root` that `path` lies in; empty for a file beside the subfolders."""
    first = path.relative_to(root).parts[0] if path != root else ""
    return first if (root / first).is_dir() else ""


def test_parts_of_experiments_import_no_experiment() -> None:
    modules = {name: text for name, text in _sources().items() if name.startswith("experiments.")}
    parts = {name: text for name, text in modules.items() if _is_part(name)}
    found = {name: {x for x in _arrows(text, modules) if not _is_part(x)} for name, text in parts.items()}
    assert {name: arrows for name, arrows in found.items() if arrows} == {}


def test_few_backends_ask_for_another() -> None:
    sources = {name: text for name, text in _sources().items() if name.startswith("backends.")}
    asking = {name for name, text in sources.items() if ASKED in _arrows(text, {ASKED: ""})}
    assert asking == MAY_ASK
    for name in asking:
        tree = ast.parse(sources[name])
        at_import = [node for node in tree.body if not isinstance(node, ast.FunctionDef | ast.ClassDef)]
        assert not any("registry." in ast.unparse(node) for node in at_import), f"{name} asks when it is imported"


def test_every_module_has_its_place_in_the_plan() -> None:
    flat = {f"harness.{path.stem}".removesuffix(".__init__") for path in (ROOT / "harness").glob("*.py")}
    assert flat == FACADE | {f"harness.{noun}" for noun in NOUNS.keys() - NOUNS_IN_PARTS}
    assert len(flat) <= MOST_FLAT
    folders = {path.parent for path in (ROOT / "harness").glob("*/__init__.py")}
    assert {folder.name for folder in folders} == {*WINGS, *NOUNS_IN_PARTS}
    assert [folder for folder in folders if len(list(folder.glob("*.py"))) > MOST_IN_A_WING + 1] == []  # and __init__


def test_every_wing_says_what_it_is_for() -> None:
    for wing in WINGS:
        doc = ast.get_docstring(ast.parse((ROOT / "harness" / wing / "__init__.py").read_text(encoding="utf-8")))
        assert doc is not None
        assert len(doc.splitlines()) > 2, wing


def test_imports_of_the_harness_have_no_cycle() -> None:
    modules = {name: text for name, text in _sources().items() if name.startswith("harness.")}
    graph = {name: _arrows(_top_level(text), modules) - {name} for name, text in modules.items()}
    for module in graph:
        assert module not in _reached(module, graph), f"a chain of imports leads from {module} back to it"


def _top_level(text: str) -> str:
    """Return the imports of a module that run when it is imported itself."""
    lines = [node for node in ast.parse(text).body if isinstance(node, ast.Import | ast.ImportFrom)]
    return "\n".join(ast.unparse(node) for node in lines)


def test_statistics_are_pure() -> None:
    allowed = {
        *"__future__ collections dataclasses enum functools itertools math numpy statistics typing harness".split()
    }
    for path in (ROOT / "harness" / "stats").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert {name.split(".")[0] for name in names} <= allowed, path


def test_reference_knows_no_kernel() -> None:
    for name in ("reference.py", "magnitude.py"):
        text = (ROOT / "harness" / "proof" / name).read_text(encoding="utf-8")
        assert ".ufunc" not in text
        assert "multiply_function" not in text


# Programs that print what they should not have imported, or could not.
LIGHT = {
    "the harness": f"import sys, harness; print(*(name for name in {HEAVY!r} if name in sys.modules))",
    "backends without a GPU library": (
        "import sys; sys.modules['cupy'] = None; from harness import registry; "
        "print(*(e.origin for e in registry.discover() if e.origin.startswith('backends.gpu') and e.backend is None))"
    ),
    "a product on the host": (
        "import sys, numpy, harness; harness.gemm(numpy.ones((2, 2)), numpy.ones((2, 2))); "
        "LATER = 'backends.gpu', 'backends.distributed', 'harness.contraction', 'harness.page'; "
        "print(*(name for name in sys.modules if name.startswith(LATER)))"
    ),
}


@pytest.mark.parametrize("program", LIGHT.values(), ids=LIGHT)
def test_imports_are_light(program: str) -> None:
    assert python("-c", program).stdout.split() == []
