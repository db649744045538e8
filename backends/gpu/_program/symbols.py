"""Sizes as symbols: a program is described once, and holds for all sizes by which it would be described alike.

    arithmetic of integers       is recorded, and gives symbols
    a comparison                 is decided by the values of now, and recorded as a condition
    whatever else asks a value   records the condition that it is this value: an index, a text, a float
    a key of what is kept        is refused

So what is recorded is never wrong for other sizes: either every condition holds, and all results follow by the same
arithmetic, or it is described anew.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

_ARITHMETIC = {
    "add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%", "lshift": "<<", "rshift": ">>", "and": "&",
    "or": "|",
}  # fmt: skip
_COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}


class Recording:
    """What was done with the symbols of some names, as a function of Python.

    Parameters
    ----------
    values : mapping
        The value of each name now.

    Attributes
    ----------
    symbols : dict
        By name.
    """

    def __init__(self, values: Mapping[str, int]) -> None:
        self.symbols = {name: Symbol(self, name, value) for name, value in values.items()}
        self._lines: dict[str, str] = {}  # the name of every expression, and the lines that make it
        self._constants: dict[str, Any] = {}

    def result(self, text: str, value: int) -> Symbol:
        """Return the symbol of an expression."""
        name = f"t{len(self._lines)}"
        line = self._lines.setdefault(text, f"{name} = {text}")
        return Symbol(self, line.partition(" ")[0], value)

    def decide(self, condition: str, *, holds: bool) -> bool:
        """Return `holds`, which a condition does for these values, and shall for others."""
        self._lines.setdefault(condition, f"if {'not ' if holds else ''}({condition}): return None")
        return holds

    def function(self, results: Any) -> Callable[..., Any]:
        """Return the function from the values of all names, in their order, to tuples of symbols and of anything else.

        It returns None for values that do not decide alike.
        """
        body = [*self._lines.values(), f"return {self._text(results)}"]
        code = "\n    ".join([f"def compute({', '.join(self.symbols)}):", *body])
        names = dict(self._constants)
        exec(code, names)  # noqa: S102 - its text is that of operators, numbers and names
        compute: Callable[..., Any] = names["compute"]
        return compute

    def _text(self, x: Any) -> str:
        if isinstance(x, Symbol):
            if x._recording is not self:  # noqa: SLF001
                raise TypeError("a symbol of another recording")
            return x.name
        if type(x) is tuple:
            return f"({''.join(f'{self._text(each)}, ' for each in x)})"
        if isinstance(x, tuple):  # a named one
            return f"{self._constant(type(x))}({', '.join(map(self._text, x))})"
        return repr(x) if type(x) in (int, str, bool) else self._constant(x)

    def _constant(self, x: Any) -> str:
        name = f"c{len(self._constants)}"
        self._constants[name] = x
        return name


class Symbol:
    """An integer that is recorded, named `name` and now `value`."""

    __slots__ = ("_recording", "name", "value")

    def __init__(self, recording: Recording, name: str, value: int) -> None:
        self._recording, self.name, self.value = recording, name, value

    def __neg__(self) -> Symbol:
        return self._recording.result(f"-{self.name}", -self.value)

    def __bool__(self) -> bool:
        return self._recording.decide(self.name, holds=bool(self.value))

    def __index__(self) -> int:
        self._recording.decide(f"{self.name} == {self.value}", holds=True)
        return self.value

    __int__ = __index__

    __hash__ = None  # type: ignore[assignment] # what is kept by sizes would be kept by symbols

    def __str__(self) -> str:
        return str(self.__index__())

    def __format__(self, spec: str) -> str:
        return format(self.__index__(), spec)

    def __float__(self) -> float:
        return float(self.__index__())

    def __truediv__(self, other: Any) -> Any:
        return self.__index__() / other

    def __rtruediv__(self, other: Any) -> Any:
        return other / self.__index__()

    def bit_length(self) -> Symbol:
        """Return the number of its bits."""
        return self._recording.result(f"{self.name}.bit_length()", self.value.bit_length())


def _arithmetic(name: str, sign: str, *, is_reflected: bool) -> Callable[[Symbol, Any], Any]:
    compute = getattr(operator, f"{name}_" if name in ("and", "or") else name)

    def apply(self: Symbol, other: Any) -> Any:
        if isinstance(other, Symbol):
            text, value = other.name, other.value
        elif type(other) is int:
            text, value = str(other) if other >= 0 else f"({other})", other
        else:
            return compute(*((other, int(self)) if is_reflected else (int(self), other)))
        texts, values = (self.name, text), (self.value, value)
        if is_reflected:
            texts, values = texts[::-1], values[::-1]
        return self._recording.result(f" {sign} ".join(texts), compute(*values))

    return apply


def _comparison(name: str, sign: str) -> Callable[[Symbol, Any], bool]:
    compare = getattr(operator, name)

    def apply(self: Symbol, other: Any) -> Any:
        if isinstance(other, Symbol):
            text, value = other.name, other.value
        elif isinstance(other, (int, float)):
            text, value = repr(other), other
        else:
            return NotImplemented
        return self._recording.decide(f"{self.name} {sign} {text}", holds=compare(self.value, value))

    return apply


for _name, _sign in _ARITHMETIC.items():
    setattr(Symbol, f"__{_name}__", _arithmetic(_name, _sign, is_reflected=False))
    setattr(Symbol, f"__r{_name}__", _arithmetic(_name, _sign, is_reflected=True))
for _name, _sign in _COMPARISONS.items():
    setattr(Symbol, f"__{_name}__", _comparison(_name, _sign))
