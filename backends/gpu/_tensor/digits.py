"""Operands of integers as bytes along k: turned and aligned where they lie otherwise, wider elements cut in digits."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from backends.gpu._cuda.kernel_files import as_defines
from backends.gpu._passes.padding import is_aligned
from backends.gpu._program.program import Kernel, Place, Product, Program, ceil_div
from backends.gpu._program.tensor_map import TensorMap
from backends.gpu._tensor.residue_product import BYTES, width_of
from harness.plan import Plan
from harness.tuning.gpu import tensor_cores as tuning

_BYTE = np.dtype(np.uint8)
_NONE, _ALONG, _ACROSS = range(3)  # what digits.cu does with an operand


class Stack(NamedTuple):
    """An operand as wgmma takes bytes: layers of digits to base 256, lines along k.

    Attributes
    ----------
    place : Place
    lines, width : int
        Lines of a layer, and the bytes from one to the next.
    """

    place: Place
    lines: int
    width: int


def add_digits(program: Program, product: Product, digits: int) -> tuple[Stack, Stack]:
    """Add the pass that makes digits of A and B, unless both are bytes that lie as the kernel takes them."""
    k, width = product.k, width_of(product.k)
    sides = (("a", product.a, product.m, product.a.by_columns), ("b", product.b, product.n, not product.b.by_columns))
    stacks, arguments, macros, blocks = [], [], {"DIGITS": digits}, 1
    for name, x, lines, is_across in sides:
        is_used = digits == 1 and not is_across and is_aligned(x, 1)
        form = _NONE if is_used else _ACROSS if is_across else _ALONG
        place = x.place if is_used else program.reserve(f"digits_{name}", digits * lines * width, _BYTE)
        stacks.append(Stack(place, lines, x.ld if is_used else width))
        arguments += [x.place, x.ld, lines, place]
        macros |= {f"FORM_{name.upper()}": form, f"ALIGNED_{name.upper()}": is_aligned(x, digits)}
        blocks = max(blocks, _blocks(form, lines, k, digits, is_shifted=digits == 1 and not is_aligned(x, 1)))
    if macros["FORM_A"] or macros["FORM_B"]:
        kernel = Kernel("digits", as_defines(macros), (tuning.PASS_THREADS,), function="digits")
        program.launch(kernel, (blocks, 2), *arguments, k, width)
    return stacks[0], stacks[1]


def byte_maps(stacks: tuple[Stack, Stack], k: int, plan: Plan, layers: int = 1) -> tuple[TensorMap, TensorMap]:
    """Return what byte_tiles.cuh brings of both: boxes of as many steps of k as a row of a tile has bytes."""
    boxes = tuning.TILE_ROWS, plan.launch.bn // int(plan.options["cluster"])
    steps = tuning.STAGE_STEPS["int8"]
    a, b = (
        TensorMap(x.place, x.lines, k, x.width, box, steps, BYTES, layers, x.lines * x.width)
        for x, box in zip(stacks, boxes, strict=True)
    )
    return a, b


class Part(NamedTuple):
    """The tiles' part of a product of bytes: what is left, its macros, and arguments for the lines at the edges."""

    product: Product
    macros: dict[str, int]
    beside: tuple[Any, ...]


def without_edges(product: Product, stacks: tuple[Stack, Stack], plan: Plan) -> Part:
    """Return the part of `product` that whole tiles compute, if the option ``edges`` leaves lines to idle warps."""
    lines = int(plan.options.get("edges", 0))
    m, n = tuning.without_edges(product.m, product.n, plan.launch, lines)
    product, is_whole = product._replace(m=m, n=n, extremes=stacks[0].place), (m, n) == (product.m, product.n)
    if is_whole:
        return Part(product, {}, ())
    return Part(product, {"EDGE_LINES": lines}, tuple(y for x in stacks for y in (x.place, x.width, x.lines)))


def _blocks(form: int, lines: int, k: int, digits: int, *, is_shifted: bool) -> int:
    """Return the blocks that the pass has work for."""
    tile = tuning.DIGIT_LINES * max(4 // digits, 1)
    of_form = {
        _NONE: 0,
        _ALONG: ceil_div(lines, tuning.SHIFTED_LINES if is_shifted else tuning.DIGIT_ROWS),
        _ACROSS: ceil_div(lines, tile) * ceil_div(k, tuning.DIGIT_STEPS),
    }
    return min(of_form[form], tuning.PASS_BLOCKS)
