/* SPDX-License-Identifier: Apache-2.0 */
#include "link/node_copy.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/system/clock.h"
#include "link/node_script.h"
#include "shm/waits.h"

enum { SAID_BYTES = 64 << 10, DONE = 1 };

/* ---- talking with a script ---- */

static int send_some(struct transport *transport, struct buf *answer, struct err *err)
{
    while (answer->len) {
        ssize_t put =
            transport_write(transport, answer->data, answer->len < SAID_BYTES ? answer->len : SAID_BYTES, err);
        if (put == -EAGAIN)
            return 0;
        if (put < 0)
            return (int)put;
        buf_drop(answer, (size_t)put);
    }
    return 0;
}

static int take_lines(struct buf *said, const char *beginning, node_line_fn *line, void *ctx, struct buf *answer,
                      struct err *err)
{
    int code = 0;
    for (char *end; code == 0 && said->len && (end = memchr(said->data, '\n', said->len));) {
        *end = 0;
        if (end > said->data && end[-1] == '\r')
            end[-1] = 0;
        if (strncmp(said->data, beginning, strlen(beginning)) == 0)
            code = line(ctx, said->data + strlen(beginning), answer, err);
        buf_drop(said, (size_t)(end - said->data) + 1);
    }
    if (code == 0 && said->len >= SAID_BYTES) /* noise of a shell */
        buf_drop(said, said->len / 2);
    return answer->failed ? err_set(err, -ENOMEM, "out of memory") : code;
}

/* 1: something was said; 0: nothing, or it was sent; -ECONNRESET: it has ended, and *err says why. */
static int receive(struct transport *transport, struct buf *said, struct err *err)
{
    char *room = buf_reserve(said, 4096);
    if (!room)
        return err_set(err, -ENOMEM, "out of memory");
    ssize_t got = transport_read(transport, room, 4096, err);
    if (got > 0) {
        said->len += (size_t)got;
        return 1;
    }
    if (got == -EAGAIN)
        return 0;
    err_set(err, -ECONNRESET, "%s: ssh ended too early", transport->host);
    transport_why(transport, err);
    return -ECONNRESET;
}

int node_talk(const struct link_way *way, const char *script, const char *beginning, unsigned seconds,
              node_line_fn *line, void *ctx, struct err *err)
{
    _cleanup_(transport_freep) struct transport *transport = NULL;
    _cleanup_(buf_done) struct buf said = BUF_INIT, answer = BUF_INIT;
    int code = link_over_ssh(way, script, &transport, err);
    uint64_t until = clock_now_ns() + seconds * (uint64_t)NS_PER_SECOND;
    while (code == 0) {
        uint64_t now = clock_now_ns();
        size_t unsent = answer.len;
        struct pollfd ready = {.fd = transport->fd, .events = (short)(POLLIN | (unsent ? POLLOUT : 0))};
        int count = now < until ? poll(&ready, 1, (int)((until - now) / 1000000) + 1) : 0;
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return err_set(err, -ETIMEDOUT, "%s: it said nothing for %u s", way->shown, seconds);
        if (ready.revents & POLLOUT)
            (void)send_some(transport, &answer, NULL); /* why it has ended is said by what is read */
        int got = ready.revents & ~POLLOUT ? receive(transport, &said, err) : 0;
        code = take_lines(&said, beginning, line, ctx, &answer, err);
        if (code == 0 && got < 0)
            code = got;
        if (got > 0 || answer.len < unsent)
            until = clock_now_ns() + seconds * (uint64_t)NS_PER_SECOND;
    }
    return code;
}

/* ---- the copy ---- */

struct copying {
    const struct parcel *parcel;
    const char *host;
};

static int on_fits(const struct copying *copying, struct buf *answer, struct err *err)
{
    _cleanup_(buf_done) struct buf archive = BUF_INIT;
    int code = parcel_pack(copying->parcel, &archive, err);
    if (code < 0)
        return code;
    buf_printf(answer, "%zu\n", archive.len);
    buf_append(answer, archive.data, archive.len);
    return 0;
}

static int on_line(void *ctx, char *line, struct buf *answer, struct err *err)
{
    const struct copying *copying = ctx;
    char *text = strchr(line, ' ');
    if (text)
        *text++ = 0;
    if (!text)
        return strcmp(line, "done") == 0 ? DONE : 0;
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 127)
            *c = ' ';
    if (strcmp(line, "fits") == 0)
        return on_fits(copying, answer, err);
    if (strcmp(line, "differs") == 0)
        return err_set(err, -ENOEXEC, "%s: this scry was not built for such a machine (%.60s): install scry there",
                       copying->host, text);
    if (strcmp(line, "lacks") == 0)
        return err_set(err, -ENOEXEC,
                       "%s: scry was copied there, and a library is missing: %.200s: install it, or scry",
                       copying->host, text);
    if (strcmp(line, "failed") == 0)
        return err_set(err, -EIO, "%s: scry could not be copied there: %.300s", copying->host, text);
    return 0;
}

int node_copy(const struct link_way *way, const struct parcel *parcel, struct err *err)
{
    _cleanup_(buf_done) struct buf script = BUF_INIT;
    struct copying copying = {.parcel = parcel, .host = way->shown};
    node_script_copy(&script, parcel->id);
    if (script.failed)
        return err_set(err, -ENOMEM, "out of memory");
    int code = node_talk(way, script.data, NODE_SCRIPT_COPY, NODE_COPY_SECONDS, on_line, &copying, err);
    return code == DONE ? 0 : code;
}
