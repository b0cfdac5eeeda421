/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matches the lines of one file against its expressions, and makes records of what is found: lines that matched, with
 * how many more did; progress. An expression that takes too long again and again is switched off, for all files.
 */
#ifndef SCRY_JOB_LOGS_MATCH_H
#define SCRY_JOB_LOGS_MATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/data/notes.h"
#include "job/logs/fold.h"
#include "job/logs/lines.h"
#include "job/logs/progress.h"
#include "job/logs/regex.h"
#include "job/logs/rule.h"
#include "jobdir/record/kinds.h"

/* Where records and warnings go. */
struct log_sink {
    void *ctx;
    void (*put)(void *ctx, enum record_type type, const void *row);
    void (*note)(void *ctx, struct note note);
};

enum { TOO_LONG_MOST = 10 };

/* Shared by all files. */
struct log_expression {
    const char *name; /* in records: the built-in pattern's, or the expression */
    enum log_severity severity;
    struct log_regex *regex; /* NULL: not compiled yet, or it failed */
    unsigned too_long;       /* lines; from TOO_LONG_MOST on it is off */
};

struct words;
/* A line that announces a message, and what may be that (struct log_pattern). */
enum log_head_part { LOG_HEAD, LOG_HEAD_THEN, LOG_HEAD_OTHERWISE, LOG_HEAD_PARTS };

/* All expressions; the built-in ones are compiled when a line first needs them. */
struct log_expressions {
    struct log_expression *given; /* of --log, in order; those without an expression are not used */
    size_t given_count;
    struct log_expression *built_in; /* one of each row */
    struct log_expression *heads;    /* LOG_HEAD_PARTS of each row */
    struct log_expression harmless;
    struct words *words; /* NULL: none needed yet */
    char *text;          /* of a record */
    char *plain;         /* a line without its colours */
    const struct log_sink *sink;
};
void log_expressions_done(struct log_expressions *expressions);

struct log_found {
    struct fold fold;
    struct progress progress;
};

struct log_line {
    const char *bytes;
    size_t len;
    bool cut;
    int64_t number; /* -1: unknown */
    uint64_t now_ns;
    const char *place; /* as of struct log_record */
};

/* A line that announces a message, until that comes. */
struct log_head {
    unsigned lines; /* that are still looked at; 0: nothing is awaited */
    size_t row;
    char *text; /* with its label, which is so long; kept for the next one */
    size_t len, label_len;
    int64_t number;
    uint64_t now_ns;
    struct log_line other; /* the message if no better one comes, in `text`; len 0: none */
    bool other_recorded;   /* by itself: it is an error of another kind */
    char place[256];       /* of a traceback, FILE:LINE of the innermost line so far that is of no library; "" */
};

struct log_matcher {
    const char *file; /* in records; borrowed */
    struct log_expressions *expressions;
    uint64_t given;          /* bits of the expressions given for it */
    uint64_t rows;           /* of built-in patterns */
    struct log_found *found; /* of the rows, then of the given ones; NULL: nothing yet */
    size_t found_room;
    struct log_head head;
    int64_t line; /* so many have ended; -1: unknown */
};

/* Without what colours it (ECMA-48: ESC [ ... a letter), in place; the new length. */
size_t log_take_colours(char *bytes, size_t len);
/* Whether scry run itself wrote it to standard error. */
bool log_is_own(const char *bytes, size_t len);
/* Whether a launcher of MPI writes such a line below what its ranks have said: that one of them has ended, and how; or a rule. */
bool log_is_of_launcher(const char *bytes, size_t len);

/* Lines, as lines_take hands them over. */
void log_match_lines(struct log_matcher *matcher, uint64_t now_ns, const char *bytes, size_t len, bool cut);
void log_matcher_done(struct log_matcher *matcher);
/* The given expressions will be others. */
void log_match_forget_given(struct log_matcher *matcher);
/* What was held back: call it every second or so, and at the end. */
void log_match_rest(struct log_matcher *matcher, uint64_t now_ns, bool end);

#endif
