"""Code that is compiled without Numba: LLVM IR written by emitters, and functions of integers translated to it."""
