/* SPDX-License-Identifier: Apache-2.0 */
/* scry run: run a job and follow it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/wait.h>
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

/* Jobs of the past are removed behind the back of who waits for this one, whatever the disk does: by a grandchild of
 * low priority. The job that has just ended is younger than all. */
static void remove_old(const struct run_options *options)
{
    enum { NICE = 19 };
    char rm[] = "scry", command[] = "rm", quiet[] = "--quiet", older[] = "--older-than", keep[] = "--keep-size";
    char *argv[8] = {rm, command, quiet};
    size_t argc = 3;
    if (options->keep_for) {
        argv[argc++] = older;
        argv[argc++] = (char *)options->keep_for; /* execv changes nothing */
    }
    if (options->keep_size) {
        argv[argc++] = keep;
        argv[argc++] = (char *)options->keep_size;
    }
    pid_t child = argc > 3 ? fork() : -1;
    if (child == 0) {
        int null = open("/dev/null", O_RDWR);
        if (fork() != 0 || null < 0)
            _exit(0);
        for (int stream = 0; stream <= STDERR_FILENO; stream++)
            dup2(null, stream);
        close_range(STDERR_FILENO + 1, ~0U, 0);
        setsid();
        if (nice(NICE) == -1 || chdir("/") < 0)
            errno = 0; /* as it is, then */
        execv("/proc/self/exe", argv);
        _exit(0);
    }
    if (child > 0)
        waitpid(child, NULL, 0);
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
        remove_old(&options);
    }
    run_options_done(&options);
    return status;
}
