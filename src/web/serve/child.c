/* SPDX-License-Identifier: Apache-2.0 */
#include "web/serve/child.h"

#include "base/data/cleanup.h"
#include "base/data/hash.h"
#include "base/system/clock.h"
#include "base/system/dirs.h"
#include "base/system/process.h"
#include "shm/waits.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { READ_BYTES = 64 << 10, ERROR_MOST = 4 << 10 };
#define MEMORY_BYTES ((rlim_t)6 << 30) /* of address space */

void child_kill(struct child *child)
{
    if (!child->over)
        kill(-child->pid, SIGKILL);
    child->over = true;
}

void child_close_input(struct child *child)
{
    if (child->input >= 0)
        close(child->input);
    child->input = -1;
}

int child_write(struct child *child, const char *bytes, size_t len)
{
    if (child->input < 0 || len > PIPE_BUF)
        return -EPIPE;
    return write(child->input, bytes, len) == (ssize_t)len ? 0 : -errno;
}

static void child_free(struct child *child)
{
    child_close_input(child);
    buf_done(&child->out.bytes);
    buf_done(&child->error.bytes);
    free(child);
}

static void child_leave(struct child *child)
{
    struct child **at = &child->server->children;
    while (*at != child)
        at = &(*at)->next;
    *at = child->next;
}

void children_done(struct server *server)
{
    for (struct child *child; (child = server->children);) {
        server->children = child->next;
        child_kill(child);
        waitpid(child->pid, NULL, 0);
        child_free(child);
    }
}

static void look_for_end(lws_sorted_usec_list_t *timer)
{
    struct child *child = lws_container_of(timer, struct child, timer);
    bool closed = !child->out.open && !child->error.open;
    uint64_t limit_ns = child->spec.limit_s * (uint64_t)NS_PER_SECOND;
    int status = 0;
    if (!child->over && limit_ns && clock_now_ns() - child->begun_ns > limit_ns) {
        child->end = CHILD_TOO_LONG;
        child_kill(child);
    }
    if (closed && waitpid(child->pid, &status, WNOHANG) == child->pid) {
        if (child->end == CHILD_EXITED && WIFSIGNALED(status))
            child->end = CHILD_SIGNALLED;
        child->exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
        child_leave(child);
        child->spec.ended(child);
        child_free(child);
        return;
    }
    lws_sul_schedule(child->server->context, 0, &child->timer, look_for_end,
                     (closed ? CHILD_REAP_MS : CHILD_LOOK_MS) * LWS_US_PER_MS);
}

static void pipe_take(struct child_pipe *pipe, size_t len)
{
    struct child *child = pipe->child;
    pipe->bytes.len += len;
    if (pipe == &child->error) {
        if (pipe->bytes.len > ERROR_MOST)
            pipe->bytes.len = ERROR_MOST;
        return;
    }
    if (child->spec.heard && !child->over)
        child->spec.heard(child);
    if (pipe->bytes.len > child->spec.output_most && !child->over) {
        child->end = CHILD_TOO_LARGE;
        child_kill(child);
    }
    if (child->over)
        buf_clear(&pipe->bytes);
}

