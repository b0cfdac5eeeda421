/* SPDX-License-Identifier: Apache-2.0 */
/* Sections of a report that show records as they are: crashes of processes, warnings, and when nothing was recorded, with what
 * cannot be read. */
#include <inttypes.h>
#include <string.h>

#include "jobdir/layers/cause.h"
#include "jobdir/report/internal.h"
#include "jobdir/text/text.h"

enum { SHOWN_FRAMES = 16, SUMMARY_CALLS = 6, SUMMARY_PAUSES = 5 };

/* Of abort and the like, what these called: how a program ends, and the same for all. The frame that the program itself called. */
static size_t library_entry(const json_t *frames)
{
    size_t count = 0;
    while (cause_is_library(json_array_get(frames, count)))
        count++;
    return count && count < json_array_size(frames) ? count - 1 : 0;
}

static void put_frames(struct buf *out, const json_t *frames)
{
    size_t index, first = library_entry(frames);
    json_t *frame;
    if (first)
        buf_printf(out, first == 1 ? "    #0  in libraries (--json)\n" : "    #0-%zu in libraries (--json)\n",
                   first - 1);
    json_array_foreach(frames, index, frame)
    {
        if (index < first)
            continue;
        if (index == SHOWN_FRAMES && json_array_size(frames) > SHOWN_FRAMES + 1) {
            buf_printf(out, "    ... %zu more frames\n", json_array_size(frames) - index);
            return;
        }
        const char *function = json_string_value(json_object_get(frame, "function"));
        const char *file = json_string_value(json_object_get(frame, "file"));
        const char *module = json_string_value(json_object_get(frame, "module"));
        buf_printf(out, "    #%-2zu ", index);
        if (function)
            text_show(out, function);
        else
            buf_printf(out, "0x%llx", (unsigned long long)json_integer_value(json_object_get(frame, "pc")));
        if (file) {
            buf_puts(out, " at ");
            text_show(out, file);
            if (json_object_get(frame, "line"))
                buf_printf(out, ":%d", (int)json_integer_value(json_object_get(frame, "line")));
        } else if (module) {
            buf_puts(out, " in ");
            text_show(out, module);
        }
        buf_putc(out, '\n');
    }
}

static void put_fault(struct buf *out, const json_t *crash)
{
    const char *reason = json_string_value(json_object_get(crash, "reason"));
    const json_t *address = json_object_get(crash, "address");
    if (reason) {
        buf_puts(out, ": ");
        text_show(out, reason);
    }
    if (json_is_integer(address))
        buf_printf(out, "%s address 0x%llx", reason ? "," : ":", (unsigned long long)json_integer_value(address));
}

/* The report has the calls that a traced process was in, all of them, in a place of its own. */
void report_crashes_text(struct buf *out, const struct job_report *report, struct report_style style, bool whole)
{
    const json_t *crashes = report_longer(report->info.crashes, report->model.crashes);
    size_t index;
    json_t *crash;
    json_array_foreach(crashes, index, crash)
    {
        char name[32];
        const char *process = json_string_value(json_object_get(crash, "name"));
        const char *core = json_string_value(json_object_get(crash, "core"));
        const char *note = json_string_value(json_object_get(crash, "note"));
        int signo = (int)json_integer_value(json_object_get(crash, "signal"));
        text_label_in(out, "crash", style.colour ? TEXT_RED : NULL);
        text_show(out, process ? process : "?");
        buf_printf(out, " (pid %d): %s (%s)", (int)json_integer_value(json_object_get(crash, "pid")),
                   text_signal(signo, name, sizeof name), strsignal(signo));
        put_fault(out, crash);
        if (core) {
            buf_puts(out, ", core file ");
            text_show(out, core);
        }
        buf_putc(out, '\n');
        const json_t *frames = json_object_get(crash, "frames");
        pid_t pid = (pid_t)json_integer_value(json_object_get(crash, "pid"));
        put_frames(out, frames);
        bool known =
            job_functions_crash(out, report->functions, pid, whole || json_array_size(frames) ? 0 : SUMMARY_CALLS);
        if (note && (!known || json_is_true(json_object_get(crash, "core_dumped")))) {
            buf_puts(out, "    ");
            text_show(out, note);
            buf_putc(out, '\n');
        }
    }
}

void report_warnings_text(struct buf *out, const struct job_report *report, struct report_style style, bool whole)
{
    const json_t *warnings = job_report_warnings(report);
    size_t index;
    json_t *warning;
    json_array_foreach(warnings, index, warning)
    {
        const char *text = json_string_value(json_object_get(warning, "text"));
        text_label_in(out, "warning", style.colour ? TEXT_YELLOW : NULL);
        text_show(out, text ? text : "?");
        buf_putc(out, '\n');
    }
    uint64_t listed = json_array_size(warnings), count = job_report_warning_count(report);
    if (count > listed) {
        text_label_in(out, "warning", style.colour ? TEXT_YELLOW : NULL);
        buf_printf(out, "%" PRIu64 " more of the same kinds are not listed (scry watch shows all)\n", count - listed);
    }
}

/* scry set switched recording off, and on again. */
void report_pauses_text(struct buf *out, const struct job_report *report, struct report_style style, bool whole)
{
    size_t index;
    json_t *pause;
    json_array_foreach(report->model.pauses, index, pause)
    {
        const json_t *to = json_object_get(pause, "to");
        text_label(out, "tracing");
        if (index >= SUMMARY_PAUSES) {
            buf_printf(out, "recording was off %zu times more (--json lists them)\n",
                       json_array_size(report->model.pauses) - index);
            return;
        }
        buf_printf(out, "recording was off from %.2f s", json_number_value(json_object_get(pause, "from")));
        if (json_is_number(to))
            buf_printf(out, " to %.2f s", json_number_value(to));
        else
            buf_puts(out, " on");
        buf_puts(out, " (scry set)\n");
    }
}

