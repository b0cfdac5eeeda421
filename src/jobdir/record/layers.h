/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_JOBDIR_RECORD_LAYERS_H
#define SCRY_JOBDIR_RECORD_LAYERS_H

#include "base/data/buf.h"
#include "jobdir/record/kinds.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uthash.h>

/*
 * A value over the time of a job in bounded memory: the maximum in each window. When the windows are used up they are
 * joined in pairs, so that a run of a week takes no more room than one of a minute, and no spike is lost.
 */

enum { SERIES_WINDOWS = 480 };

struct series {
    double width_seconds; /* of one window; 0 in a zero-initialised, empty series */
    size_t used, room;    /* at most SERIES_WINDOWS, as far as time has come */
    double *max;          /* < 0: nothing was measured in this window */
};

/* Values are >= 0, seconds since the start of the job; a step back in time counts for the last window. */
void series_add(struct series *series, double seconds, double value);
/* The same of all windows from `from` on; of a value that holds for that time. A value of -1: none was measured. */
void series_add_from(struct series *series, double from, double seconds, double value);

void series_done(struct series *series);

/* The greatest value, or 0. */
double series_max(const struct series *series);

/* Appends `columns` characters of U+2581...U+2588, one for each part of the time, scaled to `top` (0: the maximum); a
 * blank where nothing was measured. With ascii, characters of " .:-=+*#%@" . */
void series_sparkline(const struct series *series, struct buf *out, size_t columns, double top, int ascii);

/*
 * What the records of the layers above processes say: where scripts and Python programs are, what failed in them, lines
 * of logs, progress, the node's health, functions. Part of the model of a job. Each list and table has a limit, and
 * what came last is kept: so it takes no more room for a job of a week than for one of an hour.
 */

enum {
    LAYER_PLACES = 2000,    /* processes of which a place is known */
    LAYER_FAILURES = 50,    /* of each kind */
    LAYER_LOG_LINES = 200,  /* and LAYER_FAILURES of errors, which others do not push out */
    LAYER_LINES = 2000,     /* lines of scripts with their times */
    LAYER_SCRIPTS = 500,    /* scripts that ended, by their files */
    LAYER_FUNCTIONS = 1000, /* of Python, and of traced ones */
    LAYER_METRICS = 64,
    LAYER_NAMED = 200, /* patterns, logs, sources of progress, file systems */
};

enum { METRIC_POINTS = 240 };

enum line_level { LINE_ERROR, LINE_WARNING, LINE_INFO, LINE_DEBUG, LINE_LEVELS };

/* The last records of a kind, in their order. */
struct layer_list {
    json_t *records; /* an array; NULL: there were none */
    uint64_t total;  /* also those that are not kept any more */
};

/* Where a process is, or was when it ended: the pid may have ended, but is not used again. */
struct layer_place {
    pid_t pid;
    json_t *line, *stack; /* the last script_line and python_stack; NULL: none */
    json_t *trap;         /* script_trap.commands; NULL: none are known */
    json_t *trap_only;    /* script_trap.only */
    json_t *tested;       /* script_tested.commands */
    json_t *conditions;   /* .conditions, */
    json_t *piped;        /* .piped, */
    json_t *prints;       /* and .prints */
    json_t *kills;        /* the record script_kills */
    double over;          /* when the script of `line` ended; 0: it has not */
    /* From the last health record that had it; -1: unknown. */
    int64_t read_bytes, written_bytes, open_files, open_files_limit;
    UT_hash_handle hh;
};

/* A line of a script, all its runs together. */
struct layer_line {
    char *file, *command; /* command NULL: unknown */
    int64_t line;
    uint64_t count, failed;
    double seconds;
    UT_hash_handle hh;
    char key[];
};

/* All processes that ran this script and ended. */
struct layer_script {
    uint64_t count, failed;
    double seconds;
    UT_hash_handle hh;
    char file[];
};

/* A function of Python, in all processes; of traced ones, only the name is known. */
struct layer_function {
    char *function, *file;
    int64_t line;
    uint64_t calls, total_ns, self_ns;
    UT_hash_handle hh;
    char key[];
};

/* What windows told of a function of a process that lives; of its calls in all where the function's key is "". */
struct layer_window {
    pid_t pid;
    uint64_t calls, total_ns, self_ns;
    UT_hash_handle hh;
    char key[]; /* of pid and function */
};

