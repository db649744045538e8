"""Parts of experiments: contenders they share, graphs, and tasks of their own."""
