/* SPDX-License-Identifier: Apache-2.0 */
/* PostgreSQL 15 (libpq): the table `records` is partitioned by day, and filled with COPY. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <libpq-fe.h>

#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "store/db.h"

struct postgres {
    struct db db;
    PGconn *connection;
    bool owns, owned; /* it is to be the recorder's; it is, on this connection */
    char day[DB_DAY_SIZE];
};

enum { OTHER_SIZE = 64 };

enum {
    TYPE_BYTEA = 17,
    TYPE_INT8 = 20,
    TYPE_INT2 = 21,
    TYPE_INT4 = 23,
    TYPE_FLOAT4 = 700,
    TYPE_FLOAT8 = 701,
    TYPE_NUMERIC = 1700
};

static void result_clear(PGresult **result)
{
    PQclear(*result);
}

/* clang-format off */
static const char *const own_steps[SCHEMA_VERSION] = {
    "CREATE TABLE records ("
    " day DATE NOT NULL, job BIGINT NOT NULL, seq BIGINT NOT NULL, t DOUBLE PRECISION NOT NULL, stream TEXT NOT NULL,"
    " type TEXT NOT NULL, record JSON NOT NULL, PRIMARY KEY (day, job, seq)) PARTITION BY LIST (day);"
    "CREATE VIEW record_list AS SELECT jobs.owner, jobs.id, jobs.name, jobs.node, records.seq, records.t,"
    " jobs.started + records.t AS time, to_timestamp(jobs.started + records.t) AT TIME ZONE 'UTC' AS time_at,"
    " records.stream, records.type, records.record, records.job FROM records JOIN jobs ON jobs.job = records.job;"
    "CREATE VIEW warning_list AS SELECT owner, id, name, node, time_at, record ->> 'kind' AS kind,"
    " record ->> 'text' AS text FROM record_list WHERE stream = 'warning';"
    "CREATE VIEW failure_list AS SELECT owner, id, name, node, time_at, type,"
    " CASE type WHEN 'crash' THEN record ->> 'name' WHEN 'log' THEN record ->> 'text'"
    " WHEN 'command_failed' THEN record ->> 'command'"
    " ELSE coalesce(record ->> 'name', '') || ': ' || coalesce(record ->> 'message', '') END AS text"
    " FROM record_list WHERE type IN ('crash', 'command_failed')"
    " OR type = 'log' AND record ->> 'level' = 'error'"
    " OR type = 'python_exception' AND record ->> 'caught' = 'false';",
};
/* clang-format on */

/* The first line of what the server says is enough. */
static int postgres_error(struct postgres *postgres, const PGresult *result, struct err *err)
{
    const char *text = result ? PQresultErrorMessage(result) : PQerrorMessage(postgres->connection);
    const char *state = result ? PQresultErrorField(result, PG_DIAG_SQLSTATE) : NULL;
    int code = -EPROTO;
    if (PQstatus(postgres->connection) != CONNECTION_OK || (state && strncmp(state, "57P", 3) == 0))
        code = -ENOTCONN;
    else if (state && strncmp(state, "53", 2) == 0)
        code = -ENOSPC;
    else if (state && (strncmp(state, "40", 2) == 0 || strncmp(state, "55P", 3) == 0))
        code = -EAGAIN;
    if (code == -ENOTCONN)
        *postgres->day = '\0';
    return err_set(err, code, "%s: %.*s", postgres->db.name, (int)strcspn(text, "\n"), text);
}

/* ---- statements ---- */

/* Parameters as text, but bytes as they are. */
struct bound {
    char numbers[DB_PARAMETERS][40];
    char *copies[DB_PARAMETERS]; /* of texts, which libpq wants to end with a zero byte */
    const char *values[DB_PARAMETERS];
    int lengths[DB_PARAMETERS], formats[DB_PARAMETERS];
};

