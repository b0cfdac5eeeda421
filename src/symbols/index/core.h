/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a core file has about a crash (core(5)): which process, by which signal, and for each thread where it was, with
 * functions, files and lines. Like lines.h for short-lived children and commands; DEBUGINFOD_URLS is removed.
 */
#ifndef SCRY_SYMBOLS_INDEX_CORE_H
#define SCRY_SYMBOLS_INDEX_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/data/err.h"
#include "symbols/index/lines.h"

enum { CORE_FRAMES = 256 }; /* of a thread at most; endless recursions have 100 000 */

struct core_frame {
    uint64_t pc;
    struct line_location where; /* of pc, or of the call before it */
};

struct core_thread {
    pid_t tid;
    int signo; /* that it was about to take; only the crashing thread's means something */
    struct core_frame *frames;
    size_t count;
    bool cut;         /* there are more frames than CORE_FRAMES */
    char *incomplete; /* why the stack could not be followed to its end; NULL: it could */
};

struct core {
    pid_t pid;
    int signo, code;             /* that ended the process, and its si_code; 0: it was sent, or that is not known */
    uint64_t sp;                 /* of the thread that crashed */
    bool faulted;                /* by an address of its own: SIGSEGV and SIGBUS of a page */
    uint64_t fault_addr;         /* si_addr of SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP; else 0 */
    char name[16];               /* of the process */
    char *program;               /* path of the executable; NULL: unknown */
    struct core_thread *threads; /* the crashing one first */
    size_t count;
};

/* `program`: the executable, or NULL to use the one named in the core. -ENOEXEC: not a core file of this machine's
 * kind. A core that was cut short (limit, full disk) gives what is in it. */
int core_read(struct core **ret_core, const char *path, const char *program, struct err *err);
void core_free(struct core *core);

#endif
