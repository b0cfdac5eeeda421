/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_STORE_ROW_H
#define SCRY_STORE_ROW_H

#include "jobdir/record/kinds.h"
#include "store/db.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uthash.h>

/* A job as the table `jobs` has it (doc/reference/record.md), what its records change in it, and its minutes. */

/* Of numbers that may be null: NAN, and ROW_NULL. */
enum { ROW_NULL = -1 };

struct job_row {
    char *name, *node, *command, *state, *reason, *dir, *boot_id, *address, *info, *batch_system, *batch_id;
    char *last_warning, *last_stall, *stalled_text;
    double started, ended, last_t, age, heard, lease_seconds, clock, wall_seconds, cpu_seconds, cpus_asked;
    double time_asked_seconds, cpus_limit, progress_done, progress_total, progress_left_seconds, stalled_t;
    int64_t exit_code, signal, complete, known_seq, last_seq, records, lost, refused, connected, rss_bytes;
    int64_t peak_rss_bytes, peak_tree_rss_bytes, processes, processes_at_once, threads_at_once, failed_processes;
    int64_t node_cpus, node_memory_bytes, memory_asked_bytes, memory_limit_bytes, memory_peak_bytes, warnings;
    int64_t log_errors, crashes, commands_failed, stalls, oom_kills;
    int64_t is_signed; /* enum row_signed; ROW_NULL: nobody could tell */
};

enum row_signed {
    ROW_UNSIGNED,
    ROW_SIGNED,
    ROW_SIGNED_PARTLY /* and what came before was not, or nobody could tell */
};

/* What was added to a minute since it was last saved; -1: nothing of that. */
struct minute {
    int64_t number, records, warnings, log_errors, cpu_ns, rss_bytes, processes, threads, available_bytes,
        swap_used_bytes;
    double load, cpu, iowait, memory_pressure, throttled;
    UT_hash_handle hh;
};

void row_init(struct job_row *row);
void row_done(struct job_row *row);

/* Its number; it is made, if it is new. Loads the rest if it was there. */
int row_load(struct job_row *row, struct db *db, const char *owner, const char *id, int64_t *ret_job, struct err *err);
/* Of a job that is there. */
int row_read(struct job_row *row, struct db *db, int64_t job, struct err *err);
int row_save(const struct job_row *row, struct db *db, int64_t job, struct err *err);

/* A text of somebody else, cut to a length that a person still reads. */
void row_set_text(char **text, const char *value);

/* A record: changes the row and the minute of its time. Records come in any order, each once. */
int row_apply(struct job_row *row, struct minute **minutes, enum record_type type, double t, const json_t *record);
/* job.json. */
void row_apply_info(struct job_row *row, const json_t *info);

/* Adds what is in the hash to the table, and empties it. */
int minutes_save(struct minute **minutes, struct db *db, int64_t job, struct err *err);
void minutes_done(struct minute **minutes);

/* Which numbers of records of a job are stored, and on which day. What comes twice, and what is missing, is known by it. */

enum { RANGES_MOST = 4096 }; /* of a job; a hostile one could make a hole behind each record */

struct range {
    int64_t first, behind;
    char day[DB_DAY_SIZE]; /* "": never to be had, or dropped */
};

/* In the order of numbers; zero-initialised when empty. */
struct ranges {
    struct range *list;
    size_t count, room;
    int64_t changed; /* the first number of the lowest one that was changed; INT64_MAX: none was */
};

void ranges_done(struct ranges *ranges);
/* 0, -EEXIST, -E2BIG (too many), -ENOMEM. */
int ranges_add(struct ranges *ranges, int64_t seq, const char *day);
/* All that is missing from `first` to before `behind`, as never to be had. *ret_added: how many. As above. */
int ranges_fill(struct ranges *ranges, int64_t first, int64_t behind, int64_t *ret_added);
/* The first one from `from` on that is missing, and the one behind the last of these, at most `end`. */
int64_t ranges_missing(const struct ranges *ranges, int64_t from, int64_t end, int64_t *ret_behind);

/* Forgets all from this number on. */
void ranges_cut(struct ranges *ranges, int64_t behind);

/* From, and to the table. Errors of the database. */
int ranges_load(struct ranges *ranges, struct db *db, int64_t job, struct err *err);
int ranges_save(struct ranges *ranges, struct db *db, int64_t job, struct err *err);

#endif
