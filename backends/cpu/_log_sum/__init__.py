"""Products over logaddexp, by exponentials that lose no term."""
