"""Sequences of tensors whose gradients PyTorch records: models by `gradients`, scans by products that have some."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import torch

from harness.errors import ProblemError
from harness.semiring import Semiring, as_semiring
from harness.sequences import gradients, models, scans
from harness.sequences.arguments import read_model
from harness.torch import gemm, tensors

Tensor = Any  # torch.Tensor, whose types are not checked
_NARROW = torch.float16, torch.bfloat16


def forward(
    initial: Tensor, transition: Tensor, emission: Tensor, lengths: Any = None, **options: Any
) -> tuple[Tensor, Tensor]:
    """Compute `harness.sequences.forward`."""
    total, alphas = _Forward.apply(*_wide(initial, transition, emission), lengths, options)
    return total, alphas


def viterbi(
    initial: Tensor, transition: Tensor, emission: Tensor, lengths: Any = None, **options: Any
) -> tuple[Tensor, Tensor]:
    """Compute `harness.sequences.viterbi`."""
    paths, scores = _Viterbi.apply(*_wide(initial, transition, emission), lengths, options)
    return paths, scores


def scan(
    a: Tensor, semiring: str | Semiring = "plus_times", *, initial: Tensor | None = None, reverse: bool = False,
    backend: str = "auto", threads: int | None = None,
) -> Tensor:  # fmt: skip
    """Compute `harness.sequences.scan`."""
    scans.check_matrices("scan", a)
    product = functools.partial(gemm, semiring=semiring, backend=backend, threads=threads)
    if initial is None:
        return scans.prefixes(torch, a, product, reverse=reverse)
    scans.check_initial(a, initial)
    vector, vectors, steps = initial[..., None, :], [], range(a.shape[-3])
    for t in reversed(steps) if reverse else steps:
        vector = product(vector, a[..., t, :, :].mT if reverse else a[..., t, :, :])
        vectors.append(vector[..., 0, :])
    if not vectors:
        return a[..., 0, :] + initial[..., None, :]
    return torch.stack(vectors[::-1] if reverse else vectors, -2)


def chain(
    a: Tensor, semiring: str | Semiring = "plus_times", *, backend: str = "auto", threads: int | None = None
) -> Tensor:
    """Compute `harness.sequences.chain`."""
    scans.check_matrices("chain", a)
    if a.shape[-3] == 0:
        dtype = torch.empty(0, dtype=a.dtype).numpy().dtype
        return torch.as_tensor(scans.identity("chain", tuple(a.shape), as_semiring(semiring), dtype), device=a.device)
    return scans.whole(torch, a, functools.partial(gemm, semiring=semiring, backend=backend, threads=threads))


class _Model(torch.autograd.Function):
    """A result of a model; gradients are computed once, and not differentiated again."""

    @staticmethod
    def backward(ctx: Any, *g: Tensor) -> Any:
        given = ctx.saved_tensors[:3]
        with tensors.stream_of(given[2]):
            initial, transition, emission = map(tensors.array, given)
            model = read_model(ctx.caller, initial, transition, emission, ctx.lengths, counts=False)
            of_result = tensors.array(g[ctx.which].contiguous()).reshape(-1).astype(model.emission.dtype)
            results = [tensors.array(x) for x in ctx.saved_tensors[3:]]
            with model.arrays.in_force():
                found = ctx.gradients(model, of_result, *results, is_shared=given[1].dim() == 2, **ctx.options)
                made = [tensors.tensor(model.arrays.module.ascontiguousarray(x)) for x in found]
        fitting = [x.sum_to_size(y.shape).to(y.dtype) for x, y in zip(made, given, strict=True)]
        if torch.is_grad_enabled():  # `once_differentiable` would drop what depends on the model, and say nothing
            fitting = [_Once.apply(x, *given) for x in fitting]
        return *fitting, None, None


class _Once(torch.autograd.Function):
    """A gradient as it is, and what it depends on, by which it cannot be differentiated."""

    @staticmethod
    def forward(ctx: Any, gradient: Tensor, *given: Tensor) -> Tensor:
        return gradient.clone()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        raise ProblemError(
            "harness.sequences: gradients of a model cannot be differentiated again",
            expected="first derivatives; or `scan` and `chain`, over semirings other than logaddexp_plus",
            got="a derivative of a gradient",
        )


class _Forward(_Model):
    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> tuple[Tensor, Tensor]:
        total, alphas, *kept = _compute(ctx, _forward_apart, 0, *arguments)
        ctx.mark_non_differentiable(alphas)
        ctx.save_for_backward(*arguments[:3], *kept)
        ctx.gradients = gradients.of_likelihood
        return total, alphas


class _Viterbi(_Model):
    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> tuple[Tensor, Tensor]:
        paths, scores = _compute(ctx, models.viterbi, 1, *arguments)
        ctx.mark_non_differentiable(paths)
        ctx.save_for_backward(*arguments[:3], paths, scores)
        ctx.gradients = gradients.of_score
        return paths, scores


def _forward_apart(
    initial: Any, transition: Any, emission: Any, lengths: Any, *, backend: str = "auto", threads: int | None = None
) -> tuple[Any, ...]:
    model = read_model("forward", initial, transition, emission, lengths, counts=False)
    return models.forward_apart(model, backend, threads)


def _compute(
    ctx: Any, function: Any, which: int, initial: Tensor, transition: Tensor, emission: Tensor, lengths: Any,
    options: Any,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Return all results; `which` of them has gradients."""
    ctx.lengths, ctx.options, ctx.caller, ctx.which = _on_host(lengths), options, ("forward", "viterbi")[which], which
    with tensors.stream_of(emission):
        given = [tensors.array(x) for x in (initial, transition, emission)]
        return tuple(tensors.tensor(_array(x)) for x in function(*given, ctx.lengths, **options))


def _array(x: Any) -> Any:
    return np.asarray(x) if isinstance(x, np.generic) else x


def _on_host(lengths: Any) -> Any:
    return lengths.cpu().numpy() if isinstance(lengths, torch.Tensor) else lengths


def _wide(*arguments: Tensor) -> list[Tensor]:
    return [x.float() if x.dtype in _NARROW else x for x in arguments]
