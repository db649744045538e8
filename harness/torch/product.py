"""`harness.torch.gemm`: products of tensors as autograd functions."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import torch

from harness.api.argk import gemm_argk
from harness.api.gemm import gemm as product_of_arrays
from harness.errors import ProblemError
from harness.semiring import Scalar, Semiring, as_semiring
from harness.torch import rules, tensors
from harness.torch.batched import broadcasting

Tensor = Any  # torch.Tensor, whose types are not checked


def gemm(
    a: Tensor,
    b: Tensor,
    c: Tensor | None = None,
    *,
    semiring: str | Semiring = "plus_times",
    alpha: Scalar = None,
    beta: Scalar = None,
    backend: str = "auto",
    threads: int | None = None,
) -> Tensor:
    """Compute ``D = (alpha (x) A (x) B) (+) (beta (x) C)`` over a semiring, differentiably.

    Parameters
    ----------
    a : (..., m, k) tensor
        On the CPU or on a GPU, where it is computed in PyTorch's current stream. Any strides; nothing is copied.
    b : (..., k, n) tensor
        Likewise, of the same dtype and device. Leading dimensions broadcast. Complex tensors that PyTorch conjugates
        when they are read, as ``b.mH``, are not copied.
    c : (..., m, n) tensor, optional
    semiring : str or Semiring
        With gradients: plus_times; logaddexp_plus; or any whose (+) is min or max, and whose (x) is plus, times, min,
        max, first or second. Without, any of `harness.gemm`.
    alpha, beta : scalar, optional
        Numbers, not tensors: nothing records a gradient of them. With gradients c, alpha and beta are for plus_times
        alone.
    backend, threads
        As in `harness.gemm`.

    Returns
    -------
    (..., m, n) tensor

    Raises
    ------
    ProblemError
        As `harness.gemm`; if alpha or beta is a tensor; and if a gradient is asked for where there is none.
    BackendUnavailable
        As `harness.gemm`; or if tensors lie on a GPU and CuPy is not installed.

    Notes
    -----
    Where (+) is min or max an element is one of its terms, and the gradient is that of this term alone: of equal terms
    the one with the smallest k, of equal operands of min and max the first. That is a subgradient. Where the result is
    the semiring's zero, gradients are 0. They can be differentiated again, except over logaddexp_plus. More is in
    docs/gradients.md.

    Examples
    --------
    >>> import torch
    >>> a = torch.tensor([[1.0, 5.0]], requires_grad=True)
    >>> b = torch.tensor([[2.0], [0.0]])
    >>> gemm(a, b, semiring="max_plus").backward()
    >>> a.grad
    tensor([[0., 1.]])
    """
    if torch.compiler.is_compiling():
        from harness.api.libraries import uncompiled

        options = {"semiring": semiring, "alpha": alpha, "beta": beta, "backend": backend, "threads": threads}
        return uncompiled.call(gemm, a, b, c, **options)
    operands = {"a": a, "b": b} if c is None else {"a": a, "b": b, "c": c}
    tensors.check(operands)
    _check_numbers(alpha=alpha, beta=beta)
    semiring = as_semiring(semiring)
    options = {"semiring": semiring, "backend": backend, "threads": threads}
    is_recorded = torch.is_grad_enabled() and any(x.requires_grad for x in operands.values())
    if not (is_recorded or tensors.are_transformed()):
        return _compute(*operands.values(), alpha=alpha, beta=beta, **options)
    if is_recorded:
        tensors.check_recorded({"a": a, "b": b})
    if semiring.is_ordinary:
        return _applied(_Ordinary, a, b, c, alpha, beta, options)
    function, reason = _function(semiring), _no_gradients(semiring, c=c, alpha=alpha, beta=beta)
    if function is not None and reason is None:
        return _applied(function, a, b, options)[0]
    if reason is not None and is_recorded:
        raise reason
    return _Constant.apply(a, b, c, alpha, beta, options)


def _check_numbers(**scalars: Scalar) -> None:
    """Raise if a scalar is a tensor, whose gradient would be lost."""
    for name, value in scalars.items():
        if isinstance(value, torch.Tensor):
            raise ProblemError(
                f"harness.torch.gemm: {name} is a tensor, whose gradient would not be recorded",
                expected="a number",
                got=repr(value),
                fix=f"{name}.item(), or alpha * gemm(a, b) + beta * c by PyTorch, which records it",
            )


def _applied(function: type[torch.autograd.Function], *arguments: Any) -> Any:
    """Return ``function.apply(*arguments)``.

    PyTorch binds them to the signature first, for arguments that were left out, which takes as long as a launch. Here
    none is.
    """
    if tensors.are_transformed():
        return function.apply(*arguments)
    return super(torch.autograd.Function, function).apply(*arguments)


class _Product(torch.autograd.Function):
    """A product of operands that broadcast, so that one more dimension of `torch.func.vmap` is one more of these."""

    @staticmethod
    def forward(a: Tensor, b: Tensor, c: Tensor | None, alpha: Scalar, beta: Scalar, options: Any) -> Tensor:
        return _compute(a, b, c, alpha=alpha, beta=beta, **options)

    @classmethod
    def vmap(cls, info: Any, in_dims: Any, a: Tensor, b: Tensor, c: Tensor | None, *others: Any) -> tuple[Tensor, int]:
        return cls.apply(*broadcasting(info.batch_size, in_dims, a, b, c), *others), 0


class _Ordinary(_Product):
    """plus_times: gradients are products of the same kind, and so differentiable again."""

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        a, b, c, ctx.alpha, ctx.beta, ctx.options = inputs
        ctx.c_shape = None if c is None else c.shape
        ctx.save_for_backward(a, b)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        a, b = ctx.saved_tensors
        alpha, beta = (None if x is None else np.conjugate(x) for x in (ctx.alpha, ctx.beta))
        product = functools.partial(gemm, alpha=alpha, **ctx.options)
        of_a, of_b = rules.ordinary(a, b, g, ctx.needs_input_grad[:2], product)
        of_c = None
        if ctx.needs_input_grad[2]:
            of_c = (g if beta is None else g * beta).sum_to_size(ctx.c_shape)
        return of_a, of_b, of_c, None, None, None


class _Constant(_Product):
    """A product without gradients in a function that is transformed: whether one is asked for shows later."""

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        _, _, c, alpha, beta, options = inputs
        ctx.reason = _no_gradients(options["semiring"], c=c, alpha=alpha, beta=beta)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        raise ctx.reason


class _Selected(torch.autograd.Function):
    """A (+) that selects: gradients go to the term that each element is."""

    @staticmethod
    def forward(a: Tensor, b: Tensor, options: Any) -> tuple[Tensor, Tensor]:
        with tensors.stream_of(a):
            product, argk = gemm_argk(tensors.array(a), tensors.array(b), **options)
            return tensors.tensor(product), tensors.tensor(argk)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        a, b, ctx.options = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)  # no zeros for argk
        ctx.save_for_backward(a, b, output[1])

    @staticmethod
    def backward(ctx: Any, g: Tensor | None, _: None) -> Any:
        if g is None:
            return None, None, None
        a, b, argk = ctx.saved_tensors
        return *rules.selected(ctx.options["semiring"], a, b, argk, g, ctx.needs_input_grad[:2]), None

    @staticmethod
    def vmap(info: Any, in_dims: Any, a: Tensor, b: Tensor, options: Any) -> tuple[tuple[Tensor, Tensor], Any]:
        return _Selected.apply(*broadcasting(info.batch_size, in_dims, a, b), options), (0, 0)


class _LogSum(torch.autograd.Function):
    """logaddexp_plus: every term counts by its weight."""

    @staticmethod
    def forward(a: Tensor, b: Tensor, options: Any) -> tuple[Tensor]:
        return (_compute(a, b, **options),)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        a, b, ctx.options = inputs
        ctx.save_for_backward(a, b, output[0])

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        a, b, result = ctx.saved_tensors
        with torch.no_grad():
            product = functools.partial(gemm, **ctx.options)
            of_a, of_b = rules.log_sum(a, b, result, g, ctx.needs_input_grad[:2], product)
        if torch.is_grad_enabled():  # `once_differentiable` would drop what depends on a and b, and say nothing
            of_a, of_b = (None if x is None else _Once.apply(x, a, b, g) for x in (of_a, of_b))
        return of_a, of_b, None

    @staticmethod
    def vmap(info: Any, in_dims: Any, a: Tensor, b: Tensor, options: Any) -> tuple[tuple[Tensor], Any]:
        return _LogSum.apply(*broadcasting(info.batch_size, in_dims, a, b), options), (0,)


class _Once(torch.autograd.Function):
    """A gradient as it is, and what it depends on, by which it cannot be differentiated."""

    @staticmethod
    def forward(gradient: Tensor, a: Tensor, b: Tensor, g: Tensor) -> Tensor:
        return gradient.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Keep nothing."""

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        raise ProblemError(
            "harness.torch.gemm: gradients over logaddexp_plus cannot be differentiated again",
            expected="first derivatives, or another semiring",
            got="a derivative of a gradient",
        )

    @staticmethod
    def vmap(info: Any, in_dims: Any, *inputs: Tensor) -> tuple[Tensor, Any]:
        return _Once.apply(*inputs), in_dims[0]


