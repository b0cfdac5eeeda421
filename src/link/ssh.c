/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection by ssh: the user's own program, with their configuration and keys. It may not ask anything, and what it says
 * becomes one line.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/system/pause.h"
#include "base/system/spawn.h"
#include "link/link.h"
#include "shm/waits.h"

enum { SSH_FAILED = 255, NOT_FOUND = 127, NOT_EXECUTABLE = 126, USAGE = 2, ARGUMENTS = 40 };

/* ---- starting ---- */

static int find_program(const char *name, char *ret_path, size_t size, struct err *err)
{
    const char *at = getenv("PATH");
    if (strchr(name, '/')) {
        snprintf(ret_path, size, "%s", name);
        return 0;
    }
    for (at = at && *at ? at : "/usr/bin:/bin"; *at;) {
        size_t len = strcspn(at, ":");
        if (len && (size_t)snprintf(ret_path, size, "%.*s/%s", (int)len, at, name) < size &&
            access(ret_path, X_OK) == 0)
            return 0;
        at += len + (at[len] == ':');
    }
    return err_set(err, -ENOENT,
                   "there is no program %s here: install OpenSSH's client, or name another one in SCRY_SSH", name);
}

static size_t put_arguments(const struct link_way *way, const char *command, char port[8], char most[32],
                            const char *argv[ARGUMENTS])
{
    static const char *const fixed[] = {
        "ssh", "-T",
        "-a",  "-x",
        "-o",  "BatchMode=yes",
        "-o",  "ClearAllForwardings=yes",
        "-o",  "ControlMaster=no",
        "-o",  "ControlPersist=no",
        "-o",  "PermitLocalCommand=no",
        "-o",  "RequestTTY=no",
        "-e",  "none",
    };
    size_t count = sizeof fixed / sizeof *fixed;
    memcpy(argv, fixed, sizeof fixed);
    snprintf(most, 32, "-oConnectTimeout=%u", (unsigned)time_hasten(LINK_DIAL_SECONDS));
    argv[count++] = most;
    if (way->port) {
        snprintf(port, 8, "%u", way->port);
        argv[count++] = "-p";
        argv[count++] = port;
    }
    if (way->user[0]) {
        argv[count++] = "-l";
        argv[count++] = way->user;
    }
    argv[count++] = "--";
    argv[count++] = way->host;
    argv[count++] = command;
    argv[count] = NULL;
    return count;
}

int link_over_ssh(const struct link_way *way, const char *command, struct transport **ret_transport, struct err *err)
{
    const char *argv[ARGUMENTS], *program = getenv("SCRY_SSH");
    char path[4096], port[8], most[32];
    int ends[2], errors[2], code = find_program(program && *program ? program : "ssh", path, sizeof path, err);
    if (code < 0)
        return code;
    put_arguments(way, command, port, most, argv);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return err_errno(err, -errno, "cannot start %s", path);
    _cleanup_(closep) int ours = ends[0], theirs = ends[1];
    if (pipe2(errors, O_CLOEXEC | O_NONBLOCK) < 0)
        return err_errno(err, -errno, "cannot start %s", path);
    _cleanup_(closep) int said = errors[0], says = errors[1];
    fcntl(says, F_SETFL, 0); /* ssh takes a full pipe for an error */
    pid_t pid = 0;
    code = spawn_program(&(struct spawn){.path = path,
                                         .argv = (char *const *)argv,
                                         .in = theirs,
                                         .out = theirs,
                                         .error = says,
                                         .group = SPAWN_OWN_SESSION},
                         &pid);
    if (code < 0)
        return err_errno(err, code, "cannot start %s", path);
    struct transport *transport = transport_new_take(TAKE_FD(ours));
    if (!transport) {
        kill(pid, SIGTERM);
        waitpid(pid, NULL, 0);
        return err_set(err, -ENOMEM, "out of memory");
    }
    transport->child = pid;
    transport->errors = TAKE_FD(said);
    transport->noisy = true;
    if (way->port)
        snprintf(transport->host, sizeof transport->host, "%s", way->shown);
    else
        snprintf(transport->host, sizeof transport->host, "%s%s%s", way->user, way->user[0] ? "@" : "", way->host);
    *ret_transport = transport;
    return 0;
}

/* ---- why it has ended ---- */

static const char no_agent[] = "; SSH_AUTH_SOCK names no ssh agent here: `scry monitor` can be started where one is";
static const char crowded[] = "%s: too many log in there at the same moment, or it lets nobody in (ssh %s true)";

