/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records a second into the record (SQLite), from lines as they are published to rows on the disk, in flushes of as many
 * as come in 200 ms at 20 000 a second. The peer inserts the same texts raw: the same table and index, transactions of
 * the same size, and nothing is looked at.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sqlite3.h>

#include "base/data/buf.h"
#include "base/system/clock.h"
#include "bench.h"
#include "store/store.h"

enum { RECORDS = 40000, AT_ONCE = 4000, PAIRS = 20, LINE = 512 };

static char (*lines)[LINE];

static void make_lines(void)
{
    lines = calloc(RECORDS, sizeof *lines);
    for (int i = 0; lines && i < RECORDS; i++)
        snprintf(lines[i], LINE,
                 "{\"job\":\"20260101T000000-node-4711-abcdef\",\"node\":\"node\",\"stream\":\"log\",\"seq\":%d,"
                 "\"t\":%.6f,\"type\":\"log\",\"file\":\"/home/user/job/solver.log\",\"pattern\":\"residual\","
                 "\"level\":\"info\",\"text\":\"step %d of the solver: residual 1.25e-07\",\"line\":%d,\"folded\":0}",
                 i, i / 20000.0, i, i + 1);
}

static double ours(const char *place)
{
    struct store *store;
    struct err err = {0};
    if (store_open(&store, place, DB_WRITE, &err) < 0)
        bench_fail("bench_store", err.text);
    struct stored_job *job = store_job(store, "user", "20260101T000000-node-4711-abcdef");
    uint64_t start_ns = clock_now_ns();
    for (int i = 0; i < RECORDS; i++) {
        if (store_put_record(store, job, "log", span_str(lines[i])) < 0)
            bench_fail("bench_store", "a record was refused");
        if ((i + 1) % AT_ONCE == 0 && store_flush(store, &err) < 0)
            bench_fail("bench_store", err.text);
    }
    double seconds = (double)(clock_now_ns() - start_ns) / NS_PER_SECOND;
    if (job->row.last_seq != RECORDS - 1)
        bench_fail("bench_store", "records are missing");
    store_close(store);
    return RECORDS / seconds;
}

static void must(sqlite3 *db, const char *sql)
{
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        bench_fail("bench_store", sqlite3_errmsg(db));
}

static double raw(const char *place)
{
    char path[300];
    sqlite3 *db;
    sqlite3_stmt *put;
    snprintf(path, sizeof path, "%s/raw.db", place);
    if (sqlite3_open(path, &db) != SQLITE_OK)
        bench_fail("bench_store", sqlite3_errmsg(db));
    must(db, "PRAGMA journal_mode = TRUNCATE");
    must(db, "CREATE TABLE records (job INTEGER NOT NULL, seq INTEGER NOT NULL, t REAL NOT NULL, stream TEXT NOT NULL,"
             " type TEXT NOT NULL, record TEXT NOT NULL, PRIMARY KEY (job, seq))");
    sqlite3_prepare_v2(db, "INSERT INTO records VALUES (1, ?, ?, 'log', 'log', ?)", -1, &put, NULL);
    uint64_t start_ns = clock_now_ns();
    for (int i = 0; i < RECORDS; i++) {
        if (i % AT_ONCE == 0)
            must(db, "BEGIN IMMEDIATE");
        sqlite3_bind_int(put, 1, i);
        sqlite3_bind_double(put, 2, i / 20000.0);
        sqlite3_bind_text(put, 3, lines[i], -1, SQLITE_STATIC);
        sqlite3_step(put);
        sqlite3_reset(put);
        if ((i + 1) % AT_ONCE == 0)
            must(db, "COMMIT");
    }
    double seconds = (double)(clock_now_ns() - start_ns) / NS_PER_SECOND;
    sqlite3_finalize(put);
    sqlite3_close(db);
    return RECORDS / seconds;
}

int main(void)
{
    double stored[PAIRS], inserted[PAIRS], ratio[PAIRS];
    make_lines();
    for (int i = 0; i < PAIRS; i++) {
        char place[] = "bench-store-XXXXXX", command[64];
        if (!lines || !mkdtemp(place)) /* here, and not in memory */
            bench_fail("bench_store", "cannot make a directory here");
        stored[i] = ours(place);
        inserted[i] = raw(place);
        ratio[i] = inserted[i] / stored[i];
        snprintf(command, sizeof command, "rm -r %s", place);
        if (system(command) != 0)
            bench_fail("bench_store", "cannot remove its directory");
    }
    bench_report("stored records", stored, PAIRS, "a second");
    bench_report("sqlite3, raw inserts", inserted, PAIRS, "a second");
    bench_report("raw / stored", ratio, PAIRS, "");
    free(lines);
    return 0;
}
