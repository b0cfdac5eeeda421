/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The job's processes: what they read and write, their open files, and what comes near a limit of theirs. Of thousands
 * some are looked at each time, one after the other; of those that did nothing less is asked.
 */
#ifndef SCRY_JOB_HEALTH_PROCESSES_H
#define SCRY_JOB_HEALTH_PROCESSES_H

#include <sched.h>
#include <sys/types.h>

#include <jansson.h>
#include <uthash.h>

#include "job/health/health.h"

enum { PROCESSES_AT_ONCE = 128, PROCESSES_LISTED = 256, PROCESSES_ENDED = 4096 };

struct process_health {
    pid_t pid, ppid;
    char name[64];
    char state;   /* the kernel's letter; 0: not looked at yet */
    bool ended;   /* its end is known: it is kept as long as it is a zombie */
    bool listed;  /* something changed since the last record */
    bool slow;    /* to read its PSS takes too long */
    uint64_t rss; /* as last seen; 0: or it has ended */
    unsigned looks;
    uint64_t cpu_ns;
    uint64_t spent_ns, waited_ns; /* as in process_motion */
    int64_t read_bytes, written_bytes, open_files;
    int64_t files_limit, cpu_limit_seconds, stack_limit; /* soft; INT64_MAX: none */
    struct alarm files, cpu, stack;
    UT_hash_handle hh;
};

struct processes {
    struct process_health *all, *next; /* hash by pid; which is looked at next */
    size_t ended;                      /* of all */
    struct alarm zombies, user_tasks;
    uint64_t looked_ns, user_looked_ns, zombies_looked_ns;
    cpu_set_t lacking; /* as in process_motion */
    /* What all of them did, as far as it was seen; for job/health/judge.h and judge.h */
    struct process_motion {
        uint64_t cpu_ns, bytes, changes; /* changes: they came, executed something, or ended */
        pid_t pid;                       /* who did something last */
        char name[64];
        bool ended;   /* of changes the last: it ended */
        bool stopped; /* all of those that were looked at last are stopped */
        bool whole;   /* each look is at all of them */
        /* Computed, at most: what a short one did counts when its parent has waited for it, maybe once more. */
        uint64_t spent_ns;
        unsigned lacking;   /* processors of those that wait for one much of the time; 0: none does, or nobody knows */
        uint64_t waited_ns; /* first threads were ready to run, and had no processor. 0: or the kernel does not say */
    } motion;
};

/* The memory of all, with pages that they share counted once (memory.c). */
struct memory {
    struct ask *ask;
    uint64_t read_ns, peak_rss; /* when it was read last; of all that was read, the most resident */
    uint64_t paid_ns;           /* until then the time was used up that it may take */
    double ns_per_byte;         /* that it took; 0: not known yet */
};

/* Looks whether it is time to read it, and whether it was: then true, with the record. Waits so long for what is being read. */
bool memory_look(struct memory *memory, struct processes *processes, const struct look *look, int wait_ms,
                 struct memory_record *ret_record);
/* Whether it is time, for processes that have so much together, and the largest so much. Pure, as memory_pay: so long took
 * it to read processes of so many bytes. */
bool memory_is_due(const struct memory *memory, uint64_t now_ns, uint64_t rss, uint64_t largest);
void memory_pay(struct memory *memory, uint64_t now_ns, uint64_t took_ns, uint64_t read_bytes);

/* It is there, or executed something. */
void processes_add(struct processes *processes, pid_t pid, pid_t ppid, const char *name);
/* Also of one that was too short to be added. */
void processes_ended(struct processes *processes, const struct look *look, pid_t pid, pid_t ppid, const char *name);
void processes_look(struct processes *processes, const struct look *look);
void processes_done(struct processes *processes);

/* [[pid, read_bytes, written_bytes, open_files, open_files_limit], ...] of those that changed since the call before;
 * NULL: none did. */
json_t *processes_json(struct processes *processes);

#endif
