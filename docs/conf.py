"""Documentation as a site: `make docs` builds it with Sphinx from the pages as they stand, and from docstrings.

The source folder is the repository itself, so that links between README.md, docs/ and reports are those that readers of
the repository follow. No page loads anything from elsewhere.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from harness.machine import VERSION  # noqa: E402 found through the line above

project, author, version, release = "GEMM harness", "The GEMM harness authors", VERSION, VERSION
copyright = "The GEMM harness authors, BSD-3-Clause"  # noqa: A001 Sphinx's name

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "docs/index"
include_patterns = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/**.md", "experiments/results/*/report.md"]
exclude_patterns = ["build", ".venv"]

# Anchors of headings, as repositories make them for `page.md#heading`.
myst_heading_anchors = 4

default_role = "literal"  # docstrings name parameters and code in single backticks
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_mock_imports = ["torch", "jax", "mpi4py", "cupy"]  # documented without being installed
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True

html_theme = "furo"
html_title = "GEMM harness"
html_copy_source = False
html_static_path: list[str] = []

# The page to explore, where its command and what it needs are installed: `make page` makes the same.
PAGE = "page.html"
HAS_PAGE = all(importlib.util.find_spec(name) for name in ("harness.cli.page", "jinja2"))
HOME = """<!doctype html><html lang="en"><meta charset="utf-8"><title>{0}</title>
<meta http-equiv="refresh" content="0; url=docs/index.html"><a href="docs/index.html">{0}</a></html>
"""


def setup(app):
    if HAS_PAGE:
        app.tags.add("page")
    app.connect("build-finished", finish)


def finish(app, exception) -> None:
    """Put the page to explore, and a way in at the top, beside the pages of Sphinx."""
    if exception or app.builder.name != "html":
        return
    out = Path(app.outdir)
    (out / "index.html").write_text(HOME.format(html_title), encoding="utf-8")
    if HAS_PAGE:
        command = [sys.executable, "-m", "harness", "page", "--output", str(out / PAGE)]
        subprocess.run(command, cwd=ROOT, check=True)  # noqa: S603 our own command
