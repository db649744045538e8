"""Describe a source tree as one JSON object. Run by path, with that tree first on the import path.

It is the only code of this tree that runs with the modules of another one. So it uses as few of them as it can: the
commands of the worker with their parameters, and the file of each backend.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def describe(worker: str) -> dict[str, Any]:
    """Return ``commands`` of the module `worker` with their parameters, ``backends``, and ``mixed`` modules."""
    from harness import registry

    backends = {}
    for entry in registry.discover():
        if entry.backend is not None:
            file = inspect.getsourcefile(type(entry.backend)) or ""
            backends[entry.name] = {"file": file, "missing": entry.unavailable()}
    methods = inspect.getmembers(importlib.import_module(worker).Worker, inspect.isfunction)
    commands = {name: parameters(method) for name, method in methods if not name.startswith("_")}
    return {"commands": commands, "backends": backends, "mixed": mixed()}


def mixed() -> list[str]:
    """Return the modules that do not lie in the folder of their package.

    A module that the tree lacks is taken from an editable installation, which is another state of the code.
    """
    packages = {name: module.__path__ for name, module in sys.modules.items() if hasattr(module, "__path__")}
    misplaced = []
    for name, module in list(sys.modules.items()):
        parent, file = name.rpartition(".")[0], getattr(module, "__file__", None)
        if name.partition(".")[0] in ("harness", "backends") and parent in packages and file:
            folders = [Path(folder).resolve() for folder in packages[parent]]
            if not any(folder in Path(file).resolve().parents for folder in folders):
                misplaced.append(name)
    return misplaced


def parameters(method: Callable[..., Any]) -> dict[str, list[str]]:
    """Return the names of ``all`` parameters but self, and of those that are ``required``."""
    known = list(inspect.signature(method).parameters.values())[1:]
    required = [parameter.name for parameter in known if parameter.default is parameter.empty]
    return {"all": [parameter.name for parameter in known], "required": required}


if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):  # a backend may print while it is imported
        description = describe(sys.argv[1])
    sys.stdout.write(json.dumps(description))
