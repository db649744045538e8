"""Parts of `cpu-simd`: generated micro-kernels, the loops around them, and the ways around both."""
