/* SPDX-License-Identifier: Apache-2.0 */
/* The command: finds the job, asks, prints. */
#include "cli/snapshot/snapshot.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <omis.h>

#include "base/data/cleanup.h"
#include "base/system/log.h"
#include "cli/common/cli.h"
#include "cli/common/find.h"
#include "client/client.h"
#include "jobdir/record/info.h"
#include "jobdir/text/text.h"

/* Whether its processes can be asked now. 0, or -errno with err. */
static int check_state(const struct found_job *job, struct job_info *info, struct err *err)
{
    enum job_state state;
    int code = job_info_read_state(job->path, info, &state, err);
    if (code < 0)
        return code;
    if (state != JOB_RUNNING)
        return err_set(err, -ESRCH,
                       "job %s does not run (it is %s), so its threads are nowhere: scry report shows what it was",
                       info->id, job_state_name(state));
    if (job->remote && (!job->takes_requests || !job->url.data || !job->dir[0]))
        return err_set(err, -ENOTCONN, "job %s takes no requests through the broker", info->id);
    return 0;
}

static int join(const struct found_job *job, struct err *err)
{
    if (job->remote ? client_join_job(job->url.data) : client_join())
        return 0;
    return err_set(err, -ENOTCONN, "the monitor of the job cannot be asked: %s", client_error());
}

static int print(const struct snapshot *snapshot, bool json)
{
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    if (json)
        text_put_json(&out, snapshot_json(snapshot));
    else
        snapshot_text(&out, snapshot, text_columns(STDOUT_FILENO));
    if (out.failed) {
        log_error("out of memory");
        return EXIT_ERRORS;
    }
    cli_print(out.data, out.len);
    return snapshot->unread || snapshot->unreached ? EXIT_ERRORS : 0;
}

int cmd_snapshot(const struct options *options)
{
    const bool json = options_on(options, "json");
    const struct snapshot_options wanted = {.all = options_on(options, "all") || json,
                                            .depth = (unsigned)options_number(options, "depth"),
                                            .ranks = options_text(options, "rank"),
                                            .thread = options_text(options, "thread"),
                                            .queues = options_on(options, "queues"),
                                            .files = options_on(options, "files"),
                                            .values = options_on(options, "values")};
    struct snapshot snapshot = {0};
    struct job_info info = {0};
    struct found_job job;
    struct err err = {0};
    bool has;
    if (wanted.ranks && snapshot_set_has(wanted.ranks, 0, &has, &err) < 0)
        return cli_usage_error(options, "%s", err.text);
    int status = EXIT_ERRORS, code = find_job(&job, options->words[0], &err);
    _cleanup_(freep) char *real = code == 0 ? realpath(job.path, NULL) : NULL; /* as the monitor knows it */
    if (code == 0)
        code = check_state(&job, &info, &err);
    if (code == 0 && (code = join(&job, &err)) == 0) {
        snapshot.job = info.id;
        code = snapshot_ask(&snapshot, job.remote ? job.dir : real ? real : job.path, !job.remote, &wanted, &err);
        omis_finalize();
    }
    if (code == 0)
        status = print(&snapshot, json);
    else
        cli_log_error(&err);
    snapshot_done(&snapshot);
    job_info_done(&info);
    find_close(&job);
    return status;
}