int on_child(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in, size_t len)
{
    struct child_pipe *pipe = lws_get_opaque_user_data(wsi);
    if (reason == LWS_CALLBACK_RAW_CLOSE_FILE && pipe) {
        struct child *child = pipe->child;
        pipe->open = false;
        lws_set_opaque_user_data(wsi, NULL);
        if (!child->server->over && !child->out.open && !child->error.open)
            lws_sul_schedule(child->server->context, 0, &child->timer, look_for_end, 1);
        return 0;
    }
    if (reason != LWS_CALLBACK_RAW_RX_FILE)
        return 0;
    char *room = buf_reserve(&pipe->bytes, READ_BYTES);
    ssize_t got = room ? read(lws_get_socket_fd(wsi), room, READ_BYTES) : -1;
    if (got < 0 && room && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (!room)
        child_kill(pipe->child);
    if (got <= 0)
        return -1;
    pipe_take(pipe, (size_t)got);
    return 0;
}

static void child_limit(pid_t pid, uint32_t seconds)
{
    const struct {
        __rlimit_resource_t what;
        rlim_t most;
    } limits[] = {{RLIMIT_AS, MEMORY_BYTES}, {RLIMIT_CORE, 0}, {RLIMIT_CPU, seconds}};
    for (size_t i = 0; i < (seconds ? 3 : 2); i++)
        prlimit(pid, limits[i].what, &(struct rlimit){limits[i].most, limits[i].most}, NULL);
}

static bool listen_to(struct child *child, struct child_pipe *pipe, int fd)
{
    pipe->child = child;
    pipe->open = server_watch(child->server, fd, "child", pipe) != NULL;
    return pipe->open;
}

/* The server's own, and one more; NULL: out of memory. */
static char **environment_with(const char *more)
{
    size_t count = 0, kept = 0, len = strcspn(more, "=") + 1;
    while (environ[count])
        count++;
    char **all = calloc(count + 2, sizeof *all);
    for (size_t i = 0; all && i < count; i++)
        if (strncmp(environ[i], more, len) != 0)
            all[kept++] = environ[i];
    if (all)
        all[kept] = (char *)more;
    return all;
}

struct child *child_start(struct server *server, const struct child_spec *spec)
{
    int ends[3];
    struct child *child = calloc(1, sizeof *child);
    _cleanup_(freep) char **environment = spec->environment ? environment_with(spec->environment) : NULL;
    const struct spawn spawn = {.path = spec->argv[0],
                                .argv = spec->argv,
                                .environment = environment,
                                .in = spec->input ? SPAWN_PIPE : SPAWN_NULL,
                                .out = SPAWN_PIPE,
                                .error = SPAWN_PIPE,
                                .group = SPAWN_OWN_GROUP};
    if (!child || (!environment && spec->environment) || spawn_piped(&spawn, &child->pid, ends) < 0) {
        free(child);
        return NULL;
    }
    for (int i = 0; i < 3; i++)
        if (ends[i] >= 0)
            fcntl(ends[i], F_SETFL, O_NONBLOCK);
    child_limit(child->pid, spec->limit_s);
    child->server = server;
    child->spec = *spec;
    child->spec.argv = NULL;
    child->input = ends[STDIN_FILENO];
    child->begun_ns = clock_now_ns();
    child->next = server->children;
    server->children = child;
    bool heard = listen_to(child, &child->out, ends[STDOUT_FILENO]);
    if (!listen_to(child, &child->error, ends[STDERR_FILENO]) || !heard)
        child_kill(child);
    lws_sul_schedule(server->context, 0, &child->timer, look_for_end, CHILD_LOOK_MS * LWS_US_PER_MS);
    return child;
}

enum {
    VIEWERS_MOST = 6,
    ASKS_MOST = 200,
    ANSWER_MOST = 64 << 20,
};

struct ask {
    struct ask *next;
    int64_t id;
    viewer_done_fn *fn;
    void *ctx;
    uint64_t since_ns;
};

struct viewer {
    UT_hash_handle hh; /* in the order of use: the first is the one that was not asked for longest */
    char *jobdir;
    struct viewers *all;
    struct child *child;
    struct ask *asks;
    unsigned ask_count;
    uint64_t used_ns;
    size_t seen; /* bytes of a line that was not whole */
};

struct viewers {
    struct server *server;
    struct viewer *table;
    char program[PATH_MAX];
    int64_t next_id;
    lws_sorted_usec_list_t timer;
};

struct viewers *viewers_new(struct server *server)
{
    struct viewers *all = calloc(1, sizeof *all);
    if (all)
        all->server = server;
    return all;
}

static void viewer_free(struct viewer *viewer)
{
    for (struct ask *ask; (ask = viewer->asks);) {
        viewer->asks = ask->next;
        free(ask);
    }
    free(viewer->jobdir);
    free(viewer);
}

void viewers_free(struct viewers *all)
{
    struct viewer *viewer, *next;
    if (!all)
        return;
    HASH_ITER(hh, all->table, viewer, next)
    {
        HASH_DEL(all->table, viewer);
        viewer_free(viewer);
    }
    free(all);
}

/* ---- answers ---- */

static struct ask *ask_take(struct viewer *viewer, int64_t id)
{
    for (struct ask **at = &viewer->asks, *ask; (ask = *at); at = &ask->next)
        if (ask->id == id) {
            *at = ask->next;
            viewer->ask_count--;
            return ask;
        }
    return NULL;
}

static void fail_all(struct viewer *viewer, const char *kind, const char *text)
{
    for (struct ask *ask; (ask = viewer->asks);) {
        viewer->asks = ask->next;
        ask->fn(ask->ctx, kind, text, NULL);
        free(ask);
    }
    viewer->ask_count = 0;
}

/* {"id":7,"ok":ANSWER} or {"id":7,"error":{...}}. false: it speaks another language. */
static bool take_line(struct viewer *viewer, const char *line, size_t len)
{
    static const char good[] = ",\"ok\":";
    int64_t id = 0;
    int at = 0;
    if (len < 3 || line[len - 1] != '}' || sscanf(line, "{\"id\":%" SCNd64 "%n", &id, &at) != 1 || !at)
        return false;
    struct ask *ask = ask_take(viewer, id);
    if (!ask)
        return false;
    size_t head = (size_t)at + sizeof good - 1;
    if (len > head && memcmp(line + at, good, sizeof good - 1) == 0) {
        struct buf bytes = BUF_INIT;
        buf_append(&bytes, line + head, len - head - 1);
        buf_putc(&bytes, '\n');
        ask->fn(ask->ctx, NULL, NULL, &bytes);
        buf_done(&bytes);
    } else {
        json_t *json = json_loadb(line, len, 0, NULL), *error = json_object_get(json, "error");
        const char *kind = json_string_value(json_object_get(error, "kind"));
        const char *text = json_string_value(json_object_get(error, "text"));
        ask->fn(ask->ctx, kind ? kind : "unreadable", text ? text : "scry-view gave no answer", NULL);
        json_decref(json);
    }
    free(ask);
    return true;
}

static void on_heard(struct child *child)
{
    struct viewer *viewer = child->spec.ctx;
    struct buf *bytes = &child->out.bytes;
    size_t used = 0;
    for (;;) {
        char *line = bytes->data + used;
        size_t seen = viewer->seen, left = bytes->len - used;
        char *end = left > seen ? memchr(line + seen, '\n', left - seen) : NULL;
        viewer->seen = end ? 0 : left;
        if (!end)
            break;
        *end = '\0';
        if (!take_line(viewer, line, (size_t)(end - line))) {
            child_kill(child);
            break;
        }
        used += (size_t)(end - line) + 1;
    }
    buf_drop(bytes, used);
}

static void on_ended(struct child *child)
{
    struct viewer *viewer = child->spec.ctx;
    char text[512] = "scry-view has ended, for want of memory or by what is damaged in the job";
    const char *said = child->error.bytes.data, *colon = said ? strstr(said, ": ") : NULL;
    if (child->end == CHILD_EXITED && colon && colon[2])
        snprintf(text, sizeof text, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
    HASH_DEL(viewer->all->table, viewer);
    fail_all(viewer, "unreadable", text);
    viewer_free(viewer);
}

/* ---- those that are kept ---- */

static void close_unused(lws_sorted_usec_list_t *timer)
{
    struct viewers *all = lws_container_of(timer, struct viewers, timer);
    uint64_t now_ns = clock_now_ns();
    struct viewer *viewer, *next;
    HASH_ITER(hh, all->table, viewer, next)
    {
        for (struct ask *ask = viewer->asks; ask; ask = ask->next)
            if (now_ns - ask->since_ns > VIEWER_TIMEOUT_SECONDS * (uint64_t)NS_PER_SECOND)
                child_kill(viewer->child);
        if (!viewer->asks && now_ns - viewer->used_ns > VIEWER_IDLE_SECONDS * (uint64_t)NS_PER_SECOND)
            child_close_input(viewer->child);
    }
    if (all->table)
        lws_sul_schedule(all->server->context, 0, &all->timer, close_unused, VIEWER_LOOK_SECONDS * LWS_US_PER_SEC);
}

/* Room for one more: the one that was not asked for longest ends, rather one that nobody waits for. */
static void make_room(struct viewers *all)
{
    struct viewer *viewer, *next, *first = NULL;
    if (HASH_COUNT(all->table) < VIEWERS_MOST)
        return;
    HASH_ITER(hh, all->table, viewer, next)
    if (!viewer->child->over && viewer->child->input >= 0 && (!first || (first->asks && !viewer->asks)))
        first = viewer;
    if (first)
        child_kill(first->child);
}

static struct viewer *viewer_new(struct viewers *all, const char *jobdir)
{
    if (!*all->program && dirs_libexec("scry-view", all->program, sizeof all->program, NULL) < 0) {
        *all->program = '\0';
        return NULL;
    }
    make_room(all);
    struct viewer *viewer = calloc(1, sizeof *viewer);
    char keep[24], *argv[] = {all->program, (char *)jobdir, keep, NULL};
    snprintf(keep, sizeof keep, "%" PRIu64, options_number(all->server->options, "keep-pictures"));
    if (viewer && !(viewer->jobdir = strdup(jobdir))) {
        free(viewer);
        viewer = NULL;
    }
    if (!viewer)
        return NULL;
    viewer->all = all;
    viewer->child = child_start(all->server, &(struct child_spec){.argv = argv,
                                                                  .input = true,
                                                                  .output_most = ANSWER_MOST,
                                                                  .heard = on_heard,
                                                                  .ended = on_ended,
                                                                  .ctx = viewer});
    if (!viewer->child) {
        viewer_free(viewer);
        return NULL;
    }
    if (!all->table)
        lws_sul_schedule(all->server->context, 0, &all->timer, close_unused, VIEWER_LOOK_SECONDS * LWS_US_PER_SEC);
    HASH_ADD_KEYPTR(hh, all->table, viewer->jobdir, strlen(viewer->jobdir), viewer);
    return viewer;
}

static struct viewer *viewer_of(struct viewers *all, const char *jobdir)
{
    struct viewer *viewer = NULL;
    HASH_FIND(hh, all->table, jobdir, strlen(jobdir), viewer);
    if (!viewer)
        return viewer_new(all, jobdir);
    if (viewer->child->over || viewer->child->input < 0)
        return NULL; /* it is about to end; the next question finds another one */
    HASH_DEL(all->table, viewer);
    HASH_ADD_KEYPTR(hh, all->table, viewer->jobdir, strlen(viewer->jobdir), viewer);
    return viewer;
}

int viewer_ask(struct viewers *all, const char *jobdir, json_t *question, viewer_done_fn *fn, void *ctx)
{
    struct viewer *viewer = viewer_of(all, jobdir);
    if (!viewer || viewer->ask_count >= ASKS_MOST)
        return viewer ? -EAGAIN : -ENOMEM;
    struct ask *ask = malloc(sizeof *ask);
    json_object_set_new(question, "id", json_integer(++all->next_id));
    _cleanup_(freep) char *text = json_dumps(question, JSON_COMPACT);
    size_t len = text ? strlen(text) : 0;
    int code = !ask || !text ? -ENOMEM : len + 1 > PIPE_BUF ? -EINVAL : 0;
    if (code == 0) {
        text[len] = '\n';
        code = child_write(viewer->child, text, len + 1);
    }
    if (code < 0) {
        free(ask);
        return code == -EPIPE ? -ENOMEM : code;
    }
    viewer->used_ns = clock_now_ns();
    *ask = (struct ask){viewer->asks, all->next_id, fn, ctx, viewer->used_ns};
    viewer->asks = ask;
    viewer->ask_count++;
    return 0;
}

void viewer_forget(struct viewers *all, const char *jobdir, int64_t id)
{
    struct viewer *viewer;
    char line[64];
    int len = snprintf(line, sizeof line, "{\"id\":%" PRId64 ",\"ask\":\"forget\"}\n", id);
    HASH_FIND(hh, all->table, jobdir, strlen(jobdir), viewer);
    if (viewer && !viewer->child->over)
        child_write(viewer->child, line, (size_t)len); /* if it does not read, it answers */
}
