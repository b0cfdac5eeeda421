/* SPDX-License-Identifier: Apache-2.0 */
/* Single calls that a report shows: the slowest ones, and those that threads were in when they crashed. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "jobdir/report/functions_internal.h"
#include "jobdir/text/text.h"

enum { SHOWN_VALUES = 100 /* characters of a slow call's arguments, and of its result */ };

/* ---- the slowest ---- */

struct slow_row {
    const struct job_slow_call *call;
    const struct job_function *function;
    int32_t world;
    double cpu_ns, waiting_ns, preempted_ns; /* < 0: not known */
};

static const struct field slow_function_fields[] = {{"name", FIELD_TEXT, FIELD_AT(struct job_function, name)},
                                                    {"file", FIELD_TEXT, FIELD_AT(struct job_function, file)},
                                                    {"line", FIELD_COUNT, FIELD_AT(struct job_function, line)},
                                                    {0}};

static const struct field slow_call_fields[] = {
    {"duration_ns", FIELD_NS, FIELD_AT(struct job_slow_call, ns)},
    {"start_seconds", FIELD_SECONDS, FIELD_AT(struct job_slow_call, start_seconds), .about = "since the job's start"},
    {"pid", FIELD_COUNT, FIELD_AT(struct job_slow_call, pid)},
    {"thread", FIELD_COUNT, FIELD_AT(struct job_slow_call, tid)},
    {"how", FIELD_CHOICE, FIELD_AT(struct job_slow_call, how), .choices = "returned|unwound|open"},
    {"arguments", FIELD_TEXT, FIELD_AT(struct job_slow_call, arguments), FIELD_OR_NULL,
     .about = "as text; null: not recorded"},
    {"result", FIELD_TEXT, FIELD_AT(struct job_slow_call, result), FIELD_OR_NULL,
     .about = "as text; null: not recorded"},
    {"where", FIELD_TEXT, FIELD_AT(struct job_slow_call, where), FIELD_OR_NULL,
     .about = "where a call of MPI came from"},
    {"rank", FIELD_INTEGER, FIELD_AT(struct job_slow_call, who.rank), FIELD_NEGATIVE_IS_NULL, .about = "of MPI"},
    {0}};

static const struct field slow_fields[] = {
    {"", FIELD_PART, FIELD_AT(struct slow_row, function), FIELD_POINTER, .of = slow_function_fields},
    {"", FIELD_PART, FIELD_AT(struct slow_row, call), FIELD_POINTER, .of = slow_call_fields},
    {"world", FIELD_INTEGER, FIELD_AT(struct slow_row, world), FIELD_NEGATIVE_IS_NULL,
     .about = "which MPI_COMM_WORLD of the job its rank is of, from 0"},
    {"cpu_ns", FIELD_NS, FIELD_AT(struct slow_row, cpu_ns), FIELD_NEGATIVE_IS_NULL,
     .about = "of the duration, on a processor; null: that is not known"},
    {"waiting_ns", FIELD_NS, FIELD_AT(struct slow_row, waiting_ns), FIELD_NEGATIVE_IS_NULL,
     .about = "of the duration, waiting: off the processors by its own will; null: that is not known"},
    {"preempted_ns", FIELD_NS, FIELD_AT(struct slow_row, preempted_ns), FIELD_NEGATIVE_IS_NULL,
     .about = "of the duration, off the processors though it could have run; null: that is not known"},
    {0}};

static json_t *slowest_json(const void *row, const void *all)
{
    const struct job_functions *functions = row;
    json_t *list = json_array();
    for (size_t i = 0; i < functions->slowest_count; i++) {
        const struct job_slow_call *call = &functions->slowest[i];
        struct slow_row slow = {call, call->function, (int32_t)call->who.program - 1, -1, -1, -1};
        if (call->timed) {
            slow.cpu_ns = call->time.cpu_ns;
            slow.waiting_ns = call->time.waiting_ns;
            slow.preempted_ns = call->time.preempted_ns;
        }
        json_array_append_new(list, fields_json(slow_fields, &slow, row));
    }
    return list;
}

/* As far as they fit into a line that people read; --json has more of them. */
static void put_values(struct buf *out, const char *before, const char *values, const char *behind)
{
    size_t len = values ? strlen(values) : 0, shown = len ? text_fit(values, len, SHOWN_VALUES) : 0;
    buf_printf(out, "%s%.*s%s%s", before, (int)shown, len ? values : "", shown < len ? "..." : "", behind);
}

