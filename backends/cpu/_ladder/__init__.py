"""Parts of the rungs of the CPU ladder: compilation, operators, rows, alpha and beta."""
