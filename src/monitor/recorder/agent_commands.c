/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/recorder/agent_commands.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/file.h"
#include "base/system/log.h"
#include "base/system/loop.h"
#include "monitor/recorder/agents_internal.h"
#include "monitor/engine/monitor.h"
#include "shm/command.h"
#include "shm/waits.h"

enum {
    FIFO_BYTES = 1 << 20, /* what a user may have; thousands of commands between two readings */
    READ_BYTES = 1 << 16,
    READS = 64, /* at once: others have their turn, too */
};

struct command_reader {
    char path[192];
    int fd;
    struct seldom *source;
    size_t kept; /* of a note that is not whole yet */
    _Alignas(8) char bytes[READ_BYTES];
};

static struct span text_at(const char *text, size_t size)
{
    return span_of(text, strnlen(text, size));
}

/* false: it is no note. */
static bool take(struct monitor *monitor, const struct command_note *note)
{
    size_t size = note->size - sizeof *note;
    if (note->directory == 0 || note->directory > size || note->texts[note->directory - 1])
        return false;
    const struct agent_command command = {.pid = note->pid,
                                          .time_ns = note->time_ns,
                                          .directory = text_at(note->texts, note->directory),
                                          .args = span_of(note->texts + note->directory, size - note->directory),
                                          .whole = !(note->flags & COMMAND_CUT)};
    if (monitor->on_command)
        monitor->on_command(monitor, &command);
    return true;
}

/* Takes the whole notes out of the bytes. What is no note came from elsewhere, and nobody knows where the next begins.
 */
static void take_all(struct monitor *monitor, struct command_reader *reader)
{
    size_t at = 0;
    while (reader->kept - at >= sizeof(struct command_note)) {
        _Alignas(8) char bytes[PIPE_BUF];
        struct command_note head;
        memcpy(&head, reader->bytes + at, sizeof head);
        bool known = head.magic == COMMAND_MAGIC && head.size > sizeof head && head.size <= sizeof bytes;
        if (known && head.size > reader->kept - at)
            break;
        if (known)
            memcpy(bytes, reader->bytes + at, head.size);
        if (!known || !take(monitor, (const struct command_note *)(const void *)bytes)) {
            log_warning("%s: somebody wrote what is no command of a process", reader->path);
            at = reader->kept;
            break;
        }
        at += head.size;
    }
    reader->kept -= at;
    memmove(reader->bytes, reader->bytes + at, reader->kept);
}

void agent_commands_read(struct agents *agents)
{
    struct command_reader *reader = agents->commands;
    for (int i = 0; reader && i < READS; i++) {
        ssize_t got = read(reader->fd, reader->bytes + reader->kept, sizeof reader->bytes - reader->kept);
        if (got <= 0)
            return;
        reader->kept += (size_t)got;
        take_all(agents->monitor, reader);
    }
}

static void on_commands(void *ctx)
{
    agent_commands_read(ctx);
}

static void reader_free(struct command_reader *reader)
{
    if (!reader)
        return;
    seldom_free(reader->source);
    if (reader->fd >= 0)
        close(reader->fd);
    free(reader);
}

void agent_commands_listen(struct agents *agents)
{
    struct command_reader *reader = calloc(1, sizeof *reader);
    if (!reader)
        return;
    reader->fd = -1;
    snprintf(reader->path, sizeof reader->path, "%s/" COMMAND_FIFO, agents->runtime);
    unlink(reader->path);
    /* open for writing, too: else it would be at its end whenever nobody writes */
    if (mkfifo(reader->path, 0600) == 0)
        reader->fd = open(reader->path, O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
    if (reader->fd >= 0) {
        fcntl(reader->fd, F_SETPIPE_SZ, FIFO_BYTES);
        reader->source = seldom_new(agents->monitor->loop, reader->fd, COMMANDS_REST_NS, on_commands, agents);
    }
    if (!reader->source) {
        log_warning("%s: commands of short processes are not known: %s", reader->path, strerror(errno));
        reader_free(reader);
        return;
    }
    agent_commands_read(agents); /* what was said at the one before */
    reader_free(agents->commands);
    agents->commands = reader;
}

void agent_commands_close(struct agents *agents)
{
    struct command_reader *reader = agents->commands;
    agents->commands = NULL;
    if (reader && file_is_at(reader->path, reader->fd))
        unlink(reader->path);
    reader_free(reader);
}
