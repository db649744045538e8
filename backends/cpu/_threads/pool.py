"""A pool of worker threads for the `prange` loops of the kernels, in place of Numba's threading layers.

Numba's layers do not suit a library. OpenMP hangs or ends a forked child, and its threads spin for milliseconds after a
loop, on processors that other code needs. workqueue aborts the process if two Python threads call at once. Here::

    parallel_for(loop)     called by any thread, without the GIL
        invite             idle workers, no more than the loop has pieces for
        work               claim pieces of the loop one by one, as the workers do
        revoke             invitations that no worker has accepted yet
        await              the workers that are still at a piece

* A worker without work spins for some microseconds, then sleeps on a semaphore. The time does not count while the loop
  that it worked on last still runs: its processor is the caller's until then.
* A worker that is woken may run on any processor but the caller's. Where threads of another library spin on all
  others, the scheduler would queue it behind the caller.
* Callers share the workers without a lock: a worker belongs to the caller that sets its state. A caller that finds no
  idle worker works alone.
* The pool records its process. A forked child has no workers, so its first loop starts new ones. Each loop checks the
  process itself, since `os.register_at_fork` misses forks by other than Python.

Workers are not Python threads, run compiled code only, and block all signals. `_threads.pool_symbols` makes the pool
and connects kernels to it. Source: self-scheduled loops, Tang and Yew (1986); the rest is this project's.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types

from backends.cpu._ir.call_by_address import call_function
from backends.cpu._threads.atomics import WORD_BYTES, add, load, pause, replace, store, yield_thread
from backends.cpu._vector import code as v
from backends.cpu._vector.code import Builder, Value
from backends.cpu._vector.intrinsics import OfIntegers

# The state of a worker: one of these, or the address of the loop that it is invited to.
_IDLE, _ASLEEP, _RUNNING, _LEAST_ADDRESS = 0, 1, 2, 4096

# The pool in memory, in words of 8 bytes. The head holds: process that owns the pool (negative while its workers
# start), number of workers, most workers, address of their function, number of looks before a worker sleeps, number
# of yields before a waiting caller sleeps, Numba's own `get_num_threads`, most looks while a loop runs; on the next
# line the number of loops that have ended, and what nobody writes to: Numba's own `numba_parallel_for`, what runs
# loops here, and `call_piece`. Then a seat for each worker, on cache lines of its own: state, thread, processor that
# it avoids plus 1, semaphore (32 bytes in glibc).
_OWNER, _COUNT, MOST, WORKER, LOOKS, YIELDS, NUMBA, PATIENCE, _ENDED, LAYER, LOOPS, PIECE = (
    WORD_BYTES * i for i in range(12)
)
HEAD_BYTES, SEAT_BYTES, _STATE, _THREAD, _AVOIDED, _SEMAPHORE = 128, 128, 0, 8, 16, 64
_MASK_WORDS, _WORD_BITS = 16, 64  # of a set of processors, as the C library has it

# A loop, on the caller's stack: the arguments of Numba's `parallel_for`, the next piece, twice the number of invited
# workers (plus 1 if the caller sleeps until they are done), and the semaphore on which it sleeps.
_FUNCTION, _ARGUMENTS, _SIZES, _STEPS, _DATA, _INNER, _ARRAYS, _NEXT, _INVITED = (WORD_BYTES * i for i in range(9))
_DONE, _LOOP_WORDS = 128, 24

_FIRST = 1  # the address that the one argument of `for_each` counts its pieces from: 0 is that of no argument

_SIGNALS_WORDS, _SET_MASK = 16, 2  # sigset_t, and SIG_SETMASK of Linux

_getpid = types.ExternalFunction("getpid", types.int32())
_sem_init = types.ExternalFunction("sem_init", types.int32(types.intp, types.int32, types.uint32))
_sem_post = types.ExternalFunction("sem_post", types.int32(types.intp))
_sem_wait = types.ExternalFunction("sem_wait", types.int32(types.intp))
_sigmask = types.ExternalFunction("pthread_sigmask", types.int32(types.int32, types.intp, types.intp))
_create = types.ExternalFunction("pthread_create", types.int32(types.intp, types.intp, types.intp, types.intp))
_here = types.ExternalFunction("sched_getcpu", types.int32())
_affinity_of = types.ExternalFunction("sched_getaffinity", types.int32(types.int32, types.intp, types.intp))
_set_affinity = types.ExternalFunction("pthread_setaffinity_np", types.int32(types.intp, types.intp, types.intp))
_detach = types.ExternalFunction("pthread_detach", types.int32(types.intp))


SYMBOL = "gemm_harness_thread_pool"


@OfIntegers
def _pool(builder: Builder) -> Value:
    """Return the address of the pool: a symbol, so that compiled code can be kept from one process to the next."""
    variable = builder.module.globals.get(SYMBOL) or ir.GlobalVariable(builder.module, v.BYTE, SYMBOL)
    return builder.ptrtoint(variable, v.SIZE)


@OfIntegers
def _number_from(builder: Builder, function: Value) -> Value:
    """Return the result of a function of C without arguments, an int."""
    pointer = builder.inttoptr(function, ir.FunctionType(v.INDEX, []).as_pointer())
    return builder.sext(builder.call(pointer, []), v.SIZE)


@OfIntegers
def stack(builder: Builder, words: Value) -> Value:
    """Return the address of `words` words on the stack of the function that calls."""
    return builder.ptrtoint(builder.alloca(v.SIZE, size=words), v.SIZE)


@OfIntegers
def _call_piece(b: Builder, function: Value, arguments: Value, sizes: Value, steps: Value, data: Value) -> None:
    """Call the code of a loop, a function of C: it computes `sizes[0]` of its pieces."""
    pointer = b.inttoptr(function, ir.FunctionType(v.VOID, [v.POINTER] * 4).as_pointer())
    b.call(pointer, [b.inttoptr(value, v.POINTER) for value in (arguments, sizes, steps, data)])


@OfIntegers
def _call_layer(b: Builder, layer: Value, loop: Value, threads: Value) -> None:
    """Have the `numba_parallel_for` of a threading layer, a function of C, compute a loop."""
    fields = [b.load(b.inttoptr(b.add(loop, v.size(WORD_BYTES * i)), v.POINTER), typ=v.SIZE) for i in range(7)]
    kinds = [v.POINTER] * 5 + [v.SIZE] * 2
    pointer = b.inttoptr(layer, ir.FunctionType(v.VOID, [*kinds, v.INDEX]).as_pointer())
    values = [b.inttoptr(x, kind) if kind is v.POINTER else x for x, kind in zip(fields, kinds, strict=True)]
    b.call(pointer, [*values, b.trunc(threads, v.INDEX)])


def call_piece(arguments: int, sizes: int, steps: int, data: int) -> None:
    """Compute pieces of a loop of `for_each`, as the code of any loop does: `sizes[0]` of them."""
    first, function, table = load(arguments) - _FIRST, load(data), load(data + WORD_BYTES)
    for i in range(load(sizes)):
        call_function(function, (table, first + i * load(steps)))


def _work(loop: int) -> None:
    """Compute pieces of a loop until all are claimed."""
    inner, arrays = load(loop + _INNER), load(loop + _ARRAYS)
    arguments, sizes, steps = load(loop + _ARGUMENTS), load(loop + _SIZES), load(loop + _STEPS)
    own_arguments, own_sizes = stack(arrays), stack(inner + 1)
    while True:
        piece = add(loop + _NEXT, 1)
        if piece >= load(sizes):
            return
        store(own_sizes, 1)
        for i in range(1, inner + 1):
            store(own_sizes + WORD_BYTES * i, load(sizes + WORD_BYTES * i))
        for i in range(arrays):
            begin = load(arguments + WORD_BYTES * i)
            offset = piece * load(steps + WORD_BYTES * i) if begin else 0
            store(own_arguments + WORD_BYTES * i, begin + offset)
        _call_piece(load(loop + _FUNCTION), own_arguments, own_sizes, steps, load(loop + _DATA))


def _leave(loop: int) -> None:
    """Sign off from a loop, and wake its caller if it sleeps. After that the loop's memory may be gone."""
    if add(loop + _INVITED, -2) == 3:
        _sem_post(loop + _DONE)


