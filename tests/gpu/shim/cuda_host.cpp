// Runs a CUDA kernel on a CPU, for tests: block after block, its threads as fibers that take turns at barriers.
//
// What a GPU would do in parallel happens here in the order of the threads, each from barrier to barrier: a kernel that
// lacks a barrier computes something else. Asynchronous copies happen only when they are waited for. Whoever reads or
// writes outside of a buffer meets a page that may not be touched (the buffers are placed so), and says so.
//
// It is compiled once, after cuda_host.h, and loaded before the kernels.
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <ucontext.h>

Index3 threadIdx, blockIdx, blockDim, gridDim;

namespace shim {

// ------------------------------------------------------------------------------------------------ when things go wrong

static char message[256];
static sigjmp_buf escape;

[[noreturn]] void fail(const char* what)
{
    snprintf(message, sizeof message, "%s in block (%u, %u), thread (%u, %u)", what, blockIdx.x, blockIdx.y, threadIdx.x,
             threadIdx.y);
    siglongjmp(escape, 1);
}

static void on_fault(int, siginfo_t*, void*) { fail("memory outside of every buffer is touched"); }

// Where buffers of operands end, within the pages that hold them.
struct Buffer {
    uintptr_t begin, end, end_of_pages;
};
static const int BUFFERS = 4096;
static Buffer buffers[BUFFERS];
static int buffer_count;

extern "C" void add_buffer(uintptr_t begin, uintptr_t end, uintptr_t end_of_pages)
{
    if (buffer_count < BUFFERS) buffers[buffer_count++] = Buffer{begin, end, end_of_pages};
}

extern "C" void remove_buffer(uintptr_t begin)
{
    for (int i = 0; i < buffer_count; ++i)
        if (buffers[i].begin == begin) {
            buffers[i] = buffers[--buffer_count];
            return;
        }
}

// The pages would not tell.
void check_inside(const void* pointer, size_t bytes)
{
    const uintptr_t first = (uintptr_t)pointer;
    for (int i = 0; i < buffer_count; ++i)
        if (first >= buffers[i].begin && first < buffers[i].end_of_pages && first + bytes > buffers[i].end)
            fail("a vector goes beyond the end of a buffer");
}

void check_aligned(const void* pointer, size_t bytes)
{
    if ((uintptr_t)pointer % bytes) fail("a vector is not aligned");
    check_inside(pointer, bytes);
}

// --------------------------------------------------------------------------------------------------------- the fibers

struct Copy {
    void* to;
    const void* from;
    int bytes;
    bool is_read;
    int group;
};

struct Fiber {
    ucontext_t context;  // where it begins; from then on `place` is where it goes on, which takes no system call
    jmp_buf place;
    State state;
    Index3 index;
    Copy* copies;
    int first_copy, copy_count, open_group;
    int meetings;  // of its warp
    bool is_over;
};

static const size_t STACK = 64 << 10;
static const int COPIES = 512;  // in flight at most, of one thread
static ucontext_t origin;
static jmp_buf scheduler;
static Fiber* running;
char *shared_memory, *shared_end;
static void (*call_kernel)();

// Neither of the two is inlined: who calls them has variables, which a jump would not restore.
[[gnu::noinline]] void leave(State state)
{
    running->state = state;
    if (!_setjmp(running->place)) _longjmp(scheduler, 1);
}

[[gnu::noinline]] static void resume(Fiber& fiber)
{
    running = &fiber;
    threadIdx = fiber.index;
    if (!_setjmp(scheduler)) {
        if (fiber.state == NEW) setcontext(&fiber.context);
        _longjmp(fiber.place, 1);
    }
}

static void live()
{
    for (;;) {
        call_kernel();
        leave(DONE);
    }
}

unsigned turn;
int votes[2];
static Fiber* fibers;
static Fiber* fibers_of[1024 + 1];  // by their count

// They live on from block to block and from kernel to kernel, since making them takes longer than most kernels.
static void make_fibers(int count)
{
    const size_t one = sizeof(Fiber) + COPIES * sizeof(Copy) + STACK;
    char* memory = (char*)mmap(0, count * one, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char* stacks = memory + count * (sizeof(Fiber) + COPIES * sizeof(Copy));
    fibers = fibers_of[count] = (Fiber*)memory;
    for (int t = 0; t < count; ++t) {
        Fiber& fiber = fibers[t];
        getcontext(&fiber.context);
        fiber.copies = (Copy*)(fibers + count) + t * COPIES;
        fiber.context.uc_stack.ss_sp = stacks + t * STACK;
        fiber.context.uc_stack.ss_size = STACK;
        fiber.context.uc_link = &origin;
        fiber.state = NEW;
        makecontext(&fiber.context, live, 0);
    }
}

static void run_block(int count)
{
    fibers = fibers_of[count];
    if (!fibers) make_fibers(count);
    for (int t = 0; t < count; ++t) {
        fibers[t].first_copy = fibers[t].copy_count = fibers[t].open_group = fibers[t].meetings = 0;
        fibers[t].is_over = false;
        fibers[t].index = Index3{t % blockDim.x, t / blockDim.x, 0};
    }
    for (int done = 0; done < count;) {
        bool is_waiting = false;
        votes[++turn % 2] = 1;
        for (int t = 0; t < count; ++t) {
            if (fibers[t].is_over) continue;
            resume(fibers[t]);
            done += fibers[t].is_over = fibers[t].state == DONE;
            is_waiting |= fibers[t].state == WAITING;
        }
        if (done && is_waiting) fail("a barrier is not reached by every thread");
    }
}

// Return when all 32 threads of the warp have come here as often as this one: in the next turn, if they come in the same, so
// that they stay together. Blocks have one dimension.
void meet_warp()
{
    const int mine = ++running->meetings;
    const Fiber* warp = fibers + threadIdx.x / 32 * 32;
    leave(MEETING);
    for (int t = 0; t < 32; ++t)
        while (warp[t].meetings < mine) {
            if (warp[t].is_over) fail("the lanes of a warp do not meet");
            leave(MEETING);
        }
}

// ------------------------------------------------------------------------------------------------- asynchronous copies

static void perform(const Copy& copy)
{
    if (copy.is_read) memcpy(copy.to, copy.from, copy.bytes);
    else memset(copy.to, 0, copy.bytes);
}

void push_copy(void* to, const void* from, int bytes, bool is_read)
{
    Fiber& me = *running;
    if (me.copy_count == COPIES) fail("the shim has no room for more copies");
    me.copies[(me.first_copy + me.copy_count++) % COPIES] = Copy{to, from, bytes, is_read, me.open_group};
}

void copy_async(void* to, const void* from, int bytes, bool is_read)
{
    check_aligned(to, bytes);
    if (is_read) check_aligned(from, bytes);
    push_copy(to, from, bytes, is_read);
}

void commit_copies() { ++running->open_group; }

void wait_copies(int pending)
{
    Fiber& me = *running;
    for (; me.copy_count && me.copies[me.first_copy].group < me.open_group - pending; --me.copy_count) {
        perform(me.copies[me.first_copy]);
        me.first_copy = (me.first_copy + 1) % COPIES;
    }
}

// ------------------------------------------------------------------------------------------------------------ a launch

const char* launch(void (*call)(), const unsigned* grid, const unsigned* block, size_t shared_bytes, bool has_barriers)
{
    call_kernel = call;
    gridDim = Index3{grid[0], grid[1], grid[2]}, blockDim = Index3{block[0], block[1], block[2]};
    const int count = block[0] * block[1] * block[2];
    const size_t page = 4096, room = (shared_bytes + page - 1) / page * page;
    char* memory = (char*)mmap(0, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(memory + room, page, PROT_NONE);
    shared_end = memory + room, shared_memory = shared_end - shared_bytes;

    static char signal_stack[64 << 10];
    stack_t old_stack, new_stack = {};
    new_stack.ss_sp = signal_stack, new_stack.ss_size = sizeof signal_stack;
    sigaltstack(&new_stack, &old_stack);
    struct sigaction old_action[2], action = {};
    action.sa_sigaction = on_fault, action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigaction(SIGSEGV, &action, old_action), sigaction(SIGBUS, &action, old_action + 1);

    message[0] = 0;
    if (!sigsetjmp(escape, 1))
        for (blockIdx.z = 0; blockIdx.z < grid[2]; ++blockIdx.z)
            for (blockIdx.y = 0; blockIdx.y < grid[1]; ++blockIdx.y)
                for (blockIdx.x = 0; blockIdx.x < grid[0]; ++blockIdx.x) {
                    memset(shared_memory, 0xFF, shared_bytes);  // NaN, or a large number: nobody may read it
                    if (has_barriers) run_block(count);
                    else
                        for (int t = 0; t < count; ++t) threadIdx = Index3{t % block[0], t / block[0], 0}, call();
                }
    if (message[0]) fibers_of[count] = 0;  // they stand where they failed
    running = 0;
    sigaction(SIGSEGV, old_action, 0), sigaction(SIGBUS, old_action + 1, 0);
    sigaltstack(&old_stack, 0);
    munmap(memory, room + page);
    return message;
}

}  // namespace shim
