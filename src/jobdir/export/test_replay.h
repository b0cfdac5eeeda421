/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of replay, exports and reports share: made traces, and what is shown of them. */
#ifndef SCRY_JOBDIR_EXPORT_TEST_REPLAY_H
#define SCRY_JOBDIR_EXPORT_TEST_REPLAY_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/data/cleanup.h"
#include "jobdir/export/export.h"
#include "jobdir/export/replay.h"
#include "jobdir/report/functions.h"
#include "jobdir/trace/test_trace_events.h"

enum { START = 1000 }; /* wall time of tick 0, as made_trace has it */

/* main calls solve(5), through before which is not recorded, and again: once it calls norm, then it is unwound from
 * step; main never returns. */
static inline void make_solver(struct place *place)
{
    struct made *made = &place->made;
    made_begin(made, 100, 1000000);
    made_enter(made, 1000000, 1);
    made_count(made, 1001000, RECORD_CALLER_VALUES, 3);
    buf_append(&made->records, "\4\0\x2a\0\0\0", 6);
    made_enter_with(made, 1001010, 2, 1, 5);
    made_leaf(made, 1002000, 1002310, 4);
    made_exit_with(made, 1013355, 2, 1001010, 2, 12);
    made_record(made, RECORD_MARK, 1020000);
    buf_append(&made->records, "\4\0half", 6);
    made_enter_with(made, 2000000, 2, 1, 6);
    made_enter(made, 2000500, 3);
    made_count(made, 2001000, RECORD_UNWOUND, 2);
    made_end(made);
    made_stream(made, place->dir, "stream-0000");
}

static inline void open_trace(struct place *place)
{
    struct err err = {0};
    char **paths;
    size_t count;
    trace_close(place->trace);
    assert_int_equal(trace_open(&place->trace, place->dir, NULL, NULL, &err), 0);
    assert_int_equal(trace_list(place->root, &paths, &count, &err), 0);
    trace_append_all(place->trace, paths, count, NULL, NULL);
    for (size_t i = 0; i < count; i++)
        free(paths[i]);
    free(paths);
}

static inline char *replayed(struct place *place, struct replay_options options)
{
    struct replay *replay;
    struct trace_cursor *cursor;
    struct trace_event event;
    char *text = NULL;
    size_t len;
    open_trace(place);
    FILE *out = open_memstream(&text, &len);
    options.start_ns = options.start_ns ? options.start_ns : START;
    assert_int_equal(replay_new(&replay, place->trace, &options, out), 0);
    assert_int_equal(trace_cursor_new(&cursor, place->trace, false, NULL), 0);
    int code = 0;
    while (code == 0 && trace_next(cursor, &event) == 1)
        code = replay_event(replay, &event);
    assert_true(code >= 0);
    assert_int_equal(replay_idle(replay), 0);
    replay_free(replay);
    trace_cursor_free(cursor);
    assert_int_equal(fclose(out), 0);
    return text;
}

static inline void check_replay(struct place *place, struct replay_options options, const char *expected)
{
    _cleanup_(freep) char *text = replayed(place, options);
    assert_string_equal(text, expected);
}

static inline char *exported(struct place *place, const char *name)
{
    const struct export_format *format = export_format_find(name);
    struct trace_cursor *cursor;
    struct calls *calls;
    struct trace_event event;
    char *text = NULL;
    size_t len;
    assert_non_null(format);
    open_trace(place);
    struct exporter exporter = {.out = open_memstream(&text, &len), .trace = place->trace, .start_ns = START};
    struct call_visitor visitor = format->visitor;
    visitor.ctx = &exporter;
    assert_int_equal(format->begin(&exporter), 0);
    assert_int_equal(trace_cursor_new(&cursor, place->trace, false, NULL), 0);
    assert_int_equal(calls_new(&calls, place->trace, &(struct call_filter){0}, &visitor), 0);
    assert_true(!format->trace_begin || format->trace_begin(&exporter) == 0);
    while (trace_next(cursor, &event) == 1)
        assert_int_equal(calls_event(calls, &event), 0);
    assert_true(!format->trace_end || format->trace_end(&exporter) == 0);
    assert_true(!format->end || format->end(&exporter) == 0);
    export_flush(&exporter, true);
    assert_false(exporter.failed);
    if (format->done)
        format->done(&exporter);
    fclose(exporter.out);
    buf_done(&exporter.text);
    calls_free(calls);
    trace_cursor_free(cursor);
    return text;
}

#endif
