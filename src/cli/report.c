/* SPDX-License-Identifier: Apache-2.0 */
/* scry report: what a run was. */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "cli/cli.h"
#include "jobdir/dir.h"
#include "jobdir/report.h"

static void print_help(void)
{
    printf("Usage: scry report [--json] JOB\n"
           "       scry report [--json] --diff JOB JOB\n"
           "\n"
           "Shows what a run was or, while it lasts, is: outcome, time, memory, processes,\n"
           "warnings. JOB is a job's id, a unique prefix of one, @last, or a job directory.\n"
           "\n"
           "  --json       as JSON (doc/reference/report.schema.json)\n"
           "  --diff       two runs side by side\n"
           "  -h, --help   this text\n"
           "\n"
           "Example: scry report @last\n");
}

static bool load(const char *job, char *path, size_t size, struct job_report *report)
{
    struct err err = {0};
    if (jobdir_find(job, path, size, &err) == 0 && job_report_load(report, path, &err) == 0)
        return true;
    cli_log_error(&err);
    job_report_done(report);
    return false;
}

static int print_json(json_t *json)
{
    _cleanup_(freep) char *text = json ? json_dumps(json, JSON_INDENT(2) | JSON_REAL_PRECISION(15)) : NULL;
    json_decref(json);
    if (!text) {
        log_error("out of memory");
        return EXIT_ERRORS;
    }
    puts(text);
    return 0;
}

static int print_text(const struct buf *text)
{
    if (text->failed) {
        log_error("out of memory");
        return EXIT_ERRORS;
    }
    fwrite(text->data, 1, text->len, stdout);
    return 0;
}

static int report_one(const char *job, bool json)
{
    char path[PATH_MAX];
    struct job_report report = {0};
    if (!load(job, path, sizeof path, &report))
        return EXIT_ERRORS;
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    int status;
    if (json) {
        status = print_json(job_report_json(&report));
    } else {
        job_report_text(&text, &report, report_style_for(STDOUT_FILENO));
        status = print_text(&text);
    }
    job_report_done(&report);
    return status;
}

static int report_two(const char *first, const char *second, bool json)
{
    char paths[2][PATH_MAX];
    struct job_report a = {0}, b = {0};
    int status = EXIT_ERRORS;
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    if (!load(first, paths[0], sizeof paths[0], &a))
        return status;
    if (load(second, paths[1], sizeof paths[1], &b)) {
        if (json) {
            status = print_json(job_report_diff_json(&a, &b));
        } else {
            job_report_diff_text(&text, &a, &b);
            status = print_text(&text);
        }
        job_report_done(&b);
    }
    job_report_done(&a);
    return status;
}

int cmd_report(int argc, char **argv)
{
    bool json = false, diff = false;
    const char *jobs[2];
    int count = 0;
    log_open("scry report", 0);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            print_help();
            return 0;
        } else if (strcmp(argv[i], "--json") == 0) {
            json = true;
        } else if (strcmp(argv[i], "--diff") == 0) {
            diff = true;
        } else if (argv[i][0] == '-') {
            return cli_usage_error("report", "unknown option %s", argv[i]);
        } else if (count == 2) {
            return cli_usage_error("report", "too many jobs: %s", argv[i]);
        } else {
            jobs[count++] = argv[i];
        }
    }
    if (count != (diff ? 2 : 1))
        return cli_usage_error("report", diff ? "--diff needs two jobs" : "name one job (@last is the latest)");
    return diff ? report_two(jobs[0], jobs[1], json) : report_one(jobs[0], json);
}
