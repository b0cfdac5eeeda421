/* SPDX-License-Identifier: Apache-2.0 */
/* The built-in patterns: what programs of all kinds write when something goes wrong. */
#ifndef SCRY_JOB_LOGS_PATTERNS_H
#define SCRY_JOB_LOGS_PATTERNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/data/err.h"
#include "job/logs/rule.h"

/* Of the rows that match a line, the most severe is what the line is about; of those, the first. */
struct log_pattern {
    const char *name;
    enum log_severity severity;
    const char *words; /* one of them is in each line that matches (job/logs/words.h) */
    const char *expression;
    const char *about;
    /* A line that also matches `head` only announces a message: the first of the next lines that matches `then` has it.
     * NULL: none does. Of a rank's lines, only those with the same label in front ("[2] ") are looked at. */
    const char *head, *then;
    unsigned lines; /* so many are looked at */
    const char *
        message; /* the head says nothing besides: the row that the message is of, if no other matches. NULL: it does */
    const char *otherwise; /* the message if none of the lines right after it matches `then`. NULL: there is none */
};
/* Lines that match a pattern, and are harmless all the same: levels in settings, tables of errors, counts of 0. */
extern const char log_harmless[];
extern const struct log_pattern log_patterns[];
extern const size_t log_pattern_count; /* at most WORDS_ROWS */
#define LOG_PATTERNS_ALL (UINT64_MAX >> (64 - log_pattern_count))

/* What --log-patterns says: "all", "off", or names with commas; !NAME leaves one out. 0, or -EINVAL with err. */
int log_patterns_select(const char *list, uint64_t *ret_rows, struct err *err);
/* The table, for people. */
void log_patterns_print(FILE *out);

#endif
