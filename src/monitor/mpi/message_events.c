/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What MPI processes are told of messages, and what they tell.
 *
 * What is to be done with messages by a process itself, at its next MPI call: one after the other. The content goes
 * through a file beside the areas, which is only there meanwhile.
 *
 * What processes tell of their messages: a thread waits in its MPI call until the action lists have run. While those of
 * a longer queue run, its process posts no receive.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/file.h"
#include "monitor/engine/event.h"
#include "monitor/engine/monitor.h"
#include "monitor/mpi/internal.h"
#include "monitor/mpi/messages.h"
#include "shm/waits.h"

/* ---- what is to be done ---- */

#define FILE_PREFIX "message-"

struct mpi_message_job {
    struct mpi_process *process;
    struct mpi_message_command command;
    mpi_message_done *done;
    void *ctx;
    struct loop_source *timer;
    char path[MPIM_PATH]; /* "": no file */
    bool put;
    struct mpi_message_job *next;
};

/* ---- the content ---- */

static int content_write(const char *path, const uint8_t *content, uint64_t bytes)
{
    _cleanup_(closep) int fd = file_open_own(AT_FDCWD, path, O_WRONLY | O_CREAT | O_EXCL);
    return fd < 0 ? fd : file_write_all(fd, content, bytes);
}

static int content_read(const char *path, uint64_t bytes, uint8_t **ret_content)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    int code = fd < 0 || fstat(fd, &st) < 0 ? -errno : st.st_size != (off_t)bytes ? -EIO : 0;
    *ret_content = code == 0 ? malloc(bytes + 1) : NULL;
    if (code == 0 && !*ret_content)
        code = -ENOMEM;
    for (uint64_t at = 0; code == 0 && at < bytes;) {
        ssize_t got = read(fd, *ret_content + at, bytes - at);
        if (got <= 0)
            code = got < 0 ? -errno : -EIO;
        else
            at += (uint64_t)got;
    }
    if (fd >= 0)
        close(fd);
    if (code < 0) {
        free(*ret_content);
        *ret_content = NULL;
    }
    return code;
}

/* ---- one after the other ---- */

static void command_put_first(struct mpi_process *process);

static void job_finish(struct mpi_message_job *job, struct mpi_message_result *result)
{
    struct mpi_process *process = job->process;
    struct monitor *monitor = process->registry->agents->monitor;
    struct mpi_message_job **at = &process->messages->first, *before = NULL;
    for (; *at != job; at = &(*at)->next)
        before = *at;
    *at = job->next;
    if (process->messages->last == job)
        process->messages->last = before;
    loop_remove(job->timer);
    if (*job->path)
        unlink(job->path);
    monitor_enter(monitor);
    job->done(job->ctx, result);
    monitor_leave(monitor);
    free(result->content);
    free(job);
}

static void job_fail(struct mpi_message_job *job, int code, const char *text)
{
    struct mpi_message_result result = {.code = code};
    snprintf(result.text, sizeof result.text, "%s", text);
    job_finish(job, &result);
}

static void job_fail_unheard(struct mpi_message_job *job)
{
    struct mpi_process *process = job->process;
    char text[200];
    snprintf(text, sizeof text,
             "process %d (rank %d) did not come to another MPI call in time, which is where it could be done: nothing "
             "was done",
             process->agent->pid, process->head->rank);
    job_fail(job, -ETIMEDOUT, text);
}

/* It did not come to its next call; or it is at it and takes long. */
static void job_on_time(void *ctx)
{
    struct mpi_message_job *job = ctx;
    struct mpi_process *process = job->process;
    struct mpim *block = mpi_messages_of(process);
    uint32_t put = MPIM_COMMAND_PUT;
    if (job->put && block && !atomic_compare_exchange_strong(&block->command.state, &put, MPIM_COMMAND_FREE)) {
        mpi_message_commands_look(process, block);
        if (process->messages->first == job)
            loop_set_timer(job->timer, MESSAGE_MORE_NS, 0);
        return;
    }
    job_fail_unheard(job);
    command_put_first(process);
}

