/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What processes say when they begin.
 *
 * The handshake (shm/area.h): agents connect, say who they are, and get their area. Who they really are is the kernel's
 * word, not theirs.
 *
 * Commands (shm/area.h): all processes that have the agent loaded, traced or not, write their command line into a
 * fifo. It is read together, some twenty times a second at most, and handed to monitor->on_command.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/system/clock.h"
#include "base/system/file.h"
#include "base/system/log.h"
#include "base/system/loop.h"
#include "monitor/engine/monitor.h"
#include "monitor/recorder/agent.h"
#include "probe/cells.h"
#include "probe/proc.h"
#include "shm/area.h"
#include "shm/waits.h"

/* ---- commands ---- */

enum {
    FIFO_BYTES = 1 << 20, /* what a user may have; thousands of commands between two readings */
    READ_BYTES = 1 << 16,
    READS = 64, /* at once: others have their turn, too */
};

struct command_reader {
    char path[192];
    int fd;
    struct throttle *source;
    size_t kept; /* of a note that is not whole yet */
    _Alignas(8) char bytes[READ_BYTES];
};

/* false: it is no note. */
static bool note_take(struct monitor *monitor, const struct command_note *note)
{
    size_t size = note->size - sizeof *note;
    if (note->directory == 0 || note->directory > size || note->texts[note->directory - 1])
        return false;
    const struct agent_command command = {.pid = note->pid,
                                          .time_ns = note->time_ns,
                                          .directory = span_of(note->texts, strnlen(note->texts, note->directory)),
                                          .args = span_of(note->texts + note->directory, size - note->directory),
                                          .whole = !(note->flags & COMMAND_CUT)};
    if (monitor->on_command)
        monitor->on_command(monitor, &command);
    return true;
}

/* Takes the whole notes out of the bytes. What is no note came from elsewhere, and nobody knows where the next begins.
 */
static void notes_take(struct monitor *monitor, struct command_reader *reader)
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
        if (!known || !note_take(monitor, (const struct command_note *)(const void *)bytes)) {
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
        notes_take(agents->monitor, reader);
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
    throttle_free(reader->source);
    if (reader->fd >= 0)
        close(reader->fd);
    free(reader);
}

/* Makes the fifo, also anew. Where it cannot be, processes are not heard: that is logged. */
static void agent_commands_listen(struct agents *agents)
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
        reader->source = throttle_new(agents->monitor->loop, reader->fd, COMMANDS_REST_NS, on_commands, agents);
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

static void agent_commands_close(struct agents *agents)
{
    struct command_reader *reader = agents->commands;
    agents->commands = NULL;
    if (reader && file_is_at(reader->path, reader->fd))
        unlink(reader->path);
    reader_free(reader);
}

/* ---- the handshake ---- */

static void connection_free(struct agent_connection *connection)
{
    struct agents *agents = connection->agents;
    loop_remove(connection->source);
    close(connection->fd);
    if (connection->previous)
        connection->previous->next = connection->next;
    else
        agents->connections = connection->next;
    if (connection->next)
        connection->next->previous = connection->previous;
    agents->connection_count--;
    free(connection);
}

/* Answers; with a file, that and the other two descriptors go along. 0 or -errno. */
static int send_welcome(const struct agents *agents, int fd, const struct area_file *file, int status,
                        const char *reason)
{
    struct agent_welcome welcome = {
        .magic = AREA_MAGIC, .version = AREA_VERSION, .status = status, .hold_ms = wait_policies[WAIT_MAIN].limit_ms};
    snprintf(welcome.reason, sizeof welcome.reason, "%s", reason);
    struct iovec part = {&welcome, sizeof welcome};
    int fds[3];
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof fds)];
    } control = {0};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (file) {
        fds[0] = file->fd;
        fds[1] = agents->bell_fd;
        fds[2] = cells_fd(agents->monitor->cells);
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof control.bytes;
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(sizeof fds);
        memcpy(CMSG_DATA(head), fds, sizeof fds);
    }
    ssize_t put;
    do
        put = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (put < 0 && errno == EINTR);
    return put < 0 ? -errno : 0;
}

/* What an agent has said that is of use. */
struct greeting {
    uint32_t flags; /* enum agent_hello_flag */
    uint64_t fork_of, room, image;
    const char *job, *exe;
    const struct hello_mpi *mpi; /* NULL: it is for the functions */
};

