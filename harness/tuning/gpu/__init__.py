"""Numbers of GPU kernels: tiles, stages, shares of k and where a kernel pays, a module for each family of kernels."""
