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

#include "base/data/buf.h"
#include "base/system/loop.h"
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

struct places;
struct image_file {
    struct image_file_key {
        uint32_t major, minor;
        uint64_t inode;
    } key;
    char *path;      /* as the process sees it; "[vdso]", "//anon", ... */
    char *open_path; /* that it was opened by; NULL: it was not */
    int kept;        /* the descriptor that that is of; 0: none is */
    bool opened;     /* or tried: with the first sample in it */
    struct cfi *cfi; /* NULL: it is no ELF file, or cannot be read */
    enum image_file_state state;
    struct index *index;
    struct places *places; /* NULL: nobody asks for them */
    UT_hash_handle hh;
};

struct image_mapping {
    uint64_t start, end, offset;
    struct image_file *file;
};

struct jit;
struct image_process {
    pid_t pid, parent;
    uint64_t program, looked_ns; /* of images_look: where its arguments lie, and when its mappings were read again */
    uint32_t number;             /* of what it executes now, for the profile */
    int threads, children;
    bool has_python;               /* a file of that name is mapped */
    unsigned looks;                /* for it */
    uint64_t sampled_ns;           /* first in this program; 0: not yet */
    struct python_sampler *python; /* NULL: not found */
    struct jit *jit;               /* NULL: it was in no code that it has made itself */
    char name[16];
    struct image_mapping *mappings; /* by address, none overlaps another */
    size_t count, room;
    UT_hash_handle hh;
};