/* What is wrong with a hello; NULL: nothing. */
static const char *check_hello(const struct agents *agents, const struct agent_hello *hello, size_t size,
                               struct greeting *ret_greeting)
{
    const char *job = hello->texts, *exe;
    if (size < 3 * sizeof(uint32_t) || hello->magic != AREA_MAGIC)
        return "this is no agent's hello";
    if (hello->version != AREA_VERSION)
        return "agent and monitor are of different versions of scry";
    if (!agent_hello_whole(hello, size, &exe) || strchr(job, '\n') || (*job && *job != '/'))
        return "the agent's hello is malformed";
    *ret_greeting = (struct greeting){.flags = hello->flags,
                                      .fork_of = hello->fork_of,
                                      .room = hello->room,
                                      .image = hello->image,
                                      .job = job,
                                      .exe = exe,
                                      .mpi = hello->flags & AGENT_COUNTS_MPI ? &hello->mpi : NULL};
    return ret_greeting->mpi ? agents->mpi->check(ret_greeting->mpi) : NULL;
}

/* The process that it was forked from, if the kernel says so, too. */
static struct agent *parent_of(struct agents *agents, pid_t ppid, const struct greeting *hello)
{
    struct agent *parent = hello->fork_of ? agents_find(agents, ppid) : NULL;
    bool same =
        parent && parent->files[AREA_FUNCTIONS].serial == hello->fork_of && strcmp(parent->exe, hello->exe) == 0;
    return same && strcmp(agent_job(parent), hello->job) == 0 ? parent : NULL;
}

/* Of its address space, for the area. */
static uint64_t room_wanted(const struct greeting *hello)
{
    uint32_t part = hello->flags & (AGENT_HAS_MPI | AGENT_BY_MPI) ? AREA_ROOM_PART_MPI : AREA_ROOM_PART;
    return hello->room == UINT64_MAX ? UINT64_MAX : hello->room / part;
}

/* Of a process that says hello: its entry, as it is known by now, or a new one that is not in the registry yet. */
static struct agent *entry_of(struct agents *agents, pid_t pid, const struct greeting *hello, struct err *err)
{
    struct proc_stat stat;
    struct agent *agent = agents_known(agents, pid);
    int code = proc_stat_read(pid, 0, &stat);
    if (code < 0) {
        err_errno(err, code, "pid %d", pid);
        return NULL;
    }
    bool same = agent && agent->start_ticks == stat.start_ticks;
    if (same && !hello->mpi && agent->view.area) { /* it did not take the first one */
        agent_refused(agent);
        agent = agents_known(agents, pid);
    }
    if (agent && same && !(hello->mpi && agent->mpi)) {
        agent->ppid = stat.ppid;
        return agent;
    }
    if (agent)
        agent_ended(agent);
    if (agents->count >= AGENT_LIMIT) {
        err_set(err, -EAGAIN, "%d processes are traced already", AGENT_LIMIT);
        return NULL;
    }
    agent = agent_new(agents, pid, hello->job, hello->exe, err);
    if (!agent)
        return NULL;
    agent->ppid = stat.ppid;
    agent->start_ticks = stat.start_ticks;
    agent->image = hello->image;
    agent->pidfd = proc_pidfd(pid);
    if (agent->pidfd >= 0)
        return agent;
    agent_free(agent);
    err_set(err, -ESRCH, "pid %d has ended", pid);
    return NULL;
}

/* The functions of it. */
static int make_functions(struct agent *agent, const struct greeting *hello, struct agent **ret_parent, struct err *err)
{
    agent->opens_late = true;
    agent->forked = hello->fork_of != 0;
    *ret_parent = parent_of(agent->agents, agent->ppid, hello);
    int code = agent_area_make(agent, *ret_parent, room_wanted(hello), err);
    if (code < 0)
        return code;
    agent->only_mpi = !(hello->flags & AGENT_HAS_HOOKS);
    bool forked = *ret_parent && (*ret_parent)->patching;
    if ((hello->flags & AGENT_PATCHES || forked) && !agent_patching_new(agent, forked ? *ret_parent : NULL))
        return -ENOMEM;
    if (hello->flags & AGENT_HAS_MPI)
        atomic_store(&agent->view.area->mpi, 1);
    return 0;
}

