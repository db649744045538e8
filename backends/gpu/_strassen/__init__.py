"""Parts of `gpu-strassen`."""
