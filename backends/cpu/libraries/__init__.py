"""Matrix products that others have written, behind the same interface."""
