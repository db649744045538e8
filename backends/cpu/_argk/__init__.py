"""Products that also say which k attains each element."""
