/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_PROFILE_PROFILE_H
#define SCRY_PROFILE_PROFILE_H

#include <jansson.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uthash.h>

#include "jobdir/mpi/waiting.h"
#include "symbols/index/index.h"
#include "symbols/python/python.h"

/*
 * Which file lies where in the memory of each process, as perf's records tell it (MMAP2, COMM, FORK, EXIT), so that it is
 * known of processes that have ended before anybody could look at them. Files are kept for as long as the profile: their
 * call frame information, and their functions. One thread.
 */

enum image_file_state {
    FILE_NEW,     /* nobody asked for its functions yet */
    FILE_WAITING, /* they are being looked for */
    FILE_DONE,    /* they are known, or never will be */
};

struct image_file {
    struct image_file_key {
        uint32_t major, minor;
        uint64_t inode;
    } key;
    char *path;      /* as the process sees it; "[vdso]", "//anon", ... */
    char *open_path; /* that it was opened by; NULL: it was not */
    bool opened;     /* or tried: with the first sample in it */
    struct cfi *cfi; /* NULL: it is no ELF file, or cannot be read */
    enum image_file_state state;
    struct index *index;
    UT_hash_handle hh;
};

struct image_mapping {
    uint64_t start, end, offset;
    struct image_file *file;
};

struct image_process {
    pid_t pid, parent;
    uint32_t number; /* of what it executes now, for the profile */
    int threads, children;
    bool has_python;               /* a file of that name is mapped */
    unsigned looks;                /* for it */
    struct python_sampler *python; /* NULL: not found */
    char name[16];
    struct image_mapping *mappings; /* by address, none overlaps another */
    size_t count, room;
    UT_hash_handle hh;
};

/* What is known of a thread that is looked at now and then. */
struct profile_stack;
struct image_thread {
    pid_t tid, pid;
    bool ended;             /* whoever looks at it frees it */
    bool seen;              /* it was looked at */
    bool counts;            /* what it waits for */
    uint64_t looked_ns;     /* at last; before that, when it began */
    uint64_t ran_ns, turns; /* as they were then: how long, and how often, it was on a processor */
    enum waiting_for what;
    struct profile_stack *stack; /* where; NULL: it does not wait */
    uint64_t waited_ns;          /* there, and not yet in the profile */
    struct image_thread *next;   /* of those gone */
    UT_hash_handle hh;
};

struct images {
    struct image_process *processes;
    struct image_thread *threads, *gone; /* gone: with a stack; whose number another one has */
    struct image_file *files;
    uint32_t numbered;
    bool failed; /* no memory: something is missing */
};

void images_done(struct images *images);

/* Takes a record of perf's into account; others are none of its business. */
void images_apply(struct images *images, const struct perf_event_header *record);

/* One that is seen for the first time has no mappings, and no name. NULL: no memory. */
struct image_process *image_process_of(struct images *images, pid_t pid);

/* The mapping of an address; NULL: there is none. */
const struct image_mapping *image_find(const struct image_process *process, uint64_t address);

/* The address in the mapping's file; false: it is no ELF file, or nothing of it is executed there. *ret_bias: what is added
 * to it in memory. Opens the file. */
bool image_address(const struct image_process *process, const struct image_mapping *mapping, uint64_t address,
                   uint64_t *ret_address, uint64_t *ret_bias);

/*
 * What the samples of all processes come to: a tree of calls for each process, with functions as nodes. Stacks wait until
 * the functions of their files are known, or never will be. Functions of Python stand in place of the native ones that
 * interpret them; what they called in C is below them. One thread.
 *
 * As JSON, and in the job directory's profile.json (jobdir/analysis/sampled.h reads it):
 *
 *   functions   [name, module, file, line, language] each; where the name is not known it is null, and what is counted is the
 *               module. language may be missing: "native"
 *   processes   [pid, name, samples] each
 *   nodes       [parent, function, samples] each, callers before their callees. samples: of the function itself. parent: the
 *               number of a node; -1 - N: none, in process N
 *   waits       [node, what, seconds] each: how long threads waited in that function, or in a library that it called for that
 *               (jobdir/mpi/waiting.h has the words of what)
 */

struct profile;

struct profile *profile_new(void);
void profile_free(struct profile *profile); /* NULL is fine */

struct profile_frame {
    struct image_file *file; /* NULL: not known */
    uint64_t address;        /* in the file, inside of the function */
};

/* A function of Python; as long as the profile lives. NULL: no memory. */
struct profile_code;
const struct profile_code *profile_code(struct profile *profile, const struct python_code *code);
struct profile_python {
    const struct profile_code *code;
    bool entry; /* as in struct python_frame */
};

struct profile_sample {
    const struct profile_frame *frames; /* innermost first */
    size_t count;
    bool whole;                          /* out to where the thread began */
    bool in_kernel;                      /* the processor was in the kernel for it */
    const struct profile_python *python; /* of Python, likewise */
    size_t python_count;
};

/* Copies. profile_keep's is of a thread that waits; the caller frees it. NULL: no memory. */
struct profile_stack *profile_keep(struct profile *profile, const struct image_process *process,
                                   const struct profile_sample *sample);
void profile_add_waiting(struct profile *profile, const struct profile_stack *stack, enum waiting_for what,
                         uint64_t waited_ns);
void profile_add(struct profile *profile, const struct image_process *process, const struct profile_sample *sample);

/* Puts waiting stacks into the tree: those of whose files all are FILE_DONE. all: the others, too, as far as their functions
 * are known. */
void profile_fold(struct profile *profile, bool all);

/* Adds "samples", "functions", "processes", "nodes", "waits", and "left_out" where there was no memory for a sample. */
void profile_put(const struct profile *profile, json_t *object);

#endif
