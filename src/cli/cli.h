/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line. Each subcommand is a function in a file of its own name and a row in main.c's table, from which
 * usage and `scry help` are printed.
 */
#ifndef SCRY_CLI_CLI_H
#define SCRY_CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum {
    EXIT_ERRORS = 1, /* done, but something in it was an error */
    EXIT_USAGE = 2,  /* not done: wrong arguments, or no monitor to do it with */
    EXIT_STUCK = 3,  /* scry why: some rank can never go on */
};

/* argv[0] is the subcommand's name. Returns the exit status. */
int cmd_doctor(int argc, char **argv);
int cmd_exec(int argc, char **argv);
int cmd_export(int argc, char **argv);
int cmd_monitor(int argc, char **argv);
int cmd_omis(int argc, char **argv);
int cmd_ps(int argc, char **argv);
int cmd_replay(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_rm(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_set(int argc, char **argv);
int cmd_top(int argc, char **argv);
int cmd_why(int argc, char **argv);

/* Whether to use colours on this descriptor: a terminal that can, and NO_COLOR is not set. */
bool cli_color(int fd);
/* Of the terminal at standard output; 0: it is none. */
size_t cli_columns(void);

/* Logs an error that may repeat what somebody typed or a path: nothing in it moves the cursor. */
void cli_log_error(const struct err *err);

/* The value of the option `name` ("--rank") at argv[*at]: of --rank=3, or the argument behind, to which *at moves; "":
 * there is none. NULL: it is another argument. */
const char *cli_option(int argc, char **argv, int *at, const char *name);
/* The whole text is a decimal number from `least` to INT_MAX. */
bool cli_number(const char *text, int least, int *ret_number);

/* Prints "scry NAME: ...; see scry NAME --help" and returns EXIT_USAGE. */
int cli_usage_error(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same for an option that there is not; names the one of the command's help that is nearest. */
int cli_unknown_option(const char *command, const char *option);

#endif
