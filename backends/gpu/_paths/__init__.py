"""Closures: the kernel that closes a block of pivots, and the program of a whole closure."""