static int bound_fill(struct bound *bound, const struct db_value *values, int count)
{
    for (int i = 0; i < count; i++) {
        const struct db_value *value = &values[i];
        bound->values[i] = bound->numbers[i];
        if (value->type == DB_INTEGER) {
            snprintf(bound->numbers[i], sizeof bound->numbers[i], "%lld", (long long)value->integer);
        } else if (value->type == DB_REAL) {
            snprintf(bound->numbers[i], sizeof bound->numbers[i], "%.17g", value->real);
        } else if (value->type == DB_NULL) {
            bound->values[i] = NULL;
        } else {
            bound->copies[i] = strndup(value->text.ptr ? value->text.ptr : "", value->text.len);
            if (value->type == DB_BYTES) {
                free(bound->copies[i]);
                bound->copies[i] = NULL;
                bound->formats[i] = 1;
                bound->lengths[i] = (int)value->text.len;
            } else if (!bound->copies[i]) {
                return -ENOMEM;
            }
            bound->values[i] = value->type == DB_BYTES ? (value->text.ptr ? value->text.ptr : "") : bound->copies[i];
        }
    }
    return 0;
}

static struct db_value value_at(const PGresult *result, int row, int at, unsigned char **ret_bytes)
{
    const char *text = PQgetvalue(result, row, at);
    if (PQgetisnull(result, row, at))
        return (struct db_value){DB_NULL};
    switch (PQftype(result, at)) {
    case TYPE_INT2:
    case TYPE_INT4:
    case TYPE_INT8:
        return db_integer(strtoll(text, NULL, 10));
    case TYPE_FLOAT4:
    case TYPE_FLOAT8:
    case TYPE_NUMERIC:
        return db_real(strtod(text, NULL));
    case TYPE_BYTEA: {
        struct db_value value = {DB_BYTES};
        *ret_bytes = PQunescapeBytea((const unsigned char *)text, &value.text.len);
        value.text.ptr = *ret_bytes ? (const char *)*ret_bytes : "";
        return value;
    }
    default:
        return db_text(span_of(text, (size_t)PQgetlength(result, row, at)));
    }
}

static int rows_each(const PGresult *result, db_row_fn *fn, void *ctx)
{
    int columns = PQnfields(result), stop = 0;
    for (int row = 0; fn && row < PQntuples(result) && stop == 0; row++) {
        struct db_value values[DB_PARAMETERS];
        unsigned char *bytes[DB_PARAMETERS] = {NULL};
        for (int i = 0; i < columns && i < DB_PARAMETERS; i++)
            values[i] = value_at(result, row, i, &bytes[i]);
        stop = fn(ctx, values, columns);
        for (int i = 0; i < columns && i < DB_PARAMETERS; i++)
            PQfreemem(bytes[i]);
    }
    return stop;
}

static int postgres_query(struct db *db, const char *sql, const struct db_value *values, int count, db_row_fn *fn,
                          void *ctx, struct err *err)
{
    struct postgres *postgres = (struct postgres *)db;
    struct bound *bound = calloc(1, sizeof *bound);
    int code = bound ? bound_fill(bound, values, count) : -ENOMEM;
    if (code == 0) {
        _cleanup_(result_clear) PGresult *result =
            PQexecParams(postgres->connection, sql, count, NULL, bound->values, bound->lengths, bound->formats, 0);
        ExecStatusType status = PQresultStatus(result);
        code = status == PGRES_TUPLES_OK                               ? rows_each(result, fn, ctx)
               : status == PGRES_COMMAND_OK || status == PGRES_COPY_IN ? 0
                                                                       : postgres_error(postgres, result, err);
    } else {
        err_set(err, code, "out of memory");
    }
    for (int i = 0; bound && i < count; i++)
        free(bound->copies[i]);
    free(bound);
    return code;
}

/* ---- transactions ---- */

static void on_notice(void *ctx, const PGresult *result)
{
}

static int keep_text(void *ctx, const struct db_value *values, int count)
{
    snprintf(ctx, OTHER_SIZE, "%.*s", SPAN_ARG(values[0].text));
    return 0;
}

