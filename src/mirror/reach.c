/* SPDX-License-Identifier: Apache-2.0 */
/* scry-mirror reach: is the broker there, and may the owner write and read below their own topics? For scry doctor. */
#include <errno.h>
#include <stdio.h>

#include "base/data/buf.h"
#include "base/system/clock.h"
#include "base/system/pause.h"
#include "mirror/reader.h"
#include "shm/waits.h"

enum { TRIES = 4 };

struct reaching {
    struct reader *reader;
    struct buf topic; /* of a message that comes back */
    bool sent;
    int lost;
};

static void give_up(void *ctx)
{
    struct reaching *reaching = ctx;
    struct reader *reader = reaching->reader;
    struct err err = {0};
    if (link_is_up(reader->link))
        err_set(&err, -EACCES,
                "it answers, but does not give back what is published as %s: its owner may not write or read there",
                reaching->topic.data);
    else
        err_set(&err, -EHOSTUNREACH, "%s", *reader->last_loss ? reader->last_loss : "no answer");
    reader_fail(reader, &err);
}

static void on_connected(void *ctx, bool session_present)
{
    struct reaching *reaching = ctx;
    link_subscribe(reaching->reader->link, reaching->topic.data, 1, NULL);
}

static void on_subscribed(void *ctx, int id, bool granted)
{
    struct reaching *reaching = ctx;
    if (granted && link_publish(reaching->reader->link, reaching->topic.data, span_str("{}"), 1, false, NULL) == 0)
        reaching->sent = true;
}

static void on_lost(void *ctx, const char *why)
{
    struct reaching *reaching = ctx;
    struct reader *reader = reaching->reader;
    snprintf(reader->last_loss, sizeof reader->last_loss, "%s", why);
    int tries = reader->url.place_count > TRIES ? reader->url.place_count : TRIES;
    if (++reaching->lost == (reaching->sent ? tries : reader->url.place_count ? reader->url.place_count : 1))
        give_up(reaching);
}

static void on_message(void *ctx, const char *topic, struct span payload, bool retained)
{
    struct reaching *reaching = ctx;
    reader_say("ready", topic);
    loop_stop(reaching->reader->loop);
}

int reach_run(struct reader *reader)
{
    static const struct link_events events = {.connected = on_connected,
                                              .lost = on_lost,
                                              .published = reader_published,
                                              .subscribed = on_subscribed,
                                              .message = on_message};
    struct reaching reaching = {.reader = reader};
    struct err err = {0};
    char question[64];
    reader_question(reader, question);
    topic_put_again(&reaching.topic, reader->owner, "-", question, "end");
    int code = reaching.topic.failed ? err_set(&err, -ENOMEM, "out of memory")
                                     : reader_connect(reader, &events, &reaching, &err);
    if (code == 0) {
        loop_add_timer(reader->loop, time_hasten((uint64_t)MIRROR_REACH_SECONDS * NS_PER_SECOND), 0, give_up,
                       &reaching);
        code = loop_run(reader->loop);
    } else {
        reader_say_err("error", &err);
    }
    buf_done(&reaching.topic);
    return code < 0 ? 1 : reader->status;
}
