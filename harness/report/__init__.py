"""Tables, reports, exports and figures of stored results.

May be imported by `cli` and `compare`. Imports `analysis`, `store` and `stats`. Never imports `run` or `timing`: a
report is made of records alone.
"""
