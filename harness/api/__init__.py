"""The public calls: `gemm`, `gemm_argk`, vector products and paths, from arrays to the backend that computes them.

May be imported by `harness` itself, the command line, the wings that compute by products, and tests. Imports the nouns
and `tuning`. Never imports `run`, `timing`, `store` or anything that measures.
"""
