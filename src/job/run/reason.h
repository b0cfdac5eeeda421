/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why a signal killed a process: a limit of processor time, out of memory, a stack overflow, a NULL pointer. Only what
 * is certain: from what the tracer saw (--crash-stack), core files, the kernel's log (if readable), and limits.
 */
#ifndef SCRY_JOB_RUN_REASON_H
#define SCRY_JOB_RUN_REASON_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <sys/signalfd.h>

#include "base/data/buf.h"
#include "job/record/writer.h"

/* Of a SIGFPE or SIGBUS by its si_code (0: not known); NULL: nothing is known. */
const char *reason_of_code(int signo, int code);
/* "a NULL pointer", REASON_STACK, or NULL: not known. `sp`: the thread's stack pointer; 0: not known. */
#define REASON_STACK "stack overflow"
const char *reason_of_fault(int signo, uint64_t address, uint64_t sp);

/* The address of a crash as MPI's own handler of signals, which hides it from the kernel's log, has said it. false: it has not. */
bool reason_find_said(const struct job_model *model, pid_t pid, uint64_t *ret_address);

struct reason_limits { /* of a process that has ended and was not waited for yet */
    bool known;
    uint64_t soft_seconds, hard_seconds; /* RLIMIT_CPU; UINT64_MAX: none */
    uint64_t cpu_ns;
    int64_t address_bytes, data_bytes, stack_bytes; /* RLIMIT_AS, _DATA, _STACK, the soft ones; 0: none, or not known */
};
/* Of one that has not failed, only the limit of its address space: what it started may have met that. */
void reason_look(struct reason_limits *ret_limits, pid_t pid, bool failed);
/* Appends "its limit of processor time (ulimit -t 60)" if that was it; with "probably" if it was not quite reached. */
bool reason_of_limits(struct buf *out, const struct reason_limits *limits, int signo);

/* Who sent it, for people. terminal: scry run began with one. */
void reason_sender(const struct signalfd_siginfo *info, bool terminal, char *ret_sender, size_t size);
/* Notes that a signal came by which people and batch systems end jobs, or announce that: the first of each. */
void reason_signal_came(struct recorder *recorder, const struct signalfd_siginfo *info, bool terminal);

/* The job has ended. Warns if it was a run of a task that was stopped: who stops one says why beside its directory, before it sends
 * a signal (task/advance.c, task/far.c). */
void reason_task_stopped(struct recorder *recorder, const char *dir);

/* The job has failed. Appends that the interpreter of a file is not there, which a program says not to find, if it has said so: shells and
 * Python say the same where a file itself is not there. false: none has. */
bool reason_of_interpreter(struct buf *out, const struct job_model *model, const char *cwd);

#endif