/* A lock that goes with its connection, one for each schema. */
#define OWNER_KEY "1396920915, hashtext(current_schema())" /* "SCRS" */
#define OWNER \
    " FROM pg_stat_activity JOIN pg_locks USING (pid)" \
    " WHERE locktype = 'advisory' AND classid = 1396920915 AND granted" \
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())" \
    " AND objid::bigint = hashtext(current_schema())::bigint & 4294967295"
static int postgres_own(struct db *db, struct err *err)
{
    struct postgres *postgres = (struct postgres *)db;
    char other[OTHER_SIZE] = "";
    int64_t got = 0;
    bool again = postgres->owns;
    /* a recorder whose machine is gone keeps nobody from the record for longer than half a minute */
    db_query(db,
             "SELECT set_config('tcp_keepalives_idle', '15', false), set_config('tcp_keepalives_interval', '5', false),"
             " set_config('tcp_keepalives_count', '3', false)",
             NULL, 0, NULL, NULL, NULL);
    int code = db_query_integer(db, "SELECT pg_try_advisory_lock(" OWNER_KEY ")::int", NULL, 0, &got, err);
    if (code < 0)
        return code;
    postgres->owns = true;
    postgres->owned = got;
    if (got)
        return 0;
    if (again) /* our own connection, of which the server does not know yet that it is lost */
        db_query(db,
                 "SELECT pg_terminate_backend(pid)" OWNER " AND application_name = current_setting('application_name')",
                 NULL, 0, NULL, NULL, NULL);
    db_query(db, "SELECT application_name" OWNER, NULL, 0, keep_text, other, NULL);
    return err_set(err, -EBUSY, "another recorder%s%s%s writes the record %s", *other ? " (" : "", other,
                   *other ? ")" : "", db->name);
}

static int postgres_reconnect(struct postgres *postgres, struct err *err)
{
    if (PQstatus(postgres->connection) != CONNECTION_OK) {
        postgres->owned = false;
        *postgres->day = '\0';
        PQreset(postgres->connection);
    }
    if (PQstatus(postgres->connection) != CONNECTION_OK)
        return postgres_error(postgres, NULL, err);
    return postgres->owns && !postgres->owned ? postgres_own(&postgres->db, err) : 0;
}

static int postgres_begin(struct db *db, bool write, struct err *err)
{
    int code = postgres_reconnect((struct postgres *)db, err);
    return code < 0 ? code : postgres_query(db, write ? "BEGIN" : "BEGIN READ ONLY", NULL, 0, NULL, NULL, err);
}

static void postgres_rollback(struct db *db)
{
    struct postgres *postgres = (struct postgres *)db;
    if (PQtransactionStatus(postgres->connection) != PQTRANS_IDLE)
        postgres_query(db, "ROLLBACK", NULL, 0, NULL, NULL, NULL);
}

static int postgres_commit(struct db *db, struct err *err)
{
    struct postgres *postgres = (struct postgres *)db;
    bool fails = PQtransactionStatus(postgres->connection) == PQTRANS_INERROR; /* COMMIT would roll back, and succeed */
    int code = fails ? err_set(err, -EPROTO, "%s: a statement has failed", db->name)
                     : postgres_query(db, "COMMIT", NULL, 0, NULL, NULL, err);
    if (code < 0)
        postgres_rollback(db);
    return code;
}

/* ---- days ---- */

static int is_day(const char *day)
{
    return strlen(day) == 10 && strspn(day, "0123456789-") == 10;
}

static int day_make(struct db *db, const char *day, struct err *err)
{
    struct postgres *postgres = (struct postgres *)db;
    char sql[200];
    int code = postgres_reconnect(postgres, err);
    if (code < 0 || strcmp(postgres->day, day) == 0)
        return code;
    if (!is_day(day))
        return err_set(err, -EINVAL, "%s is no day", day);
    snprintf(sql, sizeof sql, "CREATE TABLE IF NOT EXISTS \"records_%s\" PARTITION OF records FOR VALUES IN ('%s')",
             day, day);
    code = postgres_query(db, sql, NULL, 0, NULL, NULL, err);
    if (code == 0)
        snprintf(postgres->day, sizeof postgres->day, "%s", day);
    return code;
}

