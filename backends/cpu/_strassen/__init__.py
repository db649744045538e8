"""Parts of `cpu-strassen`."""