def _await_invitation(pool: int, state: int, ended: int) -> int:
    """Return the loop whose invitation the worker has accepted, or 0 after it has slept.

    While no more than `ended` loops have ended, the one that the worker has left runs.
    """
    looks, patience = load(pool + LOOKS), load(pool + PATIENCE)
    while looks > 0:
        loop = load(state)
        if loop >= _LEAST_ADDRESS and replace(state, loop, _RUNNING):
            return loop
        pause()
        if patience > 0 and load(pool + _ENDED) == ended:
            patience -= 1
        else:
            looks -= 1
    if replace(state, _IDLE, _ASLEEP):
        _sem_wait(state + _SEMAPHORE)
        replace(state, _ASLEEP, _IDLE)  # if no invitation woke it
    return 0


def run_worker(seat: int) -> int:
    """Work on loops, for ever: the function of a worker's thread."""
    pool, ended = _pool(), -1
    while True:
        loop = _await_invitation(pool, seat + _STATE, ended)
        if loop:
            _work(loop)
            ended = load(pool + _ENDED)
            store(seat + _STATE, _IDLE)
            _leave(loop)
    return 0


def _start_workers(pool: int) -> int:
    """Start a thread for every seat of the pool, and return how many there are."""
    mask, before, thread = stack(_SIGNALS_WORDS), stack(_SIGNALS_WORDS), stack(1)
    for i in range(_SIGNALS_WORDS):
        store(mask + WORD_BYTES * i, -1)
    _sigmask(_SET_MASK, mask, before)  # a thread inherits the mask
    count = 0
    for i in range(load(pool + MOST)):
        seat = pool + HEAD_BYTES + i * SEAT_BYTES
        store(seat + _STATE, _IDLE)
        _sem_init(seat + _SEMAPHORE, 0, 0)
        if _create(thread, 0, load(pool + WORKER), seat) != 0:
            break  # the system gives no more threads
        _detach(load(thread))
        store(seat + _THREAD, load(thread))
        store(seat + _AVOIDED, 0)
        count += 1
    _sigmask(_SET_MASK, before, 0)
    return count


