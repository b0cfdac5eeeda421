/* SPDX-License-Identifier: Apache-2.0 */
#include "site/metrics.h"

#include <math.h>
#include <string.h>

enum { LABEL_MOST = 200 };

enum type { GAUGE, COUNTER };

struct output {
    struct buf *out;
    bool open_metrics;
};

/* ---- lines ---- */

/* A counter's name ends with _total, which OpenMetrics leaves out where it says what it is. */
static void family(struct output *to, const char *name, enum type type, const char *help)
{
    size_t len = strlen(name) - (to->open_metrics && type == COUNTER ? strlen("_total") : 0);
    buf_printf(to->out, "# HELP %.*s %s\n# TYPE %.*s %s\n", (int)len, name, help, (int)len, name,
               type == COUNTER ? "counter" : "gauge");
}

/* Cut between characters. */
static void put_label(struct buf *out, const char *name, const char *value, bool first)
{
    size_t len = strlen(value);
    if (len > LABEL_MOST)
        for (len = LABEL_MOST; len && ((unsigned char)value[len] & 0xc0) == 0x80;)
            len--;
    buf_printf(out, "%s%s=\"", first ? "" : ",", name);
    for (const char *c = value; c < value + len; c++) {
        if (*c == '\n')
            buf_puts(out, "\\n");
        else if (*c == '"' || *c == '\\')
            buf_printf(out, "\\%c", *c);
        else
            buf_putc(out, *c == '\r' || *c == '\0' ? ' ' : *c);
    }
    buf_putc(out, '"');
}

static void put_value(struct buf *out, double value)
{
    if (isfinite(value))
        buf_printf(out, " %.15g\n", value);
    else
        buf_puts(out, isnan(value) ? " NaN\n" : value > 0 ? " +Inf\n" : " -Inf\n");
}

static void single(struct output *to, const char *name, enum type type, const char *help, double value)
{
    family(to, name, type, help);
    buf_puts(to->out, name);
    put_value(to->out, value);
}

static void labelled(struct output *to, const char *name, const char *label, const char *text, double value)
{
    buf_printf(to->out, "%s{", name);
    put_label(to->out, label, text, true);
    buf_putc(to->out, '}');
    put_value(to->out, value);
}

/* ---- the recorder ---- */

static void put_recorder(struct output *to, const struct metrics *metrics)
{
    const struct record_health *health = metrics->health;
    single(to, "scry_record_readable", GAUGE, "1: the database could be read just now.", metrics->site != NULL);
    single(to, "scry_record_writable", GAUGE, "1: the database took what came last.", health->writable);
    single(to, "scry_record_broker_connected", GAUGE, "1: the recorder is connected with the broker.",
           health->connected);
    single(to, "scry_record_started_seconds", GAUGE, "When the recorder was started, seconds since 1970.",
           health->started);
    single(to, "scry_record_flushed_seconds", GAUGE,
           "When the database last took something, seconds since 1970; 0: not yet.", health->flushed);
    single(to, "scry_record_pending_bytes", GAUGE, "What has come and is not in the database yet.",
           (double)health->pending_bytes);
    single(to, "scry_record_records_total", COUNTER, "Records stored since the recorder was started.",
           (double)health->written);
    single(to, "scry_record_repeated_total", COUNTER, "Records that came again and were known.",
           (double)health->repeated);
    single(to, "scry_record_dropped_total", COUNTER,
           "Records for which there was no room, and which are asked for again.", (double)health->dropped);
    single(to, "scry_record_messages_total", COUNTER, "Messages that came from the broker.", (double)health->messages);
    single(to, "scry_record_scrapes_total", COUNTER, "Answers such as this one.", (double)metrics->requests);
    if (metrics->otlp) {
        single(to, "scry_otlp_records_total", COUNTER, "Records that the collector took.", (double)metrics->otlp->sent);
        single(to, "scry_otlp_dropped_total", COUNTER, "Records that the collector refused, or did not take in time.",
               (double)metrics->otlp->dropped);
        single(to, "scry_otlp_retries_total", COUNTER, "Batches that were sent once more.",
               (double)metrics->otlp->retries);
    }
    int64_t behind = 0, lost = 0;
    for (const struct site_job *job = metrics->site ? metrics->site->jobs : NULL; job; job = job->hh.next) {
        behind += job->kind == SITE_RUNNING && job->behind > 0 ? job->behind : 0;
        lost += job->lost > 0 ? job->lost : 0;
    }
    if (metrics->site) {
        single(to, "scry_record_lag_records", GAUGE,
               "Records that there are of running jobs, and that are not stored yet.", (double)behind);
        single(to, "scry_record_lost_records", GAUGE, "Records of these jobs that nobody has any more.", (double)lost);
        single(to, "scry_record_query_seconds", GAUGE, "How long it took to ask the database for this.",
               metrics->site->seconds);
    }
}

