// Orders of the operands in memory: by rows, unless A_BY_COLUMNS or B_BY_COLUMNS is 1. Then columns are contiguous.
#pragma once

#ifndef A_BY_COLUMNS
#define A_BY_COLUMNS 0
#endif
#ifndef B_BY_COLUMNS
#define B_BY_COLUMNS 0
#endif
