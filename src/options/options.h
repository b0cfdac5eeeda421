/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_OPTIONS_OPTIONS_H
#define SCRY_OPTIONS_OPTIONS_H

#include "base/data/arena.h"
#include "base/data/buf.h"
#include "base/data/err.h"
#include "options/table.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The options that a command was given, read with the table (options/table.h) from the command line, the environment
 * (SCRY_NAME) and a file (--config). The first of these wins. An option that was not given has its default.
 *
 * Getters take the name of an option of the command; another name is a mistake in the program, and ends it. Not
 * thread-safe, not for signal handlers.
 */

enum { OPTION_REGEX_GROUPS = 31 /* in parentheses, at most */ };

/* The option's type says which member holds the value. */
struct option_value {
    bool on;
    uint64_t number;
    double seconds;
};

/* An option that was given. */
struct option_given {
    const struct option_row *row;
    const char *text; /* "": a switch without a value, or an optional value left out */
    struct option_value value;
    unsigned source;
};

struct options {
    enum command command;
    char **argv;  /* borrowed; in its first order, if there are no words */
    char **words; /* arguments that are no options: borrowed from argv, NULL-terminated */
    size_t word_count;
    bool help;                  /* --help was given: nothing else was read */
    bool lists;                 /* an option is to list its values: words may be missing */
    struct option_given *given; /* in order; a source of lower precedence adds only what no other has */
    size_t count;
    struct arena memory; /* of the above, and of values from a file */
};

/* argv[0] is the command's name; argv may be reordered. 0, or -EINVAL or another -errno, with err: what was wrong,
 * where, and what was expected or probably meant. Call options_done in any case. */
int options_parse(struct options *ret_options, enum command command, int argc, char **argv, struct err *err);
void options_done(struct options *options);

bool options_given(const struct options *options, const char *name);
bool options_on(const struct options *options, const char *name);
uint64_t options_number(const struct options *options, const char *name); /* 0: neither given nor a default */
double options_seconds(const struct options *options, const char *name);
const char *options_text(const struct options *options, const char *name); /* as it was given; NULL as above */
/* Returns the values of an option that may be repeated, one after the other; *at starts as 0. NULL: no more. */
const char *options_next(const struct options *options, const char *name, size_t *at);

/* ---- single rows ---- */

/* The row of a command's option, of a setting that `scry set` changes, of a setting that the monitor knows. NULL: none.
 */
const struct option_row *option_find(enum command command, const char *name, size_t len);
const struct option_row *option_find_setting(const char *key, struct err *err); /* err: a name like it */
const struct option_row *option_find_monitor(const char *key);

/* Reads a value. 0, or -EINVAL and "FROM: expected ..., not '...'". `from` NULL leaves FROM out. */
int option_parse(const struct option_row *row, const char *text, const char *from, struct option_value *ret_value,
                 struct err *err);
/* Of a selection that somebody gives: does it say anything? 0, or -EINVAL and "FROM: ...". Settings may be empty. */
int option_check_empty(const struct option_row *row, const char *text, const char *from, struct err *err);
/* The index-th word of a choice. An empty span: no more. */
struct span option_word(const struct option_row *row, size_t index);

/* Its name in what is said to who typed that: its other one, if it was that. */
const char *command_typed(enum command command, const char *word);

/* ---- help ---- */

void options_help(struct buf *out, enum command command); /* all of `scry COMMAND --help` */

#endif
