"""Transport between ranks: communicators of a grid, messages over MPI, and engines between GPUs."""
