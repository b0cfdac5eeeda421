/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_JOB_LOGS_PATTERNS_H
#define SCRY_JOB_LOGS_PATTERNS_H

#include "base/data/err.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* What --log says: FILE=REGEX[:LEVEL]. scry-run(1) has the rules. */

enum log_severity { LOG_SEVERITY_ERROR, LOG_SEVERITY_WARNING, LOG_SEVERITY_INFO, LOG_SEVERITY_DEBUG, LOG_SEVERITIES };
/* "error", "warning", "info", "debug" */
extern const char *const log_severity_names[LOG_SEVERITIES];

struct log_rule {
    char *file;       /* a pattern of glob(7) in which \ takes the next character as it is; or "stdout", "stderr" */
    char *expression; /* NULL: the built-in patterns */
    enum log_severity severity;
};

/* Takes it apart; the expression is not looked at. 0, or -EINVAL or -ENOMEM with err. */
int log_rule_parse(struct log_rule *ret_rule, const char *text, struct err *err);
void log_rule_done(struct log_rule *rule);

/* The built-in patterns: what programs of all kinds write when something goes wrong. */

/* Which of the lines after a head that match `then` have its message: the first; the last, or all, up to the first line that is
 * not indented and does not match. */
enum log_take { LOG_TAKE_FIRST, LOG_TAKE_LAST, LOG_TAKE_ALL };

/* Of the rows that match a line, the most severe is what the line is about; of those, the first. */
struct log_pattern {
    const char *name;
    enum log_severity severity;
    const char *words; /* one of them is in each line that matches */
    const char *expression;
    const char *about;
    /* A line that also matches `head` only announces a message: the first of the next lines that matches `then` has it,
     * from the first group of that on; of all, those after the first. NULL: none does. Of a rank's lines, only those with the same label in front ("[2] ") are looked at. */
    const char *head, *then;
    unsigned lines; /* so many are looked at */
    const char *
        message; /* the head says nothing besides: the row that the message is of, if no other matches. NULL: it does */
    const char *otherwise; /* the message if none of the lines right after it matches `then`. NULL: there is none */
    enum log_take take;
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

/*
 * Finds which of many words occur in bytes, in one pass whatever their number (Aho and Corasick, Communications of the
 * ACM 18, 1975). Upper and lower case of ASCII are the same. A word belongs to a row, a bit of a mask; rows have
 * several words, separated by `|`. `<` at the start of a word, and `>` at its end, want a place where a name begins or
 * ends.
 */

enum { WORDS_ROWS = 64 };

struct words;

/* The words of rows[i] are bit i. NULL: out of memory, or more words than it can hold (some thousand bytes of 60
 * different ones). */
struct words *words_new(const char *const *rows, size_t count);
void words_free(struct words *words); /* NULL is fine */

/* Where the first word that begins at or after `from` ends: its last byte. len: there is none. */
size_t words_find(const struct words *words, const char *bytes, size_t len, size_t from);
/* The rows of all words in it. */
uint64_t words_rows(const struct words *words, const char *bytes, size_t len);

/*
 * One regular expression of a log, by PCRE2 (pcre2pattern(3)): compiled when it is first needed, matched against lines
 * as bytes, and bounded. An expression that takes too long for a line counts as not matched there. Not thread-safe.
 */

struct log_regex;

/* 0, or -EINVAL or -ENOMEM with err: what is wrong, and at which character. */
int log_regex_new(struct log_regex **ret_regex, const char *expression, struct err *err);
void log_regex_free(struct log_regex *regex); /* NULL is fine */

enum log_match { LOG_MATCH_NO, LOG_MATCH_YES, LOG_MATCH_TOO_LONG };
enum log_match log_regex_match(struct log_regex *regex, const char *line, size_t len);

/* Of the last line that matched. Where the first group begins; 0: it took no part, or there is none. */
size_t log_regex_text(const struct log_regex *regex);
/* Whether it has a group at all. */
bool log_regex_has_group(const struct log_regex *regex);
/* The named groups that took part, as an object of texts; NULL: none. */
json_t *log_regex_fields(const struct log_regex *regex, const char *line);
/* A named group as a number. false: there is none, or it is no number. */
bool log_regex_number(const struct log_regex *regex, const char *line, const char *name, double *ret_number);
/* The same of the first group, whatever its name. */
bool log_regex_first_number(const struct log_regex *regex, const char *line, double *ret_number);

#endif
