"""The choice of a grid: what a product moves on one and must move on any, its time and memory by a model."""
