"""All steps of sequences on a GPU: by one launch, with a block of threads for each sequence."""