struct layer_pattern {
    enum line_level level;
    uint64_t lines; /* that matched, also those that are not listed */
    double last;    /* when one did */
    UT_hash_handle hh;
    char pattern[];
};

/*
 * A number that the program said again and again: all of them counted, and its course in bounded memory. Points are `apart` seconds from
 * each other; when there is no room for more, each second one goes, and the last one is always the last that was said.
 */
struct layer_metric {
    double value, least, most, seconds; /* when it was said last */
    uint64_t values, undefined;         /* and so often it was no finite number: */
    double undefined_since;             /* the last ones, without another between them; -1: the last one was a number */
    double apart;
    size_t used;
    struct metric_point {
        double seconds, value;
    } points[METRIC_POINTS];
    UT_hash_handle hh;
    char name[];
};

/* The last record about something that has a name: a log's state, a source of progress. */
struct layer_last {
    json_t *record;
    UT_hash_handle hh;
    char name[];
};

/* Of a hash of them the one that was told last; NULL: there is none. */
const struct layer_last *layers_last(const struct layer_last *hash);

struct layer_filesystem {
    int64_t total_bytes, free_bytes, least_free_bytes, inodes, free_inodes, least_free_inodes; /* -1: unknown */
    double least_at;                                                                           /* of bytes */
    bool was_full; /* when it was seen first */
    UT_hash_handle hh;
    char path[];
};

/* Shares are from 0 to 1. */
enum layer_curve {
    CURVE_CPU,
    CURVE_IOWAIT,
    CURVE_STEAL,
    CURVE_MEMORY, /* that is not available, as a share */
    CURVE_SWAP,   /* used, in bytes */
    CURVE_PRESSURE_CPU,
    CURVE_PRESSURE_MEMORY,
    CURVE_PRESSURE_IO,
    CURVE_DISK_READ, /* this and the next: bytes a second */
    CURVE_DISK_WRITTEN,
    CURVE_RECEIVED,
    CURVE_SENT,
    CURVE_CGROUP_MEMORY, /* share of its limit */
    LAYER_CURVES
};

struct layers {
    uint64_t records;                             /* of these kinds, all */
    struct layer_place *places;                   /* hash by pid, the longest unchanged first */
    struct layer_list failures, uncaught, caught; /* command_failed, python_exception */
    struct layer_list logs, errors;               /* log; those of level error */
    struct layer_list last_words;                 /* log_last of single processes */
    struct layer_line *lines;                     /* hash by key */
    struct layer_script *scripts;                 /* hash by file */
    struct layer_function *python, *functions;    /* hash by key */
    struct layer_window *windows; /* hash by key: parts of `python` that the sum of the whole process will replace */
    uint64_t python_calls, function_calls;        /* of all */
    struct layer_pattern *patterns;               /* hash by pattern */
    uint64_t levels[LINE_LEVELS];                 /* lines that matched */
    struct layer_last *log_files, *progress;      /* hash by name, the longest unchanged first */
    struct layer_metric *metrics;                 /* hash by name, in the order in which they came */
    struct layer_filesystem *filesystems;         /* hash by path */
    struct series *curves;                        /* LAYER_CURVES of them; NULL: there was no health record */
    json_t *health, *last_functions, *last_lines; /* the last records; NULL: none */
    uint64_t oom_kills;                           /* of the control group, since the first health record */
    int64_t oom_kills_before;                     /* -1: unknown */
    uint64_t omitted_lines, omitted_functions;    /* beyond the limits */
};

void layers_init(struct layers *layers);
void layers_done(struct layers *layers);
/* A record that the layers do not know changes nothing. Borrowed. */
void layers_apply(struct layers *layers, enum record_type type, const json_t *record);
/* The job is over: it came as far as it said last, and no time is left. */
void layers_over(struct layers *layers);
/* It ended then: a script that ended before has made room for another program (exec), and is no place of it. */
void layers_process_ended(struct layers *layers, pid_t pid, double seconds);
/* The number is given to another process, which began then: what is known of it since is of that one. */
void layers_forget(struct layers *layers, pid_t pid, double start);

const struct layer_place *layers_place(const struct layers *layers, pid_t pid); /* NULL: nothing is known */
/* "error", ...: as records have it; LINE_INFO for what is unknown. */
enum line_level line_level_of(const char *name);
const char *line_level_name(enum line_level level);

/* When it happened: its "time" where that is known, else its "t". */
double record_seconds(const json_t *record);

#endif
