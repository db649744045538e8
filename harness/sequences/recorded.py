"""Calls whose gradients PyTorch records: they go to `harness.sequences.autograd`, which imports torch."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable
from typing import Any, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])


def by_autograd(name: str) -> Callable[[_Function], _Function]:
    """Let calls with tensors that need a gradient be computed by the function `name` of `autograd`."""

    def decorate(function: _Function) -> _Function:
        @functools.wraps(function)
        def call(*arguments: Any, **options: Any) -> Any:
            if needs_gradient(*arguments, *options.values()):
                autograd = importlib.import_module("harness.sequences.autograd")
                return getattr(autograd, name)(*arguments, **options)
            return function(*arguments, **options)

        return call  # type: ignore[return-value]

    return decorate


def needs_gradient(*arguments: Any) -> bool:
    """Return whether a tensor among the arguments needs a gradient; PyTorch is not imported for that."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.is_grad_enabled():
        return False
    return any(isinstance(x, torch.Tensor) and x.requires_grad for x in arguments)
