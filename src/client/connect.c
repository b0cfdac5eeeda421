/* SPDX-License-Identifier: Apache-2.0 */
#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/dirs.h"
#include "base/system/file.h"
#include "client/session.h"
#include "shm/waits.h"
#include "wire/stream.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Connects to the monitor: greets it, and starts it if none runs. A tool may have threads, handlers for SIGCHLD and
 * open descriptors; none of them may reach the monitor or be disturbed. */

extern char **environ;

enum {
    CONNECT_TRIES = 4, /* again if the monitor ends during the greeting */
};

/* ---- starting ---- */

/* Waits until the child has ended; false if it did not in START_TIMEOUT_MS. The status is 0 if something else in the tool
 * has taken it (a SIGCHLD handler that waits for all children, or SIGCHLD ignored): connecting shows what came of it. */
static bool client_wait_for_child(pid_t pid, int *ret_status)
{
    *ret_status = 0;
    _cleanup_(closep) int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (pidfd >= 0) {
        uint64_t until = clock_now_ns() + (uint64_t)START_TIMEOUT_MS * 1000000;
        while (!wait_fd_until(pidfd, POLLIN, until))
            if (clock_now_ns() >= until)
                return false;
    }
    while (waitpid(pid, ret_status, 0) < 0)
        if (errno != EINTR)
            break; /* ECHILD: somebody else has taken it */
    return true;
}

/* Reads the child's standard error as one line. */
static void read_message(int fd, char *text, size_t size)
{
    size_t len = 0;
    while (len + 1 < size) {
        ssize_t got = read(fd, text + len, size - 1 - len);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        len += (size_t)got;
    }
    while (len && (text[len - 1] == '\n' || text[len - 1] == ' '))
        len--;
    text[len] = 0;
    for (char *at = text; *at; at++)
        if (*at == '\n')
            *at = ' ';
}

/* Of no job and of no task (task/advance.h): others may need them, too. A malloc'ed list of borrowed strings; NULL: out of memory. */
static char **environment_of_helpers(void)
{
    size_t count = 0, kept = 0;
    while (environ[count])
        count++;
    char **list = malloc((count + 1) * sizeof *list);
    for (size_t i = 0; list && i <= count; i++)
        if (!environ[i] || (strncmp(environ[i], "SCRY_JOB=", 9) != 0 && strncmp(environ[i], "SCRY_TASK=", 10) != 0))
            list[kept++] = environ[i];
    return list;
}

int client_spawn(struct spawn spawn, pid_t *ret_pid, int ret_ends[3])
{
    _cleanup_(freep) char **environment = environment_of_helpers();
    if (!environment)
        return -ENOMEM;
    spawn.environment = environment;
    spawn.group = SPAWN_OWN_SESSION;
    return spawn_piped(&spawn, ret_pid, ret_ends);
}

int client_spawn_monitor(const char *path, pid_t *ret_pid, int ret_ends[3])
{
    char name[] = "scry-monitor", option[] = "--daemon", *argv[] = {name, option, NULL};
    return client_spawn(
        (struct spawn){.path = path, .argv = argv, .in = SPAWN_NULL, .out = SPAWN_NULL, .error = SPAWN_PIPE}, ret_pid,
        ret_ends);
}

