/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SQLite: record.db, and a file of records for each day, attached while it is written. The journal is the classic one:
 * a commit over several files is all or nothing with it, and it works on network file systems; WAL has neither.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sqlite3.h>

#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "base/system/dirs.h"
#include "base/system/file.h"
#include "base/system/log.h"
#include "shm/waits.h"
#include "store/db.h"

enum {
    STATEMENTS = 64,
    ATTACHED = 8, /* days in all.sql: SQLite attaches 10 files at most */
};

struct sqlite {
    struct db db;
    char dir[PATH_MAX];
    int lock; /* of the recorder; -1 */
    sqlite3 *main;
    enum db_access access;
    struct statement {
        char *sql;
        sqlite3_stmt *prepared;
    } statements[STATEMENTS];
    unsigned next; /* statement to be replaced */
    char day[DB_DAY_SIZE];
    sqlite3_stmt *put;
};

static const char *const own_steps[SCHEMA_VERSION] = {NULL};

static int sqlite_error(sqlite3 *handle, int code, const char *what, struct err *err)
{
    int number = code & 0xff;
    const char *text = handle ? sqlite3_errmsg(handle) : sqlite3_errstr(code);
    if (number == SQLITE_BUSY || number == SQLITE_LOCKED)
        return err_set(err, -EAGAIN, "%s: another process is using it", what);
    if (number == SQLITE_FULL || (number == SQLITE_IOERR && sqlite3_system_errno(handle) == ENOSPC))
        return err_set(err, -ENOSPC, "%s: the disk is full", what);
    if (number == SQLITE_CANTOPEN || number == SQLITE_READONLY || number == SQLITE_PERM)
        return err_set(err, -EACCES, "%s: %s", what, text);
    if (number == SQLITE_CORRUPT || number == SQLITE_NOTADB)
        return err_set(err, -EBADMSG, "%s is damaged (%s); `sqlite3 FILE .recover` saves what it has", what, text);
    return err_set(err, number == SQLITE_ERROR ? -EPROTO : -EIO, "%s: %s", what, text);
}

static void values_bind(sqlite3_stmt *prepared, const struct db_value *values, int count)
{
    for (int i = 0; i < count; i++) {
        const struct db_value *value = &values[i];
        const char *text = value->text.ptr ? value->text.ptr : "";
        if (value->type == DB_INTEGER)
            sqlite3_bind_int64(prepared, i + 1, value->integer);
        else if (value->type == DB_REAL)
            sqlite3_bind_double(prepared, i + 1, value->real);
        else if (value->type == DB_TEXT)
            sqlite3_bind_text(prepared, i + 1, text, (int)value->text.len, SQLITE_STATIC);
        else if (value->type == DB_BYTES)
            sqlite3_bind_blob(prepared, i + 1, text, (int)value->text.len, SQLITE_STATIC);
        else
            sqlite3_bind_null(prepared, i + 1);
    }
}

static struct db_value value_at(sqlite3_stmt *prepared, int at)
{
    switch (sqlite3_column_type(prepared, at)) {
    case SQLITE_INTEGER:
        return db_integer(sqlite3_column_int64(prepared, at));
    case SQLITE_FLOAT:
        return db_real(sqlite3_column_double(prepared, at));
    case SQLITE_NULL:
        return (struct db_value){DB_NULL};
    default: {
        bool bytes = sqlite3_column_type(prepared, at) == SQLITE_BLOB;
        const char *text = sqlite3_column_blob(prepared, at);
        struct db_value value = db_text(span_of(text ? text : "", (size_t)sqlite3_column_bytes(prepared, at)));
        value.type = bytes ? DB_BYTES : DB_TEXT;
        return value;
    }
    }
}

/* Goes through all rows. SQLite's code, or what fn returned in *ret_stop. */
static int rows_each(sqlite3_stmt *prepared, db_row_fn *fn, void *ctx, int *ret_stop)
{
    int code, columns = sqlite3_column_count(prepared);
    struct db_value values[DB_PARAMETERS];
    *ret_stop = 0;
    while ((code = sqlite3_step(prepared)) == SQLITE_ROW && *ret_stop == 0) {
        for (int i = 0; i < columns && i < DB_PARAMETERS; i++)
            values[i] = value_at(prepared, i);
        *ret_stop = fn ? fn(ctx, values, columns) : 0;
    }
    int reset = sqlite3_reset(prepared);
    sqlite3_clear_bindings(prepared);
    return code == SQLITE_ROW ? SQLITE_OK : reset;
}

