"""The search behind `tune`: candidates, races between plans or backends, and the choices that are stored.

May be imported by `cli`, which gives the public call to race. Imports `run`, `timing`, `tuning`, `proof` and `stats`.
Never imports `api`, `report`, `analysis` or `compare`.
"""
