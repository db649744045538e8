"""Sizes of the kernel of sequences on a GPU."""

# Threads of the block of a sequence; the fewest columns that are computed at once.
THREADS, LEAST_COLUMNS = 512, 32
