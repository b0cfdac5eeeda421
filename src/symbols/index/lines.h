/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From addresses to functions, files and lines, inlined calls included, by the symbol tables and DWARF of a process's
 * load modules (elfutils). Loading debug information takes time and memory: used in short-lived children and commands,
 * never in the monitor. Nothing is fetched from the network: opening removes DEBUGINFOD_URLS from the environment.
 * One thread at a time.
 */
#ifndef SCRY_SYMBOLS_INDEX_LINES_H
#define SCRY_SYMBOLS_INDEX_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/data/err.h"

struct lines;

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

#endif
