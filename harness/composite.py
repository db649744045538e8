"""A backend that cuts a product into parts and has another backend, its base, compute them.

The base is found here, by name and at planning time, because backends never import each other. A composite names the
parts that it needs; the registry knows which backends can compute them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from harness import machine, registry
from harness.errors import BackendUnavailable, PlanError
from harness.interface import Backend, Prepared, make_plan, prepare
from harness.operands import Operands
from harness.plan import Plan
from harness.problem import Problem


class Composite(Backend):
    """A backend whose plan names another, in the option ``base``.

    A base is no composite itself, so no two can choose each other, but for one whose parts are of another kind, which
    it declines itself. Every part then obeys the element-wise bound of
    `harness.proof.verify`, on which a composite's own bound is built.

    Attributes
    ----------
    base_family : str
        Prefix of the name of a base: it decides where the operands of the parts lie.
    is_base : bool
        Whether it may be the base of another composite.
    """

    base_family: ClassVar[str] = "cpu-"
    is_base: ClassVar[bool] = False

    def choose_base(self, problem: Problem, preferred: Iterable[str]) -> str:
        """Return the first of `preferred` that can compute `problem` here, else the highest step that can.

        Only backends as accurate as ordinary sums; any other is a base only if the user names it. One that needs a
        package of its own only if no other can: what else is installed here changes no product.

        Raises
        ------
        BackendUnavailable
            If none can.
        """
        able = {name: one for name, one in self._able(problem).items() if registry.may_be_chosen(one, problem)}
        if not able:
            raise BackendUnavailable(f"{self.name}: no backend here computes the parts of {problem}")
        return next((name for name in preferred if name in able), min(able, key=lambda name: able[name].is_optional))

    def find_base(self, name: int | str, problem: Problem) -> Backend:
        """Return the backend called `name`.

        Raises
        ------
        PlanError
            If it is none that can compute `problem` here, or a composite itself.
        """
        able = self._able(problem)
        if name not in able:
            raise PlanError(
                f"{self.name}: base is no backend that computes {problem} here",
                expected=", ".join(able) or "none can",
                got=f"base={name!r}",
            )
        return able[str(name)]

    def prepare_part(self, plan: Plan, problem: Problem, operands: Operands) -> Prepared:
        """Have the base of `plan` prepare `problem`, a part of the product; raises as `find_base` does."""
        base = self.find_base(plan.options["base"], problem)
        return prepare(base, make_plan(base, problem, machine.detect().with_threads(plan.threads)), operands)

    def part_error(self, plan: Plan, problem: Problem, operands: Operands) -> float:
        """Return the `extra_error` of the base of `plan` for `problem`, a part of the product or all of it."""
        base = self.find_base(plan.options["base"], problem)
        return base.extra_error(make_plan(base, problem, machine.detect()), operands)

    def _able(self, problem: Problem) -> dict[str, Backend]:
        """Return the possible bases by name, the highest step first."""
        return {
            backend.name: backend
            for backend in registry.able(problem, on_device="device arrays" in self.takes)
            if backend.name.startswith(self.base_family) and (not isinstance(backend, Composite) or backend.is_base)
        }
