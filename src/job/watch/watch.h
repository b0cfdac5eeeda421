/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_JOB_WATCH_WATCH_H
#define SCRY_JOB_WATCH_WATCH_H

#include "base/data/err.h"
#include "job/record/writer.h"
#include "job/watch/functions.h"
#include "job/watch/options.h"
#include "job/watch/raise.h"
#include "job/watch/tracing.h"
#include "jobdir/record/kinds.h"

#include <limits.h>
#include <omis.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <uthash.h>

/*
 * --crash-stack: conditional requests that take the backtrace of a thread about to receive the signal of a fault, while
 * it is held, in the command and everything it starts. Most such signals end the process. If one is handled, its
 * backtrace is kept until the next one, and never shown.
 */

enum { STACKS_FRAMES = 64, STACKS_MODULES = 512, STACKS_PROCESSES = 1000 };

struct stacks_module {
    char *path;
    uint64_t code_start;
};

struct stacks_python {
    char *function, *file;
    int64_t line; /* -1: unknown */
    bool entry;   /* C called the interpreter here: the outermost of one call of it */
};

/* The backtrace of a process's last fault. */
struct stacks_entry {
    pid_t pid;
    uint64_t frames[STACKS_FRAMES]; /* innermost first; all but that are return addresses */
    size_t frame_count;
    struct stacks_module *modules;
    size_t module_count;
    struct stacks_python *python; /* where it was in a Python program, innermost first */
    size_t python_count;
    bool faulted;         /* a memory access failed: */
    uint64_t address, sp; /* its address, and the stack pointer */
    int code;             /* si_code of a SIGFPE; 0: of another, or it was sent */
    UT_hash_handle hh;
};

struct stacks {
    struct stacks_entry *entries; /* hash by pid */
    int arming;                   /* requests under way; 0: all in force or failed */
    struct err err;               /* why it does not work */
};

/* Sends the conditional requests, for processes that this tool has attached or will attach. They are in force when
 * `arming` is 0. `job`: the token from job_create. */
void stacks_arm(struct stacks *stacks, const char *job);
const struct stacks_entry *stacks_find(const struct stacks *stacks, pid_t pid);
void stacks_done(struct stacks *stacks);

/*
 * What each process has read and written, told by the kernel at the end of each of its threads: taskstats,
 * Documentation/accounting/taskstats.rst. Of all processes of the node, so it needs CAP_NET_ADMIN, and the initial
 * namespaces. Nothing is stopped; the kernel keeps what is told until it is read here. It rounds down to 1024 bytes for
 * each thread: what is said is "at least".
 */

struct bytes_ended;

struct bytes {
    int fd;                    /* -1: the kernel tells nothing, or not to us */
    struct bytes_ended *ended; /* hash by pid; of all processes that ended lately */
    unsigned turn;
};

/* Never fails: then nothing is told. */
void bytes_open(struct bytes *bytes);
/* Takes what was told. What is older than two turns is forgotten, unless its process lives on. */
void bytes_read(struct bytes *bytes, bool (*lives)(const void *ctx, pid_t pid), const void *ctx);
/* Of a process that has ended; all -1: not known. It is forgotten then. */
struct process_bytes bytes_take(struct bytes *bytes, pid_t pid);
void bytes_close(struct bytes *bytes);

/*
 * scry run as a tool of the monitor: follows the job with the services node_get_info and job_*. A sample is one
 * request, and nobody waits for its answer: the job goes on while the monitor is slow, stopped or dead. If the monitor
 * dies, it is started again, and the time between is recorded as a gap.
 */

enum watch_phase {
    WATCH_OFF,      /* no connection: try again after a while */
    WATCH_CREATING, /* job_create is under way */
    WATCH_SETTING,  /* the settings of tracing are under way */
    WATCH_IDLE,     /* following; no request under way */
    WATCH_ASKING,   /* a sample is under way */
    WATCH_TRACES,   /* the state of the traces is under way */
};

struct watch {
    enum watch_phase phase;
    struct recorder *recorder; /* borrowed */
    const char *dir;           /* of the job; borrowed */
    pid_t root;
    bool crash_stack;                  /* backtraces are wanted */
    const struct run_options *options; /* settings and rules; borrowed */
    struct rules rules;
    struct raises raises;
    struct function_watch functions;
    struct err refused;       /* why the monitor refused a setting or rule: the first one */
    struct trace_info traces; /* the last answer */
    void (*changed)(void *ctx, const char *key, const char *value); /* scry set changed the job */
    void *ctx;
    char changes[PATH_MAX + 96];   /* the request that reports it */
    char stalls[PATH_MAX + 128];   /* the one that reports MPI programs that stand still */
    char requests[PATH_MAX + 128]; /* the one that reports what somebody changed through a broker */
    char wants[PATH_MAX + 96];     /* the one that says what records somebody waits for */
    struct stacks stacks;
    struct bytes bytes;
    char token[64];
    uint64_t cursor;
    uint64_t asked_ns;    /* when the request under way was sent */
    uint64_t answered_ns; /* of the last answer: a gap starts there */
    uint64_t retry_ns;    /* when to connect again */
    unsigned tries;       /* failed in sequence */
    bool leaving;         /* watch_close came, and not watch_gone */
    uint64_t page_bytes;
    uint64_t coming; /* processes, or their ends, not reported yet */
    uint64_t lost;   /* process records, from this monitor; earlier ones: lost_before */
    uint64_t lost_before;
    uint64_t unseen, unclocked_ns; /* from this monitor: service/job/follow.h */
    bool node_known, was_up, gap_open;
    bool fresh; /* this monitor has not answered yet */
    char lost_why[256];
    char hangs[256];  /* why the last wait for an answer was in vain; "": it was not */
    Omis_reply reply; /* arrived, not yet read */
};

/* Connects, and starts the monitor if needed. 0, or -errno with err: then the job runs unwatched. */
int watch_connect(struct watch *watch, struct err *err);
/* Starts to follow the (held) process; WATCH_CREATING. */
void watch_create(struct watch *watch);
/* Requests a sample unless one is under way; connects again when it is time. */
void watch_tick(struct watch *watch);
/* Asks for the state of the traces; the answer is in `traces`. flush: write MPI statistics also for processes that live
 * on. */
void watch_ask_traces(struct watch *watch, bool flush);
/* Call it when watch_fd() is readable, and after each of the above. */
void watch_handle(struct watch *watch);
int watch_fd(const struct watch *watch); /* -1: none */
/* Waits at most timeout_ms for the answer. false: none came. */
bool watch_wait(struct watch *watch, int timeout_ms);
/* Waits until the rules that wait for recorded events have run. From then on none is raised. */
void watch_settle(struct watch *watch, int timeout_ms);
/* Takes leave of the monitor. */
void watch_close(struct watch *watch);
/* After it: waits until the monitor knows. */
void watch_gone(struct watch *watch);

#endif
