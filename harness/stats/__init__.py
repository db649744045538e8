"""Pure statistics: intervals, tests, verdicts.

May be imported by every wing. Imports NumPy and the standard library only, none of the harness.
"""
