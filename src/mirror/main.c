/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scry-mirror COMMAND [URL]: what scry does through a broker, in a process of its own. Without URL, it is the first line of
 * standard input: an URL may hold a password, and everybody sees the arguments of a process.
 *
 *     follow   the job of the URL: into a mirror, until standard input closes
 *     list     all jobs of the URL's owner; list-newest: of those that are over only LIST_NEWEST
 *     relay    a tool's requests to the job of the URL; standard input is a socket of libomis
 *     reach    is the broker there, and does it take what the owner writes?
 *     revoke   tells the owner's jobs which keys are revoked
 *     forget   the broker forgets the job of the URL, if it is over; forget-unreachable: also one of which that is not
 *              known; forget-nothing: only says whether it could
 */
#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/file.h"
#include "base/system/pause.h"
#include "base/system/process.h"
#include "mirror/reader.h"
#include "shm/waits.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <unistd.h>

/* ---- reach: is the broker there, and may the owner write and read below their own topics? For scry doctor ---- */

enum { REACH_TRIES = 4 };

struct reaching {
    struct reader *reader;
    struct buf topic; /* of a message that comes back */
    bool sent;
    int lost;
};

static void reach_give_up(void *ctx)
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

static void reach_on_connected(void *ctx, bool session_present)
{
    struct reaching *reaching = ctx;
    link_subscribe(reaching->reader->link, reaching->topic.data, 1, NULL);
}

static void reach_on_subscribed(void *ctx, int id, bool granted)
{
    struct reaching *reaching = ctx;
    if (granted && link_publish(reaching->reader->link, reaching->topic.data, span_str("{}"), 1, false, NULL) == 0)
        reaching->sent = true;
}

static void reach_on_lost(void *ctx, const char *why)
{
    struct reaching *reaching = ctx;
    struct reader *reader = reaching->reader;
    snprintf(reader->last_loss, sizeof reader->last_loss, "%s", why);
    int tries = reader->url.place_count > REACH_TRIES ? reader->url.place_count : REACH_TRIES;
    if (++reaching->lost == (reaching->sent ? tries : reader->url.place_count ? reader->url.place_count : 1))
        reach_give_up(reaching);
}

static void reach_on_message(void *ctx, const char *topic, struct span payload, bool retained)
{
    struct reaching *reaching = ctx;
    reader_say("ready", topic);
    loop_stop(reaching->reader->loop);
}

static int reach_run(struct reader *reader)
{
    static const struct link_events events = {.connected = reach_on_connected,
                                              .lost = reach_on_lost,
                                              .published = reader_published,
                                              .subscribed = reach_on_subscribed,
                                              .message = reach_on_message};
    struct reaching reaching = {.reader = reader};
    struct err err = {0};
    char question[64];
    reader_question(reader, question);
    topic_put_again(&reaching.topic, reader->owner, "-", question, "end");
    int code = reaching.topic.failed ? err_set(&err, -ENOMEM, "out of memory")
                                     : reader_connect(reader, &events, &reaching, &err);
    if (code == 0) {
        loop_add_timer(reader->loop, time_hasten((uint64_t)MIRROR_REACH_SECONDS * NS_PER_SECOND), 0, reach_give_up,
                       &reaching);
        code = loop_run(reader->loop);
    } else {
        reader_say_err("error", &err);
    }
    buf_done(&reaching.topic);
    return code < 0 ? 1 : reader->status;
}

/*
 * ---- revoke ----
 *
 * Publishes the list of revoked keys, which follows the URL on standard input (PEM), for all jobs of the owner: those that
 * run, and, as it is retained, those that will. What somebody may not write, some brokers acknowledge and drop, and others
 * end the connection. So it is over only when the list comes back.
 */

enum { REVOKE_TRIES = 3 };
#define LIST_END "-----END X509 CRL-----\n"

struct revoking {
    struct reader *reader;
    struct buf list, topic;
    bool sent;
    unsigned lost; /* connections, after it was sent */
};

/* Up to its last line: the pipe stays open. */
static int revoke_read_list(struct buf *list, struct err *err)
{
    while (list->len < LINK_MESSAGE_BYTES) {
        char *to = buf_reserve(list, 4096);
        ssize_t got = to ? read(STDIN_FILENO, to, 4096) : -1;
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return err_set(err, -EBADMSG, "the list of revoked keys ends too early");
        list->len += (size_t)got;
        if (memmem(list->data, list->len, LIST_END, strlen(LIST_END)))
            return 0;
    }
    return err_set(err, -EMSGSIZE, "the list of revoked keys is too long for a message");
}

static void revoke_send_list(void *ctx)
{
    struct revoking *revoking = ctx;
    int id;
    if (revoking->sent || !link_is_up(revoking->reader->link))
        return;
    struct span list = span_of(revoking->list.data, revoking->list.len);
    revoking->sent = link_publish(revoking->reader->link, revoking->topic.data, list, 1, true, &id) == 0;
}

static void revoke_on_connected(void *ctx, bool session_present)
{
    struct revoking *revoking = ctx;
    int id;
    revoking->sent = false;
    link_subscribe(revoking->reader->link, revoking->topic.data, 1, &id);
    revoke_send_list(revoking);
}

static void revoke_give_up(void *ctx)
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

static void revoke_on_lost(void *ctx, const char *why)
{
    struct revoking *revoking = ctx;
    struct reader *reader = revoking->reader;
    if (reader_lost(reader, why))
        return;
    revoking->lost += revoking->sent;
    revoking->sent = false;
    if (revoking->lost == REVOKE_TRIES)
        revoke_give_up(revoking);
}

