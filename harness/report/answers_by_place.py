"""What came out of the experiments on a machine, ten answers first and the others by where they compute."""

from __future__ import annotations

from collections.abc import Mapping

# Answers that stand before all others: the most prominent.
FIRST = 10
# The other groups, by how the names of their experiments begin; what begins like none is of the CPU.
GROUPS = {
    "On the GPU": ("gpu_", "offload"),
    "On several ranks": ("dist_",),
    "Matrices and vectors": ("mv_", "sparse_"),
    "Solves, factorisations, paths and gradients": (
        *("trsm", "refine", "qr", "hessenberg", "shortest_paths", "gradients", "workloads"),
    ),
}
CPU = "On the CPU"


def lines(told: Mapping[str, str]) -> list[str]:
    """Return answers by experiment, the most prominent first, as parts of a page: lists, with heads between them."""
    items = {name: f"- [{name}](#{name}): {sentence}" for name, sentence in told.items()}
    first, rest = [*items][:FIRST], [*items][FIRST:]
    parts = ["\n".join(items[name] for name in first)] if first else []
    for head in (CPU, *GROUPS):
        own = [items[name] for name in rest if _group(name) == head]
        parts += [f"**{head}**", "\n".join(own)] if own else []
    return parts


def _group(name: str) -> str:
    return next((head for head, begins in GROUPS.items() if name.startswith(begins)), CPU)
