/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program scry-view: reads one job directory, and answers what only pictures ask (doc/reference/api.json).
 *
 *     scry-view JOBDIR
 *
 * Questions come on standard input, one JSON object a line, `{"id": 7, "ask": "tiles", "level": 3, ...}`; answers go to
 * standard output, one a line, as soon as they are known, so not always in the order of the questions:
 * `{"id":7,"ok":{...}}` or `{"id":7,"error":{"kind":"...","text":"..."}}`. `id` is any integer. Members are as in the
 * table of questions (ask.c); a number may also stand as a text of its digits, as in a URL. The kinds of errors are
 * `bad_question` (what was asked is wrong), `not_found` (there is no such thing in the job), `no_trace` (the job recorded
 * nothing that could answer), `unreadable`, `out_of_memory` and `forgotten`: `{"id": 7, "ask": "forget"}` means that nobody
 * waits for the answer to question 7. If it has not been answered, that is its answer, and no work is done for it any
 * more; there is no other answer to it. It ends with standard input, when all is answered.
 *
 * One thread. Between questions it reads the traces, a slice at a time; a question that needs what is not read yet waits
 * in a list while others are answered. What is found fills a pyramid (pyramid.h) for each lane; where few calls are in a column
 * nothing is kept, and the trace is read again from a point nearby (lane.h). So memory depends on lanes and depths, not on the
 * number of calls. Of a job that is over all of it is kept for the next time (picture.h); nobody makes that before the first look,
 * for it would run beside the next task. Everything in a job directory may be damaged or made up: readers take any bytes,
 * and what grows with the job has a limit.
 */
#ifndef SCRY_WEB_VIEW_VIEW_H
#define SCRY_WEB_VIEW_VIEW_H

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>
#include <uthash.h>

#include "base/data/buf.h"
#include "base/data/err.h"
#include "jobdir/analysis/messages.h"
#include "jobdir/report/report.h"
#include "jobdir/trace/calls.h"
#include "jobdir/trace/trace.h"
#include "web/view/pyramid.h"

enum {
    VIEW_LINE = 64 << 10,     /* bytes of a question */
    VIEW_PENDING = 256,       /* questions that wait */
    VIEW_LANES = 1 << 16,     /* threads that are shown */
    VIEW_FUNCTIONS = 1 << 20, /* different ones */
    VIEW_ENDS = 16 << 20,     /* sends, receives and parts of collectives that are kept */
    VIEW_SLICE = 1 << 14,     /* events between two looks at the questions */
    VIEW_NOTES = 16 << 10,    /* bytes of notes */
};

/* What a function does with the time: of a picture's colours, and of the sums by class. */
enum view_class {
    VIEW_COMPUTE,
    VIEW_P2P,
    VIEW_WAIT, /* only in sums: for another rank; of what is no rank, without a processor */
    VIEW_COLLECTIVE,
    VIEW_ONESIDED,
    VIEW_IO,
    VIEW_OTHER,
    VIEW_CLASSES,
};
const char *view_class_name(enum view_class class);
enum view_class view_class_of(uint32_t call); /* of a call of MPI */

struct view_function {
    char *key; /* name, file, line */
    const char *name, *file;
    uint32_t line, number; /* number: in the list */
    enum view_class class;
    uint8_t valued; /* 1: some of its calls have arguments, locals or a result */
    UT_hash_handle hh;
};

struct view_lane {         /* a thread */
    struct view_lane_key { /* no padding */
        uint64_t trace;
        uint32_t tid, serial;
    } key;
    uint32_t number; /* in the list */
    int32_t rank;    /* of the thread that is a rank; -1: it is none */
    uint32_t world;
    int64_t from_ns, to_ns; /* as far as its packets say */
    uint32_t depth;         /* most calls inside each other so far */
    uint64_t calls;         /* so far */
    struct view_point {     /* where it can be read again, by time */
        int64_t ns;
        struct trace_point *point;
    } * points;
    size_t point_count, point_room;
    struct pyramid_lane *pyramid; /* NULL: no event of it was read */
    UT_hash_handle hh;
};

struct view_trace {
    int32_t rank; /* -1: it is none */
    uint32_t world, rank_thread;
    uint32_t *functions; /* by id: 1 + the number in the list of functions; 0: not looked up */
    size_t function_room;
    uint64_t bytes; /* of its packets */
    /* While the job runs: what is open was so until then; INT64_MAX: as long as is known of the job. */
    int64_t until_ns;
};

