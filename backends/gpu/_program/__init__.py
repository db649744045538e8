"""Launches as data, the CUDA C that all kernels include, and what places operands and runs the launches."""
