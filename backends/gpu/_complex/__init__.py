"""Complex matrices as planes of their real and imaginary parts, and back."""
