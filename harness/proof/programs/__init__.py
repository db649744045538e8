"""Random programs over the public calls, held against the definition: `program` as data, `drawing`, `memory`, `run`.

The public calls are the caller's, and so is the memory that arrays lie in: nothing here knows a kernel.
"""