def _count_workers(pool: int) -> int:
    """Return the number of workers of this process, and start them if it has none."""
    process, owner = np.intp(_getpid()), load(pool + _OWNER)
    if owner == process:
        return load(pool + _COUNT)
    if owner == -process or not replace(pool + _OWNER, owner, -process):
        return 0  # another thread is starting them
    count = _start_workers(pool)
    store(pool + _COUNT, count)
    store(pool + _OWNER, process)
    return count


def _avoid(seat: int, cpu: int) -> None:
    """Keep a worker that is about to be woken off a processor."""
    mask, size = stack(_MASK_WORDS), _MASK_WORDS * WORD_BYTES
    if load(seat + _AVOIDED) == cpu + 1 or not 0 <= cpu < _MASK_WORDS * _WORD_BITS:
        return
    for i in range(_MASK_WORDS):
        store(mask + WORD_BYTES * i, 0)
    if _affinity_of(0, size, mask) < 0:  # the caller's own
        return
    word = mask + cpu // _WORD_BITS * WORD_BYTES
    store(word, load(word) & ~(1 << (cpu % _WORD_BITS)))
    _set_affinity(load(seat + _THREAD), size, mask)  # fails if no processor is left: nothing changes then
    store(seat + _AVOIDED, cpu + 1)


def _invite(pool: int, loop: int, missing: int) -> int:
    """Invite up to `missing` idle workers to a loop, and return the end of the range of their seats in the pool."""
    end, cpu = 0, np.intp(_here())
    for i in range(_count_workers(pool)):
        if missing == 0:
            break
        state = pool + HEAD_BYTES + i * SEAT_BYTES + _STATE
        add(loop + _INVITED, 2)  # before it can accept, so that the count never falls to 0 early
        if replace(state, _IDLE, loop):
            end, missing = i + 1, missing - 1
        elif replace(state, _ASLEEP, loop):
            _avoid(state, cpu)
            _sem_post(state + _SEMAPHORE)
            end, missing = i + 1, missing - 1
        else:
            add(loop + _INVITED, -2)
    return end


