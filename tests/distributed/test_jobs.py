"""Products by the backends of this wing, called from one process: jobs are started, shared, ended and replaced."""

from __future__ import annotations

import importlib.metadata
import os
import signal
import sys
import threading
import time
from multiprocessing.connection import Client, Listener
from pathlib import Path

import numpy as np
import pytest

import harness
from backends.distributed._job import job, jobs, launcher
from backends.distributed._job.job import RankFailed
from harness import machine, registry
from harness.distributed.transport.shared_arrays import SharedArray, attach
from harness.errors import HarnessError
from harness.interface import prepare
from harness.operands import Operands
from harness.problem import Problem
from tests._support import planted_ranks, ranks
from tests._support.processes import eventually

pytestmark = pytest.mark.mpi

NAMES = ("dist-root", "dist-1d", "dist-2d", "dist-3d")


@pytest.fixture(autouse=True)
def _needs_mpi():
    ranks.need_mpi()


@pytest.fixture(scope="module", autouse=True)
def _ends_jobs():
    yield
    jobs.close_all()


def integers(rng, *shape):
    return rng.integers(-9, 9, shape).astype(float)


def executed(name, problem, operands, **options):
    """Return D as computed with these options, and what the ranks report."""
    backend = registry.find(name)
    plan = backend.plan(problem, machine.detect()).override({"base": "cpu-numpy", **options})
    prepared = prepare(backend, plan, operands)
    prepared.run_once()
    return operands.out, prepared.execution.report()


@pytest.mark.parametrize("name", NAMES)
def test_the_public_call_takes_batches_c_out_and_scalars(name, rng):
    a, b, c = integers(rng, 2, 7, 5), integers(rng, 5, 9), integers(rng, 2, 7, 9)
    out = np.empty((2, 7, 9))
    d = harness.gemm(a, b[::-1], c, alpha=2, beta=3, out=out, backend=name, threads=2)
    assert d is out
    assert np.array_equal(out, 2 * (a @ b[::-1]) + 3 * c)
    harness.gemm(a, b, out, beta=1, out=out, backend=name, threads=2)
    assert np.array_equal(out, a @ b + 2 * (a @ b[::-1]) + 3 * c)


def test_the_second_call_is_computed_by_the_same_ranks(rng):
    pids = []
    for _ in range(2):
        harness.gemm(integers(rng, 4, 4), integers(rng, 4, 4), backend="dist-2d", threads=2)
        pids.append([running.pids for running in jobs._jobs.values()])
    assert pids[0] == pids[1]
    assert len(pids[0]) == 1
    assert next(iter(jobs._jobs.values())).products == set(), "what was computed is freed"


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("dist-3d", {"ranks": 4, "grid": "1x2x2", "panel": 2, "in_flight": 2}),
        ("dist-3d", {"ranks": 4, "grid": "2x1x2", "reduction": "mpi"}),
        ("dist-root", {"ranks": 4, "grid": "1x2x2", "panel": 3}),
        ("dist-2d", {"ranks": 4, "memory_cap": 10_000}),
        ("dist-1d", {"ranks": 4}),
        ("dist-2d", {"ranks": 4, "transport": "mpi"}),
        ("dist-2d", {"ranks": 4, "transport": "shared", "panel": 3}),
        ("dist-3d", {"ranks": 4, "grid": "2x1x2", "transport": "mpi"}),
        ("dist-2d", {"ranks": 4, "steal": 1}),
        ("dist-3d", {"ranks": 4, "grid": "2x1x2", "steal": 1}),
    ],
)
def test_options_decide_how_and_not_what(name, options, rng):
    problem = Problem(11, 6, 13, accumulate=True)
    operands = Operands(integers(rng, 11, 13), integers(rng, 13, 6), integers(rng, 11, 6), np.empty((11, 6)))
    d, report = executed(name, problem, operands, **options)
    assert len(report) == 4
    assert np.array_equal(d, operands.a @ operands.b + operands.c)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("dist-3d", {"ranks": 4, "grid": "1x3x1"}, "the grid does not fit the ranks"),
        ("dist-2d", {"ranks": 2, "grid": "1x1x2"}, "several ranks along k"),
        ("dist-1d", {"ranks": 2, "grid": "1x2x1"}, "several ranks along n"),
        ("dist-2d", {"memory_cap": 100}, "too few"),
        ("dist-2d", {"ranks": 2, "grid": "2x1x1", "memory_cap": 100}, "too few"),
        ("dist-2d", {"ranks": 0}, "ranks has no such value"),
        ("dist-2d", {"panel": -1}, "panel has no such value"),
        ("dist-2d", {"in_flight": 0}, "in_flight has no such value"),
        ("dist-2d", {"reduction": "tree"}, "reduction"),
        ("dist-2d", {"steal": 2}, "steal"),
        ("dist-2d", {"rank_threads": 10_000}, "threads is no number"),
        ("dist-2d", {"base": "dist-1d"}, "base is no backend"),
    ],
)
def test_options_that_cannot_be_are_refused_before_a_rank_is_asked(name, options, message, rng, monkeypatch):
    monkeypatch.setattr(job, "Job", None)
    operands = Operands(integers(rng, 8, 8), integers(rng, 8, 8), None, np.empty((8, 8)))
    with pytest.raises(HarnessError, match=message):
        executed(name, Problem(8, 8, 8), operands, **options)


