/* SPDX-License-Identifier: Apache-2.0 */
/* The built-in patterns: what programs of all kinds write when something goes wrong. */
#ifndef SCRY_JOB_LOGS_PATTERNS_H
#define SCRY_JOB_LOGS_PATTERNS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/data/err.h"
#include "job/logs/rule.h"

/* Of the rows that match a line, the first is what the line is about. */
struct log_pattern {
    const char *name;
    enum log_severity severity;
    const char *words; /* one of them is in each line that matches (job/logs/words.h) */
    const char *expression;
    const char *about;
};
extern const struct log_pattern log_patterns[];
extern const size_t log_pattern_count; /* at most WORDS_ROWS */

/* What --log-patterns says: "all", "off", or names with commas; !NAME leaves one out. 0, or -EINVAL with err. */
int log_patterns_select(const char *list, uint64_t *ret_rows, struct err *err);
/* The table, for people. */
void log_patterns_print(FILE *out);

#endif
