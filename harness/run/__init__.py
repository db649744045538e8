"""From an experiment to records: cases, supervised processes, trials, and the facts of the machine.

May be imported by `cli`, `compare` and `autotune`. Imports `timing`, `proof`, `store` and `tuning`. Never imports
`report` or `analysis`: measuring does not depend on what is reported.
"""
