import dataclasses
import json
import re
from importlib.machinery import ModuleSpec
from pathlib import Path

import numpy as np
import pytest

from backends.gpu._cuda import device
from experiments import small_products
from experiments._parts import call_task, linalg_task, peers
from experiments.ladder import LESSON
from harness import registry
from harness.analysis import answers
from harness.catalogue import load_all
from harness.compare import goals
from harness.compare.stored_runs import Side
from harness.errors import VerificationError
from harness.experiment import GEMM_TASK, PRESETS, Case, Contender
from harness.interface import make_plan
from harness.plan import Blocking
from harness.problem import Problem
from harness.registry import Entry
from harness.run.task import gemm
from harness.semiring import SEMIRINGS
from tests._support import fake_backends, synthetic
from tests._support.planted_registry import plant_entries
from tests._support.synthetic import MACHINE

EXPERIMENTS = load_all()
EVERY = [(name, preset) for name in EXPERIMENTS for preset in PRESETS]
SEVERAL_CORES = [1, 2, 3, 6, 64]


def products(case: Case) -> list[tuple[Contender, Problem]]:
    found = []
    for contender in case.contenders:
        arguments = {**case.arguments, **contender.arguments}
        if contender.task == GEMM_TASK:
            found.append((contender, Problem.from_json(dict(arguments["problem"]))))
    return found


@pytest.mark.parametrize(("name", "preset"), EVERY)
def test_cases_are_json_and_have_places_of_their_own(name, preset):
    cases = EXPERIMENTS[name].cases(preset, MACHINE)
    assert cases
    places = [json.dumps(case.axes, sort_keys=True) for case in cases]
    assert len(set(places)) == len(places), "a later case would hide an earlier one"
    for case in cases:
        sent = [case.axes, case.arguments, *(contender.arguments for contender in case.contenders)]
        assert json.loads(json.dumps(sent, default=dict)) == [json.loads(json.dumps(x, default=dict)) for x in sent]


def test_quick_asks_two_cores_only_what_they_can_decide():
    few, many = dataclasses.replace(MACHINE, cores=2, gpu={}), dataclasses.replace(MACHINE, cores=4, gpu={})

    def asked(preset, machine):
        return {name for name, experiment in EXPERIMENTS.items() if experiment.is_asked(preset, machine)}

    left_out = set(EXPERIMENTS) - asked("quick", few)
    assert "mv_map" in left_out
    assert not left_out & {"ladder", "vs_peers", "block_size", "percent_of_peak", "thread_scaling", "dist_scaling"}
    with_gpu = dataclasses.replace(few, gpu={"name": "A"})
    everything = [("full", few), ("smoke", few), ("quick", many), ("quick", with_gpu)]
    assert all(asked(*each) == set(EXPERIMENTS) for each in everything)


@pytest.mark.parametrize(("name", "preset"), EVERY)
def test_cases_depend_on_preset_and_machine_only(name, preset):
    make = EXPERIMENTS[name].cases
    assert [case.key for case in make(preset, MACHINE)] == [case.key for case in make(preset, MACHINE)]


@pytest.mark.parametrize(("name", "preset"), EVERY)
def test_products_are_complete_and_legal(name, preset):
    for case in EXPERIMENTS[name].cases(preset, MACHINE):
        for contender, problem in products(case):
            arguments = {**case.arguments, **contender.arguments}
            assert set(arguments) <= set(gemm.__annotations__)
            assert min(problem.m, problem.n, problem.k) >= 1
            blocks = {key: value for key, value in arguments["parameters"].items() if key in Blocking.__annotations__}
            Blocking(**{"mc": 4, "nc": 4, "kc": 4, "mr": 4, "nr": 4, **blocks} | ({"mr": 1, "nr": 1} if blocks else {}))


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_preset_has_a_budget_that_gives_an_interval(name):
    budget = EXPERIMENTS[name].budget
    assert set(budget) == set(PRESETS)
    assert budget["quick"].rounds >= 3, "six samples: the fewest whose interval covers the median with 95 %"
    seconds = [budget[preset].seconds * budget[preset].processes for preset in PRESETS]
    assert seconds == sorted(seconds)


