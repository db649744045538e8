"""Sizes of closures on a GPU: the block that one multiprocessor closes, and the panels of products."""

# Pivots of a product, its k, of a graph of more than so many vertices: (vertices, pivots). A copy of their columns takes
# n times as many elements. Below, and within them, products have the pivots of one block.
PANELS = (4096, 1024)
# Vertices of a block, of a graph that has several (docs/lab/2026-11-28-paths.md).
BLOCK = 64
# Elements along the side of a thread's tile in a block that is closed, and rows of a strip of its columns.
PER, WIDTH = 4, 32
# Threads and blocks of the other passes.
PASS_THREADS, PASS_BLOCKS = 256, 4096


def sides(itemsize: int) -> tuple[int, ...]:
    """Return how many vertices a block may have: a thread of the largest keeps its elements in 64 registers."""
    return (32, 64, 128) if itemsize <= 4 else (32, 64)


def panel_of(n: int) -> int:
    """Return the most pivots of a product, of a graph of n vertices."""
    least, pivots = PANELS
    return pivots if n > least else BLOCK
