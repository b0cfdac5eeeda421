/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line. Each subcommand is a function in a file of its own name, and rows in the table of commands and
 * options (options/table.h), by which main.c reads what was given.
 */
#ifndef SCRY_CLI_CLI_H
#define SCRY_CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "options/options.h"

enum {
    EXIT_ERRORS = 1, /* done, but something in it was an error */
    EXIT_USAGE = 2,  /* not done: wrong arguments, or no monitor to do it with */
    EXIT_STUCK = 3,  /* scry why: some rank can never go on */
};

/* With the options that were given, and words as many as the table wants. Return the exit status. */
int cmd_doctor(const struct options *options);
int cmd_exec(const struct options *options);
int cmd_export(const struct options *options);
int cmd_monitor(const struct options *options);
int cmd_omis(const struct options *options);
int cmd_ps(const struct options *options);
int cmd_replay(const struct options *options);
int cmd_report(const struct options *options);
int cmd_rm(const struct options *options);
int cmd_run(const struct options *options);
int cmd_set(const struct options *options);
int cmd_top(const struct options *options);
int cmd_watch(const struct options *options);
int cmd_why(const struct options *options);

/* Of the terminal at standard output; 0: it is none. */
size_t cli_columns(void);

/* Logs an error that may repeat what somebody typed or a path: nothing in it moves the cursor. */
void cli_log_error(const struct err *err);

/* Prints "scry NAME: ...; see scry NAME --help" and returns EXIT_USAGE. */
int cli_usage_error(const struct options *options, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
