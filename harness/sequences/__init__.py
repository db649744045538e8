"""Sequences of semiring products: scans and chains, and the algorithms of hidden Markov models and of CRFs.

Users import them from here. All values of models are logarithms. Imports the nouns, `api` and `tuning`; `torch` where a
gradient is recorded. Never imports `run`, `timing`, `store` or a backend.
"""

from harness.sequences.models import backward, forward, posterior, sample, viterbi
from harness.sequences.scans import chain, scan

__all__ = ["backward", "chain", "forward", "posterior", "sample", "scan", "viterbi"]
