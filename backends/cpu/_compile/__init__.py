"""Compile kernels by Numba, and call what is compiled: for pieces, without the GIL, with work memory."""
