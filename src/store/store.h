/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_STORE_STORE_H
#define SCRY_STORE_STORE_H

#include "base/data/err.h"
#include "base/data/buf.h"
#include "jobdir/record/kinds.h"
#include "keys/signed.h"
#include "store/db.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uthash.h>

/*
 * The record of many jobs (doc/reference/record.md). What is put in is gathered, and store_flush makes it last: all of
 * it, or, when the database fails, nothing, and it is kept for the next try. A job is known by its owner and id; of its
 * records each number is stored once, whatever the order in which they come and how often. Several processes may write
 * one record: each sees when others did, and reads anew what it knew of its jobs.
 */

enum {
    STORE_RECORD_BYTES = 1 << 20,  /* a longer record is refused */
    STORE_FILE_BYTES = 64 << 20,   /* a longer file, too */
    STORE_PENDING_BYTES = 64 << 20 /* in memory; more is -EAGAIN: it is to be had again later */
};

/* ---- a job's row (row.c) ---- */

/* As the table `jobs` has it (doc/reference/record.md), what its records change in it, and its minutes. */

/* Of numbers that may be null: NAN, and ROW_NULL. */
enum { ROW_NULL = -1 };

struct job_row {
    char *name, *node, *command, *state, *reason, *dir, *boot_id, *address, *info, *batch_system, *batch_id;
    char *last_warning, *last_stall, *stalled_text, *cause, *cause_text;
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

/* ---- which numbers of records of a job are stored, and on which day. What comes twice, and what is missing, is known by it ---- */

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

/* ---- the store ---- */

struct store;

/* A job as it is in the database after the last flush; what was put in since is not seen. */
struct stored_job {
    int64_t key; /* 0: not in the database yet */
    char *owner, *id;
    struct job_row row;
    struct ranges ranges;
    struct minute *minutes; /* within a flush */
    void *user;             /* whoever follows the job */
    bool stale;             /* somebody else may have changed it */
    bool uncommitted;       /* what is here is not so: a flush has failed */
    bool touched;
    size_t pending;
    UT_hash_handle hh;
    char name[]; /* owner and id with a zero byte between */
};

/* Where the record is: what --record says, $SCRY_RECORD, or record/ in scry's state directory. 0 or -errno. */
int store_place(const char *said, char *ret_where, size_t size, struct err *err);

int store_open(struct store **ret_store, const char *where, enum db_access access, struct err *err);
void store_close(struct store *store); /* NULL is fine; does not flush */
/* Makes this process the record's one recorder until it closes the store. -EBUSY: there is another; err says which. */
int store_own(struct store *store, struct err *err);
const char *store_name(const struct store *store);
struct db *store_db(struct store *store);

/* NULL: out of memory. Owned by the store, as long as that is open. Owner and id may be any bytes. */
struct stored_job *store_job(struct store *store, const char *owner, const char *id);
/* Reads it, if it is in the database and not yet known. 0 or errors of the database. */
int store_look(struct store *store, struct stored_job *job, struct err *err);

/* A line: a complete record, or one as the spool has it. Its job, node and stream are taken from the caller, whatever
 * it says; stream NULL: from its type. 0; -EBADMSG (it is none: counted in `refused`), -EAGAIN (too much is pending),
 * -ENOMEM. */
int store_put_record(struct store *store, struct stored_job *job, const char *stream, struct span line);
/* The same of a parsed one, which is adopted. */
int store_put_record_take(struct store *store, struct stored_job *job, const char *stream, json_t *record);
/* `state` as published, or what an import makes of a directory. `beat` as published. Borrowed. `now` is ours, negative
 * for messages that the broker has kept. */
int store_put_state(struct store *store, struct stored_job *job, const json_t *state, double now);
int store_put_beat(struct store *store, struct stored_job *job, const json_t *beat, double now);
/* The same of a state that the job has signed. If it says that all is published, there are no records behind its last_seq:
 * such that were stored, before the job was known to sign, are forgotten. */
int store_put_signed_state(struct store *store, struct stored_job *job, const json_t *state, double now);
/* Who has said what follows. SIGNED_UNKNOWN: of a job that signs, it need not be the job. */
int store_put_signed(struct store *store, struct stored_job *job, enum signed_by by);
/* A message that was not taken. */
int store_put_refused(struct store *store, struct stored_job *job);
int store_put_file(struct store *store, struct stored_job *job, const char *path, int64_t version, struct span bytes);
/* What is missing in between can never be had. */
int store_put_lost(struct store *store, struct stored_job *job, int64_t first, int64_t behind);
/* All that there was has come: it is complete as soon as nothing is missing up to known_seq. */
int store_put_complete(struct store *store, struct stored_job *job);
size_t store_pending(const struct store *store); /* bytes, about */

/* Makes it last. 0, or why it could not: try again later. What a database refuses to take (-EPROTO), for whatever it is,
 * must not hold up all others: it is dropped, and counted as refused. */
int store_flush(struct store *store, struct err *err);
/* Calls fn for each job that the last flush changed. */
void store_changed(struct store *store, void (*fn)(void *ctx, struct stored_job *job), void *ctx);
uint64_t store_written(const struct store *store); /* records, since it was opened */
uint64_t store_repeated(const struct store *store);

/* ---- what is in it ---- */

struct store_found {
    int64_t key;
    char owner[512], id[512];
};
/* JOB: [OWNER/] and an id, a name (of several the newest), @last or a unique prefix of an id. Without OWNER those of
 * `owner` are looked at first. -ENOENT, -ENOTUNIQ, and errors of the database, with err. */
int store_find(struct store *store, const char *job, const char *owner, struct store_found *ret_found, struct err *err);
/* Its records in order: seq, stream, record. */
int store_read(struct store *store, int64_t job, db_row_fn *fn, void *ctx, struct err *err);
/* The same from that number on. */
int store_read_from(struct store *store, int64_t job, int64_t from, db_row_fn *fn, void *ctx, struct err *err);
/* Removes a job, its records, and all that is known of it. */
int store_remove(struct store *store, int64_t job, struct err *err);
/* Drops days that are older, in seconds, and minutes of jobs that were not heard of for so long; 0: keeps them. Roll-ups
 * and the summary stay. *ret_days: how many were dropped. `now`: wall clock. */
int store_keep(struct store *store, double records_seconds, double minutes_seconds, double now, size_t *ret_days,
               struct err *err);
/* Before the records go to this collector (table `exported`): if it is new, it gets nothing of what is there already. */
int store_export_begin(struct store *store, const char *target, struct err *err);

/* ---- from and to job directories (copy.c) ---- */

/* Makes a mirror (jobdir/record/mirror.h) of a job from the record, so that all that shows job directories shows it.
 * `whole`: with records and files; else only job.json and remote.json, for lists. The path of the mirror; 0 or -errno
 * with err. */
int fetch_job(struct store *store, const struct store_found *found, bool whole, char *ret_path, size_t size,
              struct err *err);

/* Takes a job directory into the record. A job that runs may be taken again: what is there is not taken twice.
 * Its records, small files and description; flushed. 0 or -errno with err: what was stored before stays. */
int import_job(struct store *store, const char *path, struct stored_job **ret_job, struct err *err);

/* ---- what the files of the store share ---- */

enum op_kind { OP_RECORD, OP_STATE, OP_BEAT, OP_FILE, OP_LOST, OP_REFUSED, OP_COMPLETE, OP_SIGNED };

/* What was put in and is not in the database yet. */
struct op {
    enum op_kind kind;
    struct stored_job *job;
    bool done; /* it is in the database, or given up */
    json_t *json;
    char *text, *path; /* owned */
    const char *stream;
    enum record_type type;
    int64_t seq, behind; /* of OP_FILE: the version; of OP_SIGNED: by whom; of OP_STATE: whether it was */
    double t;            /* of a record; else our wall clock */
    size_t len, bytes;
};

struct store {
    struct db *db;
    struct stored_job *jobs; /* hash by name */
    struct op *ops;
    size_t count, room, pending_bytes;
    struct db_record *rows; /* of this flush */
    size_t row_count, row_room;
    char day[DB_DAY_SIZE];
    int64_t writes; /* the writers' number after our last flush */
    uint64_t written, repeated, flushed_repeated;
};

/* The constant of this name; "job" for others. */
const char *stream_of(const char *name);

#endif
