"""Sizes of sequences of products; the machine is that of `harness.tuning.cpu`."""

# Bytes of back-pointers that are held at once; more sequences are traced one chunk after the other.
POINTER_BYTES = 1 << 28

# Fewest steps of a sequence that is cut into chunks on a GPU, and the most sequences times states.
CHUNK_STEPS, CHUNK_ROWS = 4096, 512

# On the host: sequences and states from which on each step is a product of all sequences by one matrix.
PRODUCT_COUNT, PRODUCT_STATES = 16, 384
