"""A job of ranks on this machine, which a backend starts and commands."""