static void put_slowest(struct buf *out, const struct job_functions *functions)
{
    if (!functions->slowest_count)
        return;
    buf_printf(out, "\nSlowest calls, at most %d of a function\n", FUNCTIONS_SLOWEST_EACH);
    report_put_not_whole(out, functions, false);
    for (size_t i = 0; i < functions->slowest_count; i++) {
        const struct job_slow_call *call = &functions->slowest[i];
        text_ns_in(out, call->ns, 11);
        buf_printf(out, "  at %.6f s  ", call->start_seconds);
        text_function(out, call->function->name, call->function->file);
        put_values(out, "(", call->arguments, ")");
        if (call->result)
            put_values(out, " = ", call->result, "");
        if (call->timed && call->time.cpu_ns < 0.9 * call->ns) {
            buf_puts(out, "  ");
            call_put_time(out, &call->time);
        }
        report_put_source(out, call->function);
        if (call->where)
            buf_printf(out, "  %s", call->where);
        if (strcmp(call->how, "returned") != 0)
            buf_printf(out, "  %s", strcmp(call->how, "open") == 0 ? "still open at the end" : call->how);
        buf_puts(out, call->who.rank >= 0 ? "  " : "");
        if (call->who.rank >= 0)
            mpi_text_who(out, report_shown_who(functions, call->who));
        else if (functions->processes > 1 || call->tid != (uint32_t)call->pid)
            buf_printf(out, "  pid %d", (int)call->pid);
        if (call->tid != (uint32_t)call->pid)
            buf_printf(out, " thread %u", call->tid);
        buf_putc(out, '\n');
    }
}

/* ---- crashes ---- */

static json_t *lines_json(const char *lines)
{
    json_t *list = json_array();
    for (const char *line = lines; line && *line;) {
        const char *end = strchr(line, '\n');
        _cleanup_(freep) char *copy = end ? strndup(line, (size_t)(end - line)) : strdup(line);
        json_array_append_new(list, text_json(copy));
        line = end ? end + 1 : NULL;
    }
    return list;
}

static json_t *open_calls_json(const void *row, const void *all)
{
    return lines_json(((const struct job_crash_calls *)row)->stack);
}

static json_t *last_calls_json(const void *row, const void *all)
{
    return lines_json(((const struct job_crash_calls *)row)->last);
}

static const struct field crash_fields[] = {
    {"pid", FIELD_COUNT, FIELD_AT(struct job_crash_calls, pid)},
    {"thread", FIELD_COUNT, FIELD_AT(struct job_crash_calls, tid)},
    {"signal", FIELD_COUNT, FIELD_AT(struct job_crash_calls, signal)},
    {"address", FIELD_INTEGER, FIELD_AT(struct job_crash_calls, address)},
    {"seconds", FIELD_SECONDS, FIELD_AT(struct job_crash_calls, seconds), .about = "since the job's start"},
    {"open_calls", FIELD_LIST, .json = open_calls_json, .of = fields_texts, .about = "innermost first"},
    {"last_calls", FIELD_LIST, .json = last_calls_json, .of = fields_texts,
     .about = "that ended before, the latest first"},
    {0}};

static void put_lines(struct buf *out, const char *lines)
{
    for (const char *line = lines; line && *line;) {
        const char *end = strchr(line, '\n');
        int len = end ? (int)(end - line) : (int)strlen(line);
        buf_printf(out, "    %.*s\n", len, line);
        line = end ? end + 1 : NULL;
    }
}

bool job_functions_crash(struct buf *out, const struct job_functions *functions, pid_t pid, size_t most)
{
    for (size_t i = 0; functions && i < functions->crash_count; i++) {
        const char *line = functions->crashes[i].stack;
        if (functions->crashes[i].pid != pid || !line || !*line)
            continue;
        for (size_t shown = 0; most && line && *line; shown++) {
            const char *end = strchr(line, '\n');
            if (shown == most && end && end[1]) {
                buf_puts(out, "    ... and those around it\n");
                break;
            }
            size_t len = end ? (size_t)(end - line) : strlen(line), room = text_fit(line, len, SHOWN_VALUES);
            buf_printf(out, "    %s %.*s%s\n", shown ? "in" : "  ", (int)room, line, room < len ? "..." : "");
            line = end ? end + 1 : NULL;
        }
        return true;
    }
    return false;
}

static void put_crashes(struct buf *out, const struct job_functions *functions)
{
    for (size_t i = 0; i < functions->crash_count; i++) {
        const struct job_crash_calls *crash = &functions->crashes[i];
        char name[32];
        buf_printf(out, "\nCrash of process %d, thread %u: %s at %.6f s, address 0x%" PRIx64 "\n", (int)crash->pid,
                   crash->tid, text_signal(crash->signal, name, sizeof name), crash->seconds, crash->address);
        if (crash->stack && crash->stack[0])
            buf_puts(out, "  open calls, the innermost first\n");
        put_lines(out, crash->stack);
        if (crash->last && crash->last[0])
            buf_puts(out, "  the last ones that ended\n");
        put_lines(out, crash->last);
    }
}

void report_slowest_text(struct buf *out, const struct job_functions *functions)
{
    put_slowest(out, functions);
    put_crashes(out, functions);
}

/* Of a struct job_functions. */
const struct field report_slowest_fields[] = {
    {"slowest_calls", FIELD_LIST, .json = slowest_json, .of = slow_fields,
     .about = "the ten that took longest, at most three of a function"},
    {"crash_calls", FIELD_LIST, FIELD_ROWS(struct job_functions, crashes, crash_count), .of = crash_fields,
     .about = "of traced threads that got a fatal signal"},
    {0}};
