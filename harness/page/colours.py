"""Colours by role, as in every figure (`harness.report.figures.looks`), for a light page and a dark one."""

from __future__ import annotations

import colorsys
import re
from collections.abc import Iterable

from harness.page.recorded import ShownRow
from harness.report.figures.looks import COLOURS, PALETTE

# Lightness on a dark page: what is black on white is as light as the first there, what is white as dark as the second.
LIGHTEST, DARKEST = 0.86, 0.34
# Levels of memory, from what is nearest to the registers to what is farthest, in one hue.
LEVELS = {"registers": "#08519C", "L1": "#3182BD", "L2": "#6BAED6", "L3": "#BDD7E7", "memory": "#E9B872"}


def variable(name: str) -> str:
    """Return the name of the variable of CSS that holds the colour of a backend or of a level of memory."""
    return "--" + re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def palette(rows: Iterable[ShownRow]) -> dict[str, tuple[str, str]]:
    """Return by variable the colour on a light page and on a dark one, of each backend in `rows` and of each level.

    A backend without a role gets the next colour of the palette, in the order of names.
    """
    backends = sorted({row.backend for row in rows})
    without = [backend for backend in backends if backend not in COLOURS]
    free = {backend: PALETTE[index % len(PALETTE)] for index, backend in enumerate(without)}
    chosen = {backend: COLOURS.get(backend) or free[backend] for backend in backends}
    levels = {f"level {name}": colour for name, colour in LEVELS.items()}
    return {variable(name): (colour, on_dark(colour)) for name, colour in {**chosen, **levels}.items()}


def on_dark(colour: str) -> str:
    """Return the colour of the same hue that stands out on black as `colour` does on white; the order is turned."""
    red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    hue, lightness, saturation = colorsys.rgb_to_hls(red, green, blue)
    turned = LIGHTEST - (LIGHTEST - DARKEST) * lightness
    return "#" + "".join(f"{round(255 * part):02X}" for part in colorsys.hls_to_rgb(hue, turned, saturation))
