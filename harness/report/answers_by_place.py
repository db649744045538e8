"""What came out of the experiments on a machine, ten answers first and the others by where they compute."""

from __future__ import annotations

import re
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


def lines(told: Mapping[str, str], anchors: Mapping[str, str]) -> list[str]:
    """Return answers by experiment, as parts of a page: a list of the most prominent, and folded lists."""
    items = {name: f"- [{name}](#{anchors[name]}): {sentence}" for name, sentence in told.items()}
    first, rest = [*items][:FIRST], [*items][FIRST:]
    parts = ["\n".join(items[name] for name in first)] if first else []
    more = []
    for head in (CPU, *GROUPS):
        own = [items[name] for name in rest if _group(name) == head]
        more += [f"**{head}**", "\n".join(own)] if own else []
    folded = [f"<details><summary>{len(rest)} more answers</summary>", *more, "</details>"] if more else []
    return [*parts, *folded]


def anchor(heading: str) -> str:
    """Return the anchor that GitHub, and the site, give a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _group(name: str) -> str:
    return next((head for head, begins in GROUPS.items() if name.startswith(begins)), CPU)
