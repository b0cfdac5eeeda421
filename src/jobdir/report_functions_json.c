/* SPDX-License-Identifier: Apache-2.0 */
/* What traces say, for programs: .functions, .calls, .slowest_calls, .crash_calls, .trace of
 * doc/reference/report.schema.json. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "jobdir/report_functions_internal.h"
#include "jobdir/text.h"

const struct job_function_rank *report_function_by_rank(const struct job_functions *functions,
                                                        const struct job_function *function, struct mpi_who who)
{
    struct job_function_rank *cell, key = {.key = {function, who}};
    HASH_FIND(hh, functions->by_rank, &key.key, sizeof key.key, cell);
    return cell;
}

/* .NAMEcpu_ns and so on; null where too much is not known. */
static void set_spent(json_t *row, const char *prefix, double ns, const struct job_spent *spent)
{
    double cpu_ns;
    bool known = job_cpu_ns(ns, spent, &cpu_ns);
    const struct {
        const char *name;
        double ns;
        bool known;
    } values[] = {{"cpu_ns", cpu_ns, known},
                  {"waiting_ns", spent->waiting_ns, known},
                  {"preempted_ns", spent->preempted_ns, known},
                  {"unknown_ns", spent->unknown_ns, true}};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s%s", prefix, values[i].name);
        json_object_set_new(row, name, values[i].known ? json_integer((json_int_t)values[i].ns) : json_null());
    }
}

json_t *report_function_json(const struct job_function *function)
{
    json_t *row = json_pack("{s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "name",
                            text_json(function->name), "file", text_json(function->file), "line",
                            (json_int_t)function->line, "calls", (json_int_t)function->calls, "total_ns",
                            (json_int_t)function->total_ns, "self_ns", (json_int_t)function->self_ns, "min_ns",
                            (json_int_t)function->min_ns, "max_ns", (json_int_t)function->max_ns, "open",
                            (json_int_t)function->open, "unwound", (json_int_t)function->unwound, "counted",
                            (json_int_t)function->counted, "thinned", (json_int_t)function->thinned, "end_missing",
                            (json_int_t)function->lost, "unkept", (json_int_t)function->unkept);
    set_spent(row, "total_", function->total_ns, &function->total_spent);
    set_spent(row, "self_", function->self_ns, &function->self_spent);
    return row;
}

static json_t *ranks_json(const struct job_functions *functions, const struct job_function *function)
{
    json_t *list = json_array();
    for (size_t i = 0; i < functions->rank_count; i++) {
        const struct job_function_rank *cell = report_function_by_rank(functions, function, functions->ranks[i]);
        if (cell)
            json_array_append_new(list, json_pack("{s:i, s:i, s:I, s:I, s:I}", "rank", functions->ranks[i].rank,
                                                  "world", (int)functions->ranks[i].program - 1, "calls",
                                                  (json_int_t)cell->calls, "total_ns", (json_int_t)cell->total_ns,
                                                  "self_ns", (json_int_t)cell->self_ns));
    }
    return list;
}

static json_t *edge_json(const struct job_edge *edge)
{
    return json_pack("{s:o, s:o, s:I, s:I}", "caller", text_json(edge->key.caller ? edge->key.caller->name : NULL),
                     "function", text_json(edge->key.function->name), "calls", (json_int_t)edge->calls, "total_ns",
                     (json_int_t)edge->total_ns);
}

static json_t *slow_json(const struct job_slow_call *call)
{
    json_t *row = json_pack("{s:o, s:o, s:I, s:I, s:f, s:i, s:I, s:s, s:o, s:o, s:o, s:o, s:o}", "name",
                            text_json(call->function->name), "file", text_json(call->function->file), "line",
                            (json_int_t)call->function->line, "duration_ns", (json_int_t)call->ns, "start_seconds",
                            call->start_seconds, "pid", (int)call->pid, "thread", (json_int_t)call->tid, "how",
                            call->how, "arguments", text_json(call->arguments), "result", text_json(call->result),
                            "where", call->where ? text_json(call->where) : json_null(), "rank",
                            call->who.rank >= 0 ? json_integer(call->who.rank) : json_null(), "world",
                            call->who.program ? json_integer((json_int_t)call->who.program - 1) : json_null());
    const struct {
        const char *name;
        double ns;
    } times[] = {{"cpu_ns", call->time.cpu_ns},
                 {"waiting_ns", call->time.waiting_ns},
                 {"preempted_ns", call->time.preempted_ns}};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        json_object_set_new(row, times[i].name, call->timed ? json_integer((json_int_t)times[i].ns) : json_null());
    return row;
}

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

static json_t *crash_json(const struct job_crash_calls *crash)
{
    return json_pack("{s:i, s:I, s:i, s:I, s:f, s:o, s:o}", "pid", (int)crash->pid, "thread", (json_int_t)crash->tid,
                     "signal", crash->signal, "address", (json_int_t)crash->address, "seconds", crash->seconds,
                     "open_calls", lines_json(crash->stack), "last_calls", lines_json(crash->last));
}

static json_t *problem_texts(const json_t *notes)
{
    json_t *texts = json_array(), *note;
    size_t index;
    json_array_foreach(notes, index, note)
    {
        json_array_append(texts, json_object_get(note, "text"));
    }
    return texts;
}

void job_functions_json(json_t *report, const struct job_functions *functions)
{
    json_t *list = json_array(), *calls = json_array(), *slowest = json_array(), *crashes = json_array();
    for (const struct job_function *each = functions ? functions->functions : NULL; each; each = each->hh.next) {
        json_t *row = report_function_json(each);
        json_object_set_new(row, "ranks", ranks_json(functions, each));
        json_array_append_new(list, row);
    }
    for (const struct job_edge *each = functions ? functions->edges : NULL; each; each = each->hh.next)
        json_array_append_new(calls, edge_json(each));
    for (size_t i = 0; functions && i < functions->slowest_count; i++)
        json_array_append_new(slowest, slow_json(&functions->slowest[i]));
    for (size_t i = 0; functions && i < functions->crash_count; i++)
        json_array_append_new(crashes, crash_json(&functions->crashes[i]));
    json_object_set_new(report, "functions", list);
    json_object_set_new(report, "calls", calls);
    json_object_set_new(report, "slowest_calls", slowest);
    json_object_set_new(report, "crash_calls", crashes);
    static const struct job_functions none;
    const struct job_functions *all = functions ? functions : &none;
    json_object_set_new(
        report, "trace",
        json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:I, s:I, s:I, s:I, s:b, s:I, s:I, s:I, s:o, s:o, s:o}",
                  "events", (json_int_t)all->events, "discarded", (json_int_t)all->discarded, "waits_ran_out",
                  (json_int_t)all->waits_ran_out, "waits_dropped", (json_int_t)all->waits_dropped, "overwritten",
                  (json_int_t)all->overwritten, "bytes", (json_int_t)all->bytes, "cost_seconds", all->cost_seconds,
                  "threads_omitted", (json_int_t)all->threads_omitted, "functions_omitted",
                  (json_int_t)all->functions_omitted, "too_deep", (json_int_t)all->too_deep, "processes",
                  (json_int_t)all->processes, "complete", !all->incomplete, "thinned", (json_int_t)all->thinned,
                  "min_time_ns", (json_int_t)all->min_time_ns, "max_depth", (json_int_t)all->max_depth, "problems",
                  problem_texts(all->problems), "notes", all->problems ? json_incref(all->problems) : json_array(),
                  "unwatched", all->unwatched ? json_incref(all->unwatched) : json_array()));
}
