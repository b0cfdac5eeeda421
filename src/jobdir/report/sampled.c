/* SPDX-License-Identifier: Apache-2.0 */
/* Section of a report: where the job used processors, by samples (jobdir/analysis/sampled.h). */
#include <stdlib.h>
#include <string.h>

#include "jobdir/analysis/sampled.h"
#include "jobdir/report/internal.h"
#include "jobdir/text/text.h"

enum {
    SUMMARY_FUNCTIONS = 5,
    REPORT_FUNCTIONS = 25,
    SAMPLES_FEW = 10, /* less say nothing of shares */
    WAITED_SHOWN = 3,
    COVERED_PERCENT = 90, /* of the processor time: below it is said */
};

#define CALLS_MUCH 0.05  /* of all samples */
#define WAITED_LEAST 1.0 /* seconds, */
#define WAITED_SHARE 0.1 /* and of all time: less is not worth a line */

static double share_of(const struct sampled *sampled, uint64_t samples)
{
    return sampled->samples ? (double)samples / (double)sampled->samples : 0;
}

static void put_refused(struct buf *out, const struct sampled *sampled)
{
    buf_puts(out, "no samples: perf events are not allowed here (");
    text_show(out, sampled->refused);
    buf_puts(out, "); times are by process");
}

static void put_summary(struct buf *out, const struct sampled *sampled)
{
    text_label(out, "profile");
    if (sampled->refused) {
        put_refused(out, sampled);
        buf_puts(out, ": ");
    }
    size_t shown = 0;
    for (; shown < sampled->count && shown < SUMMARY_FUNCTIONS; shown++) {
        double share = share_of(sampled, sampled->functions[shown].self);
        if (share < 0.01)
            break;
        buf_printf(out, "%s%.0f %% ", shown ? ", " : "", 100 * share);
        sampled_put_name(out, &sampled->functions[shown]);
    }
    buf_putc(out, '\n');
}

/* ---- waiting ---- */

struct waited { /* a function, and what it waited for */
    const struct sampled_function *function;
    enum waiting_for what;
    double seconds;
};

static int by_seconds(const void *a, const void *b)
{
    double left = ((const struct waited *)a)->seconds, right = ((const struct waited *)b)->seconds;
    return left > right ? -1 : left < right;
}

/* The longest first; the caller frees them. NULL: none, or there is no memory. */
static struct waited *waited_list(const struct sampled *sampled, size_t *ret_count)
{
    struct waited *list = calloc(sampled->count + 1, WAITING_KINDS * sizeof *list);
    *ret_count = 0;
    for (size_t i = 0; list && i < sampled->count; i++)
        for (int what = 1; what < WAITING_KINDS; what++)
            if (sampled->functions[i].waits[what] > 0)
                list[(*ret_count)++] =
                    (struct waited){&sampled->functions[i], (enum waiting_for)what, sampled->functions[i].waits[what]};
    if (list)
        qsort(list, *ret_count, sizeof *list, by_seconds);
    return list;
}

/* Of the time that threads were seen in: they computed, or waited. */
static double waited_share(const struct sampled *sampled, double seconds)
{
    double cpu = sampled->cpu_seconds > sampled->seconds ? sampled->cpu_seconds : sampled->seconds;
    return seconds > 0 ? seconds / (sampled->waiting_seconds + cpu) : 0;
}

static void put_waited(struct buf *out, const struct sampled *sampled)
{
    size_t count;
    struct waited *list = waited_list(sampled, &count);
    const double total = waited_share(sampled, sampled->waiting_seconds);
    buf_printf(out, "%.0f %%", 100 * total);
    for (size_t i = 0; i < count && i < WAITED_SHOWN; i++) {
        double share = waited_share(sampled, list[i].seconds);
        if (i && share < 0.01)
            break;
        bool named = list[i].function->name || strcmp(list[i].function->language, "native") != 0;
        buf_puts(out, i ? ", " : ": ");
        if (i || total - share >= 0.01)
            buf_printf(out, "%.0f %% ", 100 * share);
        buf_printf(out, "%s %s", waiting_text(list[i].what), named ? "in " : "");
        sampled_put_name(out, list[i].function);
    }
    buf_putc(out, '\n');
    free(list);
}

static bool waited_much(const struct sampled *sampled)
{
    return sampled->waiting_seconds >= WAITED_LEAST && waited_share(sampled, sampled->waiting_seconds) >= WAITED_SHARE;
}