/* ---- all jobs ---- */

static void put_nodes(struct output *to, const struct site *site)
{
    static const struct {
        const char *name, *help;
        size_t at;
        bool real;
    } figures[] = {
#define FIGURE(name, help, member, real) {name, help, offsetof(struct site_node, member), real}
        FIGURE("scry_node_jobs_running", "Jobs that run on the node.", running, false),
        FIGURE("scry_node_jobs_away", "Jobs of the node that are lost, unreachable or unwatched.", away, false),
        FIGURE("scry_node_load", "Load of the node, the most of 15 minutes.", load, true),
        FIGURE("scry_node_memory_available_bytes", "Available memory, the least of 15 minutes.", available_bytes,
               false),
        FIGURE("scry_node_memory_pressure_ratio", "Share of the time in which tasks waited for memory.", pressure,
               true),
#undef FIGURE
    };
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
        size_t count = 0;
        family(to, figures[i].name, GAUGE, figures[i].help);
        for (const struct site_node *node = site->nodes; node && count < METRICS_NODES; node = node->hh.next, count++) {
            const char *at = (const char *)node + figures[i].at;
            double value =
                figures[i].real ? *(const double *)(const void *)at : (double)*(const int64_t *)(const void *)at;
            if (value >= 0)
                labelled(to, figures[i].name, "node", node->name, value);
        }
    }
}

static void put_sums(struct output *to, const struct site *site)
{
    static const char *const states[] = {"running",  "unreachable", "unwatched", "lost",
                                         "finished", "failed",      "crashed",   "killed"};
    size_t count = 0;
    family(to, "scry_jobs", GAUGE, "Jobs by state: those that run, and those that ended in the last 24 hours.");
    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        int64_t jobs = 0;
        for (size_t k = 0; k < site->state_count; k++)
            if (strcmp(site->states[k].state, states[i]) == 0)
                jobs = site->states[k].jobs;
        labelled(to, "scry_jobs", "state", states[i], (double)jobs);
    }
    family(to, "scry_problems", GAUGE, "Jobs, or nodes, for which a rule of scry site holds.");
    for (const struct site_rule *rule = site_rules; rule->name; rule++) {
        int64_t holds = 0;
        for (size_t i = 0; i < site->problem_count; i++)
            holds += site->problems[i].rule == rule;
        buf_puts(to->out, "scry_problems{");
        put_label(to->out, "rule", rule->name, true);
        put_label(to->out, "of", rule->of_job ? "job" : "node", false);
        buf_putc(to->out, '}');
        put_value(to->out, (double)holds);
    }
    family(to, "scry_user_jobs_running", GAUGE, "Jobs of the user that run.");
    for (const struct site_user *user = site->users; user && count < METRICS_USERS; user = user->hh.next, count++)
        labelled(to, "scry_user_jobs_running", "owner", user->name, (double)user->running);
}

/* ---- single jobs ---- */

static double cpu_seconds(const struct site_job *job)
{
    return job->cpu_seconds;
}

static double cpus(const struct site_job *job)
{
    return job->recent.cpus;
}

static double cpus_asked(const struct site_job *job)
{
    return job->cpus_asked;
}

