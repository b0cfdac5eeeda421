/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a trace is read. trace/trace.c finds traces, and has what stands beside the streams; trace/stream.c takes one file apart,
 * packet by packet and record by record, with reads into a window (a file that shrinks or cannot be read is an error, not a
 * signal); trace/stream.c merges the streams by time; trace_calls.c pairs entries and exits.
 */
#ifndef SCRY_JOBDIR_TRACE_INTERNAL_H
#define SCRY_JOBDIR_TRACE_INTERNAL_H

#include <uthash.h>

#include "jobdir/trace/calls.h"
#include "jobdir/trace/trace.h"
#include "jobdir/trace/switches.h"
#include "shm/record.h"

enum {
    TRACE_META_LIMIT = 1 << 30, /* bytes of one file beside the streams */
    TRACE_THREADS = 1 << 20,
    TRACE_STACKS = 1 << 20, /* beyond the threads' own */
    TRACE_DEPTH = 1 << 20,  /* calls inside each other that are paired */
    TRACE_CALLS = 16 << 20, /* of all threads together */
    TRACE_PROBLEMS = 100,   /* reported of one trace */
    TRACE_OPEN_FILES = 256, /* streams kept open; the others are opened for each read */
    TRACE_HEADS = 512,      /* bytes read where only the heads of packets are wanted */
    TRACE_WINDOW_MIN = 8 << 10,
    TRACE_WINDOW_MAX = 64 << 10,
    TRACE_WINDOWS = 64 << 20, /* of all streams together, as long as the smallest do */
};
#define TRACE_STREAM "stream-" /* and a number of four digits or more */

struct trace_meta { /* one read piece of a file; strings point into it */
    struct trace_meta *next;
    char text[];
};

struct trace_pair {
    const char *key, *value;
};

struct trace_layout_entry {
    const char *text;
    struct layout *layout; /* parsed when first asked for */
    bool bad;
};

struct trace_module {
    uint64_t start, end, bias;
    const char *key;
    struct index *index; /* opened when first asked for */
    bool looked;
};

struct trace {
    char *path, *node;
    pid_t pid;
    struct trace_meta *texts, *process;
    struct trace_pair *pairs;
    size_t pair_count;
    struct trace_function *functions; /* by id; name NULL: none */
    size_t function_room;
    struct trace_layout_entry *layouts; /* by id */
    size_t layout_room;
    struct trace_module *modules;
    size_t module_count, module_room;
    struct trace_place *places; /* by number; module NULL: none */
    size_t place_room;
    uint64_t places_tried;                                            /* see trace_place_function */
    uint64_t functions_read, places_read, layouts_read, modules_read; /* bytes of the files */
    const struct trace_function **by_address;                         /* sorted; made when first asked for */
    size_t by_address_count;
    uint64_t ticks_per_second, tick_zero_ns;
    double ns_per_tick;
    size_t thread_count;
    bool running;       /* says .process */
    struct trace *rest; /* what follows under a later monitor; NULL */
    trace_problem_fn *problem;
    void *problem_ctx;
    unsigned problems_told;
};

const char *trace_own_value(const struct trace *trace, const char *key); /* of this one, whatever follows */
/* The function of an entry's place; UINT32_MAX: not known. The file is read on for it if `tried` is another number
 * than the last time. */
