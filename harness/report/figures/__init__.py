"""Figures of stored results, one module for each kind."""
