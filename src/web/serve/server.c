/* SPDX-License-Identifier: Apache-2.0 */
#include "web/http/server.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/stat.h>

#include "base/data/cleanup.h"
#include "base/system/dirs.h"
#include "base/system/log.h"
#include "base/system/user.h"
#include "jobdir/text/text.h"
#include "web/http/connection.h"
#include "web/http/session.h"
#include "web/serve/child.h"
#include "web/serve/follow.h"
#include "web/serve/jobs.h"
#include "web/serve/question.h"
#include "web/serve/viewer.h"

static int check_jobs(const struct options *options, struct err *err)
{
    size_t at = 0;
    struct stat info;
    for (const char *dir; (dir = options_next(options, "jobs", &at));)
        if (stat(dir, &info) < 0 || (!S_ISDIR(info.st_mode) && (errno = ENOTDIR)) || access(dir, R_OK | X_OK) < 0)
            return err_errno(err, -errno, "--jobs: cannot show the jobs in %s", dir);
    return 0;
}

static int on_signal(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in, size_t len)
{
    struct server *server = lws_context_user(lws_get_context(wsi));
    if (reason == LWS_CALLBACK_RAW_RX_FILE) {
        server->over = true;
        lws_cancel_service(server->context);
    }
    return 0;
}

/* What the server watches itself. */
static const struct lws_protocols protocols[] = {
    {"listener", on_listener, 0, 0}, {"child", on_child, 0, 0}, {"signal", on_signal, 0, 0}, {NULL, NULL, 0, 0}};

static int watch_all(struct server *server, struct err *err)
{
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGHUP);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    int fd = signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
    bool good = fd >= 0 && server_watch(server, fd, "signal", NULL);
    for (size_t i = 0; good && i < server->listener_count; i++)
        good = server_watch(server, server->listeners[i].fd, "listener", (void *)(uintptr_t)i);
    return good ? 0 : err_set(err, -EIO, "cannot start to serve: out of memory, or of open files (ulimit -n)");
}

static int start(struct server *server, struct err *err)
{
    const char *program = getenv("SCRY_PROGRAM");
    user_name(geteuid(), server->user, sizeof server->user);
    if (program && *program == '/')
        snprintf(server->program, sizeof server->program, "%s", program);
    else if (dirs_libexec("scry", server->program, sizeof server->program, err) < 0)
        return err_set(err, -ENOENT, "scry serve starts this program; it is not for people");
    server->session_ns = options_number(server->options, "for");
    server->sessions = sessions_new();
    server->questions = questions_new(server);
    server->viewers = viewers_new(server);
    if (!server->sessions || !server->questions || !server->viewers || !(server->follows = follows_new(server)))
        return err_set(err, -ENOMEM, "out of memory");
    int code = check_jobs(server->options, err);
    if (code == 0)
        code = server_listen(server, err);
    if (code == 0)
        code = server_make(server, protocols, err);
    if (code == 0)
        code = server_name_origins(server, err);
    snprintf(server->cookie, sizeof server->cookie, "scry_%u", server->port);
    return code == 0 ? watch_all(server, err) : code;
}

/* The link is the only thing on standard output. */
static int print_link(struct server *server, struct err *err)
{
    const struct session *link = session_new(server->sessions, SECRET_LINK,
                                             (unsigned)options_number(server->options, "rights"), server->session_ns);
    if (!link)
        return err_set(err, -EIO, "the kernel gives no random bits");
    printf("%s#token=%s\n", server->link, link->secret);
    return fflush(stdout) == 0 ? 0 : err_errno(err, -errno, "cannot write to standard output");
}

static void done(struct server *server)
{
    sockets_remove(server);
    if (server->context)
        lws_context_destroy(server->context);
    children_done(server);
    questions_free(server->questions);
    viewers_free(server->viewers);
    follows_free(server->follows);
    sessions_free(server->sessions);
    jobs_list_free(server);
    known_jobs_free(server);
    connections_done(server);
    for (size_t i = 0; i < server->origin_count; i++)
        free(server->origins[i]);
}

int server_run(const struct options *options)
{
    struct server server = {.options = options};
    _cleanup_(buf_done) struct buf shown = BUF_INIT;
    struct err err = {0};
    int code = start(&server, &err);
    if (code == 0)
        code = print_link(&server, &err);
    while (code == 0 && !server.over)
        if (lws_service(server.context, 0) < 0)
            code = err_set(&err, -EIO, "cannot wait for requests");
    server.over = true;
    done(&server);
    if (code == 0)
        return 0;
    text_show(&shown, err.text);
    log_error("%s", shown.data ? shown.data : "out of memory");
    return code == -EINVAL || code == -EPERM ? 2 : 1;
}
