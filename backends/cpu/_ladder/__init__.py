"""Parts of the rungs of the CPU ladder: operators, rows, alpha and beta."""
