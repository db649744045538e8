"""Parts of `cpu-simd`: batches of products, in one compiled loop where they are small."""
