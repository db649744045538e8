"""Compile kernels by Numba, call what is compiled for pieces, on threads, and hold work memory."""
