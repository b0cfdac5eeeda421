/* SPDX-License-Identifier: Apache-2.0 */
/* scry exec: run one program with what traces its functions, inside any launcher. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include <omis.h>

#include "base/log.h"
#include "cli/cli.h"
#include "client/client.h"
#include "job/launch.h"
#include "job/preload.h"

static void print_help(void)
{
    printf("Usage: scry exec [--] PROGRAM [ARGUMENT...]\n"
           "\n"
           "Becomes the program, with the library loaded into it that traces its functions.\n"
           "In a job (scry run) that is so anyway; it is for programs that a launcher starts\n"
           "with an environment of its own, or that are to be reached without a job: then\n"
           "the monitor is started if need be, and requests of tools can look at calls and\n"
           "values, but nothing is recorded.\n"
           "\n"
           "  -h, --help   this text\n"
           "\n"
           "SCRY_JOB names the job. SCRY_TRACE=off: no functions are traced; SCRY_MPI=off:\n"
           "calls of MPI are not counted; both, or SCRY=off: nothing is loaded.\n"
           "\n"
           "Exit status: the program's own; 126, 127 when it could not be executed or found.\n"
           "\n"
           "Example: mpirun -n 4 scry exec ./a.out\n");
}

static bool is_off(const char *name)
{
    const char *value = getenv(name);
    return value && strcasecmp(value, "off") == 0;
}

/* Without a job there may be no monitor yet. It stays for a while after its last tool has gone. */
static void start_monitor(void)
{
    char name[] = "scry-exec";
    char *arguments[] = {name, NULL}, **argv = arguments;
    int argc = 1;
    if (omis_init(&argc, &argv, NULL, NULL) == OMIS_OK)
        omis_finalize();
    else
        log_warning("no monitor, so the program runs untraced: %s", client_error());
}

static void prepare(const char *command)
{
    struct preload preload;
    struct err err = {0};
    const char *job = getenv("SCRY_JOB");
    bool trace_off = is_off("SCRY_TRACE"), mpi_off = is_off("SCRY_MPI");
    if (trace_off && mpi_off) {
        preload = (struct preload){0};
    } else if (preload_find(&preload, command, false, &err) < 0) {
        cli_log_error(&err);
    } else {
        const char *wanted = getenv("SCRY_TRACE_WANTED");
        preload.wanted = !trace_off && wanted && strcmp(wanted, "1") == 0; /* a job's wish is handed on */
        preload.mpi_off = mpi_off;
        if (!job || !*job)
            start_monitor();
        else if (access(job, F_OK) < 0)
            log_warning("there is no job %s (SCRY_JOB), so the program runs untraced", job);
    }
    preload_apply(&preload);
}

int cmd_exec(int argc, char **argv)
{
    int at = 1;
    log_open("scry exec", 0);
    if (at < argc && strcmp(argv[at], "--") == 0) {
        at++;
    } else if (at < argc && argv[at][0] == '-') {
        if (strcmp(argv[at], "--help") == 0 || strcmp(argv[at], "-h") == 0) {
            print_help();
            return 0;
        }
        return cli_unknown_option("exec", argv[at]);
    }
    if (at >= argc)
        return cli_usage_error("exec", "name a program");
    if (!is_off("SCRY"))
        prepare(argv[at]);
    execvp(argv[at], argv + at);
    int code = -errno;
    launch_explain(argv[at], code);
    return launch_exit_code(code);
}