static sqlite3_stmt *sqlite_prepare(struct sqlite *sqlite, const char *sql, int *ret_code)
{
    for (size_t i = 0; i < STATEMENTS; i++) {
        struct statement *known = &sqlite->statements[i];
        if (known->sql && strcmp(known->sql, sql) == 0 && !sqlite3_stmt_busy(known->prepared)) {
            *ret_code = SQLITE_OK;
            return known->prepared;
        }
    }
    struct statement *room = &sqlite->statements[sqlite->next++ % STATEMENTS];
    while (room->prepared && sqlite3_stmt_busy(room->prepared)) /* the callers of a few queries nest */
        room = &sqlite->statements[sqlite->next++ % STATEMENTS];
    sqlite3_finalize(room->prepared);
    free(room->sql);
    *room = (struct statement){.sql = strdup(sql)};
    *ret_code = room->sql ? sqlite3_prepare_v3(sqlite->main, sql, -1, SQLITE_PREPARE_PERSISTENT, &room->prepared, NULL)
                          : SQLITE_NOMEM;
    return room->prepared;
}

static int sqlite_query(struct db *db, const char *sql, const struct db_value *values, int count, db_row_fn *fn,
                        void *ctx, struct err *err)
{
    struct sqlite *sqlite = (struct sqlite *)db;
    int code, stop = 0;
    sqlite3_stmt *prepared = sqlite_prepare(sqlite, sql, &code);
    if (code == SQLITE_OK && prepared) {
        values_bind(prepared, values, count);
        code = rows_each(prepared, fn, ctx, &stop);
    }
    return code != SQLITE_OK ? sqlite_error(sqlite->main, code, db->name, err) : stop;
}

static void forget_statements(struct sqlite *sqlite)
{
    for (size_t i = 0; i < STATEMENTS; i++) {
        sqlite3_finalize(sqlite->statements[i].prepared);
        free(sqlite->statements[i].sql);
        sqlite->statements[i] = (struct statement){0};
    }
    sqlite3_finalize(sqlite->put);
    sqlite->put = NULL;
}

static int sqlite_begin(struct db *db, bool write, struct err *err)
{
    return sqlite_query(db, write ? "BEGIN IMMEDIATE" : "BEGIN", NULL, 0, NULL, NULL, err);
}

static void sqlite_rollback(struct db *db)
{
    struct sqlite *sqlite = (struct sqlite *)db;
    if (!sqlite3_get_autocommit(sqlite->main))
        sqlite_query(db, "ROLLBACK", NULL, 0, NULL, NULL, NULL);
}

static int sqlite_commit(struct db *db, struct err *err)
{
    int code = sqlite_query(db, "COMMIT", NULL, 0, NULL, NULL, err);
    if (code < 0)
        sqlite_rollback(db);
    return code;
}

/* ---- days ---- */

static int day_path(const struct sqlite *sqlite, const char *day, char path[PATH_MAX])
{
    return snprintf(path, PATH_MAX, "%s/day-%s.db", sqlite->dir, day) < PATH_MAX ? 0 : -ENAMETOOLONG;
}

static int is_day(const struct dirent *entry)
{
    return fnmatch("day-[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9].db", entry->d_name, 0) == 0;
}

static int sqlite_days(struct db *db, db_row_fn *fn, void *ctx, struct err *err)
{
    struct sqlite *sqlite = (struct sqlite *)db;
    struct dirent **found;
    int count = scandir(sqlite->dir, &found, is_day, alphasort), code = 0;
    if (count < 0)
        return err_errno(err, -errno, "cannot read %s", sqlite->dir);
    for (int i = 0; i < count; i++) {
        struct db_value day = db_text(span_of(found[i]->d_name + 4, 10));
        if (code == 0)
            code = fn(ctx, &day, 1);
        free(found[i]);
    }
    free(found);
    return code;
}

static void put_quoted(struct buf *out, const char *text)
{
    buf_putc(out, '\'');
    for (; *text; text++) {
        if (*text == '\'')
            buf_putc(out, '\'');
        buf_putc(out, *text);
    }
    buf_putc(out, '\'');
}

