/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Points of a trace from which a thread can be read again, without what is before. A cursor that reads all gives one at
 * the beginning of each packet; a second cursor goes on from it, with the calls that are open there. None is given
 * where packets are missing, and where more calls are open than a point takes. A thread whose trace is continued
 * (trace_append) has its first packet there as a point again.
 */
#ifndef SCRY_JOBDIR_TRACE_POINT_H
#define SCRY_JOBDIR_TRACE_POINT_H

#include "jobdir/trace/trace.h"

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
