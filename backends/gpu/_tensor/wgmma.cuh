// wgmma.mma_async as a function: 64 x BN sums of DEPTH terms, from tiles of A and B that lie in shared memory.
//
// The instruction names each register of its sums: BN / 2 of them in each of 128 threads. A descriptor holds the beginning
// of a tile and the distances of its 8-row pieces, all in 16-byte units. Its bit 62 means that rows of 128 bytes are
// swizzled, as the tensor map wrote them. Source: PTX ISA, section on asynchronous warpgroup level matrix instructions.
//
//   BN  8, 16, 24, 32, 40, 48, 64, 80, 96, 112, 128, 160, 192 or 256
//   DEPTH, KIND  16 and "bf16" or "f16", 32 and "e4m3" or "e5m2", or 8 and "tf32"; with sums of integers, modulo 2^32 (INTEGERS is defined), 32 and "s8",
//   or 256 and "b1", whose sums count common ones (OPERATION ".and.popc")
//   FLAGS: layouts of A and B, if not along k
#pragma once

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#define SHAPE "m64n" TEXT(BN) "k" TEXT(DEPTH)

#ifdef INTEGERS
typedef int Sum;
#define IN_REGISTER "+r"
#define TYPES ".s32." KIND "." KIND OPERATION
#define SIGNS ""
#else
typedef float Sum;
#define IN_REGISTER "+f"
#define TYPES ".f32." KIND "." KIND
#define SIGNS ", 1, 1"
#endif

#define SUMS_4(i) IN_REGISTER(sums[i]), IN_REGISTER(sums[i + 1]), IN_REGISTER(sums[i + 2]), IN_REGISTER(sums[i + 3])
#define SUMS_8(i) SUMS_4(i), SUMS_4(i + 4)
#define SUMS_32(i) SUMS_8(i), SUMS_8(i + 8), SUMS_8(i + 16), SUMS_8(i + 24)

// The first so many registers of the instruction.
#define TO_4 "%0, %1, %2, %3"
#define TO_8 TO_4 ", %4, %5, %6, %7"
#define TO_12 TO_8 ", %8, %9, %10, %11"
#define TO_16 TO_8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define TO_20 TO_16 ", %16, %17, %18, %19"
#define TO_24 TO_16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define TO_32 TO_24 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define TO_40 TO_32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define TO_48 TO_32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define TO_56 TO_48 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define TO_64 TO_48 ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define TO_80 TO_64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"
#define TO_96 TO_80 ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define TO_128 TO_64 \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79" \
  ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95" \
  ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111" \
  ", %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"

