/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_JOBDIR_ANALYSIS_SAMPLED_H
#define SCRY_JOBDIR_ANALYSIS_SAMPLED_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/data/buf.h"
#include "jobdir/mpi/waiting.h"

/*
 * Where a job used processors, and where it waited, by samples: profile.json of the job and its parts (profile/profile.h writes it), added up.
 * Safe on any bytes.
 */

struct sampled_line {
    uint32_t line;
    uint64_t self, total; /* samples: in it; in it or in what was called there */
};

#define SAMPLED_PROGRAM SIZE_MAX /* instead of a function: none */

struct sampled_function {
    const char *name;   /* NULL: only the module is known, if at all */
    const char *module; /* "": code of no file; the kernel */
    const char *file;   /* ""; not known */
    uint32_t line;
    const char *language; /* "native", "python", "javascript", "jit", "kernel", "process", "thread" */
    uint64_t self, total; /* samples: in it; in it or in what it called */
    uint64_t processes;   /* in which it was sampled */
    double self_seconds, total_seconds;
    double waiting_seconds;           /* of threads: in it, or in a library that it called for that */
    double waits[WAITING_KINDS];      /* the same by what they waited for */
    const struct sampled_line *lines; /* of its file, where they are known, by their numbers; of all processes */
    size_t line_count;
    size_t below; /* of a library: the program's function nearest above it that has most of its own samples; */
    uint64_t below_samples; /* so many. SAMPLED_PROGRAM: none */
    size_t place;           /* inside sampled.c */
};

struct sampled_process {
    const char *part; /* of the job on another node: its directory's name; "": the job's own */
    const char *name;
    int64_t pid;
    uint64_t samples;
    double seconds, waiting_seconds;
    size_t most; /* the function with most of its samples; SAMPLED_PROGRAM: none */
};

struct sampled_share { /* of a node that a thread has */
    size_t node;
    uint64_t samples;
    double seconds; /* of waiting */
};

struct sampled_thread { /* of a process in which others than the first ran or waited */
    size_t process;
    const char *name;
    int64_t tid;
    uint64_t samples;
    double seconds, waiting_seconds;
    size_t first, shares; /* in shares; where there were too many there are none */
    size_t most; /* the function with most of its samples, or in which it waited most; SAMPLED_PROGRAM: not known */
};

/* A function as it was called, and what it called: a step of a path. */
struct sampled_node {
    int64_t parent;              /* a node before it; < 0: -1 - its process, of merged ones -1 */
    size_t function;             /* SAMPLED_PROGRAM: none */
    size_t process;              /* of merged ones the first */
    uint64_t self, total;        /* samples: in it; in it and what it called */
    double own_seconds, seconds; /* of waiting: likewise */
};

struct sampled_wait {
    size_t node;
    enum waiting_for what;
    double seconds;
};

struct sampled_cell { /* a node in a span of time; seconds after the start of the job */
    size_t node;
    double from, to;
    uint64_t samples;
    double seconds; /* of waiting */
};

struct sampled_window {
    double from, to;
};

struct sampled {
    unsigned hz;
    bool kernel;         /* the kernel's time is in it */
    const char *refused; /* why there are times of processes and of Python, in units of 1/hz, and no samples; NULL */
    uint64_t samples, lost;
    double seconds, cpu_seconds;        /* of processor time: what the samples stand for; all there was */
    double cost_seconds;                /* that sampling took itself */
    double waiting_seconds;             /* of threads that count (doc/howto/where-the-time-goes.md) */
    struct sampled_function *functions; /* those with most samples of their own first */
    size_t count;
    struct sampled_process *processes;
    size_t process_count;
    struct sampled_node *nodes; /* as they are in the files, callers before what they call */
    size_t node_count;
    struct sampled_wait *waits;
    size_t wait_count;
    struct sampled_cell *cells; /* none in files of versions that did not have them */
    size_t cell_count;
    struct sampled_thread
        *threads; /* the busiest ones of each file; none in files of versions that did not have them */
    size_t thread_count;
    struct sampled_share *shares;
    size_t share_count;
    struct sampled_line *lines; /* of all functions */
    json_t *documents;          /* which the texts belong to */
};

/* With that of its parts, if it may have some. 0; -ENOENT: there is none; -ENOMEM. */
int sampled_read(struct sampled **ret_sampled, const char *jobdir, bool parts);
void sampled_free(struct sampled *sampled); /* NULL is fine */

/* The cells of this part began so many seconds later. */
void sampled_shift(struct sampled *sampled, const char *part, double seconds);
/* From now on samples, waiting and the figures of functions are those of these processes (NULL: of all), and of the spans that have
 * their middle in the window, as far as cells say it: then it is not known what was waited for (NULL: of all the time). 0 or -ENOMEM. */
int sampled_choose(struct sampled *sampled, const bool *processes, const struct sampled_window *window);
/* From now on nodes have only what these threads have come to, of all the time; for what and when they waited is not known. The figures
 * of functions are those again after sampled_choose. */
void sampled_choose_threads(struct sampled *sampled, const bool *threads);
/* The paths of these processes (NULL: of all) as one tree, malloc'ed, callers before what they call. Its roots are the programs.
 * brief: a function that calls itself is one node, and what starts programs and threads is none. 0 or -ENOMEM. */
int sampled_merge(const struct sampled *sampled, const bool *processes, bool brief, struct sampled_node **ret_nodes,
                  size_t *ret_count);
/* What a process waited for nearly all of its last `seconds`, if it waited for nothing else so long: appends "waits for a lock in
 * take (a.c:12)". false: that is not known. `jobdir`: of the job, or the part of it, that ran it. */
bool sampled_put_stood(struct buf *out, const char *jobdir, int64_t pid, double seconds);

/* Appends "solve (model.c:12)", a very long name cut, "in libm.so.6", "the kernel". */
void sampled_put_name(struct buf *out, const struct sampled_function *function);
/* Of one of a library appends what it is below: "heat (heat.c:12)", "heat (heat.c:12) and others"; else nothing. */
void sampled_put_below(struct buf *out, const struct sampled *sampled, const struct sampled_function *function);

/* A step of a folded stack: semicolons have a meaning there. */
void folded_put_step(struct buf *out, const char *name);
/* Appends folded stacks, `python3;main;solve 12`: a line a path, with its samples. */
void sampled_put_folded(struct buf *out, const struct sampled *sampled);
/* Appends a Profile of pprof (github.com/google/pprof, proto/profile.proto), not compressed: samples and nanoseconds, labelled
 * with the process. */
void sampled_put_pprof(struct buf *out, const struct sampled *sampled);
/* Appends a file of speedscope.app (www.speedscope.app/file-format-schema.json): processor time and waiting of all processes, and the
 * processor time of each, in seconds, with files and lines. */
void sampled_put_speedscope(struct buf *out, const struct sampled *sampled, const char *title);

#endif
