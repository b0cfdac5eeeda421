/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/local.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/dirs.h"
#include "base/system/file.h"
#include "base/system/process.h"
#include "shm/waits.h"

enum {
    LOCK_FD = SPAWN_KEPT_FD, /* in mosquitto */
    PATH_SIZE = PATH_MAX + 32,
};

/* ---- places ---- */

int broker_local_program(char ret_path[PATH_MAX], struct err *err)
{
    const char *path = getenv("PATH"), *places[] = {path ? path : "", "/usr/local/sbin:/usr/sbin:/sbin:/usr/bin"};
    for (size_t i = 0; i < 2; i++)
        for (const char *at = places[i]; *at;) {
            size_t len = strcspn(at, ":");
            int all = at[0] == '/' ? snprintf(ret_path, PATH_MAX, "%.*s/mosquitto", (int)len, at) : -1;
            if (all > 0 && all < PATH_MAX && access(ret_path, X_OK) == 0)
                return 0;
            at += len + (at[len] == ':');
        }
    return err_set(err, -ENOENT,
                   "there is no mosquitto in PATH, which a private broker is: install it (Debian, Fedora: package "
                   "mosquitto), or name a broker that runs, as in --broker mqtt://HOST");
}

/* A line of a configuration file ends where a path may go on. */
static int check_text(const char *what, const char *text, struct err *err)
{
    for (const char *at = text; *at; at++)
        if (iscntrl((unsigned char)*at))
            return err_set(err, -EINVAL, "%s has a control character: mosquitto cannot be told of it", what);
    return 0;
}

static bool may_write(const char *dir)
{
    return dirs_make(dir, 0700) == 0 && access(dir, W_OK) == 0;
}

static int find_places(struct broker_local *found, char lock[PATH_SIZE], struct err *err)
{
    char runtime[PATH_MAX], state[PATH_MAX], host[256];
    int code = dirs_runtime(runtime, sizeof runtime, err);
    if (code < 0)
        return code;
    if ((size_t)snprintf(found->socket, sizeof found->socket, "%.*s/broker.sock", PATH_MAX - 16, runtime) >=
        sizeof found->socket)
        return err_set(err, -ENAMETOOLONG, "%s is too long for a socket: set SCRY_RUNTIME_DIR", runtime);
    if (strpbrk(runtime, " \t\"#"))
        return err_set(err, -EINVAL,
                       "mosquitto cannot have a socket in %s, because of its blank or sign: set SCRY_RUNTIME_DIR",
                       runtime);
    snprintf(lock, PATH_SIZE, "%s/broker.lock", runtime);
    if (gethostname(host, sizeof host) < 0 || strchr(host, '/') || !*host || *host == '.')
        snprintf(host, sizeof host, "unknown");
    host[sizeof host - 1] = 0;
    found->kept =
        dirs_state(state, sizeof state, NULL) == 0 &&
        snprintf(found->place, sizeof found->place, "%s/broker/%s", state, host) < (int)sizeof found->place - 32 &&
        check_text("", found->place, NULL) == 0 && may_write(found->place);
    if (!found->kept)
        snprintf(found->place, sizeof found->place, "%s", runtime);
    return check_text("the runtime directory", runtime, err);
}

static void in_place(const struct broker_local *found, const char *name, char ret_path[PATH_SIZE])
{
    snprintf(ret_path, PATH_SIZE, "%s/%s", found->place, name);
}

/* Nothing can be written where it should be: what is retained ends with the broker. */
static void move_beside_socket(struct broker_local *found)
{
    snprintf(found->place, sizeof found->place, "%.*s", (int)(strrchr(found->socket, '/') - found->socket),
             found->socket);
    found->kept = false;
}

