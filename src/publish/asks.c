/* SPDX-License-Identifier: Apache-2.0 */
#include "publish/asks.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"

static bool is_reader(const char *text)
{
    size_t len = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789");
    return len > 0 && len < ASK_READER_SIZE && !text[len];
}

bool ask_parse(struct span payload, struct ask *ret_ask)
{
    json_t *json = json_loadb(payload.ptr, payload.len, JSON_REJECT_DUPLICATES, NULL);
    const char *reader = json_string_value(json_object_get(json, "reader"));
    json_t *from = json_object_get(json, "from"), *to = json_object_get(json, "to");
    bool good = reader && is_reader(reader) && json_is_integer(from) && json_integer_value(from) >= 0 &&
                (!to || json_is_integer(to));
    if (good) {
        *ret_ask = (struct ask){.from = (uint64_t)json_integer_value(from),
                                .to = to && json_integer_value(to) >= 0 ? (uint64_t)json_integer_value(to) : UINT64_MAX,
                                .files = json_is_true(json_object_get(json, "files"))};
        snprintf(ret_ask->reader, sizeof ret_ask->reader, "%s", reader);
    }
    json_decref(json);
    return good;
}

void asks_init(struct asks *asks, const char *dir)
{
    *asks = (struct asks){.dir = dir, .reader.fd = -1, .credit = ASK_BYTES_A_SECOND};
}

static void end_first(struct asks *asks)
{
    if (asks->begun)
        spool_reader_close(&asks->reader);
    file_load_done(&asks->load);
    asks->begun = false;
    asks->file = asks->bytes = 0;
    asks->name = NULL;
}

void asks_clear(struct asks *asks)
{
    end_first(asks);
    asks->count = 0;
    buf_done(&asks->message);
}

void asks_add(struct asks *asks, const struct ask *ask)
{
    if (asks->count < ASKS_MOST)
        asks->list[asks->count++] = *ask;
    else
        asks->dropped++;
}

/* Reads a message of records into an empty buffer. */
static void read_records(struct asks *asks, const struct follow *follow)
{
    const struct ask *ask = &asks->list[0];
    uint64_t to = ask->to < follow->next_seq ? ask->to : follow->next_seq;
    while (asks->next < to && asks->bytes < ASK_BYTES && asks->message.len < ASK_MESSAGE_BYTES / 2) {
        json_t *record = spool_reader_next(&asks->reader), *number = json_object_get(record, "seq");
        if (!record) {
            asks->next = to; /* what is lacking is not in the spool */
            return;
        }
        uint64_t seq = json_is_integer(number) ? (uint64_t)json_integer_value(number) : 0;
        char name[32];
        bool figures;
        if (json_is_integer(number) && seq >= asks->next && seq < to) {
            size_t before = asks->message.len;
            follow_line(follow->head, &asks->reader, record, &asks->message, name, &figures);
            asks->bytes += asks->message.len - before;
            asks->next = seq + 1;
            asks->last = seq;
        } else if (seq >= to && json_is_integer(number)) {
            asks->next = to;
        }
        json_decref(record);
        if (asks->message.len > ASK_MESSAGE_BYTES / 2)
            return;
    }
}

static void begin(struct asks *asks, const struct follow *follow)
{
    const struct ask *ask = &asks->list[0];
    asks->begun = true;
    asks->next = ask->from;
    if (!follow->open || spool_reader_open(&asks->reader, asks->dir, NULL) < 0 ||
        spool_reader_seek(&asks->reader, follow_find(follow, ask->from)) < 0)
        asks->reader.fd = -1; /* nothing is read: the answer says so */
}

/* The next part of a file. */
static void read_file(struct asks *asks, const struct files *files)
{
    if (asks->load.parts && asks->load.part == asks->load.parts)
        file_load_done(&asks->load);
    while (!asks->load.parts && asks->file < files->count)
        if (!files_load(files, asks->file++, &asks->load))
            continue;
    if (asks->load.parts) {
        file_load_message(files, &asks->load, &asks->message);
        asks->load.part++;
    }
}

bool asks_next(struct asks *asks, const struct follow *follow, const struct files *files, uint64_t now_ns,
               uint64_t *ret_due_ns)
{
    *ret_due_ns = 0;
    if (asks->name)
        return true;
    if (!asks->count)
        return false;
    asks->credit += (double)(now_ns - asks->last_ns) / NS_PER_SECOND * ASK_BYTES_A_SECOND;
    asks->credit = asks->credit > ASK_BYTES_A_SECOND ? ASK_BYTES_A_SECOND : asks->credit;
    asks->last_ns = now_ns;
    if (asks->credit < 0) {
        *ret_due_ns = now_ns + (uint64_t)(-asks->credit / ASK_BYTES_A_SECOND * NS_PER_SECOND) + 1000000;
        return false;
    }
    const struct ask *ask = &asks->list[0];
    buf_clear(&asks->message);
    if (!asks->begun)
        begin(asks, follow);
    read_records(asks, follow);
    asks->name = "records";
    if (!asks->message.len && ask->files) {
        read_file(asks, files);
        asks->name = "file";
    }
    if (!asks->message.len) {
        buf_printf(&asks->message, "{\"reader\":\"%s\",\"from\":%llu,\"to\":%llu,\"last_seq\":%lld}", ask->reader,
                   (unsigned long long)ask->from, (unsigned long long)asks->next, (long long)follow->next_seq - 1);
        asks->name = "end";
    }
    return true;
}

void asks_sent(struct asks *asks)
{
    bool end = asks->name && strcmp(asks->name, "end") == 0;
    asks->credit -= (double)asks->message.len + 1024; /* also small ones cost something */
    asks->name = NULL;
    if (!end)
        return;
    end_first(asks);
    memmove(asks->list, asks->list + 1, --asks->count * sizeof *asks->list);
}
