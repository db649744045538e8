// Where a tile of C lies, and of which layers of A and B a term of it is the product.
#pragma once

// First row and column of a tile of C, and the layer of C, if that is a stack of matrices.
struct Place {
    int row, column, layer;
};

// Layers of A and B, if those are stacks.
struct Layers {
    int of_a, of_b;
};
