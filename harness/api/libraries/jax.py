"""Arrays of JAX."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from harness.api.libraries.base import Library, Place, type_name
from harness.dtypes import parts_dtype
from harness.errors import ProblemError

_WIDE = 8  # bytes of a number, or of a part of a complex one, that JAX has only when asked to


class Jax(Library):
    """JAX, whose arrays nobody may write to. Its `__dlpack__` makes CuPy's stream wait for them, and so does CuPy's."""

    name = "JAX"
    spelling = (
        (r"x\.get\(\) of each", "jax.device_get(x) of each"),
        (r"numpy\.(multiply|atleast_2d)\b", r"jax.numpy.\1"),
    )

    def __init__(self) -> None:
        super().__init__("jax")
        self.name = "JAX"

    def check(self, caller: str, name: str, x: Any) -> None:
        if name.startswith("out"):
            raise ProblemError(
                f"{caller}: out is an array of JAX, which nobody may write to",
                expected="no out: the result is a new array",
                got=type_name(x),
                fix=f"{name} = {caller}(...)",
            )
        if isinstance(x, sys.modules["jax"].core.Tracer):
            raise ProblemError(
                f"{caller}: {name} is traced by a transformation of JAX, and has no values yet",
                expected="an array outside of jax.jit, jax.grad and jax.vmap",
                got=type_name(x),
                fix=f"jax.pure_callback calls {caller} when there are values",
            )

    def view(self, x: Any, place: Place) -> Any:
        return np.asarray(x) if place is None else super().view(x, place)  # the former shares memory, bfloat16 too

    def namespace(self, x: Any) -> Any:
        return sys.modules["jax"]

    def give(self, x: Any, place: Place, namespace: Any) -> Any:
        if parts_dtype(x.dtype).itemsize == _WIDE and not namespace.config.jax_enable_x64:
            raise ProblemError(
                f"the result is {x.dtype.name}, and JAX has no such arrays now",
                expected="JAX with dtypes of 64 bits, or operands and a result of 32, complex numbers of twice that",
                got="jax_enable_x64 is off",
                fix="jax.config.update('jax_enable_x64', True)",
            )
        return namespace.numpy.from_dlpack(x)

    def converted(self, name: str, place: Place) -> str:
        return f"jax.numpy.asarray({name})"

    def moved(self, name: str, place: Place) -> str:
        platform = "jax.devices('cpu')[0]" if place is None else f"jax.devices()[{place}]"
        return f"jax.device_put({name}, {platform})"
