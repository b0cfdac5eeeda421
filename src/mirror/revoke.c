/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Publishes the list of revoked keys, which follows the URL on standard input (PEM), for all jobs of the owner: those that
 * run, and, as it is retained, those that will. What somebody may not write, some brokers acknowledge and drop, and others
 * end the connection. So it is over only when the list comes back.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "mirror/reader.h"
#include "shm/waits.h"

enum { TRIES = 3 };
#define END "-----END X509 CRL-----\n"

struct revoking {
    struct reader *reader;
    struct buf list, topic;
    bool sent;
    unsigned lost; /* connections, after it was sent */
};

/* Up to its last line: the pipe stays open. */
static int read_list(struct buf *list, struct err *err)
{
    while (list->len < LINK_MESSAGE_BYTES) {
        char *to = buf_reserve(list, 4096);
        ssize_t got = to ? read(STDIN_FILENO, to, 4096) : -1;
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return err_set(err, -EBADMSG, "the list of revoked keys ends too early");
        list->len += (size_t)got;
        if (memmem(list->data, list->len, END, strlen(END)))
            return 0;
    }
    return err_set(err, -EMSGSIZE, "the list of revoked keys is too long for a message");
}

static void send_list(void *ctx)
{
    struct revoking *revoking = ctx;
    int id;
    if (revoking->sent || !link_is_up(revoking->reader->link))
        return;
    struct span list = span_of(revoking->list.data, revoking->list.len);
    revoking->sent = link_publish(revoking->reader->link, revoking->topic.data, list, 1, true, &id) == 0;
}

static void on_connected(void *ctx, bool session_present)
{
    struct revoking *revoking = ctx;
    int id;
    revoking->sent = false;
    link_subscribe(revoking->reader->link, revoking->topic.data, 1, &id);
    send_list(revoking);
}

static void give_up(void *ctx)
{
    struct revoking *revoking = ctx;
    struct reader *reader = revoking->reader;
    struct err err = {0};
    if (link_is_up(reader->link) || revoking->lost)
        err_set(&err, -EACCES, "the broker %s does not let you publish %s, or read it", reader->via,
                revoking->topic.data);
    else
        err_set(&err, -ETIMEDOUT, "the broker %s does not answer%s%s", reader->via, reader->last_loss[0] ? ": " : "",
                reader->last_loss);
    reader_fail(reader, &err);
}

static void on_lost(void *ctx, const char *why)
{
    struct revoking *revoking = ctx;
    struct reader *reader = revoking->reader;
    if (reader_lost(reader, why))
        return;
    revoking->lost += revoking->sent;
    revoking->sent = false;
    if (revoking->lost == TRIES)
        give_up(revoking);
}

static void on_subscribed(void *ctx, int id, bool granted)
{
}

static void on_message(void *ctx, const char *topic, struct span payload, bool retained)
{
    struct revoking *revoking = ctx;
    if (!span_eq(payload, span_of(revoking->list.data, revoking->list.len)))
        return;
    reader_say("ready", topic);
    loop_stop(revoking->reader->loop);
}

int revoke_run(struct reader *reader)
{
    static const struct link_events events = {.connected = on_connected,
                                              .lost = on_lost,
                                              .published = reader_published,
                                              .subscribed = on_subscribed,
                                              .message = on_message};
    struct revoking revoking = {.reader = reader};
    struct err err = {0};
    int code = read_list(&revoking.list, &err);
    topic_put_revoked(&revoking.topic, reader->owner);
    if (code == 0 && revoking.topic.failed)
        code = err_set(&err, -ENOMEM, "out of memory");
    if (code == 0)
        code = reader_connect(reader, &events, &revoking, &err);
    if (code == 0) {
        loop_add_timer(reader->loop, REVOKE_TRY_MS * UINT64_C(1000000), REVOKE_TRY_MS * UINT64_C(1000000), send_list,
                       &revoking);
        loop_add_timer(reader->loop, (uint64_t)REVOKE_SECONDS * NS_PER_SECOND, 0, give_up, &revoking);
        code = loop_run(reader->loop);
    } else {
        reader_say_err("error", &err);
    }
    buf_done(&revoking.list);
    buf_done(&revoking.topic);
    return code < 0 ? 1 : reader->status;
}
