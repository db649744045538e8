"""Numbers of matrix-vector products on a GPU: threads of a row, loads in flight, and blocks that share.

    rows, columns   launches of gpu-mv-tuned for a matrix by rows and by columns, with their numbers
    costs           the time that a launch takes, by which they choose
    rungs           numbers of the rungs below

A product reads its matrix once, so all rules are about one thing: enough bytes in flight, evenly over the
multiprocessors, and no launch or exchange more than that takes. Measured on one H200 of 2026-11-22 (CuPy 14.2), GB/s of
the matrix, launches chained in a graph, matrices from memory. The read-only ceiling was 4598 GB/s.
"""
