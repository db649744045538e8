"""Calls that `torch.compile` leaves as they are: it would follow them, and take arrays of NumPy for tensors.

Imported where a function that is compiled calls this project: `torch.compiler.disable` imports the whole compiler.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


@torch.compiler.disable  # type: ignore[untyped-decorator]
def call(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Return ``function(*arguments, **options)``, between two graphs of `torch.compile`."""
    return function(*arguments, **options)
