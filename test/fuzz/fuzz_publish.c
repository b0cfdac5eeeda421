/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A spool of any bytes on its way to a broker, and questions of any bytes. Each batch is small enough, of one stream, and
 * has whole lines: objects with all that a record for readers elsewhere has. After a loss of the connection the same records
 * come again. The first line of the input is a question.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "fuzz.h"
#include "publish/feed.h"

enum { RECORDS_MOST = 4096 };
static char root[] = "/tmp/scry-fuzz-publish-XXXXXX", spool[64];

static void forget(void)
{
    unlink(spool);
    *strrchr(spool, '/') = 0;
    rmdir(spool);
    rmdir(root);
}

static void check_lines(const char *lines, size_t len, const char *stream)
{
    for (const char *at = lines, *end = lines + len; at < end;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        fuzz_expect(stop);
        json_t *record = json_loadb(at, (size_t)(stop - at), 0, NULL);
        fuzz_expect(json_is_object(record) && json_object_get(record, "job") && json_object_get(record, "node") &&
                    json_is_integer(json_object_get(record, "seq")) && json_object_get(record, "stream"));
        fuzz_expect(!strchr(stream, '/') && *stream);
        json_decref(record);
        at = stop + 1;
    }
}

/* How many batches there are from here on. */
static size_t read_all(struct follow *follow)
{
    size_t count = 0;
    for (const struct batch *batch; (batch = follow_next(follow, 0, true)); count++) {
        fuzz_expect(batch->first_seq <= follow->next_seq);
        check_lines(batch->lines.data, batch->lines.len, batch->name);
        follow_sent(follow);
    }
    return count;
}

static void answer(const struct follow *follow, const struct ask *ask)
{
    struct asks asks;
    struct files files = {.dir = root};
    uint64_t due;
    asks_init(&asks, root);
    asks_add(&asks, ask);
    for (unsigned messages = 0; asks_next(&asks, follow, &files, 0, &due); messages++) {
        fuzz_expect(messages < RECORDS_MOST && asks.message.len);
        if (strcmp(asks.name, "records") == 0)
            check_lines(asks.message.data, asks.message.len, "records");
        asks_sent(&asks);
    }
    asks_clear(&asks);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!spool[0]) {
        fuzz_expect(mkdtemp(root));
        snprintf(spool, sizeof spool, "%s/spool", root);
        fuzz_expect(mkdir(spool, 0700) == 0);
        snprintf(spool, sizeof spool, "%s/spool/records.jsonl", root);
        atexit(forget);
    }
    const uint8_t *line = size ? memchr(data, '\n', size) : NULL;
    size_t first = line ? (size_t)(line - data) : 0, from = line ? first + 1 : 0;
    struct ask ask = {.reader = "r", .to = UINT64_MAX};
    if (ask_parse(span_of((const char *)data, first), &ask))
        fuzz_expect(ask.reader[0] && !strchr(ask.reader, '/'));
    int fd = open(spool, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    fuzz_expect(fd >= 0 && (size == from || write(fd, data + from, size - from) == (ssize_t)(size - from)));
    close(fd);
    struct follow follow = {0};
    if (follow_open(&follow, root, NULL) == 0) {
        size_t count = read_all(&follow);
        follow_rewind(&follow, 0);
        fuzz_expect(read_all(&follow) == count);
        answer(&follow, &ask);
    }
    follow_done(&follow);
    return 0;
}
