"""The command tune: measure, show and forget block sizes, or what ``backend="auto"`` chooses by."""

from __future__ import annotations

import collections
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.options import INTERRUPTED, complain
from harness.machine import Machine, detect
from harness.tuning import static_order
from harness.tuning.choice import orders
from harness.tuning.stored import Chip, writable
from harness.tuning.stored import forget as remove_stored

if TYPE_CHECKING:
    from harness.autotune.choice import Processor

# Time for the products on a GPU, and for those on the host by each number of threads [s].
SECONDS_ON_GPU, SECONDS_ON_HOST = 240.0, 140.0
# Cells between two lines about progress.
REPORTED = 100


def tune(
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Measure and print, store nothing.")] = False,
    forget: Annotated[bool, typer.Option("--forget", help="Remove what is stored for this machine.")] = False,
    gpu: Annotated[bool, typer.Option("--gpu", help="Tune gpu-tuned for this GPU, and not cpu-simd.")] = False,
    auto: Annotated[
        bool, typer.Option("--auto", help="Race the backends that auto chooses from, here or, with --gpu, on this GPU.")
    ] = False,
    show: Annotated[bool, typer.Option("--show", help="With --auto: print what is in use, and its source.")] = False,
) -> None:
    """Measure the block sizes of cpu-simd on this machine, and use what is better than the model's from then on.

    It takes less than five minutes. What is found is stored at once, and kept if the command is interrupted. With --gpu
    it is the tiles of gpu-tuned, stored for the architecture of this GPU. With --auto it is which backend is fastest,
    for each class of products.
    """
    if dry_run + forget + show > 1:
        raise typer.BadParameter("--dry-run, --forget and --show exclude one another")
    if show and not auto:
        raise typer.BadParameter("--show is for --auto: what block sizes are in use, `info` says")
    place = _place(gpu=gpu)
    if forget:
        gone = remove_stored(orders.AutoOwner(place) if auto else place)
        _print(f"removed  {gone}" if gone else f"nothing is stored for this {'GPU' if gpu else 'machine'}")
    elif show:
        _show(place)
    elif auto:
        _measure(place, is_stored=not dry_run)
    else:
        _tune_blocks(place, is_stored=not dry_run)


def _tune_blocks(place: Machine | Chip, *, is_stored: bool) -> None:
    """Measure block sizes, of cpu-simd or of gpu-tuned, and store each as soon as it is chosen."""
    from harness import registry
    from harness.autotune import gpu as autotune_gpu
    from harness.autotune import search
    from harness.cli import console
    from harness.cli.progress import Progress

    on_gpu = isinstance(place, Chip)
    backend = registry.find(autotune_gpu.BACKEND if on_gpu else search.BACKEND)
    path = writable(place) if is_stored else None
    choices: list[search.Choice] = []
    is_interrupted = False
    try:
        with Progress() as progress:
            make = autotune_gpu.GpuTuner if on_gpu else search.Tuner
            tuner = make(backend, observer=progress, is_stored=is_stored)
            choices.extend(tuner.tune())
    except KeyboardInterrupt:
        is_interrupted, choices = True, tuner.choices
    console.print_table(*search.table(choices), numeric=("gain",))
    _print("", f"stored   {path}" if path and choices else "nothing was stored")
    if is_interrupted:
        complain("interrupted: what is finished is kept")
        raise typer.Exit(INTERRUPTED)


def _place(*, gpu: bool) -> Machine | Chip:
    from harness import registry
    from harness.autotune.gpu import BACKEND

    return Chip(registry.find(BACKEND).architecture(), detect().gpu) if gpu else detect()


def _measure(place: Machine | Chip, *, is_stored: bool) -> None:
    """Race all products, and store what was measured of each place as soon as it is done."""
    from harness.autotune import choice, grid

    if is_stored:
        writable(orders.AutoOwner(place))  # raises before minutes are spent
    on_gpu = isinstance(place, Chip)
    begun, done, stored = time.monotonic(), 0, None
    for one in _raced(place):
        contest = choice.Contest(one, SECONDS_ON_GPU if on_gpu else SECONDS_ON_HOST)
        try:
            for name, _ in contest.run(grid.problems(one.threads)):
                done += 1
                if done % REPORTED == 0:
                    _print(f"{time.monotonic() - begun:.0f} s, {done} products, the last: {name}")
        except KeyboardInterrupt:
            complain("interrupted: what is finished is kept")
            if is_stored:
                contest.store()
            raise typer.Exit(INTERRUPTED) from None
        stored = contest.store() if is_stored and contest.times else stored
        _table(orders.Table(orders.entries_of(contest.times), "measured now"), on_gpu=on_gpu)
    _print("", f"stored   {stored}" if stored else "nothing was stored")


def _raced(place: Machine | Chip) -> Iterable[Processor]:
    """Return where products are raced, by calls of `gemm`: on the GPU, or on the host by each number of threads."""
    from harness.api.arrays import HOST, kind_of
    from harness.api.gemm import gemm
    from harness.autotune import choice

    if not isinstance(place, Chip):
        return choice.of_host(place, choice.RacedCall(gemm, HOST))
    import cupy

    from harness import registry
    from harness.autotune.gpu import BACKEND

    of_cupy = choice.RacedCall(gemm, kind_of("tune", {"a": cupy.empty(1)}))
    return [choice.Processor.gpu(registry.find(BACKEND), of_cupy)]


def _show(place: Machine | Chip) -> None:
    """Print the tables in use, the first one first, and where they come from."""
    own = orders.own_table(orders.AutoOwner(place))
    tables = [table for table in (own, orders.shipped_table(orders.AutoOwner(place).kind)) if table.entries]
    for table in tables:
        _table(table, on_gpu=isinstance(place, Chip))
    if own.notice:
        _print(f"warning: {own.notice}")
    if not tables:
        _print(f"nothing was measured for {orders.AutoOwner(place).kind}: harness.tuning.static_order holds")


def _table(table: orders.Table, *, on_gpu: bool) -> None:
    """Print for each class how many sizes were measured, and at how many of them each backend is tried first."""
    from harness.cli import console

    static, rows = static_order.AUTO_FIRST_ON_GPU if on_gpu else static_order.AUTO_FIRST, []
    for of_class, entries in sorted(table.entries.items()):
        firsts = collections.Counter(orders.order((table,), of_class, sizes, static)[0] for sizes in entries)
        rows.append((of_class, str(len(entries)), ", ".join(f"{name} {count}" for name, count in firsts.most_common())))
    console.print_table(("class of products", "sizes", "first choice, and at how many"), rows)
    _print(table.provenance, "")


def _print(*lines: str) -> None:
    from harness.cli import console

    console.print_lines(*lines)