static void put_share(struct buf *out, const void *at, const void *row, const void *all)
{
    buf_printf(out, "%.1f", 100 * share_of(all, *(const uint64_t *)at));
}

/* Two blanks before it, as all tables have them. */
static void put_name(struct buf *out, const void *at, const void *row, const void *all)
{
    buf_puts(out, "  ");
    sampled_put_name(out, row);
}

static const struct field columns[] = {
    {.type = FIELD_SHOWN, .column = {1, 0, -44, "Where processors were used", .text = put_name, .whole = true}},
    {.type = FIELD_COUNT, FIELD_AT(struct sampled_function, self), .column = {2, 1, 7, "self %", .text = put_share}},
    {.type = FIELD_COUNT, FIELD_AT(struct sampled_function, total), .column = {3, 1, 8, "total %", .text = put_share}},
    {.type = FIELD_SECONDS, FIELD_AT(struct sampled_function, self_seconds), .column = {4, 1, 10, "self"}},
    {0}};

/* Of processes that end before their first sample is due nothing is seen. */
static void put_covered(struct buf *out, const struct sampled *sampled)
{
    double cpu = sampled->cpu_seconds;
    if (100 * sampled->seconds < COVERED_PERCENT * cpu) {
        buf_puts(out, "  of ");
        text_seconds(out, cpu);
        buf_puts(out, " they have seen ");
        text_seconds(out, sampled->seconds);
        buf_printf(out, ": threads and processes shorter than %u ms are not sampled%s\n", 1000 / sampled->hz,
                   sampled->kernel ? "" : ", nor is the kernel's time (perf_event_paranoid)");
    }
    if (sampled->lost)
        buf_printf(out, "  %llu samples were lost: the node was too busy to take them\n",
                   (unsigned long long)sampled->lost);
}

/* Those with samples of their own, and behind them those of the program, or that have lines, that called much. */
static size_t choose(const struct sampled *sampled, const struct sampled_function **ret_rows)
{
    size_t count = 0;
    for (size_t i = 0; i < sampled->count; i++)
        if (sampled->functions[i].self)
            ret_rows[count++] = &sampled->functions[i];
    count = count < REPORT_FUNCTIONS ? count : REPORT_FUNCTIONS;
    for (size_t i = 0; i < sampled->count; i++) {
        const struct sampled_function *function = &sampled->functions[i];
        if (!function->self && *function->file &&
            strncmp(function->name ? function->name : "", "__libc_start", 12) != 0 &&
            share_of(sampled, function->total) >= CALLS_MUCH)
            ret_rows[count++] = function;
    }
    return count;
}

static void put_table(struct buf *out, const struct sampled *sampled)
{
    const struct sampled_function **rows = calloc(sampled->count + 1, sizeof *rows);
    size_t count = rows && sampled->samples >= SAMPLES_FEW ? choose(sampled, rows) : 0;
    fields_table(out, &(struct field_table){columns}, rows, count, 0, sampled);
    if (sampled->refused) {
        buf_puts(out, count ? "  " : "\nWhere processors were used\n  ");
        put_refused(out, sampled);
        buf_puts(out, ", and of Python by function\n");
        free(rows);
        return;
    }
    buf_printf(out, "%s  %llu sample%s, %u in each second of a thread's processor time%s\n",
               count ? "" : "\nWhere processors were used\n", (unsigned long long)sampled->samples,
               sampled->samples == 1 ? "" : "s", sampled->hz,
               count ? " (--json lists all functions)" : ": too few to say");
    put_covered(out, sampled);
    free(rows);
}

static bool profile_read(const struct job_report *report, struct sampled **ret_sampled)
{
    return report->path && report->path[0] && (report->info.profile_hz || !report->info.json) &&
           sampled_read(ret_sampled, report->path, report->part_count > 0) == 0;
}

void report_profile_text(struct buf *out, const struct job_report *report, struct report_style style, bool whole)
{
    struct sampled *sampled;
    if (report->one_rank || !profile_read(report, &sampled))
        return;
    if (whole && !sampled->samples && waited_much(sampled))
        buf_puts(out, "\nWhere threads waited\n");
    else if (whole)
        put_table(out, sampled);
    else if (sampled->samples >= SAMPLES_FEW)
        put_summary(out, sampled);
    if (waited_much(sampled)) {
        if (whole)
            buf_puts(out, "  threads waited ");
        else
            text_label(out, "waited");
        put_waited(out, sampled);
    }
    sampled_free(sampled);
}

/* ---- for programs ---- */

