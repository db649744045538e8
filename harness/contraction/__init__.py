"""Contractions in index notation over any semiring, lowered to the products of `gemm`.

Users import `einsum` from `harness`. Imports the nouns and `api`. Never imports `run`, `timing`, `store` or a backend.
Subscripts are read into labels (`subscripts`), operands are prepared one by one (`operands`), more of them become pairs
(`path`), and pairs become products of views (`lowering`). `evaluation` puts these together.
"""
