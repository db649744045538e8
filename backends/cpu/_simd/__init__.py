"""Parts of `cpu-simd`: generated micro-kernels, the loops around them, and special cases that need neither."""