void report_gaps_text(struct buf *out, const struct job_report *report, struct report_style style, bool whole)
{
    size_t index;
    json_t *item;
    json_array_foreach(report->model.gaps.records, index, item)
    {
        const char *reason = json_string_value(json_object_get(item, "reason"));
        buf_printf(out, "%s  not watched from %.1f s to %.1f s: ", index ? "" : "\nGaps\n",
                   json_number_value(json_object_get(item, "from")), json_number_value(json_object_get(item, "to")));
        text_show(out, reason ? reason : "?");
        buf_putc(out, '\n');
    }
    uint64_t listed = json_array_size(report->model.gaps.records);
    if (report->model.gaps.total > listed)
        buf_printf(out, "  and %" PRIu64 " more times, which are not listed\n", report->model.gaps.total - listed);
    json_array_foreach(report->problems, index, item)
    {
        buf_puts(out, index ? "  " : "\nNot all of the job directory could be read\n  ");
        text_show(out, json_string_value(item));
        buf_putc(out, '\n');
    }
}

/* ---- for programs ---- */

static const struct field warning_fields[] = {{"kind", FIELD_TEXT},
                                              {"note", FIELD_TEXT, .flags = FIELD_OPTIONAL},
                                              {"fields", FIELD_OBJECT, .flags = FIELD_OPTIONAL},
                                              {"text", FIELD_TEXT},
                                              {"t", FIELD_NUMBER},
                                              {0}};

static const struct field frame_fields[] = {{"pc", FIELD_COUNT},
                                            {"language", FIELD_CHOICE, .flags = FIELD_OPTIONAL, .choices = "python",
                                             .about = "of a function that an interpreter executes, at pc"},
                                            {"function", FIELD_TEXT, .flags = FIELD_OPTIONAL},
                                            {"file", FIELD_TEXT, .flags = FIELD_OPTIONAL},
                                            {"line", FIELD_COUNT, .flags = FIELD_OPTIONAL},
                                            {"module", FIELD_TEXT, .flags = FIELD_OPTIONAL},
                                            {0}};

static const struct field crash_fields[] = {
    {"pid", FIELD_COUNT},
    {"name", FIELD_TEXT},
    {"signal", FIELD_COUNT},
    {"core_dumped", FIELD_BOOL, .flags = FIELD_OPTIONAL},
    {"address", FIELD_INTEGER, .flags = FIELD_OPTIONAL, .about = "that it could not use; from 2^63 on, less 2^64"},
    {"reason", FIELD_TEXT, .flags = FIELD_OPTIONAL,
     .about = "what is wrong with that: \"stack overflow\", \"a NULL pointer\""},
    {"t", FIELD_NUMBER},
    {"core", FIELD_TEXT, .flags = FIELD_OPTIONAL, .about = "core file"},
    {"note", FIELD_TEXT, .flags = FIELD_OPTIONAL},
    {"frames", FIELD_LIST, .flags = FIELD_OPTIONAL, .of = frame_fields},
    {0}};

static json_t *crashes_json(const void *row, const void *all)
{
    const struct job_report *report = row;
    return report_records_json(report_longer(report->info.crashes, report->model.crashes));
}

static json_t *omitted_json(const void *row, const void *all)
{
    return job_report_warnings_omitted(row);
}

static json_t *warnings_json(const void *row, const void *all)
{
    const struct job_report *report = row;
    return report_records_json(job_report_warnings(report));
}

const struct field report_crash_fields[] = {{"crashes", FIELD_LIST, .json = crashes_json, .of = crash_fields}, {0}};
const struct field report_warning_fields[] = {
    {"warnings", FIELD_LIST, .json = warnings_json, .of = warning_fields,
     .about = "of each kind the first and the last ones, 100 at least"},
    {"warnings_omitted", FIELD_LIST, .json = omitted_json, .of = kept_omitted_fields,
     .about = "kinds of which there were more than are listed, and how many more"},
    {0}};

static const struct field pause_fields[] = {{"from", FIELD_NUMBER}, {"to", FIELD_NUMBER, .flags = FIELD_OR_NULL}, {0}};

const struct field report_pause_fields[] = {
    {"recording_off", FIELD_LIST, FIELD_AT(struct job_report, model.pauses), .of = pause_fields}, {0}};

static json_t *gaps_json(const void *row, const void *all)
{
    return report_records_json(((const struct job_report *)row)->model.gaps.records);
}

static json_t *gaps_omitted_json(const void *row, const void *all)
{
    const struct kept *gaps = &((const struct job_report *)row)->model.gaps;
    return json_integer((json_int_t)(gaps->total - json_array_size(gaps->records)));
}

static const struct field gap_fields[] = {
    {"from", FIELD_NUMBER}, {"to", FIELD_NUMBER}, {"reason", FIELD_TEXT}, {"t", FIELD_NUMBER}, {0}};

const struct field report_gap_fields[] = {
    {"gaps", FIELD_LIST, .json = gaps_json, .of = gap_fields, .about = "times not watched, seconds since the start"},
    {"gaps_omitted", FIELD_COUNT, .json = gaps_omitted_json, .about = "those that are not listed"},
    {"problems", FIELD_LIST, FIELD_AT(struct job_report, problems), .of = fields_texts,
     .about = "what could not be read of the job directory"},
    {0}};
