/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_CLI_COMMON_CLI_H
#define SCRY_CLI_COMMON_CLI_H

#include "base/data/err.h"
#include "options/options.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The command line. Each subcommand is a function in a file of its name, and rows in the table of commands and options
 * (options/table.h). main.c parses the arguments with that table.
 */

enum {
    EXIT_ERRORS = 1, /* done, with errors */
    EXIT_USAGE = 2,  /* not done: wrong arguments, or no monitor */
    EXIT_STUCK = 3,  /* scry why: some rank can never go on */
};

/* Each gets the parsed options, with as many words as the table allows, and returns the exit status. */
int cmd_broker(const struct options *options);
int cmd_diff(const struct options *options);
int cmd_doctor(const struct options *options);
int cmd_exec(const struct options *options);
int cmd_export(const struct options *options);
int cmd_link(const struct options *options);
int cmd_keys(const struct options *options);
int cmd_logs(const struct options *options);
int cmd_monitor(const struct options *options);
int cmd_omis(const struct options *options);
int cmd_ps(const struct options *options);
int cmd_publish(const struct options *options);
int cmd_replay(const struct options *options);
int cmd_report(const struct options *options);
int cmd_record(const struct options *options);
int cmd_rm(const struct options *options);
int cmd_run(const struct options *options);
/* Becomes the command, as if scry were not there. Returns the exit status if that is not possible. */
int cmd_run_alone(char **command);
int cmd_site(const struct options *options);
int cmd_serve(const struct options *options);
int cmd_set(const struct options *options);
int cmd_stop(const struct options *options);
int cmd_submit(const struct options *options);
int cmd_task(const struct options *options);
int cmd_signal(const struct options *options);
int cmd_snapshot(const struct options *options);
int cmd_top(const struct options *options);
int cmd_watch(const struct options *options);
int cmd_why(const struct options *options);

/* The schemas of what some print as JSON (cli/main/schemas.c). New references; NULL: out of memory. */
json_t *logs_schema(void);
json_t *ps_schema(void);
json_t *snapshot_schema(void);
json_t *top_schema(void);
json_t *why_schema(void);

/* The width of the terminal at standard output; 0: it is no terminal. */
size_t cli_columns(void);

/* Logs an error that may contain a path or typed text. Control characters are escaped. */
void cli_log_error(const struct err *err);
/* Writes to standard output, at once. Why it could not be written is kept for the end of the program: */
void cli_print(const char *text, size_t size);
int cli_print_errno(void); /* 0: it could, or nobody has tried */
/* Until inotify(7) has something, which it reads, it is time to look, or nobody reads standard output any more: then false. */
bool cli_wait_for_more(int changes);

/* Becomes a program of scry's own that has the same options: one that links more than a command line needs. Returns only
 * if it cannot, with the exit status. */
int cli_become(const struct options *options, const char *program);

/* Prints "scry NAME: ...; see scry NAME --help" and returns EXIT_USAGE. */
int cli_usage_error(const struct options *options, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Shows long output on a terminal in a pager, as git does: $SCRY_PAGER, else $PAGER, else less (LESS=FRX). */

/* Makes standard output the pager's input, if it is a terminal and a pager is wanted: one that is set, and is neither
 * empty nor cat; or less, unless the terminal is dumb. Ask the terminal for its properties before. */
void pager_start(void);

/* Waits until the person has finished reading; leaving early is no error. Returns the command's exit status. Does
 * nothing without a pager. */
int pager_end(int status);

/*
 * Shows a person how far long work is: on standard error, if that is a terminal, after the first second. The line
 * disappears when the work is done, and when somebody ends the command.
 */

struct progress {
    const char *what; /* "reading the trace" */
    uint64_t next_ns; /* 0: not begun */
    bool off, shown;
};

void progress_begin(struct progress *progress, const char *what);
void progress_show(void *progress, double share); /* 0 to 1; cheap, for up to some thousand calls a second */
void progress_say(struct progress *progress, const char *text); /* a whole line, in place of that */
void progress_end(struct progress *progress);

/* The settings of a job, from its own records. */

/* Adds the options of scry run, and what scry set has changed since, to an object of keys and values. `path` is the job
 * directory. What cannot be read is left out. */
void settings_read(const char *path, json_t *settings);

#endif
