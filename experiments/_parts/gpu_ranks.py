"""Contenders and cases of ranks on GPUs, one rank a GPU, that experiments share; none where there is no GPU."""

from __future__ import annotations

from experiments._parts.gpu import DEVICE
from experiments._parts.ranks import ranks_contender
from harness.experiment import Case, Contender, backend_contender, product_axes
from harness.machine import Machine
from harness.problem import Problem

DRAWN_TASK = "experiments._parts.drawn_ranks_task:product"
# The fastest backend on one GPU, by semiring and dtype (gpu_emulation and gpu_semirings, on an H200).
BASES = {
    ("plus_times", "float64"): "gpu-ozaki",
    ("plus_times", "float32"): "gpu-ozaki",
    ("min_plus", "float64"): "gpu-tuned",
    ("min_plus", "float32"): "gpu-tuned",
}
VENDOR = "gpu-cublas"
# The engines between GPUs, as figures call them.
ENGINES = {"copy": "copy engines", "nccl": "NCCL", "staged": "by host"}
IN_TURN, AHEAD = 1, 3  # panels in flight
# Bytes that every rank gathers to measure the link between GPUs, and their words of float64.
LINK_BYTES, WORD = 1 << 29, 8
# Bytes that a rank holds for each byte of operands and result: its own, and panels in flight.
COPIES, MEMORY_PART = 2, 0.9


def gpu_counts(machine: Machine) -> list[int]:
    """Return numbers of GPUs to compute on: powers of two, and all there are."""
    powers = [2**i for i in range(machine.gpus.bit_length())]
    return sorted({machine.gpus, *powers} & set(range(1, machine.gpus + 1)))


def gpus(count: int) -> str:
    """Return "1 GPU", "2 GPUs"."""
    return f"{count} GPU{'s' * (count != 1)}"


def base_of(problem: Problem) -> str:
    """Return the backend of local products on GPUs."""
    return BASES[problem.semiring.name, problem.dtype.name]


def drawn_contender(problem: Problem, ranks: int, *, label: str = "", **options: int | str) -> Contender:
    """Return the contender that computes on so many GPUs, of operands that are drawn there and a result that stays."""
    options = {"base": base_of(problem), **options}
    made = ranks_contender("dist-2d", ranks, label=label or f"dist-2d, {gpus(ranks)}", **options)
    return Contender(made.label, {**made.arguments, "problem": problem.to_json()}, ranks, DRAWN_TASK)


def fits_gpus(problem: Problem, machine: Machine, ranks: int) -> bool:
    """Return whether so many GPUs can hold `problem`."""
    memory = float(machine.gpu.get("memory_mib", "inf")) * 2**20
    return COPIES * problem.bytes_moved / ranks <= MEMORY_PART * memory


def drawn_case(problem: Problem, contenders: list[Contender], **axes: object) -> Case:
    """Return the case of a product whose operands are drawn by whoever computes it."""
    return Case({**product_axes(problem), **DEVICE, **axes}, tuple(contenders), {"seed": 1})


def gpu_link_cases(machine: Machine) -> list[Case]:
    """Return the cases that measure the link between GPUs: all gather a large B at once, and one of a word for each."""
    side, several = int((LINK_BYTES // WORD) ** 0.5), [count for count in gpu_counts(machine) if count > 1]
    shapes = {"bandwidth": lambda ranks: (ranks, side, side), "latency": lambda ranks: (ranks, 1, ranks)}
    return [
        Case(
            {"role": "link", "link": measured, "semiring": "plus_times", "dtype": "float64", **DEVICE},
            tuple(_all_gather(Problem(*shape(ranks)), ranks) for ranks in several),
            {"seed": 1},
        )
        for measured, shape in shapes.items()
        if several
    ]


def _all_gather(problem: Problem, ranks: int) -> Contender:
    options: dict[str, int | str] = {"base": base_of(problem), "ranks": ranks, "panel": 0, "in_flight": IN_TURN}
    label = f"all-gather, {gpus(ranks)}"
    return backend_contender("dist-1d", label=label, threads=ranks, task=DRAWN_TASK, problem=problem, **options)
