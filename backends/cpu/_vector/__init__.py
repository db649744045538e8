"""Vector units: their registers, the code emitted for them, and operations over them."""
