/* SPDX-License-Identifier: Apache-2.0 */
#include "job/run/publish.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jansson.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/dirs.h"
#include "base/system/pause.h"
#include "base/system/process.h"
#include "base/system/wait_world.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"

enum { LINE_MOST = 16 << 10 };
static const char PROGRAM[] = "scry-publisher";

static void drop(struct publish_link *link)
{
    if (link->fd >= 0)
        close(link->fd);
    link->fd = -1;
    buf_done(&link->in);
}

/* What it is to publish. The password goes this way only. */
static bool send_settings(const struct publish_link *link)
{
    _cleanup_(buf_done) struct buf url = BUF_INIT, line = BUF_INIT;
    broker_url_put(&url, link->url);
    json_t *json = json_pack("{s:s, s:s?, s:s?, s:s, s:s, s:s, s:I, s:b, s:s*}", "type", "publish", "url",
                             url.failed ? NULL : url.data, "key", link->key, "dir", link->dir, "job", link->job,
                             "owner", link->owner, "from", (json_int_t)link->published, "output", (int)link->output,
                             "hide", link->hide_args);
    _cleanup_(freep) char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
    json_decref(json);
    if (text) {
        buf_puts(&line, text);
        buf_putc(&line, '\n');
    }
    bool sent =
        text && !line.failed && send(link->fd, line.data, line.len, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)line.len;
    if (url.data)
        explicit_bzero(url.data, url.len);
    if (line.data)
        explicit_bzero(line.data, line.len);
    if (text)
        explicit_bzero(text, strlen(text));
    return sent;
}

/* 0 or -errno with err. */
static int publisher_spawn(struct publish_link *link, struct err *err)
{
    int ends[2];
    char path[PATH_MAX], name[] = PUBLISHER_PROCESS_NAME, *argv[] = {name, NULL};
    link->starts++;
    link->lost_ns = clock_now_ns();
    link->connected = link->complete = false;
    int code = dirs_libexec(PROGRAM, path, sizeof path, err);
    if (code < 0)
        return code;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return err_errno(err, -errno, "cannot start %s", PROGRAM);
    /* A session of its own: no terminal and no process group reaches it, and it may outlive scry run. */
    code = spawn_program(&(struct spawn){.path = path,
                                         .argv = argv,
                                         .in = ends[1],
                                         .out = SPAWN_NULL,
                                         .error = SPAWN_NULL,
                                         .group = SPAWN_OWN_SESSION,
                                         .directory = "/"},
                         &link->pid);
    close(ends[1]);
    link->fd = ends[0];
    if (code < 0)
        link->pid = -1;
    if (code == 0 && !send_settings(link))
        code = -EIO;
    if (code < 0) {
        drop(link);
        return err_errno(err, code, "cannot start %s", PROGRAM);
    }
    return 0;
}

static void note_unpublished(struct publish_link *link, const char *why)
{
    if (!link->warned)
        recorder_note(link->recorder, NOTE(unpublished, .broker = link->shown, .reason = why));
    if (why != link->why)
        snprintf(link->why, sizeof link->why, "%s", why);
    link->warned = true;
}

void publish_start(struct publish_link *link, const char *user)
{
    struct err err = {0};
    if (!link->url)
        return;
    snprintf(link->owner, sizeof link->owner, "%s", link->url->owner[0] ? link->url->owner : user);
    struct broker_url shown = *link->url;
    snprintf(shown.owner, sizeof shown.owner, "%.127s", link->owner);
    snprintf(shown.job, sizeof shown.job, "%s", link->job);
    broker_url_show(&shown, link->shown, sizeof link->shown);
    explicit_bzero(&shown, sizeof shown);
    if (publisher_spawn(link, &err) < 0)
        note_unpublished(link, err.text);
}

static void take_status(struct publish_link *link, const json_t *line)
{
    json_int_t published = json_integer_value(json_object_get(line, "published"));
    const char *why = json_string_value(json_object_get(line, "why"));
    bool connected = json_is_true(json_object_get(line, "connected"));
    if (link->connected && !connected)
        link->lost_ns = clock_now_ns();
    link->connected = connected;
    link->dropped = json_is_true(json_object_get(line, "dropped"));
    link->was_connected |= connected;
    link->complete = json_is_true(json_object_get(line, "complete"));
    if (published > 0 && (uint64_t)published > link->published)
        link->published = (uint64_t)published;
    const char *refused = json_string_value(json_object_get(line, "refused"));
    if (refused)
        snprintf(link->refused, sizeof link->refused, "%s", refused);
    if (why && *why)
        snprintf(link->why, sizeof link->why, "%s", why);
    if (json_is_true(json_object_get(line, "in_vain")))
        note_unpublished(link, link->why);
}