static int run_monitor(struct err *err)
{
    char path[PATH_MAX];
    int code = dirs_libexec("scry-monitor", path, sizeof path, err);
    if (code < 0)
        return code;
    pid_t pid;
    int ends[3];
    code = client_spawn_monitor(path, &pid, ends);
    if (code < 0)
        return err_errno(err, code, "cannot start the monitor %s", path);
    _cleanup_(closep) int message = ends[STDERR_FILENO];
    /* Do not block: whoever keeps the other end open must not stop us. */
    fcntl(message, F_SETFL, O_NONBLOCK);
    int status;
    if (!client_wait_for_child(pid, &status)) {
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
        return err_set(err, -ETIMEDOUT, "the monitor %s was not ready after %d seconds", path, START_TIMEOUT_MS / 1000);
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    char text[384];
    read_message(message, text, sizeof text);
    if (*text)
        return err_set(err, WIFEXITED(status) && WEXITSTATUS(status) == LOCAL_BUSY ? -EBUSY : -ECANCELED,
                       "the monitor could not start: %s", text);
    if (WIFSIGNALED(status))
        return err_set(err, -ECANCELED, "the monitor could not start: %s was killed by signal %d", path,
                       WTERMSIG(status));
    return err_set(err, -ECANCELED, "the monitor could not start: %s ended with status %d", path, WEXITSTATUS(status));
}

int client_lock(const char *runtime, const char *name, struct err *err)
{
    char path[PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/%s", runtime, name);
    _cleanup_(closep) int lock = file_open_own(AT_FDCWD, path, O_RDWR | O_CREAT);
    if (lock < 0)
        return err_errno(err, lock, "cannot open %s", path);
    while (flock(lock, LOCK_EX) < 0)
        if (errno != EINTR)
            return err_errno(err, -errno, "cannot lock %s", path);
    return TAKE_FD(lock);
}

/* The monitor that owns the directory; 0: not known. */
static pid_t owner_of(const char *runtime)
{
    char path[PATH_MAX + 16], text[32] = "";
    snprintf(path, sizeof path, "%s/monitor.pid", runtime);
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || pread(fd, text, sizeof text - 1, 0) <= 0)
        return 0;
    return (pid_t)strtol(text, NULL, 10);
}

/* Several tools may find no monitor at the same time: one starts it, the others wait for the lock and then connect. A
 * monitor that is ending lets no other in before it has released everything; nor does one whose socket somebody has
 * removed, which makes it again. */
int client_monitor_socket(const char *runtime, const char *socket_path, struct err *err)
{
    _cleanup_(closep) int lock = client_lock(runtime, "starter.lock", err);
    if (lock < 0)
        return lock;
    struct timeout timeout = {.pid = -1};
    for (;;) {
        int fd = local_connect(socket_path, err);
        if (fd != -ENOENT && fd != -ECONNREFUSED)
            return fd;
        int code = run_monitor(err);
        if (code == 0)
            return local_connect(socket_path, err);
        if (code != -EBUSY)
            return code;
        pid_t owner = owner_of(runtime);
        if (owner != timeout.pid) {
            timeout.pid = owner;
            timeout_restart(&timeout, clock_now_ns());
        }
        struct err late;
        if (timeout_over(&timeout, OLD_MONITOR_MS, &late)) {
            if (!owner)
                return code;
            *err = late;
            return -ETIMEDOUT;
        }
        wait_fd(-1, 0, OLD_MONITOR_WAIT_MS);
    }
}

/* ---- greeting ---- */

/* WELCOME or a refusal. -ECONNRESET: the monitor ended before it answered. */
static int read_welcome(int fd, bool relayed, unsigned timeout_ms, struct frame_reader *reader, int *tool_id,
                        struct err *err)
{
    struct timeout timeout;
    struct frame frame;
    int code;
    timeout_start(&timeout, fd);
    if (relayed) /* a socket pair, whose other end is a process that waits for a network */
        timeout.pid = 0;
    while ((code = frame_reader_next(reader, &frame)) == 0) {
        if (!wait_fd(fd, POLLIN, (int)wait_policies[WAIT_ANSWER].look_ms)) {
            if (timeout_over(&timeout, timeout_ms, err))
                return -ETIMEDOUT;
            continue;
        }
        size_t size;
        char *room = frame_reader_room(reader, &size);
        if (!room)
            return err_set(err, -ENOMEM, "out of memory");
        ssize_t got = recv(fd, room, size, MSG_DONTWAIT);
        if (got < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (got <= 0)
            return err_set(err, -ECONNRESET, "the monitor closed the connection without a word");
        frame_reader_fed(reader, (size_t)got);
    }
    if (code != 1)
        return err_set(err, -EPROTO, "what answers there is no monitor of scry");
    if (frame.type == FRAME_GOODBYE)
        return err_set(err, -EPROTO, "%s%.*s",
                       relayed ? "" : "the monitor refused the connection: ", SPAN_ARG(frame.payload));
    uint32_t words[2];
    if (frame.type != FRAME_WELCOME || frame.payload.len < sizeof words)
        return err_set(err, -EPROTO, "what answers there is no monitor of scry");
    memcpy(words, frame.payload.ptr, sizeof words);
    if (le32toh(words[0]) != WIRE_VERSION)
        return err_set(err, -EPROTO,
                       "the running monitor speaks protocol %u, this program %u: let its jobs finish, or connect with "
                       "the programs of its version",
                       le32toh(words[0]), WIRE_VERSION);
    *tool_id = (int)le32toh(words[1]);
    return 0;
}

static int monitor_greet(int fd, bool relayed, unsigned timeout_ms, struct frame_reader *reader, int *tool_id,
                         struct err *err)
{
    uint32_t words[2] = {htole32(WIRE_VERSION), htole32((uint32_t)*tool_id)};
    const char *name = program_invocation_short_name ? program_invocation_short_name : "";
    _cleanup_(buf_done) struct buf hello = BUF_INIT;
    frame_append(&hello, FRAME_HELLO, 0, 0, span_of((const char *)words, sizeof words), span_str(name));
    if (hello.failed)
        return err_set(err, -ENOMEM, "out of memory");
    /* An empty socket buffer takes this at once; if the monitor is gone, read_welcome sees it. A refusal may have been
     * sent before: it is read even if the sending failed. */
    while (send(fd, hello.data, hello.len, MSG_NOSIGNAL) < 0 && errno == EINTR)
        ;
    return read_welcome(fd, relayed, timeout_ms, reader, tool_id, err);
}

static int client_relay(const char *url, struct err *err);

int client_connect(const struct client_options *options, int *tool_id, int *ret_fd, struct frame_reader *reader,
                   struct err *err)
{
    char runtime[PATH_MAX] = "", path[PATH_MAX + 16];
    if (options->elsewhere[0]) {
        _cleanup_(closep) int fd = client_relay(options->elsewhere, err);
        int code = fd < 0 ? fd : monitor_greet(fd, true, RELAY_TIMEOUT_MS, reader, tool_id, err);
        if (code == 0)
            *ret_fd = TAKE_FD(fd);
        return code;
    }
    if (options->path[0]) {
        snprintf(path, sizeof path, "%s", options->path);
    } else {
        int code = dirs_runtime(runtime, sizeof runtime, err);
        if (code < 0)
            return code;
        snprintf(path, sizeof path, "%s/monitor.sock", runtime);
    }
    for (int tries = 1;; tries++) {
        int id = *tool_id;
        _cleanup_(closep) int fd = local_connect(path, err);
        bool missing = fd == -ENOENT || fd == -ECONNREFUSED;
        if (missing && options->start == START_NEVER)
            return err_set(err, -ESRCH, "no monitor runs at %s", path);
        if (missing)
            fd = client_monitor_socket(runtime, path, err);
        if (fd < 0)
            return fd;
        int code = monitor_greet(fd, false, options->welcome_timeout_ms, reader, &id, err);
        if (code == 0) {
            *tool_id = id;
            *ret_fd = TAKE_FD(fd);
            return 0;
        }
        frame_reader_done(reader);
        *reader = (struct frame_reader){0};
        if (code != -ECONNRESET || options->start == START_NEVER || tries == CONNECT_TRIES)
            return code;
    }
}

/* A job behind a broker, or the monitor of another machine: `scry-mirror relay` or `scry-link connect` speaks with it, and
 * we with that program as with a monitor. */

/* Its first process ends at once, so that the tool has no child that it knows nothing of. */
static int spawn_relay(const char *path, bool is_link, int fd, pid_t *ret_pid)
{
    char command[8], *argv[] = {(char *)path, command, NULL};
    snprintf(command, sizeof command, "%s", is_link ? "connect" : "relay");
    int none[3];
    return client_spawn((struct spawn){.path = path, .argv = argv, .in = fd, .out = SPAWN_NULL, .error = SPAWN_NULL},
                        ret_pid, none);
}

/* Of another machine's monitor. */
static bool client_is_link(const char *url)
{
    return strncmp(url, "tls://", 6) == 0 || strncmp(url, "ssh://", 6) == 0;
}

/* A socket to what is elsewhere, or -errno. */
static int client_relay(const char *url, struct err *err)
{
    bool is_link = client_is_link(url);
    char path[PATH_MAX];
    int ends[2], code = dirs_libexec(is_link ? "scry-link" : "scry-mirror", path, sizeof path, err);
    if (code < 0)
        return code;
    if (strchr(url, '\n'))
        return err_set(err, -EINVAL, "an URL has no line ends");
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return err_errno(err, -errno, "cannot start %s", path);
    _cleanup_(closep) int ours = ends[0];
    /* a tool without standard streams gets low numbers, which the child needs for its own */
    _cleanup_(closep) int theirs = fcntl(ends[1], F_DUPFD_CLOEXEC, 3);
    close(ends[1]);
    pid_t pid = 0;
    int status;
    code = theirs < 0 ? -errno : spawn_relay(path, is_link, theirs, &pid);
    if (code < 0)
        return err_errno(err, code, "cannot start %s", path);
    _cleanup_(buf_done) struct buf line = BUF_INIT; /* not among the arguments, which everybody sees */
    buf_puts(&line, url);
    buf_putc(&line, '\n');
    if (line.failed)
        return err_set(err, -ENOMEM, "out of memory");
    ssize_t sent = send(ours, line.data, line.len, MSG_NOSIGNAL);
    explicit_bzero(line.data, line.len);
    if (sent != (ssize_t)line.len)
        return err_set(err, -EPIPE, "%s has ended at once", path);
    if (!client_wait_for_child(pid, &status)) {
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
        return err_set(err, -ETIMEDOUT, "%s did not start", path);
    }
    return TAKE_FD(ours);
}

/*
 * ---- options ----
 *
 * Options of omis_init on the command line and in the environment (7.1.3 leaves it to the implementation):
 *
 *     --omis-connect=URL        unix:PATH, the socket of a running monitor; the monitor of another machine, as
 *                               ssh://HOST or tls://HOST:PORT; or a job behind a broker, as mqtt://HOST/USER/JOB or
 *                               @NAME/USER/JOB; unix:PATH also as SCRY_CONNECT
 *     --omis-start              start this user's monitor on this node if none runs (the default without a URL)
 *     --omis-no-start           fail instead
 *     --omis-stop-at-finalize   omis_finalize asks the monitor to end once no other tool uses it
 *     --omis-timeout=SECONDS    what omis_set_timeout sets; 0: no limit
 *
 * Everything after an argument "--" is the tool's own.
 */

static const char option_prefix[] = "--omis-";

/* As link/link.h and broker/url.h have them. A path with // is a broker's socket. */
static bool is_elsewhere(const char *url)
{
    static const char *const beginnings[] = {"mqtt://", "mqtts://", "local/", "@"};
    for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++)
        if (strncmp(url, beginnings[i], strlen(beginnings[i])) == 0)
            return true;
    if (client_is_link(url))
        return true;
    return strncmp(url, "unix:", 5) == 0 && strstr(url + 5, "//");
}

static int parse_url(struct client_options *options, const char *from, const char *url, struct err *err)
{
    if (is_elsewhere(url)) {
        if ((size_t)snprintf(options->elsewhere, sizeof options->elsewhere, "%s", url) >= sizeof options->elsewhere)
            return err_set(err, -EINVAL, "%s: the URL is too long", from);
        return 0;
    }
    if (strncmp(url, "unix:", 5) != 0)
        return err_set(err, -EINVAL,
                       "%s: cannot connect to \"%s\": give the monitor's socket as unix:PATH, another machine as "
                       "ssh://HOST or tls://HOST:PORT, or a job as mqtt://HOST/USER/JOB",
                       from, url);
    url += 5;
    if (!*url || strlen(url) > 107)
        return err_set(err, -EINVAL, "%s: the path of a socket has 1 to 107 bytes, this one has %zu", from,
                       strlen(url));
    snprintf(options->path, sizeof options->path, "%s", url);
    return 0;
}

/* Parses seconds, also fractions, as milliseconds. */
static int parse_timeout(struct client_options *options, const char *text, struct err *err)
{
    char *end;
    double seconds = strtod(text, &end);
    if ((*text < '0' || *text > '9') && *text != '.')
        end = NULL;
    if (!end || end == text || *end || !(seconds >= 0 && seconds <= 1e6))
        return err_set(err, -EINVAL, "--omis-timeout expects seconds (0 to 1000000; 0: no limit), not \"%s\"", text);
    options->timeout_given = true;
    options->timeout_ms = (unsigned)(seconds * 1000 + (seconds > 0 && seconds < 0.001 ? 1 : 0.5));
    return 0;
}

static int parse_option(struct client_options *options, bool *start_asked, const char *option, struct err *err)
{
    const char *name = option + sizeof option_prefix - 1;
    if (strncmp(name, "connect=", 8) == 0)
        return parse_url(options, "--omis-connect", name + 8, err);
    if (strncmp(name, "timeout=", 8) == 0)
        return parse_timeout(options, name + 8, err);
    if (strcmp(name, "start") == 0) {
        options->start = START_IF_NEEDED;
        *start_asked = true;
    } else if (strcmp(name, "no-start") == 0) {
        options->start = START_NEVER;
        *start_asked = false;
    } else if (strcmp(name, "stop-at-finalize") == 0) {
        options->stop_at_finalize = true;
    } else {
        return err_set(err, -EINVAL,
                       "unknown option %s: expected --omis-connect=unix:PATH, --omis-start, --omis-no-start, "
                       "--omis-stop-at-finalize and --omis-timeout=SECONDS",
                       option);
    }
    return 0;
}

static bool is_option(const char *argument)
{
    return strncmp(argument, option_prefix, sizeof option_prefix - 1) == 0;
}

int client_options_take(struct client_options *ret_options, int *argc, char ***argv, struct err *err)
{
    struct client_options options = {.start = START_IF_NEEDED};
    bool start_asked = false;
    int count = argc && argv && *argv ? *argc : 0, end = count;
    for (int i = 1; i < count; i++) {
        const char *argument = (*argv)[i];
        if (!argument || strcmp(argument, "--") == 0) {
            end = i;
            break;
        }
        int code = is_option(argument) ? parse_option(&options, &start_asked, argument, err) : 0;
        if (code < 0)
            return code;
    }
    const char *connect = getenv("SCRY_CONNECT");
    if (!options.path[0] && !options.elsewhere[0] && connect && *connect) {
        if (is_elsewhere(connect)) /* scry run would wait for a network before a job */
            return err_set(err, -EINVAL, "SCRY_CONNECT: what is on another machine is given as --omis-connect only");
        int code = parse_url(&options, "SCRY_CONNECT", connect, err);
        if (code < 0)
            return code;
    }
    bool elsewhere = options.path[0] || options.elsewhere[0];
    if (elsewhere && start_asked)
        return err_set(err, -EINVAL,
                       "--omis-start starts this user's own monitor: it cannot be given with the socket of "
                       "another one");
    if (elsewhere)
        options.start = START_NEVER;
    if (count > 0) {
        int kept = 1;
        for (int i = 1; i < count; i++)
            if (i >= end || !is_option((*argv)[i]))
                (*argv)[kept++] = (*argv)[i];
        if (kept < count)
            (*argv)[kept] = NULL;
        *argc = kept;
    }
    *ret_options = options;
    return 0;
}
