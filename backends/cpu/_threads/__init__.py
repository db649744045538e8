"""Threads of the kernels: the pool that their loops run on, claims of work, limits, atomic operations, and forks."""
