"""Matrix products on GPUs that others have written, behind the same interface."""
