/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The callers of a thread that is blocked, by call frame information (.eh_frame) and its stack in memory. Functions
 * that were not optimised have their frame where %rbp points to, which is not known; by the first instructions of such
 * a one it is known how far the stack pointer is from it. And samples of threads that run, whose registers are all known.
 */
#include "symbols/index/lines.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/system/clock.h"
#include "base/system/proc_file.h"
#include "shm/waits.h"

/* ---- callers ---- */
enum {
    REG_RBP = 6,
    REG_RSP = 7,
    REG_PC = LINES_REGISTERS - 1,
    PROLOGUE = 64,
    FIRST_PART = 24,
    PUSHES = 5,
    FRAME_MOST = 1 << 20,
    STEPS_MOST = 8,
    START_SIZE = 64
};

struct walk {
    uint64_t *addrs;
    struct lines_registers *registers; /* NULL: not wanted */
    size_t count, most;
    Dwarf_Word sp; /* of the last; 0: not known */
    bool ended;    /* nobody called the last */
};

static pid_t next_thread(Dwfl *dwfl, void *ctx, void **inout_thread)
{
    (void)dwfl;
    if (*inout_thread)
        return 0;
    *inout_thread = ctx;
    return ((struct unwind_state *)ctx)->pid;
}

static bool get_thread(Dwfl *dwfl, pid_t tid, void *ctx, void **ret_thread)
{
    (void)dwfl, (void)tid;
    *ret_thread = ctx;
    return true;
}

static bool read_word(Dwfl *dwfl, Dwarf_Addr addr, Dwarf_Word *ret_word, void *ctx)
{
    (void)dwfl;
    struct unwind_state *state = ctx;
    uint64_t at = addr - state->stack_addr;
    if (at < state->stack_size && state->stack_size - at >= sizeof *ret_word) {
        memcpy(ret_word, (const char *)state->stack + at, sizeof *ret_word);
        return true;
    }
    return state->read_memory(state, addr, ret_word, sizeof *ret_word);
}

static bool set_registers(Dwfl_Thread *thread, void *ctx)
{
    const struct lines_registers *registers = &((struct unwind_state *)ctx)->registers;
    dwfl_thread_state_register_pc(thread, registers->values[REG_PC]);
    for (int i = 0; i < LINES_REGISTERS; i++) {
        Dwarf_Word value = registers->values[i];
        if ((registers->known & 1U << i) && !dwfl_thread_state_registers(thread, i, 1, &value))
            return false;
    }
    return true;
}

bool unwind_attach(Dwfl *dwfl, struct unwind_state *state)
{
    static const Dwfl_Thread_Callbacks callbacks = {
        .next_thread = next_thread,
        .get_thread = get_thread,
        .memory_read = read_word,
        .set_initial_registers = set_registers,
    };
    return dwfl_attach_state(dwfl, NULL, state->pid, &callbacks, state);
}

static bool read_memory(pid_t pid, uint64_t addr, void *room, size_t size)
{
    return proc_peek(pid, addr, room, size) == size;
}

static bool read_live(struct unwind_state *state, uint64_t addr, void *room, size_t size)
{
    return read_memory(state->pid, addr, room, size);
}

static void keep_registers(Dwfl_Frame *frame, Dwarf_Addr pc, struct lines_registers *ret_registers)
{
    *ret_registers = (struct lines_registers){.known = 1U << REG_PC};
    ret_registers->values[REG_PC] = pc;
    for (unsigned i = 0; i < REG_PC; i++)
        if (dwfl_frame_reg(frame, i, &ret_registers->values[i]) == 0)
            ret_registers->known |= 1U << i;
}

static int frame_add(Dwfl_Frame *frame, void *ctx)
{
    struct walk *walk = ctx;
    Dwarf_Addr pc;
    if (!dwfl_frame_pc(frame, &pc, NULL))
        return DWARF_CB_ABORT;
    walk->ended = !pc;
    if (!pc || walk->count == walk->most)
        return DWARF_CB_ABORT;
    if (walk->registers)
        keep_registers(frame, pc, &walk->registers[walk->count]);
    walk->addrs[walk->count++] = pc;
    if (dwfl_frame_reg(frame, REG_RSP, &walk->sp) < 0)
        walk->sp = 0;
    return DWARF_CB_OK;
}

static int32_t signed_byte(uint8_t byte)
{
    return byte < 128 ? byte : byte - 256;
}

/* Of a function that begins with push %rbp; mov %rsp,%rbp; pushes; sub $N,%rsp (or add $-N): how far %rsp is below
 * %rbp then. *ret_sure: it has changed %rsp there. If not, it has no room of its own, or gets it later. */
