"""How one backend will compute one Problem: block sizes and options. Invariants only; numbers come from tuning.py."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.errors import PlanError
from harness.problem import Problem


@dataclass(frozen=True)
class Blocking:
    """Block sizes of the loops around a CPU kernel, in elements.

    Parameters
    ----------
    mc, nc, kc : int
        Cache blocks of m, n and k (loops 3, 5 and 4 of Goto's algorithm).
    mr, nr : int
        Register block; mc must be a multiple of mr, and nc of nr.

    Raises
    ------
    PlanError
        If a size is not a positive integer, or a cache block is no multiple of its register block.
    """

    mc: int
    nc: int
    kc: int
    mr: int = 1
    nr: int = 1

    def __post_init__(self) -> None:
        for name in ("mc", "nc", "kc", "mr", "nr"):
            size = getattr(self, name)
            if not isinstance(size, int) or isinstance(size, bool) or size < 1:
                raise PlanError(
                    f"{name} is not a block size", expected=f"an integer {name} >= 1", got=f"{name}={size!r}"
                )
        for block, register in (("mc", "mr"), ("nc", "nr")):
            size, step = getattr(self, block), getattr(self, register)
            if size % step:
                down, up = size // step * step, -(-size // step) * step
                raise PlanError(
                    f"{block} is not a multiple of {register}",
                    expected=f"{block} % {register} == 0",
                    got=str(self),
                    fix=f"{block}={down} or {block}={up}" if down else f"{block}={up}",
                )


@dataclass(frozen=True)
class Plan:
    """What a backend decided for a Problem.

    Parameters
    ----------
    problem : Problem
    threads : int
        How many threads the kernel may use.
    blocking : Blocking, optional
        None: the backend has no blocks.
    options : mapping
        Everything else that may be varied, by name: ``{"reuse": 2, "parallel_loop": "ic"}``.
    """

    problem: Problem
    threads: int = 1
    blocking: Blocking | None = None
    options: Mapping[str, int | str] = field(default_factory=dict)

    def override(self, parameters: Mapping[str, int | str]) -> Plan:
        """Return this plan with block sizes and options replaced by name.

        Raises
        ------
        PlanError
            If a name is neither a block size nor an option of this plan, or a value breaks an invariant.
        """
        blocks = dataclasses.asdict(self.blocking) if self.blocking else {}
        unknown = [name for name in parameters if name not in blocks and name not in self.options]
        if unknown:
            raise PlanError(
                f"unknown parameter {unknown[0]!r}",
                expected=", ".join([*blocks, *self.options]) or "no parameter: this backend has none",
                got=", ".join(f"{name}={value}" for name, value in parameters.items()),
            )
        changed: dict[str, Any] = {name: parameters[name] for name in parameters if name in blocks}
        return dataclasses.replace(
            self,
            blocking=dataclasses.replace(self.blocking, **changed) if self.blocking else None,
            options={name: parameters.get(name, value) for name, value in self.options.items()},
        )

    def choice(self, option: str, legal: tuple[int | str, ...]) -> int | str:
        """Return the value of `option`.

        Raises
        ------
        PlanError
            If it is not one of `legal`.
        """
        value = self.options[option]
        if value not in legal:
            raise PlanError(f"{option} has no such value", expected=f"{option} in {legal}", got=f"{option}={value!r}")
        return value

    def to_json(self) -> dict[str, Any]:
        """Return threads, block sizes and options as one JSON object, for the record."""
        blocks = dataclasses.asdict(self.blocking) if self.blocking else {}
        return {"threads": self.threads, **blocks, **self.options}
