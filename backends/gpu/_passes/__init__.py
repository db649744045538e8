"""Launches around a product's own: alpha, beta, copies, extremes of values, sums of shares of k, mirror images."""