static void command_put(struct mpi_message_job *job, struct mpim *block)
{
    struct mpi_process *process = job->process;
    struct mpim_command *command = &block->command;
    command->kind = job->command.kind;
    command->serial = ++process->messages->serial;
    command->comm = mpi_comm_number(process, job->command.comm);
    command->peer = job->command.peer;
    command->tag = job->command.tag;
    command->k = job->command.k;
    command->count = job->command.count;
    command->bytes = job->command.bytes;
    snprintf(command->path, sizeof command->path, "%s", job->path);
    job->put = true;
    atomic_store(&command->state, MPIM_COMMAND_PUT);
    atomic_fetch_add(&process->head->metrics, MPIA_METRIC_POKE); /* it looks around at its next call */
}

static void command_put_first(struct mpi_process *process)
{
    struct mpi_message_job *job = process->messages->first;
    struct mpim *block = mpi_messages_of(process);
    if (job && !job->put && block && atomic_load(&block->command.state) == MPIM_COMMAND_FREE)
        command_put(job, block);
}

void mpi_message_commands_look(struct mpi_process *process, struct mpim *block)
{
    struct mpi_message_job *job = process->messages->first;
    struct mpim_command *command = &block->command;
    if (atomic_load(&command->state) != MPIM_COMMAND_DONE)
        return;
    if (!job || !job->put) { /* what a monitor before this one wanted */
        atomic_store(&command->state, MPIM_COMMAND_FREE);
        command_put_first(process);
        return;
    }
    struct mpi_message_result result = {
        .code = command->result, .done = command->done, .k = command->k, .bytes = command->bytes};
    snprintf(result.text, sizeof result.text, "%.*s", (int)sizeof command->text - 1, command->text);
    if (result.code == 0 && job->command.wants_content) {
        int code = content_read(job->path, result.bytes, &result.content);
        if (code < 0) {
            result.code = code;
            snprintf(result.text, sizeof result.text, "it was taken out of the queue, but its content is lost");
        }
    }
    atomic_store(&command->state, MPIM_COMMAND_FREE);
    job_finish(job, &result);
    command_put_first(process);
}

void mpi_message_commands_adopt(struct mpi_process *process)
{
    struct mpim *block = mpi_messages_of(process);
    uint32_t put = MPIM_COMMAND_PUT;
    if (block && !atomic_compare_exchange_strong(&block->command.state, &put, MPIM_COMMAND_FREE))
        mpi_message_commands_look(process, block);
}

void mpi_message_files_remove(struct agents *agents)
{
    char path[PATH_MAX];
    DIR *dir = opendir(agents->rings);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (strncmp(entry->d_name, FILE_PREFIX, strlen(FILE_PREFIX)) == 0 &&
            snprintf(path, sizeof path, "%s/%s", agents->rings, entry->d_name) < (int)sizeof path)
            unlink(path);
    if (dir)
        closedir(dir);
}

void mpi_message_commands_end(struct mpi_process *process)
{
    while (process->messages->first)
        job_fail(process->messages->first, -ESRCH, "the process has ended");
}

int mpi_message_do(struct mpi_process *process, const struct mpi_message_command *command, uint64_t timeout_ns,
                   mpi_message_done *done, void *ctx, struct err *err)
{
    struct agents *agents = process->registry->agents;
    int code = mpi_messages_want(process, err);
    if (code < 0)
        return code;
    if (mpi_comm_number(process, command->comm) == UINT32_MAX && command->kind != MPIM_CLEAR)
        return err_set(err, -ESRCH, "process %d does not have that communicator (any more)", process->agent->pid);
    struct mpi_message_job *job = calloc(1, sizeof *job);
    if (!job)
        return err_set(err, -ENOMEM, "out of memory");
    *job = (struct mpi_message_job){.process = process, .command = *command, .done = done, .ctx = ctx};
    if (command->wants_content || command->kind == MPIM_INSERT) {
        int length = snprintf(job->path, sizeof job->path, "%s/" FILE_PREFIX "%d-%llu", agents->rings,
                              process->agent->pid, (unsigned long long)++agents->last_serial);
        code = length >= (int)sizeof job->path
                   ? -ENAMETOOLONG
                   : content_write(job->path, command->content, command->kind == MPIM_INSERT ? command->bytes : 0);
    }
    if (code == 0 && !(job->timer = loop_add_timer(agents->monitor->loop, timeout_ns, 0, job_on_time, job)))
        code = -ENOMEM;
    if (code < 0) {
        err_errno(err, code, "cannot pass the content of a message through %s", job->path);
        if (*job->path)
            unlink(job->path);
        free(job);
        return code;
    }
    job->command.content = NULL;
    struct mpi_messages *messages = process->messages;
    if (messages->last)
        messages->last->next = job;
    else
        messages->first = job;
    messages->last = job;
    command_put_first(process);
    return 0;
}

