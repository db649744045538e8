"""The CUDA device: compiler, kernels on disk, streams, clock and power."""
