/* SPDX-License-Identifier: Apache-2.0 */
/* What traces say, for people. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "jobdir/text/notes_json.h"
#include "jobdir/trace/calls.h"
#include "jobdir/report/mpi_report.h"
#include "jobdir/report/functions_internal.h"
#include "jobdir/report/internal.h"
#include "jobdir/text/text.h"

enum {
    SUMMARY_FUNCTIONS = 4,
    SUMMARY_PROBLEMS = 3,
    SHOWN_BY_RANK = 10,
    SHOWN_CALLERS = 12,
    SHOWN_CALLEES = 6,
    NAME_WIDTH = 44,
    WIDE = 110,         /* columns in which all of a function's times have room */
    SHOWN_VALUES = 100, /* characters of a slow call's arguments, and of its result */
};

void report_put_source(struct buf *out, const struct job_function *function)
{
    if (!function->file[0])
        return;
    buf_puts(out, "  ");
    text_show(out, text_base(function->file));
    if (function->line)
        buf_printf(out, ":%" PRIu32, function->line);
}

static double share(double part, double whole)
{
    return whole > 0 ? 100 * part / whole : 0;
}

/* Then nothing is known but how often it was called and for how long in all. */
static bool only_counted(const struct job_function *function)
{
    return function->counted == function->calls;
}

/* The same, and for how long is not known either. */
static bool none_kept(const struct job_function *function)
{
    return function->unkept && function->counted + function->unkept == function->calls;
}

/* All its calls were open at the last record, or the records of their ends are missing: how long they took is not
 * known. */
static bool never_ended(const struct job_function *function)
{
    uint64_t undated = function->open + function->lost;
    return undated && undated == function->calls && function->total_ns <= 0;
}

/* What the number of calls does not say. */
static void put_remarks(struct buf *out, const struct job_function *function)
{
    if (function->thinned)
        buf_printf(out, "  (of %" PRIu64 ": --rate)", function->calls + function->thinned);
    if (function->counted && !only_counted(function))
        buf_printf(out, "  (%" PRIu64 " only counted)", function->counted);
    if (function->unkept)
        buf_printf(out, "  (%" PRIu64 " not kept)", function->unkept);
    if (function->unwound)
        buf_printf(out, "  (%" PRIu64 " unwound)", function->unwound);
    if (function->open)
        buf_printf(out, "  (%" PRIu64 " open at the end)", function->open);
    if (function->lost)
        buf_printf(out, "  (of %" PRIu64 " the end is missing)", function->lost);
}

/* ---- cost and problems ---- */

static bool has_mpi(const struct job_functions *functions)
{
    for (const struct job_function *each = functions->functions; each; each = each->hh.next)
        if (!*each->file && strncmp(each->name, "MPI_", 4) == 0)
            return true;
    return false;
}

