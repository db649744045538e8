// D = (alpha A B) + (beta C) for a small k: C passes through once, at the rate of memory. Rank-1 updates are k = 1.
//
//   D[i, j] = (+)_p A[i, p] (x) B[p, j]  (+)  beta (x) C[i, j]
//
//   grid    tiles of BM x BN, ACROSS threads side by side, each with RUNS runs of RUN elements of a row, ACROSS runs apart
//   thread  its columns of B in registers, DEPTH steps of k; it goes down its rows, DOWN of them in flight
//
// "wide" is the operand along a row of D, B, and "tall" the one along a column, A. SWAPPED: D is a column that is stored as a
// row, so that A is wide and B tall. A remains on the left of (x).
//
//   DEPTH       steps of k           DOWN, TURNS   rows of a thread that are in flight; how often
//   RUN, RUNS    elements of a run, one load; runs of a row of a thread        ACROSS   threads side by side
//   WIDE_RUNS   1: a run of the wide operand may be read at once
//   HAS_ALPHA, HAS_C, HAS_BETA, TRIANGLE
//
// Source: BLAS ger, syr, axpy; measured, docs/matrix-vector.md.
#define EDGE 2 /* PADDED: edges are treated here */
#include "semiring.cuh"
#include "grid.cuh"
#include "streaming.cuh"

constexpr int THREADS = 256, LINES = THREADS / ACROSS, BM = LINES * DOWN * TURNS, BN = ACROSS * RUN * RUNS;

// `tall`: element (i, p) at i * row + p * step of it; `wide`: (p, j) at p * step + j * column of it.
extern "C" __global__ void __launch_bounds__(THREADS)
    update(const T* __restrict__ tall, int tall_row, int tall_step, const T* __restrict__ wide, int wide_step,
           int wide_column, const T* c, int ldc, T* d, int ldd, int m, int n, T alpha, T beta)
{
    const Tile tile = tile_at<BM, BN, 1>(blockIdx.x, m, n);
    const int x = threadIdx.x % ACROSS, y = threadIdx.x / ACROSS;
    T of_wide[DEPTH][RUNS * RUN];
#pragma unroll
    for (int p = 0; p < DEPTH; ++p)
#pragma unroll
        for (int w = 0; w < RUNS; ++w) {
            const int j = tile.column + (w * ACROSS + x) * RUN;
            const T* from = wide + (long long)p * wide_step + (long long)j * wide_column;
            Run<T, RUN> run = {};
            if (WIDE_RUNS && j + RUN <= n) run = *(const Run<T, RUN>*)from;
            else
#pragma unroll
                for (int v = 0; v < RUN; ++v)
                    if (j + v < n) run.x[v] = from[(long long)v * wide_column];
#pragma unroll
            for (int v = 0; v < RUN; ++v)
                of_wide[p][w * RUN + v] = SWAPPED && HAS_ALPHA ? MULTIPLY(alpha, run.x[v]) : run.x[v];
        }
    // loop over the rows of a thread
#pragma unroll 1
    for (int turn = 0; turn < TURNS; ++turn) {
        const int top = tile.row + turn * DOWN * LINES + y;
        if (top >= m) break;
        Run<T, RUN> runs[DOWN][RUNS];
        T of_tall[DOWN][DEPTH];
#pragma unroll
        for (int u = 0; u < DOWN; ++u) {
            const int i = top + u * LINES, end = i < m ? end_of_row(i, n) : 0;
#pragma unroll
            for (int w = 0; w < RUNS; ++w) {
                const int j = tile.column + (w * ACROSS + x) * RUN;
                const T* from = c + (long long)i * ldc + j;
                runs[u][w] = {};
                if (!HAS_C) continue;
                if (j + RUN <= end) runs[u][w] = read_once<RUN>(from);
                else
#pragma unroll
                    for (int v = 0; v < RUN; ++v)
                        if (j + v < end) runs[u][w].x[v] = from[v];
            }
#pragma unroll
            for (int p = 0; p < DEPTH; ++p) {
                const T element = tall[(long long)min(i, m - 1) * tall_row + (long long)p * tall_step];
                of_tall[u][p] = !SWAPPED && HAS_ALPHA ? MULTIPLY(alpha, element) : element;
            }
        }
#pragma unroll
        for (int u = 0; u < DOWN; ++u) {
            const int i = top + u * LINES, end = i < m ? end_of_row(i, n) : 0;
#pragma unroll
            for (int w = 0; w < RUNS; ++w) {
                const int j = tile.column + (w * ACROSS + x) * RUN;
                Run<T, RUN> run;
#pragma unroll
                for (int v = 0; v < RUN; ++v) {
                    T sum = ZERO;
#pragma unroll
                    for (int p = 0; p < DEPTH; ++p) {
                        const T one = of_tall[u][p], other = of_wide[p][w * RUN + v];
                        COMBINE(sum, SWAPPED ? other : one, SWAPPED ? one : other);
                    }
#if HAS_C
                    const T term = HAS_BETA ? MULTIPLY(beta, runs[u][w].x[v]) : runs[u][w].x[v];
                    sum = ADD(ADD(ZERO, term), sum);
#endif
                    run.x[v] = sum;
                }
                T* to = d + (long long)i * ldd + j;
                if (j + RUN <= end) write_once<RUN>(to, run);
                else
#pragma unroll
                    for (int v = 0; v < RUN; ++v)
                        if (j + v < end) to[v] = run.x[v];
            }
        }
    }
}
