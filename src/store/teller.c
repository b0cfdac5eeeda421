/* SPDX-License-Identifier: Apache-2.0 */
#include "store/follow.h"

#include "base/system/clock.h"
#include "base/system/dirs.h"
#include "base/system/log.h"
#include "base/system/pause.h"
#include "base/system/process.h"
#include "shm/waits.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BACKLOG = 128 };

/* ---- the address ---- */

/* PORT, ADDRESS:PORT, [ADDRESS]:PORT. Without ADDRESS it is for this node only. */
static int address_split(const char *text, char *ret_host, size_t size, const char **ret_port)
{
    const char *colon = strrchr(text, ':');
    const char *host = *text == '[' ? text + 1 : text;
    size_t len = colon ? (size_t)(colon - host) : 0;
    *ret_port = colon ? colon + 1 : text;
    if (*text == '[' && (!len || host[--len] != ']'))
        return -EINVAL;
    if (len >= size || !**ret_port || strspn(*ret_port, "0123456789") != strlen(*ret_port) || strlen(*ret_port) > 5)
        return -EINVAL;
    snprintf(ret_host, size, "%.*s", colon ? (int)len : 9, colon ? host : "127.0.0.1");
    return *ret_host ? 0 : -EINVAL;
}

static int listen_at(struct teller *teller, const char *text, struct err *err)
{
    char host[256], service[32];
    const char *port;
    struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM}, *list = NULL;
    if (address_split(text, host, sizeof host, &port) < 0)
        return err_set(err, -EINVAL, "--metrics: expected [ADDRESS:]PORT, not '%s'", text);
    int code = getaddrinfo(host, port, &hints, &list);
    if (code)
        return err_set(err, -EINVAL, "--metrics %s: %s", text, gai_strerror(code));
    int fd = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1;
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0 ||
        bind(fd, list->ai_addr, list->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0) {
        code = err_errno(err, -errno, "cannot listen at %s for --metrics", text);
        if (fd >= 0)
            close(fd);
        freeaddrinfo(list);
        return code;
    }
    freeaddrinfo(list);
    struct sockaddr_storage own;
    socklen_t len = sizeof own;
    getsockname(fd, (struct sockaddr *)&own, &len);
    getnameinfo((struct sockaddr *)&own, len, host, sizeof host, service, sizeof service,
                NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(teller->address, sizeof teller->address,
             strchr(host, ':') ? "http://[%.60s]:%s/metrics" : "http://%.60s:%s/metrics", host, service);
    teller->listener = fd;
    return 0;
}

/* ---- the process ---- */

static int teller_spawn(struct teller *teller, const char *path)
{
    char retry[32];
    char *argv[] = {(char *)path,
                    (char *)"serve",
                    (char *)(teller->listener >= 0 ? "metrics" : "-"),
                    (char *)(teller->options.otlp ? teller->options.otlp : "-"),
                    retry,
                    NULL};
    snprintf(retry, sizeof retry, "%.3f", teller->options.retry_seconds);
    /* Ctrl-C is for the recorder, which then lets it end. */
    const struct spawn spawn = {.path = path,
                                .argv = argv,
                                .in = SPAWN_PIPE,
                                .out = SPAWN_SAME,
                                .error = SPAWN_SAME,
                                .kept = teller->listener >= 0 ? teller->listener : 0,
                                .group = SPAWN_OWN_GROUP};
    int ends[3], code = spawn_piped(&spawn, &teller->pid, ends);
    teller->pipe = ends[STDIN_FILENO];
    if (code == 0)
        fcntl(teller->pipe, F_SETFL, O_NONBLOCK);
    return code;
}

int teller_start(struct teller *teller, struct err *err)
{
    if (!teller->options.metrics && !teller->options.otlp)
        return 0;
    char path[PATH_MAX];
    int code = dirs_libexec("scry-site", path, sizeof path, err);
    if (code < 0)
        return code;
    teller->pid = 0;
    code = teller_spawn(teller, path);
    return code < 0 ? err_errno(err, code, "cannot run %s", path) : 0;
}

int teller_open(struct teller *ret_teller, const struct teller_options *options, struct err *err)
{
    *ret_teller = (struct teller){.options = *options, .listener = -1, .pipe = -1};
    if (options->otlp && strncmp(options->otlp, "http://", 7) != 0 && strncmp(options->otlp, "https://", 8) != 0)
        return err_set(err, -EINVAL, "--otlp: expected http://HOST[:PORT] or https://HOST[:PORT], not '%s'",
                       options->otlp);
    return options->metrics ? listen_at(ret_teller, options->metrics, err) : 0;
}

void teller_tick(struct teller *teller, const struct record_health *health, uint64_t now_ns)
{
    int status;
    if (!teller->options.metrics && !teller->options.otlp)
        return;
    if (teller->pid > 0 && waitpid(teller->pid, &status, WNOHANG) == teller->pid) {
        log_warning("the program that tells others of jobs has ended (%s %d); it is started again",
                    WIFSIGNALED(status) ? "signal" : "status",
                    WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        teller->pid = 0;
        close(teller->pipe);
        teller->pipe = -1;
        bool lasted = now_ns - teller->begun_ns > time_hasten(2 * AGAIN_SELDOM_NS);
        teller->deaths = lasted ? 1 : teller->deaths + 1;
        teller->again_ns = now_ns + time_hasten(waits_again_ns(teller->deaths, TELLER_AGAIN_NS, TELLER_AGAIN_NS));
    }
    if (teller->pid <= 0 && now_ns >= teller->again_ns) {
        teller->again_ns = now_ns + time_hasten(TELLER_AGAIN_NS);
        teller->begun_ns = now_ns;
        if (teller_start(teller, NULL) < 0)
            teller->pid = 0;
    }
    /* a full pipe: it has enough to read */
    if (teller->pipe >= 0 && write(teller->pipe, health, sizeof *health) < 0 && errno != EAGAIN)
        log_debug("the program that tells others does not listen: %s", strerror(errno));
}

void teller_end(struct teller *teller)
{
    if (teller->pipe >= 0)
        close(teller->pipe);
    if (teller->listener >= 0)
        close(teller->listener);
    teller->pipe = teller->listener = -1;
    if (teller->pid <= 0)
        return;
    int fd = pidfd_open(teller->pid, 0);
    if (fd < 0 || !wait_fd(fd, POLLIN, (int)time_hasten(wait_policies[WAIT_TOLD].limit_ms)))
        kill(teller->pid, SIGKILL);
    waitpid(teller->pid, NULL, 0);
    if (fd >= 0)
        close(fd);
    teller->pid = 0;
}
