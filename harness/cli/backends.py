"""Commands about backends and this machine: list, info, check, kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from harness.cli.options import FAILED, AsJson, number

if TYPE_CHECKING:
    from harness.proof.contract import Finding


def list_backends(*, as_json: AsJson = False) -> None:
    """List every backend, and why it cannot run here; and the experiments that cannot be loaded."""
    from harness import catalogue, registry
    from harness.cli import console

    entries = (*registry.discover(), *catalogue.not_loaded())
    if as_json:
        console.print_json([console.describe(entry) for entry in entries])
    else:
        console.print_backends(entries)


def info(
    *,
    as_json: AsJson = False,
    peaks: Annotated[
        bool, typer.Option("--peaks", help="Measure what registers alone can do, for each semiring and dtype.")
    ] = False,
) -> None:
    """Describe this machine, as results record it."""
    from harness.cli import console
    from harness.run import machine_info
    from harness.run.machine_info import PEAK_DTYPES

    facts = machine_info.collect()
    measured = list(machine_info.measure_peaks()) if peaks else []
    if as_json:
        more = {"peaks": [machine_info.peak_facts(*peak) for peak in measured]} if peaks else {}
        console.print_json({**facts, **more})
        return
    console.print_table(("what", "value"), machine_info.rows(facts))
    if peaks:
        heads = ("peak of one core, Gop/s", *(dtype.name for dtype in PEAK_DTYPES))
        console.print_table(heads, machine_info.peaks_table(measured))
        console.print_lines(
            "Gop/s: 1e9 operations a second, two a pair: one (x) and one (+). Of plus_times over floats: GFLOP/s."
        )


def check(
    backends: Annotated[
        list[str] | None, typer.Argument(metavar="[BACKEND]...", help="All that can run here by default.")
    ] = None,
    *,
    depth: Annotated[Literal["quick", "full"], typer.Option(help="How many combinations to try.")] = "quick",
    patience: Annotated[
        float,
        typer.Option(min=0.1, max=1e6, callback=number, help="Seconds without a finding that count as a hang."),
    ] = 120.0,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Print what is right as well.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object a line and finding.")] = False,
    in_process: Annotated[bool, typer.Option("--in-process", help="In this process: for a debugger.")] = False,
    sanitize: Annotated[
        bool, typer.Option("--sanitize", help="Find accesses to memory beside the operands, in public calls as well.")
    ] = False,
    tool: Annotated[
        Literal["memcheck", "initcheck", "racecheck", "synccheck"] | None,
        typer.Option(help="Of compute-sanitizer, with --sanitize on a GPU; all four by default."),
    ] = None,
    fuzz: Annotated[
        float | None,
        typer.Option(
            min=1, max=1e6, callback=number, help="Run random programs of the public calls for so many seconds."
        ),
    ] = None,
    program: Annotated[str, typer.Option(help="Run one program, a line that --fuzz has printed.")] = "",
    seed: Annotated[int | None, typer.Option(min=0, help="Of the random programs; by default the time.")] = None,
    gpu: Annotated[bool, typer.Option("--gpu", help="Random programs have arrays of CuPy.")] = False,
    processes: Annotated[int, typer.Option(min=1, max=64, help="That run random programs side by side.")] = 1,
) -> None:
    """Prove backends right against the definition of the product.

    Each runs in a process of its own, so that a crash, a hang or a leak is reported like any other defect. With
    --sanitize operands lie between pages that may not be touched, and those on a GPU are looked at by NVIDIA's
    compute-sanitizer. With --fuzz it is the public calls that are proved, by random programs; backends that are named
    are then asked for by name.
    """
    from harness import registry
    from harness.cli import console
    from harness.proof import contract

    if fuzz is not None or program:
        from harness.cli import fuzz as programs

        for name in backends or ():
            registry.find(name)
        common = {"names": backends or [], "gpu": gpu, "program": program, "sanitize": sanitize}
        if programs.check(fuzz or 1e6, seed=seed, processes=processes, patience=patience, **common):
            raise typer.Exit(FAILED)
        return

    names = backends or [entry.name for entry in registry.discover() if not entry.unavailable()]
    chosen = [registry.find(name) for name in dict.fromkeys(names)]  # reports a mistake in any name before work begins
    on_gpu = [backend.name for backend in chosen if sanitize and "device arrays" in backend.takes]
    failed = 0
    for backend in chosen:
        if backend.name not in on_gpu:
            options = {"backend": backend.name, "depth": depth, "is_fenced": sanitize}
            findings = _findings(contract.findings, patience, in_process, backend.starts_processes, **options)
            failed += console.print_findings(backend.name, findings, as_json=as_json, verbose=verbose)
    if sanitize:
        how = {"in_process": in_process, "as_json": as_json, "verbose": verbose}
        failed += _check_public(on_gpu, [tool] if tool else [], patience, **how)
    if failed:
        raise typer.Exit(FAILED)


def _check_public(on_gpu: list[str], tools: Sequence[str], patience: float, *, in_process: bool, **how: bool) -> int:
    """Check the memory that public calls touch; on a GPU, that of the backends too. Return the number of defects."""
    from harness.cli import console, sanitize

    failed = 0
    if on_gpu and in_process:
        for name in (*sanitize.public_names(), *on_gpu):
            sanitize.products_on_gpu(name)
    elif on_gpu:
        failed = console.print_findings("compute-sanitizer", sanitize.gpu_findings(on_gpu, tools), **how)
    findings = _findings(sanitize.public_findings, patience, in_process)
    return failed + console.print_findings(sanitize.PUBLIC, findings, **how)


def _findings(
    factory: Callable[..., Iterator[dict[str, str]]],
    patience: float,
    in_process: bool,
    starts_processes: bool = False,
    **arguments: Any,
) -> Iterator[Finding]:
    """Yield the findings of a check in a process of its own; the last one reports a failure of the process."""
    from harness.proof import contract
    from harness.run.process import WorkerFailed, WorkerProcess

    if in_process:
        yield from (contract.Finding(**item) for item in factory(**arguments))  # type: ignore[arg-type]
        return
    worker, last = WorkerProcess(), "nothing"
    try:
        for item in worker.stream(factory, patience, starts_processes=starts_processes, **arguments):
            finding = contract.Finding(**item)
            last = finding.what
            yield finding
    except (WorkerFailed, TypeError) as failure:  # TypeError: the backend has sent something other than a finding
        yield contract.Finding("failed", "process", f"{failure}; the last finding was: {last}")
    finally:
        worker.kill()


def kernel(
    backend: Annotated[str, typer.Argument(metavar="BACKEND", help="A backend that can list its kernel.")],
    *,
    semiring: Annotated[str, typer.Option(help="Semiring of the product.")] = "plus_times",
    dtype: Annotated[str, typer.Option(help="Dtype of the operands and of the result.")] = "float64",
    size: Annotated[int, typer.Option(min=1, help="m, n and k, by which the backend plans its register tile.")] = 1024,
) -> None:
    """Print the innermost loop of a kernel: pseudo-code, and the assembly compiled for this processor."""
    from harness import registry
    from harness.cli import console
    from harness.errors import BackendUnavailable
    from harness.interface import Backend, make_plan
    from harness.machine import detect
    from harness.problem import Problem

    chosen, problem = registry.find(backend), Problem(size, size, size, semiring, dtype)  # type: ignore[arg-type]
    reason = chosen.refuses(problem)
    if reason:
        raise BackendUnavailable(f"{backend}: it does not compute this product", got=reason)
    listing = chosen.listing(make_plan(chosen, problem, detect()))
    if not listing:
        able = [e.name for e in registry.discover() if e.backend and type(e.backend).listing is not Backend.listing]
        raise BackendUnavailable(f"{backend}: it has no listing of its kernel", expected=" or ".join(able), got=backend)
    console.print_lines(listing)