static const char views[] =
    "CREATE TEMP VIEW record_list AS SELECT jobs.owner, jobs.id, jobs.name, jobs.node, records.seq, records.t,"
    " jobs.started + records.t AS time, datetime(jobs.started + records.t, 'unixepoch') AS time_at, records.stream,"
    " records.type, records.record, records.job FROM records JOIN jobs ON jobs.job = records.job;\n"
    "CREATE TEMP VIEW warning_list AS SELECT owner, id, name, node, time_at, record ->> 'kind' AS kind,"
    " record ->> 'text' AS text FROM record_list WHERE stream = 'warning';\n"
    "CREATE TEMP VIEW failure_list AS SELECT owner, id, name, node, time_at, type,"
    " CASE type WHEN 'crash' THEN record ->> 'name' WHEN 'log' THEN record ->> 'text'"
    " WHEN 'command_failed' THEN record ->> 'command'"
    " ELSE coalesce(record ->> 'name', '') || ': ' || coalesce(record ->> 'message', '') END AS text"
    " FROM record_list WHERE type IN ('crash', 'command_failed')"
    " OR type = 'log' AND record ->> 'level' = 'error'"
    " OR type = 'python_exception' AND record ->> 'caught' = 0;\n";

struct list {
    char days[ATTACHED][DB_DAY_SIZE];
    size_t count; /* of all */
};

static int list_day(void *ctx, const struct db_value *values, int count)
{
    struct list *list = ctx;
    snprintf(list->days[list->count++ % ATTACHED], DB_DAY_SIZE, "%.*s", SPAN_ARG(values[0].text));
    return 0;
}

/* For people with `sqlite3`, in place of a view: none may reach over files but a temporary one. */
static void write_all_sql(struct sqlite *sqlite)
{
    char path[PATH_MAX];
    struct list list = {.count = 0};
    _cleanup_(buf_done) struct buf text = BUF_INIT, all = BUF_INIT;
    if (sqlite_days(&sqlite->db, list_day, &list, NULL) < 0)
        return;
    buf_puts(&text, "-- The newest days of this record, and views of them. Written by scry record; see "
                    "record.md\n.timeout 10000\n");
    for (size_t i = list.count > ATTACHED ? list.count - ATTACHED : 0; i < list.count; i++) {
        const char *day = list.days[i % ATTACHED];
        if (day_path(sqlite, day, path) < 0)
            return;
        buf_puts(&text, "ATTACH ");
        put_quoted(&text, path);
        buf_printf(&text, " AS \"%s\";\n", day);
        buf_printf(&all, "%s SELECT '%s' AS day, * FROM \"%s\".records", all.len ? " UNION ALL" : "", day, day);
    }
    if (list.count)
        buf_printf(&text, "CREATE TEMP VIEW records AS%s;\n%s", all.data ? all.data : "", views);
    if (!text.failed && !all.failed && snprintf(path, sizeof path, "%s/all.sql", sqlite->dir) < PATH_MAX)
        file_replace(path, text.data, text.len, 0600); /* the record is whole without it */
}

static int day_make(struct db *db, const char *day, struct err *err)
{
    struct sqlite *sqlite = (struct sqlite *)db;
    char path[PATH_MAX];
    if (strcmp(sqlite->day, day) == 0)
        return 0;
    if (day_path(sqlite, day, path) < 0)
        return err_set(err, -ENAMETOOLONG, "the path of the record is too long");
    forget_statements(sqlite);
    int code = *sqlite->day ? sqlite_query(db, "DETACH day", NULL, 0, NULL, NULL, err) : 0;
    if (code < 0)
        return code;
    *sqlite->day = '\0';
    struct db_value file = db_string(path);
    code = sqlite_query(db, "ATTACH $1 AS day", &file, 1, NULL, NULL, err);
    if (code < 0)
        return code;
    code = sqlite_query(db, "PRAGMA day.journal_mode = TRUNCATE", NULL, 0, NULL, NULL, err);
    if (code == 0)
        code = sqlite_query(db,
                            "CREATE TABLE IF NOT EXISTS day.records (job INTEGER NOT NULL, seq INTEGER NOT NULL,"
                            " t REAL NOT NULL, stream TEXT NOT NULL, type TEXT NOT NULL, record TEXT NOT NULL,"
                            " PRIMARY KEY (job, seq))",
                            NULL, 0, NULL, NULL, err);
    forget_statements(sqlite);
    if (code < 0) {
        sqlite_query(db, "DETACH day", NULL, 0, NULL, NULL, NULL);
        return code;
    }
    snprintf(sqlite->day, sizeof sqlite->day, "%s", day);
    write_all_sql(sqlite); /* also for a day that is there: its maker may have been killed before it came to this */
    return 0;
}

