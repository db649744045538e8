// The products of a batch: blocks along y and z of the grid. Defined before this file:
//
//   BATCH  1: a launch computes a batch, and its kernel has the parameters below; 0, the default: one product
//
// A batch has one or two dimensions. Along each a matrix moves by a distance of its own, 0 if it is broadcast: nothing is
// copied. The grid may have more blocks than products, since each of its extents ends at 65535.
#pragma once

#ifndef BATCH
#define BATCH 0
#endif

#if BATCH
#define BATCH_PARAMETERS , int products, int inner_size
#define STEP_PARAMETERS(x) , long long outer_##x, long long inner_##x
#define ENTER_PRODUCT(index)                              \
    const int product_index = (index);                    \
    if (product_index >= products) return;                \
    const long long outer_index = product_index / inner_size, inner_index = product_index % inner_size;
#define MOVE_TO_PRODUCT(x) x += outer_index * outer_##x + inner_index * inner_##x;
#define SKIP_PRODUCTS(x, elements) x += product_index * (long long)(elements);  // scratch, product after product
#define BLOCK_PRODUCT (blockIdx.z * gridDim.y + blockIdx.y)
#else
#define SKIP_PRODUCTS(x, elements)
#define BATCH_PARAMETERS
#define STEP_PARAMETERS(x)
#define ENTER_PRODUCT(index)
#define MOVE_TO_PRODUCT(x)
#endif
