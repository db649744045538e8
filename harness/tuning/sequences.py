"""Sizes of sequences of products; the machine is that of `harness.tuning.cpu`."""

# Bytes of back-pointers that are held at once; more sequences are traced one chunk after the other.
POINTER_BYTES = 1 << 28
