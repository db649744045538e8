"""Matrix-vector products on a GPU: y = A x and y = x A over a semiring, one idea a rung."""
