"""What is asked of the kernels and calls on a GPU, and what is seen: every row in one run, on one machine.

    python -m experiments._parts.gpu_goals [--json FILE] [GROUP ...]

Contenders are checked against each other first, then sampled in turns. Kernels are chained in CUDA graphs, so that the
host does not count; calls are timed by the host. Ratios are more than 1 where ours is faster.
"""
