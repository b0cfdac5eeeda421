/* SPDX-License-Identifier: Apache-2.0 */
/* The files of the pages: out of the program, or from --pages DIR. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "web/http/files.h"
#include "web/http/route.h"

enum { FILE_MOST = 64 << 20 };

static int compare(const void *path, const void *file)
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

static void answer_from(struct visit *visit, const char *dir, const char *path)
{
    char whole[PATH_MAX];
    int len = snprintf(whole, sizeof whole, "%s/%s", dir, path);
    _cleanup_(closep) int fd = len < PATH_MAX ? open(whole, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    struct blob *blob = fd >= 0 ? read_blob(fd) : NULL;
    if (blob)
        visit_answer(visit, &(struct reply){.status = 200, .type = type_of(path)}, blob);
    else
        visit_answer_error(visit, 404, "unknown", "there is no such file among the pages");
}

void answer_page(struct visit *visit)
{
    const char *path = *visit->path ? visit->path : "index.html", *dir = options_text(visit->server->options, "pages");
    if (!foreign_is_path(span_str(path))) {
        visit_answer_error(visit, 404, "unknown", "there is nothing at this path");
        return;
    }
    if (dir) {
        answer_from(visit, dir, path);
        return;
    }
    const struct web_file *file = bsearch(path, web_files, web_file_count, sizeof *web_files, compare);
    if (!file) {
        visit_answer_error(visit, 404, "unknown", "there is nothing at this path");
        return;
    }
    struct reply reply = {.status = 200, .type = file->type, .etag = file->etag, .cache = "no-cache"};
    if (foreign_has_tag(span_str(visit->tags), file->etag)) {
        reply.status = 304;
        visit_answer_bytes(visit, &reply, NULL, 0);
    } else if (file->gzip && visit->takes_gzip) {
        reply.encoding = "gzip";
        visit_answer_bytes(visit, &reply, file->gzip, file->gzip_size);
    } else {
        visit_answer_bytes(visit, &reply, file->bytes, file->size);
    }
}
