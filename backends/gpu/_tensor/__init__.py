"""Parts of `gpu-tensor-core`: kernels on tensor cores."""
