/* SPDX-License-Identifier: Apache-2.0 */
#include "service/job/follow.h"

#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "base/system/clock.h"
#include "lang/value.h"
#include "probe/proc.h"
#include "shm/waits.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { JOB_COMMAND_BYTES = 16384 }; /* bytes of arguments to keep */

/* The limit for all command lines, so that an answer of the monitor has room for them, escaped. */
enum { BYTES_MOST = 12 << 20 };
static size_t bytes_kept;

static size_t size_of(const struct job_command *command)
{
    return (size_t)(command->args - (const char *)command) + command->args_size;
}

struct job_command *job_command_new(struct span directory, struct span args, bool whole, uint64_t time_ns)
{
    size_t kept = args.len < JOB_COMMAND_BYTES ? args.len : JOB_COMMAND_BYTES;
    size_t size = sizeof(struct job_command) + directory.len + 1 + kept + 1;
    struct job_command *command = kept && bytes_kept + size <= BYTES_MOST ? malloc(size) : NULL;
    if (!command)
        return NULL;
    char *to = command->directory + directory.len + 1;
    *command = (struct job_command){.users = 1, .time_ns = time_ns, .whole = whole && kept == args.len, .args = to};
    memcpy(command->directory, directory.ptr, directory.len);
    to[-1] = 0;
    memcpy(to, args.ptr, kept);
    if (to[kept - 1])
        to[kept++] = 0;
    command->args_size = kept;
    bytes_kept += size_of(command);
    return command;
}

struct job_command *job_command_read(pid_t pid)
{
    _cleanup_(buf_done) struct buf args = BUF_INIT;
    char directory[PATH_MAX] = "";
    if (proc_cmdline(pid, &args) < 0 || args.failed)
        return NULL;
    if (proc_cwd(pid, directory, sizeof directory) < 0)
        directory[0] = 0;
    return job_command_new(span_str(directory), span_of(args.data, args.len), true, clock_now_ns());
}

struct job_command *job_command_share(struct job_command *command)
{
    if (command)
        command->users++;
    return command;
}

void job_command_drop(struct job_command *command)
{
    if (!command || --command->users)
        return;
    bytes_kept -= size_of(command);
    free(command);
}

void job_command_print(const struct job_command *command, struct buf *out)
{
    PUT(out, command ? command->whole + 2 * !command->said : -1, command ? command->directory : "");
    put_strings(out, command ? span_of(command->args, command->args_size) : span_of("", 0), 0);
}

void job_exits_open(struct job_exits *exits)
{
    *exits = (struct job_exits){.fd = -1};
    int fd = exits_open(&exits->why);
    exits->fd = fd < 0 ? -1 : fd;
}

void job_exits_close(struct job_exits *exits)
{
    if (exits->fd >= 0)
        close(exits->fd);
    exits->fd = -1;
    free(exits->list);
    exits->list = NULL;
    exits->count = exits->room = 0;
}

static void exit_take(void *ctx, const struct exit_event *event)
{
    struct job_exits *exits = ctx;
    exits->heard++;
    if (GROW(exits->list, exits->count, exits->room))
        exits->list[exits->count++] = *event;
    else
        exits->lost_ns = clock_now_ns();
}

#define JUST_THEN (UINT64_C(1) << 30) /* nanoseconds: threads take a while to end on a busy node */

int job_exits_status(int known, uint64_t known_ns, const struct exit_event *event)
{
    bool is_group = known_ns && event->time_ns - known_ns < JUST_THEN;
    return event->status == 0 && is_group ? known : event->status;
}

static int by_pid(const void *a, const void *b)
{
    const struct exit_event *x = a, *y = b;
    if (x->pid != y->pid)
        return x->pid < y->pid ? -1 : 1;
    return (x->time_ns > y->time_ns) - (x->time_ns < y->time_ns);
}

void job_exits_hear(struct job_exits *exits)
{
    if (exits->fd < 0)
        return;
    int code = exits_read(exits->fd, exit_take, exits);
    if (code < 0)
        exits->lost_ns = clock_now_ns();
    if (code < 0 && code != -ENOBUFS) {
        err_errno(&exits->why, code, "the kernel's process events cannot be read any more");
        exits->silent = true;
    }
}

void job_exits_read(struct job_exits *exits)
{
    job_exits_hear(exits);
    if (exits->count > 1)
        qsort(exits->list, exits->count, sizeof *exits->list, by_pid);
    size_t kept = 0;
    for (size_t i = 0; i < exits->count; i++) {
        struct exit_event event = exits->list[i], *last = kept ? &exits->list[kept - 1] : NULL;
        bool again = last && last->pid == event.pid;
        if (again)
            event.status = job_exits_status(last->status, last->time_ns, &event);
        exits->list[again ? kept - 1 : kept++] = event;
    }
    exits->count = kept;
}

