/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/topics.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/system/clock.h"

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

static int digit(char c)
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
            int high = digit(from[0]), low = high < 0 ? -1 : digit(from[1]);
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
