"""The kernel family that a loaded library has chosen for this processor, as the library itself tells it."""

from __future__ import annotations

import ctypes

from threadpoolctl import threadpool_info

# What MKL calls its kernels, by the words with which it names the processors that they are for.
_OF_MKL = {"AVX-512": "AVX-512", "AVX2": "AVX2", "AVX": "AVX", "SSE": "SSE"}


class _MklVersion(ctypes.Structure):
    """The record that ``mkl_get_version`` fills."""

    _fields_ = [(name, ctypes.c_int) for name in ("major", "minor", "update")] + [
        (name, ctypes.c_char_p) for name in ("status", "build", "processor", "platform")
    ]


def of_openblas(folder: str) -> str:
    """Return the family of the loaded OpenBLAS whose path contains `folder`, else of the only one; or nothing.

    OpenBLAS names the processor that its kernels were written for: ``"Haswell"`` (AVX2), ``"SkylakeX"`` (AVX-512).
    """
    pools = [pool for pool in threadpool_info() if pool["internal_api"] == "openblas"]
    own = [pool for pool in pools if folder in pool["filepath"]] or (pools if len(pools) == 1 else [])
    return str(own[0].get("architecture") or "") if own else ""


def of_mkl(library: ctypes.CDLL) -> str:
    """Return the vector extension that MKL's kernels use, ``"AVX-512"``; or nothing, as on processors of others.

    There it calls them "Intel(R) Architecture processors", whatever it uses.
    Source: oneMKL developer reference, mkl_get_version: the member Processor.
    """
    version = _MklVersion()
    library.mkl_get_version(ctypes.byref(version))
    processor = (version.processor or b"").decode(errors="replace")
    return next((family for words, family in _OF_MKL.items() if words in processor), "")


def of_blis(module: str) -> str:
    """Return the sub-configuration that BLIS took, from the extension module at the path `module`: ``"haswell"``.

    ``"generic"`` are its reference kernels in C, for processors that this version of BLIS does not know.
    Source: BLIS, frame/base/bli_arch.c.
    """
    library = ctypes.CDLL(module)
    library.bli_arch_string.restype = ctypes.c_char_p
    name: bytes = library.bli_arch_string(library.bli_arch_query_id())
    return name.decode(errors="replace")
