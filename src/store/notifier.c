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

static int listen_at(struct notifier *notifier, const char *text, struct err *err)
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
    snprintf(notifier->address, sizeof notifier->address,
             strchr(host, ':') ? "http://[%.60s]:%s/metrics" : "http://%.60s:%s/metrics", host, service);
    notifier->listener = fd;
    return 0;
}

/* ---- the process ---- */

static int notifier_spawn(struct notifier *notifier, const char *path)
{
    char retry[32];
    char *argv[] = {(char *)path,
                    (char *)"serve",
                    (char *)(notifier->listener >= 0 ? "metrics" : "-"),
                    (char *)(notifier->options.otlp ? notifier->options.otlp : "-"),
                    retry,
                    NULL};
    snprintf(retry, sizeof retry, "%.3f", notifier->options.retry_seconds);
    /* Ctrl-C is for the recorder, which then lets it end. */
    const struct spawn spawn = {.path = path,
                                .argv = argv,
                                .in = SPAWN_PIPE,
                                .out = SPAWN_SAME,
                                .error = SPAWN_SAME,
                                .kept = notifier->listener >= 0 ? notifier->listener : 0,
                                .group = SPAWN_OWN_GROUP};
    int ends[3], code = spawn_piped(&spawn, &notifier->pid, ends);
    notifier->pipe = ends[STDIN_FILENO];
    if (code == 0)
        fcntl(notifier->pipe, F_SETFL, O_NONBLOCK);
    return code;
}

int notifier_start(struct notifier *notifier, struct err *err)
{
    if (!notifier->options.metrics && !notifier->options.otlp)
        return 0;
    char path[PATH_MAX];
    int code = dirs_libexec("scry-site", path, sizeof path, err);
    if (code < 0)
        return code;
    notifier->pid = 0;
    code = notifier_spawn(notifier, path);
    return code < 0 ? err_errno(err, code, "cannot run %s", path) : 0;
}

int notifier_open(struct notifier *ret_notifier, const struct notifier_options *options, struct err *err)
{
    *ret_notifier = (struct notifier){.options = *options, .listener = -1, .pipe = -1};
    if (options->otlp && strncmp(options->otlp, "http://", 7) != 0 && strncmp(options->otlp, "https://", 8) != 0)
        return err_set(err, -EINVAL, "--otlp: expected http://HOST[:PORT] or https://HOST[:PORT], not '%s'",
                       options->otlp);
    return options->metrics ? listen_at(ret_notifier, options->metrics, err) : 0;
}

void notifier_tick(struct notifier *notifier, const struct record_health *health, uint64_t now_ns)
{
    int status;
    if (!notifier->options.metrics && !notifier->options.otlp)
        return;
    if (notifier->pid > 0 && waitpid(notifier->pid, &status, WNOHANG) == notifier->pid) {
        log_warning("the program that tells others of jobs has ended (%s %d); it is started again",
                    WIFSIGNALED(status) ? "signal" : "status",
                    WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        notifier->pid = 0;
        close(notifier->pipe);
        notifier->pipe = -1;
        bool lasted = now_ns - notifier->begun_ns > time_hasten(2 * AGAIN_SELDOM_NS);
        notifier->deaths = lasted ? 1 : notifier->deaths + 1;
        notifier->again_ns =
            now_ns + time_hasten(waits_again_ns(notifier->deaths, NOTIFIER_AGAIN_NS, NOTIFIER_AGAIN_NS));
    }
    if (notifier->pid <= 0 && now_ns >= notifier->again_ns) {
        notifier->again_ns = now_ns + time_hasten(NOTIFIER_AGAIN_NS);
        notifier->begun_ns = now_ns;
        if (notifier_start(notifier, NULL) < 0)
            notifier->pid = 0;
    }
    /* a full pipe: it has enough to read */
    if (notifier->pipe >= 0 && write(notifier->pipe, health, sizeof *health) < 0 && errno != EAGAIN)
        log_debug("the program that tells others does not listen: %s", strerror(errno));
}

void notifier_end(struct notifier *notifier)
{
    if (notifier->pipe >= 0)
        close(notifier->pipe);
    if (notifier->listener >= 0)
        close(notifier->listener);
    notifier->pipe = notifier->listener = -1;
    if (notifier->pid <= 0)
        return;
    int fd = pidfd_open(notifier->pid, 0);
    if (fd < 0 || !wait_fd(fd, POLLIN, (int)time_hasten(wait_policies[WAIT_TOLD].limit_ms)))
        kill(notifier->pid, SIGKILL);
    waitpid(notifier->pid, NULL, 0);
    if (fd >= 0)
        close(fd);
    notifier->pid = 0;
}
