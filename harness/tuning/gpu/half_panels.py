"""Row panels of A for a tall, narrow C in 16 bits: when, by how many warps, in how much time."""

from __future__ import annotations

import math

from harness.plan import WARP, Launch
from harness.problem import Problem
from harness.tuning.device import Device, odd_granules
from harness.tuning.gpu.family import Choice, Tile
from harness.tuning.gpu.tile_model import in_memory

# Rows of a panel, steps of k of an instruction and its columns, elements of 16 bytes, bytes of an element and of a sum.
ROWS, STEP, COLUMNS, GRANULE, NARROW, WIDE = 16, 16, 8, 8, 2, 4

# Bytes by which a panel may begin within a granule, and fragments of its last row reach beyond it.
SLACK = GRANULE * NARROW + STEP * NARROW

# Elements of the shortest rows that are brought one by one.
SHORTEST_ROW_ALONE = 128

# Registers of a thread beside its sums, and most blocks of a multiprocessor.
BESIDE_SUMS, MOST_RESIDENT = 48, 8

# C that panels are thought of for: most columns, fewest rows, and how many times as many rows as columns.
NARROWEST, FEWEST_ROWS, TALL = 72, 1024, 4

# Where rows are whole granules, tiles are fast: most columns there, and most elements of B.
NARROWEST_OF_GRANULES, MOST_OF_GRANULES = 56, 11_000

# Warps of a block: the first if C then has so many blocks and they fit. With one stage, since the warps of a
# multiprocessor wait at different times.
WARPS, LEAST_SHARE_OF_BLOCKS, STAGES = (8, 4), 2, 1

# The time of a product, fitted to 581 launches (H100 and H200, 2026-11-26): of a launch [s]; bytes of A and B in a
# second, from memory and from L2, and of C; time of a step of a panel whose rows begin anywhere, on a multiprocessor,
# of a byte of B, and of a panel of each warp. The order of the norm says that they overlap little.
LAUNCH_S, FAR, NEAR, WRITE = 1.68e-6, 4.44e12, 6.84e12, 4.3e12
STEP_S, B_BYTE_S, PANEL_S, NORM = 4.8e-10, 9.9e-11, 4e-7, 0.75

# Of that time, as the models of other tiles say too little for such products.
SHARE = 0.9


class HalfPanels:
    """The family of row panels: at most one launch for a product."""

    def fastest(self, problem: Problem, device: Device, most_s: float) -> tuple[float, Choice] | None:
        """Return the time of the panels of a product [s], and their launch; None: they do not suit it."""
        choice = self._panels(problem, device)
        return choice and (self._seconds(problem, choice, device), choice)

    def _panels(self, problem: Problem, device: Device) -> Choice | None:
        m, n, k = problem.m, problem.n, problem.k
        is_tall = n <= NARROWEST and m >= max(FEWEST_ROWS, TALL * n)
        suits_tiles = k % GRANULE == 0 and (n > NARROWEST_OF_GRANULES or n * k > MOST_OF_GRANULES)
        if not is_tall or suits_tiles or problem.layout[0] == "F" or problem.triangle or not k:
            return None
        columns, of_a, of_b = -(-n // COLUMNS) * COLUMNS, problem.layout[0], problem.layout[1]
        gap = 0 if of_a == "C" else 2 * GRANULE  # beyond it rows are brought one by one
        stage = stage_bytes(ROWS, max(odd_granules(k, GRANULE), k + gap) if gap or takes_rows_alone(k) else k)
        lines = {"C": (False,), "F": (True,), "A": (False, True)}[of_b]
        of_all_b = max(b_bytes(columns, k, by_columns=by_columns) for by_columns in lines)
        fewest_blocks = device.multiprocessors // LEAST_SHARE_OF_BLOCKS
        for warps in WARPS:
            block = warps * ROWS
            shared = of_all_b + warps * (STAGES * stage + ROWS * n * WIDE)
            if shared <= device.shared_memory and (warps == WARPS[-1] or m >= fewest_blocks * block):
                tm, tn = ROWS // 8, columns // 4  # of a lane, as fragments have them
                launch = Launch(bm=block, bn=columns, bk=STEP, wm=ROWS, wn=columns, tm=tm, tn=tn, stages=STAGES)
                registers = columns * ROWS // WARP + BESIDE_SUMS
                resident = device.blocks_at_once(warps * WARP, registers, shared, MOST_RESIDENT)
                return Choice(Tile(launch, 0, 0, resident), shares=1)
        return None

    def _seconds(self, problem: Problem, choice: Choice, device: Device) -> float:
        m, n, k, launch = problem.m, problem.n, problem.k, choice.tile.launch
        read, written = NARROW * k * (m + n), WIDE * m * n
        far = in_memory(read + written)
        memory_s = (read * (far / FAR + (1 - far) / NEAR) + written / WRITE) / device.speed["memory"]
        panels, steps = math.ceil(m / ROWS), math.ceil(k / STEP)
        blocks = min(math.ceil(m / launch.bm), device.multiprocessors * choice.tile.blocks)
        of_rows_s = panels / min(blocks, device.multiprocessors) * steps * STEP_S if k % GRANULE else 0
        steps_s = of_rows_s + B_BYTE_S * NARROW * steps * STEP * launch.bn
        panels_s = math.ceil(panels / (blocks * launch.bm // ROWS)) * PANEL_S
        return float(SHARE * (LAUNCH_S + sum(x**NORM for x in (memory_s, steps_s, panels_s)) ** (1 / NORM)))


def takes_rows_alone(k: int) -> bool:
    """Return whether rows of A without gaps are brought one by one: else many would lie in the same banks."""
    return k >= SHORTEST_ROW_ALONE and k % (2 * GRANULE) == 0


def b_bytes(columns: int, k: int, *, by_columns: bool) -> int:
    """Return the shared memory for B, so many columns and the steps of all instructions, lines as they lie."""
    steps = -(-k // STEP) * STEP
    lines, elements = (columns, steps) if by_columns else (steps, columns)
    return lines * odd_granules(elements, GRANULE) * NARROW


def stage_bytes(rows: int, apart: int) -> int:
    """Return the shared memory for a panel of rows of A, which lie so many elements apart."""
    return -(-(rows * apart * NARROW + SLACK) // 16) * 16
