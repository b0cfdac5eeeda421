/* SPDX-License-Identifier: Apache-2.0 */
#include "web/serve/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/process.h"
#include "shm/waits.h"

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

static void look(lws_sorted_usec_list_t *timer)
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
    lws_sul_schedule(child->server->context, 0, &child->timer, look,
                     (closed ? CHILD_REAP_MS : CHILD_LOOK_MS) * LWS_US_PER_MS);
}

static void take(struct child_pipe *pipe, size_t len)
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
            lws_sul_schedule(child->server->context, 0, &child->timer, look, 1);
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
    take(pipe, (size_t)got);
    return 0;
}

static void limit(pid_t pid, uint32_t seconds)
{
    const struct {
        __rlimit_resource_t what;
        rlim_t most;
    } limits[] = {{RLIMIT_AS, MEMORY_BYTES}, {RLIMIT_CORE, 0}, {RLIMIT_CPU, seconds}};
    for (size_t i = 0; i < (seconds ? 3 : 2); i++)
        prlimit(pid, limits[i].what, &(struct rlimit){limits[i].most, limits[i].most}, NULL);
}

/* [0] is this end, which does not wait. */
static bool pipe_make(int ret_ends[2], int own)
{
    if (pipe2(ret_ends, O_CLOEXEC) < 0)
        return false;
    if (own) {
        int end = ret_ends[0];
        ret_ends[0] = ret_ends[1];
        ret_ends[1] = end;
    }
    return fcntl(ret_ends[0], F_SETFL, O_NONBLOCK) == 0;
}

static bool listen_to(struct child *child, struct child_pipe *pipe, int *fd)
{
    pipe->child = child;
    pipe->open = server_watch(child->server, TAKE_FD(*fd), "child", pipe) != NULL;
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
    int in[2] = {-1, -1}, out[2] = {-1, -1}, error[2] = {-1, -1};
    struct child *child = calloc(1, sizeof *child);
    _cleanup_(freep) char **environment = spec->environment ? environment_with(spec->environment) : NULL;
    bool good = child && (environment || !spec->environment) && pipe_make(out, 0) && pipe_make(error, 0) &&
                (!spec->input || pipe_make(in, 1));
    good = good && spawn_program(&(struct spawn){.path = spec->argv[0],
                                                 .argv = spec->argv,
                                                 .environment = environment,
                                                 .in = spec->input ? in[1] : SPAWN_NULL,
                                                 .out = out[1],
                                                 .error = error[1],
                                                 .group = SPAWN_OWN_GROUP},
                                 &child->pid) == 0;
    if (good) {
        limit(child->pid, spec->limit_s);
        child->server = server;
        child->spec = *spec;
        child->spec.argv = NULL;
        child->input = TAKE_FD(in[0]);
        child->begun_ns = clock_now_ns();
        child->next = server->children;
        server->children = child;
        bool heard = listen_to(child, &child->out, &out[0]);
        if (!listen_to(child, &child->error, &error[0]) || !heard)
            child_kill(child);
        lws_sul_schedule(server->context, 0, &child->timer, look, CHILD_LOOK_MS * LWS_US_PER_MS);
    } else {
        free(child);
    }
    const int left[] = {in[0], in[1], out[0], out[1], error[0], error[1]};
    for (size_t i = 0; i < sizeof left / sizeof *left; i++)
        if (left[i] >= 0)
            close(left[i]);
    return good ? child : NULL;
}
