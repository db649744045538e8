"""Numbers of kernels: block sizes, tiles and thresholds, each with where it comes from, and the files `tune` writes.

What was measured for them is in ``docs/lab/2026-11-28-tuning-constants.md``, by the names of the constants.

Here too are the orders in which ``backend="auto"`` tries backends, as measured or fixed.
May be imported by every wing above it and by backends: it is the only wing that backends know. Imports the nouns only.
Never imports a backend, or anything that measures.
"""
