"""Pure statistics: intervals, tests, verdicts, change points.

May be imported by every wing. Imports NumPy and the standard library only, none of the harness.
"""
