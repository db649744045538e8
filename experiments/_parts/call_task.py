"""The task of a whole call, as user code writes it: of `gemm` or of a library, on the host or on a GPU."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from experiments._parts.computed import require
from harness.api.gemm import gemm
from harness.experiment import Contender
from harness.operands import Operands, poison
from harness.problem import Problem
from harness.proof.verify import verify
from harness.threads import limit
from harness.timing.clock import Action, Clock, CpuClock, Sample, timed

TASK = "experiments._parts.call_task:call"
# What is called, by name; a name of `gemm` may say a semiring.
GEMM, MIN_PLUS, NUMPY, CUPY, TORCH = "gemm", "gemm, min_plus", "numpy.matmul", "cupy.matmul", "torch.bmm"
# Naming defaults must cost no more than passing them.
CALL, ON_ONE_THREAD, NEW_RESULT = "gemm(a, b, out=c)", "gemm(a, b, out=c, threads=1)", "gemm(a, b)"
CALL_OF_LIBRARY, NEW_OF_LIBRARY = "numpy.matmul(a, b, out=c)", "numpy.matmul(a, b)"
# Operands of a mixed product are made as wide as the sums by every call.
CONVERTED = "converted, cupy.matmul"

# Whose calls are not this project's.
PROJECTS = {
    **dict.fromkeys((NUMPY, CALL_OF_LIBRARY, NEW_OF_LIBRARY), "NumPy"),
    **dict.fromkeys((CUPY, CONVERTED), "CuPy"),
    TORCH: "PyTorch",
}
# Rounding of a result that is as narrow as its operands, of its largest element.
ROUNDING = {"float16": 2.0**-11, "bfloat16": 2.0**-8}


class HostTime(CpuClock):
    """The host's clock for what it spends on calls that a device is still working on.

    Parameters
    ----------
    synchronize : callable
        Waits for the device: before a sample, so that its queue has room.
    """

    def __init__(self, synchronize: Action) -> None:
        super().__init__()
        self._synchronize = synchronize

    def sample(self, run: Action, wait: Action, loops: int) -> Sample:
        """Time `loops` calls, and do not wait for them."""
        self._synchronize()
        return super().sample(run, lambda: None, loops)


class WholeCall:
    """One call on the host, from arguments to result.

    Parameters
    ----------
    problem : Problem
    name : str
        What is called.
    seed : int
    threads : int
        Of all that compute; 0: as many as they like.
    own : bool
        Whether B is the transpose of A itself.
    """

    def __init__(self, problem: Problem, name: str, seed: int, threads: int, *, own: bool = False) -> None:
        self._problem, self._name, self._seed, self._threads = problem, name, seed, threads
        drawn = Operands.generate(problem, seed)
        self._operands = dataclasses.replace(drawn, b=drawn.a.swapaxes(-1, -2)) if own else drawn
        self._out, a = self._placed(drawn.out), self._placed(drawn.a)
        b = a.swapaxes(-1, -2) if own else self._placed(drawn.b)
        self._given, self.first_s, self.longest_after_s = (a, b), dict[str, float](), 0.0
        self.run, self._limit = self._bound(a, b), contextlib.ExitStack()
        with timed(self.first_s, name, self.wait):
            self.run()  # which may load the libraries whose threads are meant
        if threads:
            self._limit.enter_context(limit(threads))

    def wait(self) -> None:
        """Return: the call has returned."""

    def spoil(self) -> None:
        """Overwrite the last result."""
        poison(self._out)

    def verify(self) -> str:
        """Compare the last result with the definition."""
        problem, extra = self._problem, 0.0
        if self._name == TORCH and problem.is_mixed:
            a, b = (x.astype(problem.dtype) for x in (self._operands.a, self._operands.b))
            largest = np.linalg.norm(a, axis=-1).max() * np.linalg.norm(b, axis=-2).max()
            extra = ROUNDING[problem.input_dtype.name] * float(largest)
        return verify(problem, self._operands, self._result(), seed=self._seed, extra_error=extra)

    def facts(self) -> Mapping[str, Any]:
        """Return the work of one call."""
        whose = {"project": PROJECTS[self._name]} if self._name in PROJECTS else {}
        calls = {"first_s": self.first_s, **({"longest_after_s": s} if (s := self.longest_after_s) else {})}
        return {**self._problem.work, "plan": {"call": self._name}, **whose, **calls}

    def call_others(self, sizes: Sequence[int]) -> None:
        """Call with parts of so many rows and columns, each for the first time, and keep the longest time."""
        spent = dict[str, float]()
        for n in sizes:
            a, b = (x[:n, :n] for x in self._given)
            with timed(spent, str(n), self.wait):
                gemm(a, b, semiring=self._problem.semiring)
        self.longest_after_s = max(spent.values(), default=0.0)

    def _bound(self, a: Any, b: Any) -> Callable[[], object]:
        """Return the call without arguments."""
        name, matmul = self._name, functools.partial(self._module().matmul, a, b)
        if name in (NEW_RESULT, NEW_OF_LIBRARY):
            return self._into_new(functools.partial(gemm, a, b) if name == NEW_RESULT else matmul)
        if name in (CALL, ON_ONE_THREAD):
            return functools.partial(gemm, a, b, out=self._out, **({} if name == CALL else {"threads": 1}))
        if name in (GEMM, MIN_PLUS):
            options = {"dtype": self._problem.dtype} if self._problem.is_mixed else {}
            ring, threads = self._problem.semiring, self._threads or None
            return functools.partial(gemm, a, b, semiring=ring, out=self._out, threads=threads, **options)
        if name == TORCH:
            return self._torch(a, b)
        return self._converted(a, b) if name == CONVERTED else functools.partial(matmul, out=self._out)

    def _into_new(self, multiply: Callable[[], Any]) -> Callable[[], object]:
        def run() -> None:
            self._out = multiply()

        return run

    def _converted(self, a: Any, b: Any) -> Callable[[], object]:
        module, pairs = self._module(), [(x.astype(self._problem.dtype), x) for x in (a, b)]
        multiply = functools.partial(module.matmul, *(wide for wide, _ in pairs), out=self._out)

        def run() -> None:
            for wide, narrow in pairs:
                module.copyto(wide, narrow)
            multiply()

        return run

    def _torch(self, a: Any, b: Any) -> Callable[[], object]:
        """Return the call of PyTorch, whose result is as narrow as the operands."""
        import torch

        if self._threads:
            torch.set_num_threads(self._threads)
        name = self._problem.input_dtype.name
        words = (x.view(np.uint16) if name == "bfloat16" else x for x in (a, b))
        x, y = (torch.as_tensor(word).view(getattr(torch, name)) for word in words)
        wide = torch.as_tensor(self._out)
        z = torch.empty_like(wide, dtype=x.dtype) if self._problem.is_mixed else wide
        self._narrow = (wide, z)
        return torch.inference_mode()(functools.partial(torch.bmm, x, y, out=z))

    def _module(self) -> Any:
        return np

    def _placed(self, x: np.ndarray) -> Any:
        return x

    def _result(self) -> np.ndarray:
        if self._name == TORCH and self._problem.is_mixed:
            wide, narrow = self._narrow
            wide.copy_(narrow)
        return self._on_host()

    def _on_host(self) -> np.ndarray:
        return np.asarray(self._out)


class CallOnGpu(WholeCall):
    """One call on the current GPU and stream, timed by its clock, or by the host's for what the host spends."""

    def __init__(
        self, problem: Problem, name: str, seed: int, threads: int, *, own: bool = False, host_time: bool = False
    ) -> None:
        super().__init__(problem, name, seed, threads, own=own)
        self._is_of_host = host_time

    def wait(self) -> None:
        """Return when the GPU is done."""
        self._module().cuda.get_current_stream().synchronize()

    def spoil(self) -> None:
        """Overwrite the last result."""
        kind = self._problem.dtype.kind
        self._out.fill(np.nan if kind == "f" else kind == "b" or 77)

    def clock(self) -> Clock:
        """Return the clock of the GPU, or that of the host."""
        from backends.gpu._cuda.queue import current_queue
        from harness.timing.device_clock import CudaEventClock

        return HostTime(self.wait) if self._is_of_host else CudaEventClock(current_queue())

    def _module(self) -> Any:
        from backends.gpu._cuda import device

        return device.cupy()

    def _placed(self, x: np.ndarray) -> Any:
        from backends.gpu._cuda import device

        return device.upload(x).view(x.dtype) if x.dtype.name == "bfloat16" else self._module().asarray(x)

    def _on_host(self) -> np.ndarray:
        return np.asarray(self._out.get())