static void put_cost(struct buf *out, const struct job_functions *functions)
{
    uint64_t counted = 0;
    for (const struct job_function *each = functions->functions; each; each = each->hh.next)
        counted += each->counted;
    if (!functions->events && counted)
        buf_printf(out,
                   "%" PRIu64
                   " calls were only counted (--count-only): of a function that calls itself the times of all "
                   "levels are added up",
                   counted);
    else
        buf_printf(out, "%" PRIu64 " event%s", functions->events, functions->events == 1 ? "" : "s");
    if (functions->bytes) {
        buf_puts(out, ", ");
        text_size(out, functions->bytes);
    }
    if (functions->processes != 1)
        buf_printf(out, " of %zu processes", functions->processes);
    /* else it is made of too few samples; or has times in it in which the threads did not run */
    if (functions->cost_seconds >= 1e-6 && !functions->cost_bounded) {
        buf_puts(out, "; recording took about ");
        text_ns(out, functions->cost_seconds * 1e9);
    } else if (functions->cost_bounded) {
        buf_puts(out, "; what recording cost could not be measured");
    }
    if (functions->events && counted)
        buf_printf(out,
                   "; %" PRIu64
                   " calls were only counted (--count-only): how much of their time was their own, and who "
                   "called them, is not known",
                   counted);
    if (functions->discarded)
        buf_printf(out, "; %" PRIu64 " events are missing: no room in the buffer, or a signal came in between",
                   functions->discarded);
    if (functions->waits_ran_out)
        buf_printf(out, "; %" PRIu64 " wait%s for the monitor ran out, %" PRIu64 " record%s dropped",
                   functions->waits_ran_out, functions->waits_ran_out == 1 ? "" : "s", functions->waits_dropped,
                   functions->waits_dropped == 1 ? "" : "s");
    if (functions->threads_omitted)
        buf_printf(out, "; %" PRIu64 " threads were too many and are missing", functions->threads_omitted);
    if (functions->functions_omitted)
        buf_printf(out,
                   "; %" PRIu64 " call%s missing: the table of functions, with those of closed libraries, had no room",
                   functions->functions_omitted, functions->functions_omitted == 1 ? " is" : "s are");
    if (functions->too_deep)
        buf_printf(out, "; %" PRIu64 " calls were too deep and are missing", functions->too_deep);
    if (functions->thinned)
        buf_printf(out, "; %" PRIu64 " calls were left out to keep the rate (--rate)", functions->thinned);
    bool only_counted = !functions->events && counted; /* those are not left out */
    if (functions->min_time_ns && !only_counted) {
        buf_puts(out, "; calls shorter than ");
        text_ns(out, (double)functions->min_time_ns);
        buf_puts(out, functions->min_time_partly ? " were left out for a part of the time" : " are left out");
        buf_puts(out,
                 has_mpi(functions) ? " (--min-time), but those of MPI that have messages are not" : " (--min-time)");
    }
    if (functions->max_depth && !only_counted)
        buf_printf(out, "; calls more than %" PRIu64 " deep are left out (--max-depth)", functions->max_depth);
    if (functions->overwritten)
        buf_printf(out, "; %s%" PRIu64 " others were counted but not kept%s", functions->unfinished ? "at least " : "",
                   functions->overwritten, functions->unfinished ? "" : " (flight recorder)");
    if (functions->unfinished)
        buf_printf(out, "; how many %sare missing is not known", functions->overwritten ? "more " : "");
}

static bool is_said(const json_t *warnings, const char *text)
{
    size_t index;
    const json_t *warning;
    json_array_foreach(warnings, index, warning)
    {
        const char *said = json_string_value(json_object_get(warning, "text"));
        if (said && strcmp(said, text) == 0)
            return true;
    }
    return false;
}

static void put_problem(struct buf *out, const char *label, const char *text)
{
    buf_puts(out, label);
    text_show(out, text);
    buf_putc(out, '\n');
}

/* The problems that no warning has told. */
static void put_problems(struct buf *out, const struct job_functions *functions, const json_t *warnings,
                         const char *label, size_t most)
{
    size_t index, shown = 0, more = 0;
    json_t *problem;
    if (functions->unfinished > 1) { /* one line for all of them */
        _cleanup_(buf_done) struct buf text = BUF_INIT;
        note_text(&text, &NOTE(traces_unfinished, .traces = functions->unfinished));
        put_problem(out, label, text.data ? text.data : "");
        shown++;
    }
    json_array_foreach(functions->problems, index, problem)
    {
        const char *said = json_string_value(json_object_get(problem, "text"));
        bool summed = functions->unfinished > 1 && note_json_kind(problem) == NOTE_trace_unfinished;
        if (summed || is_said(warnings, said))
            continue;
        if (shown == most) {
            more++;
            continue;
        }
        shown++;
        put_problem(out, label, said);
    }
    if (more)
        buf_printf(out, "%s... and %zu more\n", label, more);
}

void job_functions_summary(struct buf *out, const struct job_functions *functions, const json_t *warnings)
{
    if (!functions || !functions->processes)
        return;
    if (functions->incomplete) {
        buf_puts(out, "  functions  the trace is long: `scry report` reads it and shows where the time went\n");
    } else {
        size_t shown = 0;
        for (const struct job_function *function = functions->functions; function && shown < SUMMARY_FUNCTIONS;
             function = function->hh.next, shown++) {
            buf_puts(out, shown ? "             " : "  functions  ");
            bool unknown = never_ended(function) || none_kept(function);
            if (unknown)
                buf_printf(out, "%8s", "?");
            else
                text_ns_in(out, only_counted(function) ? function->total_ns : function->self_ns, 8);
            if (only_counted(function) || unknown)
                buf_puts(out, only_counted(function) ? " in all  " : "         ");
            else
                buf_printf(out, " %5.1f%%  ", share(function->self_ns, functions->self_ns));
            text_function(out, function->name, function->file);
            buf_printf(out, "  x %" PRIu64, function->calls);
            report_put_source(out, function);
            put_remarks(out, function);
            buf_putc(out, '\n');
        }
        if (HASH_COUNT(functions->functions) > shown)
            buf_printf(out, "             ... and %zu more\n", HASH_COUNT(functions->functions) - shown);
    }
    if (!functions->unread) {
        buf_puts(out, "  tracing    ");
        put_cost(out, functions);
        buf_putc(out, '\n');
    }
    put_problems(out, functions, warnings, "  tracing    ", SUMMARY_PROBLEMS);
}

