"""The optional abilities of a backend. The default of each method means that there is none."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, ClassVar

import numpy as np

from harness.interface.execution import Closure, Execution, Steps, TreeSteps
from harness.interface.nest import Nest
from harness.machine import Machine
from harness.operands import Operands
from harness.plan import Plan
from harness.problem import Problem
from harness.semiring import Semiring

# Products that no backend is given unless it declares them.
TAKES = frozenset({"mixed", "half", "complex", "conjugate", "triangle", "device arrays", "batch"})

Shortcut = Callable[..., bool]


class Abilities:
    """The optional part of a backend.

    Attributes
    ----------
    takes : set of str
        ``"mixed"``: products whose A and B have a narrower dtype than the sums. ``"half"``: products over float16,
        where (+) selects. ``"complex"``: products over complex64 and complex128. ``"conjugate"``: products
        with a `Problem.conjugate`; without it A and B come as copies that are conjugated. ``"triangle"``: products with
        a `Problem.triangle`; `out` is then written on and below its diagonal alone if D is a triangle. ``"batch"``:
        problems with a `Problem.batch`, in one execution; without it the products of a batch come one by one.
        ``"device arrays"``: arrays of CuPy as operands, computed with on their device, in the current stream. `prepare`
        copies what it must in that stream, and `Execution.result` returns `out`.
    calls_libraries : bool
        Whether it may call libraries with threads of their own, such as BLAS. They are then limited to the threads of
        the product, for the whole process. False: its loops are Numba's alone.
    starts_processes : bool
        Whether `prepare` may start processes that live on, to compute this product and later ones. They must sleep
        while no product runs. ``backend="auto"`` leaves such a backend out.
    is_optional : bool
        Whether it needs a package that the harness does not install with itself. ``backend="auto"`` takes such a
        backend where the user's own measurement has found it faster, and where no other computes the product.
    rereads_operands : bool
        Whether every run of an execution reads the operands anew, and executions share nothing that changes their
        results. `gemm` then computes small products of the same kind by one execution, on arrays of its own.
    project : str
        The library, or other project, whose kernel it runs, as a reader knows it: ``"MKL"``. Empty: this project's own.
        Reports hold our kernels against the fastest of all others.
    writes_expressions : bool
        Whether all that it computes, except plus_times over floats, is an expression of the operations of `project`,
        which has no such product. Reports then call it "a NumPy expression", not a library.
    accumulates_in_place : bool
        Whether `operands.c` may be `operands.out`, to which the product is then added, without a copy of C. Where (+)
        selects, it holds no NaN then, as a sum of products never does.
    """

    takes: ClassVar[frozenset[str]] = frozenset()
    calls_libraries: ClassVar[bool] = True
    starts_processes: ClassVar[bool] = False
    is_optional: ClassVar[bool] = False
    rereads_operands: ClassVar[bool] = False
    accumulates_in_place: ClassVar[bool] = False
    project: ClassVar[str] = ""
    writes_expressions: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        """Raise TypeError if `takes` names no ability."""
        super().__init_subclass__(**options)
        takes: object = cls.takes
        if not isinstance(takes, Collection) or isinstance(takes, str):
            raise TypeError(f"{cls.__name__}.takes is {takes!r}; expected some of {sorted(TAKES)}, in a set")
        if unknown := set(cls.takes) - TAKES:
            raise TypeError(f"{cls.__name__}.takes has {sorted(unknown)}; expected some of {sorted(TAKES)}")

    def shortcut(self, semiring: Semiring, dtype: np.dtype[Any], machine: Machine) -> Shortcut | None:
        """Return the fastest way to small plain products, for the public call, or None if there is none.

        It may take whatever time it needs to compile. The shortcut is called with any three objects. For matrices
        of NumPy of `dtype`, and a writable `out`, it computes ``out := a (x) b`` and returns True. It uses no more
        threads than `machine.threads`. Otherwise, or for sizes, strides or overlap that it does not support, it
        returns False and has done nothing.
        """
        return None

    def whole_shortcut(self, problem: Problem, machine: Machine) -> Shortcut | None:
        """Return the same for the semiring, dtype and scalars of `problem`, and any sizes, or None if there is none.

        It is called as ``compute(a, b, out, c)`` if `problem` has a C, which may be `out` itself.
        """
        return None

    def mixed_shortcut(self, dtype: np.dtype[Any], operand_dtype: np.dtype[Any], machine: Machine) -> Shortcut | None:
        """Return the same for mixed products, of operands of `operand_dtype` into `dtype`, or None if there is none."""
        return None

    def extra_error(self, plan: Plan, operands: Operands) -> float:
        """Return how much further from the definition than the bound of `harness.proof.verify` a float result may be.

        0: the element-wise bound holds, as it does for sums of terms in any order. An algorithm whose error is bounded
        by norms of `operands` alone returns that bound, for the largest element, by `plan`.

        A backend that overrides this computes only if it is named: ``backend="auto"`` leaves it out, see `loosens`.
        """
        return 0.0

    def loosens(self, problem: Problem) -> bool:
        """Return whether `extra_error` may be more than 0 for `problem`, so that ``backend="auto"`` must not choose it.

        A backend whose own `extra_error` is 0 for some problems may override this. So do those on tensor cores over
        16-bit operands: what is cut off beside subnormal ones, no tensor core keeps.
        """
        return type(self).extra_error is not Abilities.extra_error

    def pays(self, problem: Problem) -> bool:
        """Return whether `problem` is worth its overhead, by a rule; else ``backend="auto"`` passes it over.

        Where backends have been measured, the measurement decides.
        """
        return True

    def keeps_arithmetic(self, problem: Problem) -> bool:
        """Return whether `problem` is computed in the arithmetic that is asked for here and now, see `native_floats`.

        ``backend="auto"`` never chooses one that does not, whatever was measured.
        """
        return True

    def may_be_chosen(self, problem: Problem) -> bool:
        """Return whether ``backend="auto"`` may choose it for `problem` where nothing was measured.

        Subclasses override `keeps_arithmetic`, `loosens` or `pays`.
        """
        return self.keeps_arithmetic(problem) and self.pays(problem) and not self.loosens(problem)

    def is_behind(self, problem: Problem) -> bool:
        """Return whether another backend is known to be faster at `problem`, a batch: ``backend="auto"`` asks that one.

        Such as one that computes small products together, where this one computes them one after the other.
        """
        return False

    def prepare_argk(self, plan: Plan, operands: Operands, argk: np.ndarray) -> Execution | None:
        """Prepare a plain product that also says which k each element comes from, or return None.

        Asked where (+) selects, and before `prepare_blocks`, by `harness.gemm_argk`.

        Parameters
        ----------
        plan : Plan
        operands : Operands
            Without a C. `out` is C-ordered.
        argk : (m, n) array of int32
            C-ordered; where `operands` are, with the dimensions of a batch before these. When `result` has returned, it
            holds the smallest k that attains the element, and -1 where the element is the semiring's zero.
        """
        return None

    def prepare_blocks(self, plan: Plan, operands: Operands, block: np.ndarray, steps: int) -> Execution | None:
        """Prepare a plain product that also says which block of k each element comes from, or return None.

        Asked where (+) selects; `harness.gemm_argk` does without where the answer is None.

        Parameters
        ----------
        plan : Plan
        operands : Operands
            Without a C. `out` is C-ordered.
        block : (m, n) array of int8
            C-ordered; `run` writes to it the number, from 0, of the first block of `steps` terms that attains the
            element, and -1 where the element is the semiring's zero.
        steps : int
        """
        return None

    def prepare_closure(
        self, problem: Problem, count: int, block: int | None, machine: Machine, *, keeps: bool, symmetric: bool
    ) -> Closure | None:
        """Prepare closures of square matrices, all steps in one call, or return None: they are made of products.

        Asked where (+) selects and (x) distributes over it for all values, by `harness.closure`.

        Parameters
        ----------
        problem : Problem
            The product of one matrix by itself.
        count : int
            Matrices, one after the other in memory.
        block : int or None
            Most vertices that are closed at once; None: as many as is fast.
        machine : Machine
        keeps : bool
            Whether predecessors are kept, see `harness.api.paths.predecessors`.
        symmetric : bool
            Whether the matrices are equal to their transposes, so that half of their elements are enough to compute.

        Returns
        -------
        closure : callable or None
            ``closure(best, before)`` closes the edges in `best`, in place, and makes the int32 array `before` their
            predecessors. It is called with any arrays of these sizes, by several threads at once. Graphs of bools
            may have a `BitClosure`, which is also called with bits.
        """
        return None

    def tree_steps(self, problem: Problem) -> TreeSteps | None:
        """Return the steps of a closure with predecessors that are no products, or None: they are made by NumPy.

        Asked where `prepare_closure` returned None, of arrays on the host.

        Parameters
        ----------
        problem : Problem
            The product of one matrix by itself.
        """
        return None

    def prepare_steps(
        self, problem: Problem, keeps: str = "", *, is_relative: bool = False, is_traced: bool = False
    ) -> Steps | None:
        """Prepare all steps of sequences in one call, or return None: they are made of products.

        A step is ``x[t] = (x[t - 1] (x) A[t - 1]) (x) e[t]``, and the first ``x[0] = initial (x) e[0]``. Sequence b has
        ``lengths[b]`` steps, at the positions from ``firsts[b]``. Arguments of equal values may have strides of 0. On a
        GPU e may be of fewer sequences: each is that of several, one after the other.

        Parameters
        ----------
        problem : Problem
            The product of all states by one matrix.
        keeps : str
            Which states are returned: "" none, "before" e is combined with them, or "after" it.
        is_relative : bool
            Whether states of logarithms are returned less a number that is their own at each t.
        is_traced : bool
            Whether paths are returned, where (+) selects.
        """
        return None

    def loops(self, plan: Plan) -> Nest | None:
        """Return the loops of `plan`, from which its loads follow, or None: not known, as those of a library."""
        return None

    def listing(self, plan: Plan) -> str:
        """Return the innermost loop of the kernel that `plan` compiles, for a reader; empty: there is none to show."""
        return ""

    def configurations(self, machine: Machine) -> Mapping[str, Mapping[str, str]]:
        """Return by name the environments in which it is compared with others on `machine`; ``""``: as it is installed.

        A library may choose its kernels by environment variables that it reads when it is loaded. Each configuration is
        a contender, in processes that have its variables.
        """
        return {"": {}}

    def kernels(self) -> str:
        """Return the family of kernels that its library took for this processor, read back after `prepare`.

        ``"Haswell"``, ``"AVX2"``; empty: it has no library, or this is not known.
        """
        return ""

    def architecture(self) -> str:
        """Return the architecture of the device that it computes on, as the compiler calls it; empty: the host's."""
        return ""

    def compile(self, plans: Iterable[Plan]) -> int:
        """Compile what `plans` need, on all cores, and return how many kernels that was; `prepare` does without."""
        return 0
