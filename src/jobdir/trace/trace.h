/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_JOBDIR_TRACE_TRACE_H
#define SCRY_JOBDIR_TRACE_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/data/buf.h"
#include "base/data/err.h"
#include "base/data/notes.h"
#include "jobdir/trace/profile.h"
#include "shm/record.h"
#include "symbols/layout/layout.h"

/*
 * Traces of a job directory: trace/NODE/PID-N/ is one CTF 1.8 trace of one process incarnation. In it:
 *
 *     metadata           TSDL; made from the three files below, rewritten atomically as they grow
 *     stream-NNNN        packets (shm/record.h); a file is one thread's at a time, reused when that ended
 *     .process           lines KEY\tVALUE: version pid ppid exe host boot_id start_ns ticks_per_second
 *                        clock_offset_ns (wall time of tick 0) tick_offset end state(exited|crashed|running|lost|
 *                        continued: in the next trace of the process, which has the ends of the calls open here)
 *                        until (the tick up to which the process was there: when it ended, or executed another program)
 *                        limited (1: it could not grow: from --max-size on, or while the disk was full)
 *                        events discarded waits_ran_out waits_dropped (of discarded, because of them) bytes cost_ns
 *                        functions_omitted flight_overwritten ... problem (a note, base/data/notes.h; may
 *                        repeat)
 *                        switches_from switches_until (ticks, between which .switches is whole) switches_bytes
 *                        switches_missing (why it is not, or not longer) switches_gone (1: for the process was gone)
 *                        of calls that were left out as was asked for: thinned (how many), min_time (ns; and
 *                        min_time_least, if that was not so all the time), max_depth
 *     .functions         lines ID ADDRESS NAME FILE LINE SIZE MODULE (tabs; backslash escapes); later lines for an ID
 *     .places            lines ID FUNCTION ADDRESS OFFSET MODULE BUILD-ID INLINED: where functions are called from, as
 *                        entries name it (RECORD_PLACE); struct trace_place. Not in older traces
 *     .layouts           lines ID TEXT (symbols/layout/layout.h)
 *     .counts            lines ID CALLS TICKS THINNED OPEN UNKEPT of functions whose calls are only counted, or not all
 *                        recorded (--rate: THINNED are missing; UNKEPT: overwritten, or beyond a limit); OPEN of the
 *                        calls have not ended, their ticks count until now; then 1 if THINNED is a lower bound; rewritten
 *
 *     .switches          when threads had no processor (jobdir/trace/switches.h)
 *
 * babeltrace2 leaves files alone whose names start with a dot. Formats carry a version in .process; newer is refused by
 * name. The readers take any bytes: what is readable is read, and `problem` says what is not.
 */

enum {
    TRACE_VERSION = 2,   /* 1: without places and statics */
    TRACE_IDS = 1 << 22, /* ids of functions and layouts are below */
};

/* ---- reading ---- */

struct trace_function {
    uint32_t id;
    uint64_t address, size;
    const char *name, *file, *module; /* name: "0x..." where none is known */
    uint32_t line;
};

/* Where a function is called from. Readers look up what the debug information says of it (job/places/place_names.h). */
struct trace_place {
    uint32_t function;
    bool inlined;              /* the function's code is a part of its caller's, and the address is in it */
    uint64_t address, offset;  /* the return address in the process, and as the file of the module has it */
    const char *module;        /* path; a name only where that cannot be opened; "": not known */
    const char *build_id;      /* hexadecimal; "": it has none */
    const char *caller, *file; /* the function that calls; "": not known */
    uint32_t line;
};

struct trace_thread {
    uint32_t tid, serial;
    size_t index; /* dense, from 0, in the trace */
};

struct trace; /* one process */

typedef void trace_problem_fn(void *ctx, const char *text);

/* Opens one trace directory. Problems that leave something to read are reported, not returned. */
int trace_open(struct trace **ret_trace, const char *path, trace_problem_fn *problem, void *ctx, struct err *err);
void trace_close(struct trace *trace);
/* Reads what the writer has added since; a cursor in follow mode does so by itself. What trace_function and
 * trace_value gave before is no longer valid. 0 or -errno. */
int trace_update(struct trace *trace, struct err *err);
/* The directories of all traces of a job, sorted by their start; malloc'ed strings in a malloc'ed array. */
int trace_list(const char *jobdir, char ***ret_paths, size_t *ret_count, struct err *err);

/* A process whose monitor was killed and started again has a trace of each. `next` goes on where `trace` ends (its
 * state is continued): appended, it is read as a part of it, with the calls that began in one and end in the other, and
 * closed with it. trace_rest: the next of those that were appended, for what each counts for itself; NULL. */
bool trace_goes_on(const struct trace *trace, const struct trace *next);
void trace_append(struct trace *trace, struct trace *next_take);
struct trace *trace_rest(const struct trace *trace);
/* Appends what is to be found of it among these paths, in order; those are freed and become NULL. */
void trace_append_all(struct trace *trace, char **paths, size_t count, trace_problem_fn *problem, void *ctx);

pid_t trace_pid(const struct trace *trace);
const char *trace_node(const struct trace *trace);
const char *trace_path(const struct trace *trace);
const char *trace_value(const struct trace *trace, const char *key); /* of .process; NULL. state: of the last one */
uint64_t trace_number(const struct trace *trace, const char *key);   /* the same as a number; 0 */
bool trace_problem(const struct trace *trace, size_t index,
                   struct kept_note *ret_note);                                      /* the writer's; false: no more */
const struct trace_function *trace_function(const struct trace *trace, uint32_t id); /* NULL: none */
/* Places have numbers below trace_place_count; NULL: none. The names are the trace's to keep: borrowed, they have to
 * stay. */
