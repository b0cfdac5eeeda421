/* SPDX-License-Identifier: Apache-2.0 */
#include "base/data/cleanup.h"
#include "base/system/dirs.h"
#include "base/system/log.h"
#include "base/system/process.h"
#include "jobdir/text/text.h"
#include "options/options.h"
#include "shm/waits.h"
#include "web/http/server.h"
#include "web/serve/child.h"
#include "web/serve/serve.h"
#include "wire/stream.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

/* scry serve --link, --bearer: asks the server of this user, by its unix socket, for another way in, and prints it. */

enum { ANSWER_MOST = 64 << 10 };

static int write_all(int fd, const char *bytes, size_t len)
{
    for (ssize_t put; len; bytes += put, len -= (size_t)put)
        if ((put = send(fd, bytes, len, MSG_NOSIGNAL)) <= 0)
            return -EIO;
    return 0;
}

/* The body of the answer, NUL-terminated in `answer`; NULL: none came. */
static const char *link_ask(int fd, const char *body, struct buf *answer)
{
    _cleanup_(buf_done) struct buf request = BUF_INIT;
    struct timeval timeout = {.tv_sec = INVITE_SECONDS};
    ssize_t got = 1;
    buf_printf(&request,
               "POST /api/links HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
               "Content-Length: %zu\r\n\r\n%s",
               strlen(body), body);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    if (request.failed || write_all(fd, request.data, request.len) < 0)
        return NULL;
    while (got > 0 && answer->len < ANSWER_MOST) {
        char *room = buf_reserve(answer, 4096);
        got = room ? recv(fd, room, 4095, 0) : 0;
        answer->len += got > 0 ? (size_t)got : 0;
    }
    buf_putc(answer, '\0');
    const char *end = answer->failed ? NULL : strstr(answer->data, "\r\n\r\n");
    return end ? end + 4 : NULL;
}

static char *link_question(const struct options *options)
{
    json_t *json =
        json_pack("{s:b, s:I, s:I}", "bearer", options_on(options, "bearer"), "rights",
                  (json_int_t)options_number(options, "rights"), "ns", (json_int_t)options_number(options, "for"));
    char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
    json_decref(json);
    return text;
}

static int link_print_new(const struct options *options)
{
    char dir[PATH_MAX - 16], path[PATH_MAX];
    struct err err = {0};
    _cleanup_(buf_done) struct buf answer = BUF_INIT, shown = BUF_INIT;
    _cleanup_(freep) char *body = link_question(options);
    if (dirs_runtime(dir, sizeof dir, &err) < 0) {
        log_error("%s", err.text);
        return 1;
    }
    snprintf(path, sizeof path, "%s/serve.sock", dir);
    _cleanup_(closep) int fd = local_connect(path, &err);
    if (fd < 0) {
        log_error("no server of yours runs here; start one: scry serve");
        return 1;
    }
    const char *text = body ? link_ask(fd, body, &answer) : NULL;
    json_t *json = text ? json_loads(text, 0, NULL) : NULL;
    const char *given = json_string_value(json_object_get(json, "link"));
    const char *wrong = json_string_value(json_object_get(json_object_get(json, "error"), "text"));
    if (given)
        puts(given);
    else
        text_show(&shown, wrong ? wrong : "the server does not answer");
    json_decref(json);
    if (!given)
        log_error("%s", shown.data ? shown.data : "out of memory");
    return given && fflush(stdout) == 0 ? 0 : 1;
}

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

static int server_start(struct server *server, struct err *err)
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
    if (web_pages_missing && !options_text(server->options, "pages"))
        log_warning("scry was built without its pages, so the link shows none: tools/install-deps gets what they are "
                    "built with; then meson setup --reconfigure, and build and install scry again");
    printf("%s#token=%s\n", server->link, link->secret);
    return fflush(stdout) == 0 ? 0 : err_errno(err, -errno, "cannot write to standard output");
}

static void server_done(struct server *server)
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

/* Answers until it is ended by a signal. The exit status. */
static int server_run(const struct options *options)
{
    struct server server = {.options = options};
    _cleanup_(buf_done) struct buf shown = BUF_INIT;
    struct err err = {0};
    int code = server_start(&server, &err);
    if (code == 0)
        code = print_link(&server, &err);
    while (code == 0 && !server.over)
        if (lws_service(server.context, 0) < 0)
            code = err_set(&err, -EIO, "cannot wait for requests");
    server.over = true;
    server_done(&server);
    if (code == 0)
        return 0;
    text_show(&shown, err.text);
    log_error("%s", shown.data ? shown.data : "out of memory");
    return code == -EINVAL || code == -EPERM ? 2 : 1;
}

/* scry-serve: what `scry serve` becomes. `scry-serve --routes` prints the table of paths, for a test. */

static int print_routes(void)
{
    for (size_t i = 0; i < route_count; i++)
        printf("%s\t%s\t%s\t%s\n", method_name(route_rows[i].method), route_rows[i].path,
               route_rows[i].arguments ? route_rows[i].arguments : "", route_rows[i].right ? "session" : "");
    return 0;
}

static int run_serve(int argc, char **argv)
{
    struct options options;
    struct err err = {0};
    int status;
    if (options_parse(&options, COMMAND_SERVE, argc, argv, &err) < 0) {
        _cleanup_(buf_done) struct buf shown = BUF_INIT;
        text_show(&shown, err.text);
        log_error("%s", shown.data ? shown.data : "out of memory");
        status = 2;
    } else if (options_on(&options, "link") || options_on(&options, "bearer")) {
        status = link_print_new(&options);
    } else {
        status = server_run(&options);
    }
    options_done(&options);
    return status;
}

int main(int argc, char **argv)
{
    umask(077);
    signal(SIGPIPE, SIG_IGN);
    log_open("scry serve", 0);
    if (argc == 5 && strcmp(argv[1], "--files") == 0) /* for the server itself */
        return files_print(argv[2], argv[3], argv[4]);
    return argc == 2 && strcmp(argv[1], "--routes") == 0 ? print_routes() : run_serve(argc, argv);
}
