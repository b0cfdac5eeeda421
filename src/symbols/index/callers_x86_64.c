/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The callers of a thread that is blocked, by call frame information (.eh_frame) and its stack in memory. Functions
 * that were not optimised have their frame where %rbp points to, which is not known; by the first instructions of such
 * a one it is known how far the stack pointer is from it.
 */
#include <string.h>
#include <sys/uio.h>

#include "symbols/index/lines_internal.h"

enum { REG_RBP = 6, REG_RSP = 7, PROLOGUE = 32, FRAME_MOST = 1 << 20, STEPS_MOST = 8 };

struct walk {
    uint64_t *addrs;
    size_t count, most;
    Dwarf_Word sp; /* of the last; 0: not known */
};

static pid_t next_thread(Dwfl *dwfl, void *ctx, void **inout_thread)
{
    (void)dwfl;
    if (*inout_thread)
        return 0;
    *inout_thread = ctx;
    return ((struct lines *)ctx)->pid;
}

static bool get_thread(Dwfl *dwfl, pid_t tid, void *ctx, void **ret_thread)
{
    (void)dwfl, (void)tid;
    *ret_thread = ctx;
    return true;
}

static bool read_memory(pid_t pid, uint64_t addr, void *room, size_t size)
{
    struct iovec here = {room, size}, there = {(void *)(uintptr_t)addr, size}; /* NOLINT: an address over there */
    return process_vm_readv(pid, &here, 1, &there, 1, 0) == (ssize_t)size;
}

static bool read_word(Dwfl *dwfl, Dwarf_Addr addr, Dwarf_Word *ret_word, void *ctx)
{
    (void)dwfl;
    return read_memory(((const struct lines *)ctx)->pid, addr, ret_word, sizeof *ret_word);
}

static bool set_registers(Dwfl_Thread *thread, void *ctx)
{
    const struct lines *lines = ctx;
    dwfl_thread_state_register_pc(thread, lines->pc);
    return dwfl_thread_state_registers(thread, REG_RSP, 1, &lines->sp) &&
           (!lines->bp || dwfl_thread_state_registers(thread, REG_RBP, 1, &lines->bp));
}

static const Dwfl_Thread_Callbacks callbacks = {
    .next_thread = next_thread,
    .get_thread = get_thread,
    .memory_read = read_word,
    .set_initial_registers = set_registers,
};

static int each_frame(Dwfl_Frame *frame, void *ctx)
{
    struct walk *walk = ctx;
    Dwarf_Addr pc;
    if (!dwfl_frame_pc(frame, &pc, NULL) || !pc || walk->count == walk->most)
        return DWARF_CB_ABORT;
    walk->addrs[walk->count++] = pc;
    if (dwfl_frame_reg(frame, REG_RSP, &walk->sp) < 0)
        walk->sp = 0;
    return DWARF_CB_OK;
}

/* Of a function that begins with push %rbp; mov %rsp,%rbp; pushes; sub $N,%rsp: how far %rsp is below %rbp then. */
static bool frame_size(const uint8_t *code, uint64_t *ret_size)
{
    static const uint8_t endbr[] = {0xf3, 0x0f, 0x1e, 0xfa}, begin[] = {0x55, 0x48, 0x89, 0xe5};
    const uint8_t *end = code + PROLOGUE - 8;
    int32_t size;
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
    if (code[0] != 0x48 || (code[1] != 0x83 && code[1] != 0x81) || code[2] != 0xec)
        return false;
    memcpy(&size, code + 3, sizeof size);
    *ret_size += (uint64_t)(code[1] == 0x83 ? (int8_t)code[3] : size);
    return *ret_size < FRAME_MOST;
}

static bool follows_call(pid_t pid, uint64_t addr)
{
    uint8_t code[6];
    return read_memory(pid, addr - sizeof code, code, sizeof code) &&
           (code[1] == 0xe8 || (code[0] == 0xff && code[1] == 0x15) || (code[4] == 0xff && code[5] >= 0xd0) ||
            (code[3] == 0xff && (code[4] & 0x38) == 0x10));
}

/* From the last frame that is known to its caller, into lines->sp, pc and bp; false: not known. */
static bool step(struct lines *lines, const struct walk *walk)
{
    uint64_t pc = walk->addrs[walk->count - 1], size, frame[2];
    uint8_t code[PROLOGUE];
    GElf_Off offset;
    GElf_Sym symbol;
    Dwfl_Module *module = dwfl_addrmodule(lines->dwfl, pc);
    if (!walk->sp || !module || !dwfl_module_addrinfo(module, pc - 1, &offset, &symbol, NULL, NULL, NULL) ||
        !read_memory(lines->pid, pc - 1 - offset, code, sizeof code) || !frame_size(code, &size))
        return false;
    uint64_t bp = walk->sp + size;
    if (!read_memory(lines->pid, bp, frame, sizeof frame) || (frame[0] && frame[0] - bp > FRAME_MOST) ||
        !follows_call(lines->pid, frame[1]))
        return false;
    lines->bp = frame[0];
    lines->pc = frame[1];
    lines->sp = bp + sizeof frame;
    return true;
}

size_t lines_callers(struct lines *lines, uint64_t sp, uint64_t pc, uint64_t *ret_addrs, size_t most)
{
    struct walk walk = {.addrs = ret_addrs, .most = most};
    lines->sp = sp;
    lines->pc = pc;
    lines->bp = 0;
    if (!lines->attached)
        lines->attached = lines->pid && dwfl_attach_state(lines->dwfl, NULL, lines->pid, &callbacks, lines);
    for (size_t i = 0, before; i < STEPS_MOST && lines->attached && walk.count < most; i++) {
        before = walk.count;
        dwfl_getthread_frames(lines->dwfl, lines->pid, each_frame, &walk);
        if (walk.count == before || !step(lines, &walk))
            break;
    }
    return walk.count;
}
