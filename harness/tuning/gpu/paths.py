"""Sizes of closures on a GPU: the block that one multiprocessor closes, and the panels of products."""

# Pivots of a product of whole panels, its k, from so many vertices on. Below, and within a panel, products have the
# pivots of one block. A copy of their columns takes n times as many elements. With predecessors short products cost
# more.
PANELS = {False: {1536: 256, 3072: 512}, True: {3072: 512, 6144: 1024}}
# Vertices of a block, of a graph that has several (docs/lab/2026-11-28-paths.md).
BLOCK = 64
# Elements along the side of a thread's tile in a block that is closed, and columns of a strip of its rows: as few as
# occupy every multiprocessor once, for each strip closes the block again.
PER, WIDTHS = 4, (8, 16, 32, 64)
# Vertices from which on half of a symmetric matrix is computed.
HALVES_FROM = 2048
# Threads and blocks of the other passes, and the side of a tile that is turned.
PASS_THREADS, PASS_BLOCKS, TILE = 256, 4096, 32


def sides(itemsize: int) -> tuple[int, ...]:
    """Return how many vertices a block may have: a thread of the largest keeps its elements in 64 registers."""
    return (32, 64, 128) if itemsize <= 4 else (32, 64)


def width_of(n: int, side: int, multiprocessors: int) -> int:
    """Return the columns of a strip, beside a block of `side` pivots, whose threads are whole warps."""
    whole = [width for width in WIDTHS if side // PER * (side + width) // PER % 32 == 0]
    return next((width for width in whole if -(-n // width) <= multiprocessors), whole[-1])


def panel_of(n: int, *, keeps: bool) -> int:
    """Return the most pivots of a product, of a graph of n vertices, with predecessors or without."""
    return max((pivots for least, pivots in PANELS[keeps].items() if n >= least), default=BLOCK)


# Pivots of a panel of bits, a multiple of the 1024 of a stage of tiles: squares of a panel take log2 of that many steps
# of their own, and each panel reads and writes all of D. Vertices from which on bools are closed so.
BITS_PANELS = {0: 1024, 1025: 2048, 65536: 4096}
BITS_FROM = 129


def bits_panel_of(n: int) -> int:
    """Return the pivots of a panel of bits, of a graph of n vertices."""
    return max(pivots for least, pivots in BITS_PANELS.items() if n >= least)