@pytest.mark.parametrize(("preset", "most_s"), [("smoke", 30), ("quick", 18 * 60), ("full", 12 * 3600)])
def test_all_budgets_together_stay_within_bounds(preset, most_s):
    # limits: most cases have their rounds long before
    machine = dataclasses.replace(MACHINE, cores=2, threads=2)
    asked = [experiment for experiment in EXPERIMENTS.values() if experiment.is_asked(preset, machine)]
    spent = {e.name: e.budget[preset].seconds * len(e.cases(preset, machine)) for e in asked}
    assert sum(spent.values()) <= most_s, spent


def test_figures_name_findings_and_options_that_there_are():
    figures = [figure for experiment in EXPERIMENTS.values() for figure in experiment.figures]
    assert [str(fault) for figure in figures for fault in answers.faults(figure)] == []


def test_figures_have_names_of_their_own():
    names = [figure.name for experiment in EXPERIMENTS.values() for figure in experiment.figures]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("preset", ["quick", "full"])
def test_ladder_has_every_step_and_a_peak_for_each_semiring(preset):
    cases = EXPERIMENTS["ladder"].cases(preset, dataclasses.replace(MACHINE, simd=("avx2", "fma")))
    libraries = ["cpu-numpy", "cpu-mkl", "cpu-openblas as Haswell", "cpu-tropical-gemm"]
    ladders = [case for case in cases if case.axes["role"] == "product"]
    peaks = [case for case in cases if case.axes["role"] == "peak"]
    for case in ladders:
        labels = [contender.label for contender in case.contenders]
        assert labels[:5] == ["cpu-naive", "cpu-transposed", "cpu-tiled reuse=1", "cpu-tiled reuse=2", "cpu-packed"]
        assert labels[-4:] == libraries
    for name in {case.axes["semiring"] for case in ladders}:
        sizes = [case.axes["n"] for case in ladders if case.axes["semiring"] == name]
        assert len(sizes) >= 3
        assert sizes == sorted(set(sizes))
        assert not any(map(is_a_power_of_two, sizes)), "there a column falls into few sets of a cache"
    assert {case.axes["semiring"] for case in ladders} == {case.axes["semiring"] for case in peaks}
    assert {"plus_times", "min_plus"} <= {case.axes["semiring"] for case in ladders}


def is_a_power_of_two(n):
    return n & (n - 1) == 0


@pytest.mark.parametrize("preset", PRESETS)
def test_the_ladder_has_a_power_of_two_beside_a_size_that_is_none(preset):
    lesson = [case for case in EXPERIMENTS["ladder"].cases(preset, MACHINE) if case.axes["role"] == LESSON]
    below, at = [case.axes["n"] for case in lesson]
    assert [is_a_power_of_two(n) for n in (below, at)] == [False, True]
    assert 0.75 <= below / at < 1, "so little more work explains nothing"
    assert len({tuple(contender.label for contender in case.contenders) for case in lesson}) == 1
    assert lesson[0].contenders[0].label == "cpu-naive"


def test_a_backend_of_narrow_operands_is_no_rung():
    case = EXPERIMENTS["ladder"].cases("quick", MACHINE)[0]
    labels = {contender.label for contender in case.contenders}
    assert "cpu-simd" in labels
    assert not {"cpu-half", "cpu-mixed"} & labels


def test_a_backend_that_is_no_library_joins_the_ladder(monkeypatch):
    entries = tuple(like("cpu-naive", *new) for new in (("cpu-new", 35), ("cpu-library", 85), ("gpu-new", 20)))
    plant_entries(monkeypatch, entries)
    labels = [contender.label for contender in EXPERIMENTS["ladder"].cases("quick", MACHINE)[0].contenders]
    assert labels[-3:] == ["cpu-packed", "cpu-new", "cpu-numpy"]