static int day_put(struct db *db, const char *day, const struct db_record *records, size_t count, struct err *err)
{
    struct sqlite *sqlite = (struct sqlite *)db;
    int code = SQLITE_OK;
    if (!sqlite->put)
        code = sqlite3_prepare_v3(sqlite->main, "INSERT OR IGNORE INTO day.records VALUES (?, ?, ?, ?, ?, ?)", -1,
                                  SQLITE_PREPARE_PERSISTENT, &sqlite->put, NULL);
    for (size_t i = 0; i < count && code == SQLITE_OK; i++) {
        const struct db_record *record = &records[i];
        struct db_value values[] = {db_integer(record->job),   db_integer(record->seq), db_real(record->t),
                                    db_string(record->stream), db_text(record->type),   db_text(record->text)};
        values_bind(sqlite->put, values, 6);
        sqlite3_step(sqlite->put);
        code = sqlite3_reset(sqlite->put);
    }
    return code == SQLITE_OK ? 0 : sqlite_error(sqlite->main, code, db->name, err);
}

/* Opens a day that is not attached. */
static int open_day(const struct sqlite *sqlite, const char *day, sqlite3 **ret_handle, struct err *err)
{
    char path[PATH_MAX];
    *ret_handle = NULL;
    if (day_path(sqlite, day, path) < 0)
        return err_set(err, -ENAMETOOLONG, "the path of the record is too long");
    int code = sqlite3_open_v2(path, ret_handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
    if (code != SQLITE_OK)
        return sqlite_error(*ret_handle, code, path, err);
    sqlite3_busy_timeout(*ret_handle, SQLITE_READ_BUSY_MS);
    return 0;
}

static int on_day(const struct sqlite *sqlite, const char *day, const char *sql, const struct db_value *values,
                  int count, db_row_fn *fn, void *ctx, struct err *err)
{
    sqlite3 *handle;
    sqlite3_stmt *prepared = NULL;
    int stop = 0, code = open_day(sqlite, day, &handle, err);
    if (code == 0) {
        int number = sqlite3_prepare_v2(handle, sql, -1, &prepared, NULL);
        if (number == SQLITE_OK) {
            values_bind(prepared, values, count);
            number = rows_each(prepared, fn, ctx, &stop);
        }
        code = number == SQLITE_OK ? stop : sqlite_error(handle, number, sqlite->db.name, err);
    }
    sqlite3_finalize(prepared);
    sqlite3_close(handle);
    return code;
}

static int day_read(struct db *db, const char *day, int64_t job, int64_t from, db_row_fn *fn, void *ctx,
                    struct err *err)
{
    struct db_value values[] = {db_integer(job), db_integer(from)};
    return on_day((struct sqlite *)db, day,
                  "SELECT seq, stream, record FROM records WHERE job = ? AND seq >= ? ORDER BY seq", values, 2, fn, ctx,
                  err);
}

static int day_drop(struct db *db, const char *day, int64_t job, struct err *err)
{
    struct sqlite *sqlite = (struct sqlite *)db;
    struct db_value value = db_integer(job);
    char path[PATH_MAX], journal[PATH_MAX + 16];
    if (job >= 0)
        return on_day(sqlite, day, "DELETE FROM records WHERE job = ?", &value, 1, NULL, NULL, err);
    if (day_path(sqlite, day, path) < 0)
        return err_set(err, -ENAMETOOLONG, "the path of the record is too long");
    if (strcmp(sqlite->day, day) == 0) {
        forget_statements(sqlite);
        int code = sqlite_query(db, "DETACH day", NULL, 0, NULL, NULL, err);
        if (code < 0)
            return code;
        *sqlite->day = '\0';
    }
    snprintf(journal, sizeof journal, "%s-journal", path);
    if (unlink(path) < 0 && errno != ENOENT)
        return err_errno(err, -errno, "cannot remove %s", path);
    unlink(journal);
    write_all_sql(sqlite);
    return 0;
}

/* ---- the recorder ---- */

/* A lock that goes with its process. The file says whose it is. */
static int sqlite_own(struct db *db, struct err *err)
{
    struct sqlite *sqlite = (struct sqlite *)db;
    char path[PATH_MAX], host[128] = "", line[160];
    if (snprintf(path, sizeof path, "%s/recorder.lock", sqlite->dir) >= PATH_MAX)
        return err_set(err, -ENAMETOOLONG, "the path of the record is too long");
    _cleanup_(closep) int fd = file_open_own(AT_FDCWD, path, O_RDWR | O_CREAT);
    if (fd < 0)
        return err_errno(err, fd, "cannot make %s", path);
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK)
            return err_errno(err, -errno, "cannot lock %s", path);
        ssize_t len = pread(fd, line, sizeof line - 1, 0);
        line[len > 0 ? len : 0] = '\0';
        return err_set(err, -EBUSY, "another recorder%s%.*s%s writes the record %s", len > 0 ? " (" : "",
                       (int)strcspn(line, "\n"), line, len > 0 ? ")" : "", db->name);
    }
    gethostname(host, sizeof host - 1);
    int len = snprintf(line, sizeof line, "process %d on %s\n", (int)getpid(), host);
    if (ftruncate(fd, 0) < 0 || pwrite(fd, line, (size_t)len, 0) != len)
        log_debug("%s does not say whose it is", path); /* a full disk: it is locked all the same */
    sqlite->lock = TAKE_FD(fd);
    return 0;
}

