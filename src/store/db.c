/* SPDX-License-Identifier: Apache-2.0 */
#include "store/db.h"

#include "base/data/buf.h"
#include "base/data/cleanup.h"

#include <errno.h>
#include <stdlib.h>

static int schema_ready(struct db *db, enum db_access access, struct err *err);

double db_number(const struct db_value *value)
{
    return value->type == DB_INTEGER ? (double)value->integer : value->type == DB_REAL ? value->real : 0;
}

int db_open(struct db **ret_db, const char *where, enum db_access access, struct err *err)
{
    bool postgres = strncmp(where, "postgresql://", 13) == 0 || strncmp(where, "postgres://", 11) == 0;
    if (!postgres && strstr(where, "://"))
        return err_set(err, -EINVAL, "the record %s is neither a directory nor postgresql://...", where);
    int code = postgres ? db_open_postgres(ret_db, where, access, err) : db_open_sqlite(ret_db, where, access, err);
    if (code < 0)
        return code;
    code = schema_ready(*ret_db, access, err);
    if (code < 0)
        db_close(TAKE_PTR(*ret_db));
    return code;
}

void db_close(struct db *db)
{
    if (db)
        db->backend->close(db);
}

/* Of "NAME" or "NAME(ARGUMENT)" behind an @. */
static void expand_word(const struct db *db, struct buf *out, struct span word)
{
    const char *open = memchr(word.ptr, '(', word.len);
    size_t name = open ? (size_t)(open - word.ptr) : word.len;
    for (const char *const(*row)[2] = db->backend->words; (*row)[0]; row++) {
        if (!span_is(span_of(word.ptr, name), (*row)[0]))
            continue;
        for (const char *c = (*row)[1]; *c; c++) {
            if (*c == '%' && open)
                buf_append(out, open + 1, word.len - name - 2);
            else
                buf_putc(out, *c);
        }
        return;
    }
    out->failed = true; /* a mistake in the program: no statement is better than a wrong one */
}

static void words_expand(const struct db *db, struct buf *out, const char *sql)
{
    for (const char *at; (at = strchr(sql, '@')); sql = strchr(at + 1, '@') + 1) {
        buf_append(out, sql, (size_t)(at - sql));
        expand_word(db, out, span_of(at + 1, (size_t)(strchr(at + 1, '@') - at - 1)));
    }
    buf_puts(out, sql);
}

int db_query(struct db *db, const char *sql, const struct db_value *parameters, int count, db_row_fn *fn, void *ctx,
             struct err *err)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    words_expand(db, &text, sql);
    if (text.failed)
        return err_set(err, -ENOMEM, "out of memory");
    return db->backend->query(db, text.data, parameters, count, fn, ctx, err);
}

/* Several statements without parameters, expanded. */
static int db_script(struct db *db, const char *sql, struct err *err)
{
    int code = 0;
    while (code == 0 && *sql) {
        const char *end = strchr(sql, ';');
        _cleanup_(buf_done) struct buf one = BUF_INIT;
        buf_append(&one, sql, end ? (size_t)(end - sql) : strlen(sql));
        if (one.failed)
            return err_set(err, -ENOMEM, "out of memory");
        code = db_query(db, one.data ? one.data : "", NULL, 0, NULL, NULL, err);
        sql = end ? end + 1 + strspn(end + 1, " \n") : "";
    }
    return code;
}

static int take_integer(void *ctx, const struct db_value *values, int count)
{
    if (values[0].type != DB_NULL)
        *(int64_t *)ctx = (int64_t)db_number(&values[0]);
    return 0;
}

int db_query_integer(struct db *db, const char *sql, const struct db_value *parameters, int count, int64_t *ret_value,
                     struct err *err)
{
    return db_query(db, sql, parameters, count, take_integer, ret_value, err);
}

/* The tables of the record, as versions of them came one after the other. A step that was released never changes. */

