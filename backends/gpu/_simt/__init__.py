"""Kernels on CUDA cores: what the rungs of the ladder share, tiles of warps, pipelines of copies, pairs, argk."""