/* It could not take its area: mostly a limit of the batch system. */
static void no_room(struct agents *agents, pid_t pid, struct trace_job *job, const struct greeting *hello)
{
    struct agent *agent = hello->mpi ? agents_known(agents, pid) : agents_find(agents, pid);
    char why[128] = "there is not enough address space";
    struct note note = NOTE(untraced_space, .pid = (uint64_t)pid, .program = hello->exe);
    if (hello->flags & AGENT_NO_FILES) {
        snprintf(why, sizeof why, "its limit of open files (ulimit -n) leaves no room for three more");
        note = NOTE(untraced_files, .pid = (uint64_t)pid, .program = hello->exe);
    } else if (hello->flags & AGENT_NO_DATA) {
        note = NOTE(untraced_data, .pid = (uint64_t)pid, .program = hello->exe);
    } else if (hello->room != UINT64_MAX) {
        snprintf(why, sizeof why, "its limit of address space (ulimit -v) leaves no more than %llu KB",
                 (unsigned long long)hello->room / 1024);
        note = NOTE(untraced_limit, .pid = (uint64_t)pid, .program = hello->exe, .kilobytes = hello->room / 1024);
    }
    if (hello->mpi) {
        if (agent && agent->mpi)
            agents->mpi->refused(agent, why);
    } else if (agent) {
        agent_set_problem(agent, note);
        atomic_store(&agent->view.area->agent_state, AREA_OFF);
        agent_refused(agent);
    } else if (job) {
        job_set_problem(job, note);
    }
}

/* It did not wait any longer, or has ended. */
static bool has_gone(int fd)
{
    return wait_fd(fd, POLLRDHUP, 0) & (POLLRDHUP | POLLHUP | POLLERR);
}

static bool peer_is_ours(int fd, struct ucred *ret_peer)
{
    socklen_t len = sizeof *ret_peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, ret_peer, &len) == 0 && ret_peer->uid == geteuid() &&
           ret_peer->pid > 0;
}

/* It cannot have what it asks for. */
static void hello_refuse(struct trace_job *job, pid_t pid, const struct greeting *hello, const struct err *why)
{
    if (hello->mpi) {
        log_warning("%s", why->text);
        return;
    }
    log_warning("pid %d is not traced: %s", pid, why->text);
    if (!job)
        return;
    if (why->code == -ESRCH || why->code == -ENOENT) /* it did not wait, and is gone */
        job_note_late(job);
    else
        job_note_refused(job, pid, why->text);
}

static void process_admit(struct agents *agents, int fd, pid_t pid, const struct greeting *hello, struct trace_job *job)
{
    struct err err = {.text = ""};
    struct agent *parent = NULL, *agent = entry_of(agents, pid, hello, &err);
    int code = !agent       ? err.code
               : hello->mpi ? agents->mpi->make(agent, hello->mpi, &err)
                            : make_functions(agent, hello, &parent, &err);
    if (code < 0) {
        hello_refuse(job, pid, hello, &err);
        send_welcome(agents, fd, NULL, code, err.text);
        if (agent && !agent->announced)
            agent_free(agent);
        return;
    }
    const struct area_file *file = &agent->files[hello->mpi ? AREA_MPI : AREA_FUNCTIONS];
    if (!agent->announced)
        agent_enter(agent);
    if (hello->mpi) {
        agent_note(agent);
        agents->mpi->came(agent);
    } else {
        agent_came(agent, parent); /* first: mostly it can be let go at once, and then waits only once */
    }
    if (agent->ended)
        send_welcome(agents, fd, NULL, -ESRCH, "it has ended");
    else if (send_welcome(agents, fd, file, 0, "") < 0) /* it did not wait */
        hello->mpi ? agents->mpi->refused(agent, NULL) : agent_refused(agent);
    else if (!hello->mpi) {
        agent_open(agent);
        agent_area_started(agent);
    }
    log_debug("agent pid=%d state=%s area=%s bytes=%llu", pid, agent->ended ? "ended" : "traced",
              LOG_TEXT(file->path ? file->path : ""), (unsigned long long)file->memory_taken);
}

