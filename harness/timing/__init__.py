"""Clocks, samplers and the decision when enough has been sampled.

May be imported by `run`, `autotune` and `compare`. Imports `stats` and the nouns. Never imports `run` or `store`: it
knows neither processes nor records.
"""