/* Reads what it has told. false: it is gone. */
static bool read_status(struct publish_link *link)
{
    for (;;) {
        char *room = link->in.len < LINE_MOST ? buf_reserve(&link->in, 4096) : NULL;
        ssize_t got = room ? recv(link->fd, room, 4096, MSG_DONTWAIT) : 0;
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EAGAIN)
            return true;
        if (got <= 0)
            return false;
        link->in.len += (size_t)got;
        for (const char *end; link->in.len && (end = memchr(link->in.data, '\n', link->in.len));) {
            size_t len = (size_t)(end - link->in.data);
            json_t *line = json_loadb(link->in.data, len, 0, NULL);
            take_status(link, line);
            json_decref(line);
            buf_drop(&link->in, len + 1);
        }
    }
}

/* It ended. That is in order if it has published everything. */
static void restart(struct publish_link *link)
{
    struct err err = {0};
    int status = 0;
    bool known = waitpid(link->pid, &status, WNOHANG) == link->pid;
    drop(link);
    if (link->complete)
        return;
    if (known && WIFEXITED(status) && WEXITSTATUS(status) && link->why[0])
        note_unpublished(link, link->why); /* it said why it cannot */
    else if (link->starts >= PUBLISH_STARTS)
        note_unpublished(link, "the process that publishes ended again and again");
    else if (publisher_spawn(link, &err) < 0)
        note_unpublished(link, err.text);
}

/* Requests that somebody sent through the broker. */
static void note_refused(struct publish_link *link, bool now)
{
    uint64_t now_ns = clock_now_ns();
    if (strcmp(link->refused, link->noted) == 0 ||
        (!now && link->noted_ns && now_ns - link->noted_ns < time_hasten(PUBLISH_REFUSED_MS * WAITS_NS_PER_MS)))
        return;
    memcpy(link->noted, link->refused, sizeof link->noted);
    link->noted_ns = now_ns;
    recorder_note(link->recorder, NOTE(requests_refused, .reasons = link->refused));
}

void publish_handle(struct publish_link *link)
{
    if (link->fd >= 0 && !read_status(link))
        restart(link);
    note_refused(link, false);
    if (link->fd >= 0 && !link->connected &&
        clock_now_ns() - link->lost_ns > time_hasten(PUBLISH_SILENCE_MS * WAITS_NS_PER_MS))
        note_unpublished(link, link->why[0] ? link->why : "the broker does not answer");
    if (link->fd >= 0 && link->dropped)
        note_unpublished(link, link->why);
}

void publish_warn(struct publish_link *link)
{
    publish_handle(link);
    note_refused(link, true);
    bool again = link->was_connected && clock_now_ns() - link->lost_ns < time_hasten(PUBLISH_LOST_MS * WAITS_NS_PER_MS);
    if (link->url && !link->connected && link->why[0] && !again)
        note_unpublished(link, link->why);
    link->in_summary = link->warned;
}

/* While it gets on, and can: a broker that was never there is not waited for. */
static void wait_until_complete(struct publish_link *link)
{
    const struct wait_policy *policy = &wait_policies[WAIT_PUBLISHED];
    uint64_t start_ns = wait_now_ns(), advanced_ns = start_ns, published = link->published;
    while (link->fd >= 0 && !link->complete && !link->dropped &&
           (link->connected || link->was_connected || !link->why[0])) {
        uint64_t now_ns = wait_now_ns();
        struct wait_seen seen = {.passed_ns = now_ns - advanced_ns,
                                 .limit_ns = time_hasten(policy->limit_ms * WAITS_NS_PER_MS),
                                 .state = wait_look(link->pid).state};
        if (waits_judge(policy, &seen) != WAIT_ON || now_ns - start_ns > time_hasten(PUBLISH_MOST_MS * WAITS_NS_PER_MS))
            return;
        struct pollfd input = {.fd = link->fd, .events = POLLIN};
        wait_poll(&input, 1, (int)(waits_slice_ns(policy, &seen) / WAITS_NS_PER_MS) + 1);
        publish_handle(link);
        if (link->published > published)
            advanced_ns = wait_now_ns();
        published = link->published;
    }
}

void publish_finish(struct publish_link *link, struct buf *text)
{
    static const char over[] = "{\"type\":\"over\"}\n";
    if (!link->url)
        return;
    if (link->fd >= 0 && send(link->fd, over, sizeof over - 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        publish_handle(link);
    wait_until_complete(link);
    if (link->complete)
        return;
    if (link->dropped) {
        buf_puts(text, "scry: it is not published: ");
        text_show(text, link->why);
        buf_putc(text, '\n');
        return;
    }
    uint64_t records = link->recorder->writer.next_seq, left = records - link->published;
    buf_printf(text, "scry: %llu of %llu records are not published", (unsigned long long)(left <= records ? left : 0),
               (unsigned long long)records);
    if (!link->connected && !link->in_summary) {
        buf_puts(text, " (");
        text_show(text, link->why[0] ? link->why : "the broker does not answer");
        buf_putc(text, ')');
    }
    buf_printf(text, ": %sscry publish %s\n", link->fd >= 0 ? "it is tried for a minute more, then use " : "use ",
               link->job);
}

void publish_end(struct publish_link *link)
{
    drop(link);
}
