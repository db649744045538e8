"""The part of a closure that is no product: a block of vertices, closed by itself."""