def contender(name: str, threads: int = 1, label: str = "", **arguments: Any) -> Contender:
    """Return the contender that calls `name`."""
    return Contender(label or name, {"name": name, **arguments}, threads, TASK)


def call(
    *,
    problem: Mapping[str, Any],
    name: str,
    seed: int,
    threads: int,
    where: str = "host",
    own: bool = False,
    host_time: bool = False,
    after: Sequence[int] = (),
) -> WholeCall:
    """Prepare one.

    Parameters
    ----------
    problem : mapping
    name : str
    seed : int
    threads : int
        On the host.
    where : str
        ``"host"`` or ``"gpu"``.
    own : bool
        Whether B is the transpose of A itself.
    host_time : bool
        Whether a call on a GPU is timed by what the host spends on it.
    after : sequence of int
        Sizes of parts of the operands that are multiplied once, when the whole has been.

    Raises
    ------
    Declined
        If there is no GPU, or PyTorch is not installed.
    """
    if name == TORCH:
        require("torch")
    decoded = Problem.from_json(dict(problem))
    if name == MIN_PLUS:
        decoded = dataclasses.replace(decoded, semiring="min_plus")
    if where == "gpu":
        from backends.gpu._tasks.device_task import require_gpu

        require_gpu()
        made: WholeCall = CallOnGpu(decoded, name, seed, 0, own=own, host_time=host_time)
    else:
        made = WholeCall(decoded, name, seed, threads, own=own)
    made.call_others(after)
    return made
