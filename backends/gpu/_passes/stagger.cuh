// Where along k a tile begins. Tiles of a thin C all read the same few rows of one operand. If they do so at the same time, lines
// of memory wait in turn at the part of L2 that has them.
//
//   STAGGER   at how many steps, evenly far apart, tiles begin, in turn; each goes on to the end of k and then from its beginning
//
// Source: AMD, Tensile, "StaggerU".
#pragma once

#ifndef STAGGER
#define STAGGER 1
#endif

// The first of `steps` steps that tile `number` takes.
__device__ __forceinline__ int first_step(int number, int steps)
{
    return STAGGER == 1 ? 0 : (int)((long long)steps * (number % STAGGER) / STAGGER);
}
