"""What experiments on GPUs alone have found: shares of copies in a call, errors of recursive products. Pure.

Imports `harness.analysis.rates`, `ranks` for stages, and the statistics; never a figure or a measurement.
"""
