/* SPDX-License-Identifier: Apache-2.0 */
/* scry run: run a job and follow it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "cli/cli.h"
#include "job/launch.h"
#include "job/supervise.h"

static void print_help(void)
{
    _cleanup_(buf_done) struct buf options = BUF_INIT;
    run_options_help(&options);
    printf("Usage: scry run [OPTION...] [--] COMMAND [ARGUMENT...]\n"
           "\n"
           "Runs the command, follows all its processes and sums up what they were: status,\n"
           "time, memory, processes, how it ended. Everything else is as without scry:\n"
           "streams, terminal, signals, exit status.\n"
           "\n%s\n"
           "Every option also comes from the environment (SCRY_SAMPLE=5) or a file\n"
           "(--config), one a line: sample 5. The command sees SCRY_JOB, the job's\n"
           "directory. SCRY=off runs the command and nothing else.\n"
           "\n"
           "Exit status: the command's own; 128 + n when signal n killed it; 126, 127 when\n"
           "it could not be executed or found; 125 when scry failed before the start.\n"
           "\n"
           "Example: scry run --name build -- make -j4\n",
           options.data ? options.data : "");
}

/* SCRY=off: as if scry were not there. */
static int run_alone(char **command)
{
    execvp(command[0], command);
    int code = -errno;
    launch_explain(command[0], code);
    return launch_exit_code(code);
}

int cmd_run(int argc, char **argv)
{
    struct run_options options;
    struct err err = {0};
    log_open("scry run", 0);
    int code = run_options_parse(&options, argc, argv, &err);
    if (code < 0) {
        cli_log_error(&err);
        run_options_done(&options);
        return JOB_FAILED_BEFORE_START;
    }
    const char *off = getenv("SCRY");
    int status;
    if (options.help) {
        print_help();
        status = 0;
    } else if (off && strcasecmp(off, "off") == 0) {
        status = run_alone(options.command);
    } else {
        status = job_run(&options);
    }
    run_options_done(&options);
    return status;
}
