/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes and threads as objects. Attaching is light: a pidfd, and what /proc says. Threads get their tokens when
 * a tool first asks for them. A process that was named (by an event, by parent) but not attached keeps its token
 * while it lives.
 */
#ifndef SCRY_MONITOR_ENGINE_PROCESS_H
#define SCRY_MONITOR_ENGINE_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/data/err.h"
#include "monitor/engine/object.h"
#include "monitor/engine/tool.h"
#include "tracer/tracer.h"

struct switch_watch;
struct trace_need;
struct tracer_event;
struct csr;
struct monitor;
struct process;
struct thread;

/* ---- what the engine and event services know of tracing (monitor/tracing) ---- */

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

/* What tracing.h does for the engine: see the functions of these names. */
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

/* ---- threads and processes ---- */

/* What one tool did to one thread. */
struct thread_claim {
    struct tool *tool;
    unsigned suspends;
    bool stopped, detached;
    bool was_stopped; /* before the change that is being made */
    char rule[64];    /* event of the conditional request that stopped or suspended it last; "": the tool itself did */
    struct thread_claim *next;
};

struct thread {
    struct scry_object object;
    struct process *process;
    pid_t tid;
    struct thread_claim *claims;
    unsigned looks;               /* how many inspect its frames: it waits until they have */
    bool stopped;                 /* as the tracer was last told */
    bool exit_reported;           /* thread_has_terminated was raised */
    bool ended;                   /* it could not be stopped any more */
    int step;                     /* enum tracer_step_mode as the tracer was last told */
    char parent[TOKEN_TEXT_SIZE]; /* token of the thread that created it, where that was seen; "" */
    uint64_t start_ticks;         /* when the process was detached: with the tid, this thread and no other */
    uint64_t seen;                /* when it was last seen in /proc */
    uint64_t change;              /* of run states, that it was part of last (runstate.c) */
    UT_hash_handle hh;            /* of the process, by tid */
};

struct noted_call { /* of thread_call */
    struct tracer_call_place place;
    struct noted_call *next;
};

struct process {
    struct scry_object object;
    pid_t pid;
    uint64_t start_ticks; /* with the pid: this process and no other */
    int pidfd;            /* -1 while not attached */
    struct loop_source *exit_source;
    struct attachment *attachments;
    struct thread *threads; /* hash by tid */
    uint64_t snapshot;      /* execution that last read the list of threads */
    struct trace_state trace;
    struct noted_call *calls;       /* in progress, or left to themselves */
    struct switch_watch *switching; /* of scheduling events; NULL */
    struct loading *loading;        /* monitor/tracing/tracing.h; NULL */
    struct message_queue *queue;    /* monitor/engine/messages.h; NULL: nobody has asked for it */
    bool terminated, exit_reported;
    bool all_stopped, were_stopped; /* for proc_has_been_stopped/continued: now; since it was last continued */
    double resident_byte_seconds;   /* the memory integral and where it was last extended */
    uint64_t resident_sampled_ns;
    struct process *next_unsettled;
    bool is_unsettled;
    UT_hash_handle hh; /* by pid */
};

/* Finds or creates the object of a living process. NULL with err (-ESRCH, -ENOMEM). */
struct process *process_get(struct monitor *monitor, pid_t pid, struct err *err);
struct process *process_find(struct monitor *monitor, pid_t pid);

/* Attaches a tool; already attached is fine. Conditional requests that wait for it are armed. */
int process_attach(struct session *session, struct process *process, struct err *err);
/* Detaches a tool and releases what it did to the process. */
void process_detach(struct tool *tool, struct process *process);

/* Brings the threads up to date with /proc, once per execution (0: now). -ESRCH when the process is gone. */
int process_refresh(struct process *process, uint64_t execution);
struct thread *process_thread(struct process *process, pid_t tid); /* creates it if new; NULL: out of memory */
void thread_ended(struct thread *thread);

/* The process ended: raises what waits for that and ends the objects. */
void process_terminated(struct process *process);

/* Extends the memory integral of a process to now. */
void process_sample(struct process *process);

/* True if the tool sees the thread (attached, not detached from this thread). */
bool thread_visible(const struct thread *thread, const struct tool *tool);
struct thread_claim *thread_claim(struct thread *thread, struct tool *tool, bool create);

void process_free_all(struct monitor *monitor);

/* ---- scheduling events (switching.c) ---- */

/*
 * Scheduling events: context switches of watched processes, from the kernel's perf records, as events of the
 * specification (scheduled, descheduled, blocked, unblocked). They are reported afterwards: the thread is not held.
 */

/* event_ops.arm, .disarm and .wish of the scheduling events. */
int switching_arm(struct csr *csr, struct process *process, struct err *err);
void switching_disarm(struct csr *csr, struct process *process);
void switching_wish(struct trace_need *need);

/* The tracer is going to interrupt a thread, or to let it go on (tracer/tracer.h): that is no event. */
void switching_note(struct process *process, const struct tracer_event *raw);

/* Reads records for which no wake-up came; called by the sampler, so that no event is later than its period. */
void switching_catch_up(struct monitor *monitor);

/* Watches threads that appeared since; called by the sampler. */
void switching_refresh(struct process *process);
void switching_end(struct process *process);

#endif
