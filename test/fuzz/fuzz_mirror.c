/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a broker may deliver: lines of which each is a record, "!NUMBER" (records up to there are lost), "/NAME" (a file),
 * "=" (another process goes on), or a
 * message with a part of a file. Whatever comes, the spool has whole records in ascending order, of one job, and nothing
 * is written outside of the directory.
 */
#include <dirent.h>
#include <string.h>
#include <unistd.h>

#include "base/data/buf.h"
#include "fuzz.h"
#include "jobdir/record/mirror.h"
#include "broker/topics.h"
#include "jobdir/record/spool.h"

static char root[] = "/tmp/scry-fuzz-mirror-XXXXXX";
static char path[64];

static void forget(void)
{
    static const char names[] = "rm -rf /tmp/scry-fuzz-mirror-"; /* what follows was made by mkdtemp */
    char command[128];
    snprintf(command, sizeof command, "%s%s", names, root + strlen("/tmp/scry-fuzz-mirror-"));
    fuzz_expect(system(command) == 0);
}

static struct mirror *begin(void)
{
    struct mirror *mirror = NULL;
    fuzz_expect(mirror_open(&mirror, path, NULL) == 0);
    return mirror;
}

static int put_file(void *ctx, const char *name, int64_t version, struct span bytes)
{
    fuzz_expect(version >= 0);
    return mirror_file(ctx, name, bytes);
}

static void do_line(struct mirror **mirror, struct parts *parts, struct span line)
{
    char name[512];
    uint64_t next = mirror_next(*mirror);
    if (line.len && line.ptr[0] == '=') {
        mirror_close(*mirror);
        *mirror = begin();
    } else if (line.len && line.ptr[0] == '!') {
        snprintf(name, sizeof name, "%.*s", SPAN_ARG(line));
        fuzz_expect(mirror_skip(*mirror, strtoull(name + 1, NULL, 10), "lost") == 0);
    } else if (line.len && line.ptr[0] == '/' && line.len < sizeof name) {
        snprintf(name, sizeof name, "%.*s", SPAN_ARG(line));
        mirror_file(*mirror, name + 1, line);
    } else if (memmem(line.ptr, line.len, "\"parts\"", 7)) {
        parts_take(parts, line, put_file, *mirror);
    } else {
        mirror_record(*mirror, line);
    }
    fuzz_expect(mirror_next(*mirror) >= next && mirror_end(*mirror) >= mirror_next(*mirror));
    fuzz_expect(mirror_held(*mirror) > mirror_next(*mirror));
}

static void check_spool(uint64_t next)
{
    struct spool_reader reader;
    json_int_t last = -1;
    int code = spool_reader_open(&reader, path, NULL);
    fuzz_expect(code == 0 || code == -71); /* -EPROTO: a later version */
    for (json_t *record; code == 0 && (record = spool_reader_next(&reader)); json_decref(record)) {
        json_int_t seq = json_integer_value(json_object_get(record, "seq"));
        fuzz_expect(seq > last);
        last = seq;
    }
    fuzz_expect(code != 0 || (!reader.unread && !spool_reader_rest(&reader)));
    fuzz_expect(code != 0 || (uint64_t)(last + 1) == next);
    spool_reader_close(&reader);
}

static void check_outside(void)
{
    DIR *dir = opendir(root);
    int entries = 0;
    while (dir && readdir(dir))
        entries++;
    closedir(dir);
    fuzz_expect(entries == 3); /* ".", "..", and it */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!path[0]) {
        fuzz_expect(mkdtemp(root) != NULL);
        snprintf(path, sizeof path, "%s/job", root);
        setenv("SCRY_CACHE_DIR", root, 1);
        atexit(forget);
    }
    struct mirror *mirror = begin();
    struct parts parts = {0};
    for (size_t at = 0; at < size;) {
        const uint8_t *end = memchr(data + at, '\n', size - at);
        size_t len = (end ? (size_t)(end - data) : size) - at;
        do_line(&mirror, &parts, span_of((const char *)data + at, len));
        at += len + 1;
    }
    uint64_t next = mirror_next(mirror);
    mirror_close(mirror);
    parts_done(&parts);
    check_spool(next);
    check_outside();
    char file[128];
    snprintf(file, sizeof file, "%s/spool/records.jsonl", path);
    unlink(file);
    return 0;
}
