/* SPDX-License-Identifier: Apache-2.0 */
/* Section of a report: what traces say, and what recording them cost. The table of functions and single calls have
 * files of their own. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "jobdir/text/fields.h"
#include "jobdir/text/text.h"
#include "jobdir/report/functions_internal.h"
#include "jobdir/report/internal.h"
#include "shm/area.h"

enum { SUMMARY_FUNCTIONS = 4, SUMMARY_PROBLEMS = 3 };

/* ---- cost and problems ---- */

static bool has_mpi(const struct job_functions *functions)
{
    for (const struct job_function *each = functions->functions; each; each = each->hh.next)
        if (!*each->file && strncmp(each->name, "MPI_", 4) == 0)
            return true;
    return false;
}

enum { TALLIED_NAMED = 3 };

/* Functions whose calls were only counted from some time on, since nobody asked for them by --trace. */
static void put_tallied(struct buf *out, const struct job_functions *functions)
{
    const struct job_function *most[TALLIED_NAMED] = {NULL};
    size_t count = 0;
    if (!functions->tallied)
        return;
    for (const struct job_function *each = functions->functions; each; each = each->hh.next) {
        const struct job_function *next = each->tallied ? each : NULL;
        count += next != NULL;
        for (size_t i = 0; next && i < TALLIED_NAMED; i++)
            if (!most[i] || most[i]->tallied < next->tallied) {
                const struct job_function *less = most[i];
                most[i] = next;
                next = less;
            }
    }
    buf_printf(out, "; %s%" PRIu64 " calls", functions->calls_at_least ? "at least " : "", functions->tallied);
    for (size_t i = 0; i < TALLIED_NAMED && most[i]; i++) {
        buf_puts(out, i == 0 ? " of " : i + 1 == count ? " and " : ", ");
        text_show(out, most[i]->name);
    }
    if (count > TALLIED_NAMED)
        buf_printf(out, " and %zu more", count - TALLIED_NAMED);
    buf_puts(out, " were only counted, since records cost more than they tell: their time is in that of their callers");
    if (!functions->limited)
        buf_puts(out, " (`--trace all` records them)");
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
        buf_printf(out, "; %" PRIu64 " call%s missing: more than %d are inside each other, or there was no memory",
                   functions->too_deep, functions->too_deep == 1 ? " is" : "s are", AREA_DEEPEST);
    if (functions->thinned > functions->tallied)
        buf_printf(out, "; %" PRIu64 " calls were left out to keep the rate (--rate)",
                   functions->thinned - functions->tallied);
    put_tallied(out, functions);
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

/* Whether a warning says the same. */
static bool is_warned(const json_t *warnings, const json_t *problem)
{
    size_t index;
    const json_t *warning;
    json_array_foreach(warnings, index, warning)
    {
        if (json_equal(json_object_get(warning, "note"), json_object_get(problem, "note")) &&
            json_equal(json_object_get(warning, "fields"), json_object_get(problem, "fields")))
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
        if (summed || is_warned(warnings, problem))
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
            bool unknown = report_time_unknown(function);
            if (unknown)
                buf_printf(out, "%8s", "?");
            else
                text_ns_in(out, report_only_counted(function) ? function->total_ns : function->self_ns, 8);
            if (report_only_counted(function) || unknown)
                buf_puts(out, report_only_counted(function) ? " in all  " : "         ");
            else
                buf_printf(out, " %5.1f%%  ", report_share(function->self_ns, functions->self_ns));
            text_function(out, function->name, function->file);
            buf_printf(out, "  x %" PRIu64, function->calls);
            report_put_source(out, function);
            report_put_remarks(out, function);
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

void job_functions_text(struct buf *out, const struct job_functions *functions, const json_t *warnings, size_t columns)
{
    if (!functions)
        return;
    if (functions->processes) {
        report_functions_text(out, functions, columns);
        report_put_sites(out, functions);
        report_slowest_text(out, functions);
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
    const json_t *warnings = job_report_warnings(report);
    if (whole)
        job_functions_text(out, report->functions, warnings, style.columns);
    else
        job_functions_summary(out, report->functions, warnings);
}

/* ---- for programs ---- */

bool job_functions_complete(const struct job_functions *functions)
{
    const json_t *note;
    size_t index;
    json_array_foreach(functions->problems, index, note)
    {
        if (note_json_kind(note) == NOTE_agent_off)
            return false;
    }
    return !functions->incomplete && !functions->cut_off && !functions->unfinished && !functions->discarded &&
           !functions->overwritten && !functions->functions_omitted && !functions->threads_omitted &&
           !functions->children_omitted && !functions->processes_omitted && !functions->too_deep;
}

static json_t *complete_json(const void *row, const void *all)
{
    return json_boolean(job_functions_complete(row));
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
    {"children_omitted", FIELD_COUNT, FIELD_AT(struct job_functions, children_omitted),
     .about =
         "children of fork that were not traced, since they came in quick succession (without --trace), or did not "
         "reach the monitor"},
    {"functions_omitted", FIELD_COUNT, FIELD_AT(struct job_functions, functions_omitted),
     .about = "calls of functions that there was no place for"},
    {"too_deep", FIELD_COUNT, FIELD_AT(struct job_functions, too_deep),
     .about = "calls that were deeper than can be followed (131072), or for which there was no memory"},
    {"processes", FIELD_COUNT, FIELD_AT(struct job_functions, processes), .about = "that have a trace"},
    {"complete", FIELD_BOOL, .json = complete_json,
     .about = "false: something is missing of what was to be recorded: one of discarded, overwritten, threads_omitted, "
              "children_omitted, functions_omitted and too_deep is not 0, a process was refused, came too late, or "
              "switched its agent "
              "off, a trace has no end, the monitor did not answer at the end, or only a part was read"},
    {"thinned", FIELD_COUNT, FIELD_AT(struct job_functions, thinned),
     .about = "calls that were left out to keep the rate (--rate), or tallied"},
    {"tallied", FIELD_COUNT, FIELD_AT(struct job_functions, tallied),
     .about = "of thinned, those that were only counted, since records cost more than they tell (without --trace)"},
    {"calls_at_least", FIELD_BOOL, FIELD_AT(struct job_functions, calls_at_least),
     .about = "of tallied there were more, that were not even counted"},
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

/* Of a struct job_functions. */
const struct field report_trace_fields[] = {{"", FIELD_PART, .of = report_functions_fields},
                                            {"call_sites", FIELD_LIST, .json = report_sites_json,
                                             .of = report_site_fields,
                                             .about = "where functions are called from, at most 100, most time first"},
                                            {"", FIELD_PART, .of = report_slowest_fields},
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
