/* SPDX-License-Identifier: Apache-2.0 */
#include "job/observe/observer.h"

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/process.h"
#include "base/system/wait_world.h"
#include "job/launch/launch.h"
#include "jobdir/text/fields.h"
#include "shm/waits.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { READ_BYTES = 64 << 10, READS_MOST = 16 }; /* scry run has signals to look at, too */

bool channel_put_take(struct buf *out, json_t *record)
{
    _cleanup_(freep) char *text = record ? json_dumps(record, JSON_COMPACT | JSON_REAL_PRECISION(12)) : NULL;
    json_decref(record);
    if (!text)
        return false;
    buf_puts(out, text);
    buf_putc(out, '\n');
    return !out->failed;
}

bool channel_is(const json_t *record, const char *type)
{
    const char *name = json_string_value(json_object_get(record, "type"));
    return name && strcmp(name, type) == 0;
}

json_t *channel_note_json(const struct note *note)
{
    json_t *record = note_json(note);
    if (record)
        json_object_set_new(record, "type", json_string(record_kinds[RECORD_warning].type));
    return record;
}

static void take_lines(struct buf *in, void (*each)(void *ctx, json_t *record, struct span line), void *ctx)
{
    size_t done = 0;
    for (const char *end; in->data && (end = memchr(in->data + done, '\n', in->len - done));) {
        struct span line = span_of(in->data + done, (size_t)(end - in->data) - done);
        json_t *record = json_loadb(line.ptr, line.len, 0, NULL);
        done += line.len + 1;
        if (json_is_object(record))
            each(ctx, record, line);
        json_decref(record);
    }
    buf_drop(in, done);
}

bool channel_read(int fd, struct buf *in, void (*each)(void *ctx, json_t *record, struct span line), void *ctx)
{
    for (unsigned reads = 0; reads < READS_MOST; reads++) {
        char *room = buf_reserve(in, READ_BYTES);
        ssize_t got = room ? recv(fd, room, READ_BYTES, MSG_DONTWAIT) : -1;
        if (!room)
            return false;
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EAGAIN)
            break;
        if (got <= 0) {
            take_lines(in, each, ctx);
            return false;
        }
        in->len += (size_t)got;
        take_lines(in, each, ctx);
    }
    return true;
}

enum { OUT_MOST = 4 << 20 };

static void drop(struct observer_link *link)
{
    if (link->fd >= 0)
        close(link->fd);
    link->fd = -1;
    buf_done(&link->in);
    buf_done(&link->out);
}

static void observer_serve(void *ctx, int fd)
{
    const struct observer_link *link = ctx;
    struct observer observer = link->given;
    observer.restarted = link->starts > 1;
    observer.start_ns = link->recorder->start_ns;
    channel_serve(&observer, link->sources, fd);
}

/* 0 or -errno. */
static int observer_spawn(struct observer_link *link)
{
    link->fd = -1;
    link->shut = false;
    link->starts++;
    return worker_start(OBSERVER_PROCESS_NAME, SOCK_STREAM, observer_serve, link, &link->pid, &link->fd);
}

static void on_record(void *ctx, json_t *record, struct span line)
{
    struct observer_link *link = ctx;
    const char *type = json_string_value(json_object_get(record, "type"));
    if (type && strcmp(type, CHANNEL_READY) == 0)
        link->ready = true;
    else if (type)
        recorder_put_line(link->recorder, type, record, line);
}

static void push(struct observer_link *link)
{
    while (link->fd >= 0 && link->out.len) {
        ssize_t sent = send(link->fd, link->out.data, link->out.len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && errno == EAGAIN)
            return;
        buf_drop(&link->out, sent > 0 ? (size_t)sent : link->out.len); /* if it is gone, reading finds out */
    }
    if (link->over && !link->shut && link->fd >= 0)
        link->shut = shutdown(link->fd, SHUT_WR) == 0;
}