uint32_t trace_place_function(struct trace *trace, uint32_t number, uint64_t tried);
void trace_tell(struct trace *trace, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- calls ---- */

#define TRACE_UNKNOWN_CALLS UINT32_MAX /* for the packet: of calls that end after a gap without a name */

struct trace_call {
    union {
        uint32_t function;
        uint32_t unknown; /* TRACE_UNKNOWN_CALLS: it stands for so many */
    };
    uint32_t packet; /* in which it was entered: number in its stream */
    uint64_t entry_time;
};

struct trace_stack {
    uint32_t number;
    struct trace_call *calls;
    size_t depth, room; /* of `calls` */
    uint64_t more;      /* calls than `depth`: what TRACE_UNKNOWN_CALLS stand for beyond one each */
    uint64_t beyond;    /* open calls that are not kept */
    size_t keep;        /* at a gap: so many outermost calls are open after it, too */
    UT_hash_handle hh;
};

struct trace_thread_state {
    struct trace_thread thread;
    uint64_t key; /* serial << 32 | tid */
    struct trace_stack own;
    struct trace_stack *others; /* hash by number */
    UT_hash_handle hh;
};

/* ---- streams ---- */

enum trace_step { STEP_END, STEP_THREAD_ENDS, STEP_PACKET, STEP_RECORD };

struct trace_restored { /* a call that began where packets are missing, and ends later */
    uint32_t stack, function;
    uint64_t entry_time;
    uint32_t unknown; /* so many calls: all that is known is that they ended */
};

struct trace_stream {
    struct trace *trace;
    char *name;
    size_t index; /* order of those with the same time */
    int fd;
    bool kept_open, told, broken;
    uint64_t size;   /* as last read */
    uint64_t offset; /* in the file, of window[0] */
    uint8_t *window;
    size_t room, have, at;
    uint64_t packet_at, records_end, packet_end; /* offsets in the file */
    uint32_t packet_number;
    bool skip, cut;                   /* the rest of the packet is passed over; the file ends within it */
    uint64_t discarded, next_seq;     /* next_seq: the number that the next packet has, if none is missing */
    bool gap, gap_looked, gap_closed; /* packets are missing before this one; how far that was dealt with */
    struct trace_restored *restored;  /* after the gap: outermost first */
    size_t restored_count, restored_at;
    struct packet_head head; /* of the packet it is in, or comes to (STEP_THREAD_ENDS, STEP_PACKET) */
    struct trace_thread_state *thread;
    struct trace_stack *stack; /* NULL: its records are passed over */
    /* what comes next */
    enum trace_step step;
    uint64_t time;  /* of the step; never goes back */
    uint64_t clock; /* in the packet */
    uint32_t id;
    const uint8_t *payload;
    size_t left; /* bytes of the packet in the window from payload on */
    /* the caller's locals for the entry that comes */
    uint8_t *caller;
    uint32_t caller_layout, caller_size;
    bool has_caller;
};

/* Looks how large the file is now. */
void trace_stream_look(struct trace_stream *stream, size_t window, bool keep_open);
/* Goes on to the next step. `consumed` bytes of the payload were taken. In follow mode a packet that is not complete is
 * waited for. */
void trace_stream_advance(struct trace_stream *stream, size_t consumed, bool follow);
/* Makes sure that so many bytes of payload are in the window: false if the packet has no more. */
bool trace_stream_need(struct trace_stream *stream, size_t size);
/* Passes over the rest of the packet. */
void trace_stream_skip_packet(struct trace_stream *stream, const char *reason);

/* What the records after the gap at the stream's packet say of calls that were open there: stream->restored. */
void trace_gap_look(struct trace_stream *stream);

/* ---- the cursor ---- */

/* Calls that end without a record of their own: one event each, before anything else. */
struct trace_pops {
    struct trace_thread_state *thread;
    struct trace_stack *stack;
    uint64_t count;
    enum trace_exit how;
    uint64_t time;
    bool drop; /* the call around them ends by the held event */
};

struct trace_cursor {
    struct trace *first;             /* that the cursor is of */
    bool again;                      /* it reads on from a point (trace/calls.h), and does not say what is damaged: */
    struct trace_thread_state *only; /* this thread */
    void (*point)(void *ctx, const struct trace_point *point); /* told at packets; NULL */
    void *point_ctx;
    struct trace *trace; /* the one of those that follow each other that is read */
    bool follow, looked, look_once_more, closing;
    bool function_told, layout_told, place_told; /* that one is not in the trace's files */
    bool followed; /* it began in follow mode: files may have grown since they were read */
    struct trace_stream **streams;
    size_t stream_count;
    struct trace_stream **heap; /* streams that are not at their end, by time; as much room as streams */
    size_t heap_count;
    bool go_on; /* the heap's first has been dealt with */
    size_t consumed;
    struct trace_pops pops;
    struct trace_event held; /* comes after the pops */
    bool has_held;
    struct trace_thread_state *threads; /* hash by key */
    struct trace_thread_state *closing_at;
    size_t call_count, stack_count;
    uint64_t messages[MESSAGE_KINDS]; /* so many came */
    uint64_t last_time;
    struct trace_switches *switches; /* NULL: there are none */
    struct profile_spent spent;      /* of the last event */
    bool too_deep_told, unpaired_told;
};

int trace_cursor_add_stream(struct trace_cursor *cursor, const char *name); /* 0 or -ENOMEM */
void trace_point_take(struct trace_cursor *cursor, const struct trace_stream *stream);
/* NULL: too many, or no memory. */
struct trace_thread_state *trace_thread_of(struct trace_cursor *cursor, const struct packet_head *head);
struct trace_stack *trace_stack_of(struct trace_cursor *cursor, struct trace_thread_state *thread, uint32_t number);
bool trace_stack_grow(struct trace_cursor *cursor, struct trace_stack *stack); /* by one call at least */
/* A stack of the thread with open calls, or NULL. */
struct trace_stack *trace_busy_stack(struct trace_thread_state *thread);
/* So many innermost calls have ended: their events come next, by trace_pop_next. */
void trace_pop_later(struct trace_cursor *cursor, struct trace_thread_state *thread, struct trace_stack *stack,
                     uint64_t count, enum trace_exit how, uint64_t time);
bool trace_pop_next(struct trace_cursor *cursor, struct trace_event *event);
/* What the first stream of the heap has come to. True: an event; the pops and cursor->held come before and after. */
bool trace_step_record(struct trace_cursor *cursor, struct trace_stream *stream, struct trace_event *event);
bool trace_step_packet(struct trace_cursor *cursor, struct trace_stream *stream, struct trace_event *event);

static inline uint16_t trace_u16(const uint8_t *at)
{
    uint16_t value;
    __builtin_memcpy(&value, at, sizeof value);
    return value;
}

static inline uint32_t trace_u32(const uint8_t *at)
{
    uint32_t value;
    __builtin_memcpy(&value, at, sizeof value);
    return value;
}

static inline uint64_t trace_u64(const uint8_t *at)
{
    uint64_t value;
    __builtin_memcpy(&value, at, sizeof value);
    return value;
}

#endif