/* ---- opening ---- */

static void close_sqlite(struct db *db)
{
    struct sqlite *sqlite = (struct sqlite *)db;
    if (sqlite->lock >= 0)
        close(sqlite->lock);
    forget_statements(sqlite);
    sqlite3_close(sqlite->main);
    free(sqlite);
}

static const struct db_backend backend = {
    .words = {{"KEY", "INTEGER PRIMARY KEY"},
              {"REAL", "REAL"},
              {"JSON", "TEXT"},
              {"BYTES", "BLOB"},
              {"NOW", "((julianday('now') - 2440587.5) * 86400.0)"},
              {"TIME", "datetime(%, 'unixepoch')"},
              {"MOST", "max(%)"},
              {"LEAST", "min(%)"},
              {NULL}},
    .own_steps = own_steps,
    .begin = sqlite_begin,
    .commit = sqlite_commit,
    .rollback = sqlite_rollback,
    .query = sqlite_query,
    .day_make = day_make,
    .day_put = day_put,
    .days = sqlite_days,
    .day_read = day_read,
    .day_drop = day_drop,
    .own = sqlite_own,
    .close = close_sqlite,
};

static int sqlite_settle(struct sqlite *sqlite, struct err *err)
{
    static const char *const pragmas[] = {"PRAGMA trusted_schema = OFF", "PRAGMA cache_size = -16000",
                                          "PRAGMA synchronous = FULL", "PRAGMA journal_mode = TRUNCATE"};
    static const char *const reading[] = {"PRAGMA trusted_schema = OFF", "PRAGMA query_only = ON"};
    const char *const *list = sqlite->access == DB_WRITE ? pragmas : reading;
    size_t count = sqlite->access == DB_WRITE ? sizeof pragmas / sizeof *pragmas : sizeof reading / sizeof *reading;
    sqlite3_busy_timeout(sqlite->main, sqlite->access == DB_WRITE ? SQLITE_BUSY_MS : SQLITE_READ_BUSY_MS);
    sqlite3_db_config(sqlite->main, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    int code = 0;
    for (size_t i = 0; i < count && code == 0; i++)
        code = sqlite_query(&sqlite->db, list[i], NULL, 0, NULL, NULL, err);
    return code;
}

int db_open_sqlite(struct db **ret_db, const char *directory, enum db_access access, struct err *err)
{
    struct sqlite *sqlite = calloc(1, sizeof *sqlite);
    char path[PATH_MAX];
    struct stat st;
    if (!sqlite)
        return err_set(err, -ENOMEM, "out of memory");
    sqlite->db.backend = &backend;
    sqlite->db.place =
        *directory == '/' ? sqlite->db.name : sqlite->dir; /* as it always was: a broker knows us by it */
    sqlite->access = access;
    sqlite->lock = -1;
    int code = access == DB_WRITE ? dirs_make(directory, 0700) : 0;
    if (code < 0)
        err_errno(err, code, "cannot make the directory of the record, %s", directory);
    else if (!realpath(directory, sqlite->dir) ||
             snprintf(path, sizeof path, "%s/record.db", sqlite->dir) >= PATH_MAX ||
             (access == DB_READ && stat(path, &st) < 0))
        code = err_set(err, -ENOENT, "there is no record in %s; scry record makes one", directory);
    snprintf(sqlite->db.name, sizeof sqlite->db.name, "%s", directory);
    if (code == 0) {
        int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | (access == DB_WRITE ? SQLITE_OPEN_CREATE : 0);
        int number = sqlite3_open_v2(path, &sqlite->main, flags, NULL);
        code = number == SQLITE_OK ? sqlite_settle(sqlite, err) : sqlite_error(sqlite->main, number, path, err);
    }
    if (code < 0) {
        close_sqlite(&sqlite->db);
        return code;
    }
    *ret_db = &sqlite->db;
    return 0;
}
