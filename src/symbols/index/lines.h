/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_SYMBOLS_INDEX_LINES_H
#define SCRY_SYMBOLS_INDEX_LINES_H

#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uthash.h>

#include "base/data/buf.h"
#include "base/data/err.h"

/*
 * From addresses to functions, files and lines, inlined calls included, by the symbol tables and DWARF of a process's
 * load modules (elfutils). Loading debug information takes time and memory: used in short-lived children and commands,
 * never in the monitor. Nothing is fetched from the network: opening removes DEBUGINFOD_URLS from the environment.
 * One thread at a time.
 */

struct lines;

/* As dwfl_standard_find_debuginfo, for all that ask elfutils for debug information in files of their own; where there is none,
 * debuginfod is not asked. Whoever has made a program says what that file is called: nothing is looked for in other directories, nor
 * opened where beside the program is no file. */
#define DEBUG_ROOT "/usr/lib/debug"
int debuginfo_find(Dwfl_Module *module, void **user, const char *name, Dwarf_Addr base, const char *file,
                   const char *link, GElf_Word crc, char **ret_path);

/* What a process has loaded now; nothing of it is stopped. -ESRCH when it is gone, -EACCES when it may not be read. */
int lines_open_process(struct lines **ret_lines, pid_t pid, struct err *err);

/* Files with the addresses they are loaded at: `bias` is added to the addresses in the file. Files that cannot be read
 * are left out; -ENOENT when none is left. */
struct lines_module {
    const char *path;
    uint64_t bias;
};
int lines_open_modules(struct lines **ret_lines, const struct lines_module *modules, size_t count, struct err *err);

/*
 * Where a thread of a process that was opened is blocked, innermost first: its program counter, then addresses to which
 * calls return. Nothing is stopped, so of its registers only these two are known (/proc/PID/task/TID/syscall), which is
 * enough for the way out of libraries; it ends at the first frame that needs others. Returns how many there are.
 */
size_t lines_callers(struct lines *lines, uint64_t sp, uint64_t pc, uint64_t *ret_addrs, size_t most);

/* The same of a thread of which more is known. *ret_whole (may be NULL): it goes out to where the thread began. */
enum { LINES_REGISTERS = 17 }; /* by DWARF's numbers; the last is the program counter */
struct lines_thread {
    uint64_t sp, pc;
    const uint64_t *registers; /* NULL: only sp and pc are known */
    const void *stack;         /* a copy of the memory from sp on; what lies deeper is read from the process */
    size_t stack_size;
};
struct lines_registers { /* of a frame */
    uint64_t values[LINES_REGISTERS];
    uint32_t known; /* bits by their numbers */
};
/* ret_registers: of each address; NULL: not wanted. */
size_t lines_unwind(struct lines *lines, const struct lines_thread *thread, uint64_t *ret_addrs,
                    struct lines_registers *ret_registers, size_t most, bool *ret_whole);

/*
 * Registers and stacks of threads that run, without stopping them: the kernel's clock event interrupts each where it
 * is, copies both, and lets it go on (perf_event_open(2): PERF_SAMPLE_REGS_USER, PERF_SAMPLE_STACK_USER). That takes
 * some microseconds, which nothing in the program sees: no signal, no interrupted system call.
 */
enum {
    SAMPLE_STACK = 16384, /* bytes of the stack, at most */
    SAMPLE_BATCH = 8,     /* threads at once: what all users may lock in memory is little */
};

struct sample {
    pid_t tid;
    int code; /* 0; -EAGAIN: it did not run; -EACCES: not permitted; other -errno */
    uint64_t registers[LINES_REGISTERS];
    size_t stack_size;
    char stack[SAMPLE_STACK];
};

/* What such a record has of the thread behind its head: PERF_SAMPLE_REGS_USER of SAMPLE_REGISTERS, then
 * PERF_SAMPLE_STACK_USER. The stack lies in the bytes. false: there are no registers, or they are cut. */
#define SAMPLE_REGISTERS UINT64_C(0xff01ff)
bool sample_decode(const void *bytes, size_t size, uint64_t ret_registers[LINES_REGISTERS], const char **ret_stack,
                   size_t *ret_stack_size);

/* Of at most SAMPLE_BATCH threads, whose tid is set. Returns when all have run, or SAMPLE_WAIT_MS are over. */
void samples_take(struct sample *samples, size_t count);

/*
 * The call frame information of one ELF file (.eh_frame, else .debug_frame): for an address, where the caller's registers
 * are. Elfutils reads it; what it says of an address is kept, so that a second look costs some 50 ns. For stacks that are
 * looked at again and again; lines_unwind is for single ones. One thread at a time.
 */
struct cfi;

/* Of an open file, which it closes at once: what it needs is copied. -1: the vdso, that of this process. NULL: it is no ELF file, or
 * nothing in it is executed, or there is no memory. A file without such information, or with more than 64 MB of it, is fine: nothing
 * is known of its frames then. */
struct cfi *cfi_open(int fd);
void cfi_free(struct cfi *cfi); /* NULL is fine */

/* The address of what lies at this offset of the file. false: it is not executed. */
bool cfi_address(const struct cfi *cfi, uint64_t offset, uint64_t *ret_address);

