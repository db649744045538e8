// Tiles that stick out of a matrix: the one place that says what a thread does there. Defined before this file:
//
//   EDGE    CONDITIONAL  every load is asked whether it lies inside; outside nothing is read
//           REDIRECTED   rows of A and columns of B past the end become others, once, before the loop over k: whatever
//                        is computed from them is never stored, and the loop asks nothing
//           PADDED       the operands have been copied into whole tiles: nothing to ask
//   K_TAIL  how the last tile along k is made up, which must not change the result:
//           REPEAT       the last term again: harmless where t (+) t = t (min, max, or, and)
//           FILL         zeros in A and in B: where 0 (x) 0 adds nothing (never in A or B alone: 0 times inf is NaN)
//           LIMIT        the loop ends with k: right for every semiring
//
// Stores are masked by all three: C is written once, k times less often than A and B are read.
//
// Source of REDIRECTED: Nath, Tomov, Dongarra, "Accelerating GPU Kernels for Dense Linear Algebra" (2010), section 3,
// "Pointer Redirecting". There all rows and columns past the end become the last one; columns here do not (below).
#pragma once

#define CONDITIONAL 0
#define REDIRECTED 1
#define PADDED 2

#define REPEAT 0
#define FILL 1
#define LIMIT 2

// Before the loop: the row of A that is read in the place of row `i`.
__device__ __forceinline__ int redirect_row(int i, int m) { return EDGE == REDIRECTED ? min(i, m - 1) : i; }

// The first of the WIDTH columns of B, a divisor of the leading dimension, that are read in the place of those from `j`,
// in tiles of SIDE of them: single columns are those of the tile before, vectors are the last LAST_VECTORS of B. If they
// were all the last one, the threads of a warp would copy from one address, one after another; fewer vectors mean fewer
// reads.
constexpr int LAST_VECTORS = 8;
template <int SIDE, int WIDTH> __device__ __forceinline__ int redirect_columns(int j, int n)
{
    if (EDGE != REDIRECTED || j < n) return j;
    const int last = (n - 1) / WIDTH;
    if (WIDTH > 1) return (last - min(j / WIDTH % LAST_VECTORS, last)) * WIDTH;
    return j >= SIDE ? j - SIDE : last;
}

// Whether row or column `index` is read at all.
__device__ __forceinline__ bool is_inside(int index, int extent) { return EDGE != CONDITIONAL || index < extent; }

// Whether a tile of which `left` steps of k exist takes more than plain loads.
template <int DEPTH> __device__ __forceinline__ bool takes_care(int left)
{
    return EDGE == CONDITIONAL || (EDGE == REDIRECTED && left < DEPTH);
}

// The step of k that is read in the place of `p`, and whether it is read at all, with `left` steps from here.
__device__ __forceinline__ int source_step(int p, int left) { return EDGE == PADDED ? p : min(p, left - 1); }
__device__ __forceinline__ bool is_step(int p, int left) { return EDGE == PADDED || K_TAIL != FILL || p < left; }

// How many steps of a tile are written out one after the other by the compiler.
template <int DEPTH> constexpr int UNROLLED = IS_LONG ? 1 : DEPTH;

// How many steps of a tile are computed.
template <int DEPTH> __device__ __forceinline__ int steps_of_tile(int left)
{
    return K_TAIL == LIMIT ? min(DEPTH, left) : DEPTH;
}

// An element, or nothing in particular: what is not read is never stored, or is the zero that K_TAIL asks for.
__device__ __forceinline__ T load_if(const T* place, bool is_read) { return is_read ? *place : (T)0; }
