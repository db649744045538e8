"""The search behind `tune`: candidates, races between plans, and what is kept of them.

May be imported by `cli`. Imports `run`, `timing`, `tuning`, `proof` and `stats`. Never imports `report`, `analysis` or
`compare`.
"""
