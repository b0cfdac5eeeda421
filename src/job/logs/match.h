/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_JOB_LOGS_MATCH_H
#define SCRY_JOB_LOGS_MATCH_H

#include "base/data/notes.h"
#include "job/logs/patterns.h"
#include "jobdir/record/kinds.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Cuts what is read into whole lines. A line ends with \n, or \r: programs that draw their progress end theirs with \r.
 * Bytes are bytes, NUL among them. Of a line longer than LINE_MOST only the beginning is kept.
 */

enum { LINE_MOST = 64 << 10, LINES_ROOM = 4 * LINE_MOST };

/* Lines with their ends, one or many. `cut`: it is one line, without its end, of which there is more. */
typedef void lines_fn(void *ctx, const char *bytes, size_t len, bool cut);

struct lines {
    char *bytes;  /* LINES_ROOM, or NULL */
    size_t len;   /* of the line that has not ended yet */
    bool passing; /* the rest of a cut line */
};

/* The room for what is read next, of *ret_room bytes, at least half of LINES_ROOM. NULL: out of memory. */
char *lines_room(struct lines *lines, size_t *ret_room);
/* So many bytes were put there. Each block is the caller's only during the call. */
void lines_take(struct lines *lines, size_t len, lines_fn *each, void *ctx);
/* There is no more: a last line may have no end. */
void lines_end(struct lines *lines, lines_fn *each, void *ctx);
/* Something was passed over, or begins anew; `inside`: probably in the middle of a line, whose rest is left out. */
void lines_reset(struct lines *lines, bool inside);
/* Nothing comes for a while: frees the room, unless a line has begun. */
void lines_rest(struct lines *lines);
void lines_done(struct lines *lines);

/* ---- the lines of a block ---- */

struct line_place {
    const char *start; /* without its end */
    size_t len;
    size_t next; /* where the next one begins in the block */
};

/* The line that contains bytes[at]; at < len. */
struct line_place line_at(const char *bytes, size_t len, size_t at);

/* At most so many records of one pattern in one file: 10 a second, and 100 a minute. Pure; the caller has the clock. */

enum { FOLD_SECOND_MOST = 10, FOLD_MINUTE_MOST = 100 };

/* Zeroed: nothing has been recorded yet. */
struct fold {
    uint64_t folded;               /* lines since the last record */
    uint64_t second_ns, minute_ns; /* when the two buckets will be full again */
    uint64_t last_ns;              /* the last line that was folded */
};

/* A line matched. true: it is a record, and *ret_folded lines before it had none. */
bool fold_take(struct fold *fold, uint64_t now_ns, uint64_t *ret_folded);

/* How far a job is, and when it will be done at the rate of the last minutes. Pure; the caller has the clock. */

enum { PROGRESS_POINTS = 32 };

/* Zeroed: nothing is known. */
struct log_progress {
    double done, total;
    uint64_t now_ns, said_ns;
    bool said, wants; /* since it was said, something has changed */
    struct progress_point {
        uint64_t at_ns;
        double done;
    } points[PROGRESS_POINTS]; /* a ring, PROGRESS_APART_SECONDS apart: the recent past */
    unsigned first, count;
};

void log_progress_take(struct log_progress *progress, uint64_t now_ns, double done, double total);
/* Whether it is to be said now: at most once a second; `end`: in any case if something changed. */
bool log_progress_due(struct log_progress *progress, uint64_t now_ns, bool end);
/* Seconds from the last look on; -1: unknown. */
double log_progress_left_seconds(const struct log_progress *progress);

/* In which words programs say how far they are; the first ones are of more than those below. */
enum log_progress_form {
    LOG_PROGRESS_NONE,
    LOG_PROGRESS_EPOCHS,   /* Epoch 3/10; run, fold, member and the like, which have steps in them */
    LOG_PROGRESS_STEPS,    /* step 3 of 100; iterations, frames and the like; t = 0.3 / 2.0 */
    LOG_PROGRESS_BAR,      /* 34%|###   | 34/100 [, as tqdm; 34%[==>     ], as wget */
    LOG_PROGRESS_BRACKETS, /* at the begin of a line: [34/100] or [ 34%] */
    LOG_PROGRESS_ITEMS,    /* file 3 of 100; completed 3/100; 3 of 100 files done; Converting x.nc (3/100) */
    LOG_PROGRESS_PERCENT   /* progress: 34 %; 34% done; 34 % ... ETA 0:12 */
};
enum log_progress_form log_progress_parse(const char *text, double *ret_done, double *ret_total);

enum { LOG_COUNTERS = 6 };

/* One of several that a program counts: "epoch", "step". */
struct log_counter {
    enum log_progress_form form;
    const char *word; /* NULL: none stands before it */
    uint64_t label;   /* of a bar: which of several */
    double done, total;
    bool again; /* it begins again and again, for it counts parts of something: it is not taken */
};