@pytest.mark.parametrize("preset", ["quick", "full"])
def test_sizes_straddle_powers_of_two_and_have_regular_neighbours(preset):
    kinds = {case.axes["n"]: case.axes["kind"] for case in EXPERIMENTS["size_sweep"].cases(preset, MACHINE)}
    assert set(kinds.values()) == {"power of two", "tile multiple", "multiple ± 1", "prime", "odd"}
    regular = [n for n, kind in kinds.items() if kind in ("power of two", "tile multiple")]
    for n, kind in kinds.items():
        assert (n % 16 == 0) == (n in regular)
        assert min(regular) <= n <= max(regular)
        if kind == "prime":
            assert all(n % divisor for divisor in range(2, int(n**0.5) + 1))
        if kind == "multiple ± 1":
            assert n - 1 in regular or n + 1 in regular
    assert {511, 512, 513} <= set(kinds)


@pytest.mark.parametrize("preset", PRESETS)
def test_block_sizes_vary_within_the_matrix(preset):
    for case in (case for case in EXPERIMENTS["block_size"].cases(preset, MACHINE) if "sweep" in case.axes):
        *swept, model = case.contenders
        values = [next(iter(contender.arguments["parameters"].values())) for contender in swept]
        assert values == sorted(set(values))
        assert len(values) >= 2
        assert values[-1] <= case.axes[{"kc": "k", "mc": "m"}.get(case.axes["sweep"], "n")]
        assert not model.arguments["parameters"], "its own choice"
    if preset == "full":
        sizes = [case.axes for case in EXPERIMENTS["block_size"].cases(preset, MACHINE) if "sweep" in case.axes]
        assert min(min(axes[size] for size in "mnk") for axes in sizes) >= 2048
        assert max(axes["k"] for axes in sizes) == 4096


def like(backend: str, name: str, step: int) -> Entry:
    """Return the entry of a backend that is new here, and else like another."""
    return Entry(name, "test", type("New", (type(registry.find(backend)),), {"name": name, "step": step})())


@pytest.mark.parametrize(("experiment", "preset"), [("vs_peers", "full"), ("thin_shapes", "quick")])
def test_every_library_is_a_peer_and_the_subject_is_the_reference(experiment, preset, monkeypatch):
    entries = [*registry.discover(), like("cpu-naive", "cpu-library", 85), like("cpu-naive", "cpu-new", 35)]
    plant_entries(monkeypatch, entries)
    for case in EXPERIMENTS[experiment].cases(preset, MACHINE):
        if case.axes.get("role") != "peak":
            labels = {contender.label for contender in case.contenders}
            assert case.reference == "cpu-simd"
            assert {"cpu-simd", "cpu-numpy", "cpu-blis", "cpu-scipy", "cpu-mkl", "cpu-tropical-gemm"} <= labels
            assert "cpu-library" in labels
            assert not labels & {"cpu-new", "cpu-packed", "cpu-naive"}


def test_the_quick_preset_meets_the_commonest_library_and_the_fastest_alone():
    for case in EXPERIMENTS["vs_peers"].cases("quick", MACHINE):
        if case.axes.get("role") != "peak":
            backends = [contender.arguments["backend"] for contender in case.contenders]
            assert backends == ["cpu-simd", "cpu-numpy", "cpu-mkl", "cpu-openblas", "cpu-tropical-gemm"]
            assert case.axes["threads"] == 1, "a few minutes decide nothing about shared cores"