static bool frame_size(const uint8_t *code, uint64_t *ret_size, bool *ret_sure)
{
    static const uint8_t endbr[] = {0xf3, 0x0f, 0x1e, 0xfa}, begin[] = {0x55, 0x48, 0x89, 0xe5};
    const uint8_t *end = code + 32 - 8;
    int32_t size = 0;
    *ret_size = 0;
    if (memcmp(code, endbr, sizeof endbr) == 0)
        code += sizeof endbr;
    if (memcmp(code, begin, sizeof begin) != 0)
        return false;
    for (code += sizeof begin; code < end; code++) {
        if (code[0] == 0x41 && code[1] >= 0x54 && code[1] <= 0x57)
            code++;
        else if (code[0] != 0x53)
            break;
        *ret_size += 8;
    }
    *ret_sure = code[0] == 0x48 && (code[1] == 0x83 || code[1] == 0x81) && (code[2] == 0xec || code[2] == 0xc4);
    if (*ret_sure && code[1] == 0x83)
        size = signed_byte(code[3]);
    else if (*ret_sure)
        memcpy(&size, code + 3, sizeof size);
    *ret_size += (uint64_t)(int64_t)(code[2] == 0xc4 ? -(int64_t)size : size);
    return *ret_size < FRAME_MOST;
}

/* call rel32, or call *place: with a register, or memory without and with an index and a distance of 0, 1 or 4 bytes. */
static bool follows_call(pid_t pid, uint64_t addr)
{
    uint8_t code[7];
    if (!read_memory(pid, addr - sizeof code, code, sizeof code))
        return false;
    static const uint8_t lengths[] = {2, 3, 4, 6, 7};
    for (size_t i = 0; i < sizeof lengths; i++) {
        const uint8_t *at = code + sizeof code - lengths[i];
        if (at[0] == 0xff && (at[1] & 0x38) == 0x10)
            return true;
    }
    return code[2] == 0xe8;
}

/* The N of `sub $N,%rsp` (or add $-N) anywhere in the code. 0: there are none. */
static uint64_t room_made(const uint8_t *code, const uint8_t *end)
{
    int32_t size = 0;
    for (; code + 7 <= end && !size; code++) {
        if (code[0] == 0x48 && code[1] == 0x83 && code[2] == 0xec && signed_byte(code[3]) > 0)
            size = code[3];
        else if (code[0] == 0x48 && code[1] == 0x83 && code[2] == 0xc4 && signed_byte(code[3]) < 0)
            size = -signed_byte(code[3]);
        else if (code[0] == 0x48 && code[1] == 0x81 && code[2] == 0xec)
            memcpy(&size, code + 3, sizeof size);
    }
    return size > 0 && size < FRAME_MOST ? (uint64_t)size : 0;
}

/* Compilers put other instructions between those of frame_size, and push up to five registers. Of the places that
 * follow from that, just one must have an address to which a call returns. 0: none has, or several. */
static uint64_t base_of(pid_t pid, const uint8_t *code, uint64_t sp)
{
    static const uint8_t set[] = {0x48, 0x89, 0xe5}; /* mov %rsp,%rbp */
    const uint8_t *end = code + PROLOGUE, *at = memchr(code, 0x55, 5);
    at = at ? memmem(at, FIRST_PART, set, sizeof set) : NULL;
    uint64_t size = at ? room_made(at + sizeof set, end) : 0, found = 0;
    for (uint64_t pushes = 0; size && pushes <= PUSHES; pushes++) {
        uint64_t bp = sp + size + pushes * sizeof bp, caller;
        if (!read_memory(pid, bp + sizeof bp, &caller, sizeof caller) || !follows_call(pid, caller))
            continue;
        if (found)
            return 0;
        found = bp;
    }
    return found;
}

static void know_only(struct lines_registers *registers, uint64_t pc, uint64_t sp, uint64_t bp)
{
    registers->values[REG_PC] = pc;
    registers->values[REG_RSP] = sp;
    registers->values[REG_RBP] = bp;
    registers->known = bp ? 1U << REG_RSP | 1U << REG_RBP : 1U << REG_RSP;
}

