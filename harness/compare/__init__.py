"""Comparisons of two revisions or two runs, and their calibration.

May be imported by `cli` and `make bench`. Imports `report`, `run`, `analysis`, `timing`, `store` and `stats`.
"""
