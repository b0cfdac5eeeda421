/* SPDX-License-Identifier: Apache-2.0 */
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

/* scry-mirror reach: is the broker there, and may the owner write and read below their own topics? For scry doctor. */

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

static int start(struct reader *reader, const char *word, bool of_job, struct err *err)
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
        start(&reader, argc == 3 ? argv[2] : line, commands[which].of_job, &err);
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
