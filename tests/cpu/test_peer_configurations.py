"""Libraries in several configurations: processes with their variables, and the kernels that they took."""

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest

from backends.cpu.libraries.numkong_peer import OF_COUNTS
from experiments._parts.peers import against_peers
from harness import Operands, Problem, gemm, machine, registry
from harness.analysis.findings import libraries
from harness.dtypes import mixed_dtypes
from harness.errors import BackendUnavailable
from harness.experiment import Budget, Case, Experiment, backend_contender, product_case
from harness.proof.verify import verify
from harness.run import runner
from harness.run.process.pool import Pool, Slot
from harness.store.store import Store
from tests._support.planted_store import read_cell

HERE = machine.detect()
OPENBLAS, NUMKONG, BLIS = (
    next(e.backend for e in registry.discover() if e.name == f"cpu-{name}") for name in ("openblas", "numkong", "blis")
)
WIDE = dataclasses.replace(HERE, simd=("avx", "avx2", "fma", "avx512f", "avx512bw", "avx512vl"))
needs_openblas = pytest.mark.skipif(bool(OPENBLAS.missing()), reason=str(OPENBLAS.missing()))
needs_blis = pytest.mark.skipif(bool(BLIS.missing()), reason=str(BLIS.missing()))
needs_numkong = pytest.mark.skipif(bool(NUMKONG.missing()), reason=str(NUMKONG.missing()))


@pytest.mark.parametrize(
    ("simd", "core"), [(WIDE.simd, "SkylakeX"), (("avx", "avx2", "fma"), "Haswell"), (("sse4_2",), ""), (("neon",), "")]
)
def test_openblas_is_told_the_processor_by_its_vector_extensions(simd, core):
    found = OPENBLAS.configurations(dataclasses.replace(HERE, simd=simd))
    assert found == {"": {}, **({core: {"OPENBLAS_CORETYPE": core}} if core else {})}


@pytest.mark.parametrize(
    ("simd", "name"), [(WIDE.simd, "skx"), (("avx", "avx2", "fma"), "haswell"), (("sse4_2",), ""), (("neon",), "")]
)
def test_blis_is_told_the_processor_by_its_vector_extensions(simd, name):
    found = BLIS.configurations(dataclasses.replace(HERE, simd=simd))
    assert found == {"": {}, **({name: {"BLIS_ARCH_TYPE": name}} if name else {})}


@needs_blis
def test_kernels_that_blis_is_told_take_any_strides_and_a_name_without_kernels_is_refused(monkeypatch):
    monkeypatch.setenv("BLIS_ARCH_TYPE", "generic")
    assert BLIS.kernels() == "generic"
    for dtype in (np.float32, np.float64):
        problem = Problem(33, 18, 21, dtype=np.dtype(dtype), alpha=2.0, beta=0.5, accumulate=True)
        operands = Operands.generate(problem, 1)
        strided = np.zeros((66, 42), dtype)[::2, ::2]
        strided[...] = operands.a
        told = dataclasses.replace(operands, a=strided, b=np.asfortranarray(operands.b))
        execution = BLIS.prepare(BLIS.plan(problem, HERE), told)
        execution.run()
        verify(problem, operands, execution.result(), seed=1)
    monkeypatch.setenv("BLIS_ARCH_TYPE", "no such")
    with pytest.raises(BackendUnavailable, match="no kernels called 'no such'"):
        BLIS.prepare(BLIS.plan(problem, HERE), operands)


def test_both_configurations_are_contenders_of_their_own():
    contenders = {c.label: c for c in against_peers(2, WIDE)}
    assert contenders["cpu-openblas"].environment == {}
    assert contenders["cpu-openblas as SkylakeX"].environment == {"OPENBLAS_CORETYPE": "SkylakeX"}
    assert {c.threads for c in contenders.values()} == {2}


def test_an_environment_is_part_of_a_case_and_the_lack_of_one_changes_no_key():
    plain = backend_contender("cpu-numpy")
    case = product_case(Problem(8, 8, 8), [plain])
    told = Case(case.axes, (dataclasses.replace(plain, environment={"A": "1"}),), case.arguments)
    assert case.key == product_case(Problem(8, 8, 8), [dataclasses.replace(plain, environment={})]).key != told.key


def test_a_process_has_the_variables_of_its_slot_and_shares_none():
    pool = Pool()
    try:
        slots = [Slot("gemm"), Slot("gemm", environment=(("OPENBLAS_CORETYPE", "Haswell"),))]
        first = pool.processes(slots)
        texts = [Path(f"/proc/{first[slot].number}/environ").read_bytes() for slot in slots]
        assert [b"OPENBLAS_CORETYPE=Haswell\0" in text for text in texts] == [False, True]
        assert pool.processes(slots) == first, "the next case finds the same processes"
    finally:
        pool.kill()


