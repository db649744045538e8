"""What is asked of products on the host, and what is seen: every row in one run, on one machine.

    python -m experiments._parts.cpu_goals [--json FILE] [GROUP ...]

Results are compared first. Calls of one thread or two are sampled in turns in this process; those of all processors are
alone in a process each, since threads of a library spin after its calls and slow the next one down. Ratios are more
than 1 where ours is faster.
"""