/* ---- what they tell ---- */

enum { OUT_MOST = 5 };

/* ---- raising ---- */

static uint64_t time_of(struct mpi_process *process, uint64_t ticks)
{
    uint64_t now = agent_clock_ticks(), second = process->registry->agents->ticks_per_second;
    uint64_t age = ticks < now && second ? (uint64_t)((double)(now - ticks) / (double)second * 1e9) : 0;
    uint64_t now_ns = clock_now_ns();
    return age < now_ns ? now_ns - age : now_ns;
}

static struct service *service_of(struct monitor *monitor, uint32_t event)
{
    return registry_find(monitor->registry, span_str(event == MPIM_EVENT_TAGGED ? "thread_has_received_tagged_msg"
                                                                                : "message_queue_has_been_extended"));
}

/* In `told_by`'s thread something happened to the message `id`; `owner`: whose queue or thread it concerns. */
static void raise_now(struct mpi_process *told_by, struct mpi_process *owner, const struct mpim_raise *about,
                      const struct message_id *id)
{
    struct monitor *monitor = told_by->registry->agents->monitor;
    struct process *process = process_find(monitor, owner->agent->pid);
    struct message *message = process ? message_named(monitor, id) : NULL;
    struct message_queue *queue = process ? message_queue_of(process) : NULL;
    struct mpi_queued sent;
    char sender[TOKEN_TEXT_SIZE];
    if (!message || !queue)
        return;
    mpi_message_state(told_by->registry, id, &sent);
    bool tagged = about->event == MPIM_EVENT_TAGGED;
    mpi_message_sender(told_by->registry, id, tagged ? sent.tid : (pid_t)about->tid, sender);
    struct value outputs[OUT_MOST];
    size_t count = 0;
    if (!tagged)
        outputs[count++] = value_token(span_str(queue->object.token));
    outputs[count++] = value_token(span_str(message->object.token));
    outputs[count++] = value_token(span_str(sender));
    outputs[count++] = value_uint(about->bytes);
    outputs[count++] = value_int(tagged ? about->monitor_tag : sent.monitor_tag);
    struct event event = {.service = service_of(monitor, about->event),
                          .process = process,
                          .thread = process_thread(process, tagged ? (pid_t)about->tid : owner->agent->pid),
                          .object = tagged ? NULL : &queue->object,
                          .time_ns = time_of(told_by, about->time),
                          .outputs = outputs,
                          .output_count = count};
    if (tagged && event.thread)
        event.object = &event.thread->object;
    if (event.service)
        event_raise(monitor, &event);
}

static void raise_handle(struct mpi_process *process, const struct mpim_raise *about)
{
    struct mpi_registry *registry = process->registry;
    uint64_t world = mpi_process_world(process);
    int32_t own = process->head->rank;
    struct message_id id = {.world = world, .comm = about->identity, .k = about->k, .tag = about->tag};
    if (about->event == MPIM_EVENT_TAGGED) {
        id.from = about->peer;
        id.to = own;
        raise_now(process, process, about, &id);
        return;
    }
    id.from = own;
    id.to = about->peer;
    struct mpi_process *owner = mpi_world_rank(registry, world, id.to);
    struct mpim *block = owner ? mpi_messages_of(owner) : NULL;
    if (!owner)
        return;
    if (block)
        atomic_store(&block->closed, 1);
    raise_now(process, owner, about, &id);
    if (block) {
        atomic_store(&block->closed, 0);
        area_wake(&block->closed);
    }
}