/* What it knew of processes goes to the next one. */
static void restart(struct observer_link *link)
{
    int status = 0;
    kill(link->pid, SIGKILL); /* it may live: there may have been no memory for what it says */
    waitpid(link->pid, &status, 0);
    link->pid = 0;
    drop(link);
    bool again = link->starts < OBSERVER_STARTS;
    recorder_note(link->recorder, NOTE(observer_lost, .again = again, .signal = (uint64_t)WTERMSIG(status)));
    if (!again || observer_spawn(link) < 0)
        return;
    for (const struct job_process *process = link->recorder->model.alive; process; process = process->hh.next)
        observer_tell_take(
            link, record_json(RECORD(process, .pid = process->pid, .ppid = process->ppid, .name = process->name)));
}

void observer_handle(struct observer_link *link)
{
    push(link);
    if (link->fd >= 0 && !channel_read(link->fd, &link->in, on_record, link))
        restart(link);
}

/* It looks at files, and waits for programs that it has started; a file system that hangs may keep it. */
static bool wait_for(struct observer_link *link, bool until_gone)
{
    const struct wait_policy *policy = &wait_policies[WAIT_OBSERVED];
    uint64_t start_ns = wait_now_ns();
    while (link->fd >= 0 && (until_gone || !link->ready)) {
        struct wait_seen seen = {.passed_ns = wait_now_ns() - start_ns};
        struct pollfd input = {.fd = link->fd, .events = link->out.len ? POLLIN | POLLOUT : POLLIN};
        wait_poll(&input, 1, (int)(waits_slice_ns(policy, &seen) / WAITS_NS_PER_MS) + 1);
        push(link);
        if (!channel_read(link->fd, &link->in, on_record, link))
            return until_gone;
        seen.passed_ns = wait_now_ns() - start_ns;
        seen.state = wait_look(link->pid).state;
        if (waits_judge(policy, &seen) != WAIT_ON)
            return false;
    }
    return true;
}

void observer_start(struct observer_link *link)
{
    int code = observer_spawn(link);
    if (code < 0)
        recorder_note(link->recorder, NOTE(source_off, .source = "observer", .reason = strerror(-code)));
}

void observer_await(struct observer_link *link)
{
    if (link->fd >= 0 && !wait_for(link, false))
        recorder_note(link->recorder, NOTE(observer_late));
}

void observer_tell_take(struct observer_link *link, json_t *record)
{
    size_t before = link->out.len;
    if (link->fd < 0 || before > OUT_MOST) {
        json_decref(record);
        return;
    }
    if (!channel_put_take(&link->out, record))
        link->out.len = before;
    push(link);
}

void observer_started(struct observer_link *link)
{
    observer_tell_take(link,
                       json_pack("{s:s, s:I}", "type", CHANNEL_STARTED, "ns", (json_int_t)link->recorder->start_ns));
}

void observer_ending(struct observer_link *link)
{
    observer_tell_take(link, json_pack("{s:s}", "type", CHANNEL_ENDING));
}

void observer_over(struct observer_link *link)
{
    if (link->fd < 0)
        return;
    kill(link->pid, SIGCONT); /* the group may have been stopped, and only scry run continued */
    link->over = true;
    push(link);
}

void observer_finish(struct observer_link *link)
{
    if (link->fd < 0)
        return;
    if (!wait_for(link, true)) {
        recorder_note(link->recorder, NOTE(observer_late));
        kill(link->pid, SIGKILL); /* it holds nothing of the job's */
        link->pid = 0;
    }
    drop(link);
}

void observer_reap(struct observer_link *link)
{
    if (link->pid > 0)
        child_reap(link->pid);
    link->pid = 0;
}

void observer_end(struct observer_link *link)
{
    if (link->pid > 0 && link->fd >= 0) {
        kill(link->pid, SIGKILL);
        if (wait_for(link, true)) /* it is nobody else's child */
            waitpid(link->pid, NULL, 0);
    }
    link->pid = 0;
    drop(link);
}
