"""What each rank was given: the arguments of `gemm`, and what is compared before anything else is sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from harness.api.arguments import read_arguments
from harness.api.arrays import kind_of
from harness.distributed.agreement import as_matrix, check_equal, identify
from harness.distributed.choice.model import Rates
from harness.distributed.grid import Grid
from harness.distributed.layouts import LAYOUTS, ROOT, Shapes
from harness.distributed.reduction import METHODS
from harness.distributed.transport.base import Schedule
from harness.distributed.transport.choice import ENGINES
from harness.errors import ProblemError
from harness.scalars import as_count
from harness.semiring import Scalar, Semiring

AUTO = "auto"


@dataclass(frozen=True)
class Options:
    """The arguments of `gemm` that are no operands: the same on all ranks."""

    layout: str
    grid: str
    local: str
    threads: int
    panel: int | str
    in_flight: int | str
    reduction: str
    transport: str
    share_gpu: bool
    memory_cap: int
    rates: Rates | None

    def __post_init__(self) -> None:
        for name in ("threads", "panel", "in_flight", "memory_cap"):
            count = as_count(getattr(self, name), least=0)  # what is none is refused by all ranks together
            if count is not None:
                object.__setattr__(self, name, count)

    def schedule(self, k: int, *, on_device: bool) -> Schedule:
        """Return how panels of `k` are gathered between ranks on processors, or on GPUs."""
        ways = {"transport": self.transport, "share_gpu": self.share_gpu}
        return Schedule.of(self.panel, self.in_flight, self.reduction, k=k, on_device=on_device, **ways)

    def parsed_grid(self) -> Grid | None:
        """Return the grid that was asked for, or None for an automatic one."""
        return None if self.grid == AUTO else Grid.parse(self.grid)


class Offer(NamedTuple):
    """What one rank was given, compared before anything else is sent."""

    shapes: Shapes
    fields: dict[str, Any]  # of the Problem, but for sizes and semiring; empty: this rank has no operands
    semiring: str
    options: Options
    on_device: bool  # whether the operands are arrays of CuPy
    domain: str  # of the memory that ranks can share


def offer_of(
    given: dict[str, Any],
    out: Any,
    semiring: Semiring,
    alpha: Scalar,
    beta: Scalar,
    dtype: Any,
    options: Options,
    rank: int,
    domain: str,
) -> Offer:
    """Return what this rank holds, checked as far as one rank can; `domain` is its memory's."""
    for name, value, legal in (
        ("layout", options.layout, LAYOUTS),
        ("reduction", options.reduction, METHODS),
        ("transport", options.transport, ENGINES),
    ):
        if value not in legal:
            raise ProblemError(f"{name} has no such value", expected=", ".join(legal), got=repr(value))
    for name, number, least in (
        ("panel", options.panel, 0),
        ("in_flight", options.in_flight, 1),
        ("memory_cap", options.memory_cap, 0),
    ):
        is_automatic = number == AUTO and name != "memory_cap"
        if not is_automatic and as_count(number, least=least) is None:
            raise ProblemError(f"{name} has no such value", expected=f"an integer, {least} or more", got=repr(number))
    if not isinstance(options.rates, Rates | None):
        raise ProblemError("rates are none", expected="a Rates of harness.distributed", got=repr(options.rates))
    if options.layout == ROOT and rank:
        if wrong := [*given, *([] if out is None else ["out"])]:
            raise ProblemError("only rank 0 has operands in the layout 'root'", got=", ".join(wrong), fix="pass None")
        return Offer({}, {}, identify(semiring), options, on_device=False, domain=domain)
    for name in "ab":
        if name not in given:
            raise ProblemError(f"{name} is missing", expected="an array, without elements if need be", got="None")
    shapes = {name: as_matrix(name, x).shape for name, x in given.items()}
    # parts need not fit each other, but their dtypes must: so arrays of one element stand for them
    arrays = kind_of("gemm", given)
    stand_ins = {name: np.empty((1, 1), arrays.take("gemm", name, x).dtype) for name, x in given.items()}
    arguments = read_arguments("gemm", stand_ins, semiring, alpha=alpha, beta=beta, out=None, dtype=dtype)
    names = "dtype", "operand_dtype", "alpha", "beta", "accumulate"
    fields = {name: getattr(arguments.problem, name) for name in names}
    return Offer(shapes, fields, identify(semiring), options, arrays.on_device, domain)


def check_offers(comm: Any, offers: list[Offer]) -> None:
    """Raise on all ranks unless they were given the same but for shapes."""
    check_equal(comm, "layout, grid and other options", [offer.options for offer in offers])
    check_equal(comm, "semiring", [offer.semiring for offer in offers])
    holding = [offer for offer in offers if offer.fields]
    check_equal(comm, "whether operands lie on a GPU", [offer.on_device for offer in holding])
    check_equal(comm, "which of a, b and c are given", [", ".join(offer.shapes) for offer in holding])
    for name in holding[0].fields:
        check_equal(comm, name, [str(offer.fields[name]) for offer in holding])
