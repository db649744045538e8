"""Numbers of the rungs of matrix-vector products below gpu-mv-tuned."""

from __future__ import annotations

# Threads of a block; T by Z of gpu-mv-grid, and rows of a thread (lecture: 32 rows by 8 threads).
THREADS = 256
TALL, DEEP, ROWS_OF_THREAD = 32, 8, 1
ROWS_OF_SCATTER = 64
