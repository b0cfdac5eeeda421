/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel's log says of processes that faults or a lack of memory ended (arch/x86/mm/fault.c, arch/x86/kernel/traps.c,
 * mm/oom_kill.c), and which code of a file a line means. Only what is sure is taken: numbers of the first pid namespace mean nothing in
 * another one; a file is the one if its code is that of the log, or if it lies as the log says and is older than the process.
 * Lines are any bytes: programs choose their names.
 */
#ifndef SCRY_JOB_RUN_KERNEL_LOG_H
#define SCRY_JOB_RUN_KERNEL_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { LOGGED_CODE = 64 };
enum { LOGGED_PRESENT = 1, LOGGED_WRITE = 2, LOGGED_FETCH = 16 }; /* of `error`: the processor's bits of a page fault */

struct logged {
    pid_t pid; /* of a fault the thread's */
    char name[32];
    int signo;            /* SIGKILL: for lack of memory, and of what follows nothing is known */
    bool addressed;       /* a memory access failed: */
    uint64_t address;     /* there */
    uint32_t error;       /* so */
    uint64_t ip, sp;      /* registers */
    char file[256];       /* in which the code is, without directories; "": not known */
    uint64_t start, size; /* where that part of it is mapped */
    bool has_offset;      /* newer kernels say: */
    uint64_t offset;      /* in the file, of ip */
    size_t code_count;    /* what lies around ip; 0: not known */
    size_t code_at;       /* ip's place in it */
    uint8_t code[LOGGED_CODE];
};

bool logged_parse(struct logged *ret_logged, const char *line);
/* The line that follows one of a SIGSEGV: "Code: 48 83 <c7> 04 ...". */
bool logged_parse_code(struct logged *logged, const char *line);

struct logged_thread {
    pid_t tid;
    const char *name; /* NULL: any */
};
/* The last line of one of these threads from `since_ns` to `until_ns` (CLOCK_MONOTONIC). Waits for nothing. false: there is none, or
 * the log may not be read. */
bool logged_find(struct logged *ret_logged, const struct logged_thread *threads, size_t count, uint64_t since_ns,
                 uint64_t until_ns);

/* Whether this is the file that the line means. unchanged_ns: when its process began (CLOCK_REALTIME). *ret_bias: what is added to the
 * file's addresses in memory; ret_instruction: the bytes at ip, zeros where there are none. */
enum { LOGGED_INSTRUCTION = 2 };
bool logged_is_of(const struct logged *logged, const char *path, uint64_t unchanged_ns, uint64_t *ret_bias,
                  uint8_t ret_instruction[LOGGED_INSTRUCTION]);

/* What is wrong, where the line alone says so; NULL: it does not. */
const char *logged_reason(const struct logged *logged);

#endif
