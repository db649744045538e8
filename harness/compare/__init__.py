"""Comparisons of two revisions or two runs, their calibration, and the history of all runs.

May be imported by `cli` and `make bench`. Imports `report`, `run`, `analysis`, `timing`, `store` and `stats`.
"""