def test_peers_are_met_over_every_semiring_and_at_sizes_that_fit_no_tile():
    cases = [case for case in EXPERIMENTS["vs_peers"].cases("full", MACHINE) if case.axes.get("role") != "peak"]
    assert {case.axes["semiring"] for case in cases} == set(SEMIRINGS)
    for dtype in ("float64", "float32"):
        shared = {513, 1024, 1025, 2048, 2049}
        for threads, wanted in ((1, {256, 257, 384, 511, 1000, 1537} | shared), (MACHINE.cores, shared)):
            place = {"semiring": "plus_times", "dtype": dtype, "threads": threads}
            assert wanted <= {case.axes["n"] for case in cases if place.items() <= case.axes.items()}
    for case in cases:
        assert {contender.threads for contender in case.contenders} == {case.axes["threads"]}


@pytest.mark.parametrize("preset", PRESETS)
def test_one_core_is_not_asked_twice(preset):
    alone = dataclasses.replace(MACHINE, cores=1, threads=1)
    assert {
        contender.threads for case in EXPERIMENTS["vs_peers"].cases(preset, alone) for contender in case.contenders
    } == {1}


@pytest.mark.parametrize("preset", PRESETS)
def test_ordinary_products_have_a_peak_of_their_own(preset):
    cases = EXPERIMENTS["vs_peers"].cases(preset, MACHINE)

    def place(case: Case) -> tuple:
        return case.axes["semiring"], case.axes["dtype"], case.contenders[0].threads

    peaks = {place(case) for case in cases if case.axes.get("role") == "peak"}
    asked = {place(case) for case in cases if case.axes.get("role") != "peak"}
    # Over the other semirings the ratio to a peer is what counts.
    asked = {where for where in asked if where[0] == "plus_times" and where[1].startswith("float")}
    assert asked == peaks


@pytest.mark.parametrize("preset", PRESETS)
def test_percent_of_peak_times_each_peak_in_turns_with_the_product(preset):
    for case in EXPERIMENTS["percent_of_peak"].cases(preset, MACHINE):
        assert [contender.label for contender in case.contenders] == ["cpu-simd", "peak"]


def test_percent_of_peak_is_asked_of_every_semiring_and_a_common_size():
    for preset in ("quick", "full"):
        cases = [c for c in EXPERIMENTS["percent_of_peak"].cases(preset, MACHINE) if c.axes["role"] == "product"]
        pairs = {(case.axes["semiring"], case.axes["dtype"]) for case in cases}
        at_common = {(c.axes["semiring"], c.axes["dtype"]) for c in cases if c.axes["n"] == 1024}
        assert pairs == at_common, "the heat map would have holes"
    assert {name for name, _ in pairs} == set(SEMIRINGS)
    assert {("lor_land", "bool"), ("min_plus", "int8"), ("plus_times", "float32")} <= pairs


@pytest.mark.parametrize("preset", PRESETS)
def test_narrow_operands_are_timed_beside_wide_ones_of_the_same_sizes(preset):
    for case in EXPERIMENTS["mixed_precision"].cases(preset, MACHINE):
        *mixed, (wide, product) = products(case)
        assert all(problem.is_mixed and problem.input_dtype.name == case.axes["operands"] for _, problem in mixed)
        assert product == dataclasses.replace(mixed[0][1], operand_dtype=None)
        assert not product.is_mixed
        assert wide.arguments["backend"] in wide.label
        assert product.dtype.name in wide.label
        assert {contender.threads for contender, _ in products(case)} == {case.axes["threads"]}


def test_dense_sweep_leaves_no_size_out():
    cases = EXPERIMENTS["dense_sweep"].cases("full", MACHINE)
    square = {case.axes["n"] for case in cases if case.axes["m"] == case.axes["n"] == case.axes["k"]}
    assert {*range(500, 601), *range(1000, 1061)} <= square
    assert all({2**k - 1, 2**k, 2**k + 1} <= square for k in range(7, 12))


@pytest.mark.parametrize("preset", ["quick", "full"])
def test_a_sweep_of_one_dimension_keeps_the_others(preset):
    for changed in "mnk":
        cases = [
            c
            for c in EXPERIMENTS["dense_sweep"].cases(preset, MACHINE)
            if c.axes["sweep"].startswith(f"only {changed}")
        ]
        assert len({case.axes[changed] for case in cases}) == len(cases) >= 3
        assert {case.axes[other] for case in cases for other in "mnk" if other != changed} == {512}
        assert all(case.axes["size"] == case.axes[changed] for case in cases)