def _function(semiring: Semiring) -> type[torch.autograd.Function] | None:
    """Return the function that knows the gradients over a semiring that is not the ordinary one."""
    if semiring.is_tabled and (semiring.add.name, semiring.multiply.name) == ("logaddexp", "plus"):
        return _LogSum
    if semiring.is_tabled and semiring.add.name in {"min", "max"} and semiring.multiply.name in rules.MULTIPLY:
        return _Selected
    return None


def _no_gradients(semiring: Semiring, **terms: Any) -> ProblemError | None:
    """Return why a product over a semiring that is not the ordinary one has no gradients; None: it has."""
    if _function(semiring) is None:
        return ProblemError(
            f"harness.torch.gemm: there are no gradients over {semiring.name}",
            expected="plus_times, logaddexp_plus, or min or max of " + ", ".join(rules.MULTIPLY),
            got=semiring.name,
            fix="tensor.detach(), or torch.no_grad(), if no gradient is needed",
        )
    if any(x is not None for x in terms.values()):
        return ProblemError(
            f"harness.torch.gemm: gradients over {semiring.name} take no c, alpha or beta",
            expected="a and b alone, or plus_times",
            got=", ".join(name for name, x in terms.items() if x is not None),
            fix="combine afterwards with operations of PyTorch, such as torch.minimum(gemm(a, b), c)",
        )
    return None


def _compute(a: Tensor, b: Tensor, c: Tensor | None = None, **options: Any) -> Tensor:
    """Return the product of tensors without a gradient."""
    which = "".join(name for name, x in (("a", a), ("b", b)) if x.is_conj())
    a, b = (x.conj() if x.is_conj() else x for x in (a, b))
    with tensors.stream_of(a):
        arrays = [tensors.array(x) for x in (a, b, c) if x is not None]
        return tensors.tensor(product_of_arrays(*arrays, conjugate=which, **options))
