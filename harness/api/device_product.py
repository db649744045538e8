"""The public calls for arrays of CuPy: computed on the GPU that they lie on, in its current stream, without a copy.

CuPy is never imported here: whoever hands over one of its arrays has it loaded. Nothing waits for the GPU: as in CuPy
itself the result is there for whatever comes later in the same stream.
"""

from __future__ import annotations

import dataclasses
import sys
from typing import Any, NamedTuple

import numpy as np

from harness import machine, registry
from harness.api.arguments import check_matrix, order, shapes
from harness.api.promotion import choose_dtypes
from harness.errors import BackendUnavailable, ProblemError
from harness.interface import Backend
from harness.operands import Operands
from harness.problem import Problem
from harness.semiring import Scalar, Semiring

# Which backend backend="auto" tries first for arrays on a GPU; then any other by falling step.
AUTO_FIRST = ("gpu-cublas", "gpu-tensor-core", "gpu-bits", "gpu-paired", "gpu-tuned")

_PACKAGE = "cupy"


class Request(NamedTuple):
    """What `gemm` is asked for beside the arrays; see there.

    Attributes
    ----------
    caller : str
        Named in messages.
    semiring : Semiring
    alpha, beta : scalar or None
    backend : str
    dtype : numpy dtype or None
    """

    caller: str
    semiring: Semiring
    alpha: Scalar = None
    beta: Scalar = None
    backend: str = "auto"
    dtype: Any = None


def is_device_array(x: Any) -> bool:
    """Whether `x` is an array of CuPy, told by its type alone."""
    return type(x).__module__.partition(".")[0] == _PACKAGE and hasattr(x, "device")


def gemm(given: dict[str, Any], out: Any, request: Request) -> Any:
    """Return `harness.gemm` of arrays of which at least one lies on a GPU.

    Parameters
    ----------
    given : dict
        The operands by name: a, b, and c if there is one.
    out : array or None
    request : Request

    Raises
    ------
    ProblemError
        As `harness.gemm`; or if not all arrays lie on the same GPU.
    BackendUnavailable
        As `harness.gemm`; or if the backend computes on the host.
    """
    index = common_device(request.caller, given if out is None else {**given, "out": out})
    for name, x in given.items():
        check_matrix(name, x)
    dtype, operand_dtype = choose_dtypes(given, request.dtype)
    batch, (m, n, k) = shapes(given)
    problem = Problem(
        m, n, k, request.semiring, dtype, request.alpha, request.beta, "c" in given, operand_dtype=operand_dtype
    )
    _check_out(out, (*batch, m, n), dtype)
    layout = order(given["a"]) + order(given["b"]) + ("C" if out is None else order(out))
    problem = dataclasses.replace(problem, layout=layout)
    cupy = sys.modules[_PACKAGE]
    with cupy.cuda.Device(index):
        chosen = choose(problem, request.backend)
        operands = {name: convert(x, dtype if name == "c" else problem.input_dtype, batch) for name, x in given.items()}
        result = cupy.empty((*batch, m, n), dtype) if out is None else out
        overlaps = any(cupy.may_share_memory(result, x) for x in operands.values())
        target = cupy.empty((*batch, m, n), dtype) if overlaps else result
        plan = chosen.plan(problem, machine.detect())
        for at in np.ndindex(batch):
            c = operands["c"][at] if problem.accumulate else None
            execution = chosen.prepare(plan, Operands(operands["a"][at], operands["b"][at], c, target[at]))
            execution.run()
            execution.result()  # where out's rows have gaps, it goes there now
        if target is not result:
            result[...] = target
    return result


