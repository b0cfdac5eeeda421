/* SPDX-License-Identifier: Apache-2.0 */
/* scry report, scry diff: show a run, or how two differ. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include <jansson.h>

#include "base/data/cleanup.h"
#include "base/system/log.h"
#include "cli/common/cli.h"
#include "cli/common/find.h"
#include "job/places/place_names.h"
#include "jobdir/report/report.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"

static int load_functions(struct job_report *report, pid_t process, struct err *err)
{
    struct progress progress;
    struct job_functions_options options = {.process = process, .progress = progress_show, .ctx = &progress};
    progress_begin(&progress, "reading the trace");
    int code = job_report_load_functions(report, &options, err);
    progress_end(&progress);
    if (code == 0 && process && !report->functions->processes)
        code = err_set(err, -ENOENT, "there is no trace of process %d in %s", (int)process, report->path);
    struct err unnamed = {0}; /* functions without a name are shown by module */
    if (code == 0 && trace_names_sites(report->functions, report->path, &unnamed) == -ENOMEM)
        code = err_set(err, -ENOMEM, "out of memory");
    return code;
}

static int load_messages(struct job_report *report, struct err *err)
{
    struct progress progress;
    progress_begin(&progress, "looking for messages");
    int code = job_report_load_messages(report, progress_show, &progress, err);
    progress_end(&progress);
    return code;
}

static int load_ranks(struct job_report *report, struct err *err)
{
    int code = mpi_names_report(&report->mpi, report->path, MPI_NAMES_TIMEOUT_MS, err);
    if (code == 0)
        code = job_report_find_ends(report, &report->mpi->set);
    return code < 0 && code != -ENOENT ? code : 0;
}

/* Limits what follows to this rank. How its end relates to the others' is known by now. */
static int choose_rank(struct job_report *report, int rank, struct err *err)
{
    report->one_rank = rank >= 0;
    report->mpi_rank = rank;
    int code = rank < 0 ? 0 : report->mpi ? mpi_report_only(report->mpi, rank) : -ENOENT;
    if (code == -ENOENT)
        return err_set(err, code, "there are no statistics of a rank %d in %s", rank, report->path);
    return code < 0 ? err_set(err, code, "out of memory") : 0;
}

static bool report_load(const char *job, pid_t process, int rank, struct found_job *found, struct job_report *report)
{
    struct err err = {0};
    if (find_job(found, job, &err) == 0 && job_report_load(report, found->path, &err) == 0 &&
        load_ranks(report, &err) == 0 && choose_rank(report, rank, &err) == 0 &&
        load_functions(report, process, &err) == 0 && (rank >= 0 || load_messages(report, &err) == 0))
        return true;
    cli_log_error(&err);
    job_report_done(report);
    return false;
}

static int print_text(const struct buf *text)
{
    if (text->failed) {
        log_error("out of memory");
        return EXIT_ERRORS;
    }
    pager_start();
    cli_print(text->data, text->len);
    return pager_end(0);
}

static int print_json(json_t *json_take)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    text_put_json(&text, json_take);
    return print_text(&text);
}

static int report_one(const char *job, pid_t process, int rank, bool json)
{
    struct found_job found;
    struct job_report report = {0};
    if (!report_load(job, process, rank, &found, &report)) {
        find_close(&found);
        return EXIT_ERRORS;
    }
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    int status;
    if (json) {
        status = print_json(job_report_json(&report));
    } else {
        job_report_text(&text, &report, report_style_for(STDOUT_FILENO));
        status = print_text(&text);
    }
    job_report_done(&report);
    find_close(&found);
    return status;
}

static int report_two(const char *first, const char *second, bool json)
{
    struct found_job found[2] = {{.input = -1, .output = -1}, {.input = -1, .output = -1}};
    struct job_report a = {0}, b = {0};
    int status = EXIT_ERRORS;
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    bool both = report_load(first, 0, -1, &found[0], &a) && report_load(second, 0, -1, &found[1], &b);
    if (both) {
        if (json) {
            status = print_json(job_report_diff_json(&a, &b));
        } else {
            job_report_diff_text(&text, &a, &b);
            text_wrap(&text, 0, text_columns(STDOUT_FILENO));
            status = print_text(&text);
        }
        job_report_done(&b);
    }
    job_report_done(&a);
    find_close(&found[0]);
    find_close(&found[1]);
    return status;
}

int cmd_report(const struct options *options)
{
    bool of_rank = options_given(options, "rank");
    return report_one(options->words[0], (pid_t)options_number(options, "process"),
                      of_rank ? (int)options_number(options, "rank") : -1, options_on(options, "json"));
}

int cmd_diff(const struct options *options)
{
    return report_two(options->words[0], options->words[1], options_on(options, "json"));
}
