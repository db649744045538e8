"""A function as the local product of a rank: nothing is to be prepared."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


class LocalFunction:
    """Calls ``function(a, b, c, alpha, beta, out)``."""

    def __init__(self, function: Callable[..., Any], *, in_place: bool = False) -> None:
        self.accumulates_in_place, self._function = in_place, function

    def ready(self, *arguments: Any) -> Callable[[], Any]:
        """Return what computes once."""
        return functools.partial(self._function, *arguments)
