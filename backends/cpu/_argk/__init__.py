"""Products that also return the k that attains each element."""
