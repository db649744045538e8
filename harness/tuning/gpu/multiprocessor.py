"""What a multiprocessor of compute capability 9.0 holds at once, and lines that lie in different banks of it.

Source: CUDA C++ Programming Guide, "Compute Capability 9.0".
"""

from __future__ import annotations

# Bytes of shared memory that a block may have, those of a multiprocessor, and those that each block takes besides.
MOST_SHARED, _SHARED, _SHARED_OF_SYSTEM = 227 << 10, 228 << 10, 1 << 10
# Registers of a multiprocessor, and the multiple of which a thread has some.
_REGISTERS, _STEP_OF_REGISTERS = 1 << 16, 8


def blocks_by_shared_memory(shared_bytes: int) -> int:
    """Return how many blocks, each with so many bytes, fit into the shared memory; none if one does not."""
    return _SHARED // (shared_bytes + _SHARED_OF_SYSTEM)


def blocks_at_once(threads: int, registers: int, shared_bytes: int, most: int) -> int:
    """Return how many blocks a multiprocessor holds, of so many threads with so many registers each: 1 to `most`."""
    of_thread = -(-registers // _STEP_OF_REGISTERS) * _STEP_OF_REGISTERS
    return max(1, min(most, blocks_by_shared_memory(shared_bytes), _REGISTERS // (threads * of_thread)))


def odd_granules(elements: int, granule: int) -> int:
    """Return the elements of so many granules, or one more, that they are an odd number: lines in different banks."""
    return (-(-elements // granule) // 2 * 2 + 1) * granule