static json_t *waits_json(const void *row, const void *all)
{
    const struct sampled_function *function = row;
    json_t *list = json_array();
    for (int what = 1; what < WAITING_KINDS; what++)
        if (function->waits[what] > 0)
            json_array_append_new(list, json_pack("{s:s, s:f}", "for", waiting_word((enum waiting_for)what), "seconds",
                                                  function->waits[what]));
    return list;
}

static const struct field waits_fields[] = {
    {"for", FIELD_CHOICE,
     .choices = "lock|condition|thread|child|sleep|pipe|socket|disk|terminal|events|signal|message|mpi|other"},
    {"seconds", FIELD_SECONDS},
    {0}};

static const struct field function_fields[] = {
    {"name", FIELD_TEXT, FIELD_AT(struct sampled_function, name), FIELD_OR_NULL,
     .about = "null: only the module is known"},
    {"module", FIELD_TEXT, FIELD_AT(struct sampled_function, module), .about = "the file that it is in; \"\": none"},
    {"file", FIELD_TEXT, FIELD_AT(struct sampled_function, file), .about = "of its source; \"\": not known"},
    {"line", FIELD_INTEGER, FIELD_AT(struct sampled_function, line), FIELD_ZERO_IS_NULL},
    {"language", FIELD_CHOICE, FIELD_AT(struct sampled_function, language),
     .choices = "native|python|javascript|jit|kernel|process|thread",
     .about = "jit: of code that a program made while it ran; process, thread: see refused"},
    {"self_samples", FIELD_COUNT, FIELD_AT(struct sampled_function, self)},
    {"total_samples", FIELD_COUNT, FIELD_AT(struct sampled_function, total), .about = "in it, or in what it called"},
    {"self_seconds", FIELD_SECONDS, FIELD_AT(struct sampled_function, self_seconds), .about = "of processor time"},
    {"total_seconds", FIELD_SECONDS, FIELD_AT(struct sampled_function, total_seconds)},
    {"waiting_seconds", FIELD_SECONDS, FIELD_AT(struct sampled_function, waiting_seconds),
     .about = "of threads that waited in it, or in a library that it called for that"},
    {"waits", FIELD_LIST, .json = waits_json, .of = waits_fields, .about = "the same by what for"},
    {"processes", FIELD_COUNT, FIELD_AT(struct sampled_function, processes), .about = "in which it was sampled"},
    {0}};

static const struct field sampled_fields[] = {
    {"hz", FIELD_COUNT, FIELD_AT(struct sampled, hz), .about = "samples in each second of a thread's processor time"},
    {"samples", FIELD_COUNT, FIELD_AT(struct sampled, samples)},
    {"lost", FIELD_COUNT, FIELD_AT(struct sampled, lost)},
    {"seconds", FIELD_SECONDS, FIELD_AT(struct sampled, seconds),
     .about = "of processor time that the samples stand for"},
    {"cpu_seconds", FIELD_SECONDS, FIELD_AT(struct sampled, cpu_seconds), .about = "of processor time that there was"},
    {"cost_seconds", FIELD_SECONDS, FIELD_AT(struct sampled, cost_seconds),
     .about = "of processor time that scry took for them"},
    {"waiting_seconds", FIELD_SECONDS, FIELD_AT(struct sampled, waiting_seconds),
     .about = "of threads that waited, without pools that stood and those that waited for a child or a thread"},
    {"kernel", FIELD_BOOL, FIELD_AT(struct sampled, kernel),
     .about = "the kernel's time for the job is in it; false: perf_event_paranoid does not let users see it"},
    {"refused", FIELD_TEXT, FIELD_AT(struct sampled, refused), FIELD_OR_NULL,
     .about =
         "why there are no samples: functions are processes, threads by their names, and functions of Python then"},
    {"functions", FIELD_LIST, FIELD_ROWS(struct sampled, functions, count), .of = function_fields},
    {0}};

static json_t *profile_json(const void *row, const void *all)
{
    const struct job_report *report = row;
    struct sampled *sampled;
    if (!profile_read(report, &sampled))
        return json_null();
    json_t *json = fields_json(sampled_fields, sampled, sampled);
    sampled_free(sampled);
    return json;
}

const struct field report_profile_fields[] = {
    {"profile", FIELD_OBJECT, .flags = FIELD_OR_NULL, .json = profile_json, .of = sampled_fields,
     .about = "where processors were used, by samples; null: none were taken (--profile)"},
    {0}};
