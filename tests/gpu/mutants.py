"""Bugs to be planted into the text of kernels, and the check of each that must fail: see `test_mutants`."""

# By check and the files that are edited: what is replaced by what.
MUTANTS: dict[tuple[str, str], tuple[tuple[str, str], ...]] = {
    ("gpu-row", "row.cu"): (
        ("min(i, m - 1)", "i"),
        ("        __syncthreads();\n    }", "    }"),
    ),
    ("gpu-tiled", "tiled.cu edges.cuh"): (
        ("min(i, m - 1)", "i"),
        ("K_TAIL != FILL || p < left", "true"),
        ("        __syncthreads();\n    }", "    }"),
        ("if (i < m && j < n)", "if (i <= m && j < n)"),
    ),
    ("gpu-register-tiled", "register_tiled.cu"): (("tile.column + x + s * COLUMNS", "tile.column + x * TN + s"),),
    ("gpu-warp-tiled", "warp_tiled.cu"): (
        ("tile_a[(p + v) * STRIDE_A + i]", "tile_a[(p + v) * BM + i]"),
        ("step_a + r * LANES_M", "step_a + r * LANES_N"),
        ("warp / WARPS_N * WM", "warp % WARPS_N * WM"),
        ("left >= BK", "true"),
    ),
    ("gpu-pipelined", "pipelined.cu edges.cuh async_tiles.cuh"): (
        ("wait_copies<STAGES - 2>", "wait_copies<STAGES - 1>"),
        ("        __syncthreads();\n#if WRAPS", "#if WRAPS"),
        ("STAGES ? 0 : reading + 1", "STAGES ? 1 : reading + 1"),
        ("k - (tiles_k - 1) * BK", "BK"),
        ("(long long)steps * ld; }", "(long long)steps * ld + 1; }"),
        ("LAST_VECTORS, last)) * WIDTH", "LAST_VECTORS, last)) * WIDTH + 1"),
        ("last - min(j / WIDTH", "last + min(j / WIDTH"),
    ),
    ("gpu-tuned", "tuned.cu store_tile.cuh"): (
        ("    __syncthreads();\n    if (goes_on)", "    if (goes_on)"),
        ("STAGES ? 0 : writing + 1", "STAGES ? 1 : writing + 1"),
        ("if (i >= m) continue;", ""),
    ),
    ("gpu-tuned by neighbours", "store_tile.cuh"): (
        ("if (i < m && j < end_of_row(i, n))", "if (j < end_of_row(i, n))"),
        ("if (i < m && j < end_of_row(i, n))", "if (i < m)"),
        ("e / PIECE * GROUP_SIZE", "e / PIECE"),
        ("s + e % GROUP_SIZE][e / GROUP_SIZE]", "s + e % GROUP_SIZE][e % 32]"),
        ("        meet_lanes();\n#pragma unroll\n        for (int u", "#pragma unroll\n        for (int u"),
        ("        meet_lanes();\n#pragma unroll\n        for (int s", "#pragma unroll\n        for (int s"),
        ("row -= lane / LANES_N * GROUP_SIZE, column", "column"),
    ),
    ("gpu-tuned with uneven copies", "async_tiles.cuh"): (
        ("(BK + STEP_K - 1) / STEP_K", "BK / STEP_K"),
        ("BK % STEP_K == 0 || p + u * STEP_K < BK", "true"),
    ),
    ("gpu-tuned that begins anywhere", "async_tiles.cuh tuned.cu"): (
        ("STAGGER > 1 && --left == 0 ?", "STAGGER > 1 && --left == 1 ?"),
        ("left = tiles - skipped", "left = tiles"),
        ("copier.stagger(index, tiles_k - 1)", "copier.stagger(index, tiles_k)"),
    ),
    ("gpu-tuned that shares k", "fold.cu tuned.cu store_tile.cuh"): (
        ("begin = part / rest * depth", "begin = part / rest * depth + 1"),
        ("k = min(k - begin, depth)", "k = k - begin"),
        ("index = whole + part % rest", "index = part % rest"),
        ("if (number >= whole) {", "if (number > whole) {"),
        ("(number - whole) * (BM * BN)", "(number - whole) % rest * (BM * BN)"),
        ("(row + row_of(r)) * LD", "(row + row_of(r)) * (LD - 1)"),
        ("tile_at<BM, BN, GROUP>(whole + index, m, n)", "tile_at<BM, BN, GROUP>(index, m, n)"),
        ("part += (long long)rest * TILE", "part += TILE"),
        ("share < end", "share < end - 1"),
        ("return element < TILE && i < m && j < end_of_row(i, n)", "return true"),
        ("const int element = first + u * ACROSS", "const int element = first + u"),
    ),
    ("sums of many shares", "fold.cu"): (
        ("begin = line * run", "begin = 0"),
        ("if (other * run < shares) ", ""),
        ("runs[other][mine]", "runs[other - 1][mine]"),
        ("if (line > 0) return;", ""),
        ("__syncthreads();\n    if (line", "if (line"),
    ),
    ("min_plus that settles", "tuned.cu intrinsics.cuh"): (
        ("__syncthreads_and(are_settled(sums))", "true"),
        ("all = all && FLIPPED", "all = all || FLIPPED"),
        ("x + y == x + y ? x + y : __int_as_float(0x7fffffff)", "-fabsf(x + y)"),
    ),
    ("max_plus that settles", "tuned.cu"): (
        ("    flip_signs(sums);\n#else", "#else"),
        ("sum_or_nan(FLIPPED(f.a[1][e.r])", "sum_or_nan((f.a[1][e.r])"),
    ),
    ("pairs of int16", "pack_pairs.cu pairs.py"): (
        ("min(2 * q + 1, k - 1)", "2 * q"),
        ("((x) >> 16)", "(x)"),
        ("min(j, n - 1)", "min(j, 0)"),
    ),
    ("halves by min_plus", "pairs.py"): (
        ("min_halves(min_halves(c, s), t)", "min_halves(c, s)"),
        ("half_of(min_halves(x, (x) >> 16))", "half_of(x)"),
        ("0x7c007c00u", "0x7bff7bffu"),
    ),
    ("halves by max_min", "intrinsics.cuh"): (
        ("IN_BOTH_HALVES(min_halves_or_nan, min_or_nan(x, y))", "#define min_halves_or_nan min_halves"),
    ),
    ("halves by max_times", "intrinsics.cuh"): (
        ("IN_BOTH_HALVES(max_halves, fmaxf(x, y))", "IN_BOTH_HALVES(max_halves, max_or_nan(x, y))"),
    ),
    ("gpu-tiled with threads that meet", "tiled.cu"): (
        ("        const int left = k - p0;", "        const int left = k - p0; if (threadIdx.x == 3) break;"),
    ),
    ("operands by columns", "rows.cu"): (
        ("? tile[j][i]", "? tile[i][j]"),  # a tile as it was read
        ("__syncthreads();\n#pragma unroll", "#pragma unroll"),  # read before all have written
        ("if (row + i < copy.rows && column", "if (column"),  # rows past the end
        ("blockIdx.y ? Copy{b", "true ? Copy{b"),  # the other matrix
        ("* copy.ld_to + column", "* copy.columns + column"),  # rows of the copy without their distance
    ),
    ("mirror", "mirror.cu"): (
        ("tile[me][i] : tile", "tile[i][me] : tile"),
        ("&& row + me < n) whole", ") whole"),
        ("(row + i) * down", "row * down"),
    ),
    ("row panels", "row_panels.cu"): (
        ("for (int p = begin; p < end;", "for (int p = begin; p + 1 < end;"),
        ("number += gridDim.x", "number += gridDim.x + 1"),
        ("for (int s = 1; s < SLICES; ++s)", "for (int s = 2; s < SLICES; ++s)"),
        ("begin = slice * each", "begin = 0"),
        ("min(k, begin + each)", "begin + each"),
        ("if (column >= across) column -= across, ++row;", "if (column >= across) column -= across;"),
        ("(size_t)a / sizeof(T) % GRANULE", "0"),
    ),
    ("warp panels", "warp_panels.cu"): (
        ("number < panels; number += next", "number < panels; number += next + 1"),
        ("if (p < steps) combine_unit<0>", "if (p + 1 < steps) combine_unit<0>"),
        ("first < left + (IS_RAGGED ? GRANULE - 1 : 0)", "first + GRANULE < left"),
        ("last != granule_of(last)", "false"),
        ("asked_from = 0, asked += next", "asked_from = 0, asked += 1"),
        ("(size_t)i * lda) % GRANULE", "(size_t)i) % GRANULE"),
        ("stage ? stage - 1 : STAGES - 1", "stage"),
        ("columns + (p + u + 1) * BN", "columns + (p + u) * BN"),
        ("wait_copies<STAGES - 2>();\n            meet_lanes();", "meet_lanes();"),
        ("meet_lanes();  // all have copied", "if (lane == 31) return;\n            meet_lanes();  // all have copied"),
    ),
    ("triangles", "triangle.cuh grid.cuh"): (
        ("min(i + 1, n)", "min(i, n)"),  # the diagonal is left out
        ("min(i + 1, n)", "min(i + 2, n)"),  # a column above the diagonal
        # rows of a group that end sooner
        ("tiles_of_row<BM_, BN_>(row, m) - columns", "tiles_of_row<BM_, BN_>(first, m)"),
        ("if (BM_ >= BN_) return BM_ / BN_ *", "if (BM_ >= BN_) return BM_ / BN_ + "),  # tiles of the group before
    ),
    ("argk", "argk.cu"): (
        ("if (better != totals[r][s]) places", "if (better == sums.x[r][s]) places"),
        ("s % 2 ? 0x5410 : 0x3254", "0x3254"),
        ("p < end && found < 0", "p < end"),
        ("const int first = k - (k - 1) / BK * BK;", "const int first = BK;"),
        ("i >= m || j >= n", "i >= m"),
        ("if (tile < 0) continue;", ""),
    ),
    ("log-sum-exp", "log_sum_exp.cu exponentials.cuh"): (
        ("top == -INFINITE ? (T)0 : top", "top"),
        ("leasts[first] - shift >= narrow", "true"),
        ("whole - 2 * exponent", "whole"),
        ("x == 0 ? -INFINITE : x", "x"),
        ("total = log_and(sum, exponent, u, v)", "total = (log_and(sum, exponent, 0, 0) + u) + v"),
        ("rest + lost : rest", "rest : rest"),
        ("lost == lost ?", "true ?"),
        ("r + lost_from(below, x, -top)", "r"),
        ("if (p >= 0 && v < INFINITE)", "if (p >= 0)"),
        ("half; half /= 2", "half > 1; half /= 2"),
        ("exp(row[p] + column[(long long)p * ldb] - top)", "(T)1"),
    ),
    ("layout by transpose", "layout.cu"): (
        ("tile[fast][slow]", "tile[slow][fast]"),
        ("    __syncthreads();\n    y[", "    y["),
    ),
    ("layout by change", "layout.cu"): (("(long long)i * n + j];", "(long long)j * n + i];"),),
    ("short rows", "mv_short_rows.cu"): (
        ("(size_t)start / sizeof(T) % WIDTH", "0"),
        ("if (e < before + mine * k)", "if (false)"),
        ("tile + g, granules + g", "tile + g, granules"),
        ("(int)min((long long)rows, count - first)", "rows"),
        ("lane == 0 && line < mine", "lane == 0"),
        ("int p = lane; p < k", "int p = lane; p < k - 1"),
        ("offset = GROUP / 2; offset;", "offset = GROUP / 2; offset > 1;"),
        ("finish(first + line", "finish(line"),
    ),
    ("shifted rows", "mv_rows.cu"): (
        ("(-((size_t)row / sizeof(T)) % WIDTH)", "(0)"),
        ("has_head = SHIFTED && share == 0 &&", "has_head = SHIFTED &&"),
        ("has_head = SHIFTED && share == 0 &&", "has_head = false &&"),
        ("min(head + (unsigned)share * depth", "min((unsigned)share * depth"),
        ("is_whole || p + u * GROUP * WIDTH + v < whole)", "true)"),
        ("(SHIFTED ? WIDTH - 1 : 0)", "0"),
        ("end == NOWHERE || p + v < end", "true"),
    ),
    ("A x", "mv_rows.cu shares.cuh"): (
        ("p + u * GROUP * WIDTH < whole) {", "true) {"),
        ("if (is_whole || p + u * GROUP * WIDTH < whole)", ""),
        ("const bool is_first = lane == 0 && i < count;", "const bool is_first = lane == 0;"),
        ("min(i, count - 1) * step_i", "i * step_i"),
        ("for (int w = 1; w < WARPS_OF_ROW", "for (int w = 2; w < WARPS_OF_ROW"),
        ("(long long)q * count + i)", "(long long)q * count)"),
        ("ticket, shares) == shares - 1", "ticket, shares) == 0"),
    ),
    ("x A", "mv_columns.cu"): (
        ("- (int)((size_t)start / sizeof(T) % WIDTH)", ""),
        ("if (p + u * LINES < whole) {", "if (true) {"),
        ("offset = TEAM / 2; offset;", "offset = TEAM / 2; offset > 1;"),
        ("mine = min(width, count - first)", "mine = width"),
        ("(long long)part * count + column)", "part * width + column)"),
        ("part = member; part < count", "part = member; part < count - 1"),
    ),
    ("symv", "symv.cu"): (
        ("IS_INNER || column != i + r", "true"),  # the diagonal counted twice
        ("j <= i && i < n", "j < i && i < n"),  # the diagonal left out
        ("row + HEIGHT <= n && j + SIDE <= n);", "true);"),  # a row past the end
        ("/ HEIGHT + 1 - height;", "/ HEIGHT - height;"),  # sums by columns of the last rows lost
        ("/ STRIP + 1 - strip;", "/ STRIP - strip;"),  # the last strip lost
        ("j < end; j += SIDE", "j + SIDE < end; j += SIDE"),  # the last tile of a strip lost
        ("of_strip = ADD(of_strip, rows[0])", "of_strip = rows[0]"),  # a tile for the whole strip
        ("half >= 1;", "half > 1;"),  # a row sum lost
        ("is_upper ? rows[r] : rows[r + half]", "is_upper ? rows[r + half] : rows[r]"),  # rows of lanes exchanged
        ("for (int w = 1; w < WARPS; ++w)", "for (int w = 2; w < WARPS; ++w)"),  # a warp lost
        ("(row / HEIGHT) * width + j", "(j / HEIGHT) * width + j"),  # the mirrored sums of other rows
        ("__syncthreads();\n        for (int q", "for (int q"),  # sums read before all are there
        ("of_x + warp * ROWS", "of_x"),  # x of another warp's rows
        ("HEIGHT + j - left", "HEIGHT"),  # x of other columns
        ("            __syncthreads();\n        }", "        }"),  # x read before all is there
        ("(v / WIDTH * 32 + lane) * WIDTH", "(v / WIDTH * 31 + lane) * WIDTH"),  # columns of a lane
    ),
    ("rank updates", "rank_update.cu"): (
        ("min(i, m - 1)", "i"),  # a row past the end is read
        ("i < m ? end_of_row(i, n) : 0", "end_of_row(i, n)"),  # a row past the end
        ("if (j + RUN <= end) write_once", "if (j < end) write_once"),  # a run past the end
        ("turn < TURNS", "turn < TURNS - 1"),  # a turn lost
        # a step lost
        (
            "p < DEPTH; ++p) {\n                        const T one",
            "p < DEPTH - 1; ++p) {\n                        const T one",
        ),
        ("from[(long long)v * wide_column]", "from[0]"),  # the first element alone
        ("turn * DOWN * LINES + y", "turn * DOWN * HIGH"),  # rows of another thread
    ),
    ("float64", "mma_tile.cuh"): (
        ("v % 2 * 8", "v % 2 * 4"),  # rows of a fragment swapped
        ("OfB::at(warp_column + g, p + t)", "OfB::at(warp_column + g, p + g % 4)"),  # columns of a fragment of B
        ("__syncthreads();\n            }", "}"),  # no barrier before the next tile
        # one stage too early
        ("wait_copies<STAGES - 2>();\n                __sync", "wait_copies<STAGES - 1>();\n                __sync"),
        ("redirect_row(place + line", "(place + line"),  # rows past the end are read
        ("EDGE == PADDED ? SIZE :", "true ? SIZE :"),  # the end of k is taken for a whole tile
        ("if (row >= rows) continue;", "if (row > rows) continue;"),  # last row is stored by all
    ),
    ("float64 by columns", "mma_tile.cuh"): (
        ("next + offsets[ALONG_K ? pass : 0]", "next"),
        ("steps * ld", "steps"),
        ("place + (long long)begin * ld", "place + begin"),
        ("ALONG_K ? i * STRIDE + p : p * STRIDE + i", "p * STRIDE + i"),
    ),
    ("float64 of 160 columns", "mma_tile.cuh"): (
        ("COUNT % LINES == 0 || line + pass * LINES < COUNT", "true"),  # rows beyond the tile are copied
    ),
    ("float64 of 48 columns", "mma_tile.cuh"): (
        # the last rows of B are not
        ("PASSES = ceiling(COUNT, LINES)", "PASSES = ALONG_K ? ceiling(COUNT, LINES) : COUNT / LINES"),
    ),
    ("float64 of 80 columns", "mma_tile.cuh"): (
        ("COPIES % ACROSS == 0 || threadIdx.x + part * ACROSS < COPIES", "true"),  # columns beyond the tile are copied
        ("part < PARTS; ++part) {", "part < 1; ++part) {"),  # the last part of a row of B is not
    ),
    ("float64 that begins anywhere", "mma_tile.cuh"): (
        ("STAGGER > 1 && coming + 1 == tiles ?", "STAGGER > 1 && coming == tiles ?"),  # no step after the last
        ("copier_a.skip(steps), copier_b", "copier_a.skip(BK), copier_b"),  # back to another place
        ("copier_b.skip(coming * BK);", "copier_b.skip(0);"),  # B stays behind
    ),
    ("float64 that is padded", "pad_rows.cu"): (
        ("min(first + r * lines, copy.rows - 1)", "(first + r * lines)"),  # rows past the end
        # rows of the copy as far apart as those of x
        ("(first + r * lines) * copy.all_columns + j", "(first + r * lines) * copy.ld + j"),
        ("j + v < copy.columns ? from[v]", "true ? from[v]"),  # columns past the end
        ("if (blockIdx.y == 0) copy_rows", "if (true) copy_rows"),  # B as A
    ),
    ("float64 that shares k", "mma_tile.cuh"): (
        ("blockIdx.x / tiles_c * depth", "max((int)blockIdx.x / tiles_c - 1, 0) * depth"),  # the share before
        ("k = min(k - begin, depth);", "k = depth;"),  # the end of k is that of a share
        ("c + (long long)index * (BM * BN), BN", "c, BN"),  # tiles in each other's place
    ),
    ("float64 that is brought", "tensor_core_f64_tma.cu"): (
        ("(piece ^ row % 8)", "piece"),  # pieces where they were
        ("g / 2 + g % 2 * 4", "g"),  # rows of A in order
        ("from_a[half]", "from_a[0]"),  # the second half of k
        ("wait(ring.full + 8 * ring.stage, ring.parity);", ""),  # nobody waits for the bytes
        # a stage is left before it is read
        (
            "        double of_b[MI][8], of_a[NI][4];",
            "        release(ring, ring.stage, lane); double of_b[MI][8], of_a[NI][4];",
        ),
        ("j * 8 + t + 4 * v :", "j * 8 + 2 * t + v :"),  # rows of C
        ("if (i_of_c >= m)", "if (i_of_c > m)"),  # a row too many
        ("if (left > 1) to[1]", "to[1]"),  # a column too many
    ),
    ("float64 that is brought and shares k", "tma_tile.cuh"): (
        ("(first + at) * BK", "at * BK"),  # stages of the first share
        ("of_share.count, alpha", "depth, alpha"),  # stages past the end of k
        ("c + (long long)index * (FETCHERS * BM * BN)", "c"),  # tiles in each other's place
    ),
    ("float64 that is brought, CFC", "tensor_core_f64_tma.cu"): (
        ("SECOND_ALONG_K ? v + 2 : 2 * v + 1", "2 * v + 1"),  # steps of B
        ("from_b[v] + half * half_of_b", "from_b[v]"),  # the second half of B
        ("warp_column + 2 * pair_of_b", "warp_column + 2 * g"),  # columns of C
    ),
    ("float64 that is brought, FCC", "tensor_core_f64_tma.cu"): (
        # rows of A for one another
        ("of_a[j][2 * half + v] = x.x, of_a[j + 1]", "of_a[j + 1][2 * half + v] = x.x, of_a[j]"),
        ("4 * t + 2 * v + j % 2", "2 * t + v + j % 2 * 8"),  # rows of C
    ),
    ("float64 that is brought, FFC", "tensor_core_f64_tma.cu"): (
        ("place(2 * t + v, g));", "place(t + 4 * v, g));"),  # steps of A
    ),
    ("complex128 that is brought", "tensor_core_c128.cu boxes.cuh"): (
        ("lines[1] = B_SIGN * x.im", "lines[1] = x.im"),  # the conjugate of B
        ("lines[2] = -A_SIGN * B_SIGN * x.im", "lines[2] = -B_SIGN * x.im"),  # of A
        ("lines[2] = -A_SIGN * B_SIGN * x.im", "lines[2] = A_SIGN * B_SIGN * x.im"),
        ("lines[3] = A_SIGN * x.re", "lines[3] = x.re"),
        ("double* lines = of_b[i] + 4 * v", "double* lines = of_b[i]"),  # one step of B for two
        ("of_a[j] + 2 * v", "of_a[j]"),
        ("along = place(g, 2 * t + v)", "along = place(g, t + 4 * v)"),  # steps of one operand
        ("across = place(2 * t + v, g)", "across = place(t + 4 * v, g)"),
        ("(piece ^ row % 8)", "piece"),  # pieces where they were
        ("wait(ring.full + 8 * ring.stage, ring.parity);", ""),  # nobody waits for the bytes
        ("j * 8 + 2 * t + v, j_of_c", "j * 8 + t + 4 * v, j_of_c"),  # rows of C
        ("{sums[i][j][v], sums[i][j][v + 2]}", "{sums[i][j][v + 2], sums[i][j][v]}"),  # parts for one another
        ("if (i_of_c >= m)", "if (i_of_c > m)"),  # a row too many
        ("if (j_of_c + i * 8 >= n)", "if (j_of_c + i * 8 > n)"),  # a column too many
        ("MAP_UNITS * p, place.row", "p, place.row"),  # steps that are parts
        ("MAP_UNITS * (place.column + box * BOX_COLUMNS)", "place.column + box * BOX_COLUMNS"),
    ),
    ("parts of float32", "tf32.cuh split.cu"): (
        ("& KEPT);\n    low", ");\n    low"),
        ("(__float_as_uint(x) + HALF)", "__float_as_uint(x)"),
        ("tile[along][down + offset]", "tile[down + offset][along]"),
        ("(long long)columns * width", "(long long)rows * width"),
    ),
    ("float32 by parts", "tensor_core_tf32.cu"): (
        ("barrier, p, m + place.row", "barrier, p, place.row"),  # high parts for low ones
        ("n + place.column + first", "m + place.column + first"),  # low parts of other columns
        ("high_b + 2 * p, p > 0);", "high_b + 2 * p, 1);"),  # terms of the stage before
        ("multiply(terms, high_a + 2 * p, low_b + 2 * p, 1);", ""),  # a product left out
    ),
    ("wgmma", "wgmma_tile.cuh tma_tile.cuh boxes.cuh"): (
        ("wait(ring.full + 8 * ring.stage, ring.parity);", ""),  # nobody waits for the bytes
        ("wait(ring.empty + 8 * ring.stage, ring.parity);", ""),  # nobody waits for an empty stage
        ("expect(barrier, BYTES);", "expect(barrier, BYTES - 128);"),  # fewer bytes are expected
        ("stage = 0, parity ^= 1;", "stage = 0;"),  # a round is taken for the one before
        ("wait_groups<1>();", "wait_groups<2>();"),  # a stage is left before it is used
        ("if (!FLUSHES && before >= 0) release(ring, before, thread);", ""),  # the last stage is never left
        ("wait_groups<0>();\n    if (!FLUSHES &&", "if (!FLUSHES &&"),  # the last products are not waited for
        ("n - place.column, i", "n - place.column + 1, i"),  # the end of a row
        ("place.column + box * BOX_COLUMNS", "place.column"),  # one box of B for all
        ("{tile.row + (TOGETHER", "{(TOGETHER"),  # tiles of the same row
    ),
    ("wgmma that begins anywhere", "tma_tile.cuh"): (("if (++at == steps) at = 0;", "++at;"),),
    ("wgmma that stores 131 columns of 64", "store_rows.cuh"): (
        ("(half * 8 + g) * PITCH", "(half + 2 * g) * PITCH"),  # rows of a fragment
        ("first + i >= rows", "first + i > rows"),  # a row too many
        ("alpha * from[1]", "from[1]"),  # half of alpha
    ),
    ("wgmma that stores 131 columns of 128", "store_rows.cuh"): (
        ("(Result)(alpha * sums[chunk", "(Result)(sums[chunk"),  # alpha left out of lines
        ("if (row >= rows || j", "if (row > rows || j"),  # a row too many by lines
    ),
    ("wgmma that stores 132 columns of 128", "store_rows.cuh"): (
        ("of_lane_across(is_odd ?", "(is_odd ?"),  # pairs that are not exchanged
        # a row too many by fours
        ("i < rows ? end_of_row(below + i, columns) - first : 0", "end_of_row(below + i, columns) - first"),
    ),
    ("wgmma, FCC", "half_boxes.cuh boxes.cuh"): (
        ("copy_box(to + box * BOX, first", "copy_box(to, first"),  # columns of A side by side
        ("place.row + box * BOX_COLUMNS", "place.row"),  # one box of A for all
        ("first + NEXT_STEPS<FIRST_ALONG_K> * p", "first"),  # the same steps of A
        ('#define FIRST_FLAG ", 1"', '#define FIRST_FLAG ", 0"'),  # A along k
    ),
    ("wgmma, CFC", "half_boxes.cuh boxes.cuh"): (
        # steps of B for columns
        ("second, barrier, MAP_UNITS * p, place.column + rows", "second, barrier, place.column + rows, p"),
        ("second + NEXT_STEPS<SECOND_ALONG_K> * p", "second"),  # the same steps of B
        ('FIRST_FLAG ", 0"', 'FIRST_FLAG ", 1"'),  # B along n
    ),
    ("wgmma of few rows, FCC", "half_boxes.cuh"): (
        ('FIRST_FLAG ", 1"', 'FIRST_FLAG ", 0"'),  # few rows by columns
    ),
    ("wgmma of few rows", "tensor_core_half_flat.cu half_boxes.cuh boxes.cuh wgmma_tile.cuh tma_tile.cuh"): (
        ("i % 4 / 2 * 8 + g", "i % 4 / 2 + g"),  # rows of a fragment
        ("i / 4 * 8 + 2 * t + i % 2;", "i / 4 * 8 + t + i % 2;"),  # columns of a fragment
        ("column < columns)", "column <= columns)"),  # a row of C too many
        ("if (row < rows && ", "if ("),  # a column of C too many
        ("alpha * sums[i] : alpha * sums[i]", "alpha * sums[i] : sums[i]"),  # alpha
        ("(long long)place.column * ldc + i", "(long long)i * ldc + place.column"),  # C by rows
        ("place.row + box * BOX_COLUMNS", "place.row"),  # one box of B for all
        ("(tile + part * BOX)", "(tile)"),  # columns of the warpgroup beside
        ("first + NEXT_STEPS<FIRST_ALONG_K> * p", "first"),  # the same rows of B
        ("BY_COLUMNS ? FETCHERS * BM : BN", "BN"),  # parts as wide as high
    ),
    ("wgmma by clusters, wide", "store_together.cuh cluster_sums.cuh wgmma_tile.cuh tma_tile.cuh"): (
        ("row * PITCH + column]", "column * PITCH + row]"),
        ("first = thread / 32 * 16 + lane / 4", "first = lane / 4"),
        ("total[v] *= alpha", "total[v] *= 1"),
        ("(long long)place.column * (BY_COLUMNS ? ldc : 1)", "0"),
        ("steps_of(0, steps).count", "steps_of(0, steps).count - 1"),
    ),
    ("wgmma by clusters, flat", "store_together.cuh"): (
        ("column * PITCH + row :", "row * PITCH + column :"),
        ("BY_COLUMNS ? columns : rows", "rows"),
    ),
    ("bits", "pack_bits.cu tensor_core_b1.cu"): (
        ("<< 4 * u;\n                    to[", "<< u;\n                    to["),  # fours of bits in each other's place
        ("<< 8 * eight;", "<< 4 * eight;"),  # eight rows of four
        ("min(i, rows - 1) * ld", "i * ld"),  # a row of B too many
        ("if (j + u < columns) words", "words"),  # a column of B too many
        ("first >= 4 && first + COUNT + 4 <= columns", "true"),  # words of the bytes before
        ("__syncthreads();\n    for (int index", "for (int index"),  # bytes of C read before all are there
        ("if (row >= rows || left", "if (row > rows || left"),  # a row of C too many
    ),
    ("bits by wgmma", "tensor_core_bits.cu pack_bits.cu neighbours.cuh"): (
        ("j % PART / 2 * 8", "j % PART / 4 * 8"),  # columns in another order
        ("__syncthreads();\n        const int column", "const int column"),  # words read before all are there
        ("const int column = threadIdx.x / 2,", "const int column = threadIdx.x / 4,"),  # words of another column
        ("counts + run * 32 + 2 * half", "counts + run * 32 + half"),  # counts of another row
        ("* PITCH + run * 64 + 16 * t)", "* PITCH + 16 * t)"),  # a run too far
        ("rows >= 16 && columns >= BN", "columns >= BN"),  # rows past the end leave at once
        ("min(rows - first, 4)", "4"),  # rows of C past the end
        ("j % 4 * 8)", "0)"),  # words where rows begin
        ("lane < head ? lane : columns", "columns"),  # bytes before the first word
        (": tail + lane - 4", ": columns"),  # bytes after the last word
        ("min(columns - chunk * CHUNK, CHUNK)", "CHUNK"),  # columns of C past the end
    ),
    ("closed bits", "close_bits.cu tensor_core_bits.cu square.cuh wgmma_tile.cuh tma_tile.cuh neighbours.cuh"): (
        ("j % RUN / PART * 2", "j % RUN / PART"),  # columns in another order
        ("lane & half ?", "lane & 1 ?"),  # a square turned otherwise
        ("first + blockIdx.y * SIDE", "first + blockIdx.y"),  # other pivots
        ("if (i < rows)\n#pragma", "if (true)\n#pragma"),  # pivots beyond the last
        ("1u << i % BITS", "2u << i % BITS"),  # another vertex reaches itself
        ("counts[place + 32]", "counts[place + 16]"),  # bits in each other's place
        ("bits_of(of_row + 64)", "bits_of(of_row)"),  # 32 columns twice
        ("if (is_new) square", "if (false) square"),  # nothing ever changes
        ("half * 8 + g < rows ?", "half * 8 + g < 1 ?"),  # rows of C that are not read
        ("place.column / PER_RESULT", "place.column / PER_RESULT / 2"),  # columns of another tile
        ("0x00aa00aa00aa00aaull", "0x00aa00aa00aa0000ull"),  # eight rows turned in part
        ("g & half ?", "g & 1 ?"),  # bytes in each other's place
        ("column + 64 * t + 8 * g + j)", "64 * t + 8 * g + j)"),  # columns of the first tile
        ("square->turned + row / 16", "square->turned + row / 32"),  # pivots of another warp
        ("if (rows - w * BITS < BITS)", "if (false)"),  # bits beyond the last vertex
        (">> 8 * (byte % 4)", ""),  # the first eight edges of a word
    ),
    ("digits", "digits.cu tensor_core_s8.cu store_rows.cuh wgmma_tile.cuh"): (
        ("x += 0x80808080ull;", ""),  # digits without carries
        ("* PER_LANE + byte / DIGITS) * 32", "* PER_LANE) * 32"),  # elements in each other's place
        ("<< s * 8;", "<< (3 - s) * 8;"),  # steps of k in each other's place
        ("if (first + r >= side.lines) continue;", ""),  # a line too many
        # tiles written before all is there
        ("__syncthreads();\n#pragma unroll\n        for (int place", "for (int place"),
        ("Layers{term, s - term}", "Layers{term, term}"),  # digits of B in the order of A
        ("return term && layers_of(layer, term).of_a == 0;", "return false;"),  # no shift
        ("APART * (APART + 1)) / 2", "APART * (APART + 1)) / 2 + 1"),  # a term too many
        ("FLUSHES || (term == 0 && step == 0)", "FLUSHES || (step == 0 && false)"),  # sums of the tile before
        ("            wait_groups<0>();\n#pragma", "#pragma"),  # sums that are still computed are shifted
        ("of_lane_across(is_odd ?", "(is_odd ?"),  # pairs that are not exchanged
        ("four[e] = is_odd ? taken : pairs[e]", "four[e] = is_odd ? pairs[e] : taken"),  # pairs in each other's place
        # a row too many
        ("i < rows ? end_of_row(below + i, columns) - first : 0", "end_of_row(below + i, columns) - first"),
        ("words[w + 1], 8 * shift", "words[w + 1], 0"),  # words of the bytes before
    ),
    ("triangle of integers", "store_rows.cuh"): (("16 * v + e < left", "16 * v + e <= left"),),
    ("bytes", "edge_lines.cuh store_rows.cuh digits.cu"): (
        ("shift % 4 * 8);", "0);"),  # bytes of the next word
        ("shift & 8 ? words[w + 2]", "false ? words[w + 2]"),  # words of the next piece
        ("of_next_lane(lane == 0 ?", "of_next_lane(false ?"),  # the piece of the lane before
        ("shift = (begin + (unsigned)row * ldc) % LINE", "shift = begin"),  # lines of memory that begin with a row
        ("chunk <= CHUNKS", "chunk < CHUNKS"),  # the end of a row that is not stored
        # rows stored before all is there
        ("        __syncwarp();\n#pragma unroll\n        for (int first", "        for (int first"),
        ("c + other * distance", "c"),  # the first row at the edge alone
        ("rest < k)", "false)"),  # bytes at the end of k
        ("a.whole < a.all ? b.all : 0", "0"),  # columns of the last rows
    ),
    ("float8", "tensor_core_f8.cu alternate.cuh byte_tiles.cuh float8.cuh"): (
        ("wait_groups<1>();", ""),  # terms that are still computed are added
        ("begin(terms[u % 2])", "begin(terms[0])"),  # terms that are not added yet are written
        ("add(terms[(AT_ONCE - 1) % 2], before);", ""),  # the last step of a round
        ("step < steps; ++step", "step + 1 < steps; ++step"),  # the last step of all
        ("release(ring, stage", "if (stage) release(ring, stage"),  # a stage that nobody may fill
        ("of_x[e] * of_y[e]", "of_x[e] * of_y[0]"),
        ("part * (64 * ROW_BYTES)", "0"),  # the rows of the other warpgroup
        ("place.column + rank * SHARE", "rank * SHARE"),
        ("!is_first || p > 0", "p > 1"),  # half of the terms
        ("word >> 8 * e", "word >> 8 * (e % 2)"),
        ("sign | size << 7", "size << 7"),
    ),
    ("float8 of another format", "float8.cuh"): (("half_of(bits << 8u)", "half_of(bits << 7u)"),),
    ("joined digits", "join.cu"): (
        ("(long long)layers[s]", "(unsigned)layers[s]"),
        ("LAYERS - 1 - s", "s"),
    ),
    ("residues", "tensor_core_s8.cu"): (
        (">> shift) * p", ">> (shift - 1)) * p"),
        ("first + 4, first + 5", "first + 2, first + 3"),
        ("half * 8 + g >= rows", "half * 8 + g > rows"),
        ("moduli[layer]", "moduli[0]"),
        ("Layers{layer, layer}", "Layers{layer, 0}"),
        ("return *(const int*)given", "return 1"),
    ),
    ("gpu-ozaki", "residues.cu crt.cu"): (
        ("if constexpr (t < MOST)", "if constexpr (t < MOST - 1)"),  # a modulus less
        ("llrint(x * scale)", "(long long)(x * scale)"),  # truncated to integers
        ("start = magic - nearest", "start = magic + nearest"),  # the sign of 2^63
        ("weights(4, p, factor)", "weights(0, p, factor)"),  # the upper bytes
        ("(long long)(PERMUTES ? neighbour(i) : i) * width", "(long long)i * width"),  # no order of columns
        ("if (i >= of.vectors) break;", ""),  # columns beyond n
        ("fma(c[part], LOWERS[part][row][t], low[part])", "low[part]"),  # the lower weights
        ("fma(-q, second[row], low[part])", "low[part]"),  # P in one double
        ("two_to(half) * two_to(e - half)", "two_to(half) * two_to(half)"),  # the power of two
        ("__syncthreads();\n    if (PROVES", "if (PROVES"),  # no barrier before the tile is read
        ("other < WARPS;", "other < WARPS / 2;"),  # norms of half a column
        ("if (exists && i < of.vectors)", "if (exists)"),  # a row too many
    ),
    ("complex residues", "planes.cu residues.cu crt.cu"): (
        ("IS_A ? A_SIGN * x.im : -B_SIGN * x.im", "IS_A ? x.im : -B_SIGN * x.im"),  # the conjugate of A
        ("-B_SIGN * x.im", "B_SIGN * x.im"),  # the sign of B's second line
        ("HAS_ALPHA && IS_A", "HAS_ALPHA && !IS_A && false"),
        ("to[width] = y.im", "to[width] = y.re"),
        ("x.re + y.im, y.re - x.im", "x.re - y.im, y.re - x.im"),
        ("x.re * y.im + x.im * y.re", "x.re * y.im - x.im * y.re"),
        ("products[(2 * i + 1) * n + j]", "products[2 * i * n + j]"),
        ("r[IS_B][v] = modulo<p>(x + y)", "r[0][v] = modulo<p>(x + y)"),  # the layers of B
        ("ROOT[t]>(four", "1>(four"),
        ("part * of.k + p", "p"),  # imaginary parts are the real ones
        ("c[0] += c[PARTS - 1], c[PARTS - 1] = difference", "c[PARTS - 1] = difference"),
        ("beta * im + beta_im * re", "beta * im"),
    ),
    ("half mma", "tensor_core_half_mma.cu cluster_sums.cuh"): (
        ("shift_of(b + (2 * t + half)", "shift_of(b + (2 * t)"),
        ("from + GRANULE <= end ? size : 0", "size / GRANULE * GRANULE"),
        ("min((rank + 1) * EACH, LINES * VECTORS)", "rank * EACH + COUNT"),
        ("if (number + STAGES - 1 < tiles) copy_tile(number + STAGES - 1);", ""),
        ("(step * SLICES + slice) * STEP", "step * STEP"),
        ("total[v] *= alpha", "total[v] *= 1"),
    ),
    ("half panels", "tensor_core_half_panels.cu"): (
        ("if (run + lane < elements)", "if (run + lane + 1 < elements)"),
        ("if (exist < 2) of_a[i][v] &=", "if (exist < 0) of_a[i][v] &="),
        ("request(panel + STAGES * next, stage);", "request(panel + next, stage);"),
        ("if (++stage == STAGES) stage = 0, parity ^= 1;", "if (++stage == STAGES) stage = 0;"),
        ("if (row >= m) continue;", ""),
        ("left = line < lines ? elements - first : 0", "left = elements - first"),
        ("float x = alpha * sums", "float x = sums"),
    ),
    ("half panels in runs", "tensor_core_half_panels.cu"): (
        ("if (lane == 0 && run) store_run(", "if (false) store_run("),
        ("if (run + lane < elements) to[run + lane] = whole_rows", "if (false) to[run + lane] = whole_rows"),
        ("* n + column] = alpha *", "* n + column] ="),
        ("(i * 16 + v / 2 * 8 + g) * n", "(i * 16 + g) * n"),
    ),
    ("ends of operands: mv_rows", "mv_rows.cu"): (("is_within ? end : end - (end - begin) % WIDTH", "end"),),
    ("ends of operands: mv_columns", "mv_columns.cu"): (
        ("min(end, k - min(lines_beyond(first + j + WIDTH - count, step_p), (unsigned)k))", "end"),
    ),
    ("ends of operands: mv_short_rows", "mv_short_rows.cu"): (
        ("(before + mine * k) / WIDTH;", "(before + mine * k + WIDTH - 1) / WIDTH;"),
    ),
    ("ends of operands: row_panels", "row_panels.cu"): (
        ("granules = elements / GRANULE", "granules = (elements + GRANULE - 1) / GRANULE"),
    ),
    ("ends of operands: warp_panels", "warp_panels.cu"): (("if (granule + GRANULE <= end) return", "return"),),
    ("ends of operands: half_mma", "tensor_core_half_mma.cu"): (("from + GRANULE <= end ? size : 0", "size"),),
    ("ends of operands: half_panels", "tensor_core_half_panels.cu"): (
        ("run = elements / PER_GRANULE * PER_GRANULE;", "run = (elements + 7) / PER_GRANULE * PER_GRANULE;"),
    ),
    ("ends of operands: half_panels of rows with gaps", "tensor_core_half_panels.cu"): (
        ("run = k / PER_GRANULE * PER_GRANULE;", "run = (k + 7) / PER_GRANULE * PER_GRANULE;"),
    ),
    ("last elements", "tensor_core_half_mma.cu"): (
        ("if (has_rest && number + 2 >= tiles)", "if (false)"),
        ("if (has_rest && number + 2 >= tiles)", "if (has_rest && number + 1 >= tiles)"),
        ("for (; column < 0 && row >= 0; --row)", "for (; false; --row)"),
    ),
    ("last elements of windows", "tensor_core_half_mma.cu"): (
        ("m - tile.row - rows < PER_GRANULE", "m - tile.row == rows"),
        ("n - tile.column - columns < PER_GRANULE", "n - tile.column == columns"),
    ),
}
MUTANTS |= {
    ("steps by factors", "sequences.cu factors.cu"): (
        ("value >= (is_wide ? limit : columns[2 * j + 1])", "true"),  # every sum is trusted
        ("is_wide = least - top < narrow;", "is_wide = false;"),  # states are always narrow
        ("leasts[0] - shift >= narrow ? (T)0 : limit", "(T)0"),  # columns are always narrow
        ("if (p < states) total = fma(", "if (false) total = fma("),  # an odd row
        ("offset += top;", "offset = top;"),  # what was taken off before
        ("e += b / group * e_sequence + first * e_step", "e += b / group * e_sequence"),  # the first position
        ("out += (b * steps + first) * states", "out += b * steps * states"),
        ("g < GROUPS; ++g) total += lines.parts[g", "g < GROUPS - 1; ++g) total += lines.parts[g"),  # the last group
        ("        __syncthreads();  // x and the weights are there", "        // x and the weights are there"),
        ("columns[2 * j], (T)0)", "(T)0, (T)0)"),  # the largest of the column
        ("if (KEEPS == 1) out[t * states + j] = PLACED(value);", ""),
        ("last[b * states + j] = length ? lines.x[j] : (T)ZERO;", "last[b * states + j] = lines.next[j];"),
        ("top = top > -INFINITE ? top : (T)0;", ""),  # where nothing is possible
        ("if (!(top > -INFINITE)) return top;\n    for (int p", "for (int p"),
        ("work[2 * warp] = most, work[2 * warp + 1] = least", "work[0] = most, work[1] = least"),
        ("leasts[me] = leasts[me + half] < leasts[me] ? leasts[me + half] : leasts[me];", ""),
        ("tops[me] = tops[me + half] > tops[me] ? tops[me + half] : tops[me];", ""),
    ),
    ("steps by terms", "sequences.cu"): (
        ("* exp(lines.tops[g * states + j] - top)", ""),  # groups with other maxima
        ("matrix + (t - 1) * a_step", "matrix + t * a_step"),  # the matrix of the next step
        ("a += b * a_sequence + first * a_step", "a += first * a_step"),  # of the first sequence
        ("a += b * a_sequence + first * a_step", "a += b * a_sequence"),
        ("if (!(top > -INFINITE)) return top;\n    total = 0;", "total = 0;"),
    ),
    ("steps of any", "sequences.cu"): (
        ("total = ADD(total, lines.parts[g * states + j])", "total = lines.parts[g * states + j]"),
        ("j = threadIdx.x % COLUMNS; j < states; j += COLUMNS", "j = threadIdx.x % COLUMNS; j < COLUMNS; j += COLUMNS"),
    ),
    ("best paths", "sequences.cu trace.cu"): (
        ("place < from &&", "place > from &&"),  # of equal terms in other groups
        ("if (term > best) best", "if (term >= best) best"),  # of equal terms in the same
        ("if (b >= count) return;", ""),
        ("last[j] > last[state] ? j", "last[j] >= last[state] ? j"),  # of equal ends
        ("if (t < lengths[b] - 1)", "if (t < steps - 1)"),
        ("t < lengths[b] ? state : -1", "state"),
        ("pointers += b * (steps - 1) * (long long)states, paths", "paths"),
        ("pointers[(t - 1) * states + j] = (POINTER)from;", "pointers[(t - 1) * states + j] = (unsigned char)from;"),
    ),
    ("steps by products", "sequences.cu"): (
        ("wide[b] = is_wide;", "wide[b] = 0;"),
        ("OF_PRODUCT && begin ? offsets[b] : 0", "0"),
        ("lines.which = which + b * states;", "lines.which = which;"),
    ),
}
MUTANTS["triangles by gpu-tensor-core", "triangle.cuh grid.cuh"] = MUTANTS["triangles", "triangle.cuh grid.cuh"]
