/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <uthash.h>

#include "base/data/cleanup.h"
#include "base/data/hash.h"

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

static void hold(struct parts *parts, uint64_t bytes)
{
    parts->held_bytes += bytes;
    if (parts->shared_bytes)
        *parts->shared_bytes += bytes;
}

static bool is_full(const struct parts *parts)
{
    return parts->held_bytes > held_most || (parts->shared_bytes && *parts->shared_bytes > shared_most);
}

static void forget(struct parts *parts, struct parts_file *file)
{
    uint64_t held = file->count * sizeof *file->parts;
    for (size_t i = 0; i < file->count; i++) {
        held += file->parts[i].len;
        buf_done(&file->parts[i]);
    }
    hold(parts, -held);
    free(file->parts);
    file->parts = NULL;
    file->count = file->have = 0;
}

void parts_done(struct parts *parts)
{
    HASH_FREE_ALL(parts->files, forget(parts, each), free(each->path));
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
    forget(parts, file);
    if (all.failed)
        return -ENOMEM;
    if (bytes != (json_int_t)all.len)
        return -EBADMSG;
    int code = whole(ctx, file->path, file->version, span_of(all.data ? all.data : "", all.len));
    file->whole = code == 0;
    return code;
}

static int take(struct parts *parts, const json_t *json, parts_whole_fn *whole, void *ctx)
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
        forget(parts, file);
        file->parts = calloc((size_t)count, sizeof *file->parts);
        if (!file->parts)
            return -ENOMEM;
        file->count = (size_t)count;
        hold(parts, file->count * sizeof *file->parts);
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
    hold(parts, to->len);
    file->have++;
    return file->have == file->count
               ? hand_on(parts, file, json_integer_value(json_object_get(json, "bytes")), whole, ctx)
               : 0;
}

int parts_take(struct parts *parts, struct span payload, parts_whole_fn *whole, void *ctx)
{
    json_t *json = payload.len <= 2 * PART_BYTES ? json_loadb(payload.ptr, payload.len, JSON_ALLOW_NUL, NULL) : NULL;
    int code = json_is_object(json) ? take(parts, json, whole, ctx) : -EBADMSG;
    json_decref(json);
    return code;
}
