"""The time that a product of a matrix and a vector takes beyond a launch, and what its blocks share."""

from __future__ import annotations

import math
from typing import NamedTuple

from harness.tuning.device import Device

# Threads of a block of the tuned kernels, and bytes that one load of a thread takes at most.
BLOCK, WIDEST = 256, 16

# Bytes that an H200 reads in a second.
BYTES_A_SECOND = 4.57e12

# Bytes in flight that memory needs: with b of them a product takes (1 + (in_flight / b)^6)^(1/6) as long as at best. A
# block with 32 KiB in flight brings 39 GB/s, one with 64 KiB 54: what is beyond full_flight counts as its square root.
SHARPNESS = 6

# More blocks than a turn of them cost `turn` of the time for each turn, up to three; a block BLOCK_S while others wait.
TURN, MOST_TURNS, QUEUED, BLOCK_S = 2, 3, 3, 0.5e-6  # TURN and QUEUED: blocks of a multiprocessor


class LoadCosts(NamedTuple):
    """What the loads of blocks cost.

    Attributes
    ----------
    in_flight, full_flight : float
        Bytes: of all blocks, and of one.
    turn : float
        Share of the time that a further turn of blocks costs.
    uneven : float
        Share of the time by which blocks that leave some multiprocessors one more than others take longer, if they have
        `full_flight` bytes in flight; proportionally less with fewer.
    """

    in_flight: float
    full_flight: float
    turn: float
    uneven: float


# Rows, and columns of matrices that the last cache holds; then columns of others, fitted to 4000 launches over 28
# matrices.
CACHED, FROM_MEMORY = LoadCosts(4.1e6, 32 << 10, 0.03, 0.0), LoadCosts(2.9e6, 44 << 10, 0.05, 0.1)

# Time of sharing: parts to scratch, a ticket, the last block's loads; and of each part.
SHARE_S, PART_S = 2e-6, 0.2e-9

# Numbers of shares that are thought of.
SHARES = (
    *range(1, 13),
    14,
    16,
    20,
    24,
    28,
    32,
    40,
    48,
    64,
    80,
    96,
    112,
    128,
    144,
    160,
    192,
    224,
    256,
    264,
    320,
    384,
    512,
)


def cost_s(
    size: int, blocks: int, shares: int, flight: int, sums: int, device: Device, costs: LoadCosts = CACHED
) -> float:
    """Return the time that a product takes beyond a launch [s], by the numbers above.

    Parameters
    ----------
    size : int
        Bytes of the matrix.
    blocks, shares : int
        Groups of blocks, and blocks of each, which share sums.
    flight : int
        Bytes that a block has in flight.
    sums : int
        Elements of y of a group.
    device : Device
    costs : LoadCosts
    """
    total, turn, queue = blocks * shares, TURN * device.multiprocessors, QUEUED * device.multiprocessors
    effective = min(flight, costs.full_flight) * math.sqrt(max(1.0, flight / costs.full_flight))
    starved = math.pow(1 + math.pow(costs.in_flight / (total * effective), SHARPNESS), 1 / SHARPNESS)
    turns = 1 + costs.turn * min(ceil_div(total, turn) - 1, MOST_TURNS)
    uneven = unevenness(total, costs.uneven * flight / costs.full_flight, device)
    queued = BLOCK_S * max(0, total - queue) / queue
    shared = SHARE_S + PART_S * shares * sums if shares > 1 else 0.0
    return size / (BYTES_A_SECOND * device.speed["memory"]) * starved * turns * uneven + queued + shared


def shares_up_to(most: int) -> list[int]:
    """Return the numbers of shares that are thought of, up to `most`."""
    return [shares for shares in SHARES if shares <= max(1, most)]


def unevenness(blocks: int, share: float, device: Device) -> float:
    """Return how much longer so many blocks take than ones that all multiprocessors have equally many of."""
    return 1 + share * (ceil_div(blocks, device.multiprocessors) * device.multiprocessors / blocks - 1)


def ceil_div(x: int, y: int) -> int:
    """Return how many pieces of `y` cover `x`."""
    return -(-x // y)