static void revoke_on_subscribed(void *ctx, int id, bool granted)
{
}

static void revoke_on_message(void *ctx, const char *topic, struct span payload, bool retained)
{
    struct revoking *revoking = ctx;
    if (!span_eq(payload, span_of(revoking->list.data, revoking->list.len)))
        return;
    reader_say("ready", topic);
    loop_stop(revoking->reader->loop);
}

static int revoke_run(struct reader *reader)
{
    static const struct link_events events = {.connected = revoke_on_connected,
                                              .lost = revoke_on_lost,
                                              .published = reader_published,
                                              .subscribed = revoke_on_subscribed,
                                              .message = revoke_on_message};
    struct revoking revoking = {.reader = reader};
    struct err err = {0};
    int code = revoke_read_list(&revoking.list, &err);
    topic_put_revoked(&revoking.topic, reader->owner);
    if (code == 0 && revoking.topic.failed)
        code = err_set(&err, -ENOMEM, "out of memory");
    if (code == 0)
        code = reader_connect(reader, &events, &revoking, &err);
    if (code == 0) {
        loop_add_timer(reader->loop, REVOKE_TRY_MS * UINT64_C(1000000), REVOKE_TRY_MS * UINT64_C(1000000),
                       revoke_send_list, &revoking);
        loop_add_timer(reader->loop, (uint64_t)REVOKE_SECONDS * NS_PER_SECOND, 0, revoke_give_up, &revoking);
        code = loop_run(reader->loop);
    } else {
        reader_say_err("error", &err);
    }
    buf_done(&revoking.list);
    buf_done(&revoking.topic);
    return code < 0 ? 1 : reader->status;
}

/* ---- the program ---- */

enum { EXIT_USAGE = 2, URL_BYTES = 16 << 10 };

static const struct {
    const char *name;
    int (*run)(struct reader *reader);
    bool of_job, frames; /* frames: of libomis come from standard input, and answers go there */
} commands[] = {
    {"follow", follow_run, true, false},
    {"list", list_run, false, false},
    {"list-newest", list_newest_run, false, false},
    {"relay", relay_run, true, true},
    {"revoke", revoke_run, false, false},
    {"reach", reach_run, false, false},
    {"forget", forget_run, true, false},
    {"forget-unreachable", forget_unreachable_run, true, false},
    {"forget-nothing", forget_nothing_run, true, false},
};
enum { COMMANDS = sizeof commands / sizeof *commands };

static void on_input(void *ctx, int fd, uint32_t events)
{
    char bytes[256];
    ssize_t got = read(fd, bytes, sizeof bytes);
    if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN))
        loop_stop(ctx);
}

static void on_signal(void *ctx, int fd, uint32_t events)
{
    loop_stop(ctx);
}

static int reader_start(struct reader *reader, const char *word, bool of_job, struct err *err)
{
    unsigned char random[6] = {0};
    char self[USER_NAME_BYTES];
    int code = broker_url_parse(word, &reader->url, err);
    if (code < 0)
        return code;
    if (of_job && !reader->url.job[0])
        return err_set(err, -EINVAL, "'%s' names no job: add /USER/JOB", word);
    reader->owner = reader->url.owner[0] ? reader->url.owner : strdup(user_name(geteuid(), self, sizeof self));
    struct broker_url bare = reader->url;
    bare.owner[0] = bare.job[0] = 0;
    broker_url_show(&bare, reader->via, sizeof reader->via);
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return err_errno(err, -errno, "no random numbers");
    snprintf(reader->client, sizeof reader->client, "scry");
    for (size_t i = 0; i < sizeof random; i++)
        snprintf(reader->client + 4 + 2 * i, 3, "%02x", random[i]);
    return reader->owner ? 0 : err_set(err, -ENOMEM, "out of memory");
}

int main(int argc, char **argv)
{
    char line[URL_BYTES] = "";
    struct err err = {0};
    static struct reader reader;
    size_t which = 0;
    while (argc > 1 && which < COMMANDS && strcmp(argv[1], commands[which].name) != 0)
        which++;
    if (argc < 2 || argc > 3 || which == COMMANDS) {
        fprintf(stderr, "usage: scry-mirror COMMAND [URL]; scry starts it\n");
        return EXIT_USAGE;
    }
    signal(SIGPIPE, SIG_IGN);
    if (commands[which].frames && fork() > 0) /* the tool that started it has no child of ours to wait for */
        _exit(0);
    prctl(PR_SET_DUMPABLE, 0); /* there may be a password in memory */
    if (argc == 2 && !line_read(line, sizeof line))
        err_set(&err, -EINVAL, "no URL on standard input");
    if (!err.code)
        reader_start(&reader, argc == 3 ? argv[2] : line, commands[which].of_job, &err);
    int code = err.code ? 0 : loop_new(&reader.loop);
    if (code < 0)
        err_errno(&err, code, "no event loop");
    if (err.code && commands[which].frames)
        return relay_refuse(&err);
    if (err.code) {
        reader_say_err("error", &err);
        return 1;
    }
    if (!commands[which].frames)
        loop_add_fd(reader.loop, STDIN_FILENO, EPOLLIN, on_input, reader.loop); /* NULL: a file, which does not end */
    loop_add_signal(reader.loop, SIGTERM, on_signal, reader.loop);
    loop_add_signal(reader.loop, SIGINT, on_signal, reader.loop);
    int status = commands[which].run(&reader);
    if (reader.link)
        link_close(reader.link, true);
    loop_free(reader.loop);
    signed_key_free(reader.key);
    if (reader.owner != reader.url.owner)
        free((char *)reader.owner);
    link_leave(status);
    return status;
}
