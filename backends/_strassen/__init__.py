"""Parts of Strassen's algorithm that are the same wherever it computes: its sums as data, its recursion, its error."""