static void raises_look(struct mpi_process *process, struct mpim *block)
{
    struct mpi_messages *messages = process->messages;
    struct monitor *monitor = process->registry->agents->monitor;
    uint64_t raised = atomic_load(&block->raised);
    if (raised == messages->raised || messages->raising)
        return;
    messages->raised = raised;
    messages->raising++;
    monitor_enter(monitor);
    for (uint32_t i = 0; i < MPIM_RAISES; i++) {
        struct mpim_raise *raise = &block->raises[i];
        uint32_t state = atomic_load(&raise->state);
        if (state != MPIM_RAISE_POSTED && state != MPIM_RAISE_LATE)
            continue;
        const struct mpim_raise about = {.event = raise->event,
                                         .tid = raise->tid,
                                         .peer = raise->peer,
                                         .tag = raise->tag,
                                         .identity = raise->identity,
                                         .k = raise->k,
                                         .bytes = raise->bytes,
                                         .time = raise->time,
                                         .monitor_tag = raise->monitor_tag};
        raise_handle(process, &about);
        atomic_store(&raise->state, MPIM_RAISE_FREE);
        area_wake(&raise->state);
    }
    monitor_leave(monitor);
    messages->raising--;
}

/* ---- watching ---- */

/* Which queues are watched, as one of the job's ranks has to know. */
static void watch_one(struct mpi_process *process, struct mpim *block)
{
    struct mpi_registry *registry = process->registry;
    uint64_t world = mpi_process_world(process);
    uint32_t count = 0;
    for (struct mpi_process *other = registry->list; other; other = other->next) {
        bool watched = !other->agent->ended && other->messages && other->messages->extended && other->head->rank >= 0 &&
                       mpi_process_world(other) == world;
        if (watched && count < MPIM_WATCHED)
            atomic_store(&block->watched[count], other->head->rank);
        count += watched;
    }
    atomic_store(&block->watched_count, count);
    uint32_t events = (process->messages->tagged ? MPIM_EVENT_TAGGED : 0u) | (count ? MPIM_EVENT_EXTENDED : 0u);
    atomic_store(&block->events, events);
}

void mpi_messages_adopt(struct mpi_process *process)
{
    struct mpim *block = mpi_messages_of(process);
    if (!block)
        return;
    atomic_store(&block->events, 0);
    atomic_store(&block->watched_count, 0);
    atomic_store(&block->closed, 0);
    area_wake(&block->closed);
    for (uint32_t i = 0; i < MPIM_RAISES; i++) {
        _Atomic uint32_t *state = &block->raises[i].state;
        uint32_t posted = MPIM_RAISE_POSTED, late = MPIM_RAISE_LATE;
        if (atomic_compare_exchange_strong(state, &posted, MPIM_RAISE_FREE) ||
            atomic_compare_exchange_strong(state, &late, MPIM_RAISE_FREE))
            area_wake(state);
    }
}

/* A queue of the job is watched, or is not any more: its ranks get to know which. */
static void mpi_message_watch_all(struct mpi_process *process)
{
    uint64_t world = mpi_process_world(process);
    for (struct mpi_process *other = process->registry->list; other; other = other->next) {
        struct err ignored = {.text = ""};
        if (other->agent->ended || mpi_process_world(other) != world || mpi_messages_want(other, &ignored) < 0)
            continue;
        watch_one(other, mpi_messages_of(other));
    }
}

void mpi_messages_report(struct mpi_process *process)
{
    if (!process->messages || process->messages->raising) /* nobody has asked for anything */
        return;
    struct mpim *block = mpi_messages_of(process);
    if (!block)
        return;
    if (!process->messages->known) { /* it has come just now */
        process->messages->known = true;
        watch_one(process, block);
    }
    mpi_message_commands_look(process, block);
    raises_look(process, block);
}

void mpi_messages_started(struct mpi_process *process)
{
    uint64_t world = mpi_process_world(process);
    for (struct mpi_process *other = process->registry->list; other; other = other->next)
        if (!other->agent->ended && other->messages && other->messages->extended && mpi_process_world(other) == world) {
            mpi_message_watch_all(process);
            return;
        }
}

int mpi_messages_watch(struct mpi_process *process, uint32_t event, int change, struct err *err)
{
    int code = mpi_messages_want(process, err);
    if (!process->messages)
        return code;
    if (event == MPIM_EVENT_TAGGED)
        process->messages->tagged += (unsigned)change;
    else
        process->messages->extended += (unsigned)change;
    mpi_message_watch_all(process);
    return 0; /* it is there as soon as the process is at its next call */
}
