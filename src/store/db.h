/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_STORE_DB_H
#define SCRY_STORE_DB_H

#include "base/data/err.h"
#include "base/data/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A database that keeps records: SQLite files in a directory, or PostgreSQL. Both understand the same statements, which
 * have a few words between @ where they differ (see db_backend.words), and parameters $1, $2... in the order in which
 * they come first. What is not the program's own text is a parameter, always.
 *
 * Records are apart by the day (UTC) on which they arrived: a file of SQLite, a partition of PostgreSQL, so that old
 * ones go by dropping a day. A transaction is all or nothing, also over several files. No thread safety.
 */

enum { DB_PARAMETERS = 64, DB_DAY_SIZE = 16 };

enum db_type { DB_NULL, DB_INTEGER, DB_REAL, DB_TEXT, DB_BYTES };

struct db_value {
    enum db_type type;
    int64_t integer;
    double real;
    struct span text; /* also of DB_BYTES; borrowed */
};

static inline struct db_value db_integer(int64_t number)
{
    return (struct db_value){DB_INTEGER, .integer = number};
}

static inline struct db_value db_real(double number)
{
    return (struct db_value){DB_REAL, .real = number};
}

static inline struct db_value db_text(struct span text)
{
    return (struct db_value){DB_TEXT, .text = text};
}

static inline struct db_value db_string(const char *text)
{
    return text ? db_text(span_str(text)) : (struct db_value){DB_NULL};
}

/* Numbers of any type; 0 for others. */
double db_number(const struct db_value *value);

/* A row of an answer; values live until it returns. Not 0: no more rows are wanted, and the query returns that. */
typedef int db_row_fn(void *ctx, const struct db_value *values, int count);

/* A record as a table has it. */
struct db_record {
    int64_t job, seq;
    double t;
    const char *stream;
    struct span type, text; /* JSON, UTF-8 */
};

struct db; /* the first member of each backend's own */

/* Errors: -EAGAIN (another one has it: try again), -ENOSPC, -ENOTCONN (PostgreSQL is away: every call tries again to
 * reach it, begin first), -EPROTO (the statement is wrong), -EIO and others, with err. */
struct db_backend {
    const char *words[12][2]; /* in a statement, @WORD@ is this; ends with NULL */
    /* What the tables are made of, besides schema_ready's: of each version. */
    const char *const *own_steps;
    int (*begin)(struct db *db, bool write, struct err *err);
    int (*commit)(struct db *db, struct err *err); /* also rolls back when it fails */
    void (*rollback)(struct db *db);
    int (*query)(struct db *db, const char *sql, const struct db_value *parameters, int count, db_row_fn *fn, void *ctx,
                 struct err *err);
    /* Makes what records of that day ("2026-11-23") need. Before a transaction. */
    int (*day_make)(struct db *db, const char *day, struct err *err);
    /* Appends: the caller knows that they are new. In a transaction; the day is the one that was made last. */
    int (*day_put)(struct db *db, const char *day, const struct db_record *records, size_t count, struct err *err);
    /* All days there are, in their order, a row each. */
    int (*days)(struct db *db, db_row_fn *fn, void *ctx, struct err *err);
    /* Of a job from a number on, in order: seq, stream, record. Outside a transaction. */
    int (*day_read)(struct db *db, const char *day, int64_t job, int64_t from, db_row_fn *fn, void *ctx,
                    struct err *err);
    /* Removes a job's records of the day; job -1: the day. Outside a transaction. */
    int (*day_drop)(struct db *db, const char *day, int64_t job, struct err *err);
    /* This process is the record's recorder from now on, until it closes; one that has lost its server meanwhile is again, or
     * `begin` says what this does: -EBUSY, with err on who it is. */
    int (*own)(struct db *db, struct err *err);
    void (*close)(struct db *db);
};

struct db {
    const struct db_backend *backend;
    char name[256];    /* for people, without a password */
    const char *place; /* the same by whatever name it was opened; no two records have one */
};

enum db_access {
    DB_READ,  /* only look; what is not there is -ENOENT */
    DB_WRITE, /* made if it is not there */
};
/* `where` is a directory (SQLite) or postgresql://... */
int db_open(struct db **ret_db, const char *where, enum db_access access, struct err *err);
void db_close(struct db *db); /* NULL is fine */
int db_open_sqlite(struct db **ret_db, const char *directory, enum db_access access, struct err *err);
int db_open_postgres(struct db **ret_db, const char *url, enum db_access access, struct err *err);

/* Expands the words; one statement, without a semicolon in it. */
int db_query(struct db *db, const char *sql, const struct db_value *parameters, int count, db_row_fn *fn, void *ctx,
             struct err *err);
/* *ret_value stays if there is no row, or null in it. */
int db_query_integer(struct db *db, const char *sql, const struct db_value *parameters, int count, int64_t *ret_value,
                     struct err *err);
enum { SCHEMA_VERSION = 5 };

#endif
