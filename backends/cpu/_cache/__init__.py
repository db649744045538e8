"""Machine code kept between processes: the key of a kernel, by all that it is made from, and what is kept under it."""
