"""Block sizes as pure functions: invariants over many sizes and machines, and the cases that a measurement decided."""

import dataclasses
import itertools
import math

import pytest

from harness import Problem
from harness.machine import Machine
from harness.tuning import argk as tuning_argk
from harness.tuning import cpu as tuning_cpu
from harness.tuning import simd as tuning_simd
from harness.tuning import simd_parts as tuning_parts

KIB = 1 << 10
SIZES = (1, 2, 7, 8, 63, 64, 65, 128, 129, 1000, 1024, 4097)


def machine_with(l1d=32, l2=1024, l3=8192, threads=1):
    return Machine(cpu="Test CPU", cores=8, threads=threads, l1d=l1d * KIB, l2=l2 * KIB, l3=l3 * KIB)


class TestSplitEvenly:
    @pytest.mark.parametrize("step", (1, 4, 24))
    @pytest.mark.parametrize("largest", (1, 10, 24, 100, 384))
    def test_blocks_are_equal_legal_and_as_few_as_can_be(self, largest, step):
        for extent in range(1, 1000, 3):
            block = tuning_cpu.split_evenly(extent, largest, step)
            limit = max(largest // step, 1) * step
            assert block % step == 0
            assert block <= limit
            blocks = -(-extent // block)
            assert blocks == -(-extent // limit)
            assert block - step < extent / blocks  # no smaller block would do with as few

    def test_blocks_are_a_multiple_of_the_threads_where_there_is_enough(self):
        for threads, extent in itertools.product((2, 3, 8), (1000, 1024, 4097)):
            block = tuning_cpu.split_evenly(extent, 100, 1, threads)
            assert -(-extent // block) % threads == 0 or block == 1

    def test_nothing_is_one_block(self):
        assert tuning_cpu.split_evenly(0, 100, 8) == 8


class TestSimdBlocking:
    @pytest.mark.parametrize("dtype", ("float64", "float32", "int16", "uint8"))
    @pytest.mark.parametrize("l2", (0, 256, 1024, 2048))
    def test_every_size_has_a_legal_blocking_that_fits_the_cache(self, dtype, l2):
        machine = machine_with(l2=l2)
        for m, n, k in itertools.product(SIZES, SIZES, SIZES):
            problem = Problem(m, n, k, dtype=dtype)
            mr, nr = 8, 192 // problem.dtype.itemsize
            blocking = tuning_simd.simd_blocking(problem, machine, mr, nr)
            assert (blocking.mr, blocking.nr) == (mr, nr)
            assert dataclasses.replace(blocking) == blocking  # which checks what was not checked
            longest = tuning_simd.SIMD_KC_OF_FLOATS if problem.dtype.kind == "f" else tuning_simd.SIMD_KC_OF_INTEGERS
            assert blocking.kc <= longest[problem.dtype.itemsize]
            bytes_of_a = (blocking.mc - mr) * blocking.kc * problem.dtype.itemsize
            assert bytes_of_a <= tuning_cpu.cache_sizes(machine)[1] * tuning_simd.SIMD_ALL_OF_M_SHARE
            assert blocking.nc * problem.dtype.itemsize <= max(tuning_simd.SIMD_NC_BYTES, 192)

    def test_m_is_one_block_as_long_as_a_fits(self):
        machine = machine_with(l2=1024)  # 60 % hold 204 rows of 384 float64
        assert tuning_simd.simd_blocking(Problem(200, 1000, 384), machine, 8, 24).mc >= 200
        assert tuning_simd.simd_blocking(Problem(209, 1000, 384), machine, 8, 24).mc < 209

    def test_k_is_cut_into_equal_blocks(self):
        for k, kc in ((384, 384), (385, 392), (401, 208), (1000, 336), (3, 8)):
            assert tuning_simd.simd_blocking(Problem(1000, 1000, k), machine_with(), 8, 24).kc == kc

    def test_sizes_of_nothing_have_a_plan_too(self):
        for sizes in ((0, 0, 0), (0, 5, 5), (5, 0, 5), (5, 5, 0)):
            assert tuning_simd.simd_blocking(Problem(*sizes), machine_with(), 8, 24)

    def test_the_number_of_threads_does_not_change_the_blocks(self):
        for problem, threads in ((Problem(599, 601, 577), 8), (Problem(999, 1001, 777), 3)):
            one, many = (tuning_simd.simd_blocking(problem, machine_with(threads=t), 8, 24) for t in (1, threads))
            assert dataclasses.asdict(one) == dataclasses.asdict(many)

    def test_unless_they_share_panels_then_a_block_of_a_is_all_of_a_part(self):
        machine = machine_with(threads=16)
        for size in (1000, 2048, 4096):
            blocking = tuning_simd.simd_blocking(Problem(size, size, size), machine, 8, 24)
            parts = tuning_parts.shared_grid(size, size, 16, 8, 24)[0]
            rows = -(-size // parts)
            assert blocking.mc >= rows or rows * blocking.kc * 8 > machine.l2 * tuning_simd.SIMD_ALL_OF_M_SHARE


class TestThreads:
    def test_a_thread_is_worth_a_number_of_pairs(self):
        fewest = tuning_parts.SIMD_FEWEST_PAIRS_PER_THREAD
        assert tuning_parts.simd_threads(Problem(0, 0, 0), 8) == 1
        assert tuning_parts.simd_threads(Problem(2, 2, fewest // 2 - 1), 8) == 1
        assert tuning_parts.simd_threads(Problem(2, 2, fewest // 2), 8) == 2
        assert tuning_parts.simd_threads(Problem(2, 2, 25 * fewest), 8) == 8
        assert tuning_parts.simd_threads(Problem(4096, 4096, 4096), 1) == 1

    def test_a_matrix_by_a_vector_takes_time_for_reading_it(self):
        fewest = tuning_parts.SIMD_FEWEST_STREAMED_PAIRS_PER_THREAD
        for m, n in ((2, 1), (1, 2)):
            assert tuning_parts.simd_threads(Problem(m, n, fewest - 1), 8) == 1
            assert tuning_parts.simd_threads(Problem(m, n, fewest), 8) == 2
        assert tuning_parts.simd_threads(Problem(2, 1, fewest), 8, pairs_per_thread=fewest // 2) == 4

    @pytest.mark.parametrize("threads", (1, 2, 3, 4, 5, 7, 8, 12, 16, 64))
    def test_a_grid_uses_no_more_threads_than_there_are_and_never_none(self, threads):
        for m, n in itertools.product(SIZES, SIZES):
            rows, columns = tuning_parts.thread_grid(m, n, threads, 8, 24)
            assert rows >= 1
            assert columns >= 1
            assert rows * columns <= threads

    def test_no_other_grid_has_a_smaller_largest_part(self):
        def largest(m, n, rows, columns):
            return math.ceil(m / 8 / rows) * 8 * math.ceil(n / 24 / columns) * 24

        for m, n, threads in itertools.product((8, 100, 1000), (24, 500, 3000), (1, 2, 3, 6, 8)):
            chosen = largest(m, n, *tuning_parts.thread_grid(m, n, threads, 8, 24))
            others = [(r, c) for r in range(1, threads + 1) for c in range(1, threads // r + 1)]
            assert chosen == min(largest(m, n, *grid) for grid in others)

    def test_parts_that_pack_b_are_rather_narrow_than_low(self):
        costs = tuning_parts.SIMD_PACKING_ROWS, tuning_parts.SIMD_READING_COLUMNS
        assert tuning_parts.thread_grid(300, 300, 16, 4, 8, *costs) == (2, 8)
        assert tuning_parts.thread_grid(500, 500, 16, 4, 8, *costs) == (2, 8)
        assert tuning_parts.thread_grid(300, 300, 16, 4, 8) != (2, 8)

    @pytest.mark.parametrize("threads", (4, 5, 16, 64))
    def test_shared_panels_are_cut_into_several_parts_a_thread_where_sizes_allow_it(self, threads):
        for m, n in itertools.product((1, 8, 100, 5000), (1, 24, 500, 50_000)):
            rows, columns = tuning_parts.shared_grid(m, n, threads, 8, 24)
            assert 1 <= rows <= max(m // 8, 1)
            assert 1 <= columns <= max(n // 24, 1)
        assert math.prod(tuning_parts.shared_grid(5000, 5000, threads, 8, 24)) >= 8 * threads

    def test_long_matrices_are_cut_across(self):
        assert tuning_parts.thread_grid(10_000, 24, 8, 8, 24) == (8, 1)
        assert tuning_parts.thread_grid(8, 24_000, 8, 8, 24) == (1, 8)
        assert tuning_parts.thread_grid(1000, 1000, 1, 8, 24) == (1, 1)
        rows, columns = tuning_parts.thread_grid(4800, 4800, 16, 8, 24)
        assert (rows, columns) == (4, 4)


class TestReadsInPlace:
    def test_rows_that_share_cache_sets_are_packed(self):
        for stride in (16 * KIB, 32 * KIB, 16 * KIB + 64, 16 * KIB - 64, -16 * KIB):
            assert not tuning_simd.reads_in_place(stride, 1000), stride

    def test_others_are_read_where_they_lie(self):
        for stride in (0, 8, 64, 65, 8 * KIB, 16 * KIB + 65, 16 * KIB - 65, -1000, 8000):
            assert tuning_simd.reads_in_place(stride, 1000), stride

    def test_a_few_rows_never_fill_a_set(self):
        assert tuning_simd.reads_in_place(16 * KIB, tuning_simd.SIMD_FEW_ROWS - 1)
        assert not tuning_simd.reads_in_place(16 * KIB, tuning_simd.SIMD_FEW_ROWS)


class TestArgk:
    @pytest.mark.parametrize("k", (1, 100, 5000, tuning_argk.ARGK_LONGEST))
    def test_numbers_of_blocks_fit_a_byte_and_panels_are_small(self, k):
        for dtype, threads in itertools.product(("float64", "int8"), (1, 6, 8)):
            problem, machine = Problem(1000, 900, k, "min_plus", dtype), machine_with(threads=threads)
            for steps in (tuning_argk.argk_steps(problem), tuning_argk.argk_blocks(problem, machine)[2]):
                assert -(-k // steps) <= tuning_argk.ARGK_MOST_BLOCKS
            across, down, rows, columns = tuning_argk.argk_searched(problem, machine)
            assert across * down == threads
            assert across == {1: 1, 6: 3, 8: 4}[threads], "of 900 columns, so that a panel stays wide"
            assert rows >= tuning_argk.ARGK_LEAST_ROWS
            assert columns >= tuning_argk.ARGK_LEAST_COLUMNS
            # what each part has in work memory fits its L2, or is as narrow as it may be
            assert columns == tuning_argk.ARGK_LEAST_COLUMNS or columns * k * problem.dtype.itemsize <= machine.l2

    def test_long_rows_are_cut_into_more_blocks_rather_than_longer_ones(self):
        found = {
            k: tuning_argk.argk_steps(Problem(9, 9, k, "min_plus", "float32")) for k in (64, 1024, 2048, 4096, 8192)
        }
        assert found == {64: 16, 1024: 16, 2048: 32, 4096: 32, 8192: 64}
        assert tuning_argk.argk_steps(Problem(9, 9, 4096, "min_plus", "int8")) == 64  # a whole line
