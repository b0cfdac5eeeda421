/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The observer: a child of scry run that looks at what may hang or take long (files, file systems, credentials, memory
 * of processes), while scry run has signals to pass on. What it finds it sends to scry run as records. A source is one
 * thing that it looks at: a struct with functions, see below. All of them share one loop and one thread.
 *
 * The observer never touches the job: it opens, reads and stats. It may be killed at any time.
 */
#ifndef SCRY_JOB_OBSERVE_OBSERVE_H
#define SCRY_JOB_OBSERVE_OBSERVE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <uthash.h>

#include "base/data/buf.h"
#include "base/data/err.h"
#include "base/data/notes.h"
#include "base/system/loop.h"
#include "job/watch/options.h"
#include "jobdir/record/kinds.h"

/* A process of the job that lives, as far as is known: from the monitor's samples, so a short one may be missing, and
 * the command itself from the start. */
struct observed_process {
    pid_t pid, ppid;
    char name[64]; /* the kernel's, 15 bytes, as at the last change */
    double start;  /* seconds since the start of the job */
    double end;    /* once it has ended: the same, and the status as of wait(2), -1: unknown */
    int32_t status;
    const struct command_fields *command; /* the same, as far as it is known; only while that is told */
    bool lines_inside;                    /* a source tells its lines from inside; others need not */
    UT_hash_handle hh;
};

struct observer;

struct observe_source {
    const char *name; /* for the log, and in notes */
    /* Before the command is executed: its process, observer->root, already has its descriptors, limits and working
     * directory. Returns the state that the others get. NULL: nothing is to be done, or with err: it cannot be. */
    void *(*start)(struct observer *observer, struct err *err);
    /* The following may be NULL. Waits for what start has begun, which goes on while others start: such a source is the first to.
     * false: that is nothing, see above; the state is freed. */
    bool (*ready)(void *state, struct err *err);
    /* A process was first seen, or has another name (it has executed something); it ended,
     * which is all that is told of one that was too short to be seen. */
    void (*process)(void *state, const struct observed_process *process);
    void (*process_ended)(void *state, const struct observed_process *process);
    void (*tick)(void *state);                                        /* every --sample seconds, at first more often */
    void (*changed)(void *state, const char *key, const char *value); /* scry set; observer->options has it already */
    void (*ending)(
        void *state); /* the command has ended: looks at what may take a moment, while scry run asks the monitor */
    /* The command's processes are known, too: looks a last time, within a second if at all possible. Frees the state. */
    void (*end)(void *state);
    void (*late)(void *state, pid_t pid); /* ranks of MPI wait for long for that one, which computes */
};

struct observer {
    struct loop *loop;
    struct run_options *options; /* scry set changes them */
    pid_t root;                  /* the command */
    const char *dir, *cwd;       /* of the job; the observer itself is in / */
    const char *kept[2];         /* names of standard output and error in job/output/keep.h; NULL: they are not kept */
    const char *metrics;         /* where the memory for what programs say is (shm/metrics.h); NULL, "": nowhere */
    bool restarted;              /* the one before died: do not report again what it did */
    uint64_t start_ns;           /* CLOCK_MONOTONIC; "t" and "time" of records count from here */
    struct observed_process *processes; /* hash by pid */
    void *channel;                      /* job/observe/observer.c's own */
};

/* All sources, each in a room of its name; job/run/finish.c has the table. */
extern const struct observe_source health_source, logs_source, metrics_source, profile_source, python_inside,
    python_source, scripts_source;

/* Sends a record. It never blocks: past a limit of what scry run has not read yet, records are dropped, counted and
 * noted. What the row points to stays the caller's. */
void observe_put(struct observer *observer, enum record_type type, const void *row);
/* A warning. The same note may come again; the source sees to that it does not come too often. */
void observe_note(struct observer *observer, struct note note);
/* Seconds since the start of the job, for "time" in records. */
double observe_seconds(const struct observer *observer, uint64_t monotonic_ns);

#endif
