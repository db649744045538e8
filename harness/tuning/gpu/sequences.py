"""Sizes of the kernel of sequences on a GPU."""

# Threads of the block of a sequence; the fewest columns that are computed at once.
THREADS, LEAST_COLUMNS = 512, 32
# Sequences from which on several blocks share a multiprocessor, and the threads of a block then.
CROWD, THREADS_OF_CROWD = 528, 128

# Most threads of a block that keeps its matrix, and the bytes of it in the registers of each thread.
HELD_THREADS, HELD_BYTES = 256, 704

# Sequences and states from which on a step is a product of all sequences, and a pass; else one launch has all steps.
PRODUCT_COUNT, PRODUCT_STATES = 16, 384
# Elements of all shares of such a product, to fill a GPU, and the least k of a share.
SHARED_ELEMENTS, LEAST_DEPTH = 1 << 21, 64
# States whose vectors fit into the shared memory of a block, of any GPU here and of any dtype.
MOST_STATES = 1024
