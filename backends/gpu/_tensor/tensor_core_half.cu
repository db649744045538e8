// C := alpha A B, or C + alpha A B, with A and B in bfloat16 or float16 and sums in float32: TMA and wgmma, for sm_90a.
//
// The instructions of a stage still execute while those of the next are issued. A comes first, B second; each is read as it lies,
// by rows or by columns: half_boxes.cuh.
//
// Loops, roles and edges: wgmma_tile.cuh. Source: PTX ISA, wgmma; CUTLASS 3, warp-specialised persistent kernels.
#include "half_boxes.cuh"
