/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Backtraces by the call frame information that every x86-64 object carries (.eh_frame), by elfutils' libdwfl. The
 * thread is stopped only while its registers and the top of its stack are copied; unwinding happens on the copy, what
 * lies deeper is read from the live process. Modules are found once per address space and again when its code
 * mappings changed.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>

#include "base/data/cleanup.h"
#include "base/system/file.h"
#include "symbols/index/lines.h"
#include "tracer/tracee.h"

enum { STACK_COPY = 256 * 1024, CHUNK = 4096, REG_RSP = 7, CALLS_LIMIT = 64 };

struct unwinder {
    struct unwind_state state; /* the first member: libdwfl hands it to read_deeper */
    Dwfl *dwfl;
    char *maps; /* the lines of executable mappings */
    /* of the backtrace in progress */
    struct process *process;
    uint8_t chunk[CHUNK];
    uint64_t chunk_addr;
    size_t chunk_len;
    struct buf *frames;
    size_t count, max_depth;
    uint64_t pc;
    bool have_pc;
    struct thread *thread;
    const struct call *next; /* of tracer_call, whose frames were reported: continue below */
};

/* A process in a container or chroot has other files under the same names. */
static int open_module(pid_t pid, const char *name, char *ret_path, size_t size)
{
    if (name[0] != '/')
        return -1;
    snprintf(ret_path, size, "/proc/%d/root%s", pid, name);
    int fd = open(ret_path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        size_t len = strlen(name), deleted = strlen(" (deleted)");
        if (len > deleted && strcmp(name + len - deleted, " (deleted)") == 0) {
            snprintf(ret_path, size, "/proc/%d/exe", pid);
            char target[4096];
            ssize_t got = readlink(ret_path, target, sizeof target - 1);
            if (got > 0 && (size_t)got == len && memcmp(target, name, len) == 0)
                fd = open(ret_path, O_RDONLY | O_CLOEXEC);
        }
    }
    return fd;
}

static pid_t files_pid; /* whose backtrace is being made: libdwfl opens files when it needs them */

static int find_elf(Dwfl_Module *module, void **user, const char *name, Dwarf_Addr base, char **ret_path, Elf **ret_elf)
{
    char path[4352];
    int fd = open_module(files_pid, name, path, sizeof path);
    if (fd < 0)
        return dwfl_linux_proc_find_elf(module, user, name, base, ret_path, ret_elf); /* the vdso, from memory */
    *ret_path = strdup(path);
    return fd;
}

/* Separate debug information is never looked for: unwinding does not need it, and no server is asked. */
static int find_debuginfo(Dwfl_Module *module, void **user, const char *name, Dwarf_Addr base, const char *file,
                          const char *link, GElf_Word crc, char **ret_path)
{
    (void)module, (void)user, (void)name, (void)base, (void)file, (void)link, (void)crc, (void)ret_path;
    return -1;
}

static const Dwfl_Callbacks callbacks = {.find_elf = find_elf, .find_debuginfo = find_debuginfo};

static char *code_mappings(struct process *process)
{
    char path[64];
    _cleanup_(freep) char *text = NULL;
    size_t len;
    snprintf(path, sizeof path, "/proc/%d/maps", process_live_tid(process));
    if (file_read(path, &text, &len) < 0)
        return NULL;
    char *kept = malloc(len + 1), *to = kept;
    for (char *line = text, *end; kept && (end = strchr(line, '\n')); line = end + 1) {
        const char *perms = memchr(line, ' ', (size_t)(end - line));
        if (!perms || perms[3] != 'x')
            continue;
        memcpy(to, line, (size_t)(end + 1 - line));
        to += end + 1 - line;
    }
    if (kept)
        *to = 0;
    return kept;
}

/* Below the copy of the stack. */
static bool read_deeper(struct unwind_state *state, uint64_t addr, void *room, size_t size)
{
    struct unwinder *unwinder = (struct unwinder *)state;
    if (addr - unwinder->chunk_addr >= unwinder->chunk_len ||
        unwinder->chunk_len - (addr - unwinder->chunk_addr) < size) {
        unwinder->chunk_addr = addr;
        unwinder->chunk_len = 0;
        if (space_read_some(unwinder->process, addr, unwinder->chunk, CHUNK, &unwinder->chunk_len) < 0 ||
            unwinder->chunk_len < size)
            return false;
    }
    memcpy(room, unwinder->chunk + (addr - unwinder->chunk_addr), size);
    return true;
}