/* peer NULL: it is none of ours. */
static void take_hello(struct agents *agents, int fd, const struct agent_hello *from, size_t size,
                       const struct ucred *peer)
{
    struct greeting greeting, *hello = &greeting;
    const char *wrong = check_hello(agents, from, size, &greeting);
    if (!peer)
        wrong = "only processes of the monitor's own user that it can see are traced";
    if (wrong) {
        log_info("an agent was refused: %s", wrong);
        log_debug("hello pid=%d refused=%s", peer ? peer->pid : 0, LOG_TEXT(wrong));
        send_welcome(agents, fd, NULL, -EPROTO, wrong);
        return;
    }
    log_debug("hello pid=%d hooks=%d mpi=%d counts_mpi=%d fork=%d flags=%#x job=%s program=%s", peer->pid,
              !!(hello->flags & AGENT_HAS_HOOKS), !!(hello->flags & AGENT_HAS_MPI), hello->mpi != NULL,
              hello->fork_of != 0, hello->flags, LOG_TEXT(hello->job), LOG_TEXT(hello->exe));
    struct agent *before = agents_known(agents, peer->pid);
    if (before && before->image != hello->image) { /* it has executed another program */
        before->gone = true;
        agent_ended(before);
    }
    struct trace_job *job = *hello->job ? job_of_program(agents, hello->job) : NULL;
    if (hello->flags & AGENT_MPI_NO_ROOM) {
        if (job && !job->mpi_no_room++)
            job->mpi_room = hello->room;
        return;
    }
    bool bare = !(hello->flags & (AGENT_HAS_HOOKS | AGENT_HAS_MPI | AGENT_COUNTS_MPI));
    if (bare && job)
        job_note_program(job, hello->exe);
    if (job && hello->flags & AGENT_PATCHES)
        job->patches = true;
    if (bare && !(hello->flags & AGENT_PATCHES))
        return;
    if (job && hello->flags & AGENT_HAS_HOOKS)
        job->hooked = true;
    if (job && hello->flags & AGENT_CONSTRUCTED)
        job->constructed += hello->flags >> AGENT_CONSTRUCTED_SHIFT;
    if (hello->flags & AGENT_LEFT_ALONE) {
        if (job)
            job->forks.left_alone++;
        return;
    }
    if (strchr(hello->exe, '\n')) { /* lines of text have it: of traces, of /proc/self/maps */
        struct err err;
        err_set(&err, -EINVAL, "the path of its program has a newline");
        hello_refuse(job, peer->pid, hello, &err);
        send_welcome(agents, fd, NULL, err.code, err.text);
        return;
    }
    bool small = !hello->mpi && room_wanted(hello) < AREA_SMALLEST;
    bool gave_up = hello->flags & (AGENT_NO_ROOM | AGENT_NO_FILES | AGENT_NO_DATA);
    if (small || gave_up)
        no_room(agents, peer->pid, job, hello);
    if (gave_up) /* no answer is waited for */
        return;
    if (small)
        send_welcome(agents, fd, NULL, -ENOMEM, "there is not enough address space");
    else if (!hello->mpi && has_gone(fd)) /* many came at once: those that still wait are to be answered in time */
        job_note_late(job);
    else
        process_admit(agents, fd, peer->pid, hello, job);
}

static void connection_readable(void *ctx, int fd, uint32_t events)
{
    struct agent_connection *connection = ctx;
    struct agents *agents = connection->agents;
    static struct agent_hello hello; /* 8 KB; of this one thread */
    (void)events;
    struct iovec part = {&hello, sizeof hello};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    ssize_t got = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        if (!connection->source)
            connection->source = loop_add_fd(agents->monitor->loop, fd, EPOLLIN, connection_readable, connection);
        if (!connection->source)
            connection_free(connection);
        return;
    }
    connection->heard = true;
    if (message.msg_flags & MSG_TRUNC)
        got = 0; /* longer than a hello is none */
    if (got > 0 || (message.msg_flags & MSG_TRUNC)) {
        struct ucred credentials;
        const struct ucred *peer = peer_is_ours(fd, &credentials) ? &credentials : NULL;
        if (peer && agents->monitor->on_hello)
            agents->monitor->on_hello(agents->monitor, peer->pid);
        take_hello(agents, fd, &hello, (size_t)got, peer);
    }
    connection_free(connection);
}