def test_thin_shapes_are_thin_in_every_direction():
    shapes = {(p.m, p.n, p.k) for case in EXPERIMENTS["thin_shapes"].cases("full", MACHINE) for _, p in products(case)}
    assert all(max(shape) >= 128 * min(shape) or min(shape) <= 64 for shape in shapes)
    for dimension in range(3):
        assert any(shape[dimension] * 64 <= max(shape) for shape in shapes)


NEW = ("vs_peers", "percent_of_peak", "dense_sweep", "thin_shapes")


@pytest.mark.parametrize(("preset", "most_s"), [("smoke", 2), ("quick", 150)])
def test_what_the_fast_kernels_add_is_short(preset, most_s):
    machine = dataclasses.replace(MACHINE, cores=2, threads=2)
    spent = {
        name: EXPERIMENTS[name].budget[preset].seconds * len(EXPERIMENTS[name].cases(preset, machine)) for name in NEW
    }
    assert sum(spent.values()) <= most_s, spent


@pytest.mark.parametrize("cores", SEVERAL_CORES)
def test_thread_counts_run_from_one_to_all_cores(cores):
    machine = dataclasses.replace(MACHINE, cores=cores)
    for case in EXPERIMENTS["thread_scaling"].cases("full", machine):
        threads = [contender.threads for contender in case.contenders]
        assert threads[0] == 1
        assert threads[-1] == cores
        assert threads == sorted(set(threads))


def test_weak_scaling_gives_each_thread_the_same_work():
    for case in EXPERIMENTS["thread_scaling"].cases("full", MACHINE):
        shares = [problem.pairs / contender.threads for contender, problem in products(case)]
        if case.axes["mode"] == "weak":
            assert max(shares) / min(shares) < 1.02
        else:
            assert len({problem.pairs for _, problem in products(case)}) == 1


@pytest.mark.parametrize("cores", SEVERAL_CORES)
def test_sizes_of_scaling_stay_whole_tiles_or_ragged(cores):
    machine = dataclasses.replace(MACHINE, cores=cores)
    for case in EXPERIMENTS["thread_scaling"].cases("full", machine):
        if case.axes["semiring"] != "plus_times":
            continue
        left = {side % 8 for _, x in products(case) for side in (x.m, x.n, x.k)}
        assert left == ({3} if case.axes["work"] == "ragged" else {0})


@pytest.mark.parametrize("preset", ["quick", "full"])
def test_the_price_of_every_semiring_is_asked(preset):
    case = EXPERIMENTS["semiring_cost"].cases(preset, MACHINE)[0]
    assert case.reference == "plus_times"
    by_name = {problem.semiring.name: problem for _, problem in products(case)}
    assert set(by_name) == set(SEMIRINGS)
    assert {name for name, problem in by_name.items() if problem.dtype.name == "bool"} == {"lor_land", "lxor_land"}
    assert len({(problem.m, problem.n, problem.k) for problem in by_name.values()}) == 1


def test_roofline_has_roofs_and_shapes_on_both_sides_of_any_balance():
    cases = EXPERIMENTS["roofline"].cases("quick", MACHINE)
    buffers = {case.axes["level"]: case.arguments["size_bytes"] for case in cases if case.axes["role"] == "bandwidth"}
    assert buffers["memory"] >= 4 * MACHINE.l3
    assert buffers["L1"] < MACHINE.l1d < buffers["L2"] < MACHINE.l2 < 2 * MACHINE.l2 < buffers["L3"] < MACHINE.l3
    assert any(case.axes["role"] == "peak" for case in cases)
    intensities = [p.operations / p.bytes_moved for case in cases for _, p in products(case)]
    assert min(intensities) < 0.5
    assert max(intensities) > 20


