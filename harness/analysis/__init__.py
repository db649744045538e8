"""From records to rates, peaks, thresholds and caveats: pure functions of stored cells.

May be imported by `report`, `compare` and `cli`. Imports `store`, `stats` and the nouns. Never imports `run` or
`timing`: nothing here measures.
"""
