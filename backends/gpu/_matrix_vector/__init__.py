"""The parts of the matrix-vector rungs: the product as data, its macros, and the files that its kernels include."""
