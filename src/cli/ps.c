/* SPDX-License-Identifier: Apache-2.0 */
/* scry ps: jobs and their processes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "cli/cli.h"
#include "jobdir/dir.h"
#include "jobdir/report.h"
#include "jobdir/text.h"

enum {
    PS_ENDED = 10,     /* jobs of the past shown without --all */
    PS_PROCESSES = 10, /* of one job shown without --all */
};

static void print_help(void)
{
    printf("usage: scry ps [--all] [--json]\n"
           "\n"
           "Lists the jobs: those that run with their processes, and the last %d that ended.\n"
           "\n"
           "  running       watched by its scry run\n"
           "  unwatched     scry run was killed, the job goes on\n"
           "  lost          both are gone and no end was recorded (kill -9, a restarted node)\n"
           "  unreachable   on another host, and not heard of for a while: running or dead\n"
           "  ended         with its exit status\n"
           "\n"
           "  --all    every job, every process\n"
           "  --json   as JSON (doc/reference/ps.schema.json)\n"
           "\n"
           "example: scry ps\n",
           PS_ENDED);
}

static bool is_over(const struct job_report *report)
{
    return report->state == JOB_ENDED || report->state == JOB_LOST;
}

static const char *command_line(const struct job_report *report, struct buf *out)
{
    size_t index;
    json_t *arg;
    if (report->info.name[0]) {
        text_show(out, report->info.name);
        return out->data ? out->data : "";
    }
    json_array_foreach(report->info.argv, index, arg)
    {
        buf_puts(out, index ? " " : "");
        text_show(out, json_string_value(arg) ? json_string_value(arg) : "?");
        if (out->len > 120)
            break;
    }
    return out->data ? out->data : "";
}

static void put_outcome(struct buf *out, const struct job_report *report, const struct job_result *result)
{
    char name[32];
    const char *status = job_report_status(report);
    if (strcmp(status, "signaled") == 0)
        buf_puts(out, text_signal(result->signal, name, sizeof name));
    else if (strcmp(status, "exited") == 0 || strcmp(status, "not_started") == 0)
        buf_printf(out, "exit %d", result->exit_code);
    else
        buf_puts(out, status);
}

static int by_cpu_share(const void *a, const void *b)
{
    const struct job_process *left = *(struct job_process *const *)a, *right = *(struct job_process *const *)b;
    if (left->cpu_share != right->cpu_share)
        return left->cpu_share < right->cpu_share ? 1 : -1;
    return left->pid - right->pid;
}

static void put_processes(struct buf *out, const struct job_model *model, bool all)
{
    size_t count = HASH_COUNT(model->alive), used = 0;
    _cleanup_(freep) const struct job_process **list = calloc(count + 1, sizeof *list);
    for (const struct job_process *process = model->alive; process && list; process = process->hh.next)
        list[used++] = process;
    if (used)
        qsort(list, used, sizeof *list, by_cpu_share);
    for (size_t i = 0; i < used && (all || i < PS_PROCESSES); i++) {
        struct buf name = BUF_INIT;
        text_show(&name, list[i]->name);
        buf_printf(out, "    %8d %c %5.0f%%  ", list[i]->pid, list[i]->state, 100 * list[i]->cpu_share);
        text_size(out, list[i]->rss);
        buf_printf(out, "  %s", name.data ? name.data : "");
        if (list[i]->threads > 1)
            buf_printf(out, " (%llu threads)", (unsigned long long)list[i]->threads);
        buf_putc(out, '\n');
        buf_done(&name);
    }
    if (!all && used > PS_PROCESSES)
        buf_printf(out, "    ... and %zu more\n", used - PS_PROCESSES);
}

static void put_job(struct buf *out, const struct job_report *report, bool all)
{
    struct job_result result = job_report_result(report);
    struct buf outcome = BUF_INIT, elapsed = BUF_INIT, cpu = BUF_INIT, peak = BUF_INIT, command = BUF_INIT;
    put_outcome(&outcome, report, &result);
    text_seconds(&elapsed, result.wall_seconds);
    text_seconds(&cpu, result.cpu_seconds);
    text_size(&peak, result.peak_tree_rss_bytes);
    buf_printf(out, "%-36s %-11s %12s %12s %9s  %.100s\n", report->info.id, outcome.data ? outcome.data : "",
               elapsed.data ? elapsed.data : "", cpu.data ? cpu.data : "", peak.data ? peak.data : "",
               command_line(report, &command));
    buf_done(&outcome);
    buf_done(&elapsed);
    buf_done(&cpu);
    buf_done(&peak);
    buf_done(&command);
    if (!is_over(report))
        put_processes(out, &report->model, all);
}