/* ---- the sections of the report ---- */

/* Mean, least and greatest time of a call are shown where there is room for them. */
static void put_row(struct buf *out, const struct job_functions *functions, const struct job_function *function,
                    bool wide)
{
    double cpu_ns, kept = (double)(function->calls - function->counted - function->unkept);
    bool counted = only_counted(function), unknown = never_ended(function) || none_kept(function);
    bool split = !unknown && !counted && job_cpu_ns(function->self_ns, &function->self_spent, &cpu_ns);
    if (counted) {
        buf_printf(out, "%16s", "only counted");
    } else if (unknown) {
        buf_printf(out, "%10s%6s", "?", "");
    } else {
        text_ns_in(out, function->self_ns, 10);
        buf_printf(out, "%5.1f%%", share(function->self_ns, functions->self_ns));
    }
    if (split) {
        text_ns_in(out, cpu_ns, 10);
        text_ns_in(out, function->self_spent.waiting_ns, 10);
    } else {
        buf_printf(out, "%10s%10s", counted ? "" : "?", counted ? "" : "?");
    }
    if (unknown)
        buf_printf(out, "%11s", "?");
    else
        text_ns_in(out, function->total_ns, 11);
    buf_printf(out, " %9" PRIu64, function->calls);
    if (!wide)
        return;
    if (unknown || counted) {
        if (counted && function->calls)
            text_ns_in(out, function->total_ns / (double)function->calls, 10);
        buf_printf(out, "%*s", counted && function->calls ? 20 : 30, "");
        return;
    }
    text_ns_in(out, function->sum_ns / kept, 10);
    text_ns_in(out, function->min_ns, 10);
    text_ns_in(out, function->max_ns, 10);
}

/* Others had the processor: worth a word where it is much of what it took. */
static void put_preempted(struct buf *out, const struct job_function *function)
{
    double cpu_ns;
    if (only_counted(function) || !job_cpu_ns(function->self_ns, &function->self_spent, &cpu_ns) ||
        function->self_spent.preempted_ns < function->self_ns / 20)
        return;
    buf_puts(out, "  (preempted ");
    text_ns(out, function->self_spent.preempted_ns);
    buf_putc(out, ')');
}

/* Under the title of a table in which something is missing that nobody asked to leave out. */
static void put_not_whole(struct buf *out, const struct job_functions *functions, bool times)
{
    uint64_t missing = functions->overwritten + functions->discarded;
    if (missing)
        buf_printf(out, "  not whole: of %" PRIu64 " events %" PRIu64 " are missing%s\n", functions->events + missing,
                   missing, times ? "; their time counts as that of the calls around them" : "");
    else if (functions->incomplete)
        buf_puts(out, "  not whole: only a part of the trace was read\n");
    else if (functions->functions_omitted || functions->threads_omitted || functions->too_deep)
        buf_puts(out, "  not whole: some calls are missing (see Tracing)\n");
}

static void put_functions(struct buf *out, const struct job_functions *functions, size_t columns)
{
    bool wide = !columns || columns >= WIDE;
    size_t shown = 0, count = HASH_COUNT(functions->functions);
    if (!count)
        return;
    buf_printf(out, "\nFunctions self             cpu   waiting      total     calls%s  function\n",
               wide ? "      mean       min       max" : "");
    put_not_whole(out, functions, true);
    report_unwatched_text(out, functions);
    for (const struct job_function *function = functions->functions; function && shown < SHOWN_FUNCTIONS;
         function = function->hh.next, shown++) {
        put_row(out, functions, function, wide);
        buf_puts(out, "  ");
        text_function(out, function->name, function->file);
        report_put_source(out, function);
        put_preempted(out, function);
        put_remarks(out, function);
        buf_putc(out, '\n');
    }
    if (count > shown)
        buf_printf(out, "  ... and %zu more with less time of their own (--json lists all)\n", count - shown);
}

/* For people: its program only if there are several. */
static struct mpi_who shown_who(const struct job_functions *functions, struct mpi_who who)
{
    return (struct mpi_who){who.rank, functions->programs.count > 1 ? who.program : 0};
}