def test_threads_may_call_at_once_with_jobs_of_several_shapes(rng):
    wrong: list[object] = []

    def compute(threads: int) -> None:
        values = np.random.default_rng(threads)
        try:
            for _ in range(3):
                a, b = integers(values, 9, 8), integers(values, 8, 7)
                d = harness.gemm(a, b, backend="dist-3d", threads=threads)
                if not np.array_equal(d, a @ b):
                    wrong.append(d)
        except BaseException as error:  # noqa: BLE001 it would stay in the thread
            wrong.append(error)

    callers = [threading.Thread(target=compute, args=(threads,)) for threads in (1, 2, 1)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert wrong == []


def test_a_forked_child_starts_ranks_of_its_own_and_the_parent_goes_on(rng):
    a, b = integers(rng, 6, 6), integers(rng, 6, 6)
    backend, problem = registry.find("dist-2d"), Problem(6, 6, 6)
    plan = backend.plan(problem, machine.detect()).override({"base": "cpu-numpy", "ranks": 2})
    held = prepare(backend, plan, Operands(a, b, None, np.empty((6, 6))))
    child = os.fork()
    if child == 0:
        status = 1
        try:
            try:
                held.run_once()
            except RankFailed as error:
                right = np.array_equal(executed("dist-2d", problem, Operands(a, b, None, np.empty((6, 6))))[0], a @ b)
                status = 0 if right and "forked from it" in str(error) else 2
            jobs.close_all()
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert np.array_equal(held.run_once(), a @ b)


def test_memory_that_ranks_share_goes_with_the_product(rng):
    a, b = integers(rng, 9, 8), integers(rng, 8, 7)
    assert np.array_equal(harness.gemm(a, b, backend="dist-2d", threads=2), a @ b)
    (pids,) = [one.pids for one in jobs._jobs.values() if one.shape.ranks == 2]

    def mapped() -> list[int]:
        return [Path(f"/proc/{pid}/maps").read_text().count("memfd:gemm-harness") for pid in pids]

    assert mapped() == [3, 3], "operands and the result: nothing is copied"
    harness.free_memory()
    assert mapped() == [0, 0]


@pytest.mark.deep(but=1)
@pytest.mark.parametrize(("how", "cause"), [("raises", "ZeroDivisionError: planted"), ("killed", "signal 9")])
def test_a_failing_rank_is_one_exception_and_the_next_product_is_computed(how, cause, tmp_path):
    x, told = np.arange(36).reshape(6, 6), tmp_path / "time of the fault"
    with pytest.raises(RankFailed, match=cause):
        harness.gemm(x, x, semiring=planted_ranks.semiring(how, str(told)), backend="dist-2d", threads=2)
    assert time.monotonic() - float(told.read_text()) < 60
    assert np.array_equal(harness.gemm(x, x, backend="dist-2d", threads=2), x @ x)


def test_ranks_that_were_killed_while_they_waited_are_replaced():
    x = np.arange(36.0).reshape(6, 6)
    harness.gemm(x, x, backend="dist-2d", threads=2)
    (running,) = (one for one in jobs._jobs.values() if one.shape.ranks == 2)
    os.kill(running.pids[1], signal.SIGKILL)
    running._process.wait(60)
    assert np.array_equal(harness.gemm(x, x, backend="dist-2d", threads=2), x @ x)


def test_an_interrupted_product_ends_the_ranks_and_the_next_is_computed():
    x = np.arange(36).reshape(6, 6)
    harness.gemm(x, x, backend="dist-2d", threads=2)
    timer = threading.Timer(1.0, signal.pthread_kill, [threading.main_thread().ident, signal.SIGINT])
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        harness.gemm(x, x, semiring=planted_ranks.semiring("busy"), backend="dist-2d", threads=2)
    timer.join()
    assert np.array_equal(harness.gemm(x, x, backend="dist-2d", threads=2), x @ x)


@pytest.mark.deep(but=1)
@pytest.mark.parametrize("how", ["waits", "stopped", "busy"])  # stopped: as a worker is between its commands
def test_ranks_end_with_a_killed_parent_whatever_they_do(how):
    traces = ranks.Traces()
    command = [sys.executable, str(ranks.PROGRAMS / "planted_ranks.py"), how]
    with ranks.started(command, **traces.variables) as process:
        pids = process.stdout.readline().split()
        assert len(pids) == machine.detect().threads
        time.sleep(0.5)
        if how == "stopped":
            os.killpg(process.pid, signal.SIGSTOP)
        process.kill()
        process.wait()
        traces.eventually_none()


@pytest.mark.deep(but=1)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_stopped_has_waited_for_its_ranks(number, tmp_path):
    traces, temporary = ranks.Traces(), tmp_path / "temporary"
    temporary.mkdir()
    command = [sys.executable, "-m", "harness", "run", "dist_volume", "--preset", "smoke", "--results", str(tmp_path)]
    with ranks.started(command, TMPDIR=str(temporary), **traces.variables) as process:
        # the launcher's line has it too
        eventually(lambda: sum("_job.rank" in line for line in traces.processes()) >= 3, process)
        running = traces.numbers()
        process.send_signal(number)
        assert process.wait(60) == 128 + number
        left = {pid: line for pid, line in running.items() if pid != process.pid and Path(f"/proc/{pid}").exists()}
        assert left == {}, "running, or ended and not waited for"
        assert traces.processes() == []
    assert list(temporary.iterdir()) == []


def test_no_other_user_reaches_the_ranks(monkeypatch):
    name = "\0gemm-harness-a-test"
    with Listener(name, "AF_UNIX") as listener, Client(name, "AF_UNIX") as theirs, listener.accept() as ours:
        assert job._is_of_this_user(ours)
        theirs.send("still open")
        assert ours.recv() == "still open"
        other = os.geteuid() + 1
        monkeypatch.setattr(os, "geteuid", lambda: other)
        assert not job._is_of_this_user(ours)


def test_shared_memory_may_be_larger_than_files(rng):
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))
    try:
        shared = SharedArray((1 << 18, 2), np.dtype(float))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    other = attach(shared.form)
    shared.close()
    shared.array[-1] = 1, 2
    assert other[-1].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("columns", "dtype"), [(512, "float64"), (1024, "int32"), (4096, "bool"), (500, "float64"), (0, "float64")]
)
def test_rows_of_shared_memory_do_not_share_cache_sets(columns, dtype):
    shared = SharedArray((3, columns), np.dtype(dtype), padded=True)
    other = attach(shared.form)
    shared.close()
    assert other.shape == shared.array.shape == (3, columns)
    assert columns == 0 or other.strides[0] % 4096
    shared.array[...] = np.arange(3 * columns).reshape(3, columns) % 2
    assert np.array_equal(other, shared.array)


