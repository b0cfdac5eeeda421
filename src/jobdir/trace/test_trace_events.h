/* SPDX-License-Identifier: Apache-2.0 */
/* For tests: what a cursor gives of a trace made record by record, as text. After cmocka.h. */
#ifndef SCRY_JOBDIR_TRACE_TEST_TRACE_EVENTS_H
#define SCRY_JOBDIR_TRACE_TEST_TRACE_EVENTS_H

#include "jobdir/trace/test_trace.h"
#include "jobdir/trace/trace.h"

struct place {
    char root[64], dir[256];
    struct made made;
    struct buf problems;
    struct trace *trace; /* closed at the end; NULL: none */
};

static inline int set_up(void **state)
{
    struct place *place = calloc(1, sizeof *place);
    made_root(place->root, place->dir);
    *state = place;
    return 0;
}

static inline int tear_down(void **state)
{
    struct place *place = *state;
    made_root_remove(place->root);
    made_done(&place->made);
    buf_done(&place->problems);
    trace_close(place->trace);
    free(place);
    return 0;
}

static inline void note(void *ctx, const char *text)
{
    struct place *place = ctx;
    buf_printf(&place->problems, "%s\n", text + strlen(place->dir));
}

static inline struct trace *open_it(struct place *place)
{
    struct trace *trace;
    struct err err = {0};
    place->problems.len = 0;
    assert_int_equal(trace_open(&trace, place->dir, note, place, &err), 0);
    return trace;
}

static inline const char *how_name(enum trace_exit how)
{
    static const char *const names[] = {"returned", "unwound", "lost", "open"};
    return names[how];
}

/* One line an event: time thread[/stack] depth what. */
static inline void put_event(struct buf *out, const struct trace *trace, const struct trace_event *event)
{
    const struct trace_function *function = trace_function(trace, event->function);
    const struct trace_function *caller = trace_function(trace, event->caller);
    const char *name = function ? function->name : "?";
    buf_printf(out, "%llu %u", (unsigned long long)event->time, event->thread->tid);
    if (event->stack)
        buf_printf(out, "/%u", event->stack);
    buf_printf(out, " %u ", event->depth);
    if (event->kind == TRACE_ENTRY)
        buf_printf(out, "+%s <%s", name, caller ? caller->name : "-");
    else if (event->kind == TRACE_EXIT)
        buf_printf(out, "-%s %s %llu%s", name, how_name(event->how),
                   (unsigned long long)(event->time - event->entry_time), event->alone ? " alone" : "");
    else if (event->kind == TRACE_GAP)
        buf_printf(out, "gap %llu", (unsigned long long)event->lost);
    else if (event->kind == TRACE_SIGNAL)
        buf_printf(out, "signal %d %llx", event->number, (unsigned long long)event->address);
    else if (event->kind == TRACE_MARK)
        buf_printf(out, "mark %.*s", (int)event->text_len, event->text);
    else
        buf_printf(out, "thinned %s", name);
    if (event->values)
        buf_printf(out, " v%d%s", *(const unsigned char *)event->values, event->layout ? "" : "?");
    if (event->caller_values)
        buf_printf(out, " c%d%s", *(const unsigned char *)event->caller_values, event->caller_layout ? "" : "?");
    buf_putc(out, '\n');
}

static inline void put_all(struct buf *out, const struct trace *trace, struct trace_cursor *cursor)
{
    struct trace_event event;
    int code;
    while ((code = trace_next(cursor, &event)) == 1)
        put_event(out, trace, &event);
    assert_int_equal(code, 0);
}

static inline void check(struct place *place, const char *expected, const char *problems)
{
    struct trace *trace = open_it(place);
    struct trace_cursor *cursor;
    struct err err = {0};
    struct buf out = BUF_INIT;
    assert_int_equal(trace_cursor_new(&cursor, trace, false, &err), 0);
    put_all(&out, trace, cursor);
    assert_string_equal(out.data ? out.data : "", expected);
    if (problems)
        assert_string_equal(place->problems.data && place->problems.len ? place->problems.data : "", problems);
    trace_cursor_free(cursor);
    trace_close(trace);
    buf_done(&out);
}

/* Ends the packet, and checks the trace of this one stream. */
static inline void check_stream(struct place *place, const char *expected, const char *problems)
{
    made_end(&place->made);
    made_stream(&place->made, place->dir, "stream-0000");
    check(place, expected, problems);
}

/* A packet in which main calls solve, and that calls step. */
static inline void begin_in_step(struct made *made)
{
    made_begin(made, 7, 100);
    made_enter(made, 100, 1);
    made_enter(made, 110, 2);
    made_enter(made, 115, 3);
}

#endif