/* What the lines of a file say so: of counters in one another, the outer one. Zeroed: nothing. Where all begin again, total is 0. */
struct log_said {
    enum log_progress_form form;       /* of `current` */
    const struct log_counter *current; /* one of them; NULL: none */
    struct log_counter counters[LOG_COUNTERS];
    size_t count;
    double percent; /* that was said first: what does not grow is another figure */
    struct log_progress progress;
};
void log_said_take(struct log_said *said, uint64_t now_ns, const char *text);

/* Numbers that lines say again and again, such as a loss or a residual. Pure; the caller has the clock. */

enum { LOG_METRICS = 16, LOG_METRIC_NAME = 32 };

struct log_metric {
    char name[LOG_METRIC_NAME];
    uint64_t values; /* so many since it was told last; of these, */
    double value, least, most;
    uint64_t undefined; /* and so often it was no finite number */
    uint64_t said_ns;
};

/* Of one file. Zeroed: nothing was said. */
struct log_metrics {
    struct log_metric all[LOG_METRICS];
    size_t used;
};

/* More names than LOG_METRICS are passed over. What is no finite number is only counted. */
void log_metric_take(struct log_metrics *metrics, const char *name, double value);
/* Whether it is to be told now: at most once a second; `end`: in any case if something was said. Then *ret_told is what is told, and is
 * new no more: a record. */
bool log_metric_tell(struct log_metric *metric, const char *source, uint64_t now_ns, bool end,
                     struct metric_record *ret_told);
/* What a line says of those that many programs tell: "val_loss: 0.12", "residual norm 1e-5". */
void log_metrics_parse(struct log_metrics *metrics, const char *text);
/* --metric: NAME, or NAME=REGEX; the rule's file is the name. 0, or -EINVAL or -ENOMEM with err. */
int log_metric_rule(struct log_rule *ret_rule, const char *text, struct err *err);

/*
 * Matches the lines of one file against its expressions, and makes records of what is found: lines that matched, with
 * how many more did; progress. An expression that takes too long again and again is switched off, for all files.
 */

/* Where records and warnings go. */
struct log_sink {
    void *ctx;
    void (*put)(void *ctx, enum record_type type, const void *row);
    void (*note)(void *ctx, struct note note);
    double (*seconds)(void *ctx, uint64_t now_ns); /* since the start of the job; may be NULL */
};

enum { TOO_LONG_MOST = 10 };

/* Shared by all files. */
struct log_expression {
    const char *name; /* in records: the built-in pattern's, or the expression */
    enum log_severity severity;
    struct log_regex *regex; /* NULL: not compiled yet, or it failed */
    unsigned too_long;       /* lines; from TOO_LONG_MOST on it is off */
    const char
        *metric; /* of --metric: the name of the number that its first group has; no line is recorded. NULL: of --log */
};

struct words;

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
    struct log_progress progress;
};

struct log_line {
    const char *bytes;
    size_t len;
    bool cut;
    int64_t number; /* -1: unknown */
    uint64_t now_ns;
    const char *place, *above; /* as of struct log_record */
    const char *block;         /* that it is in, */
    size_t at;                 /* and where it begins there, with holes */
};

enum { LOG_ABOVE_MOST = 200 }; /* bytes of a line that stands above another one */

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
    bool library;          /* the line before was of one */
    char above[LOG_ABOVE_MOST + 1]; /* the line above; "" */
};

struct log_matcher {
    const char *file; /* in records; borrowed */
    struct log_expressions *expressions;
    uint64_t given;          /* bits of the expressions given for it */
    uint64_t rows;           /* of built-in patterns */
    struct log_found *found; /* of the rows, then of the given ones; NULL: nothing yet */
    size_t found_room;
    struct log_head head;
    struct log_said said;
    struct log_metrics *metrics; /* NULL: nothing yet */
    char above[LOG_ABOVE_MOST];  /* the last line of the block before */
    size_t above_len;
    int64_t line; /* so many have ended; -1: unknown */
};

/* Without what colours it (ECMA-48: ESC [ ... a letter), in place; the new length. */
size_t log_take_colours(char *bytes, size_t len);
/* Whether scry run itself wrote it to standard error. */
bool log_is_own(const char *bytes, size_t len);
/* Whether a launcher of MPI writes such a line below what its ranks have said: that one of them has ended, and how; or a rule. */
bool log_is_of_launcher(const char *bytes, size_t len);

/* Whether set -x of a shell writes such a line: "+ cp a b". */
bool log_is_of_trace(const char *bytes, size_t len);
/* Nothing but what a terminal shows of keys (^C). */
bool log_is_of_keys(const char *bytes, size_t len);

/* Lines, as lines_take hands them over. */
void log_match_lines(struct log_matcher *matcher, uint64_t now_ns, const char *bytes, size_t len, bool cut);
/* Only how far the last of them say that the job is, and what numbers; nothing where some --log has an expression, or --metric is given: they know better. */
void log_match_progress(struct log_matcher *matcher, uint64_t now_ns, const char *bytes, size_t len);
void log_matcher_done(struct log_matcher *matcher);
/* The given expressions will be others. */
void log_match_forget_given(struct log_matcher *matcher);
/* What was held back: call it every second or so, and at the end. */
void log_match_rest(struct log_matcher *matcher, uint64_t now_ns, bool end);

#endif
