/* SPDX-License-Identifier: Apache-2.0 */
/* What traces say, for programs: .functions, .calls, .call_sites, .slowest_calls, .crash_calls, .trace of
 * doc/reference/report.schema.json. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "jobdir/text/fields.h"
#include "jobdir/text/notes_json.h"
#include "jobdir/report/functions_internal.h"
#include "jobdir/report/internal.h"
#include "jobdir/text/text.h"

const struct job_function_rank *report_function_by_rank(const struct job_functions *functions,
                                                        const struct job_function *function, struct mpi_who who)
{
    struct job_function_rank *cell, key = {.key = {function, who}};
    HASH_FIND(hh, functions->by_rank, &key.key, sizeof key.key, cell);
    return cell;
}

struct spent { /* < 0: too much is not known */
    double cpu_ns, waiting_ns, preempted_ns;
};

struct function_row {
    const struct job_function *function;
    struct spent total, self;
};

static struct spent spent_of(double ns, const struct job_spent *spent)
{
    double cpu_ns;
    if (!job_cpu_ns(ns, spent, &cpu_ns))
        return (struct spent){-1, -1, -1};
    return (struct spent){cpu_ns, spent->waiting_ns, spent->preempted_ns};
}

static const struct field count_fields[] = {
    {"name", FIELD_TEXT, FIELD_AT(struct job_function, name)},
    {"file", FIELD_TEXT, FIELD_AT(struct job_function, file), .about = "of the source; empty where it is not known"},
    {"line", FIELD_COUNT, FIELD_AT(struct job_function, line)},
    {"calls", FIELD_COUNT, FIELD_AT(struct job_function, calls)},
    {"total_ns", FIELD_NS, FIELD_AT(struct job_function, total_ns),
     .about = "with the calls in it; of a call inside another of the same function only the outer counts"},
    {"self_ns", FIELD_NS, FIELD_AT(struct job_function, self_ns), .about = "without the recorded calls in it"},
    {"min_ns", FIELD_NS, FIELD_AT(struct job_function, min_ns), .about = "of a call"},
    {"max_ns", FIELD_NS, FIELD_AT(struct job_function, max_ns), .about = "of a call"},
    {"open", FIELD_COUNT, FIELD_AT(struct job_function, open),
     .about = "calls that never ended: they count until the end of the trace"},
    {"unwound", FIELD_COUNT, FIELD_AT(struct job_function, unwound),
     .about = "calls that ended by an exception or longjmp"},
    {"counted", FIELD_COUNT, FIELD_AT(struct job_function, counted),
     .about = "calls that were only counted: their time is in total_ns only"},
    {"thinned", FIELD_COUNT, FIELD_AT(struct job_function, thinned),
     .about = "further calls, that were left out to keep the rate (--rate)"},
    {"end_missing", FIELD_COUNT, FIELD_AT(struct job_function, lost),
     .about = "calls that ended, but the record of that is missing: they count for no time"},
    {"unkept", FIELD_COUNT, FIELD_AT(struct job_function, unkept),
     .about = "of calls, those whose records were overwritten or beyond a limit: in no time"},
    {"total_unknown_ns", FIELD_NS, FIELD_AT(struct job_function, total_spent.unknown_ns),
     .about = "of total_ns, whether it had a processor is not known: why, see trace.unwatched"},
    {"self_unknown_ns", FIELD_NS, FIELD_AT(struct job_function, self_spent.unknown_ns),
     .about = "of self_ns, whether it had a processor is not known: why, see trace.unwatched"},
    {0}};

/* Of a struct function_row. */
const struct field report_function_fields[] = {
    {"", FIELD_PART, FIELD_AT(struct function_row, function), FIELD_POINTER, .of = count_fields},
    {"total_cpu_ns", FIELD_NS, FIELD_AT(struct function_row, total.cpu_ns), FIELD_NEGATIVE_IS_NULL,
     .about = "of total_ns, on a processor; null: too much is not known"},
    {"total_waiting_ns", FIELD_NS, FIELD_AT(struct function_row, total.waiting_ns), FIELD_NEGATIVE_IS_NULL,
     .about = "of total_ns, waiting: off the processors by its own will; null: too much is not known"},
    {"total_preempted_ns", FIELD_NS, FIELD_AT(struct function_row, total.preempted_ns), FIELD_NEGATIVE_IS_NULL,
     .about = "of total_ns, off the processors though it could have run; null: too much is not known"},
    {"self_cpu_ns", FIELD_NS, FIELD_AT(struct function_row, self.cpu_ns), FIELD_NEGATIVE_IS_NULL,
     .about = "of self_ns, on a processor; null: too much is not known"},
    {"self_waiting_ns", FIELD_NS, FIELD_AT(struct function_row, self.waiting_ns), FIELD_NEGATIVE_IS_NULL,
     .about = "of self_ns, waiting: off the processors by its own will; null: too much is not known"},
    {"self_preempted_ns", FIELD_NS, FIELD_AT(struct function_row, self.preempted_ns), FIELD_NEGATIVE_IS_NULL,
     .about = "of self_ns, off the processors though it could have run; null: too much is not known"},
    {0}};

