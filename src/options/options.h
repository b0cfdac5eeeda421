/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options that somebody gave a command: read by the table (options/table.h) from the command line, the environment
 * (SCRY_NAME) and a file (--config), in this order of precedence. An option that was not given has its default.
 *
 * Getters take the name of an option that the command has; another name is a mistake of the program, and ends it. Not
 * thread-safe, not for signal handlers.
 */
#ifndef SCRY_OPTIONS_OPTIONS_H
#define SCRY_OPTIONS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "options/table.h"

enum { OPTION_REGEX_GROUPS = 31 /* in parentheses, at most */ };

/* Which of them holds it, the option's type says. */
struct option_value {
    bool on;
    uint64_t number;
    double seconds;
};

/* One that was given. */
struct option_given {
    const struct option_row *row;
    const char *text; /* "": a switch alone, or a value that was left out */
    struct option_value value;
    unsigned source;
};

struct options {
    enum command command;
    char **argv;  /* borrowed: as it was given, if there are no words */
    char **words; /* what is no option: borrowed from argv, NULL-terminated */
    size_t word_count;
    bool help;                  /* --help was asked for: nothing else was looked at */
    struct option_given *given; /* in this order; of sources of lower precedence only what is in no other */
    size_t count;
    struct arena memory; /* of the above, and of values from a file */
};

/* argv[0] is the command's name; argv may be put into another order. 0; -EINVAL or another -errno with err: what,
 * where, what was expected, or what was probably meant. options_done in any case. */
int options_parse(struct options *ret_options, enum command command, int argc, char **argv, struct err *err);
void options_done(struct options *options);

bool options_given(const struct options *options, const char *name);
bool options_on(const struct options *options, const char *name);
uint64_t options_number(const struct options *options, const char *name); /* 0: neither given nor a default */
double options_seconds(const struct options *options, const char *name);
const char *options_text(const struct options *options, const char *name); /* as it was given; NULL as above */
/* One after the other of an option that may be given again; *at starts as 0. NULL: there are no more. */
const char *options_next(const struct options *options, const char *name, size_t *at);

/* ---- single rows ---- */

/* The row of a command's option, of a setting that `scry set` changes, of one that the monitor knows; NULL: none. */
const struct option_row *option_find(enum command command, const char *name, size_t len);
const struct option_row *option_find_setting(const char *key, struct err *err); /* err: which may have been meant */
const struct option_row *option_find_monitor(const char *key);

/* Reads a value. 0, or -EINVAL and "FROM: expected ..., not '...'"; `from` may be NULL, if others say it. */
int option_parse(const struct option_row *row, const char *text, const char *from, struct option_value *ret_value,
                 struct err *err);
/* The index-th word of a choice; an empty span: there is none. */
struct span option_word(const struct option_row *row, size_t index);

/* ---- help ---- */

void options_help(struct buf *out, enum command command); /* all of `scry COMMAND --help` */

#endif
