"""Ways to multiply narrow operands into wide sums: one table, best first; and their operations, as LLVM IR.

All of them see operands as *words* of 32 bits that hold 1, 2 or 4 neighbours along k. A word of A, in all lanes, and a
vector of words of B extend the sums by the dot products of their parts. So one generated micro-kernel, over words,
serves every method; they differ in how elements become parts, and in the instruction.

    amx_bf16     2 x bfloat16        tdpbf16ps, 16 x 16 x 16 words at once (`amx_kernel`); subnormal numbers as below
    amx_fp16     2 x float16         tdpfp16ps, likewise
    amx_int8     4 x int8            tdpbssd, likewise
    avx512_bf16  2 x bfloat16        vdpbf16ps: treats subnormal operands and results as zero
    vnni         4 x int8            vpdpbusd, of unsigned A: A + 128, less 128 times the column sums of B
    vnni_int8    4 x int8            vpdpbssd, of signed A
    convert      1 x float32         fused multiply-add, of bfloat16, float16 and float8
                 2 x int16           vpmaddwd, of int8; vpdpwssd where there is one

Integer sums are exact modulo 2^32 in each of them: two products of int8 fit 17 bits, and vpdpbusd, unlike its
saturating form, wraps. Methods of tiles count as missing unless the system has permitted tiles to this process.

Source: Intel, "Architecture Instruction Set Extensions" (2018 to 2020), chapters on AMX, AVX512_VNNI and AVX512_BF16;
shift of signed operands: Khudia et al., "FBGEMM" (2021), section 3.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from llvmlite import ir

from backends.cpu._simd.kernel import KernelKey
from backends.cpu._vector import code as v
from backends.cpu._vector.code import Builder, Value
from backends.cpu._vector.narrow import FORMATS, widen_float
from backends.cpu._vector.operators import Operations
from backends.cpu._vector.unit import VectorUnit, features, usable_units
from backends.cpu._vector.vectors import VectorCode
from harness.machine import tiles_refused

WORD_BITS = 32
SIGN_OF_BYTES, ONE_IN_BYTES = 0x80808080, 0x01010101  # shifts four signed bytes by 128; four bytes of 1


class Method(NamedTuple):
    """One way for one dtype of operands.

    Attributes
    ----------
    name : str
        A legal value of the plan's option ``method``.
    operands : str
        Name of the dtype of A and B.
    unit : str
        The vector unit whose instruction it is; empty: any.
    needs : tuple of str
        LLVM's names of the processor features it needs besides.
    group : int
        Elements in a word.
    widen, dot : str
        Keys of the tables below: how an element becomes a part of a word, and how words extend a sum.
    is_shifted : bool
        Whether A is taken as unsigned, so that sums begin with a correction.
    loses_subnormals : bool
        Whether it takes a subnormal operand for zero.
    """

    name: str
    operands: str
    unit: str
    needs: tuple[str, ...]
    group: int
    widen: str
    dot: str
    is_shifted: bool = False
    loses_subnormals: bool = False

    @property
    def is_tiled(self) -> bool:
        """Whether `dot` is an instruction over tiles, for the loops of `_mixed.amx_loops`."""
        return TILES in self.needs


TILES = "amx-tile"
METHODS = (
    Method("amx_bf16", "bfloat16", "avx512", (TILES, "amx-bf16"), 2, "as it is", "tdpbf16ps", loses_subnormals=True),
    Method("amx_fp16", "float16", "avx512", (TILES, "amx-fp16"), 2, "as it is", "tdpfp16ps", loses_subnormals=True),
    Method("amx_int8", "int8", "avx512", (TILES, "amx-int8"), 4, "as it is", "tdpbssd"),
    Method("avx512_bf16", "bfloat16", "avx512", ("avx512bf16",), 2, "as it is", "dot_bf16", loses_subnormals=True),
    Method("vnni", "int8", "avx512", ("avx512vnni",), 4, "as it is", "dot_u8i8", is_shifted=True),
    Method("vnni_int8", "int8", "avx2", ("avxvnniint8",), 4, "as it is", "dot_i8"),
    Method("vnni", "int8", "avx2", ("avxvnni",), 4, "as it is", "dot_u8i8", is_shifted=True),
    Method("convert", "bfloat16", "", (), 1, "bfloat16 to float32", "times"),
    *(Method("convert", name, "", (), 1, f"{name} to float32", "times") for name in FORMATS),
    Method("convert", "int8", "", (), 2, "int8 to int16", "dot_i16"),
    Method("convert", "uint8", "", (), 2, "uint8 to int16", "dot_i16"),
)


@functools.cache
def usable_methods(operands: str) -> tuple[tuple[Method, VectorUnit], ...]:
    """Return the methods for operands of that dtype that this processor has, each with its unit, the best first."""
    return tuple(
        (method, unit)
        for method in METHODS
        for unit in usable_units()
        if method.operands == operands
        and method.unit in ("", unit.name)
        and features().issuperset(method.needs)
        and refusal(method) is None
    )


def refusal(method: Method) -> str | None:
    """Return why the system does not let this process use a method that the processor has, or None."""
    return tiles_refused() if method.is_tiled and features().issuperset(method.needs) else None


class MixedKey(NamedTuple):
    """All that generated code for a mixed product depends on, by names and numbers alone.

    Attributes
    ----------
    method : Method
    dtype : str
        Of the sums.
    unit : str
    mr, nv : int
        Rows and vectors of the whole register tile.
    """

    method: Method
    dtype: str
    unit: str
    mr: int
    nv: int

    @property
    def kernel(self) -> KernelKey:
        """The micro-kernel over words."""
        return KernelKey(Dot("plus", self.method.dot, 0), self.dtype, self.unit, self.mr, self.nv)

    @property
    def lanes(self) -> int:
        """Sums in a vector."""
        return self.kernel.lanes

    @property
    def itemsize(self) -> int:
        """Bytes of a sum."""
        return self.kernel.itemsize


class Dot(Operations):
    """plus_times over words: ``multiply`` may also be the dot product of their parts."""

    __slots__ = ()

    def extend(self, code: VectorCode, builder: Builder, total: Value, x: Value, y: Value) -> Value:
        """Return `total` plus the products of the parts of the words `x` and `y`."""
        dot = _DOTS.get(self.multiply)
        return dot(code, builder, total, x, y) if dot else super().extend(code, builder, total, x, y)


def widen(method: Method, builder: Builder, elements: Value) -> Value:
    """Return a vector of elements, as integers, with each the bits of a part of a word."""
    return _WIDEN[method.widen](builder, elements)


# ---------------------------------------------------------------------------------------------- words extend a sum


def _dot_bf16(code: VectorCode, builder: Builder, total: Value, x: Value, y: Value) -> Value:
    words = ir.VectorType(v.INDEX, code.lanes)
    name = f"llvm.x86.avx512bf16.dpbf16ps.{8 * code.size_bytes}"
    function = v.declare(builder, name, code.vector, [code.vector, words, words])
    return builder.call(function, [total, builder.bitcast(x, words), builder.bitcast(y, words)])


def _dot_bytes(instruction: str, code: VectorCode, builder: Builder, total: Value, x: Value, y: Value) -> Value:
    name = f"llvm.x86.{instruction}.{8 * code.size_bytes}"
    return builder.call(v.declare(builder, name, code.vector, [code.vector] * 3), [total, x, y])


def _dot_i16(code: VectorCode, builder: Builder, total: Value, x: Value, y: Value) -> Value:
    """Return the dot products by instructions of every processor, in the form that LLVM recognises as one of them."""
    count = 2 * code.lanes
    halves, wide = ir.VectorType(ir.IntType(16), count), ir.VectorType(v.INDEX, count)
    products = builder.mul(*(builder.sext(builder.bitcast(words, halves), wide) for words in (x, y)))
    mask = ir.VectorType(v.INDEX, code.lanes)
    even, odd = (
        builder.shuffle_vector(products, products, ir.Constant(mask, list(range(first, count, 2)))) for first in (0, 1)
    )
    return builder.add(builder.add(even, odd), total)


_DOTS: dict[str, Callable[[VectorCode, Builder, Value, Value, Value], Value]] = {
    "dot_bf16": _dot_bf16,
    "dot_u8i8": functools.partial(_dot_bytes, "avx512.vpdpbusd"),
    "dot_i8": functools.partial(_dot_bytes, "avx2.vpdpbssd"),
    "dot_i16": _dot_i16,
}

# -------------------------------------------------------------------------------------- elements become parts of words


def _integers(bits: int, like: Value) -> Any:
    return ir.VectorType(ir.IntType(bits), like.type.count)


def _to_float32(name: str, builder: Builder, x: Value) -> Value:
    return builder.bitcast(widen_float(builder, x, name), _integers(WORD_BITS, x))


def _bfloat16_to_float32(builder: Builder, x: Value) -> Value:
    words = _integers(WORD_BITS, x)
    return builder.shl(builder.zext(x, words), ir.Constant(words, [16] * words.count))


_WIDEN: dict[str, Callable[[Builder, Value], Value]] = {
    "as it is": lambda builder, x: x,
    "bfloat16 to float32": _bfloat16_to_float32,
    **{f"{name} to float32": functools.partial(_to_float32, name) for name in FORMATS},
    "int8 to int16": lambda builder, x: builder.sext(x, _integers(16, x)),
    "uint8 to int16": lambda builder, x: builder.zext(x, _integers(16, x)),
}
