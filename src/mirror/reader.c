/* SPDX-License-Identifier: Apache-2.0 */
#include "mirror/reader.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/buf.h"
#include "base/data/cleanup.h"

void reader_say(const char *word, const char *text)
{
    printf("%s ", word);
    for (const char *at = text; *at; at++)
        putchar(*at == '\n' || *at == '\r' ? ' ' : *at);
    putchar('\n');
    fflush(stdout);
}

void reader_say_err(const char *word, const struct err *err)
{
    reader_say(word, err->text);
}

void reader_progress(uint64_t done, uint64_t all)
{
    char text[32];
    snprintf(text, sizeof text, "%.3f", all ? (double)done / (double)all : 0);
    reader_say("progress", text);
}

void reader_fail(struct reader *reader, const struct err *err)
{
    reader_say_err("error", err);
    reader->status = 1;
    loop_stop(reader->loop);
}

bool reader_lost(struct reader *reader, const char *why)
{
    struct err err = {0};
    bool is_new = strcmp(reader->last_loss, why) != 0;
    snprintf(reader->last_loss, sizeof reader->last_loss, "%s", why);
    if (!link_is_in_vain(reader->link))
        return false;
    bool was_right = link_has_been_up(reader->link);
    err_set(&err, -EACCES, "the broker %s: %s%s", reader->via, why, was_right ? "; it is tried again" : "");
    if (!was_right)
        reader_fail(reader, &err);
    else if (is_new)
        reader_say_err("note", &err);
    return !was_right;
}

int reader_connect(struct reader *reader, const struct link_events *events, void *ctx, struct err *err)
{
    const struct link_options options = {
        .url = &reader->url, .client = reader->client, .what = "reader", .events = events, .ctx = ctx};
    return link_open(&reader->link, reader->loop, &options, err);
}

void reader_read_key(struct reader *reader)
{
    struct err err = {0};
    int code = signed_key_new(&reader->key, &err);
    if (code < 0 && code != -ENOENT) {
        char text[ERR_TEXT_SIZE + 64];
        snprintf(text, sizeof text, "nobody can tell what the jobs have signed: %s", err.text);
        reader_say("note", text);
    }
}

enum signed_by reader_check(const struct reader *reader, const struct topic *topic, struct span payload,
                            struct span *ret_text)
{
    const char *kind = topic_signed(topic);
    *ret_text = payload;
    return kind ? signed_check(reader->key, topic->owner, topic->job, kind, payload, ret_text) : SIGNED_UNKNOWN;
}

void reader_question(const struct reader *reader, char ret_id[64])
{
    topic_name_question(reader->client, ret_id, 64);
}

int reader_subscribe(struct reader *reader, const char *job, const char *name, int qos)
{
    int id = 0;
    _cleanup_(buf_done) struct buf pattern = BUF_INIT;
    topic_put(&pattern, reader->owner, job, name, NULL);
    int code = pattern.failed ? -ENOMEM : link_subscribe(reader->link, pattern.data, qos, &id);
    return code < 0 ? code : id;
}

void reader_publish_json(struct reader *reader, const char *topic, json_t *json_take)
{
    int id;
    _cleanup_(freep) char *text = json_take ? json_dumps(json_take, JSON_COMPACT) : NULL;
    json_decref(json_take);
    if (text && topic)
        link_publish(reader->link, topic, span_str(text), 1, false, &id); /* unanswered, it is asked again */
}

void reader_published(void *ctx, int id)
{
    (void)ctx, (void)id;
}
