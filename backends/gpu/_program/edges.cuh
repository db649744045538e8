// Partial tiles at edges of a matrix: the only file that treats them. Defined before this file:
//
//   EDGE    CONDITIONAL  checks at every load whether it lies inside; outside nothing is read
//           REDIRECTED   before the loop over k, rows of A and columns of B past the end are replaced by others:
//                        results computed from them are never stored, and the loop has no checks
//           with MIRRORED defined these others are mirror images: the last, the last but one, and so on
//           PADDED       the operands have been copied into whole tiles: no checks
//   K_TAIL  how the last tile along k is filled, which must not change the result:
//           REPEAT       the last term again: harmless where t (+) t = t (min, max, or, and)
//           FILL         zeros in A and in B: if 0 (x) 0 adds nothing (never in A or B alone: 0 times inf is NaN)
//           LIMIT        the loop ends with k: right for every semiring
//
// All three mask stores: C is written once, k times less often than A and B are read.
//
// Source of REDIRECTED: Nath, Tomov, Dongarra, "Accelerating GPU Kernels for Dense Linear Algebra" (2010), section 3,
// "Pointer Redirecting" and "Mirroring". There all redirected rows and columns are the last one; columns here are not (below).
#pragma once

#define CONDITIONAL 0
#define REDIRECTED 1
#define PADDED 2

#define REPEAT 0
#define FILL 1
#define LIMIT 2

// Before the loop: the row of A that is read instead of row `i`.
#ifdef MIRRORED
__device__ __forceinline__ int redirect_row(int i, int m) { return i < m ? i : max(2 * m - 1 - i, 0); }
#else
__device__ __forceinline__ int redirect_row(int i, int m) { return EDGE == REDIRECTED ? min(i, m - 1) : i; }
#endif

// The first of the WIDTH columns of B that are read instead of those from `j`, in tiles of SIDE columns. WIDTH divides the
// leading dimension. Single columns are those of the tile before, or of an only tile the first ones again; vectors are the
// last LAST_VECTORS of B. If all were the last one, threads of a warp would copy from one address, one after another. Fewer
// vectors mean fewer reads.
constexpr int LAST_VECTORS = 8;
template <int SIDE, int WIDTH> __device__ __forceinline__ int redirect_columns(int j, int n)
{
    if (EDGE != REDIRECTED || j < n) return j;
    const int last = (n - 1) / WIDTH;
#ifdef MIRRORED
    return max(2 * last + 1 - j / WIDTH, 0) * WIDTH;
#endif
    if (WIDTH > 1) return (last - min(j / WIDTH % LAST_VECTORS, last)) * WIDTH;
    return j >= SIDE ? j - SIDE : j % n;
}

// Whether row or column `index` is read at all.
__device__ __forceinline__ bool is_inside(int index, int extent) { return EDGE != CONDITIONAL || index < extent; }

// Whether a tile of which `left` steps of k exist takes more than plain loads.
template <int DEPTH> __device__ __forceinline__ bool takes_care(int left)
{
    return EDGE == CONDITIONAL || (EDGE == REDIRECTED && left < DEPTH);
}

// The step of k that is read instead of `p`, and whether it is read at all, with `left` steps from here.
__device__ __forceinline__ int source_step(int p, int left) { return EDGE == PADDED ? p : min(p, left - 1); }
__device__ __forceinline__ bool is_step(int p, int left) { return EDGE == PADDED || K_TAIL != FILL || p < left; }

// How many steps of a tile the compiler unrolls.
template <int DEPTH> constexpr int UNROLLED = IS_LONG ? 1 : DEPTH;

// How many steps of a tile are computed.
template <int DEPTH> __device__ __forceinline__ int steps_of_tile(int left)
{
    return K_TAIL == LIMIT ? min(DEPTH, left) : DEPTH;
}

// An element; if it is not read, any value (which is never stored) or the zero that K_TAIL requires.
__device__ __forceinline__ T load_if(const T* place, bool is_read) { return is_read ? *place : (T)0; }
