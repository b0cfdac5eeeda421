/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of service/job/follow.h: job/follow.c follows, job/follow_print.c prints. */
#ifndef SCRY_SERVICE_JOB_FOLLOW_INTERNAL_H
#define SCRY_SERVICE_JOB_FOLLOW_INTERNAL_H

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "probe/follow.h"
#include "service/job/command.h"
#include "service/job/ended.h"
#include "service/job/exits.h"
#include "service/job/follow.h"

/* A process that lives, or whose end was not reported yet. */
struct tracked {
    pid_t pid, ppid, parent; /* parent: the process that started it, also when that has ended */
    uint64_t start_ns, found_ns;
    uint64_t start_ticks; /* 0: not read yet */
    uint64_t cpu_ns;      /* of its threads that ended, by perf */
    uint64_t seen_cpu_ns; /* in /proc */
    uint64_t rss, peak_rss;
    uint64_t threads, peak_threads;
    uint64_t counted_ns;                   /* when /proc counted the threads: perf's earlier reports are included */
    uint64_t most_processes, most_threads; /* of the job, before it was added */
    int pidfd;                             /* -1: none */
    char state;                            /* 0: not read in this sample */
    bool settled;                          /* it was reported, or it runs a program of its own */
    bool over;                             /* reported as ended; a zombie that nobody has waited for yet */
    bool in_proc;                          /* this sample found it */
    uint64_t exec_ns;                      /* of its program; 0: none of its own */
    uint64_t exit_ns;                      /* its last thread that ended, by the kernel's events; 0: none */
    int exit_status;
    struct job_command *command;
    bool command_told, command_sought;
    char name[64];
    UT_hash_handle hh;
};

struct job_follow {
    pid_t root;
    uint64_t root_ticks;
    char *dir;           /* of the job; NULL: none */
    struct follow *perf; /* NULL: refused */
    bool polled;         /* each sample searches the tree */
    char reason[256];
    struct job_exits exits;
    struct tracked *alive; /* hash by pid */
    size_t pidfds;
    struct job_ended_list ended;
    uint64_t started, finished, finished_cpu_ns, lost;
    uint64_t unseen;                                           /* counted at their end, and never listed */
    uint64_t aside, aside_cpu_ns;                              /* left out: living ones, and their CPU time */
    uint64_t processes, threads, peak_processes, peak_threads; /* now, and the most at once */
};

static inline uint64_t max_count(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

struct tracked *job_follow_find(const struct job_follow *follow, pid_t pid);

#endif
