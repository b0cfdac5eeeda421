/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a stranger publishes, on its way into the record: lines of records, after a line that begins with "S", "B" or "F"
 * state, beat and a file. Whatever it is, the next flush succeeds, and each stored record is one that can be read back.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "store/store.h"

static struct store *store;
static char place[] = "/dev/shm/scry-fuzz-XXXXXX";

static void remove_place(void)
{
    char command[64];
    store_close(store);
    snprintf(command, sizeof command, "rm -rf %s", place);
    if (system(command) != 0)
        perror(place);
}

static void begin(void)
{
    struct err err = {0};
    fuzz_expect(mkdtemp(place) && store_open(&store, place, DB_WRITE, &err) == 0);
    atexit(remove_place);
}

static int read_back(void *ctx, const struct db_value *values, int count)
{
    json_t *record = json_loadb(values[2].text.ptr, values[2].text.len, 0, NULL);
    fuzz_expect(json_is_object(record) && json_integer_value(json_object_get(record, "seq")) == values[0].integer &&
                !json_object_get(record, "job"));
    json_decref(record);
    ++*(int64_t *)ctx;
    return 0;
}

static void take_line(struct stored_job *job, struct span line)
{
    char kind = line.len ? line.ptr[0] : 0;
    struct span rest = span_of(line.ptr + 1, line.len ? line.len - 1 : 0);
    if (kind == 'S' || kind == 'B') {
        json_t *json = json_loadb(rest.ptr, rest.len, 0, NULL);
        if (json_is_object(json) && kind == 'S')
            store_put_state(store, job, json, 1000);
        else if (json_is_object(json))
            store_put_beat(store, job, json, 1000);
        json_decref(json);
    } else if (kind == 'F') {
        store_put_file(store, job, "stats/x", (int64_t)rest.len, rest);
    } else {
        store_put_record(store, job, "log", line);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static unsigned number;
    char id[32];
    struct err err = {0};
    if (!store)
        begin();
    snprintf(id, sizeof id, "job%u", number++);
    struct stored_job *job = store_job(store, "eve", id);
    for (size_t at = 0; at < size;) {
        const uint8_t *end = memchr(data + at, '\n', size - at);
        size_t len = end ? (size_t)(end - data) - at : size - at;
        take_line(job, span_of((const char *)data + at, len));
        at += len + 1;
    }
    fuzz_expect(store_flush(store, &err) == 0);
    int64_t count = 0;
    if (job->key) {
        fuzz_expect(store_read(store, job->key, read_back, &count, &err) == 0 && count == job->row.records);
        fuzz_expect(store_remove(store, job->key, &err) == 0);
    }
    return 0;
}
