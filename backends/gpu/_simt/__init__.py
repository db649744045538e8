"""Parts of the rungs of the GPU ladder: kernels on CUDA cores."""