/* clang-format off */
static const char *const steps[SCHEMA_VERSION] = {
    "CREATE TABLE jobs ("
    " job @KEY@,"
    " owner TEXT NOT NULL, id TEXT NOT NULL,"
    " name TEXT NOT NULL DEFAULT '', node TEXT NOT NULL DEFAULT '', command TEXT NOT NULL DEFAULT '',"
    " state TEXT NOT NULL DEFAULT 'running',"
    " started @REAL@, ended @REAL@, exit_code BIGINT, signal BIGINT, reason TEXT,"
    " complete SMALLINT NOT NULL DEFAULT 0,"
    " known_seq BIGINT NOT NULL DEFAULT -1, last_seq BIGINT NOT NULL DEFAULT -1,"
    " records BIGINT NOT NULL DEFAULT 0, lost BIGINT NOT NULL DEFAULT 0, refused BIGINT NOT NULL DEFAULT 0,"
    " last_t @REAL@ NOT NULL DEFAULT 0,"
    " dir TEXT NOT NULL DEFAULT '', boot_id TEXT NOT NULL DEFAULT '', address TEXT,"
    " connected SMALLINT NOT NULL DEFAULT 0, heard @REAL@ NOT NULL DEFAULT 0, lease_seconds @REAL@ NOT NULL DEFAULT 0,"
    " clock @REAL@ NOT NULL DEFAULT 0,"
    " info @JSON@,"
    " wall_seconds @REAL@, cpu_seconds @REAL@ NOT NULL DEFAULT 0,"
    " rss_bytes BIGINT NOT NULL DEFAULT 0, peak_rss_bytes BIGINT NOT NULL DEFAULT 0,"
    " peak_tree_rss_bytes BIGINT NOT NULL DEFAULT 0,"
    " processes BIGINT NOT NULL DEFAULT 0, processes_at_once BIGINT NOT NULL DEFAULT 0,"
    " threads_at_once BIGINT NOT NULL DEFAULT 0, failed_processes BIGINT NOT NULL DEFAULT 0,"
    " node_cpus BIGINT, node_memory_bytes BIGINT,"
    " batch_system TEXT, batch_id TEXT, cpus_asked @REAL@, memory_asked_bytes BIGINT, time_asked_seconds @REAL@,"
    " cpus_limit @REAL@, memory_limit_bytes BIGINT, memory_peak_bytes BIGINT,"
    " warnings BIGINT NOT NULL DEFAULT 0, last_warning TEXT, log_errors BIGINT NOT NULL DEFAULT 0,"
    " crashes BIGINT NOT NULL DEFAULT 0, commands_failed BIGINT NOT NULL DEFAULT 0,"
    " stalls BIGINT NOT NULL DEFAULT 0, last_stall TEXT, oom_kills BIGINT NOT NULL DEFAULT 0,"
    " progress_done @REAL@, progress_total @REAL@, progress_left_seconds @REAL@,"
    " UNIQUE (owner, id));"
    "CREATE INDEX jobs_started ON jobs (started);"
    "CREATE INDEX jobs_complete ON jobs (complete);"
    /* Numbers that are stored, from first to before `behind`, by the day that has them; day '': never to be had. */
    "CREATE TABLE ranges ("
    " job BIGINT NOT NULL, day TEXT NOT NULL, first BIGINT NOT NULL, behind BIGINT NOT NULL,"
    " PRIMARY KEY (job, first));"
    "CREATE INDEX ranges_day ON ranges (day);"
    "CREATE TABLE minutes ("
    " job BIGINT NOT NULL, minute BIGINT NOT NULL,"
    " records BIGINT NOT NULL DEFAULT 0, warnings BIGINT NOT NULL DEFAULT 0, log_errors BIGINT NOT NULL DEFAULT 0,"
    " cpu_ns BIGINT, rss_bytes BIGINT, processes BIGINT, threads BIGINT,"
    " node_load @REAL@, node_cpu @REAL@, node_iowait @REAL@, node_memory_pressure @REAL@, node_available_bytes BIGINT,"
    " PRIMARY KEY (job, minute));"
    "CREATE TABLE files ("
    " job BIGINT NOT NULL, path TEXT NOT NULL, version BIGINT NOT NULL, bytes BIGINT NOT NULL, content @BYTES@ NOT NULL,"
    " PRIMARY KEY (job, path));",

    /* For `scry site`, and for what goes on to others. */
    "ALTER TABLE jobs ADD COLUMN stalled_t @REAL@;"
    "ALTER TABLE jobs ADD COLUMN stalled_text TEXT;"
    "ALTER TABLE minutes ADD COLUMN node_swap_used_bytes BIGINT;"
    "ALTER TABLE minutes ADD COLUMN throttled @REAL@;"
    "CREATE INDEX jobs_node ON jobs (node, owner, started, boot_id);" /* all that job_list asks of other jobs */
    "CREATE TABLE ranks ("
    " job BIGINT NOT NULL, path TEXT NOT NULL,"
    " rank BIGINT NOT NULL, world_size BIGINT NOT NULL, node TEXT NOT NULL, pid BIGINT NOT NULL,"
    " compute_seconds @REAL@ NOT NULL, mpi_seconds @REAL@ NOT NULL,"
    " PRIMARY KEY (job, path));"
    "CREATE TABLE exported ("
    " target TEXT NOT NULL, job BIGINT NOT NULL, seq BIGINT NOT NULL,"
    " PRIMARY KEY (target, job));",

    /* By the job's own clock: the wall clocks of node and recorder may be set. */
    "ALTER TABLE jobs ADD COLUMN age @REAL@ NOT NULL DEFAULT 0;",

    "ALTER TABLE jobs ADD COLUMN is_signed SMALLINT;",

    /* job.json had it before. */
    "ALTER TABLE jobs ADD COLUMN cause TEXT;"
    "ALTER TABLE jobs ADD COLUMN cause_text TEXT;"
    "UPDATE jobs SET cause = info -> 'cause' ->> 'note', cause_text = info -> 'cause' ->> 'text' WHERE info IS NOT NULL;",
};