static void add_frame(struct unwinder *unwinder, uint64_t cfa)
{
    struct tracer_frame frame = {.pc = unwinder->pc, .cfa = cfa};
    buf_append(unwinder->frames, &frame, sizeof frame);
    unwinder->count++;
}

/* The canonical frame address is the stack pointer of the caller: a frame is complete when the next one is known. */
static int each_frame(Dwfl_Frame *state, void *ctx)
{
    struct unwinder *unwinder = ctx;
    Dwarf_Addr pc;
    Dwarf_Word sp = 0;
    if (!dwfl_frame_pc(state, &pc, NULL))
        return DWARF_CB_ABORT;
    if (dwfl_frame_reg(state, REG_RSP, &sp) < 0)
        sp = 0;
    if (unwinder->have_pc)
        add_frame(unwinder, sp);
    unwinder->have_pc = false;
    if (unwinder->count >= unwinder->max_depth || pc == 0)
        return DWARF_CB_ABORT;
    /* the function that was called here does not return there, but to us: it goes on with the registers from before */
    unwinder->next = space_is_call_stub(unwinder->process->space, pc) ? call_at(unwinder->thread, sp) : NULL;
    if (unwinder->next)
        return DWARF_CB_ABORT;
    unwinder->pc = pc;
    unwinder->have_pc = true;
    return DWARF_CB_OK;
}

/* ---- one backtrace ---- */

static int unwinder_refresh(struct process *process, struct err *err)
{
    struct space *space = process->space;
    files_pid = process_live_tid(process);
    char *maps = code_mappings(process);
    if (!maps)
        return err_set(err, -ESRCH, "the mappings of process %d cannot be read", process->pid);
    if (space->unwinder && strcmp(space->unwinder->maps, maps) == 0 && space->unwinder->state.pid == process->pid) {
        free(maps);
        return 0;
    }
    unwinder_free(space->unwinder);
    struct unwinder *unwinder = space->unwinder = calloc(1, sizeof *unwinder);
    if (!unwinder) {
        free(maps);
        return err_errno(err, -ENOMEM, "backtrace");
    }
    unwinder->maps = maps;
    unwinder->state = (struct unwind_state){.pid = files_pid, .read_memory = read_deeper};
    unwinder->dwfl = dwfl_begin(&callbacks);
    if (!unwinder->dwfl || dwfl_linux_proc_report(unwinder->dwfl, files_pid) != 0 ||
        dwfl_report_end(unwinder->dwfl, NULL, NULL) != 0 || !unwind_attach(unwinder->dwfl, &unwinder->state)) {
        const char *reason = dwfl_errmsg(-1);
        unwinder_free(unwinder);
        space->unwinder = NULL;
        return err_set(err, -EIO, "the modules of process %d cannot be read: %s", process->pid,
                       reason ? reason : "unknown reason");
    }
    unwinder->state.pid = process->pid;
    return 0;
}

static void copy_registers(struct unwinder *unwinder, const struct user_regs_struct *regs)
{
    unwinder->state.registers = (struct lines_registers){
        .known = (1U << LINES_REGISTERS) - 1,
        .values = {regs->rax, regs->rdx, regs->rcx, regs->rbx, regs->rsi, regs->rdi, regs->rbp, regs->rsp, regs->r8,
                   regs->r9, regs->r10, regs->r11, regs->r12, regs->r13, regs->r14, regs->r15, regs->rip}};
}

