"""Base classes of GPU backends: from a plan to a program, and what the rungs of the ladder share."""