static json_t *function_json(const struct field *fields, const struct job_function *function,
                             const struct job_functions *all)
{
    const struct function_row row = {.function = function,
                                     .total = spent_of(function->total_ns, &function->total_spent),
                                     .self = spent_of(function->self_ns, &function->self_spent)};
    return fields_json(fields, &row, all);
}

json_t *report_function_json(const struct job_function *function)
{
    return function_json(report_function_fields, function, NULL);
}

/* ---- by rank ---- */

static json_t *world_json(const void *row, const void *all)
{
    return json_integer((json_int_t)((const struct job_function_rank *)row)->key.who.program - 1);
}

static const struct field rank_fields[] = {
    {"rank", FIELD_COUNT, FIELD_AT(struct job_function_rank, key.who.rank)},
    {"world", FIELD_COUNT, .json = world_json, .about = "which MPI_COMM_WORLD of the job, from 0"},
    {"calls", FIELD_COUNT, FIELD_AT(struct job_function_rank, calls)},
    {"total_ns", FIELD_NS, FIELD_AT(struct job_function_rank, total_ns)},
    {"self_ns", FIELD_NS, FIELD_AT(struct job_function_rank, self_ns)},
    {0}};

static json_t *ranks_json(const void *row, const void *all)
{
    const struct job_functions *functions = all;
    json_t *list = json_array();
    for (size_t i = 0; i < functions->rank_count; i++) {
        const struct job_function_rank *cell =
            report_function_by_rank(functions, ((const struct function_row *)row)->function, functions->ranks[i]);
        if (cell)
            json_array_append_new(list, fields_json(rank_fields, cell, all));
    }
    return list;
}

static const struct field function_by_rank_fields[] = {
    {"", FIELD_PART, .of = report_function_fields},
    {"ranks", FIELD_LIST, .json = ranks_json, .of = rank_fields,
     .about = "of programs that use MPI: the same by rank, those that called it"},
    {0}};

/* ---- calls ---- */

static json_t *caller_json(const void *row, const void *all)
{
    const struct job_function *caller = ((const struct job_edge *)row)->key.caller;
    return text_json(caller ? caller->name : NULL);
}

static const struct field callee_fields[] = {{"function", FIELD_TEXT, FIELD_AT(struct job_function, name)}, {0}};

static const struct field edge_fields[] = {
    {"caller", FIELD_TEXT, .flags = FIELD_OR_NULL, .json = caller_json, .about = "null: none recorded"},
    {"", FIELD_PART, FIELD_AT(struct job_edge, key.function), FIELD_POINTER, .of = callee_fields},
    {"calls", FIELD_COUNT, FIELD_AT(struct job_edge, calls)},
    {"total_ns", FIELD_NS, FIELD_AT(struct job_edge, total_ns)},
    {0}};

struct slow_row {
    const struct job_slow_call *call;
    const struct job_function *function;
    int32_t world;
    struct spent spent;
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
    {"cpu_ns", FIELD_NS, FIELD_AT(struct slow_row, spent.cpu_ns), FIELD_NEGATIVE_IS_NULL,
     .about = "of the duration, on a processor; null: that is not known"},
    {"waiting_ns", FIELD_NS, FIELD_AT(struct slow_row, spent.waiting_ns), FIELD_NEGATIVE_IS_NULL,
     .about = "of the duration, waiting: off the processors by its own will; null: that is not known"},
    {"preempted_ns", FIELD_NS, FIELD_AT(struct slow_row, spent.preempted_ns), FIELD_NEGATIVE_IS_NULL,
     .about = "of the duration, off the processors though it could have run; null: that is not known"},
    {0}};

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

/* ---- all ---- */

static json_t *complete_json(const void *row, const void *all)
{
    return json_boolean(!((const struct job_functions *)row)->incomplete);
}

static json_t *problem_texts(const void *row, const void *all)
{
    json_t *texts = json_array(), *note;
    size_t index;
    json_array_foreach(((const struct job_functions *)row)->problems, index, note)
    {
        json_array_append(texts, json_object_get(note, "text"));
    }
    return texts;
}

