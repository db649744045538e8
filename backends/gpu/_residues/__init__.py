"""Products of floats by exact products of small integers: their residues modulo pairwise coprime numbers."""