size_t trace_place_count(const struct trace *trace);
const struct trace_place *trace_place(const struct trace *trace, uint32_t number);
void trace_place_name(struct trace *trace, uint32_t number, const char *caller, const char *file, uint32_t line);
const struct layout *trace_layout(const struct trace *trace, uint32_t id);
const char *trace_layout_text(const struct trace *trace, uint32_t id);   /* NULL: none */
uint32_t trace_layout_count(const struct trace *trace);                  /* ids are below it */
bool trace_name_address(void *trace, uint64_t address, struct buf *out); /* a layout_name_fn */
/* Functions whose calls were only counted: calls and ticks in them, also of those that never ended (open); and those
 * whose calls were not all recorded: `thinned` and `unkept` are missing. 0 or -ENOMEM. */
struct trace_count {
    uint32_t function;
    uint64_t calls, ticks, thinned, open, unkept;
    bool at_least; /* thinned is: there were more */
};
typedef void trace_count_fn(void *ctx, const struct trace_count *count);
int trace_each_count(struct trace *trace, trace_count_fn *fn, void *ctx);
size_t trace_function_count(const struct trace *trace); /* ids are below it */
size_t trace_thread_count(const struct trace *trace);   /* seen by its cursor so far */
size_t trace_threads(struct trace *trace);              /* that are in it now: reads the heads of all packets */
/* The heads of all packets that are there now (shm/record.h), those of a thread in their order. */
void trace_each_packet(struct trace *trace, void (*fn)(void *ctx, const struct packet_head *head), void *ctx);
/* Wall time in ns since the epoch of a tick. */
uint64_t trace_wall_ns(const struct trace *trace, uint64_t ticks);
/* The tick at which the process ended, or up to which, at least, it is known to live. 0: not known. */
uint64_t trace_until(const struct trace *trace);
double trace_ticks_ns(const struct trace *trace, uint64_t ticks); /* a duration */

enum trace_event_kind {
    TRACE_ENTRY,
    TRACE_EXIT,    /* how says in which way */
    TRACE_SIGNAL,  /* number, code, address */
    TRACE_MARK,    /* bytes: text */
    TRACE_GAP,     /* `lost` records are missing here */
    TRACE_THINNED, /* the function's rate is limited from here on */
    TRACE_MESSAGE, /* of MPI: message, message_number; entry_time and caller are those of the call that it stands in */
};
enum trace_exit { TRACE_RETURNED, TRACE_UNWOUND, TRACE_EXIT_LOST /* returned, when is not known */, TRACE_OPEN };

struct trace_event {
    enum trace_event_kind kind;
    uint64_t time; /* ticks */
    const struct trace_thread *thread;
    uint32_t stack; /* 0: the thread's own */
    uint32_t depth; /* calls around this one on its stack, as far as recorded: 0 the outermost. With those that began
                       where packets are missing and end later without a name: they have no events of their own */
    uint32_t function;
    uint32_t place;      /* of entries: number of where it is called from; UINT32_MAX: not known */
    uint32_t caller;     /* function id around this call; UINT32_MAX: none recorded */
    uint64_t entry_time; /* of exits */
    enum trace_exit how;
    bool alone;                  /* an exit whose entry is not in the trace; an entry that is known by its exit only */
    const struct layout *layout; /* of values; NULL */
    const void *values;
    size_t values_size;
    const struct layout *caller_layout; /* of entries: the caller's locals; NULL */
    const void *caller_values;
    size_t caller_size;
    int32_t number, code;
    uint64_t address, pc; /* of signals */
    uint64_t lost;
    const char *text;
    size_t text_len;
    /* What the thread had spent without a processor until then: differences between events of the thread count. NULL:
     * it is not known, of the whole trace; so in follow mode */
    const struct profile_spent *spent;
    const struct record_message *message; /* its kind is a known one */
    uint64_t message_number;              /* the sequence number of its kind in the trace, from 0 */
};

/* All events of a trace in the order of time over its threads. Every entry gets an exit (TRACE_OPEN at trace_until, or
 * after the last record if that is not known, for those that never ended; before the exit of a call around others that
 * are open, these come as TRACE_EXIT_LOST). Valid until the next call. 1, 0 at the end, -errno. In follow mode the end
 * is not reported as TRACE_OPEN: call again later; trace_cursor_close says that there will be no more. At most one
 * cursor of a trace at a time. */
struct trace_cursor;
int trace_cursor_new(struct trace_cursor **ret_cursor, struct trace *trace, bool follow, struct err *err);
void trace_cursor_free(struct trace_cursor *cursor);
int trace_next(struct trace_cursor *cursor, struct trace_event *ret_event);
void trace_cursor_close(struct trace_cursor *cursor); /* ends follow mode */
/* Bytes of the streams that were read, of so many there are. */
void trace_cursor_progress(const struct trace_cursor *cursor, uint64_t *ret_read, uint64_t *ret_all);

/* A profile of a trace: what its events say of calls. */

static inline void profile_feed(struct profile *profile, const struct trace_event *event)
{
    uint32_t thread = event->thread->serial;
    if (event->kind == TRACE_ENTRY)
        profile_enter(profile, thread, event->stack, event->function, event->time);
    else if (event->kind != TRACE_EXIT)
        return;
    else if (event->alone)
        profile_leave_of(profile, thread, event->stack, event->function, event->entry_time, event->time);
    else if (event->how == TRACE_RETURNED || event->how == TRACE_OPEN)
        profile_leave(profile, thread, event->stack, event->time);
    else if (event->how == TRACE_UNWOUND)
        profile_unwind(profile, thread, event->stack, 1, event->time);
    else if (event->how == TRACE_EXIT_LOST)
        profile_lost(profile, thread, event->stack, 1);
}

#endif