static json_t *job_json(const struct job_report *report)
{
    struct job_result result = job_report_result(report);
    json_t *processes = json_array();
    for (const struct job_process *process = is_over(report) ? NULL : report->model.alive; process;
         process = process->hh.next) {
        char state[2] = {process->state, 0};
        json_t *json = job_process_json(process);
        json_object_set_new(json, "state", json_string(state));
        json_object_set_new(json, "rss_bytes", json_integer((json_int_t)process->rss));
        json_object_set_new(json, "cpus", json_real(process->cpu_share));
        json_array_append_new(processes, json);
    }
    return json_pack(
        "{s:s, s:o, s:o, s:o, s:O?, s:s, s:s, s:o, s:o, s:f, s:f, s:f, s:I, s:o}", "id", report->info.id, "name",
        text_json(report->info.name), "path", text_json(report->path), "host", text_json(report->info.host), "argv",
        report->info.argv, "state", job_state_name(report->state), "status", job_report_status(report), "exit_code",
        report->info.ended ? json_integer(result.exit_code) : json_null(), "signal",
        result.signal ? json_integer(result.signal) : json_null(), "started_seconds",
        (double)report->info.started_ns / 1e9, "wall_seconds", result.wall_seconds, "cpu_seconds", result.cpu_seconds,
        "peak_tree_rss_bytes", (json_int_t)result.peak_tree_rss_bytes, "processes", processes);
}

/* What is said of jobs whose directory cannot be read: in the listing, for it would be wrong without them. */
static void put_unreadable(struct buf *out, json_t *list, const char *path, const struct err *err)
{
    const char *slash = strrchr(path, '/');
    json_array_append_new(list, json_pack("{s:o, s:o, s:s, s:o}", "id", text_json(slash ? slash + 1 : path), "path",
                                          text_json(path), "state", "unreadable", "reason", text_json(err->text)));
    text_show(out, slash ? slash + 1 : path);
    buf_puts(out, " unreadable: ");
    text_show(out, err->text);
    buf_putc(out, '\n');
}

/* Jobs that are over need no look into their spool. */
static int load(struct job_report *report, const char *path, struct err *err)
{
    struct job_info info;
    int code = job_info_read(path, &info, err);
    if (code == 0 && info.ended) {
        *report = (struct job_report){.path = path, .info = info, .state = JOB_ENDED};
        return 0;
    }
    job_info_done(&info);
    return code < 0 ? code : job_report_load(report, path, err);
}

int cmd_ps(int argc, char **argv)
{
    bool all = false, json = false;
    log_open("scry ps", 0);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            print_help();
            return 0;
        } else if (strcmp(argv[i], "--all") == 0 || strcmp(argv[i], "-a") == 0) {
            all = true;
        } else if (strcmp(argv[i], "--json") == 0) {
            json = true;
        } else {
            return cli_usage_error("ps", "unknown argument %s", argv[i]);
        }
    }
    struct err err = {0};
    char **paths;
    size_t count, over = 0;
    if (jobdir_list(&paths, &count, &err) < 0) {
        log_error("%s", err.text);
        return EXIT_ERRORS;
    }
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    json_t *list = json_array();
    buf_printf(&out, "%-36s %-11s %12s %12s %9s  %s\n", "JOB", "STATE", "ELAPSED", "CPU", "PEAK", "COMMAND");
    for (size_t i = count; i-- > 0;) {
        struct job_report report = {0};
        if (load(&report, paths[i], &err) < 0) {
            put_unreadable(&out, list, paths[i], &err);
        } else if (!is_over(&report) || over++ < PS_ENDED || all) {
            put_job(&out, &report, all);
            json_array_append_new(list, job_json(&report));
        }
        job_report_done(&report);
    }
    jobdir_list_free(paths, count);
    if (!json && !all && over > PS_ENDED)
        buf_printf(&out, "%zu more that ended: scry ps --all\n", over - PS_ENDED);
    if (json) {
        json_t *whole = json_pack("{s:o}", "jobs", list);
        json_dumpf(whole, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
        putchar('\n');
        json_decref(whole);
    } else {
        json_decref(list);
        fputs(out.data ? out.data : "", stdout);
    }
    return 0;
}
