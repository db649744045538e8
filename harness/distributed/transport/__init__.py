"""How ranks move what they share: communicators of a grid, messages over MPI, and engines between GPUs."""