/* From the last frame that is known to its caller, into the state's registers; false: not known. */
static bool step_to_caller(struct lines *lines, const struct walk *walk)
{
    uint64_t pc = walk->addrs[walk->count - 1], size, frame[2];
    uint8_t code[PROLOGUE];
    bool sure = true;
    GElf_Off offset;
    GElf_Sym symbol;
    Dwfl_Module *module = dwfl_addrmodule(lines->dwfl, pc);
    if (!walk->sp || !module || !dwfl_module_addrinfo(module, pc - 1, &offset, &symbol, NULL, NULL, NULL) ||
        !read_memory(lines->pid, pc - 1 - offset, code, sizeof code))
        return false;
    uint64_t bp = frame_size(code, &size, &sure) ? walk->sp + size : 0;
    if (!bp || (!sure && room_made(code, code + sizeof code))) {
        bp = base_of(lines->pid, code, walk->sp);
        sure = true;
    }
    if (!bp)
        return false;
    if (!read_memory(lines->pid, bp, frame, sizeof frame) || !follows_call(lines->pid, frame[1]) ||
        (!sure && frame[0] && frame[0] - bp > FRAME_MOST)) /* where it is sure, the caller may have any %rbp */
        return false;
    if (walk->registers) {
        struct lines_registers *last = &walk->registers[walk->count - 1];
        last->values[REG_RBP] = bp;
        last->known |= 1U << REG_RBP;
    }
    know_only(&lines->state.registers, frame[1], bp + sizeof frame, frame[0]);
    return true;
}

/* Where a register is missing, libdwfl ends as if nobody had called. Whom nobody calls is known by name, or because
 * the program begins there. */