static bool does_answer(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    _Static_assert(sizeof address.sun_path == sizeof((struct broker_local *)0)->socket, "a socket's path");
    memcpy(address.sun_path, path, sizeof address.sun_path);
    _cleanup_(closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    /* EAGAIN: more wait than it has room for */
    return fd >= 0 && (connect(fd, (struct sockaddr *)&address, sizeof address) == 0 || errno == EAGAIN);
}

/* The process of the file, opened, if it is a mosquitto with our configuration; else -1. */
static int open_process(const struct broker_local *found, pid_t *ret_pid)
{
    char path[PATH_SIZE], config[PATH_SIZE];
    _cleanup_(freep) char *text = NULL, *command = NULL;
    size_t len;
    in_place(found, "broker.pid", path);
    in_place(found, "broker.conf", config);
    if (file_read(path, &text, &len) < 0)
        return -1;
    long pid = strtol(text, NULL, 10);
    if (pid <= 1 || pid > INT_MAX)
        return -1;
    int fd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
    if (fd < 0)
        return -1;
    snprintf(path, sizeof path, "/proc/%ld/cmdline", pid);
    struct stat st;
    if (stat(path, &st) < 0 || st.st_uid != geteuid() || file_read(path, &command, &len) < 0 ||
        !memmem(command, len, config, strlen(config) + 1)) {
        close(fd);
        return -1;
    }
    *ret_pid = (pid_t)pid;
    return fd;
}

/* The same, for one that found the other place full when it started; *found is moved to where the process is. */
static int find_process(struct broker_local *found, pid_t *ret_pid)
{
    int fd = open_process(found, ret_pid);
    if (fd >= 0 || !found->kept)
        return fd;
    struct broker_local other = *found;
    move_beside_socket(&other);
    fd = open_process(&other, ret_pid);
    if (fd >= 0)
        *found = other;
    return fd;
}

int broker_local_find(struct broker_local *ret_found, struct err *err)
{
    struct broker_local found = {0};
    char lock[PATH_SIZE];
    int code = find_places(&found, lock, err);
    if (code < 0)
        return code;
    int process = find_process(&found, &found.pid);
    if (process >= 0)
        close(process);
    found.answers = does_answer(found.socket);
    *ret_found = found;
    return 0;
}

/* ---- its configuration ---- */

static int check_file(const char *option, const char *path, struct err *err)
{
    if (!path)
        return 0;
    if (*path != '/')
        return err_set(err, -EINVAL, "%s %s: an absolute path, for it is read again when the broker starts anew",
                       option, path);
    if (access(path, R_OK) < 0)
        return err_errno(err, -errno, "%s %s", option, path);
    return check_text(option, path, err);
}

static int put_listener(struct buf *out, const struct broker_listener *tls, struct err *err)
{
    int code = check_file("--cert", tls->cert, err);
    if (code == 0)
        code = check_file("--key", tls->key, err);
    if (code == 0)
        code = check_file("--ca", tls->ca, err);
    if (code == 0)
        code = check_file("--passwords", tls->passwords, err);
    if (code < 0)
        return code;
    const char *colon = strrchr(tls->tls, ':'), *digits = colon ? colon + 1 : tls->tls;
    int address = colon ? (int)(colon - tls->tls) : 0;
    char *end;
    long port = strtol(digits, &end, 10);
    if (!isdigit((unsigned char)*digits) || *end || port < 1 || port > 65535 || (colon && !address))
        return err_set(err, -EINVAL, "--tls takes [ADDRESS:]PORT, and a port is a number from 1 to 65535");
    if (strspn(tls->tls, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.:-[]%_") != strlen(tls->tls))
        return err_set(err, -EINVAL, "--tls: %s is no address", tls->tls);
    if (!tls->cert || !tls->key)
        return err_set(err, -EINVAL, "--tls needs --cert FILE and --key FILE: no port is opened without encryption");
    if (!tls->ca && !tls->passwords)
        return err_set(err, -EINVAL, "--tls needs --passwords FILE or --ca FILE: else everybody could read and write");
    bool brackets = address > 2 && tls->tls[0] == '[';
    buf_printf(out, "listener %ld %.*s\n", port, brackets ? address - 2 : address, tls->tls + brackets);
    buf_printf(out, "certfile %s\nkeyfile %s\n", tls->cert, tls->key);
    if (tls->ca)
        buf_printf(out, "cafile %s\nrequire_certificate true\n%s", tls->ca,
                   tls->passwords ? "" : "use_identity_as_username true\n");
    if (tls->passwords)
        buf_printf(out, "allow_anonymous false\npassword_file %s\n", tls->passwords);
    return 0;
}

/* The port is in a file of its own: who starts the broker anew does not know of it. In the foreground it is for once. */
static int add_listener(const struct broker_local *found, struct buf *out, const struct broker_listener *listener,
                        bool foreground, struct err *err)
{
    char path[PATH_SIZE];
    _cleanup_(freep) char *before = NULL;
    size_t len, from = out->len;
    in_place(found, "broker.tls", path);
    if (foreground)
        unlink(path);
    if (listener) {
        int code = put_listener(out, listener, err);
        if (code == 0 && !out->failed && !foreground)
            code = file_replace(path, out->data + from, out->len - from, 0600);
        return code;
    }
    if (!foreground && file_read(path, &before, &len) == 0)
        buf_append(out, before, len);
    return 0;
}

static int write_config(const struct broker_local *found, const struct broker_listener *listener, bool foreground,
                        struct err *err)
{
    char path[PATH_SIZE];
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    buf_printf(&text, "# written by scry broker at each start\nper_listener_settings true\n%s",
               geteuid() ? "" : "user root\n");
    in_place(found, "broker.pid", path);
    buf_printf(&text, "pid_file %s\n", path);
    in_place(found, "broker.log", path);
    buf_puts(&text, "log_type error\nlog_type warning\n");
    if (foreground)
        buf_puts(&text, "log_type notice\nlog_type information\nconnection_messages false\n");
    buf_printf(&text, "log_timestamp_format %%Y-%%m-%%dT%%H:%%M:%%S\nlog_dest %s%s\n", foreground ? "stderr" : "file ",
               foreground ? "" : path);
    if (found->kept)
        buf_printf(&text, "persistence true\npersistence_location %s\nautosave_interval 300\n", found->place);
    /* a reader may be away for a day; whoever never comes back costs no more than this */
    buf_puts(&text, "persistent_client_expiration 30d\nmax_queued_messages 0\nmax_queued_bytes "
                    "268435456\nmax_inflight_messages 100\n"
                    "max_packet_size 1048576\n");
    int code = add_listener(found, &text, listener, foreground, err);
    if (code < 0)
        return code;
    /* last, so that the socket answers when all else was in order */
    buf_printf(&text, "listener 0 %s\nallow_anonymous true\n", found->socket);
    in_place(found, "broker.conf", path);
    code = text.failed ? -ENOMEM : file_replace(path, text.data, text.len, 0600);
    return code < 0 ? err_errno(err, code, "cannot write %s", path) : 0;
}

static int local_configure(struct broker_local *found, const struct broker_listener *listener, bool foreground,
                           struct err *err)
{
    int code = write_config(found, listener, foreground, err);
    if (!found->kept || (code != -ENOSPC && code != -EDQUOT && code != -EROFS && code != -EACCES && code != -EIO))
        return code;
    move_beside_socket(found);
    return write_config(found, listener, foreground, err);
}

/* ---- starting ---- */

/* 0: it is ours. -EWOULDBLOCK: a broker runs, or is being started. */
static int take_lock(const char *path, int *ret_fd)
{
    _cleanup_(closep) int fd = file_open_own(AT_FDCWD, path, O_RDWR | O_CREAT);
    if (fd < 0)
        return fd;
    int high = fcntl(fd, F_DUPFD_CLOEXEC, LOCK_FD + 1);
    if (high < 0)
        return -errno;
    if (flock(high, LOCK_EX | LOCK_NB) < 0 || !file_is_at(path, high)) {
        int code = errno == EWOULDBLOCK ? -EWOULDBLOCK : -errno;
        close(high);
        return code ? code : -EWOULDBLOCK;
    }
    *ret_fd = high;
    return 0;
}

static void end_process(int process)
{
    syscall(SYS_pidfd_send_signal, process, SIGTERM, NULL, 0);
    syscall(SYS_pidfd_send_signal, process, SIGCONT, NULL, 0);
    if (wait_fd(process, POLLIN, BROKER_TERM_MS))
        return;
    syscall(SYS_pidfd_send_signal, process, SIGKILL, NULL, 0);
    wait_fd(process, POLLIN, BROKER_TERM_MS);
}

/* With the lock: what an earlier one has left. A mosquitto of ours that runs without the lock has lost its socket: somebody
 * removed the runtime directory. Nobody can reach it, and it would overwrite what the next one keeps. */
static void clear_away(const struct broker_local *found)
{
    char path[PATH_SIZE];
    struct broker_local other = *found;
    pid_t pid;
    _cleanup_(closep) int process = find_process(&other, &pid);
    if (process >= 0)
        end_process(process);
    unlink(found->socket);
    in_place(found, "broker.pid", path);
    unlink(path);
    in_place(found, "broker.log", path);
    unlink(path);
}

static int local_spawn(const char *program, char *config, int lock, pid_t *ret_pid)
{
    char name[] = "mosquitto", daemon[] = "-d", with[] = "-c", path[] = "PATH=/usr/bin:/bin";
    char *argv[] = {name, daemon, with, config, NULL}, *environment[] = {path, NULL};
    const struct spawn spawn = {.path = program,
                                .argv = argv,
                                .environment = environment,
                                .in = SPAWN_NULL,
                                .out = SPAWN_NULL,
                                .error = SPAWN_NULL,
                                .kept = lock,
                                .group = SPAWN_OWN_SESSION};
    return spawn_program(&spawn, ret_pid);
}

/* Why it ended at its start: the last error of its own in its log, without the time. */
static int local_last_error(const struct broker_local *found, struct err *err)
{
    static const char mark[] = ": Error: ";
    char path[PATH_SIZE];
    _cleanup_(freep) char *text = NULL;
    size_t len = 0;
    in_place(found, "broker.log", path);
    const char *error = NULL, *next = file_read(path, &text, &len) == 0 ? text : "";
    while ((next = strstr(next, mark)))
        error = next += strlen(mark);
    if (!error)
        return err_set(err, -ECHILD, "mosquitto ended at its start, its log is %s; scry needs version 2.0 or later",
                       path);
    return err_set(err, -ECHILD, "mosquitto ended at its start: %.*s (%s)", (int)strcspn(error, "\n"), error, path);
}

static int start_with_lock(struct broker_local *found, int lock, const struct broker_listener *listener,
                           struct err *err)
{
    char program[PATH_MAX], config[PATH_SIZE];
    int code = broker_local_program(program, err);
    if (code < 0)
        return code;
    clear_away(found);
    code = local_configure(found, listener, false, err);
    if (code < 0)
        return code;
    in_place(found, "broker.conf", config);
    pid_t pid;
    code = local_spawn(program, config, lock, &pid);
    if (code < 0)
        return err_errno(err, code, "cannot start %s", program);
    child_reap(pid);
    return 0; /* whether it goes on in the background, the lock and the socket tell */
}

int broker_local_start(const struct broker_listener *listener, struct err *err)
{
    struct broker_local found = {0};
    char path[PATH_SIZE];
    int code = find_places(&found, path, err);
    if (code < 0)
        return code;
    bool started = false;
    uint64_t end = clock_now_ns() + wait_policies[WAIT_BROKER].limit_ms * WAITS_NS_PER_MS;
    do {
        _cleanup_(closep) int lock = -1;
        code = take_lock(path, &lock);
        if (code == -EWOULDBLOCK && does_answer(found.socket)) {
            chmod(found.socket, 0600);
            return listener && !started
                       ? err_set(err, -EEXIST, "a private broker runs already: scry broker --stop ends it")
                       : 0;
        }
        if (code == 0 && started) {
            in_place(&found, "broker.tls", path);
            if (listener)
                unlink(path);
            return local_last_error(&found, err);
        }
        if (code == 0) {
            code = start_with_lock(&found, lock, listener, err);
            if (code < 0)
                return code;
            started = true;
        } else if (code != -EWOULDBLOCK) {
            return err_errno(err, code, "%s", path);
        }
        wait_fd(-1, 0, BROKER_LOOK_MS);
    } while (clock_now_ns() < end);
    return err_set(err, -ETIMEDOUT, "the private broker does not answer at %s within %u s", found.socket,
                   wait_policies[WAIT_BROKER].limit_ms / 1000);
}

int broker_local_become(const struct broker_listener *listener, struct err *err)
{
    struct broker_local found = {0};
    char path[PATH_SIZE], program[PATH_MAX], config[PATH_SIZE];
    _cleanup_(closep) int lock = -1;
    int code = find_places(&found, path, err);
    if (code == 0)
        code = broker_local_program(program, err);
    if (code < 0)
        return code;
    code = take_lock(path, &lock);
    if (code == -EWOULDBLOCK)
        return err_set(err, -EEXIST, "a private broker runs already: scry broker --stop ends it");
    if (code < 0)
        return err_errno(err, code, "%s", path);
    clear_away(&found);
    code = local_configure(&found, listener, true, err);
    if (code < 0)
        return code;
    char pid[16];
    snprintf(pid, sizeof pid, "%d\n", (int)getpid());
    in_place(&found, "broker.pid", path);
    file_replace(path, pid, strlen(pid), 0600); /* without it, --status and --stop do not find it */
    in_place(&found, "broker.conf", config);
    if (dup2(lock, LOCK_FD) < 0)
        return err_errno(err, -errno, "cannot start %s", program);
    umask(077);
    execl(program, "mosquitto", "-c", config, (char *)NULL);
    return err_errno(err, -errno, "cannot start %s", program);
}

int broker_local_stop(struct err *err)
{
    struct broker_local found = {0};
    char path[PATH_SIZE];
    int code = find_places(&found, path, err);
    if (code < 0)
        return code;
    pid_t pid;
    _cleanup_(closep) int process = find_process(&found, &pid);
    if (process >= 0)
        end_process(process);
    static const char *const files[] = {"broker.conf", "broker.tls", "broker.pid"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        in_place(&found, files[i], path);
        unlink(path);
    }
    if (process < 0 && does_answer(found.socket))
        return err_set(err, -ESRCH, "a broker answers at %s, but it is not known which process that is", found.socket);
    unlink(found.socket);
    return process < 0;
}