static void put_escaped(struct buf *out, struct span text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (c == '\\')
            buf_puts(out, "\\\\");
        else if (c == '\n')
            buf_puts(out, "\\n");
        else if (c == '\r')
            buf_puts(out, "\\r");
        else if (c == '\t')
            buf_puts(out, "\\t");
        else
            buf_putc(out, c);
    }
}

static int copy_rows(struct postgres *postgres, const char *day, const struct db_record *records, size_t count)
{
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    for (size_t i = 0; i < count; i++) {
        const struct db_record *record = &records[i];
        buf_printf(&out, "%s\t%lld\t%lld\t%.17g\t%s\t", day, (long long)record->job, (long long)record->seq, record->t,
                   record->stream);
        put_escaped(&out, record->type);
        buf_putc(&out, '\t');
        put_escaped(&out, record->text);
        buf_putc(&out, '\n');
        if (out.failed)
            return -ENOMEM;
        if (out.len < 256 << 10 && i + 1 < count)
            continue;
        if (PQputCopyData(postgres->connection, out.data, (int)out.len) != 1)
            return -EIO;
        buf_clear(&out);
    }
    return 0;
}

static int day_put(struct db *db, const char *day, const struct db_record *records, size_t count, struct err *err)
{
    struct postgres *postgres = (struct postgres *)db;
    if (!count)
        return 0;
    int code = postgres_query(db, "COPY records (day, job, seq, t, stream, type, record) FROM STDIN", NULL, 0, NULL,
                              NULL, err);
    if (code < 0)
        return code;
    code = copy_rows(postgres, day, records, count);
    PQputCopyEnd(postgres->connection, code < 0 ? "given up" : NULL);
    for (PGresult *result; (result = PQgetResult(postgres->connection)); PQclear(result)) {
        if (PQresultStatus(result) != PGRES_COMMAND_OK)
            code = postgres_error(postgres, result, err);
    }
    return code;
}

static int postgres_days(struct db *db, db_row_fn *fn, void *ctx, struct err *err)
{
    return postgres_query(db,
                          "SELECT substr(child.relname::text, 9) FROM pg_inherits"
                          " JOIN pg_class child ON child.oid = inhrelid WHERE inhparent = 'records'::regclass"
                          " AND child.relname LIKE 'records\\_____-__-__' ORDER BY 1",
                          NULL, 0, fn, ctx, err);
}

struct reading {
    db_row_fn *fn;
    void *ctx;
    int64_t last;
    size_t rows;
};

static int read_row(void *ctx, const struct db_value *values, int count)
{
    struct reading *reading = ctx;
    reading->last = values[0].integer;
    reading->rows++;
    return reading->fn(reading->ctx, values, count);
}

/* Some at a time: libpq keeps a whole answer in memory. */
static int day_read(struct db *db, const char *day, int64_t job, int64_t from, db_row_fn *fn, void *ctx,
                    struct err *err)
{
    enum { AT_ONCE = 5000 };
    struct reading reading = {fn, ctx, from - 1, AT_ONCE};
    int code = 0;
    while (code == 0 && reading.rows >= AT_ONCE) {
        struct db_value values[] = {db_string(day), db_integer(job), db_integer(reading.last)};
        reading.rows = 0;
        code = postgres_query(db,
                              "SELECT seq, stream, record::text FROM records WHERE day = $1::date AND job = $2::bigint"
                              " AND seq > $3::bigint ORDER BY seq LIMIT 5000",
                              values, 3, read_row, &reading, err);
    }
    return code;
}

