"""Compile kernels, by Numba or as LLVM IR, and call them: by address, for pieces, without the GIL, with work memory."""