static bool is_outermost(const struct lines *lines, const struct walk *walk)
{
    static const char *const names[] = {"_start", "clone", "clone3", "__clone", "__clone3", "__GI___clone"};
    uint64_t pc = walk->count ? walk->addrs[walk->count - 1] : 0;
    Dwfl_Module *module = dwfl_addrmodule(lines->dwfl, pc);
    const char *name = module ? dwfl_module_addrname(module, pc - 1) : NULL;
    for (size_t i = 0; name && i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    GElf_Addr bias;
    GElf_Ehdr header;
    Elf *elf = module ? dwfl_module_getelf(module, &bias) : NULL;
    return elf && gelf_getehdr(elf, &header) && pc - (header.e_entry + bias) < START_SIZE;
}

size_t lines_unwind(struct lines *lines, const struct lines_thread *thread, uint64_t *ret_addrs,
                    struct lines_registers *ret_registers, size_t most, bool *ret_whole)
{
    struct walk walk = {.addrs = ret_addrs, .registers = ret_registers, .most = most};
    bool sampled = thread->registers;
    lines->state = (struct unwind_state){.pid = lines->pid,
                                         .stack = thread->stack,
                                         .stack_addr = thread->sp,
                                         .stack_size = thread->stack ? thread->stack_size : 0,
                                         .read_memory = read_live};
    if (sampled) {
        memcpy(lines->state.registers.values, thread->registers, sizeof lines->state.registers.values);
        lines->state.registers.known = (1U << LINES_REGISTERS) - 1;
    } else {
        know_only(&lines->state.registers, thread->pc, thread->sp, 0);
    }
    if (!lines->attached)
        lines->attached = lines->pid && unwind_attach(lines->dwfl, &lines->state);
    for (size_t i = 0, before; i < STEPS_MOST && lines->attached && walk.count < most && !walk.ended; i++) {
        before = walk.count;
        bool done = dwfl_getthread_frames(lines->dwfl, lines->pid, frame_add, &walk) == 0;
        walk.ended |= done && (sampled || is_outermost(lines, &walk));
        if (walk.count == before || walk.ended || !step_to_caller(lines, &walk))
            break;
        sampled = false; /* of the frame that was stepped to, only these are known */
    }
    lines->state.stack_size = 0;
    if (ret_whole)
        *ret_whole = walk.ended;
    return walk.count;
}

size_t lines_callers(struct lines *lines, uint64_t sp, uint64_t pc, uint64_t *ret_addrs, size_t most)
{
    return lines_unwind(lines, &(struct lines_thread){.sp = sp, .pc = pc}, ret_addrs, NULL, most, NULL);
}

/* ---- samples of threads that run ---- */
enum { RING_PAGES = 8 };

/* ax, bx, cx, dx, si, di, bp, sp, ip, r8 ... r15, as <asm/perf_regs.h> numbers them, and their DWARF numbers. */
static const unsigned char dwarf_numbers[LINES_REGISTERS] = {0, 3, 2, 1, 4, 5, 6, 7, 16, 8, 9, 10, 11, 12, 13, 14, 15};

bool sample_decode(const void *bytes, size_t size, uint64_t ret_registers[LINES_REGISTERS], const char **ret_stack,
                   size_t *ret_stack_size)
{
    const char *at = bytes, *end = at + size;
    uint64_t abi, room, used = 0;
    if (size < sizeof abi + (LINES_REGISTERS + 1) * sizeof *ret_registers)
        return false;
    memcpy(&abi, at, sizeof abi);
    at += sizeof abi;
    if (abi != PERF_SAMPLE_REGS_ABI_64)
        return false;
    for (int i = 0; i < LINES_REGISTERS; i++, at += sizeof *ret_registers)
        memcpy(&ret_registers[dwarf_numbers[i]], at, sizeof *ret_registers);
    memcpy(&room, at, sizeof room);
    at += sizeof room;
    uint64_t left = (uint64_t)(end - at);
    if (room && left >= sizeof used && room <= left - sizeof used)
        memcpy(&used, at + room, sizeof used);
    *ret_stack = at;
    *ret_stack_size = used < room ? used : room;
    return true;
}

struct ring {
    int fd;
    struct perf_event_mmap_page *page;
    size_t page_size;
};

/* A thread that spins in a call of the kernel is there most of the time, so that is sampled, too, where it is allowed
 * (perf_event_paranoid); the registers are the program's own in any case. */
static int ring_open(struct ring *ring, pid_t tid)
{
    struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE,
                                   .size = sizeof attr,
                                   .config = PERF_COUNT_SW_TASK_CLOCK,
                                   .sample_period = SAMPLE_PERIOD_NS,
                                   .sample_type = PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER,
                                   .sample_regs_user = SAMPLE_REGISTERS,
                                   .sample_stack_user = SAMPLE_STACK,
                                   .exclude_hv = 1,
                                   .exclude_callchain_user = 1};
    ring->page_size = (size_t)sysconf(_SC_PAGESIZE);
    ring->page = MAP_FAILED;
    ring->fd = (int)syscall(SYS_perf_event_open, &attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
    if (ring->fd < 0 && errno == EACCES) {
        attr.exclude_kernel = 1;
        ring->fd = (int)syscall(SYS_perf_event_open, &attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
    }
    if (ring->fd >= 0)
        ring->page = mmap(NULL, (RING_PAGES + 1) * ring->page_size, PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd, 0);
    if (ring->page != MAP_FAILED)
        return 0;
    return errno == EPERM ? -EACCES : -errno;
}

static void ring_close(struct ring *ring)
{
    if (ring->page != MAP_FAILED)
        munmap(ring->page, (RING_PAGES + 1) * ring->page_size);
    if (ring->fd >= 0)
        close(ring->fd);
}

/* The first record: it lies at the start of the ring, so it does not wrap. */
static bool ring_take(const struct ring *ring, struct sample *sample)
{
    const char *data = (const char *)ring->page + ring->page_size, *at = data;
    uint64_t head = atomic_load_explicit((const _Atomic uint64_t *)&ring->page->data_head, memory_order_acquire);
    struct perf_event_header header;
    const char *stack;
    if (head < sizeof header)
        return false;
    memcpy(&header, at, sizeof header);
    if (header.type != PERF_RECORD_SAMPLE || header.size < sizeof header || header.size > head ||
        !sample_decode(at + sizeof header, header.size - sizeof header, sample->registers, &stack, &sample->stack_size))
        return false;
    sample->stack_size = sample->stack_size < SAMPLE_STACK ? sample->stack_size : SAMPLE_STACK;
    memcpy(sample->stack, stack, sample->stack_size);
    return true;
}

void samples_take(struct sample *samples, size_t count)
{
    struct ring rings[SAMPLE_BATCH];
    size_t waiting = 0;
    count = count > SAMPLE_BATCH ? SAMPLE_BATCH : count;
    for (size_t i = 0; i < count; i++) {
        samples[i].stack_size = 0;
        samples[i].code = ring_open(&rings[i], samples[i].tid);
        if (samples[i].code == 0) {
            samples[i].code = -EAGAIN;
            waiting++;
        }
    }
    const uint64_t until = clock_now_ns() + SAMPLE_WAIT_MS * UINT64_C(1000000);
    while (waiting && clock_now_ns() < until) {
        wait_fd(-1, 0, SAMPLE_LOOK_MS);
        for (size_t i = 0; i < count; i++)
            if (samples[i].code == -EAGAIN && ring_take(&rings[i], &samples[i])) {
                samples[i].code = 0;
                waiting--;
            }
    }
    for (size_t i = 0; i < count; i++)
        ring_close(&rings[i]);
}
