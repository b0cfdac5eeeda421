/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One regular expression of a log, by PCRE2 (pcre2pattern(3)): compiled when it is first needed, matched against lines
 * as bytes, and bounded. An expression that takes too long for a line counts as not matched there. Not thread-safe.
 */
#ifndef SCRY_JOB_LOGS_REGEX_H
#define SCRY_JOB_LOGS_REGEX_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "base/data/err.h"

struct log_regex;

/* 0, or -EINVAL or -ENOMEM with err: what is wrong, and at which character. */
int log_regex_new(struct log_regex **ret_regex, const char *expression, struct err *err);
void log_regex_free(struct log_regex *regex); /* NULL is fine */

enum log_match { LOG_MATCH_NO, LOG_MATCH_YES, LOG_MATCH_TOO_LONG };
enum log_match log_regex_match(struct log_regex *regex, const char *line, size_t len);

/* Of the last line that matched. The named groups that took part, as an object of texts; NULL: none. */
json_t *log_regex_fields(const struct log_regex *regex, const char *line);
/* A named group as a number. false: there is none, or it is no number. */
bool log_regex_number(const struct log_regex *regex, const char *line, const char *name, double *ret_number);

#endif
