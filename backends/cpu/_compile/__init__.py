"""Compiled kernels: kept between processes, called by address, with their scratch memory."""
