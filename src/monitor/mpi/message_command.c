/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is to be done with messages by a process itself, at its next MPI call: one after the other. The content goes
 * through a file beside the areas, which is only there meanwhile.
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
#include "base/system/file.h"
#include "monitor/mpi/internal.h"
#include "monitor/mpi/message_internal.h"
#include "monitor/engine/monitor.h"
#include "shm/waits.h"

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

static void put_first(struct mpi_process *process);

static void finish(struct mpi_message_job *job, struct mpi_message_result *result)
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

static void fail(struct mpi_message_job *job, int code, const char *text)
{
    struct mpi_message_result result = {.code = code};
    snprintf(result.text, sizeof result.text, "%s", text);
    finish(job, &result);
}

static void fail_unheard(struct mpi_message_job *job)
{
    struct mpi_process *process = job->process;
    char text[200];
    snprintf(text, sizeof text,
             "process %d (rank %d) did not come to another MPI call in time, which is where it could be done: nothing "
             "was done",
             process->agent->pid, process->head->rank);
    fail(job, -ETIMEDOUT, text);
}

/* It did not come to its next call; or it is at it and takes long. */
static void on_time(void *ctx)
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
    fail_unheard(job);
    put_first(process);
}

static void put(struct mpi_message_job *job, struct mpim *block)
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
    atomic_fetch_xor(&process->head->metrics, MPIA_METRIC_POKE); /* it looks around at its next call */
}

static void put_first(struct mpi_process *process)
{
    struct mpi_message_job *job = process->messages->first;
    struct mpim *block = mpi_messages_of(process);
    if (job && !job->put && block && atomic_load(&block->command.state) == MPIM_COMMAND_FREE)
        put(job, block);
}

void mpi_message_commands_look(struct mpi_process *process, struct mpim *block)
{
    struct mpi_message_job *job = process->messages->first;
    struct mpim_command *command = &block->command;
    if (atomic_load(&command->state) != MPIM_COMMAND_DONE)
        return;
    if (!job || !job->put) { /* what a monitor before this one wanted */
        atomic_store(&command->state, MPIM_COMMAND_FREE);
        put_first(process);
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
    finish(job, &result);
    put_first(process);
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
        fail(process->messages->first, -ESRCH, "the process has ended");
}

int mpi_message_do(struct mpi_process *process, const struct mpi_message_command *command, uint64_t patience_ns,
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
    if (code == 0 && !(job->timer = loop_add_timer(agents->monitor->loop, patience_ns, 0, on_time, job)))
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
    put_first(process);
    return 0;
}
