"""Functions that `jax.jit`, `jax.vmap` and `jax.grad` take: products, contractions, shortest paths and sequences.

Users import them from `harness.jax`, which needs the package jax. Where a compiled function has such a call, XLA calls
this process back by its foreign function interface (`ffi`), or where a JAX has none by `jax.pure_callback`. Imports the
nouns, `api`, `contraction` and `sequences`. Never imports `run`, `timing`, `store` or a backend.
"""

from importlib.util import find_spec

from harness.errors import BackendUnavailable

if find_spec("jax") is None:
    raise BackendUnavailable("harness.jax: JAX is not installed", expected="the package jax", fix="pip install jax")

from harness.jax.models import forward, scan, viterbi
from harness.jax.products import einsum, gemm, gemm_argk, shortest_paths

__all__ = ["einsum", "forward", "gemm", "gemm_argk", "scan", "shortest_paths", "viterbi"]