@pytest.mark.parametrize("l3", [0, 4 << 20])
def test_an_l3_that_is_missing_or_hardly_larger_than_l2_has_no_roof(l3):
    machine = dataclasses.replace(MACHINE, l3=l3)
    levels = [case.axes.get("level") for case in EXPERIMENTS["roofline"].cases("quick", machine)]
    assert [level for level in levels if level] == ["memory", "L2", "L1"]


ON_GPUS = ["gpu_ladder", "gpu_size_sweep", "gpu_edges", "gpu_tile_size", "gpu_semirings", "gpu_layout"]
ON_GPUS += ["offload_threshold"]
WITH_GPU = dataclasses.replace(MACHINE, gpu={"name": "NVIDIA H200"})


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("name", ON_GPUS)
def test_without_a_gpu_one_contender_says_so_and_with_one_all_is_asked(name, preset):
    (absent,) = EXPERIMENTS[name].cases(preset, MACHINE)
    assert [contender.label for contender in absent.contenders] == ["gpu-tuned"]
    cases = EXPERIMENTS[name].cases(preset, WITH_GPU)
    assert all(
        contender.label.startswith("cpu-")
        for case in cases
        if "device" not in case.axes
        for contender in case.contenders
    )
    assert len({json.dumps(case.axes, sort_keys=True) for case in cases}) == len(cases)
    backends = {c.arguments["backend"] for case in cases for c in case.contenders if "backend" in c.arguments}
    assert backends <= {entry.name for entry in registry.discover()}


def contenders_on_a_gpu(name):
    """Return the labels of an experiment's contenders on a GPU, on a machine that has one."""
    cases = [case for preset in PRESETS for case in EXPERIMENTS[name].cases(preset, WITH_GPU)]
    return {
        c.label
        for case in cases
        for c in case.contenders
        if str(c.arguments.get("backend")).startswith("gpu-")
        or case.arguments.get("where") == "gpu"
        or case.arguments.get("device") == "cuda"
    }


def test_every_experiment_has_a_gpu_beside_or_says_where_it_is():
    page = (Path(__file__).parents[2] / "docs" / "gpu.md").read_text(encoding="utf-8")
    section = page.partition("## Beside the CPU")[2].partition("\n## ")[0]
    rows = [line.split("|")[1:3] for line in section.splitlines() if line.startswith("| `")]
    told = {}
    for names, place in rows:
        for name in re.findall(r"`(\w+)`", names):
            assert name not in told
            told[name] = set(re.findall(r"`(\w+)`", place)), place.strip()
    assert set(told) == {name for name in EXPERIMENTS if not name.startswith("gpu_")}
    for name, (counterparts, place) in told.items():
        assert bool(contenders_on_a_gpu(name)) == (place == "a contender there")
        assert all(contenders_on_a_gpu(counterpart) for counterpart in counterparts)
        assert counterparts or place == "a contender there" or place.startswith("none: ")


@pytest.mark.parametrize("preset", PRESETS)
def test_a_machine_without_a_gpu_is_asked_the_same_of_its_cpu(preset):
    for name in ("workloads", "semiring_cost", "shortest_paths", "cold_caches", "roofline"):
        without, beside = (
            {c.label for case in EXPERIMENTS[name].cases(preset, machine) for c in case.contenders}
            for machine in (MACHINE, WITH_GPU)
        )
        assert without <= beside
        assert not any("gpu-" in label for label in without)