@pytest.mark.deep(but=1)
@pytest.mark.parametrize(
    ("program", "message"),
    [
        ('shift 2; "$@" & "$@" & wait', "belong to different MPI libraries"),  # programs that do not find each other
        ("echo no slots are left; exit 3", "no slots are left"),
    ],
)
def test_a_launcher_that_starts_no_job_is_one_clear_message(program, message, tmp_path, monkeypatch):
    script = tmp_path / "mpiexec"
    script.write_text(f"#!/bin/sh\n{program}\n")
    script.chmod(0o700)
    monkeypatch.setattr(launcher, "mpiexec", lambda: str(script))
    jobs.close_all()
    x = np.arange(36.0).reshape(6, 6)
    with pytest.raises(RankFailed, match=message):
        harness.gemm(x, x, backend="dist-2d", threads=2)
    monkeypatch.undo()
    assert np.array_equal(harness.gemm(x, x, backend="dist-2d", threads=2), x @ x)


def test_ranks_load_the_library_that_lies_beside_their_launcher(tmp_path):
    assert launcher.library(str(tmp_path / "bin" / "mpiexec")) == {}
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libmpi.so.12").touch()
    library = {"MPI4PY_LIBMPI": str(tmp_path / "lib" / "libmpi.so.12")}
    assert launcher.library(str(tmp_path / "bin" / "mpiexec")) == library


def test_without_mpi_the_backends_are_missing_with_a_reason(monkeypatch):
    monkeypatch.setattr(launcher, "mpiexec", lambda: None)
    entries = {entry.name: entry for entry in registry.discover()}
    assert all("no mpiexec" in str(entries[name].unavailable()) for name in NAMES)
    monkeypatch.setattr(launcher.importlib.util, "find_spec", lambda name: None)
    launcher._find_mpi4py.cache_clear()
    assert "mpi4py is not installed" in str(launcher.missing())
    monkeypatch.setenv("PMI_RANK", "0")
    assert "call harness.distributed.gemm" in str(launcher.missing())


def test_automatic_choice_leaves_the_ranks_alone():
    chosen = [backend.name for backend in registry.automatic(Problem(8, 8, 8), on_device=False)]
    assert not set(chosen) & set(NAMES)


def test_ranks_apply_a_function_to_pieces_that_nobody_else_holds():
    strategy = registry.find("dist-2d")
    plan = strategy.plan(Problem(6, 8, 5), machine.detect()).override(
        {"base": "cpu-numpy", "ranks": 2, "grid": "1x2x1"}
    )
    ready = strategy.prepare_empty(plan)
    assert ready.apply(planted_ranks.fill, value=2.0) == [(6, 4), (6, 4)]
    ready.run()
    assert ready.apply(planted_ranks.total) == [6 * 4 * 20.0] * 2
    assert {report["transport"] for report in ready.report()} == {"shared"}
    assert ready.software()["mpi4py"] == importlib.metadata.version("mpi4py")
    with pytest.raises(RankFailed, match="KeyError"):
        ready.apply(planted_ranks.fill, value=2.0, names="ax")