def _await_workers(pool: int, loop: int) -> None:
    """Return when no worker is at work on the loop.

    The caller yields for some milliseconds before it sleeps. While it sleeps, the scheduler may move a spinning thread
    of another library to its processor, which both would then share for a while.
    """
    looks, yields = load(pool + LOOKS), load(pool + YIELDS)
    for look in range(looks + yields):
        if load(loop + _INVITED) == 0:
            return
        if look < looks:
            pause()
        else:
            yield_thread()
    _sem_init(loop + _DONE, 0, 0)
    if add(loop + _INVITED, 1) != 0:
        while _sem_wait(loop + _DONE) != 0:
            pass  # interrupted by a signal, which Python handles after the loop


def _record(
    loop: int, function: int, arguments: int, sizes: int, steps: int, data: int, inner: int, arrays: int
) -> None:
    """Write down a loop of which no piece is claimed yet."""
    store(loop + _FUNCTION, function)
    store(loop + _ARGUMENTS, arguments)
    store(loop + _SIZES, sizes)
    store(loop + _STEPS, steps)
    store(loop + _DATA, data)
    store(loop + _INNER, inner)
    store(loop + _ARRAYS, arrays)
    store(loop + _NEXT, 0)
    store(loop + _INVITED, 0)


def parallel_for(
    function: int, arguments: int, sizes: int, steps: int, data: int, inner: int, arrays: int, threads: int
) -> None:
    """Compute a loop of `sizes[0]` pieces on up to `threads` threads. Numba's code calls this for a `prange`."""
    pool, loop = _pool(), stack(_LOOP_WORDS)
    _record(loop, function, arguments, sizes, steps, data, inner, arrays)
    missing = min(threads, load(sizes)) - 1
    end = _invite(pool, loop, missing) if missing > 0 else 0
    _work(loop)
    for i in range(end):
        if replace(pool + HEAD_BYTES + i * SEAT_BYTES + _STATE, loop, _IDLE):
            add(loop + _INVITED, -2)
    if end:
        _await_workers(pool, loop)
        add(pool + _ENDED, 1)


def parallel_for_on_layer(
    function: int, arguments: int, sizes: int, steps: int, data: int, inner: int, arrays: int, threads: int
) -> None:
    """Compute a loop on Numba's threading layer, for one caller at a time: others compute theirs alone meanwhile.

    Where there is no pool: workqueue, which Numba may have alone there, ends the process if two threads call at once.
    """
    pool, loop = _pool(), stack(_LOOP_WORDS)
    _record(loop, function, arguments, sizes, steps, data, inner, arrays)
    if threads > 1 and replace(pool + _OWNER, 0, 1):
        _call_layer(load(pool + LAYER), loop, threads)
        store(pool + _OWNER, 0)
    else:
        _work(loop)


def get_num_threads() -> int:
    """Return the number of threads that this Python thread may use.

    Numba's workqueue loses the number in a forked child.
    """
    pool = _pool()
    count, all_of_them = _number_from(load(pool + NUMBA)), load(pool + MOST) + 1
    return count if 0 < count <= all_of_them else all_of_them


def for_each(function: int, table: int, pieces: int) -> None:
    """Call ``function(table, piece)`` for each piece, on as many threads or as this thread of Python may use."""
    pool, loop, data, words = _pool(), stack(_LOOP_WORDS), stack(2), stack(3)
    arguments, sizes, steps = words, words + WORD_BYTES, words + 2 * WORD_BYTES
    store(data, function)
    store(data + WORD_BYTES, table)
    store(arguments, _FIRST)
    store(sizes, pieces)
    store(steps, 1)
    _record(loop, load(pool + PIECE), arguments, sizes, steps, data, 0, 1)
    _call_layer(load(pool + LOOPS), loop, min(pieces, get_num_threads()))
