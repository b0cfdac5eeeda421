/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/topics.h"

#include "base/data/cleanup.h"
#include "base/data/hash.h"
#include "base/system/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <uthash.h>

enum { FILES_MOST = 16384, PATH_BYTES = 1024, PARTS_MOST = 256, PART_BYTES = 512 << 10 };
static const uint64_t held_most = UINT64_C(32) << 20, shared_most = UINT64_C(128) << 20;

struct parts_file {
    char *path;
    json_int_t version;
    bool whole; /* of this version: it is written */
    size_t count, have;
    struct buf *parts; /* NULL data: not there yet */
    UT_hash_handle hh;
};

static void parts_hold(struct parts *parts, uint64_t bytes)
{
    parts->held_bytes += bytes;
    if (parts->shared_bytes)
        *parts->shared_bytes += bytes;
}

static bool is_full(const struct parts *parts)
{
    return parts->held_bytes > held_most || (parts->shared_bytes && *parts->shared_bytes > shared_most);
}

static void parts_forget(struct parts *parts, struct parts_file *file)
{
    uint64_t held = file->count * sizeof *file->parts;
    for (size_t i = 0; i < file->count; i++) {
        held += file->parts[i].len;
        buf_done(&file->parts[i]);
    }
    parts_hold(parts, -held);
    free(file->parts);
    file->parts = NULL;
    file->count = file->have = 0;
}

void parts_done(struct parts *parts)
{
    HASH_FREE_ALL(parts->files, parts_forget(parts, each), free(each->path));
}

static struct parts_file *file_of(struct parts *parts, const char *path)
{
    struct parts_file *file;
    HASH_FIND_STR(parts->files, path, file);
    if (file || HASH_COUNT(parts->files) >= FILES_MOST)
        return file;
    file = calloc(1, sizeof *file);
    if (file && !(file->path = strdup(path))) {
        free(file);
        return NULL;
    }
    if (file) {
        file->version = -1;
        HASH_ADD_KEYPTR(hh, parts->files, file->path, strlen(file->path), file);
    }
    return file;
}

static int digit_of(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

static bool put_base64(struct buf *out, const char *text)
{
    unsigned bits = 0, have = 0;
    for (; *text && *text != '='; text++) {
        int digit = digit_of(*text);
        if (digit < 0)
            return false;
        bits = bits << 6 | (unsigned)digit;
        have += 6;
        if (have >= 8)
            buf_putc(out, (char)(bits >> (have -= 8) & 0xff));
    }
    return strspn(text, "=") == strlen(text);
}

static int hand_on(struct parts *parts, struct parts_file *file, json_int_t bytes, parts_whole_fn *whole, void *ctx)
{
    _cleanup_(buf_done) struct buf all = BUF_INIT;
    for (size_t i = 0; i < file->count; i++)
        buf_append(&all, file->parts[i].data, file->parts[i].len);
    parts_forget(parts, file);
    if (all.failed)
        return -ENOMEM;
    if (bytes != (json_int_t)all.len)
        return -EBADMSG;
    int code = whole(ctx, file->path, file->version, span_of(all.data ? all.data : "", all.len));
    file->whole = code == 0;
    return code;
}

static int parts_take_one(struct parts *parts, const json_t *json, parts_whole_fn *whole, void *ctx)
{
    const char *path = json_string_value(json_object_get(json, "path"));
    const char *text = json_string_value(json_object_get(json, "text"));
    const char *base64 = json_string_value(json_object_get(json, "base64"));
    json_int_t part = json_integer_value(json_object_get(json, "part"));
    json_int_t count = json_integer_value(json_object_get(json, "parts"));
    json_int_t version = json_integer_value(json_object_get(json, "version"));
    if (!path || (!text && !base64) || part < 0 || count < 1 || part >= count || version < 0)
        return -EBADMSG;
    if (strcmp(path, "job.json") == 0) /* the state has it */
        return 0;
    if (count > PARTS_MOST || strlen(path) > PATH_BYTES || (count > 1 && is_full(parts)))
        return -EFBIG;
    struct parts_file *file = file_of(parts, path);
    if (!file)
        return -ENOMEM;
    if (version < file->version || (version == file->version && (file->whole || (size_t)count != file->count)))
        return 0;
    if (version > file->version) {
        parts_forget(parts, file);
        file->parts = calloc((size_t)count, sizeof *file->parts);
        if (!file->parts)
            return -ENOMEM;
        file->count = (size_t)count;
        parts_hold(parts, file->count * sizeof *file->parts);
        file->version = version;
        file->whole = false;
    }
    struct buf *to = &file->parts[part];
    if (to->data)
        return 0;
    buf_append(to, "", 0); /* also an empty part is there then */
    if (text)
        buf_append(to, text, json_string_length(json_object_get(json, "text")));
    else if (!put_base64(to, base64)) {
        buf_done(to);
        return -EBADMSG;
    }
    if (to->failed) {
        buf_done(to);
        return -ENOMEM;
    }
    parts_hold(parts, to->len);
    file->have++;
    return file->have == file->count
               ? hand_on(parts, file, json_integer_value(json_object_get(json, "bytes")), whole, ctx)
               : 0;
}

int parts_take(struct parts *parts, struct span payload, parts_whole_fn *whole, void *ctx)
{
    json_t *json = payload.len <= 2 * PART_BYTES ? json_loadb(payload.ptr, payload.len, JSON_ALLOW_NUL, NULL) : NULL;
    int code = json_is_object(json) ? parts_take_one(parts, json, whole, ctx) : -EBADMSG;
    json_decref(json);
    return code;
}

static const char prefix[] = "scry/v1/";

/* Not isalnum(), which depends on the locale. */
static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
}