static int day_drop(struct db *db, const char *day, int64_t job, struct err *err)
{
    struct postgres *postgres = (struct postgres *)db;
    struct db_value values[] = {db_string(day), db_integer(job)};
    char sql[100];
    if (job >= 0)
        return postgres_query(db, "DELETE FROM records WHERE day = $1::date AND job = $2::bigint", values, 2, NULL,
                              NULL, err);
    if (!is_day(day))
        return err_set(err, -EINVAL, "%s is no day", day);
    if (strcmp(postgres->day, day) == 0)
        *postgres->day = '\0';
    snprintf(sql, sizeof sql, "DROP TABLE IF EXISTS \"records_%s\"", day);
    return postgres_query(db, sql, NULL, 0, NULL, NULL, err);
}

/* ---- opening ---- */

static void close_postgres(struct db *db)
{
    struct postgres *postgres = (struct postgres *)db;
    PQfinish(postgres->connection);
    free(postgres);
}

static const struct db_backend backend = {
    .words = {{"KEY", "BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY"},
              {"REAL", "DOUBLE PRECISION"},
              {"JSON", "JSON"},
              {"BYTES", "BYTEA"},
              {"NOW", "extract(epoch FROM now())::double precision"},
              {"TIME", "(to_timestamp(%) AT TIME ZONE 'UTC')"},
              {"MOST", "greatest(%)"},
              {"LEAST", "least(%)"},
              {NULL}},
    .own_steps = own_steps,
    .begin = postgres_begin,
    .commit = postgres_commit,
    .rollback = postgres_rollback,
    .query = postgres_query,
    .day_make = day_make,
    .day_put = day_put,
    .days = postgres_days,
    .day_read = day_read,
    .day_drop = day_drop,
    .own = postgres_own,
    .close = close_postgres,
};

/* Without what stands between "://" and "@" after a colon, and behind "password=". */
static void show_url(const char *url, char *ret_text, size_t size)
{
    const char *user = strstr(url, "://") + 3, *at = user + strcspn(user, "@/?"), *query_at = strchr(url, '?');
    const char *colon = memchr(user, ':', (size_t)(at - user));
    const char *rest = *at == '@' ? at : user;
    int shown = *at == '@' ? (int)((colon ? colon : at) - url) : (int)(user - url);
    snprintf(ret_text, size, "%.*s%.*s", shown, url, query_at ? (int)(query_at - rest) : (int)strlen(rest), rest);
}

int db_open_postgres(struct db **ret_db, const char *url, enum db_access access, struct err *err)
{
    struct postgres *postgres = calloc(1, sizeof *postgres);
    const char *keys[] = {"dbname", "application_name", "connect_timeout", "client_encoding", NULL};
    char self[64], host[40] = ""; /* the server keeps 63 bytes */
    const char *values[] = {url, self, "10", "UTF8", NULL};
    if (!postgres)
        return err_set(err, -ENOMEM, "out of memory");
    gethostname(host, sizeof host - 1);
    snprintf(self, sizeof self, "process %d on %s", (int)getpid(), host);
    postgres->db.backend = &backend;
    postgres->db.place = postgres->db.name;
    show_url(url, postgres->db.name, sizeof postgres->db.name);
    postgres->connection = PQconnectdbParams(keys, values, 1);
    int code = PQstatus(postgres->connection) == CONNECTION_OK ? 0 : postgres_error(postgres, NULL, err);
    PQsetNoticeReceiver(postgres->connection, on_notice, NULL);
    if (code == 0 && PQserverVersion(postgres->connection) < 140000)
        code = err_set(err, -EPROTO, "%s is PostgreSQL %d: 14 or later is needed", postgres->db.name,
                       PQserverVersion(postgres->connection) / 10000);
    if (code == 0 && access == DB_READ)
        code = postgres_query(&postgres->db, "SET default_transaction_read_only = on", NULL, 0, NULL, NULL, err);
    if (code < 0) {
        close_postgres(&postgres->db);
        return code;
    }
    *ret_db = &postgres->db;
    return 0;
}