#if BN == 8
#define SUMS_ALL SUMS_4(0)
#define REGISTERS TO_4
#define OPERANDS "%4, %5, p" SIGNS FLAGS ";"
#define PREDICATE "setp.ne.b32 p, %6, 0;"
#elif BN == 16
#define SUMS_ALL SUMS_8(0)
#define REGISTERS TO_8
#define OPERANDS "%8, %9, p" SIGNS FLAGS ";"
#define PREDICATE "setp.ne.b32 p, %10, 0;"
#elif BN == 24
#define SUMS_ALL SUMS_8(0), SUMS_4(8)
#define REGISTERS TO_12
#define OPERANDS "%12, %13, p" SIGNS FLAGS ";"
#define PREDICATE "setp.ne.b32 p, %14, 0;"
#elif BN == 32
#define SUMS_ALL SUMS_8(0), SUMS_8(8)
#define REGISTERS TO_16
#define OPERANDS "%16, %17, p" SIGNS FLAGS ";"
#define PREDICATE "setp.ne.b32 p, %18, 0;"
#elif BN == 40
#define SUMS_ALL SUMS_8(0), SUMS_8(8), SUMS_4(16)
#define REGISTERS TO_20
#define OPERANDS "%20, %21, p" SIGNS FLAGS ";"
#define PREDICATE "setp.ne.b32 p, %22, 0;"
#elif BN == 48
#define SUMS_ALL SUMS_8(0), SUMS_8(8), SUMS_8(16)
#define REGISTERS TO_24
#define OPERANDS "%24, %25, p" SIGNS FLAGS ";"
#define PREDICATE "setp.ne.b32 p, %26, 0;"
#elif BN == 64
#define SUMS_ALL SUMS_32(0)
#define REGISTERS TO_32
#define OPERANDS "%32, %33, p" SIGNS FLAGS ";"
#define PREDICATE "setp.ne.b32 p, %34, 0;"
#elif BN == 80
#define SUMS_ALL SUMS_32(0), SUMS_8(32)
#define REGISTERS TO_40
#define OPERANDS "%40, %41, p" SIGNS FLAGS ";"
#define PREDICATE "setp.ne.b32 p, %42, 0;"
#elif BN == 96
#define SUMS_ALL SUMS_32(0), SUMS_8(32), SUMS_8(40)
#define REGISTERS TO_48
#define OPERANDS "%48, %49, p" SIGNS FLAGS ";"
#define PREDICATE "setp.ne.b32 p, %50, 0;"
#elif BN == 112
#define SUMS_ALL SUMS_32(0), SUMS_8(32), SUMS_8(40), SUMS_8(48)
#define REGISTERS TO_56
#define OPERANDS "%56, %57, p" SIGNS FLAGS ";"
#define PREDICATE "setp.ne.b32 p, %58, 0;"
#elif BN == 128
#define SUMS_ALL SUMS_32(0), SUMS_32(32)
#define REGISTERS TO_64
#define OPERANDS "%64, %65, p" SIGNS FLAGS ";"
#define PREDICATE "setp.ne.b32 p, %66, 0;"
#elif BN == 160
#define SUMS_ALL SUMS_32(0), SUMS_32(32), SUMS_8(64), SUMS_8(72)
#define REGISTERS TO_80
#define OPERANDS "%80, %81, p" SIGNS FLAGS ";"
#define PREDICATE "setp.ne.b32 p, %82, 0;"
#elif BN == 192
#define SUMS_ALL SUMS_32(0), SUMS_32(32), SUMS_32(64)
#define REGISTERS TO_96
#define OPERANDS "%96, %97, p" SIGNS FLAGS ";"
#define PREDICATE "setp.ne.b32 p, %98, 0;"
#elif BN == 256
#define SUMS_ALL SUMS_32(0), SUMS_32(32), SUMS_32(64), SUMS_32(96)
#define REGISTERS TO_128
#define OPERANDS "%128, %129, p" SIGNS FLAGS ";"
#define PREDICATE "setp.ne.b32 p, %130, 0;"
#endif

// Tile at a shared address: `leading` and `stride` in bytes.
__device__ __forceinline__ unsigned long long describe(unsigned address, unsigned leading, unsigned stride)
{
    return (unsigned long long)((address & 0x3ffff) >> 4) | (unsigned long long)(leading >> 4) << 16 |
           (unsigned long long)(stride >> 4) << 32 | 1ULL << 62;
}

// sums := A B, or sums + A B if `adds`. Starts the instruction, does not wait.
__device__ __forceinline__ void multiply(Sum* sums, unsigned long long a, unsigned long long b, int adds)
{
    asm volatile("{.reg .pred p; " PREDICATE " wgmma.mma_async.sync.aligned." SHAPE TYPES " {" REGISTERS "}, " OPERANDS "}"
                 : SUMS_ALL
                 : "l"(a), "l"(b), "r"(adds));
}

// From here on, registers written by other instructions may be used as sums.
__device__ __forceinline__ void begin_group() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void end_group() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Return when all but the last PENDING groups are complete.
template <int PENDING> __device__ __forceinline__ void wait_groups()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

// Two counts in halves of a word, saturated to 16 bits; the smaller halves of two such words
__device__ __forceinline__ unsigned saturated_halves(int low, int high)
{
    unsigned halves;
    asm("cvt.pack.sat.u16.s32 %0, %1, %2;" : "=r"(halves) : "r"(high), "r"(low));
    return halves;
}
__device__ __forceinline__ unsigned min_in_halves(unsigned x, unsigned y) { return __vminu2(x, y); }