/* Own times; of functions that are only counted all of it. */
static void put_by_rank(struct buf *out, const struct job_functions *functions)
{
    size_t shown = 0;
    for (const struct job_function *each = functions->functions;
         each && functions->rank_count > 1 && shown < SHOWN_BY_RANK; each = each->hh.next) {
        struct mpi_spread spread = {0};
        for (size_t i = 0; i < functions->rank_count; i++) {
            const struct job_function_rank *cell = report_function_by_rank(functions, each, functions->ranks[i]);
            double ns = !cell ? 0 : only_counted(each) ? cell->total_ns : cell->self_ns;
            mpi_spread_add(&spread, shown_who(functions, functions->ranks[i]), ns);
        }
        if (spread.most <= 0)
            continue;
        if (!shown++)
            mpi_spread_title(out, "Functions by rank", functions->programs.count > 1);
        mpi_spread_put(out, &spread);
        text_function(out, each->name, each->file);
        report_put_source(out, each);
        buf_putc(out, '\n');
    }
}

static void put_edge(struct buf *out, const struct job_edge *edge)
{
    _cleanup_(buf_done) struct buf name = BUF_INIT;
    text_function(&name, edge->key.function->name, edge->key.function->file);
    buf_puts(out, "    ");
    text_column(out, name.data ? name.data : "", NAME_WIDTH);
    buf_printf(out, " %10" PRIu64 " x", edge->calls);
    text_ns_in(out, edge->total_ns, 12);
    buf_putc(out, '\n');
}

static void put_callees(struct buf *out, const struct job_functions *functions, const struct job_function *caller)
{
    size_t shown = 0, more = 0;
    for (const struct job_edge *edge = functions->edges; edge; edge = edge->hh.next) {
        if (edge->key.caller != caller)
            continue;
        if (shown == SHOWN_CALLEES) {
            more++;
            continue;
        }
        shown++;
        put_edge(out, edge);
    }
    if (more)
        buf_printf(out, "    ... and %zu more\n", more);
}

/* Callers in the order of the time of what they call, each with what it calls. */
static void put_graph(struct buf *out, const struct job_functions *functions)
{
    const struct job_function *done[SHOWN_CALLERS];
    size_t count = 0, left = 0;
    for (const struct job_edge *edge = functions->edges; edge; edge = edge->hh.next) {
        bool known = !edge->key.caller;
        for (size_t i = 0; i < count && !known; i++)
            known = done[i] == edge->key.caller;
        if (known)
            continue;
        if (count == SHOWN_CALLERS) {
            left++;
            continue;
        }
        done[count++] = edge->key.caller;
        if (count == 1) {
            buf_puts(out, "\nWho calls whom\n");
            put_not_whole(out, functions, true);
        }
        buf_puts(out, "  ");
        text_function(out, edge->key.caller->name, edge->key.caller->file);
        report_put_source(out, edge->key.caller);
        buf_putc(out, '\n');
        put_callees(out, functions, edge->key.caller);
    }
    if (left)
        buf_printf(out, "  ... and %zu more pairs of other callers (--json lists all)\n", left);
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
    put_not_whole(out, functions, false);
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
            mpi_text_who(out, shown_who(functions, call->who));
        else if (functions->processes > 1 || call->tid != (uint32_t)call->pid)
            buf_printf(out, "  pid %d", (int)call->pid);
        if (call->tid != (uint32_t)call->pid)
            buf_printf(out, " thread %u", call->tid);
        buf_putc(out, '\n');
    }
}

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

void job_functions_text(struct buf *out, const struct job_functions *functions, const json_t *warnings, size_t columns)
{
    if (!functions)
        return;
    if (functions->processes) {
        put_functions(out, functions, columns);
        put_by_rank(out, functions);
        put_graph(out, functions);
        report_put_sites(out, functions);
        put_slowest(out, functions);
        put_crashes(out, functions);
        buf_puts(out, "\nTracing\n  ");
        put_cost(out, functions);
        buf_putc(out, '\n');
        if (functions->incomplete)
            buf_puts(out, "  only a part of it was read: it is long\n");
    } else if (json_array_size(functions->problems)) {
        buf_puts(out, "\nTracing\n");
    }
    put_problems(out, functions, warnings, "  ", SIZE_MAX);
}

void report_trace_text(struct buf *out, const struct job_report *report, struct report_style style, bool whole)
{
    const json_t *warnings = report_longer(report->info.warnings, report->model.warnings);
    if (whole)
        job_functions_text(out, report->functions, warnings, style.columns);
    else
        job_functions_summary(out, report->functions, warnings);
}
