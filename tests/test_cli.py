"""The command line: every command, its exit status, its JSON, its words for mistakes, and never a traceback."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import typer

from harness.cli import app, console, main
from harness.machine import VERSION, detect
from harness.proof.contract import Finding
from harness.run import machine_info, runner
from tests._support.processes import ROOT, eventually, python, run

PYTHON = "python" if shutil.which("python") == sys.executable else sys.executable  # as messages name it
COMMANDS = (
    "list",
    "info",
    "check",
    "kernel",
    "run",
    "plot",
    "report",
    "results",
    "tune",
    "calibrate",
    "compare",
    "bench-compare",
)


def harness(*arguments: str, **options) -> subprocess.CompletedProcess[str]:
    """Run the command line as a user does, without a terminal."""
    answer = python("-m", "harness", *arguments, status=None, **options)
    assert "Traceback" not in answer.stderr, answer.stderr
    assert "\x1b" not in answer.stdout + answer.stderr, "escape sequences without a terminal"
    return answer


@pytest.fixture
def in_process(monkeypatch, capsys):
    """Return what runs the command line in this process: another takes a second to start, and most tests need none."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        monkeypatch.setattr(sys, "argv", ["gemm-harness", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        return subprocess.CompletedProcess(arguments, ended.value.code or 0, *capsys.readouterr())

    monkeypatch.chdir(ROOT)
    return run


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Return a folder with the results of one small experiment, and what its run printed."""
    folder = tmp_path_factory.mktemp("results")
    answer = harness("run", "ladder", "--preset", "smoke", "--only", "cpu-naive", "--results", str(folder))
    assert answer.returncode == 0, answer.stderr
    return folder, answer


def test_a_run_measures_where_it_is_told_to_and_few_samples_are_not_published(in_process, tmp_path):
    places = ["--results", str(tmp_path / "results")]
    assert harness("run", "strassen", "--preset", "smoke", "--where", "n=65", *places).returncode == 0
    cells = json.loads(in_process("results", "--by", "cell", "--json", *places).stdout)
    assert {cell["axes.n"] for cell in cells} == {65}
    assert len({cell["contender"] for cell in cells}) > 1
    draw = ["plot", "strassen", *places, "--figures", str(tmp_path / "figures"), "--allow-dirty"]
    drawn = harness(*draw).stdout
    assert "(2 files)" in drawn
    assert is_told(drawn, "strassen")
    assert "(1 file)" in harness(*draw, "--decided").stdout, "errors are no ratios of times"


def is_told(output: str, experiment: str) -> bool:
    """Return whether `output` says what `experiment` has found, and names a figure that is there."""
    found = re.search(rf"^{experiment}: (.+)\n  (.+\.svg)$", output, re.MULTILINE)
    return found is not None and Path(found[2]).is_file()


def test_a_run_of_some_contenders_prints_what_no_report_shows(results, in_process, tmp_path):
    (path,) = results[0].glob("*/smoke/ladder.jsonl")
    whole = tmp_path / path.relative_to(results[0])
    whole.parent.mkdir(parents=True)
    whole.write_text(re.sub(r'"left_out":\[.+?\]', '"left_out":[]', path.read_text()))
    row = re.compile(r"^plus_times, float64, n=128 +cpu-naive .* GFLOP/s", re.MULTILINE)
    assert row.search(results[1].stdout)
    assert "go on showing" not in results[1].stdout, "there is no whole case"
    again = in_process("run", "ladder", "--preset", "smoke", "--only", "cpu-naive", "--results", str(tmp_path))
    assert row.search(again.stdout)
    (listing,) = re.findall(r"report and compare go on showing.*\n.* -m harness (.*)$", again.stdout, re.MULTILINE)
    rows = in_process(*listing.split(), "--json", "--results", str(tmp_path)).stdout
    assert [(cell["contender"], cell["is_current"]) for cell in json.loads(rows)] == [("cpu-naive", False)] * 3


def test_help_names_every_command_and_the_exit_statuses(in_process):
    answer = harness("--help")
    assert answer.returncode == 0
    assert all(f"\n  {name} " in answer.stdout for name in COMMANDS)
    assert "130" in answer.stdout
    assert all(in_process(name, "--help").returncode == 0 for name in COMMANDS)


def test_the_console_script_is_the_same_program():
    script = Path(sys.executable).with_name("gemm-harness")
    answer = run(script, "--help")
    assert "check" in answer.stdout


def test_list_shows_every_backend_or_why_not():
    from harness import registry

    answer = harness("list")
    assert answer.returncode == 0
    for entry in registry.discover():
        assert re.search(rf"^{re.escape(entry.name)}\b", answer.stdout, re.MULTILINE), entry.name


def test_list_as_json(in_process):
    records = {record["name"]: record for record in json.loads(in_process("list", "--json").stdout)}
    naive = records["cpu-naive"]
    assert naive["available"]
    assert naive["missing"] is None
    assert naive["origin"] == "backends.cpu.naive"
    assert naive["step"] == 10
    for record in records.values():
        assert record["available"] == (record["missing"] is None)


@pytest.mark.parametrize(
    ("arguments", "heavy"),
    [
        (["--help"], {"numba", "matplotlib", "scipy", "cupy", "mpi4py"}),
        (["no-such-command"], {"numba", "matplotlib", "scipy", "cupy", "mpi4py"}),
        (["list"], {"matplotlib", "cupy", "mpi4py"}),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_what_must_answer_at_once_imports_nothing_heavy(arguments, heavy):
    """The cause of a slow answer, not the time it takes: a timing would decide by what else runs on the machine."""
    program = (
        "import sys\nfrom harness.cli import app\n"
        f"try: app({arguments!r})\nexcept SystemExit: pass\n"
        f"print(sorted({heavy!r} & set(sys.modules)), file=sys.stderr)"
    )
    answer = python("-c", program)
    assert answer.stderr.splitlines()[-1] == "[]"


def test_info_says_what_this_machine_is(in_process):
    facts = json.loads(harness("info", "--json").stdout)
    assert facts["machine"]["cores"] >= 1
    assert facts["machine"]["packages"]["numba"]
    assert facts["numba"]["threading_layer"] in ("omp", "tbb", "workqueue")
    assert any(pool["internal_api"] in ("openblas", "mkl") for pool in facts["threadpools"])
    assert facts["slug"] in in_process("info").stdout


def test_info_shows_the_peaks_that_it_measures(in_process, monkeypatch):
    """Of one kernel; tests/run/test_peaks.py proves that each has a peak."""
    all_of_them = machine_info.measure_peaks
    monkeypatch.setattr(machine_info, "measure_peaks", lambda: all_of_them(("plus_times",), (np.dtype(np.float64),)))
    shown = in_process("info", "--peaks").stdout
    assert re.search(r"^plus_times +\d+\.\d+\s*$", shown, re.MULTILINE)
    assert "peak of one core, Gop/s" in shown
    assert "two a pair" in shown
    (peak,) = json.loads(in_process("info", "--peaks", "--json").stdout)["peaks"]
    assert (peak["semiring"], peak["dtype"]) == ("plus_times", "float64")
    assert peak["gop_per_s"] == 2 * peak["gpairs_per_s"] > 0


def test_run_reports_and_stores(results):
    folder, answer = results
    assert re.search(r"^ladder +\d+", answer.stdout, re.MULTILINE)
    assert str(folder) in answer.stdout
    assert "ladder" in answer.stderr  # progress, as plain lines
    assert list(folder.glob("*/smoke/ladder.jsonl"))


def test_plot_and_report_work_from_stored_results_alone(results, in_process, tmp_path):
    folder, _ = results
    drawn = harness("plot", "--results", str(folder), "--figures", str(tmp_path))
    assert drawn.returncode == 0, drawn.stderr
    assert list(tmp_path.glob("*/smoke/*.svg"))
    assert str(tmp_path) in drawn.stdout
    (slug,) = (path.parent.name for path in folder.glob("*/smoke"))
    readme, names = tmp_path / "README.md", ("ladder", f"ladder of {slug}", "ladder of another")
    readme.write_text("\n".join(f"<!-- {name}:begin -->old<!-- {name}:end -->" for name in names))
    index = tmp_path / "index.md"
    index.write_text("<!-- finding ladder:begin -->\n<!-- finding ladder:end -->\n")
    pages = ("--readme", str(readme), "--readme", str(index))
    written = in_process("report", "--results", str(folder), "--figures", str(tmp_path), *pages)
    assert written.returncode == 0, written.stderr
    (page,) = re.findall(r"^report +(.+)$", written.stdout, re.MULTILINE)
    assert "What does each classic optimisation" in Path(page).read_text()
    assert "cpu-naive" in (Path(page).parent / "cells.csv").read_text()
    shown = {name: readme.read_text().split(f"<!-- {name}:begin -->")[1].split("<!--")[0] for name in names}
    assert ["cpu-naive" in table for table in shown.values()] == [True, True, False]
    assert shown["ladder of another"] == "old"
    assert "cpu-simd" not in index.read_text(), "without its subject nothing is found"


def test_an_experiment_without_results_is_not_drawn_in_silence(results, tmp_path, in_process):
    folder, _ = results
    answer = in_process("plot", "ladder", "qr", "--results", str(folder), "--figures", str(tmp_path))
    assert answer.returncode == 2
    assert "no results of qr" in answer.stderr
    assert "python -m harness run qr" in answer.stderr
    assert list(tmp_path.glob("*/smoke/ladder.svg")), "what has results is drawn"


def test_a_failed_cell_makes_status_1(tmp_path):
    """A backend that is known to fail, brought in from outside."""
    module = (
        "from harness.interface import Backend\nfrom harness.plan import Plan\n\n\n"
        "class Bad(Backend):\n    name, step, idea, source = 'cpu-zz-bad', 50, 'fails', 'a test'\n"
        "    def plan(self, problem, machine):\n        return Plan(problem)\n"
        "    def prepare(self, plan, operands):\n        raise RuntimeError('broken on purpose')\n"
    )
    (tmp_path / "zz_bad.py").write_text(module)
    metadata = tmp_path / "zz_bad-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: zz-bad\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[gemm_harness.backends]\nbad = zz_bad:Bad\n")
    answer = harness(
        *("run", "ladder", "--preset", "smoke", "--only", "cpu-zz-bad", "--results", str(tmp_path / "results")),
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert answer.returncode == 1
    assert "FAILED" in answer.stderr
    assert "broken on purpose" in answer.stderr


@pytest.mark.parametrize(
    ("arguments", "clue"),
    [
        (["run", "ladr"], "did you mean 'ladder'?"),
        (["run", "ladder", "--only", "cpu-simdd"], "did you mean 'cpu-simd'?"),
        (["run", "ladder", "--where", "n"], "AXIS=VALUE"),
        (["run", "ladder", "--preset", "smoke", "--where", "n=7"], "n of 100, 128"),
        (["run", "ladder", "--where", "sise=7"], "an axis of m, "),
        (["run", "--preset", "huge"], "'smoke', 'quick', 'full'"),
        (["run", "--results", "/proc/nowhere", "ladder", "--preset", "smoke"], "--results FOLDER, one that can be"),
        (["plot", "--results", "/nowhere"], "/nowhere: no results"),
        (["run", "ladder", "--preset", "smoke", "--results", ""], "expected a path, got an empty one"),
        (["plot", "--figures", ""], "expected a path, got an empty one"),
        (["page", "--output", ""], "expected a path, got an empty one"),
        (["results", "--export", ""], "expected a path, got an empty one"),
        (["page", "--output", "/nowhere/page.html"], "there is no folder /nowhere; make it first"),
        (["results", "--export", "/nowhere/cells.csv"], "there is no folder /nowhere; make it first"),
        (["report", "--readme", "/nowhere/README.md"], "'/nowhere/README.md' does not exist"),
        (["plot", "nonsense"], "unknown experiment 'nonsense'"),
        (["report", "--results", "/nowhere"], f"fix       {PYTHON} -m harness run, or --results FOLDER"),
        (["bench-compare"], f"{PYTHON} -m harness bench-compare origin/main"),
        (["bench-compare", "HEAD", "--problem", "min_plus 512"], "min_plus float32 512"),
        (["bench-compare", "HEAD", "--problem", "min_plus float33 512"], "'float33'"),
        (["tune", "--forget", "--dry-run"], "exclude one another"),
        (["kernel", "cpu-naive"], "cpu-simd"),
        (["kernel", "cpu-simd", "--semiring", "plus_min", "--dtype", "float16"], "float16"),
        (["check", "cpu-naiv"], "did you mean 'cpu-naive'?"),
        (["check", "cpu-naive", "--depth", "bottomless"], "bottomless"),
        (["check", "cpu-naive", "--patience", "nan"], "nan is no number"),
        (["check", "cpu-naive", "--patience", "inf"], "0.1<=x<=1000000"),
        (["calibrate", "--slowdown", "nan"], "nan is no number"),
        (["bench-compare", "HEAD", "--problem", "min_plus float32 0"], "or sizes, above 0"),
        (["results", "--json", "--export", "cells.csv"], "give one of them"),
        (["plot", "--results", "/nowhere", "--preset", "full"], f"{PYTHON} -m harness run --preset full, or"),
        (["compare", "--contenders", "cpu-simd", "cpu-numpy"], "Missing argument 'OLD'"),
        (["lst"], "No such command 'lst'"),
        (["list", "--jsn"], "--jsn"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "says",
)
def test_a_mistake_is_said_with_status_2(arguments, clue, in_process):
    answer = in_process(*arguments)
    assert answer.returncode == 2
    assert clue in answer.stderr
    assert answer.stdout == ""


def test_a_machine_that_has_no_results_is_one_message(results, in_process):
    answer = in_process("plot", "--machine", "nowhere", "--results", str(results[0]))
    assert answer.returncode == 2
    assert "no such machine" in answer.stderr


def numbers():
    """Return each option of each command that is a number: command, option, and whether it is a float."""
    commands = typer.main.get_command(app).commands
    return [
        (name, option.opts[0], option.type.name.startswith("float"))
        for name, command in sorted(commands.items())
        for option in command.params
        if option.type.name.startswith(("int", "float"))
    ]


@pytest.mark.parametrize(("command", "option", "is_float"), numbers())
def test_a_number_that_is_none_is_one_message(in_process, command, option, is_float):
    arguments = {"compare": ["old"], "kernel": ["cpu-simd"]}.get(command, [])
    for value in ("-1", "nan", "inf", "1e400", "-inf", "", "one", *([] if is_float else ["1.5", "1e3"])):
        answer = in_process(command, *arguments, f"{option}={value}")
        assert answer.returncode == 2
        assert f"Invalid value for '{option}'" in answer.stderr
    if command == "calibrate" and not is_float:
        assert "is not in the range" in in_process(command, f"{option}=99999999999999999999").stderr


def test_a_folder_that_cannot_be_made_is_one_message(results, in_process):
    answer = in_process("plot", "--results", str(results[0]), "--figures", "/proc/nowhere")
    assert answer.returncode == 2
    assert "/proc/nowhere: cannot be read or written\n" in answer.stderr
    assert "fix       another path, by the options" in answer.stderr


def test_a_working_directory_that_is_gone_is_said(in_process, tmp_path, monkeypatch):
    folder = tmp_path / "removed"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    answer = in_process("check", "cpu-naive")
    assert answer.returncode == 2
    assert "gemm-harness: the working directory has been removed\n  fix       cd to" in answer.stderr


def test_a_mistake_ends_the_process_without_a_traceback():
    answer = harness("run", "ladr")
    assert (answer.returncode, answer.stdout) == (2, "")
    assert "did you mean 'ladder'?" in answer.stderr


def test_the_version_is_told(in_process):
    assert in_process("--version").stdout == f"gemm-harness {VERSION}\n"


def test_what_is_named_twice_is_done_once(in_process, tmp_path):
    places = ["--preset", "smoke", "--only", "cpu-naive", "--results", str(tmp_path)]
    assert re.search(r"^ladder +3$", in_process("run", "ladder", "ladder", *places).stdout, re.MULTILINE)


def test_without_a_command_it_shows_the_help(in_process):
    answer = in_process()
    assert answer.returncode == 2
    assert "Commands:" in answer.stdout + answer.stderr


def test_check_proves_a_backend_and_gives_its_findings_as_json():
    answer = harness("check", "cpu-numpy", "cpu-numpy", "--json")
    assert answer.returncode == 0, answer.stdout
    findings = [json.loads(line) for line in answer.stdout.splitlines()]
    assert len({finding["what"] for finding in findings}) == len(findings) > 0, "named twice, it is proven once"
    assert all(finding["status"] != "failed" and finding["what"] for finding in findings)


def test_check_prints_the_result_of_each_kernel_and_all_that_is_declined(capsys):
    found = [
        Finding("ok", "declaration", "x: fast"),
        Finding("ok", "plus_times float32: sizes", "34 cases"),
        Finding("ok", "plus_times float32: layouts", "17 cases"),
        Finding("ok", "min_plus float32: sizes", "34 cases"),
        Finding("failed", "min_plus float32: layouts", "wrong"),
        Finding("declined", "lor_land bool: batches", "one by one"),
        Finding("declined", "lxor_land bool: batches", "one by one"),
        *(Finding("declined", f"{name}_times float32", "no plus") for name in ("max", "min", "sub", "any", "all")),
    ]
    assert console.print_findings("x", found, as_json=False, verbose=False) == 1
    assert capsys.readouterr().out.splitlines() == [
        "ok        declaration: 1 aspect",
        "ok        plus_times float32: 2 aspects",
        "failed    min_plus float32: layouts: wrong",
        "ok        min_plus float32: 1 aspect",
        "x: 4 ok, 1 failed, 7 declined",
        "  declined: lor_land bool: batches, lxor_land bool: batches: one by one",
        "  declined: max_times float32, min_times float32, sub_times float32 and 2 more: no plus",
    ]


def test_a_broken_pipe_is_quiet():
    reader = run("sh", "-c", f"{sys.executable} -m harness list --json | head -1")
    assert reader.stdout == "[\n"
    assert reader.stderr == ""


@pytest.mark.deep
def test_an_interrupted_run_goes_on_and_ends_with_what_came_out_the_figure_and_what_to_do_next(in_process, tmp_path):
    results = tmp_path / "results"
    command = ["run", "batched", "--preset", "smoke", "--results", str(results)]
    program = [sys.executable, "-m", "harness", *command]
    process = subprocess.Popen(program, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    eventually(lambda: list(results.glob("*/smoke/batched.jsonl")), process)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "what is finished is kept" in stderr
    again_drawn = f"-m harness plot --preset smoke --machine this --results {results}"
    assert again_drawn in stderr.replace("\n", " ")
    assert "Traceback" not in stderr
    again = harness(*command, "--figures", str(tmp_path / "figures"))
    assert again.returncode == 0
    assert "resuming the run" in again.stderr
    assert is_told(again.stdout, "batched")
    (listed,) = re.findall(r"^next +\S+ -m harness (.+)$", again.stdout, re.MULTILINE)
    written = in_process(*listed.split(), "--allow-dirty")
    assert written.returncode == 0, written.stderr
    *_, report, figures, last = written.stdout.splitlines()
    assert Path(report.split()[1]).is_file()
    assert Path(figures.split()[1], "batched.svg").is_file()
    assert last.startswith("next ")
    quiet = harness(*command).stdout
    assert "\nbatched: " in quiet
    assert ".svg" not in quiet


@pytest.mark.parametrize("fresh", [[], ["--fresh"]])
def test_an_interrupted_run_names_the_command_that_goes_on_from_there(fresh, in_process, monkeypatch, tmp_path):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("harness.run.runner.run", interrupted)
    answer = in_process("run", "ladder", "--preset", "smoke", "--results", str(tmp_path), *fresh)
    assert answer.returncode == 130
    assert ("the same command without --fresh goes on" in answer.stderr) == bool(fresh)


def test_a_run_without_names_says_what_it_does_not_measure_here(in_process, monkeypatch, tmp_path):
    asked = []

    def measured(experiments, *_, **__):
        asked.extend(experiment.name for experiment in experiments)
        return runner.Summary("run", tmp_path, is_resumed=False, counts={}, recorded=0)

    monkeypatch.setattr("harness.run.runner.run", measured)
    two_cores = dataclasses.replace(detect(), cores=2, gpu={})
    monkeypatch.setattr("harness.machine.detect", lambda: two_cores)
    answer = in_process("run", "--results", str(tmp_path))
    assert "ladder" in asked
    assert "mv_map" not in asked
    assert re.search("not asked of this machine by quick, but by name: .*dense_sweep, .*mv_map", answer.stdout)
    in_process("run", "mv_map", "--results", str(tmp_path))
    assert asked[-1] == "mv_map"


class TestKernel:
    def test_a_listing_is_the_pseudo_code_and_the_assembly(self, in_process):
        answer = in_process("kernel", "cpu-simd", "--semiring", "max_min", "--dtype", "int16")
        assert answer.returncode == 0
        assert "(+) is max, (x) is min" in answer.stdout
        assert re.search(r"^\.?LBB\w+:$", answer.stdout, re.MULTILINE)


def test_narrow_terminals_wrap_long_texts_and_no_verdict(capsys, monkeypatch):
    monkeypatch.setattr(console, "PLAIN_WIDTH", 80)
    case = "dense_sweep: plus_times, float64, n=500, sweep m = n = k, 500 to 600, size 500"
    row = (case, "cpu-simd", "0.278 [0.267, 0.289]", "faster")
    console.print_table(("case", "contender", "time ratio", "verdict"), [row])
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[-5:] == ["cpu-simd", "0.278", "[0.267,", "0.289]", "faster"]
    assert len(lines) > 2