@pytest.mark.parametrize(
    ("backend", "variable", "names"),
    [
        pytest.param("cpu-openblas", "OPENBLAS_CORETYPE", ("Haswell", "Sandybridge"), marks=needs_openblas),
        pytest.param("cpu-blis", "BLIS_ARCH_TYPE", ("haswell", "generic"), marks=needs_blis),
    ],
)
@pytest.mark.skipif("avx2" not in HERE.simd, reason="no AVX2")
def test_kernels_are_those_that_the_variable_asks_for_and_are_recorded(tmp_path, backend, variable, names):
    contenders = [
        dataclasses.replace(backend_contender(backend, label=name), environment={variable: name}) for name in names
    ]
    case = product_case(Problem(33, 32, 31), contenders)
    budget = dict.fromkeys(("smoke", "quick", "full"), Budget(rounds=1, seconds=0.01, sample_ms=0.1))
    experiment = Experiment("planted", "Which kernels?", lambda preset, here: [case], (), budget)
    summary = runner.run([experiment], "smoke", tmp_path)
    cells = {cell.contender: cell for cell in Store(summary.folder).cells()}
    assert {name: cell.status for name, cell in cells.items()} == dict.fromkeys(names, "ok")
    assert {name: cell.facts["kernels"] for name, cell in cells.items()} == {name: name for name in names}
    assert {cell.facts["project"] for cell in cells.values()} == {registry.find(backend).project}
    assert cells[names[0]].record["environment"] == {variable: names[0]}
    assert libraries.families(list(cells.values())) == {name: f"{name} kernels" for name in cells}


@pytest.mark.parametrize("name", ["cpu-numpy", "cpu-scipy", "cpu-blis", "cpu-mkl", "cpu-openblas"])
def test_libraries_tell_which_kernels_they_took(name):
    entry = next(entry for entry in registry.discover() if entry.name == name)
    if reason := entry.unavailable():
        pytest.skip(reason)
    a = np.ones((4, 4))
    gemm(a, a, backend=name)
    assert re.fullmatch(r"[\w.-]*" if name == "cpu-mkl" else r"[\w.-]+", entry.backend.kernels())


def test_a_backend_without_a_library_tells_none():
    assert registry.find("cpu-naive").kernels() == ""
    assert registry.find("cpu-naive").configurations(HERE) == {"": {}}


def test_a_legend_says_who_used_one_thread_where_all_its_cells_did():
    cells = [
        read_cell(
            status="ok", contender=name, threads=2, axes={"backend": f"cpu-{name}"}, facts={"plan": {"threads": used}}
        )
        for name, used in (("a", 1), ("a", 1), ("b", 1), ("b", 2), ("c", 2))
    ]
    assert libraries.families(cells) == {"a": "1 of 2 threads"}


def compute(problem, threads=1, seed=1):
    operands = Operands.generate(problem, seed)
    execution = NUMKONG.prepare(NUMKONG.plan(problem, HERE.with_threads(threads)), operands)
    for _ in range(2):
        operands.out.fill(7 if problem.dtype.kind != "b" else 1)
        execution.run()
        execution.wait()
    verify(problem, operands, execution.result(), seed=seed)


@needs_numkong
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("size", [(1, 1, 1), (5, 1, 9), (33, 70, 129)])
@pytest.mark.parametrize("layout", ["CCC", "FAC"])
def test_numkong_multiplies_narrow_operands_and_bits(size, layout, threads):
    for narrow, wide in mixed_dtypes():
        if narrow.name in ("bfloat16", "complex64"):
            continue
        compute(Problem(*size, dtype=wide, operand_dtype=narrow, layout=layout), threads)
    for name in OF_COUNTS:
        compute(Problem(*size, name, np.dtype(np.bool_), layout=layout), threads)


def test_numkong_declines_what_it_is_not_compared_at():
    narrow, wide = next(pair for pair in mixed_dtypes() if pair[0].name == "int8")
    assert NUMKONG.declines(Problem(2, 2, 2, dtype=wide, operand_dtype=narrow)) is None
    assert "narrower" in NUMKONG.declines(Problem(2, 2, 2))
    assert "plain" in NUMKONG.declines(Problem(2, 2, 0, "lor_land", np.dtype(np.bool_)))
    assert "plain" in NUMKONG.declines(Problem(2, 2, 2, dtype=wide, operand_dtype=narrow, alpha=2.0))