void topic_put_level(struct buf *out, const char *text)
{
    if (!*text)
        buf_putc(out, '_');
    for (; *text; text++)
        if (is_plain(*text))
            buf_putc(out, *text);
        else
            buf_printf(out, "_%02x", (unsigned char)*text);
}

static void put_or_all(struct buf *out, const char *text)
{
    if (!text || strcmp(text, "+") == 0)
        buf_putc(out, '+');
    else
        topic_put_level(out, text);
}

void topic_put(struct buf *out, const char *owner, const char *job, const char *name, const char *rest)
{
    buf_puts(out, prefix);
    put_or_all(out, owner);
    buf_putc(out, '/');
    put_or_all(out, job);
    buf_putc(out, '/');
    buf_puts(out, name);
    if (rest) {
        buf_putc(out, '/');
        put_or_all(out, rest);
    }
}

void topic_put_again(struct buf *out, const char *owner, const char *job, const char *reader, const char *name)
{
    topic_put(out, owner, job, "again", reader);
    buf_putc(out, '/');
    buf_puts(out, name);
}

void topic_put_revoked(struct buf *out, const char *owner)
{
    topic_put(out, owner, "keys", "revoked", NULL);
}

const char *topic_signed(const struct topic *topic)
{
    switch (topic->kind) {
    case TOPIC_STREAM:
        return "records";
    case TOPIC_STATE:
        return "state";
    case TOPIC_BEAT:
        return "beat";
    case TOPIC_FILE:
        return "file";
    case TOPIC_AGAIN: /* an answer has the same messages, and its end */
        return strcmp(topic->name, "records") == 0 ? "records"
               : strcmp(topic->name, "file") == 0  ? "file"
               : strcmp(topic->name, "end") == 0   ? "end"
                                                   : NULL;
    default:
        return NULL;
    }
}

void topic_name_question(const char *self, char *ret_reader, size_t size)
{
    uint64_t chance;
    if (getrandom(&chance, sizeof chance, 0) != sizeof chance)
        chance = clock_wall_ns();
    snprintf(ret_reader, size, "%sx%016llx", self, (unsigned long long)chance);
}

