"""Threads of the kernels: the pool, the atomic operations under it, and forks."""
