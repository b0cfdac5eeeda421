/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the engine and event services know of tracing: what a process needs of the tracer, how the tracer is set up, and
 * what tracing.h does for the engine, which does not know it otherwise.
 */
#ifndef SCRY_MONITOR_ENGINE_TRACE_NEED_H
#define SCRY_MONITOR_ENGINE_TRACE_NEED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/data/err.h"
#include "tracer/tracer.h"

struct csr;
struct monitor;
struct process;
struct thread;
struct tool;

struct trace_break {
    uint64_t addr;
    uint64_t csr_serial;
    struct csr *csr;         /* only valid while needs are computed */
    uint64_t program_serial; /* which of csr's programs the tracer runs there; 0: none, hits are reported */
    uint8_t original;
};

struct trace_need {
    bool any; /* the process must be seized */
    struct tracer_watch watch;
    struct trace_break *breaks;
    size_t break_count, break_cap;
    bool failed; /* out of memory */
};

struct trace_state { /* how the tracer is set up now */
    bool seized;
    struct tracer_watch watch;
    struct trace_break *breaks;
    size_t break_count, break_cap;
    unsigned holds; /* events being handled for threads of this process */
};

/* See the functions of these names in tracing.h, runstate.h and loading.h. */
struct monitor_tracing {
    int (*update)(struct process *process, struct csr *csr, struct err *err);
    void (*unsettle)(struct process *process);
    void (*settle)(struct monitor *monitor);
    void (*stop)(struct monitor *monitor);
    bool (*lost)(const struct monitor *monitor);
    void (*forget_call)(struct process *process, uint64_t slot);
    void (*inspect_done)(struct thread *thread);
    void (*release)(struct tool *tool, struct process *process);
    void (*loading_ended)(struct process *process, int code);
};

#endif
