"""Options of a rung: each switches one idea on or off, or chooses one form of it.

A rung has a table ``OPTIONS`` of option to legal values. The first value of each is the rung as its header says. The
other values are for experiments that measure an idea alone.
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.plan import Plan

ON, OFF = "on", "off"
# SIMD: whether LLVM's loop vectoriser may run on the kernel.
SIMD = (ON, OFF)
# How iterations of a parallel loop are given to threads: one part for each thread, or one iteration at a time to the
# thread that asks first.
STATIC, CHUNKS = "static", "chunks"

Options = Mapping[str, tuple[int | str, ...]]


def defaults(options: Options) -> dict[str, int | str]:
    """Return the value of each option that makes the rung what its header says."""
    return {name: legal[0] for name, legal in options.items()}


def choices(plan: Plan, options: Options) -> dict[str, int | str]:
    """Return the values that `plan` has for `options`.

    Raises
    ------
    PlanError
        If one of them is not legal.
    """
    return {name: plan.choice(name, legal) for name, legal in options.items()}
