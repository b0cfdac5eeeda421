/* SPDX-License-Identifier: Apache-2.0 */
/* Which files are watched for which expressions: those that --log names, as they appear, and the job's own streams. */
#ifndef SCRY_JOB_LOGS_FILES_H
#define SCRY_JOB_LOGS_FILES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <uthash.h>

#include "job/logs/match.h"
#include "job/logs/tail.h"
#include "job/watch/options.h"

enum { LOG_FILES_MOST = 128, LOG_RULES_MOST = RUN_LOGS, LOG_LEFT = 256 };

struct log_files;

struct log_file {
    char *path, *name; /* `name` is in records */
    struct log_files *files;
    struct tail tail;
    struct log_matcher matcher;
    bool asked; /* by --log; else only the built-in patterns want it */
    bool seen;  /* it was there */
    bool wild;  /* found by a wild name: it is forgotten when it is gone */
    uint64_t skipped_bytes;
    struct fold states; /* of records about the file itself */
    uint64_t skipped_unsaid;
    UT_hash_handle hh; /* by path */
};

/* A --log, or the built-in patterns for standard error. */
struct log_name {
    char *pattern; /* absolute; of glob(7) */
    char *shown;   /* as it was given */
    bool wild;     /* has to be looked for again and again */
    bool met;      /* a wild one: some file had such a name */
    uint64_t given, rows;
};

/* A file that was read, and is not open any more. */
struct log_left {
    struct tail_identity identity;
    uint64_t offset, given, rows;
};

struct log_files {
    struct log_file *files; /* hash */
    struct log_left left[LOG_LEFT];
    size_t left_count;
    struct log_name names[LOG_RULES_MOST + 1];
    size_t name_count;
    struct log_expressions expressions;
    const char *cwd;
    pid_t root;
    struct fold states; /* of records about files with wild names, of which there may be many */
    bool full;          /* more than LOG_FILES_MOST were found, and that was said */
    bool silent;        /* files that are there are no news */
    uint64_t (*now_ns)(void);
};

/* Wants `file`, as --log gives it, for these expressions and rows. false: out of memory. */
bool log_files_add(struct log_files *files, const char *file, uint64_t given, uint64_t rows, bool asked);
/* Nothing is wanted any more: add anew what is. Files that are still wanted are read on. */
void log_files_want_none(struct log_files *files);
/* Looks for files that wild names have now; `at_end`: they were there before the job. */
void log_files_scan(struct log_files *files, bool at_end);
/* Frees a file, which is one of them. */
void log_files_forget(struct log_file *file);
void log_files_done(struct log_files *files);

#endif
