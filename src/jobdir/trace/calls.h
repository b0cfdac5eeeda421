/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_JOBDIR_TRACE_CALLS_H
#define SCRY_JOBDIR_TRACE_CALLS_H

#include "base/data/buf.h"
#include "jobdir/trace/trace.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A trace as calls: what replay and the exports share. The events of a trace (jobdir/trace/trace.h) are fed in; those
 * that pass the filter come out, each call at its beginning and its end with a place for what the visitor keeps in
 * between.
 */

struct mpi_stats_site;
struct replay_line;

struct call {
    uint32_t function, stack;
    uint32_t place; /* number of where it is called from; UINT32_MAX: not known */
    uint32_t depth; /* of shown calls around it on its stack */
    uint64_t entry_time;
    const struct trace_thread *thread;
    struct call *parent; /* the call around it, shown or not; NULL */
    struct call *around; /* the nearest around it that is shown; NULL */
    bool shown;
    bool from_exit; /* its beginning is not recorded, but when that was */
    bool has_spent;
    struct profile_spent spent;                  /* of its thread when it began (has_spent) */
    const struct layout *layout, *caller_layout; /* of its entry; NULL: none */
    /* the visitor's */
    struct buf text;                   /* empty at the beginning */
    uint32_t mark;                     /* 0 at the beginning */
    uint64_t value;                    /* likewise */
    const struct mpi_stats_site *site; /* where a call of MPI came from; NULL at the beginning */
    struct replay_line *line;          /* that it waits for; NULL at the beginning */
};

struct call_filter {
    const char *function;    /* glob over names; NULL: all */
    uint32_t thread;         /* tid; 0: all */
    uint64_t from_ns, to_ns; /* wall time in which calls begin; to_ns 0: no end */
    unsigned max_depth;      /* of shown calls inside each other; 0: no limit */
};

/* `event` is that of the beginning or end; valid during the call. Of calls whose beginning is not in the trace only the
 * end comes, event->alone. enter and other may be NULL. */
struct call_visitor {
    void (*enter)(void *ctx, struct call *call, const struct trace_event *event);
    void (*leave)(void *ctx, struct call *call, const struct trace_event *event);
    /* signals, marks, gaps, thinning; with the innermost call on its stack, shown or not, or NULL */
    void (*other)(void *ctx, const struct call *innermost, const struct trace_event *event);
    void *ctx;
};

struct calls;

int calls_new(
    struct calls **ret_calls, const struct trace *trace, const struct call_filter *filter,
    const struct call_visitor *visitor); /* 0 or -ENOMEM; the visitor and strings of the filter are borrowed */
void calls_free(struct calls *calls);
int calls_event(struct calls *calls, const struct trace_event *event); /* 0 or -ENOMEM */
/* Nothing more will be shown: the time is over and no shown call is open. */
bool calls_are_over(const struct calls *calls, const struct trace_event *event);

/* Of the time of a call that ends by `event`: on a processor, off it because the thread waited, and because others had
 * it. False: that is not known, of a hundredth of it at least. */
struct call_time {
    double cpu_ns, waiting_ns, preempted_ns;
};
bool call_time(const struct trace *trace, const struct call *call, const struct trace_event *event,
               struct call_time *ret_time);

/* How many calls passed the filter so far. */
uint64_t calls_shown(const struct calls *calls);

/* ---- how things are written ---- */

/* The function's name; where none is known "function 17". As it is in the trace: text_show it for people. */
const char *call_name(const struct trace *trace, uint32_t function, char *room, size_t size);
/* The file without its folders; "" */
const char *call_file(const struct trace *trace, uint32_t function);
/* Where the call comes from: "a.c:12", or "libc.so.6+0x2724a"; with the function that calls, if it is known, unless
 * that is the recorded one around it, or `whole`: "work a.c:12". False: it is not known, and nothing is appended. */
bool call_put_place(struct buf *out, const struct trace *trace, const struct call *call, bool whole);
/* "cpu 1.20 ms, waiting 3.00 ms, preempted 12 us": what there is a hundredth of at least, but cpu always. */
void call_put_time(struct buf *out, const struct call_time *time);
void call_put_values(struct buf *out, const struct trace *trace, const struct layout *layout, enum layout_part part,
                     const void *bytes, size_t size);
/* The same as JSON: an object, of the result its value; nothing if the layout has no such part. */
/* Appends how the function is declared, as far as its values' layouts say: `int f(int n)`. False: they do not. */
bool call_put_signature(struct buf *out, const struct trace *trace, const struct call *call,
                        const struct trace_event *end);
bool call_put_json(struct buf *out, const struct trace *trace, const struct layout *layout, enum layout_part part,
                   const void *bytes, size_t size);
/* As values of JSON: layout_format_values. */
bool call_put_json_values(struct buf *out, const struct trace *trace, const struct layout *layout,
                          enum layout_part part, const void *bytes, size_t size);
/* A JSON string; what is not UTF-8 becomes \xNN. */
void call_put_string(struct buf *out, const char *text, size_t len);
/* In words, for people and the exports: "returned", "unwound", "lost", "open". */
const char *call_how(enum trace_exit how);

/*
 * Points of a trace from which a thread can be read again, without what is before. A cursor that reads all gives one at
 * the beginning of each packet; a second cursor goes on from it, with the calls that are open there. None is given
 * where packets are missing, and where more calls are open than a point takes. A thread whose trace is continued
 * (trace_append) has its first packet there as a point again.
 */

enum { TRACE_POINT_CALLS = 1 << 12 };

struct trace_point {
    uint32_t tid, serial;
    uint32_t part, stream; /* which of the traces that follow each other, and of its files */
    uint64_t offset;       /* in the file */
    uint64_t next_seq, discarded;
    uint64_t time; /* ticks */
    uint32_t call_count, unused;
    struct trace_point_call { /* by stack, the outermost first */
        uint32_t stack, function;
        uint64_t entry_time;
    } calls[];
};

/* Called while trace_next is; the point is valid during the call. */
typedef void trace_point_fn(void *ctx, const struct trace_point *point);
void trace_cursor_points(struct trace_cursor *cursor, trace_point_fn *fn, void *ctx);

/* A cursor that gives the events of the point's thread from there on, up to the end of the thread, or of the trace that
 * the point is in: if that is continued, the calls that are open get no end. It may be used beside the other cursor of
 * the trace; message_number and spent are not known to it. What is in `point` may be wrong: then events are, too.
 * 0 or -errno with err. */
int trace_cursor_new_at(struct trace_cursor **ret_cursor, struct trace *trace, const struct trace_point *point,
                        struct err *err);

#endif
