/* SPDX-License-Identifier: Apache-2.0 */
/* scry exec: runs one program with the library that traces its functions, inside any launcher. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include <omis.h>

#include "base/system/log.h"
#include "cli/common/cli.h"
#include "client/client.h"
#include "job/launch/launch.h"
#include "job/launch/preload.h"
#include "job/launch/spread.h"

static bool is_off(const char *name)
{
    const char *value = getenv(name);
    return value && strcasecmp(value, "off") == 0;
}

/* Without a job there may be no monitor yet. It stays for a while after its last tool is gone. */
static void start_monitor(void)
{
    if (omis_init(NULL, NULL, NULL, NULL) == OMIS_OK)
        omis_finalize();
    else
        log_warning("the program runs untraced: there is no monitor: %s", client_error());
}

static void prepare(const char *command)
{
    struct preload preload;
    struct err err = {0};
    char offered[PATH_MAX];
    if (step_find(offered, sizeof offered))
        setenv("SCRY_JOB", offered, 1);
    else if (getenv("SCRY_STEP"))
        log_warning("the program runs outside of the job: no scry run of this step came up on this node");
    step_forget();
    const char *job = getenv("SCRY_JOB");
    bool trace_off = is_off("SCRY_TRACE"), mpi_off = is_off("SCRY_MPI");
    if (trace_off && mpi_off) {
        preload = (struct preload){0};
    } else if (preload_find(&preload, command, false, &err) < 0) {
        cli_log_error(&err);
    } else {
        const char *wanted = getenv("SCRY_TRACE_WANTED");
        preload.wanted = !trace_off && wanted && strcmp(wanted, "1") == 0; /* as the job has it */
        preload.mpi_off = mpi_off;
        if (!job || !*job)
            start_monitor();
        else if (access(job, F_OK) < 0 && !getenv("SCRY_PART_HERE")) /* the monitor knows what it means there */
            log_warning("the program runs untraced: there is no job %s (SCRY_JOB)", job);
    }
    preload_apply(&preload);
}

int cmd_exec(const struct options *options)
{
    char **command = options->words;
    bool has_step = getenv("SCRY_STEP"); /* the batch system knows better who follows this program */
    if (!is_off("SCRY") && !has_step && spread_is_outside())
        spread_become_part(command);
    if (!is_off("SCRY"))
        prepare(command[0]);
    execvp(command[0], command);
    int code = -errno;
    launch_explain(command[0], code);
    return launch_exit_code(code);
}
