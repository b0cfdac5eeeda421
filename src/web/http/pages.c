/* SPDX-License-Identifier: Apache-2.0 */
#include "base/data/cleanup.h"
#include "base/data/hash.h"
#include "web/http/request.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

/* ---- bytes of answers, which many may share ---- */

enum {
    SHORT = 512,    /* bytes that gzip would not make fewer */
    LONG = 4 << 20, /* it would keep the server from others: 40 ms for these */
};

struct blob *blob_new(struct buf *take)
{
    struct blob *blob = take->failed ? NULL : calloc(1, sizeof *blob);
    if (blob) {
        blob->count = 1;
        blob->size = take->len;
        blob->bytes = buf_take(take);
    }
    if (blob && !blob->bytes) {
        free(blob);
        blob = NULL;
    }
    buf_done(take);
    return blob;
}

struct blob *blob_ref(struct blob *blob)
{
    blob->count++;
    return blob;
}

void blob_unref(struct blob *blob)
{
    if (!blob || --blob->count)
        return;
    free(blob->bytes);
    free(blob->gzip);
    free(blob);
}

void blob_tag(const struct blob *blob, char ret_tag[BLOB_TAG])
{
    snprintf(ret_tag, BLOB_TAG, "\"%016" PRIx64 "\"", sum_add(blob->size, blob->bytes, blob->size));
}

bool blob_zip(struct blob *blob)
{
    enum { WINDOW_GZIP = 15 + 16, MEMORY = 8, QUICK = 3 };
    z_stream zip = {0};
    if (blob->gzip_tried || blob->size < SHORT || blob->size > LONG)
        return blob->gzip;
    blob->gzip_tried = true;
    char *bytes = malloc(blob->size);
    if (!bytes || deflateInit2(&zip, QUICK, Z_DEFLATED, WINDOW_GZIP, MEMORY, Z_DEFAULT_STRATEGY) != Z_OK) {
        free(bytes);
        return false;
    }
    zip.next_in = (unsigned char *)blob->bytes;
    zip.next_out = (unsigned char *)bytes;
    zip.avail_in = zip.avail_out = (unsigned)blob->size;
    bool smaller = deflate(&zip, Z_FINISH) == Z_STREAM_END;
    blob->gzip_size = zip.total_out;
    deflateEnd(&zip);
    blob->gzip = smaller ? bytes : NULL;
    if (!smaller)
        free(bytes);
    return smaller;
}

/* ---- the files of the pages: out of the program, or from --pages DIR ---- */

#ifdef SCRY_WITHOUT_PAGES
static const char page[] =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>scry</title></head><body>\n"
    "<h1>scry was built without its pages</h1>\n"
    "<p>Install node and what src/web/ui needs (tools/install-deps), then build scry again. Programs are answered all "
    "the "
    "same: see <code>api/session</code>.</p>\n"
    "</body></html>\n";

const struct web_file web_files[] = {
    {"index.html", "text/html; charset=utf-8", (const unsigned char *)page, sizeof page - 1, NULL, 0, "\"none\""}};
const size_t web_file_count = 1;
const bool web_pages_missing = true;
#else
const bool web_pages_missing = false;
#endif

enum { FILE_MOST = 64 << 20 };

static int file_compare(const void *path, const void *file)
{
    return strcmp(path, ((const struct web_file *)file)->path);
}

static const char *type_of(const char *path)
{
    static const char *const types[][2] = {{".html", "text/html; charset=utf-8"},
                                           {".js", "text/javascript; charset=utf-8"},
                                           {".css", "text/css; charset=utf-8"},
                                           {".svg", "image/svg+xml"},
                                           {".json", "application/json"},
                                           {".map", "application/json"},
                                           {".png", "image/png"},
                                           {".woff2", "font/woff2"}};
    size_t len = strlen(path);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (len > strlen(types[i][0]) && strcmp(path + len - strlen(types[i][0]), types[i][0]) == 0)
            return types[i][1];
    return "application/octet-stream";
}

static struct blob *read_blob(int fd)
{
    struct buf bytes = BUF_INIT;
    struct stat info;
    ssize_t got = 1;
    if (fstat(fd, &info) < 0 || !S_ISREG(info.st_mode) || info.st_size > FILE_MOST)
        return NULL;
    while (got > 0) {
        char *room = buf_reserve(&bytes, 64 << 10);
        got = room ? read(fd, room, 64 << 10) : 0;
        bytes.len += got > 0 ? (size_t)got : 0;
    }
    return blob_new(&bytes);
}

static void answer_from(struct http_request *request, const char *dir, const char *path)
{
    char whole[PATH_MAX];
    int len = snprintf(whole, sizeof whole, "%s/%s", dir, path);
    _cleanup_(closep) int fd = len < PATH_MAX ? open(whole, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    struct blob *blob = fd >= 0 ? read_blob(fd) : NULL;
    if (blob)
        request_answer(request, &(struct reply){.status = 200, .type = type_of(path)}, blob);
    else
        request_answer_error(request, 404, "unknown", "there is no such file among the pages");
}

void answer_page(struct http_request *request)
{
    const char *path = *request->path ? request->path : "index.html",
               *dir = options_text(request->server->options, "pages");
    if (!foreign_is_path(span_str(path))) {
        request_answer_error(request, 404, "unknown", "there is nothing at this path");
        return;
    }
    if (dir) {
        answer_from(request, dir, path);
        return;
    }
    const struct web_file *file = bsearch(path, web_files, web_file_count, sizeof *web_files, file_compare);
    if (!file) {
        request_answer_error(request, 404, "unknown", "there is nothing at this path");
        return;
    }
    struct reply reply = {.status = 200, .type = file->type, .etag = file->etag, .cache = "no-cache"};
    if (foreign_has_tag(span_str(request->tags), file->etag)) {
        reply.status = 304;
        request_answer_bytes(request, &reply, NULL, 0);
    } else if (file->gzip && request->takes_gzip) {
        reply.encoding = "gzip";
        request_answer_bytes(request, &reply, file->gzip, file->gzip_size);
    } else {
        request_answer_bytes(request, &reply, file->bytes, file->size);
    }
}
