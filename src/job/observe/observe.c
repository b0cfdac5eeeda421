/* SPDX-License-Identifier: Apache-2.0 */
/* The observer's own side: its loop, what it is told, what it sends. */
#include "job/observe/observe.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/log.h"
#include "job/observe/observer.h"
#include "job/record/writer.h"
#include "jobdir/text/fields.h"
#include "shm/waits.h"

enum {
    SOURCES_MOST = 8,
    OUT_MOST = 8 << 20, /* of what scry run has not taken yet; the rest is dropped */
    RATE_MOST = 20000,  /* records of one type in a second: scry run needs some 6 % of a processor for them */
};

struct channel {
    struct observer *observer;
    int fd;
    struct buf in, out;
    uint64_t dropped;            /* records, not noted yet */
    uint64_t noted_ns;           /* when they last were; 0: never */
    uint64_t second_ns;          /* when this second began, */
    uint32_t sent[RECORD_TYPES]; /* and what was sent in it */
    bool waits;                  /* for room in the socket */
    bool ended;
    struct loop_source *input, *timer;
    const struct observe_source *const *sources;
    void *states[SOURCES_MOST];
};

double observe_seconds(const struct observer *observer, uint64_t monotonic_ns)
{
    return monotonic_ns > observer->start_ns ? (double)(monotonic_ns - observer->start_ns) / NS_PER_SECOND : 0;
}

/* ---- what it sends ---- */

static void push(struct channel *channel)
{
    bool waits = false;
    while (channel->out.len && !waits) {
        ssize_t sent = send(channel->fd, channel->out.data, channel->out.len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent > 0)
            buf_drop(&channel->out, (size_t)sent);
        else if (sent < 0 && errno == EINTR)
            continue;
        else if (sent < 0 && errno == EAGAIN)
            waits = true;
        else
            _exit(0); /* scry run is gone */
    }
    if (waits != channel->waits && channel->input)
        loop_set_events(channel->input, waits ? EPOLLIN | EPOLLOUT : EPOLLIN);
    channel->waits = waits;
}

static void put_line(struct channel *channel, json_t *record)
{
    size_t before = channel->out.len;
    if (channel_put_take(&channel->out, record))
        return;
    channel->out.len = before;
    channel->dropped++;
}

/* A flood of one type leaves room for the others, and for the last words. */
static bool is_in_time(struct channel *channel, enum record_type type, uint64_t now)
{
    if (channel->ended)
        return true;
    if (now - channel->second_ns >= NS_PER_SECOND) {
        channel->second_ns = now;
        memset(channel->sent, 0, sizeof channel->sent);
    }
    return channel->sent[type]++ < RATE_MOST;
}

static void note_dropped(struct channel *channel)
{
    struct note note = NOTE(observed_dropped, .records = channel->dropped);
    if (!channel->dropped)
        return;
    channel->dropped = 0;
    put_line(channel, channel_note_json(&note));
}

static void note_now_and_then(struct channel *channel, uint64_t now)
{
    if (channel->noted_ns && now - channel->noted_ns < (uint64_t)OBSERVE_NOTED_S * NS_PER_SECOND)
        return;
    channel->noted_ns = channel->dropped ? now : channel->noted_ns;
    note_dropped(channel);
}

static void send_record_take(struct observer *observer, json_t *record)
{
    struct channel *channel = observer->channel;
    if (channel->out.len > OUT_MOST)
        push(channel);
    if (channel->out.len > OUT_MOST) {
        json_decref(record);
        channel->dropped++;
        return;
    }
    note_now_and_then(channel, clock_now_ns());
    put_line(channel, record);
    push(channel);
}

void observe_put(struct observer *observer, enum record_type type, const void *row)
{
    struct channel *channel = observer->channel;
    if (is_in_time(channel, type, clock_now_ns()))
        send_record_take(observer, record_json(type, row));
    else
        channel->dropped++;
}

void observe_note(struct observer *observer, struct note note)
{
    send_record_take(observer, channel_note_json(&note));
}

/* ---- what it is told ---- */

static void each_source(struct channel *channel, void (*call)(const struct observe_source *, void *, const void *),
                        const void *with)
{
    for (size_t i = 0; channel->sources[i]; i++)
        if (channel->states[i])
            call(channel->sources[i], channel->states[i], with);
}

static void call_process(const struct observe_source *source, void *state, const void *process)
{
    if (source->process)
        source->process(state, process);
}

static void call_ended(const struct observe_source *source, void *state, const void *process)
{
    if (source->process_ended)
        source->process_ended(state, process);
}

static void call_tick(const struct observe_source *source, void *state, const void *nothing)
{
    if (source->tick)
        source->tick(state);
}

static void call_ending(const struct observe_source *source, void *state, const void *nothing)
{
    if (source->ending)
        source->ending(state);
}

static void call_late(const struct observe_source *source, void *state, const void *pid)
{
    if (source->late)
        source->late(state, *(const pid_t *)pid);
}

struct change {
    const char *key, *value;
};

static void call_changed(const struct observe_source *source, void *state, const void *with)
{
    const struct change *change = with;
    if (source->changed)
        source->changed(state, change->key, change->value);
}

static void add_process(struct channel *channel, pid_t pid, pid_t ppid, const char *name, double start)
{
    struct observer *observer = channel->observer;
    struct observed_process *process;
    HASH_FIND_INT(observer->processes, &pid, process);
    if (!process) {
        process = calloc(1, sizeof *process);
        if (!process)
            return;
        process->pid = pid;
        HASH_ADD_INT(observer->processes, pid, process);
    }
    process->ppid = ppid;
    process->start = start;
    strncpy(process->name, name ? name : "", sizeof process->name - 1);
    each_source(channel, call_process, process);
}