static const struct {
    const char *words; /* of ssh */
    const char *text;  /* with the host once or twice */
    int code;          /* 0: -EHOSTUNREACH */
} reasons[] = {
    {"HOST IDENTIFICATION HAS CHANGED",
     "%s: its host key is another one than the known one: somebody may be in between; "
     "ask who runs it, then `ssh-keygen -R %s`"},
    {"Host key verification failed", "%s: its host key is not known: `ssh %s` once, and compare the key"},
    {"Could not resolve hostname", "%s: there is no host of this name (ssh does not know %s)"},
    {"Permission denied",
     "%s: ssh was refused: a key or ticket is needed that works without a password; try `ssh %s true`", -EACCES},
    {"Too many authentication failures",
     "%s: ssh was refused after too many keys: name one in ~/.ssh/config; try `ssh %s true`"},
    {"Connection closed by remote host", crowded, -EBUSY},
    {"Connection reset by peer", crowded, -EBUSY},
    {"MaxStartups", crowded, -EBUSY},
    {"Connection refused", "%s: nobody listens for ssh there (connection refused by %s)"},
    {"timed out", "%s: it does not answer (ssh waited 10 s for %s)"},
    {"No route to host", "%s: there is no route to it from here (%s)"},
    {"Network is unreachable", "%s: its network cannot be reached from here (%s)"},
};

void transport_drain(struct transport *transport)
{
    char bytes[1024];
    ssize_t got;
    while (transport->errors >= 0 &&
           ((got = read(transport->errors, bytes, sizeof bytes)) > 0 || (got < 0 && errno == EINTR))) {
        if (got < 0)
            continue;
        size_t len = transport->said_len, more = (size_t)got, room = sizeof transport->said - 1;
        size_t keep = len + more <= room ? len : room - more;
        memmove(transport->said, transport->said + len - keep, keep);
        memcpy(transport->said + keep, bytes, more);
        transport->said_len = keep + more;
    }
    for (size_t i = 0; i < transport->said_len; i++)
        if (!transport->said[i])
            transport->said[i] = ' ';
    transport->said[transport->said_len] = 0;
}

/* Its exit status; -1: it goes on, or was killed. */
static int wait_for(struct transport *transport)
{
    int status = 0;
    _cleanup_(closep) int pidfd = (int)syscall(SYS_pidfd_open, transport->child, 0);
    struct pollfd ended = {.fd = pidfd, .events = POLLIN};
    if (pidfd < 0 || poll(&ended, 1, SSH_END_MS) <= 0)
        return -1;
    pid_t pid = waitpid(transport->child, &status, 0);
    transport->child = 0;
    return pid > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void last_line(char *text, char **ret_line)
{
    size_t len = strlen(text);
    while (len && strchr("\r\n ", text[len - 1]))
        text[--len] = 0;
    char *line = strrchr(text, '\n');
    *ret_line = line ? line + 1 : text;
    for (char *c = *ret_line; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = ' ';
}

/* A monitor outlives the login in which it was started, and the agent of it. */
static bool has_agent(void)
{
    const char *path = getenv("SSH_AUTH_SOCK");
    return path && access(path, W_OK) == 0;
}

void transport_why(struct transport *transport, struct err *err)
{
    char *text = transport->said, *line;
    if (transport->child <= 0 || transport->errors < 0)
        return;
    int status = wait_for(transport);
    transport_drain(transport);
    for (size_t i = 0; status == SSH_FAILED && i < sizeof reasons / sizeof *reasons; i++)
        if (strstr(text, reasons[i].words)) {
            char said[ERR_TEXT_SIZE];
            snprintf(said, sizeof said, reasons[i].text, transport->host, transport->host);
            err_set(err, reasons[i].code ? reasons[i].code : -EHOSTUNREACH, "%s%s", said,
                    reasons[i].code == -EACCES && !has_agent() ? no_agent : "");
            return;
        }
    last_line(text, &line);
    if (status == NOT_FOUND || status == NOT_EXECUTABLE)
        err_set(err, -ENOPKG, "%s: there is no scry: install it there, or `scry link copy %s`", transport->host,
                transport->host);
    else if (status == USAGE)
        err_set(err, -ENOPKG, "%s: its scry knows nothing of links: install this version there, " SCRY_VERSION " (%s)",
                transport->host, line);
    else if (*line)
        err_set(err, -ECONNRESET, "%s: %s", transport->host, line);
    else if (status >= 0)
        err_set(err, -ECONNRESET, "%s: ssh ended with status %d", transport->host, status);
}