/* Made anew by every version that finds another one. */
static const char views[] =
    "DROP VIEW IF EXISTS minute_list; DROP VIEW IF EXISTS node_list; DROP VIEW IF EXISTS job_list;"
    "CREATE VIEW job_list AS SELECT"
    " job, owner, id, name, node, command,"
    " CASE WHEN state NOT IN ('running', 'unwatched') OR connected = 1 AND heard + lease_seconds >= @NOW@ THEN state"
    "  WHEN EXISTS (SELECT 1 FROM jobs later WHERE later.owner = jobs.owner" /* others may say what they like of a node */
    "   AND later.node = jobs.node AND later.boot_id <> jobs.boot_id"
    "   AND later.boot_id <> '' AND jobs.boot_id <> '' AND later.started > jobs.started + jobs.last_t) THEN 'lost'"
    "  ELSE 'unreachable' END AS state,"
    " @TIME(started)@ AS started_at, @TIME(ended)@ AS ended_at, started, ended, exit_code, signal, reason,"
    " complete, records, lost, known_seq - last_seq AS behind,"
    " coalesce(wall_seconds, @MOST(last_t, age)@) AS wall_seconds, cpu_seconds,"
    " CASE WHEN coalesce(wall_seconds, last_t) > 0.001 THEN cpu_seconds / coalesce(wall_seconds, last_t) END AS cpus_used,"
    " coalesce(cpus_asked, cpus_limit) AS cpus_asked, node_cpus,"
    " rss_bytes, peak_rss_bytes, peak_tree_rss_bytes,"
    " coalesce(memory_peak_bytes, peak_tree_rss_bytes) AS memory_used_bytes,"
    " coalesce(memory_asked_bytes, memory_limit_bytes) AS memory_asked_bytes, node_memory_bytes,"
    " batch_system, batch_id, time_asked_seconds, processes, processes_at_once, threads_at_once, failed_processes,"
    " warnings, last_warning, log_errors, crashes, commands_failed, stalls, last_stall, oom_kills,"
    " CASE WHEN progress_total > 0.000001 THEN progress_done / progress_total END AS progress,"
    " CASE WHEN ended IS NULL THEN progress_left_seconds END AS progress_left_seconds,"
    " heard, @TIME(heard)@ AS heard_at, last_t, stalled_t, stalled_text, is_signed, cause, cause_text"
    " FROM jobs;"
    "CREATE VIEW node_list AS SELECT"
    " node, count(*) AS jobs, sum(CASE WHEN state = 'running' THEN 1 ELSE 0 END) AS running,"
    " sum(CASE WHEN state IN ('failed', 'crashed', 'killed', 'lost', 'unreachable') THEN 1 ELSE 0 END) AS failed,"
    " sum(crashes) AS crashes, sum(oom_kills) AS oom_kills, sum(warnings) AS warnings, max(heard) AS heard,"
    " @TIME(max(heard))@ AS heard_at"
    " FROM job_list GROUP BY node;"
    "CREATE VIEW minute_list AS SELECT"
    " jobs.owner, jobs.id, jobs.name, jobs.node, minutes.minute, jobs.started + 60.0 * minutes.minute AS time,"
    " @TIME(jobs.started + 60.0 * minutes.minute)@ AS time_at,"
    " minutes.records, minutes.warnings, minutes.log_errors,"
    " (minutes.cpu_ns - lag(minutes.cpu_ns, 1, 0) OVER (PARTITION BY minutes.job ORDER BY minutes.minute)) / 60e9 AS cpus_used,"
    " minutes.rss_bytes, minutes.processes, minutes.threads,"
    " minutes.node_load, minutes.node_cpu, minutes.node_iowait, minutes.node_memory_pressure, minutes.node_available_bytes,"
    " minutes.node_swap_used_bytes, minutes.throttled"
    " FROM minutes JOIN jobs ON jobs.job = minutes.job;";
