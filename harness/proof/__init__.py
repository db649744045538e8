"""The definition of a product, and the tests that a result or a whole backend has to pass.

May be imported by `run`, `autotune`, `cli`, tests and the tasks of experiments. Imports the nouns only. Never imports
`tuning`: the oracle knows no kernel.
"""