def test_the_best_of_the_cpu_stands_before_the_rungs_of_the_gpu():
    cases = [case for case in EXPERIMENTS["gpu_ladder"].cases("quick", WITH_GPU) if case.axes["role"] == "product"]
    assert [case.axes.get("device") for case in cases] == [None, "gpu"] * (len(cases) // 2)
    for on_cpu, on_gpu in zip(cases[::2], cases[1::2], strict=True):
        assert on_cpu.arguments == on_gpu.arguments
        expected = ["cpu-numpy", "cpu-simd"] if on_cpu.axes["semiring"] == "plus_times" else ["cpu-simd"]
        assert [c.label for c in on_cpu.contenders] == expected
        assert {c.threads for c in on_cpu.contenders} == {WITH_GPU.cores}
        assert all(c.label.startswith("gpu-") for c in on_gpu.contenders)


def test_a_gpu_sweep_leaves_no_size_out_and_has_the_vendor_beside():
    cases = EXPERIMENTS["gpu_size_sweep"].cases("quick", WITH_GPU)
    sizes = {
        dtype: {case.axes["n"] for case in cases if case.axes["dtype"] == dtype} for dtype in ("float32", "float64")
    }
    common = {n + step for n in (1024, 2048, 4096) for step in range(-4, 5)} | {8191, 8192, 8193}
    assert sizes == {"float32": common | set(range(4000, 4129)), "float64": common}
    assert all("gpu-cublas" in {contender.label for contender in case.contenders} for case in cases)


def test_redirected_stands_beside_conditional_at_every_size_near_1000_and_4096():
    on_gpu = [case for case in EXPERIMENTS["gpu_edges"].cases("quick", WITH_GPU) if case.axes["data"] == "on the GPU"]
    sizes = {case.axes["n"] for case in on_gpu if case.axes["semiring"] == "min_plus"}
    assert sizes >= {*range(1000, 1101), *range(4090, 4111)}
    assert all({"redirected", "conditional"} <= {c.label for c in case.contenders} for case in on_gpu)


def test_a_roofline_has_a_gpu_where_there_is_one_with_roofs_of_its_own():
    on_gpu = [case for case in EXPERIMENTS["roofline"].cases("quick", WITH_GPU) if case.axes.get("device") == "gpu"]
    assert {case.axes["role"] for case in on_gpu} == {"bandwidth", "peak", "product"}
    intensities = [p.operations / p.bytes_moved for case in on_gpu for _, p in products(case)]
    assert min(intensities) < 1
    assert max(intensities) > 500
    assert not [c for c in EXPERIMENTS["roofline"].cases("quick", MACHINE) if "device" in c.axes]


def test_the_smallest_roofline_has_the_kernel_of_gemm_and_the_library():
    labels = {c.label for case in EXPERIMENTS["roofline"].cases("smoke", MACHINE) for c in case.contenders}
    assert labels >= {"cpu-simd", "cpu-numpy"}


def test_a_gpu_has_ceilings_of_its_own():
    for name in ("gpu_ladder", "gpu_semirings"):
        cases = EXPERIMENTS[name].cases("quick", WITH_GPU)
        asked = {(c.axes["semiring"], c.axes["dtype"]) for c in cases if c.axes["role"] == "product"}
        peaks = {(c.axes["semiring"], c.axes["dtype"]) for c in cases if c.axes["role"] == "peak"}
        assert asked == peaks


def test_tasks_say_whose_call_or_algorithm_they_time():
    problem = Problem(4, 4, 4).to_json()
    batch = Problem(4, 4, 4, batch=(2,)).to_json()
    asked = {**dict.fromkeys(small_products.CALLS["full"], problem), call_task.GEMM: batch, call_task.NUMPY: batch}
    of_calls = {name: call_task.call(problem=x, name=name, seed=1, threads=1) for name, x in asked.items()}
    solve = {"name": "qr", "n": 40, "dtype": "float64", "where": "host", "threads": 1}
    of_solves = {name: linalg_task.algorithm(**solve, method=name) for name in ("cpu-numpy", linalg_task.LIBRARY)}
    told = {name: task.facts().get("project", "") for name, task in (of_calls | of_solves).items()}
    assert {name: project for name, project in told.items() if project} == {
        call_task.CALL_OF_LIBRARY: "NumPy",
        call_task.NEW_OF_LIBRARY: "NumPy",
        call_task.NUMPY: "NumPy",
        linalg_task.LIBRARY: "LAPACK",
    }


WITH_ALL = dataclasses.replace(WITH_GPU, cores=16, threads=16, simd=("avx512f", "amx_tile"))


def test_every_goal_is_asked_of_contenders_that_meet_in_a_case(monkeypatch):
    monkeypatch.setattr(peers, "PACKAGES", {})  # as if all were installed
    for experiment in EXPERIMENTS.values():
        cells = synthetic.cells(experiment, "full", machine=WITH_ALL) if experiment.goals else []
        places = {(cell.experiment, cell.case, cell.contender): cell for cell in cells}
        run = Side("full", places, {MACHINE.key: WITH_ALL})
        for goal in experiment.goals:
            assert goals.judged(run, [dataclasses.replace(experiment, goals=(goal,))]), goal


@pytest.mark.parametrize("name", [name for name, experiment in EXPERIMENTS.items() if experiment.goals])
def test_what_is_asked_of_a_gpu_is_planned_there(name):
    """The first contender of a case and one of those that compete with it take the product."""
    entries, experiment = {entry.name: entry.backend for entry in registry.discover()}, EXPERIMENTS[name]
    for case in experiment.cases("full", WITH_ALL):
        asked = [
            (entries[arguments["backend"]], Problem.from_json(dict(arguments["problem"])), arguments["parameters"])
            for c in case.contenders
            if "gpu-" in (arguments := {**case.arguments, **c.arguments}).get("backend", "") and "problem" in arguments
        ]
        able = [one for one in asked if one[0].refuses(one[1]) is None]
        is_odd = case.axes.get("operands") == "int8" and case.axes["n"] % 4  # cuBLAS takes no such rows of bytes
        assert len(able) >= min(1 if is_odd else 2, len(asked)), case.axes
        for backend, problem, parameters in able:
            assert make_plan(backend, problem, WITH_ALL).override(parameters).problem == problem


CALLS = [
    (call_task.GEMM, {}, {"own": True, "layout": "CFC"}),
    (call_task.NUMPY, {}, {"own": True, "layout": "FCC"}),
    (call_task.GEMM, {"semiring": "min_plus", "dtype": "float32"}, {"layout": "FFC"}),
    (call_task.CONVERTED, {"operand_dtype": np.dtype("float32")}, {}),
    (call_task.GEMM, {"operand_dtype": np.dtype("float32")}, {"after": [5, 3]}),
    (call_task.NEW_RESULT, {}, {}),
]


@pytest.mark.parametrize(
    ("name", "kind", "options", "where"),
    [(*one, where) for one in CALLS for where in ("host", "gpu") if where == "host" or "semiring" not in one[1]],
)
def test_whole_calls_are_proven_wherever_they_compute(name, kind, options, where, monkeypatch):
    if where == "gpu":
        fake_backends.install(monkeypatch).__spec__ = ModuleSpec("cupy", None)
        monkeypatch.setattr(device, "missing", lambda: None)
    layout, arguments = options.get("layout", "CCC"), {k: x for k, x in options.items() if k != "layout"}
    problem = Problem(8, 8, 8, layout=layout, **kind).to_json()
    task = call_task.call(problem=problem, name=name, seed=1, threads=1, where=where, **arguments)
    task.spoil()
    with pytest.raises(VerificationError):
        task.verify()
    task.run()
    task.wait()
    task.verify()
    assert set(task.facts()["first_s"]) == {name}
    assert ("longest_after_s" in task.facts()) == ("after" in options)


def test_what_the_host_spends_on_a_call_does_not_wait_for_it(monkeypatch):
    waits = []
    clock = call_task.HostTime(lambda: waits.append("synchronized"))
    clock.sample(lambda: waits.append("run"), lambda: waits.append("wait"), 3)
    assert waits == ["synchronized", "run", "run", "run"]