def gemm_argk(given: dict[str, Any], request: Request) -> tuple[Any, Any]:
    """Return `harness.gemm_argk` of a and b of which at least one lies on a GPU; raises as `gemm` does."""
    index = common_device(request.caller, given)
    for name, x in given.items():
        check_matrix(name, x)
    dtype = np.result_type(*(x.dtype for x in given.values())).newbyteorder("=")
    batch, (m, n, k) = shapes(given)
    problem = Problem(m, n, k, request.semiring, dtype)
    cupy = sys.modules[_PACKAGE]
    with cupy.cuda.Device(index):
        chosen = choose(problem, request.backend)
        a, b = (convert(x, dtype, batch) for x in given.values())
        product, argk = cupy.empty((*batch, m, n), dtype), cupy.empty((*batch, m, n), np.dtype(np.int32))
        plan = chosen.plan(problem, machine.detect())
        for at in np.ndindex(batch):
            execution = chosen.prepare_argk(plan, Operands(a[at], b[at], None, product[at]), argk[at])
            if execution is None:
                raise BackendUnavailable(
                    f"backend {chosen.name!r} does not say which k it was", fix="backend='auto', or x.get() of each"
                )
            execution.run()
            execution.result()
    return product, argk


def common_device(caller: str, given: dict[str, Any]) -> int:
    """Return the number of the GPU that all of `given` lie on.

    Raises
    ------
    ProblemError
        If one of them lies on the host, or on another GPU.
    """
    first = next(name for name, x in given.items() if is_device_array(x))
    index = int(given[first].device.id)
    for name, x in given.items():
        if not is_device_array(x):
            raise ProblemError(
                f"{caller}: {first} lies on a GPU, {name} does not",
                expected="all arrays of CuPy, or all on the host",
                got=f"{name}: {type(x).__module__}.{type(x).__name__}",
                fix=f"cupy.asarray({name}), or {first}.get()",
            )
        if int(x.device.id) != index:
            raise ProblemError(
                f"{caller}: {first} and {name} lie on different GPUs",
                expected=f"all arrays on GPU {index}, where {first} is",
                got=f"{name} on GPU {int(x.device.id)}",
                fix=f"with cupy.cuda.Device({index}): {name} = cupy.array({name})",
            )
    return index


def choose(problem: Problem, name: str) -> Backend:
    """Return the backend of that name, or for ``"auto"`` the best that computes `problem` on a GPU.

    Raises
    ------
    BackendUnavailable
        If there is none, it declines, or computes on the host.
    """
    if name == "auto":
        able = list(registry.automatic(problem, on_device=True))
        first = {name: place for place, name in enumerate(AUTO_FIRST)}
        able.sort(key=lambda backend: first.get(backend.name, len(first)))  # stable: the others by falling step
        if not able:
            raise BackendUnavailable(
                f"no backend computes {problem} on this GPU", fix="arrays on the host: x.get() of each"
            )
        return able[0]
    backend = registry.find(name)
    reason = backend.refuses(problem)
    if reason is None and not backend.takes_device_arrays:
        reason = "it computes on the host, and the arrays lie on a GPU"
    if reason:
        raise BackendUnavailable(
            f"backend {name!r} declines this product",
            got=f"{problem}: {reason}",
            fix="backend='auto', or x.get() of each",
        )
    return backend


def convert(x: Any, dtype: np.dtype[Any], batch: tuple[int, ...]) -> Any:
    """Return `x` with the product's dtype, broadcast to the batch; a copy only if it must be."""
    if x.dtype != dtype:
        x = x.astype(dtype)
    return sys.modules[_PACKAGE].broadcast_to(x, (*batch, *x.shape[-2:]))


def _check_out(out: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Raise unless the result, of that shape and dtype, can be written to `out`; None will be made."""
    if out is None or (out.shape == shape and out.dtype == dtype and not _repeats(out)):
        return
    raise ProblemError(
        "gemm: out cannot take the result",
        expected=f"an array of shape {shape} and dtype {dtype.name}",
        got=f"shape {out.shape}, {out.dtype}" + (", elements that share memory" if _repeats(out) else ""),
        fix=f"out=cupy.empty({shape}, {dtype.name!r})",
    )


def _repeats(x: Any) -> bool:
    return x.size > 0 and any(s == 0 and n > 1 for s, n in zip(x.strides, x.shape, strict=True))