static void remove_process(struct channel *channel, const struct process_end_record *row)
{
    struct observed_process *process, unseen = {.pid = row->process.pid, .ppid = row->process.ppid};
    HASH_FIND_INT(channel->observer->processes, &row->process.pid, process);
    if (process)
        HASH_DEL(channel->observer->processes, process);
    else
        strncpy(unseen.name, row->process.name ? row->process.name : "", sizeof unseen.name - 1);
    struct observed_process *ended = process ? process : &unseen;
    ended->start = row->process.start;
    ended->end = row->end;
    ended->status = row->status;
    ended->command = &row->process.command;
    each_source(channel, call_ended, ended);
    free(process);
}

static void plan_tick(struct channel *channel)
{
    uint64_t now = clock_now_ns();
    uint64_t next = sampling_next_ns(channel->observer->start_ns, now, channel->observer->options->sample_seconds);
    loop_set_timer(channel->timer, next > now ? next - now : 1, 0);
}

static void on_record(void *ctx, json_t *record, struct span line)
{
    struct channel *channel = ctx;
    struct observer *observer = channel->observer;
    enum record_type type = record_type(record);
    if (type == RECORD_process) {
        struct process_record row;
        record_read(record, type, &row);
        add_process(channel, row.pid, row.ppid, row.name, row.start);
    } else if (type == RECORD_process_end) {
        struct process_end_record row;
        record_read(record, type, &row);
        remove_process(channel, &row);
    } else if (type == RECORD_setting) {
        struct setting_record row;
        struct err err = {0};
        record_read(record, type, &row);
        if (!row.taken || run_setting_change(observer->options, row.key, row.value, &err) < 0)
            return;
        each_source(channel, call_changed, &(struct change){row.key, row.value});
        plan_tick(channel);
    } else if (type == RECORD_stall) {
        struct stall_record row;
        record_read(record, type, &row);
        if (row.late)
            each_source(channel, call_late, &(pid_t){(pid_t)row.late});
    } else if (channel_is(record, CHANNEL_STARTED)) {
        observer->start_ns = (uint64_t)json_integer_value(json_object_get(record, "ns"));
        plan_tick(channel);
    } else if (channel_is(record, CHANNEL_ENDING)) {
        each_source(channel, call_ending, NULL);
    }
}

static void channel_end(struct channel *channel)
{
    channel->ended = true;
    loop_remove(channel->timer);
    loop_remove(channel->input);
    channel->timer = channel->input = NULL;
    for (size_t i = 0; channel->sources[i]; i++) {
        if (channel->states[i] && channel->sources[i]->end)
            channel->sources[i]->end(channel->states[i]);
        push(channel); /* the next one may take longer than scry run waits */
    }
    note_dropped(channel);
    for (size_t done = 0; done < channel->out.len;) { /* now it may block */
        ssize_t sent = send(channel->fd, channel->out.data + done, channel->out.len - done, MSG_NOSIGNAL);
        if (sent < 0 && errno != EINTR)
            break;
        done += sent > 0 ? (size_t)sent : 0;
    }
    shutdown(channel->fd, SHUT_RDWR); /* scry run goes on before the kernel has taken this process apart */
    _exit(0);
}

static void on_channel(void *ctx, int fd, uint32_t events)
{
    struct channel *channel = ctx;
    push(channel);
    if (events & (EPOLLIN | EPOLLHUP) && !channel_read(fd, &channel->in, on_record, channel))
        channel_end(channel);
}

static void on_tick(void *ctx)
{
    struct channel *channel = ctx;
    each_source(channel, call_tick, NULL);
    note_now_and_then(channel, clock_now_ns());
    push(channel);
    plan_tick(channel);
}

/* ---- its life ---- */

static void tell_off(struct channel *channel, size_t i, const struct err *err)
{
    if (!channel->states[i] && err->code)
        observe_note(channel->observer, NOTE(source_off, .source = channel->sources[i]->name, .reason = err->text));
}

static void start_source(struct channel *channel, size_t i)
{
    struct err err = {0};
    channel->states[i] = channel->sources[i]->start(channel->observer, &err);
    tell_off(channel, i, &err);
}

static void start_sources(struct channel *channel)
{
    const struct observe_source *const *sources = channel->sources;
    for (size_t i = 0; sources[i] && i < SOURCES_MOST; i++)
        if (sources[i]->ready)
            start_source(channel, i);
    for (size_t i = 0; sources[i] && i < SOURCES_MOST; i++)
        if (!sources[i]->ready)
            start_source(channel, i);
    for (size_t i = 0; sources[i] && i < SOURCES_MOST; i++) {
        struct err err = {0};
        if (!channel->states[i] || !sources[i]->ready || sources[i]->ready(channel->states[i], &err))
            continue;
        channel->states[i] = NULL;
        tell_off(channel, i, &err);
    }
}

_Noreturn void channel_serve(struct observer *observer, const struct observe_source *const *sources, int fd)
{
    struct channel channel = {.observer = observer, .fd = fd, .sources = sources};
    observer->channel = &channel;
    if (loop_new(&observer->loop) < 0)
        _exit(1);
    start_sources(&channel);
    channel.input = loop_add_fd(observer->loop, fd, EPOLLIN, on_channel, &channel);
    channel.timer = loop_add_timer(observer->loop, NS_PER_SECOND, 0, on_tick, &channel);
    if (!channel.input || !channel.timer)
        _exit(1);
    add_process(&channel, observer->root, getppid(), "", 0);
    plan_tick(&channel);
    /* scry run waits for this: what the sources need of the held command they have. */
    if (channel_put_take(&channel.out, json_pack("{s:s}", "type", CHANNEL_READY)))
        push(&channel);
    loop_run(observer->loop);
    _exit(1);
}