struct view {
    char job[PATH_MAX];
    /* Called now and then while a question is answered that takes long; false: nobody waits for it any more. NULL: not. */
    bool (*between)(void *ctx);
    void *between_ctx;
    uint64_t events_again;    /* that were read for questions */
    struct job_report report; /* its functions and messages when they were asked for */
    bool running;
    uint64_t key; /* of its files, as they were (saved_key); 0: it runs */
    struct view_trace *traces;
    struct trace **list;            /* the same for readers of many */
    size_t trace_count, path_count; /* path_count: of traces, also those that follow others */
    struct mpi_programs programs;
    struct timeline timeline; /* the common one, as far as it is known */
    struct view_function *functions, **function_list;
    size_t function_count, function_room;
    struct view_lane *lanes, **lane_list;
    size_t lane_count, lane_room;
    int64_t from_ns, to_ns; /* of the picture */
    int64_t until_ns;       /* up to here something is known; while the job runs this is less than to_ns */
    uint64_t bytes;         /* of all packets */
    uint64_t point_bytes;   /* between two points of a lane, at least */
    struct pyramid pyramid;
    struct pass *pass;   /* over the traces; NULL: none has begun */
    bool complete;       /* it is over, or need not be made */
    double progress;     /* of it */
    struct buf notes;    /* texts that end with a NUL: what is missing, and what to do */
    json_t *python;      /* functions of Python, as the report lists them; NULL: not read */
    struct tree *trees;  /* of processes: a list; NULL: not read */
    struct lines *lines; /* messages and operations by time; NULL: not read */
    struct whole *whole; /* answers about all of it; NULL: none */
    bool messages_done;  /* that was tried */
    bool mpi_named;      /* the places that calls of MPI come from were looked up */
    struct err functions_err;
};

/* Another moment of a question that takes long: 0, or -ECANCELED: give it up. */
static inline int view_between(const struct view *view)
{
    return view->between && !view->between(view->between_ctx) ? -ECANCELED : 0;
}

/* ---- pass.c ---- */

/* Opens a job directory: its report without traces, its traces, the threads in them. Of a job that is over, also what
 * was kept the last time (web/view/picture.h): then it is complete. 0, or -errno with err. */
int view_open(struct view *ret_view, const char *path, struct err *err);
void view_close(struct view *view);
/* Of a job that ran when it was opened: it has ended, or has more processes or ranks. Then it is to be opened again. */
bool view_has_changed(const struct view *view);
/* Reads what questions may need besides, with `progress` called now and then. 0, or -errno with err. */
int view_load_functions(struct view *view, void (*progress)(void *ctx, double share), void *ctx, struct err *err);
int view_load_messages(struct view *view, void (*progress)(void *ctx, double share), void *ctx, struct err *err);
/* In the list of functions; UINT32_MAX: there are too many, or no memory. */
uint32_t view_function(struct view *view, size_t trace, uint32_t id);
/* By its name, file and line; made if need be. NULL likewise. */
struct view_function *view_function_named(struct view *view, const char *name, const char *file, uint32_t line);
/* The same of any trace; NULL. */
struct view_function *view_function_in(struct view *view, const struct trace *trace, uint32_t id);
/* The lane of a thread; made if need be. NULL: there are too many, or no memory. */
struct view_lane *view_lane(struct view *view, size_t trace, uint32_t tid, uint32_t serial);
/* Notes a line that the answers have among their notes, once. */
void view_note(struct view *view, const char *line);
/* How many ranks its MPI programs had, as those say that are known; only where there is a report of MPI. */
int64_t view_ranks_wanted(struct view *view);

/* ---- lane.c: what goes between lanes ---- */

/* Keeps of the messages what is drawn and added up. 0 or -ENOMEM. */
int lines_make(struct view *view, const struct mpi_messages *messages);
void lines_free(struct view *view);
/* The members of a tile that say what goes between its lanes. Before they are read: none. 0 or -ENOMEM. */
int lines_put(struct buf *out, const struct view *view, const bool *lanes, int64_t from, int64_t to);
void lines_sum(const struct view *view, const bool *lanes, int64_t from, int64_t to, uint64_t *ret_count,
               uint64_t *ret_bytes);
/* Of the whole job: messages with both ends, and collective operations. */
void lines_count(const struct view *view, uint64_t *ret_messages, uint64_t *ret_collectives);
/* A call of MPI waited for another rank; times as in the picture. */
struct line_wait {
    int64_t begin, until;
    uint32_t lane;
    enum view_class class; /* of the call */
};
const struct line_wait *lines_waits(const struct view *view, size_t *ret_count);

/* ---- profile.c ---- */

/* Keeps the call tree of a process, as its profile has it. */
void tree_take(void *view, const struct job_traced *process, const struct trace *trace, const struct profile *profile);
void tree_free(struct view *view);

/* Whole nanoseconds, as reports have them: the rest is cut off. */
static inline int64_t view_ns(double ns)
{
    return (int64_t)ns;
}
static inline int64_t view_samples_ns(const struct sampled *sampled, uint64_t samples)
{
    return view_ns((double)samples / sampled->hz * 1e9);
}

/* ---- picture.c: an answer is written as text ---- */

void view_put_text(struct buf *out, const char *text);         /* a JSON string; NULL: null */
void view_put_notes(struct buf *out, const struct view *view); /* the list */

#endif