static const struct field trace_fields[] = {
    {"events", FIELD_COUNT, FIELD_AT(struct job_functions, events), .about = "recorded"},
    {"discarded", FIELD_COUNT, FIELD_AT(struct job_functions, discarded), .about = "that found no room"},
    {"waits_ran_out", FIELD_COUNT, FIELD_AT(struct job_functions, waits_ran_out),
     .about = "how often a thread waited for room in vain (--overflow wait)"},
    {"waits_dropped", FIELD_COUNT, FIELD_AT(struct job_functions, waits_dropped),
     .about = "how many of discarded were dropped after such a wait"},
    {"overwritten", FIELD_COUNT, FIELD_AT(struct job_functions, overwritten),
     .about = "recorded, but given way to later ones in the flight recorder"},
    {"bytes", FIELD_BYTES, FIELD_AT(struct job_functions, bytes), .about = "on disk"},
    {"cost_seconds", FIELD_SECONDS, FIELD_AT(struct job_functions, cost_seconds),
     .about = "estimated time that recording took in the traced threads; at most what the job used of the processors, "
              "and, where nothing is missing, what its functions took"},
    {"threads_omitted", FIELD_COUNT, FIELD_AT(struct job_functions, threads_omitted),
     .about = "threads that there was no place for"},
    {"functions_omitted", FIELD_COUNT, FIELD_AT(struct job_functions, functions_omitted),
     .about = "calls of functions that there was no place for"},
    {"too_deep", FIELD_COUNT, FIELD_AT(struct job_functions, too_deep),
     .about = "calls that were deeper than can be followed"},
    {"processes", FIELD_COUNT, FIELD_AT(struct job_functions, processes), .about = "that have a trace"},
    {"complete", FIELD_BOOL, .json = complete_json, .about = "false: only a part was read"},
    {"thinned", FIELD_COUNT, FIELD_AT(struct job_functions, thinned),
     .about = "calls that were left out to keep the rate (--rate)"},
    {"min_time_ns", FIELD_NS, FIELD_AT(struct job_functions, min_time_ns),
     .about = "shorter calls were left out (--min-time); 0: none"},
    {"max_depth", FIELD_COUNT, FIELD_AT(struct job_functions, max_depth),
     .about = "deeper calls were left out (--max-depth); 0: none"},
    {"problems", FIELD_LIST, .json = problem_texts, .of = fields_texts},
    {"notes", FIELD_LIST, FIELD_AT(struct job_functions, problems), .of = notes_fields,
     .about = "the problems with what is known of each; said: only a text"},
    {"unwatched", FIELD_LIST, FIELD_AT(struct job_functions, unwatched), .of = fields_texts,
     .about =
         "programs of which it is not known when their threads had a processor, or not for all of the time, and why"},
    {0}};

static json_t *list_json(const void *row, const void *all)
{
    json_t *list = json_array();
    for (const struct job_function *each = ((const struct job_functions *)row)->functions; each; each = each->hh.next)
        json_array_append_new(list, function_json(function_by_rank_fields, each, row));
    return list;
}

static json_t *edges_json(const void *row, const void *all)
{
    json_t *list = json_array();
    for (const struct job_edge *each = ((const struct job_functions *)row)->edges; each; each = each->hh.next)
        json_array_append_new(list, fields_json(edge_fields, each, row));
    return list;
}

static json_t *slowest_json(const void *row, const void *all)
{
    const struct job_functions *functions = row;
    json_t *list = json_array();
    for (size_t i = 0; i < functions->slowest_count; i++) {
        const struct job_slow_call *call = &functions->slowest[i];
        struct slow_row slow = {call, call->function, (int32_t)call->who.program - 1, {-1, -1, -1}};
        if (call->timed)
            slow.spent = (struct spent){call->time.cpu_ns, call->time.waiting_ns, call->time.preempted_ns};
        json_array_append_new(list, fields_json(slow_fields, &slow, row));
    }
    return list;
}

static json_t *crashes_json(const void *row, const void *all)
{
    const struct job_functions *functions = row;
    return fields_list(crash_fields, functions->crashes, functions->crash_count, sizeof *functions->crashes, row);
}

/* Of a struct job_functions. */
const struct field report_trace_fields[] = {
    {"functions", FIELD_LIST, .json = list_json, .of = function_by_rank_fields,
     .about = "recorded functions over all processes, most own time first"},
    {"calls", FIELD_LIST, .json = edges_json, .of = edge_fields, .about = "who calls whom, most time first"},
    {"call_sites", FIELD_LIST, .json = report_sites_json, .of = report_site_fields,
     .about = "where functions are called from, at most 100, most time first"},
    {"slowest_calls", FIELD_LIST, .json = slowest_json, .of = slow_fields,
     .about = "the ten that took longest, at most three of a function"},
    {"crash_calls", FIELD_LIST, .json = crashes_json, .of = crash_fields,
     .about = "of traced threads that got a fatal signal"},
    {"trace", FIELD_OBJECT, .of = trace_fields,
     .about = "what tracing recorded and cost; all 0 where nothing was traced"},
    {0}};

void job_functions_json(json_t *report, const struct job_functions *functions)
{
    static const struct job_functions none;
    fields_add(report, report_trace_fields, functions ? functions : &none, NULL);
}

void report_trace_json(json_t *object, const struct job_report *report)
{
    job_functions_json(object, report->functions);
}
