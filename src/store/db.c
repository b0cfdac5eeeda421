/* SPDX-License-Identifier: Apache-2.0 */
#include "store/db.h"

#include <errno.h>

#include "base/data/buf.h"
#include "base/data/cleanup.h"

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

static void expand(const struct db *db, struct buf *out, const char *sql)
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
    expand(db, &text, sql);
    if (text.failed)
        return err_set(err, -ENOMEM, "out of memory");
    return db->backend->query(db, text.data, parameters, count, fn, ctx, err);
}

int db_script(struct db *db, const char *sql, struct err *err)
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