static double memory(const struct site_job *job)
{
    return (double)job->rss_bytes;
}

static double memory_most(const struct site_job *job)
{
    return (double)job->memory_used_bytes;
}

static double memory_asked(const struct site_job *job)
{
    return (double)job->memory_asked_bytes;
}

static double progress(const struct site_job *job)
{
    return job->progress;
}

static double left(const struct site_job *job)
{
    return job->left_seconds;
}

static double elapsed(const struct site_job *job)
{
    return job->wall_seconds;
}

static double warnings(const struct site_job *job)
{
    return (double)job->warnings;
}

static double log_errors(const struct site_job *job)
{
    return (double)job->log_errors;
}

static double crashes(const struct site_job *job)
{
    return (double)job->crashes;
}

static double processes(const struct site_job *job)
{
    return (double)job->processes;
}

/* clang-format off */
static const struct {
    const char *name;
    enum type type;
    double (*value)(const struct site_job *job); /* negative: unknown */
    const char *help;
} job_figures[] = {
    {"scry_job_elapsed_seconds", GAUGE, elapsed, "Since the start of the job."},
    {"scry_job_cpu_seconds_total", COUNTER, cpu_seconds, "Processor time of all processes of the job."},
    {"scry_job_cpus", GAUGE, cpus, "Processors used, in the last 15 minutes."},
    {"scry_job_cpus_asked", GAUGE, cpus_asked, "Processors that the job asked for."},
    {"scry_job_memory_bytes", GAUGE, memory, "Resident memory of all processes."},
    {"scry_job_memory_most_bytes", GAUGE, memory_most, "The most memory that the job has had."},
    {"scry_job_memory_asked_bytes", GAUGE, memory_asked, "Memory that the job asked for."},
    {"scry_job_processes_total", COUNTER, processes, "Processes that the job has started."},
    {"scry_job_progress_ratio", GAUGE, progress, "How much is done, from 0 to 1, as its logs say."},
    {"scry_job_left_seconds", GAUGE, left, "Until it is done, at the pace until now."},
    {"scry_job_warnings_total", COUNTER, warnings, "Warnings of scry."},
    {"scry_job_log_errors_total", COUNTER, log_errors, "Lines of logs that are errors."},
    {"scry_job_crashes_total", COUNTER, crashes, "Processes that were killed by a fault of their own."},
};
/* clang-format on */

static void put_jobs(struct output *to, const struct site *site)
{
    size_t left_out = 0, count = 0;
    const struct site_job *shown[METRICS_JOBS];
    for (const struct site_job *job = site->jobs; job; job = job->hh.next) {
        if (job->kind != SITE_RUNNING)
            continue;
        if (count < METRICS_JOBS)
            shown[count++] = job;
        else
            left_out++;
    }
    single(to, "scry_jobs_left_out", GAUGE, "Jobs that run and are not listed below: the newest 1000 are.",
           (double)left_out);
    for (size_t k = 0; k < sizeof job_figures / sizeof *job_figures; k++) {
        family(to, job_figures[k].name, job_figures[k].type, job_figures[k].help);
        for (size_t i = 0; i < count; i++) {
            double value = job_figures[k].value(shown[i]);
            if (value < 0)
                continue;
            buf_printf(to->out, "%s{", job_figures[k].name);
            put_label(to->out, "owner", shown[i]->owner, true);
            put_label(to->out, "id", shown[i]->id, false);
            put_label(to->out, "name", shown[i]->name, false);
            put_label(to->out, "node", shown[i]->node, false);
            buf_putc(to->out, '}');
            put_value(to->out, value);
        }
    }
}

void metrics_put(struct buf *out, const struct metrics *metrics, bool open_metrics)
{
    struct output to = {out, open_metrics};
    put_recorder(&to, metrics);
    if (metrics->site) {
        put_sums(&to, metrics->site);
        put_nodes(&to, metrics->site);
        put_jobs(&to, metrics->site);
    }
    if (open_metrics)
        buf_puts(out, "# EOF\n");
}
