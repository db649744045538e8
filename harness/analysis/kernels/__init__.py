"""What kernels of a GPU without one of their ideas, and with other stages, have found. Pure.

Imports `harness.analysis.rates` alone; never a figure or a measurement.
"""