/* Reads a word of the thread's stack. false: it cannot be read. */
typedef bool cfi_read_fn(void *ctx, uint64_t address, uint64_t *ret_word);

enum cfi_step {
    CFI_CALLER,    /* the registers are the caller's now */
    CFI_OUTERMOST, /* nobody called it */
    CFI_UNKNOWN,   /* there is no information, or it asks for what is not known */
};

/* From a frame to its caller. address: of the instruction, in the file; of a return address that minus 1. bias: what is
 * added to the file's addresses in memory. *ret_interrupted: the caller's program counter is where a signal interrupted it,
 * and no return address. */
enum cfi_step cfi_step(struct cfi *cfi, uint64_t address, uint64_t bias, struct lines_registers *inout_registers,
                       cfi_read_fn *read, void *ctx, bool *ret_interrupted);

/* The load module of an address: its file, and where its first address lies. NULL: there is none. */
const char *lines_module(struct lines *lines, uint64_t addr, uint64_t *ret_start);
/* What is added to the addresses in that file. false: there is none, or it cannot be read. */
bool lines_bias(struct lines *lines, uint64_t addr, uint64_t *ret_bias);

void lines_close(struct lines *lines);

/* A function that the address belongs to. */
struct line_frame {
    char *function; /* demangled where the C++ library is installed; NULL: unknown */
    char *file;     /* with its directory; NULL: unknown */
    unsigned line;  /* 0: unknown */
    unsigned column;
    uint64_t offset; /* of the address from the function's start; 0 in inlined ones */
    bool inlined;    /* its code is a part of the next frame's */
};
struct line_location {
    char *module;              /* the file that the address is in; NULL: none, and no frames */
    struct line_frame *frames; /* the innermost inlined function first, the function with the code last; at least one */
    size_t count;
};

/* Finds what is at the address. Pass return addresses minus 1: a call may be the last instruction of its line. Unknown
 * addresses are no error: module is NULL. -ENOMEM. */
int lines_find(struct lines *lines, uint64_t addr, struct line_location *ret_location);
void line_location_done(struct line_location *location);

/* A function around an address by its debug information. */
struct line_function {
    Dwarf_Die die; /* as long as the lines are open */
    uint32_t
        line; /* where in it the address is, or the call that is inlined there; 0: not known, or not in its own file */
};
/* The file that a function is declared in, as its unit has it; NULL: none is known. dwarf_decl_file takes 0 for none, which is a file's
 * number from DWARF 5 on: that of clang for the unit's own. */
const char *lines_declared_in(Dwarf_Die *function);
/* Inlined functions, the innermost first, then the one with the code. The same is around all addresses from *ret_low on, before
 * *ret_high. Returns how many there are; 0: nothing is known there. */
size_t lines_around(struct lines *lines, uint64_t addr, struct line_function *ret_functions, size_t most,
                    uint64_t *ret_low, uint64_t *ret_high);

/*
 * Units whose debug information lies in a file of its own (DWARF 5, 3.1.2; gcc and clang -gsplit-dwarf): the program
 * has a skeleton with the addresses and lines, the .dwo file beside the object all the rest.
 */

/* What a unit describes: of a skeleton what is in its file, of others the unit itself. False: the file is not there, or
 * not the one that belongs to the program. */
bool unit_content(Dwarf_Die *unit, Dwarf_Die *ret_content);
/* Where the file of a skeleton should be; "": the unit does not say. */
void unit_put_file(Dwarf_Die *skeleton, struct buf *out);
/* Why the content is not available: one line. program: the path of the file with the skeleton. */
void unit_put_missing(Dwarf_Die *skeleton, const char *program, struct buf *out);

/* What libdwfl asks while it unwinds a thread, for all that do so. */
struct unwind_state {
    pid_t pid;
    struct lines_registers registers; /* the program counter is always known */
    const void *stack;                /* a copy of memory */
    uint64_t stack_addr;
    size_t stack_size;
    bool (*read_memory)(struct unwind_state *state, uint64_t addr, void *room, size_t size); /* of what is not in it */
};
/* Once for a Dwfl that is of a process; the state is borrowed. false: dwfl_errmsg says why. */
bool unwind_attach(Dwfl *dwfl, struct unwind_state *state);

/* Inside symbols: what lines.c and core.c share of elfutils' libdwfl. */

struct line_path {
    const char *directory, *file; /* as the debug information has them */
    char *path;
    UT_hash_handle hh;
};

struct lines {
    Dwfl *dwfl;
    struct scopes *scopes;   /* of the units and modules that were asked for */
    struct line_path *paths; /* that were looked at */
    struct {
        uint64_t start, end;
        char *name;
    } symbol;      /* the last that was found */
    pid_t pid;     /* of lines_open_process */
    bool attached; /* to its state */
    struct unwind_state state;
};

/* A core file's stacks are named with a struct lines of their own, which has a dwfl and nothing else. */
void lines_forget(struct lines *lines); /* what was kept for the next one */

/* Debug information is looked for beside the file and under /usr/lib/debug only. */
void symbols_stay_local(void);

#endif
