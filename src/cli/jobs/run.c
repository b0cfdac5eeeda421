/* SPDX-License-Identifier: Apache-2.0 */
/* scry run: runs a job and follows it. scry exec: runs one program with the library that traces its functions, inside any launcher. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <omis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/system/log.h"
#include "base/system/process.h"
#include "cli/common/cli.h"
#include "client/client.h"
#include "job/launch/launch.h"
#include "job/launch/preload.h"
#include "job/launch/propagate.h"
#include "job/logs/logs.h"
#include "job/logs/patterns.h"
#include "job/run/supervise.h"

int cmd_run_alone(char **command)
{
    step_forget();
    execvp(command[0], command);
    int code = -errno;
    launch_explain(command[0], code);
    return launch_exit_code(code);
}

/* Removes old jobs in a process of low priority: nobody waits for the disk. The job that has just ended is the
 * youngest, so it stays. */
static void remove_old(const struct options *options)
{
    enum { NICE = 19 };
    char rm[] = "scry", command[] = "rm", quiet[] = "--quiet", older[] = "--older-than", keep[] = "--keep-size";
    char *argv[8] = {rm, command, quiet};
    size_t argc = 3;
    const char *keep_for = options_text(options, "keep-for"), *keep_size = options_text(options, "keep-size");
    if (keep_for) {
        argv[argc++] = older;
        argv[argc++] = (char *)keep_for; /* execv does not change it */
    }
    if (keep_size) {
        argv[argc++] = keep;
        argv[argc++] = (char *)keep_size;
    }
    if (argc > 3)
        spawn_detached(
            &(struct spawn){
                .path = "/proc/self/exe", .argv = argv, .in = SPAWN_NULL, .out = SPAWN_NULL, .error = SPAWN_NULL},
            NICE);
}

int cmd_run(const struct options *given)
{
    struct run_options options;
    struct err err = {0};
    const char *off = getenv("SCRY");
    int status = JOB_FAILED_BEFORE_START;
    if (given->lists) {
        log_patterns_print(stdout);
        return 0;
    }
    if (run_options_take(&options, given, &err) < 0 || logs_check(&options, &err) < 0) {
        cli_log_error(&err);
        if (options_on(given, "anyway"))
            status = cmd_run_alone(given->words);
    } else if (off && strcasecmp(off, "off") == 0) {
        status = cmd_run_alone(options.command);
    } else {
        if (options.log_level)
            log_set_level(options.log_level);
        status = job_run(&options);
        remove_old(given);
    }
    run_options_done(&options);
    return status;
}

/* ---- scry exec ---- */

static bool is_off(const char *name)
{
    const char *value = getenv(name);
    return value && strcasecmp(value, "off") == 0;
}

static void prepare_exec(const char *command)
{
    struct preload preload = {0};
    struct err err = {0};
    char offered[PATH_MAX];
    if (step_find(offered, sizeof offered))
        setenv("SCRY_JOB", offered, 1);
    else if (getenv("SCRY_STEP"))
        log_warning("the program runs outside of the job: no scry run of this step came up on this node");
    step_forget();
    const char *job = getenv("SCRY_JOB");
    bool trace_off = is_off("SCRY_TRACE"), mpi_off = is_off("SCRY_MPI");
    bool off = trace_off && mpi_off;
    if (!off && preload_find(&preload, command, false, &err) < 0) {
        cli_log_error(&err);
    } else if (!off) {
        const char *wanted = getenv("SCRY_TRACE_WANTED");
        preload.patches = !trace_off && wanted && strcmp(wanted, "patches") == 0;
        preload.wanted = !trace_off && wanted && (preload.patches || strcmp(wanted, "1") == 0); /* as the job has it */
        preload.mpi_off = mpi_off;
        const char *metrics = getenv(METRICS_ENV); /* likewise */
        snprintf(preload.metrics, sizeof preload.metrics, "%s", metrics ? metrics : "");
        if (!job || !*job) { /* there may be no monitor yet; it stays for a while after its last tool is gone */
            if (omis_init(NULL, NULL, NULL, NULL) == OMIS_OK)
                omis_finalize();
            else
                log_warning("the program runs untraced: there is no monitor: %s", client_error());
        } else if (access(job, F_OK) < 0 && !getenv("SCRY_PART_HERE")) /* the monitor knows what it means there */
            log_warning("the program runs untraced: there is no job %s (SCRY_JOB)", job);
    }
    preload_apply(&preload);
}

int cmd_exec(const struct options *options)
{
    char **command = options->words;
    bool has_step = getenv("SCRY_STEP"); /* the batch system knows better who follows this program */
    if (!is_off("SCRY") && !has_step && propagation_is_outside())
        propagation_become_part(command);
    if (!is_off("SCRY"))
        prepare_exec(command[0]);
    execvp(command[0], command);
    int code = -errno;
    launch_explain(command[0], code);
    return launch_exit_code(code);
}