/* clang-format on */

static int one_text(void *ctx, const struct db_value *values, int count)
{
    size_t len = values[0].text.len < 63 ? values[0].text.len : 63;
    char *text = ctx;
    memcpy(text, values[0].text.ptr ? values[0].text.ptr : "", values[0].text.ptr ? len : 0);
    text[values[0].text.ptr ? len : 0] = '\0';
    return 0;
}

static int schema_step(struct db *db, int from, struct err *err)
{
    struct db_value version[] = {db_integer(from + 1), db_string(SCRY_VERSION)};
    const char *own = db->backend->own_steps[from];
    int code = db->backend->begin(db, true, err);
    int64_t now = 0; /* another one may have been quicker */
    if (code == 0)
        code = db_query_integer(db, "SELECT version FROM meta", NULL, 0, &now, err);
    if (code == 0 && now != from) {
        db->backend->rollback(db);
        return 0;
    }
    if (code == 0)
        code = db_script(db, steps[from], err);
    if (code == 0 && own)
        code = db_script(db, own, err);
    if (code == 0 && from + 1 == SCHEMA_VERSION) /* they name columns of this version */
        code = db_script(db, views, err);
    if (code == 0)
        code = db_query(db, "UPDATE meta SET version = $1, scry = $2", version, 2, NULL, NULL, err);
    if (code == 0)
        return db->backend->commit(db, err);
    db->backend->rollback(db);
    return code;
}

/* The tables, see doc/reference/record.md. Makes them, or brings older ones up to this version, a version a transaction.
 * -EPROTO: a newer scry made them, which err names. */
static int schema_ready(struct db *db, enum db_access access, struct err *err)
{
    int64_t version = 0;
    char scry[64] = "";
    int code = 0;
    if (access == DB_WRITE) {
        /* Every writer counts up `writes` in each transaction, and sees by it whether others wrote meanwhile. */
        code = db_script(db,
                         "CREATE TABLE IF NOT EXISTS meta (one SMALLINT PRIMARY KEY, version INTEGER NOT NULL,"
                         " scry TEXT NOT NULL, writes BIGINT NOT NULL);"
                         "INSERT INTO meta VALUES (1, 0, '', 0) ON CONFLICT DO NOTHING;",
                         err);
    }
    while (code == 0) {
        code = db_query_integer(db, "SELECT version FROM meta", NULL, 0, &version, err);
        if (code == -EPROTO && access == DB_READ)
            return err_set(err, -ENOENT, "there is no record in %s; scry record makes one", db->name);
        if (code < 0 || version >= SCHEMA_VERSION || access == DB_READ)
            break;
        code = schema_step(db, (int)version, err);
    }
    if (code < 0)
        return code;
    if (version > SCHEMA_VERSION) {
        db_query(db, "SELECT scry FROM meta", NULL, 0, one_text, scry, NULL);
        return err_set(err, -EPROTO,
                       "the record %s is in format %lld of scry %s; this scry %s knows format %d: use that one",
                       db->name, (long long)version, scry, SCRY_VERSION, SCHEMA_VERSION);
    }
    if (version < SCHEMA_VERSION)
        return err_set(err, -EPROTO,
                       "the record %s is in format %lld, of an older scry; `scry record` brings it up to date",
                       db->name, (long long)version);
    return 0;
}