bool topic_is_end_of(const json_t *end, const char *reader, uint64_t from, bool is_signed)
{
    const json_t *said = json_object_get(end, "reader"), *first = json_object_get(end, "from");
    if (!is_signed && !said)
        return json_is_object(end);
    return json_is_string(said) && strcmp(json_string_value(said), reader) == 0 && json_is_integer(first) &&
           json_integer_value(first) == (json_int_t)from;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Takes the level at *text and goes behind it. Only what topic_put_level writes: so a name has one topic. */
static bool take_level(const char **text, char *ret_level, size_t size)
{
    const char *from = *text;
    size_t len = 0;
    while (*from && *from != '/') {
        char c = *from++;
        if (c == '_') {
            int high = hex_digit(from[0]), low = high < 0 ? -1 : hex_digit(from[1]);
            if (low < 0)
                return false;
            c = (char)(high << 4 | low);
            if (c == 0 || is_plain(c))
                return false;
            from += 2;
        } else if (!is_plain(c)) {
            return false;
        }
        if (len + 1 >= size)
            return false;
        ret_level[len++] = c;
    }
    ret_level[len] = 0;
    *text = from;
    return len > 0;
}

static bool take_next(const char **text, char *ret_level, size_t size)
{
    return *(*text)++ == '/' && take_level(text, ret_level, size);
}

/* NAME: `levels` are how many follow. Any other name alone is a stream's, of this or a later version. */
static const struct {
    const char *name;
    enum topic_kind kind;
    int levels;
} names[] = {
    {"state", TOPIC_STATE, 0}, {"beat", TOPIC_BEAT, 0},     {"file", TOPIC_FILE, 0},       {"ask", TOPIC_ASK, 0},
    {"again", TOPIC_AGAIN, 2}, {"stored", TOPIC_STORED, 1}, {"request", TOPIC_REQUEST, 0}, {"reply", TOPIC_REPLY, 1},
};

static bool parse_name(const char *text, struct topic *topic)
{
    char name[sizeof topic->name];
    if (!take_level(&text, name, sizeof name))
        return false;
    int levels = 0;
    topic->kind = TOPIC_STREAM;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i].name) == 0) {
            topic->kind = names[i].kind;
            levels = names[i].levels;
        }
    if (levels > 0 && !take_next(&text, topic->rest, sizeof topic->rest))
        return false;
    if (levels > 1 && !take_next(&text, topic->name, sizeof topic->name))
        return false;
    if (topic->kind == TOPIC_STREAM)
        memcpy(topic->name, name, sizeof name);
    if (*text == 0)
        return true;
    /* more levels than this version knows of */
    topic->kind = TOPIC_UNKNOWN;
    topic->name[0] = topic->rest[0] = 0;
    return *text == '/';
}

bool topic_parse(const char *text, struct topic *ret_topic)
{
    struct topic topic = {0};
    if (strncmp(text, prefix, sizeof prefix - 1) != 0)
        return false;
    text += sizeof prefix - 1;
    if (!take_level(&text, topic.owner, sizeof topic.owner) || !take_next(&text, topic.job, sizeof topic.job) ||
        *text++ != '/')
        return false;
    if (strcmp(topic.job, "keys") == 0) {
        topic.job[0] = 0;
        topic.kind = strcmp(text, "revoked") == 0 ? TOPIC_REVOKED : TOPIC_UNKNOWN;
    } else if (!parse_name(text, &topic)) {
        return false;
    }
    *ret_topic = topic;
    return true;
}

bool lines_next(struct span *lines, struct span *ret_line)
{
    while (lines->len) {
        const char *end = memchr(lines->ptr, '\n', lines->len);
        struct span line = span_of(lines->ptr, end ? (size_t)(end - lines->ptr) : lines->len);
        size_t used = line.len + (end ? 1 : 0);
        *lines = span_of(lines->ptr + used, lines->len - used);
        *ret_line = line;
        if (line.len)
            return true;
    }
    return false;
}
