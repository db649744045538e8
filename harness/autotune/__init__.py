"""The search behind `tune`: candidates, races between plans or backends, and the choices that are stored.

May be imported by `cli`. Imports `api`, `run`, `timing`, `tuning`, `proof` and `stats`. Never imports `report`,
`analysis` or `compare`.
"""
