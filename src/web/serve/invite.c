/* SPDX-License-Identifier: Apache-2.0 */
#include "web/serve/invite.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <jansson.h>

#include "base/data/cleanup.h"
#include "base/system/dirs.h"
#include "base/system/log.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"
#include "wire/local.h"

enum { ANSWER_MOST = 64 << 10 };

static int write_all(int fd, const char *bytes, size_t len)
{
    for (ssize_t put; len; bytes += put, len -= (size_t)put)
        if ((put = send(fd, bytes, len, MSG_NOSIGNAL)) <= 0)
            return -EIO;
    return 0;
}

/* The body of the answer, NUL-terminated in `answer`; NULL: none came. */
static const char *ask(int fd, const char *body, struct buf *answer)
{
    _cleanup_(buf_done) struct buf request = BUF_INIT;
    struct timeval patience = {.tv_sec = INVITE_SECONDS};
    ssize_t got = 1;
    buf_printf(&request,
               "POST /api/links HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
               "Content-Length: %zu\r\n\r\n%s",
               strlen(body), body);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (request.failed || write_all(fd, request.data, request.len) < 0)
        return NULL;
    while (got > 0 && answer->len < ANSWER_MOST) {
        char *room = buf_reserve(answer, 4096);
        got = room ? recv(fd, room, 4095, 0) : 0;
        answer->len += got > 0 ? (size_t)got : 0;
    }
    buf_putc(answer, '\0');
    const char *end = answer->failed ? NULL : strstr(answer->data, "\r\n\r\n");
    return end ? end + 4 : NULL;
}

static char *question(const struct options *options)
{
    json_t *json =
        json_pack("{s:b, s:I, s:I}", "bearer", options_on(options, "bearer"), "rights",
                  (json_int_t)options_number(options, "rights"), "ns", (json_int_t)options_number(options, "for"));
    char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
    json_decref(json);
    return text;
}

int invite(const struct options *options)
{
    char dir[PATH_MAX - 16], path[PATH_MAX];
    struct err err = {0};
    _cleanup_(buf_done) struct buf answer = BUF_INIT, shown = BUF_INIT;
    _cleanup_(freep) char *body = question(options);
    if (dirs_runtime(dir, sizeof dir, &err) < 0) {
        log_error("%s", err.text);
        return 1;
    }
    snprintf(path, sizeof path, "%s/serve.sock", dir);
    _cleanup_(closep) int fd = local_connect(path, &err);
    if (fd < 0) {
        log_error("no server of yours runs here; start one: scry serve");
        return 1;
    }
    const char *text = body ? ask(fd, body, &answer) : NULL;
    json_t *json = text ? json_loads(text, 0, NULL) : NULL;
    const char *given = json_string_value(json_object_get(json, "link"));
    const char *wrong = json_string_value(json_object_get(json_object_get(json, "error"), "text"));
    if (given)
        puts(given);
    else
        text_show(&shown, wrong ? wrong : "the server does not answer");
    json_decref(json);
    if (!given)
        log_error("%s", shown.data ? shown.data : "out of memory");
    return given && fflush(stdout) == 0 ? 0 : 1;
}