static unsigned connection_limit(void)
{
    struct rlimit files = {.rlim_cur = RLIM_INFINITY};
    getrlimit(RLIMIT_NOFILE, &files);
    return files.rlim_cur / CONNECTION_SHARE < CONNECTION_LIMIT ? (unsigned)(files.rlim_cur / CONNECTION_SHARE)
                                                                : CONNECTION_LIMIT;
}

/* An agent says hello as soon as it is connected: who has not for longest does not mean to. False: there is nobody. */
static bool drop_oldest(struct agents *agents)
{
    struct agent_connection *oldest = NULL;
    for (struct agent_connection *each = agents->connections; each; each = each->next)
        oldest = each->heard ? oldest : each;
    if (oldest)
        connection_free(oldest);
    return oldest != NULL;
}

/* What processes noted while the monitor did not answer (agent/hooks/ask.c). */
static void unlink_mark(const struct agents *agents)
{
    char path[sizeof agents->socket_path + sizeof ".stopped"];
    snprintf(path, sizeof path, "%s.stopped", agents->socket_path);
    unlink(path);
}

static void accept_agents(void *ctx, int fd, uint32_t events)
{
    struct agents *agents = ctx;
    uint64_t until = clock_now_ns() + HELLO_TURN_NS; /* a thousand may come at once; tools are answered, too */
    (void)events;
    unlink_mark(agents);
    while (clock_now_ns() < until) {
        int peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (peer < 0 && (errno == EMFILE || errno == ENFILE) && drop_oldest(agents))
            continue;
        if (peer < 0)
            return;
        if (agents->connection_count >= connection_limit())
            drop_oldest(agents);
        struct agent_connection *connection = calloc(1, sizeof *connection);
        if (!connection) {
            close(peer);
            continue;
        }
        *connection = (struct agent_connection){.agents = agents, .fd = peer, .next = agents->connections};
        if (connection->next)
            connection->next->previous = connection;
        agents->connections = connection;
        agents->connection_count++;
        connection_readable(connection, peer, EPOLLIN); /* mostly its hello is there already */
    }
}

void agent_hello_hear(struct agents *agents)
{
    accept_agents(agents, agents->listen_fd, EPOLLIN);
}

bool agent_hello_waits(const struct agents *agents)
{
    return wait_fd(agents->listen_fd, POLLIN, 0);
}

static void stop_listening(struct agents *agents)
{
    loop_remove(agents->listen_source);
    agents->listen_source = NULL;
    if (agents->listen_fd >= 0)
        close(agents->listen_fd);
    if (agents->listen_file >= 0)
        close(agents->listen_file);
    agents->listen_fd = agents->listen_file = -1;
}

const char *agents_socket(const struct agents *agents)
{
    return agents->socket_path;
}

int agent_hello_listen(struct agents *agents, struct err *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int len = snprintf(agents->socket_path, sizeof agents->socket_path, "%s/agent.sock", agents->runtime);
    if (len < 0 || (size_t)len >= sizeof address.sun_path)
        return err_set(err, -ENAMETOOLONG, "%s/agent.sock is too long for a socket", agents->runtime);
    memcpy(address.sun_path, agents->socket_path, (size_t)len + 1);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return err_errno(err, -errno, "cannot make a socket");
    unlink(agents->socket_path); /* of a monitor that is gone: the caller holds the lock of this directory */
    unlink_mark(agents);
    if (fchmod(fd, 0600) < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) < 0 ||
        listen(fd, SOMAXCONN) < 0) {
        int code = -errno;
        close(fd);
        return err_errno(err, code, "cannot listen at %s", agents->socket_path);
    }
    if (agents->listen_fd >= 0)
        agent_hello_hear(agents); /* whoever has found the one before */
    stop_listening(agents);
    agents->listen_fd = fd;
    agents->listen_file = open(agents->socket_path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    agents->listen_source = loop_add_fd(agents->monitor->loop, fd, EPOLLIN, accept_agents, agents);
    agent_commands_listen(agents);
    return agents->listen_source ? 0 : err_set(err, -ENOMEM, "out of memory");
}

void agent_hello_close(struct agents *agents)
{
    agent_commands_close(agents);
    if (file_is_at(agents->socket_path, agents->listen_file)) {
        unlink(agents->socket_path);
        unlink_mark(agents);
    }
    stop_listening(agents);
    while (agents->connections)
        connection_free(agents->connections);
}
