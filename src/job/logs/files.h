/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_JOB_LOGS_FILES_H
#define SCRY_JOB_LOGS_FILES_H

#include "job/logs/match.h"
#include "job/logs/tail.h"
#include "job/watch/options.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uthash.h>

/* Which files are watched for which expressions: those that --log names, as they appear, the job's own streams, and what its
 * processes have as theirs, as a script redirects them. */

enum {
    LOG_FILES_MOST = 128,
    LOG_FOUND_MOST = 32,
    LOG_OPENED_MOST = 16,
    LOG_RULES_MOST = RUN_LOGS,
    LOG_LEFT = 256,
    LOG_BEFORE = 4
};
enum { LOG_FOUND_LEFT = -1 }; /* in place of a process: it has its output elsewhere now */

struct log_files;

struct log_file {
    char *path, *name; /* `name` is in records */
    struct log_files *files;
    struct tail tail;
    struct log_matcher matcher;
    bool asked; /* by --log; else only the built-in patterns want it */
    bool seen;  /* it was there */
    bool wild;  /* found by a wild name: it is forgotten when it is gone */
    pid_t
        found; /* a process of the job that has it as its standard output or error; 0: it was not found so; or LOG_FOUND_LEFT */
    pid_t before[LOG_BEFORE]; /* others that had it before that, and may go on to fail; 0: none */
    bool data;                /* it is not its standard error: that may be data, and is only looked at if it fails */
    bool log;                 /* it is none of its streams */
    uint64_t looked_at;       /* so many bytes of data, at whose end was looked */
    pid_t failed;             /* that, or what it had started so, has failed, */
    double end;               /* then, in seconds since the start of the job */
    bool shared;              /* and what had started that has it as its own, too */
    pid_t holder;             /* that was seen to have it, and to have started one that has it; 0: none was */
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

/* A log that was there when the job began. */
struct log_there {
    struct {
        dev_t device;
        ino_t inode;
    } key;
    uint64_t size;
    UT_hash_handle hh;
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
    const char *cwd, *dir;
    const char *kept[2]; /* as observe.h has it */
    pid_t root;
    uint64_t
        start_ns; /* CLOCK_REALTIME_COARSE: of the job; UINT64_MAX: what is found was read by another observer before */
    struct fold states;      /* of records about files with wild names, of which there may be many */
    bool full;               /* more than LOG_FILES_MOST were found, and that was said */
    size_t found_count;      /* of streams of processes, since the start */
    size_t log_count;        /* and of logs that they have opened themselves */
    struct log_there *there; /* hash of logs that were there when it began */
    uint64_t *mounts;        /* numbers of what was mounted then, ascending; NULL: not known */
    size_t mount_count;
    bool silent; /* files that are there are no news */
    uint64_t (*now_ns)(void);
};

/* Whether the process is one of its `before`. */
bool log_file_was_of(const struct log_file *file, pid_t pid);
/* Wants `file`, as --log gives it, for these expressions and rows. false: out of memory. */
bool log_files_add(struct log_files *files, const char *file, uint64_t given, uint64_t rows, bool asked);
/* Wants what a process has as standard output and standard error, where that are regular files of this user that it may write, and that
 * nobody else has named. What is standard error is read from the beginning; what was there before the job and is only appended to, from its end on. */
void log_files_add_streams(struct log_files *files, pid_t pid, uint64_t rows);
/* What started the process may have the same as its own, and then writes there, too: see .holder. */
void log_files_note_holder(struct log_files *files, pid_t pid, pid_t parent);
/* The same of what a process has opened by itself to write, and has the name of a log: "solver.log", "log.simpleFoam", "run.err". */
void log_files_add_logs(struct log_files *files, pid_t pid, uint64_t rows);
/* What is mounted now may have files open. What the job mounts it may want to unmount. */
void log_files_note_mounts(struct log_files *files);
/* What has the name of a log in a directory has its size now: call it when the job begins. */
void log_files_note_logs(struct log_files *files, const char *directory);
/* The process of the job failed then, on CLOCK_REALTIME. Follows logs there that nobody was seen to have open, as they were written within
 * a moment: from where they ended when the job began, if nobody wrote them after that end. The caller sets their .failed. */
void log_files_find_logs(struct log_files *files, const char *directory, pid_t pid, uint64_t end_wall_ns);
/* "solver.log", "log.simpleFoam", "run.err". */
bool log_files_is_log(const char *path);
/* The same below a directory, in directories that something was made in since then, and in the first few of it: logs that were made since
 * and not written after that end, on CLOCK_REALTIME. Few names are looked at. alone: of several none is taken, for others may have made them. */
void log_files_find_new(struct log_files *files, const char *directory, pid_t pid, uint64_t since_wall_ns,
                        uint64_t end_wall_ns, bool alone);
/* A file that the job is known to have written, by its text: the one that is read already, or it is followed as it is now, from where on
 * the job has made it. NULL: it is none of this user, was not written, or is no regular file. */
struct log_file *log_files_find_output(struct log_files *files, const char *path);
/* A shell has its output elsewhere again after a command: what others say then is in none of the files before. */
void log_files_leave_outputs(struct log_files *files, pid_t pid);
/* Nothing is wanted any more: add anew what is. Files that are still wanted are read on. */
void log_files_want_none(struct log_files *files);
/* Looks for files that wild names have now; `at_end`: they were there before the job. */
void log_files_scan(struct log_files *files, bool at_end);
/* Frees a file, which is one of them. */
void log_files_forget(struct log_file *file);
void log_files_done(struct log_files *files);

#endif