/* What is known of a thread; it is looked at now and then. */
struct profile_stack;
struct image_thread {
    pid_t tid, pid;
    uint32_t number; /* for the profile: as with processes */
    char name[16];
    bool ended;             /* whoever looks at it frees it */
    bool seen, stood;       /* it was looked at; and waited then */
    bool counts;            /* what it waits for */
    uint64_t looked_ns;     /* at last; before that, when it began */
    uint64_t rest_ns;       /* that it ran, and is in no sample yet */
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

/* What follows the heads of perf's records (perf_event_open(2)). */
enum { IMAGE_RECORD_MOST = 4096 + 128 }; /* with a path */
struct image_mmap {                      /* MMAP2 */
    uint32_t pid, tid;
    uint64_t start, size, offset;
    uint32_t major, minor;
    uint64_t inode, generation;
    uint32_t protection, flags;
    char path[];
};
struct image_name { /* COMM */
    uint32_t pid, tid;
    char name[];
};
struct image_task { /* FORK, EXIT */
    uint32_t pid, parent, tid, parent_tid;
    uint64_t time;
};

/* Takes a record of perf's into account; others are none of its business. */
void images_apply(struct images *images, const struct perf_event_header *record);

/* One that is seen for the first time has no mappings, and no name. NULL: no memory. */
struct image_process *image_process_of(struct images *images, pid_t pid);
struct image_thread *image_thread_of(const struct images *images, pid_t tid); /* NULL: not known */

/* Where there are no records: looks by /proc for what is new of root and all that come from it; that a thread has ended, who looks
 * at it says. */
void images_look(struct images *images, pid_t root);
void image_thread_tell_end(struct images *images, const struct image_thread *thread);
/* Reads the mappings again if the address is in none, but not all the time. */
void image_look_again(struct images *images, struct image_process *process, uint64_t address);

/* The mapping of an address; NULL: there is none. */
const struct image_mapping *image_find(const struct image_process *process, uint64_t address);

/* The address in the mapping's file; false: it is no ELF file, or nothing of it is executed there. *ret_bias: what is added
 * to it in memory. Opens the file. */
bool image_address(const struct image_process *process, const struct image_mapping *mapping, uint64_t address,
                   uint64_t *ret_address, uint64_t *ret_bias);

/*
 * Which functions are inlined at the addresses of a file that samples were in, and in which lines they are. scry-symbols is
 * asked for those that are not known; each answer is of all addresses nearby of which the same is true. There is a limit: of
 * addresses beyond it nothing is ever known, nor of a file whose debug information is that of other code of it.
 */

struct profile_code;
struct place {
    uint64_t low, high; /* the first one behind it */
    uint32_t line;      /* in the innermost function; 0: not known */
    uint32_t count;
    struct place_call { /* innermost first; each a part of the next, the last one of the function with the code */
        const struct profile_code *code;
        uint32_t line; /* where it is called */
    } * calls;
};

struct places *places_new(void); /* NULL: no memory; may be passed on */
void places_free(struct places *places);

enum places_state { PLACES_KNOWN, PLACES_WANTED, PLACES_NEVER };
/* An address that is not known is asked for with the next request. *ret_place: of those known; NULL else. */
enum places_state places_find(struct places *places, uint64_t address, const struct place **ret_place);

/* Appends lines of a request, `address ADDRESS`, for at most so many of those that are wanted. Returns for how many. */
size_t places_ask(struct places *places, size_t most, struct buf *out);
/* An answer, and what is inlined there. */
void places_add(struct places *places, uint64_t low, uint64_t high, uint32_t line);
void places_add_call(struct places *places, const struct profile_code *code, uint32_t line);
/* What is inlined there is to count for the function that it is a part of, in that line. */
void places_add_part(struct places *places, uint32_t line);
/* All answers came, or none will come any more: of what was asked for nothing is known then. */
void places_end(struct places *places);

/*
 * What was sampled, and waited, when: cells of a node in a span of time, all spans as long as each other. There are at most
 * 200 spans, and 8192 cells, which are 200 KB: where there would be more, spans become twice as long.
 */

struct spans {
    uint64_t start_ns, width_ns;
    struct span_cell {
        uint32_t span, node, samples;
        uint64_t waited_ns;
    } * cells;
    size_t count, room;
};

void spans_init(struct spans *spans); /* they begin now */
void spans_done(struct spans *spans);
/* Without memory it is not noted. */
void spans_add(struct spans *spans, uint64_t time_ns, uint32_t node, unsigned samples);
void spans_wait(struct spans *spans, uint64_t until_ns, uint64_t waited_ns, uint32_t node);
json_t *spans_json(struct spans *spans); /* NULL: no memory */

/*
 * What the samples of all processes come to: a tree of calls for each process, with functions as nodes. Stacks wait until
 * the functions of their files, and what is inlined at their addresses, are known, or never will be. Functions of Python stand in place of the native ones that
 * interpret them; what they called in C is below them. One thread.
 *
 * As JSON, and in the job directory's profile.json (jobdir/analysis/sampled.h reads it):
 *
 *   functions   [name, module, file, line, language] each; where the name is not known it is null, and what is counted is the
 *               module. language may be missing: "native"
 *   processes   [pid, name, samples] each
 *   nodes       [parent, function, samples] each, callers before their callees. samples: of the function itself. parent: the
 *               number of a node; -1 - N: none, in process N
 *   lines       [function, line, samples, all samples] each: taken in that line of it, and there or in what was called there;
 *               as far as lines are known
 *   spans       what was when: {seconds, cells}: how long a span is, and numbers, four for each cell: of the span, from 0 on, and
 *               the node; samples; milliseconds of waiting
 *   threads     [process, tid, name, samples, seconds of waiting, cells] each, of processes in which others than the first ran or waited: the
 *               200 with most samples, or that waited longest. cells: numbers, three for each: a node; samples; milliseconds of
 *               waiting; null where they would be too many. What is missing is in the process's nodes all the same
 *   waits       [node, what, seconds] each: how long threads waited in that function, or in a library that it called for that
 *               (jobdir/mpi/waiting.h has the words of what)
 */

struct profile;

struct profile *profile_new(void);
void profile_free(struct profile *profile); /* NULL is fine */

struct profile_frame {
    struct image_file *file;         /* NULL: not known */
    uint64_t address;                /* in the file, inside of the function */
    const struct profile_code *code; /* NULL: it is a function of the file */
};

/* A function that no index has; as long as the profile lives. language: "python", or what is inlined is "native", of a module.
 * Texts are copied, but for language and module. NULL: no memory, or there are 65536, as of a program that makes new ones all the
 * time. */
struct profile_function {
    const char *function, *file, *language;
    const struct image_file *module; /* NULL: none */
    uint32_t line;
};
const struct profile_code *profile_code(struct profile *profile, const struct profile_function *function);
/* One that is none of these, though it may be called as one of them, and is called otherwise later. */
struct profile_code *profile_code_apart(struct profile *profile, const struct profile_function *function);
void profile_code_name(struct profile_code *code, const struct profile_function *function);
/* The same of code that a process has made itself, in a file of memory of which jit_is_in is true: by the name that it has
 * written for perf, or "[JIT of node]". */
const struct profile_code *jit_find(struct profile *profile, struct image_process *process, uint64_t address);
bool jit_is_in(const struct image_file *file);
/* What is to have its name from the map that the process has written at its end gets it now: before profile_free. NULL is fine. */
void jit_free(struct jit *jit);
/* V8's names of functions of JavaScript: "JS:*solve /home/me/x.js:12:3". false: it is another one. */
bool jit_name_split(const char *text, char *ret_function, char *ret_file, size_t size, uint32_t *ret_line);

struct profile_python {
    const struct profile_code *code;
    bool entry; /* as in struct python_frame */
};

struct profile_sample {
    uint64_t time_ns;                   /* when it was */
    const struct image_thread *thread;  /* NULL: not known */
    const struct profile_frame *frames; /* innermost first */
    size_t count;
    bool whole;                          /* out to where the thread began */
    bool in_kernel;                      /* the processor was in the kernel for it */
    const struct profile_python *python; /* of Python, likewise */
    size_t python_count;
    unsigned weight; /* it is so many; 0: one */
};

/* Of the agent, or another library of scry in the process: no place of the program. */
bool profile_is_scrys(const struct profile_frame *frame);

/* Copies, but for such frames. profile_keep's is of a thread that waits; the caller frees it. NULL: no memory. */
struct profile_stack *profile_keep(struct profile *profile, const struct image_process *process,
                                   const struct profile_sample *sample);
void profile_add_waiting(struct profile *profile, const struct profile_stack *stack, enum waiting_for what,
                         uint64_t waited_ns);
void profile_add(struct profile *profile, const struct image_process *process, const struct profile_sample *sample);

/* Puts waiting stacks into the tree. */
enum profile_fold {
    FOLD_NEW,     /* new ones of which all is known; the others are not looked at again */
    FOLD_LEARNED, /* before something is known that was not. Those, too, of which all is known by now */
    FOLD_ALL,     /* all, as far as is known */
};
void profile_fold(struct profile *profile, enum profile_fold which);

/* Adds "samples", "functions", "processes", "nodes", "lines", "waits", "spans", "threads", and "left_out" where there was no memory for a
 * sample. */
void profile_put(struct profile *profile, json_t *object);

/*
 * The names of it all: scry-symbols makes the indexes of files that have none, and says what is inlined. It runs in the
 * background, once at a time, so seldom that it takes little of a processor. One thread.
 */

struct names;

/* Borrows all. NULL: no memory. */
struct names *names_new(struct loop *loop, struct images *images, struct profile *profile);
void names_free(struct names *names); /* NULL is fine; ends the helper */

/* Asks for what is needed, if it is time for that, and folds. ending: there is no later. */
void names_ask(struct names *names, bool ending);
bool names_busy(const struct names *names);

#endif
