"""Records on disk: append-only journals of JSON lines, their schema, and which records are current.

May be imported by every wing that reads or writes results. Imports `stats` and the nouns. Never imports `run` or
`report`.
"""
