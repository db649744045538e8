"""Products that ranks compute, as the process that started the ranks holds them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from backends.distributed._job.job import Shape
from backends.distributed._job.jobs import take
from backends.distributed._job.rank import Assignment
from harness.distributed.transport.shared_arrays import SharedArray
from harness.interface import HostExecution
from harness.operands import Operands


class RanksExecution:
    """A product whose pieces the ranks have allocated, and nobody has filled yet: nothing else is in memory.

    Parameters
    ----------
    shape : Shape
        Of the job.
    assignment : Assignment
    share : callable, optional
        Returns arrays in shared memory by name, for a product that the ranks do not hold yet.
    """

    def __init__(
        self, shape: Shape, assignment: Assignment, share: Callable[[], dict[str, SharedArray]] = dict[str, SharedArray]
    ) -> None:
        self._loaded = take(shape, assignment, self, share)

    def run(self) -> None:
        """Compute once, on all ranks."""
        self._loaded.call_all("run")

    def report(self) -> list[dict[str, Any]]:
        """Return seconds, words, messages and bytes of the last run by stage, rank by rank."""
        return self._loaded.call_all("report")

    def software(self) -> dict[str, str]:
        """Return the name and version of the MPI library of the ranks, and versions of what they send by."""
        found: dict[str, str] = self._loaded.job.call_all("software")[0]
        return found

    def apply(self, function: Callable[..., Any], **arguments: Any) -> list[Any]:
        """Have each rank call ``function(share, **arguments)`` on its `harness.distributed.share.Share`.

        Parameters
        ----------
        function : callable
            Of a module that the ranks can import.
        arguments
            What can be pickled.

        Returns
        -------
        list
            Of the answers, in the order of ranks.
        """
        return self._loaded.call_all("apply", function=function, arguments=arguments)


class DistributedExecution(HostExecution, RanksExecution):
    """A product of operands on the host, which the ranks take out of shared memory.

    Parameters
    ----------
    shape : Shape
        Of the job.
    assignment : Assignment
    operands : Operands
    """

    def __init__(self, shape: Shape, assignment: Assignment, operands: Operands) -> None:
        HostExecution.__init__(self, operands)
        # Ranks of one thread take 0.93 to 0.98 of the time so. One of 16 threads took 1.16 at n = 2048.
        self._is_padded = assignment.threads == 1
        RanksExecution.__init__(self, shape, assignment, self._share)
        self.upload()

    def run(self) -> None:
        """Compute once, on all ranks."""
        RanksExecution.run(self)

    def result(self) -> np.ndarray:
        """Collect the pieces into the output, and return it."""
        if not self._loaded.assignment.is_in_place:
            self._loaded.call_all("collect")
        self.operands.out[...] = self._loaded.shared["d"].array
        return self.operands.out

    def upload(self) -> None:
        """Hand the ranks the operands anew."""
        for name, array in self._operands().items():
            self._loaded.shared[name].array[...] = array
        if not self._loaded.assignment.is_in_place:
            self._loaded.call_all("upload")

    def _operands(self) -> dict[str, np.ndarray]:
        return {name: x for name in "abc" if (x := getattr(self.operands, name)) is not None}

    def _share(self) -> dict[str, SharedArray]:
        """Return shared arrays for the operands and the result."""
        arrays = {**self._operands(), "d": self.operands.out}
        return {name: SharedArray(x.shape, x.dtype, padded=self._is_padded) for name, x in arrays.items()}
