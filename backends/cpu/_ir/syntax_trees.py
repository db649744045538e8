"""The syntax tree of a function of this process, proven to be its own: a file may have been edited since."""

from __future__ import annotations
import __future__

import ast
import builtins
import functools
import inspect
import textwrap
from collections.abc import Callable
from types import CodeType
from typing import Any

from harness.errors import BackendUnavailable


@functools.cache
def parsed(function: Callable[..., Any]) -> tuple[ast.FunctionDef, dict[str, Any]]:
    """Return the syntax tree of a function, and what names stand for in it that are no variables.

    Raises
    ------
    BackendUnavailable
        If its source is not here, or is no longer what this process runs.
    """
    code = function.__code__
    try:
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    except (OSError, SyntaxError, ValueError):
        tree = None
    if not isinstance(tree, ast.FunctionDef) or not _is_source_of(tree, code):
        raise BackendUnavailable(
            f"kernels for CPUs: {function.__qualname__} cannot be compiled",
            expected=f"its source, as it was when this process began: {code.co_filename}",
            fix="install the package with its sources, and start the program again",
        )
    cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
    return tree, {**vars(builtins), **function.__globals__, **{name: cell.cell_contents for name, cell in cells}}


def _is_source_of(tree: ast.FunctionDef, code: CodeType) -> bool:
    """Return whether a code has the variables, names and constants of a function: an edited file holds others."""
    tree.decorator_list = []
    around = ast.parse(f"def outside({', '.join(code.co_freevars)}):\n    pass")
    around.body[0].body = [tree, *ast.parse(f"return {tree.name}").body]  # type: ignore[attr-defined]
    flags = code.co_flags & __future__.annotations.compiler_flag
    outside = compile(ast.fix_missing_locations(around), "", "exec", flags, dont_inherit=True)
    (outer,) = (x for x in outside.co_consts if isinstance(x, CodeType))
    (made,) = (x for x in outer.co_consts if isinstance(x, CodeType))

    return all(
        getattr(made, told) == getattr(code, told) for told in ("co_varnames", "co_names", "co_freevars", "co_consts")
    )
