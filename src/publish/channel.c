/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between scry run and its publisher: lines of JSON. scry run sends the settings, then {"type": "over"} when all is in
 * the job directory. The publisher says how far it is (job/run/publish.h).
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>

#include <jansson.h>

#include "base/data/cleanup.h"
#include "publish/control.h"
#include "publish/publisher.h"

enum { LINE_MOST = 64 << 10 };

/* Reads what has come. false: the other side is gone. */
static bool fill(struct publisher *publisher)
{
    for (;;) {
        char *room = publisher->in.len < LINE_MOST ? buf_reserve(&publisher->in, 4096) : NULL;
        ssize_t got = room ? read(publisher->channel, room, 4096) : -1;
        if (!room)
            return false;
        if (got < 0 && errno == EINTR)
            continue;
        if (got > 0)
            publisher->in.len += (size_t)got;
        return got > 0 || (got < 0 && errno == EAGAIN);
    }
}

/* A new reference, or NULL: there is no whole line. */
static json_t *take_line(struct publisher *publisher)
{
    const char *end = publisher->in.len ? memchr(publisher->in.data, '\n', publisher->in.len) : NULL;
    if (!end)
        return NULL;
    size_t len = (size_t)(end - publisher->in.data);
    json_t *json = json_loadb(publisher->in.data, len, 0, NULL);
    buf_drop(&publisher->in, len + 1);
    return json ? json : json_null();
}

static void take_text(char *ret_text, size_t size, const json_t *settings, const char *name)
{
    const char *text = json_string_value(json_object_get(settings, name));
    snprintf(ret_text, size, "%s", text ? text : "");
}

int channel_begin(struct publisher *publisher, struct err *err)
{
    json_t *settings = NULL;
    while (!(settings = take_line(publisher)))
        if (!fill(publisher))
            return err_set(err, -EINVAL, "it is started by scry run and scry publish, which say what to publish");
    char url[PATH_MAX];
    take_text(url, sizeof url, settings, "url");
    take_text(publisher->dir, sizeof publisher->dir, settings, "dir");
    take_text(publisher->job, sizeof publisher->job, settings, "job");
    take_text(publisher->key_option, sizeof publisher->key_option, settings, "key");
    take_text(publisher->owner, sizeof publisher->owner, settings, "owner");
    publisher->alone = json_is_true(json_object_get(settings, "alone"));
    json_int_t from = json_integer_value(json_object_get(settings, "from"));
    publisher->from = publisher->published = from > 0 ? (uint64_t)from : 0;
    json_decref(settings);
    if (!publisher->dir[0] || !publisher->job[0] || !publisher->owner[0])
        return err_set(err, -EINVAL, "the settings are incomplete");
    int code = broker_url_parse(url, &publisher->url, err);
    explicit_bzero(url, sizeof url);
    if (publisher->in.data)
        explicit_bzero(publisher->in.data, publisher->in.cap);
    return code;
}

void channel_tell(struct publisher *publisher)
{
    bool up = publisher->link && link_is_up(publisher->link), dropped = up && publisher_is_dropped(publisher);
    char refused[256];
    control_refusals(publisher->control, refused, sizeof refused);
    if (dropped)
        snprintf(
            publisher->why, sizeof publisher->why,
            "the broker takes it, and gives nothing of it back: may this user write and read below scry/v1/%.100s?",
            publisher->owner);
    json_t *json = json_pack("{s:s, s:b, s:b, s:b, s:I, s:b, s:s, s:s}", "type", "status", "in_vain",
                             publisher->link && link_is_in_vain(publisher->link), "connected", (int)up, "dropped",
                             (int)dropped, "published", (json_int_t)publisher->published, "complete",
                             publisher->phase >= PUBLISHER_COMPLETE && publisher->heard, "why",
                             up && !dropped ? "" : publisher->why, "refused", refused);
    _cleanup_(freep) char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
    json_decref(json);
    if (publisher->channel < 0 || !text || strcmp(text, publisher->told) == 0)
        return;
    struct buf line = BUF_INIT;
    buf_puts(&line, text);
    buf_putc(&line, '\n');
    if (!line.failed && send(publisher->channel, line.data, line.len, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)line.len)
        snprintf(publisher->told, sizeof publisher->told, "%s", text);
    buf_done(&line);
}

bool channel_read(struct publisher *publisher)
{
    bool there = fill(publisher);
    for (json_t *line; (line = take_line(publisher));) {
        const char *type = json_string_value(json_object_get(line, "type"));
        if (type && strcmp(type, "over") == 0)
            publisher->over_told = true;
        json_decref(line);
    }
    return there;
}
