// Instructions for fragments of 16-bit elements. Tests that run kernels on a CPU have their own such file.
//
//   KIND  "bf16" or "f16"
//
// Fragments, lane = 4 g + t; a register holds two elements that are neighbours along k:
//
//   A  16 x 16  register v holds row g + 8 (v % 2),     columns 2 t + 8 (v / 2) and the next
//   B  16 x 8                    rows 2 t + 8 v and the next, column g
//   C  16 x 8                    row g + 8 (v / 2),     column 2 t + v % 2
//
// Source: PTX ISA, mma.m16n8k16, ldmatrix.
#pragma once

// c += a b
__device__ __forceinline__ void mma_half(float* c, const unsigned* a, const unsigned* b)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." KIND "." KIND ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                 "{%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Four 8 x 8 matrices, a register each. A lane gives the address of a row of 16 bytes: lanes 0 to 7 the rows of the first
// matrix, 8 to 15 those of the second, and so on. It gets two elements of row g; transposed, of column g.
__device__ __forceinline__ void load_matrices(unsigned* to, const void* row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(shared_address(row))
                 : "memory");
}

__device__ __forceinline__ void load_transposed(unsigned* to, const void* row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(shared_address(row))
                 : "memory");
}

// Two such matrices, whose rows lanes 0 to 15 give.
__device__ __forceinline__ void load_two_matrices(unsigned* to, const void* row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
                 : "=r"(to[0]), "=r"(to[1])
                 : "r"(shared_address(row))
                 : "memory");
}

__device__ __forceinline__ void load_two_transposed(unsigned* to, const void* row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                 : "=r"(to[0]), "=r"(to[1])
                 : "r"(shared_address(row))
                 : "memory");
}