const struct exit_event *job_exits_find(const struct job_exits *exits, pid_t pid)
{
    size_t low = 0, high = exits->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (exits->list[middle].pid == pid)
            return &exits->list[middle];
        if (exits->list[middle].pid < pid)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

const char *job_exits_why(const struct job_exits *exits, uint64_t end_ns)
{
    if (exits->lost_ns >= end_ns && exits->lost_ns)
        return "so many processes ended at once that the kernel dropped some of its events";
    return exits->why.text[0] ? exits->why.text : "the kernel sent no event for its end";
}

static struct job_ended *exit_slot(const struct job_ended_list *list, uint64_t seq)
{
    return &list->ring[seq % list->room];
}

static void close_pidfd(struct job_ended_list *list, struct job_ended *ended)
{
    if (ended->pidfd < 0)
        return;
    close(ended->pidfd);
    ended->pidfd = -1;
    list->pidfds--;
}

static void await_no_more(struct job_ended_list *list, struct job_ended *ended)
{
    list->awaiting -= ended->awaits;
    ended->awaits = false;
}

static void exit_know(struct job_ended_list *list, struct job_ended *ended, int status, enum job_ended_source source)
{
    ended->status = status;
    ended->source = source;
    close_pidfd(list, ended);
    await_no_more(list, ended);
}

/* Asks for the status as long as it may still come. */
static void ended_settle(struct job_ended_list *list, struct job_ended *ended)
{
    if (ended->pidfd < 0 && !ended->awaits)
        return;
    uint64_t now = clock_now_ns(), event_ns = list->lost_ns >= ended->end_ns ? ENDED_LOST_NS : ENDED_EVENT_NS;
    int status, code = ended->pidfd < 0 ? -EBADF : proc_pidfd_exit_status(ended->pidfd, &status);
    if (code == 0)
        exit_know(list, ended, status, JOB_ENDED_BY_PIDFD);
    else if (code != -EAGAIN || now > ended->end_ns + ENDING_NS)
        close_pidfd(list, ended);
    if (ended->awaits && now > ended->end_ns + event_ns) {
        list->in_vain++;
        await_no_more(list, ended);
    }
}

static void ended_leave(struct job_ended_list *list, struct job_ended *ended)
{
    close_pidfd(list, ended);
    await_no_more(list, ended);
    job_command_drop(ended->command);
    ended->command = NULL;
}

/* false: out of memory. */
static bool make_room(struct job_ended_list *list)
{
    size_t count = list->next - list->first;
    if (count < list->room)
        return true;
    if (list->room == JOB_ENDED_KEPT) {
        ended_leave(list, exit_slot(list, list->first++));
        list->forgotten++;
        return true;
    }
    size_t room = list->room ? list->room * 4 : 64;
    struct job_ended *more = calloc(room, sizeof *more);
    if (!more)
        return false;
    for (uint64_t seq = list->first; list->room && seq < list->next; seq++)
        more[seq % room] = *exit_slot(list, seq);
    free(list->ring);
    list->ring = more;
    list->room = room;
    return true;
}
_Static_assert(JOB_ENDED_KEPT == 64 * 4 * 4 * 4 * 4, "rooms grow to exactly this");

void job_ended_add(struct job_ended_list *list, const struct job_ended *ended)
{
    if (!make_room(list)) {
        list->forgotten++;
        if (ended->pidfd >= 0)
            close(ended->pidfd);
        job_command_drop(ended->command);
        return;
    }
    struct job_ended *added = exit_slot(list, list->next++);
    *added = *ended;
    list->pidfds += added->pidfd >= 0;
    list->awaiting += added->awaits;
    if (added->source != JOB_ENDED_NOT_KNOWN) {
        exit_know(list, added, ended->status, ended->source);
        return;
    }
    added->status = JOB_ENDED_STATUS_UNKNOWN;
    ended_settle(list, added);
}

void job_ended_forget(struct job_ended_list *list, uint64_t cursor)
{
    if (cursor > list->next)
        return;
    while (list->first < cursor)
        ended_leave(list, exit_slot(list, list->first++));
}

uint64_t job_ended_known(struct job_ended_list *list)
{
    uint64_t seq = list->first;
    for (; seq < list->next; seq++) {
        ended_settle(list, exit_slot(list, seq));
        if (exit_slot(list, seq)->pidfd >= 0 || exit_slot(list, seq)->awaits)
            break;
    }
    return seq;
}

void job_ended_event(struct job_ended_list *list, const struct exit_event *event)
{
    size_t left = list->awaiting;
    for (uint64_t seq = list->next; left && seq-- > list->first;) {
        struct job_ended *ended = exit_slot(list, seq);
        left -= ended->awaits;
        if (!ended->awaits || ended->pid != event->pid || event->time_ns < ended->start_ns)
            continue;
        int status = job_exits_status(ended->early_status, ended->early_ns, event);
        if (event->time_ns >= ended->event_ns) {
            exit_know(list, ended, status, JOB_ENDED_BY_EVENT);
            return;
        }
        ended->early_status = status;
        ended->early_ns = event->time_ns;
    }
}

struct job_ended *job_ended_find(struct job_ended_list *list, pid_t pid, uint64_t time_ns)
{
    for (uint64_t seq = list->next; seq-- > list->first;) {
        struct job_ended *ended = exit_slot(list, seq);
        if (ended->pid == pid && ended->start_ns <= time_ns)
            return ended->end_ns >= time_ns ? ended : NULL;
    }
    return NULL;
}

const struct job_ended *job_ended_at(const struct job_ended_list *list, uint64_t seq)
{
    return exit_slot(list, seq);
}

void job_ended_done(struct job_ended_list *list)
{
    job_ended_forget(list, list->next);
    free(list->ring);
    *list = (struct job_ended_list){0};
}