int unwind_thread(struct thread *thread, size_t max_depth, struct buf *ret_frames, bool *ret_whole, struct err *err)
{
    struct process *process = thread->process;
    int code = thread_halt(thread);
    if (code < 0)
        return err_errno(err, code, "thread %d cannot be stopped", thread->tid);
    code = thread_load_regs(thread);
    struct user_regs_struct regs = thread->regs;
    _cleanup_(freep) uint8_t *stack = malloc(STACK_COPY);
    uint64_t stack_addr = regs.rsp - RED_ZONE;
    size_t stack_len = 0;
    if (!stack || space_read_some(process, stack_addr, stack, STACK_COPY, &stack_len) < 0)
        stack_len = 0;
    thread_unpause(thread);
    if (code < 0)
        return err_errno(err, code, "the registers of thread %d cannot be read", thread->tid);
    if (process->dead || !process->threads)
        return err_set(err, -ESRCH, "process %d ended", process->pid);
    code = unwinder_refresh(process, err);
    if (code < 0)
        return code;
    struct unwinder *unwinder = process->space->unwinder;
    unwinder->process = process;
    copy_registers(unwinder, &regs);
    unwinder->state.stack = stack;
    unwinder->state.stack_addr = stack_addr;
    unwinder->state.stack_size = stack_len;
    unwinder->chunk_len = unwinder->count = 0;
    unwinder->have_pc = false;
    unwinder->frames = ret_frames;
    unwinder->max_depth = max_depth && max_depth < TRACER_FRAMES ? max_depth : TRACER_FRAMES;
    unwinder->thread = thread;
    unwinder->next = NULL;
    int ended = dwfl_getthread_frames(unwinder->dwfl, thread->tid, each_frame, unwinder);
    for (int calls = 0; unwinder->next && calls < CALLS_LIMIT; calls++) {
        copy_registers(unwinder, &unwinder->next->regs);
        unwinder->next = NULL;
        ended = dwfl_getthread_frames(unwinder->dwfl, thread->tid, each_frame, unwinder);
    }
    if (ret_whole)
        *ret_whole = ended == 0;
    if (unwinder->have_pc) /* the outermost: nobody called it */
        add_frame(unwinder, 0);
    unwinder->state.stack_size = 0;
    return ret_frames->failed ? err_errno(err, -ENOMEM, "backtrace") : 0;
}

/* ---- what is loaded ---- */

struct unwind_object {
    Dwfl_Module *module;
};

static const char *file_name(const char *path)
{
    return path ? basename(path) : "";
}

struct unwind_place unwind_place(const struct process *process, uint64_t addr)
{
    struct unwind_place place = {.file = ""};
    const struct unwinder *unwinder = process->space->unwinder;
    Dwfl_Module *module = unwinder ? dwfl_addrmodule(unwinder->dwfl, addr) : NULL;
    if (!module)
        return place;
    GElf_Off offset;
    GElf_Sym symbol;
    place.file = file_name(dwfl_module_info(module, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    place.function = dwfl_module_addrinfo(module, addr, &offset, &symbol, NULL, NULL, NULL);
    if (place.function && offset >= symbol.st_size) /* only the nearest one */
        place.function = NULL;
    return place;
}

struct objects {
    unwind_object_fn *fn;
    void *ctx;
};

static int each_object(Dwfl_Module *module, void **user, const char *name, Dwarf_Addr start, void *ctx)
{
    (void)user, (void)start;
    const struct objects *objects = ctx;
    const struct unwind_object object = {module};
    return objects->fn(objects->ctx, file_name(name), &object) ? DWARF_CB_OK : DWARF_CB_ABORT;
}

void unwind_objects(const struct process *process, unwind_object_fn *fn, void *ctx)
{
    struct objects objects = {fn, ctx};
    if (process->space->unwinder)
        dwfl_getmodules(process->space->unwinder->dwfl, each_object, &objects, 0);
}

uint64_t unwind_defined(const struct unwind_object *object, const char *name)
{
    GElf_Addr bias = 0;
    Elf *elf = dwfl_module_getelf(object->module, &bias);
    for (Elf_Scn *section = NULL; elf && (section = elf_nextscn(elf, section));) {
        GElf_Shdr header;
        if (!gelf_getshdr(section, &header) || header.sh_type != SHT_DYNSYM || !header.sh_entsize)
            continue;
        Elf_Data *data = elf_getdata(section, NULL);
        for (int i = 1; data && i < (int)(header.sh_size / header.sh_entsize); i++) {
            GElf_Sym symbol;
            if (!gelf_getsym(data, i, &symbol) || symbol.st_shndx == SHN_UNDEF || symbol.st_value == 0 ||
                GELF_ST_TYPE(symbol.st_info) != STT_FUNC || GELF_ST_BIND(symbol.st_info) == STB_LOCAL)
                continue;
            const char *found = elf_strptr(elf, header.sh_link, symbol.st_name);
            if (found && strcmp(found, name) == 0)
                return symbol.st_value + bias;
        }
    }
    return 0;
}

void unwinder_free(struct unwinder *unwinder)
{
    if (!unwinder)
        return;
    if (unwinder->dwfl)
        dwfl_end(unwinder->dwfl);
    free(unwinder->maps);
    free(unwinder);
}
