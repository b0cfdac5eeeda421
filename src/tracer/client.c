/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The monitor's side of the tracer (tracer.h). Requests wait for their reply; what arrives meanwhile is queued. The
 * socket's end comes when the tracer has ended and everything is repaired: its guard (guard.c) has the socket, too.
 */
#include "tracer/tracer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <utlist.h>

#include "base/data/buf.h"
#include "base/system/clock.h"
#include "base/system/wait_world.h"
#include "shm/waits.h"
#include "tracer/protocol.h"

enum { READ_SIZE = 65536, SAFE_FD = 10 };

struct queued {
    struct tracer_event event;
    struct queued *next, *prev;
};

struct tracer {
    int fd;
    pid_t pid;
    bool dead;
    uint64_t serial;
    struct buf in;
    struct queued *events;
    tracer_event_fn *fn;
    void *ctx;
};

static int tracer_gone(struct tracer *tracer)
{
    if (!tracer->dead) {
        tracer->dead = true;
        kill(tracer->pid, SIGKILL); /* whoever waits for tracer_fd learns it, also if the process hangs */
    }
    return -EPIPE;
}

/* ---- messages ---- */

static void queue_event(struct tracer *tracer, const char *bytes, size_t len)
{
    struct tracer_event event;
    if (len != sizeof event)
        return;
    memcpy(&event, bytes, len);
    if (event.kind == TRACER_INTERRUPTS || event.kind == TRACER_RESUMES) {
        tracer->fn(tracer->ctx, &event);
        return;
    }
    struct queued *queued = calloc(1, sizeof *queued);
    if (!queued)
        return;
    queued->event = event;
    DL_APPEND(tracer->events, queued);
}

/* Takes the complete messages out of the buffer. 1 when the reply with this number was among them. */
static int reply_parse(struct tracer *tracer, uint64_t serial, struct wire_message *ret_reply, struct buf *ret_payload)
{
    size_t at = 0;
    int found = 0;
    struct wire_message message;
    while (tracer->in.len - at >= sizeof message) {
        memcpy(&message, tracer->in.data + at, sizeof message);
        if (message.size < sizeof message || message.size > WIRE_SIZE_LIMIT)
            return tracer_gone(tracer);
        if (tracer->in.len - at < message.size)
            break;
        const char *payload = tracer->in.data + at + sizeof message;
        size_t len = message.size - sizeof message;
        if (message.kind == WIRE_EVENT) {
            queue_event(tracer, payload, len);
        } else if (serial && message.serial == serial && message.kind == WIRE_REPLY) {
            *ret_reply = message;
            buf_append(ret_payload, payload, len);
            found = 1;
        } else if (message.kind == WIRE_HELLO && ret_reply && !serial) {
            *ret_reply = message;
            found = 1;
        }
        at += message.size;
    }
    buf_drop(&tracer->in, at);
    return found;
}

/* Reads what there is. 0 or -EPIPE. */
static int message_receive(struct tracer *tracer)
{
    for (;;) {
        char *to = buf_reserve(&tracer->in, READ_SIZE);
        if (!to)
            return tracer_gone(tracer);
        ssize_t got = recv(tracer->fd, to, READ_SIZE, MSG_DONTWAIT);
        if (got > 0)
            tracer->in.len += (size_t)got;
        if (got == READ_SIZE || (got < 0 && errno == EINTR))
            continue;
        if (got > 0 || (got < 0 && errno == EAGAIN))
            return 0;
        return tracer_gone(tracer);
    }
}

/* Waits until the socket is ready. 0, -ETIME. */
static int wait_ready(struct tracer *tracer, short events, uint64_t deadline)
{
    struct pollfd poll_fd = {.fd = tracer->fd, .events = events};
    for (;;) {
        uint64_t now = wait_now_ns();
        if (now >= deadline)
            return -ETIME;
        int ready = wait_poll(&poll_fd, 1, (int)((deadline - now) / 1000000) + 1);
        if (ready > 0)
            return 0;
        if (ready < 0 && errno != EINTR)
            return -errno;
    }
}

static int send_all(struct tracer *tracer, const void *bytes, size_t len, uint64_t deadline)
{
    for (size_t done = 0; done < len;) {
        ssize_t put = send(tracer->fd, (const char *)bytes + done, len - done, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (put > 0) {
            done += (size_t)put;
        } else if (put < 0 && errno == EAGAIN) {
            if (wait_ready(tracer, POLLOUT, deadline) < 0)
                return tracer_gone(tracer); /* half a message was sent: nothing can follow it */
        } else if (put < 0 && errno != EINTR) {
            return tracer_gone(tracer);
        }
    }
    return 0;
}

struct reply {
    struct wire_message message;
    struct buf payload;
};

static int reply_await(struct tracer *tracer, uint64_t serial, uint64_t since_ns, struct reply *ret)
{
    const struct wait_policy *policy = &wait_policies[WAIT_TRACER];
    struct wait_seen seen = {.passed_ns = wait_now_ns() - since_ns};
    do {
        int code = wait_ready(tracer, POLLIN, since_ns + seen.passed_ns + waits_slice_ns(policy, &seen));
        if (code < 0 && code != -ETIME)
            return code;
        if (code == 0) {
            int received = message_receive(tracer);
            code = reply_parse(tracer, serial, &ret->message, &ret->payload);
            if (code != 0)
                return code < 0 ? code : 0;
            if (received < 0)
                return received;
        }
        seen.passed_ns = wait_now_ns() - since_ns;
        seen.state = wait_look(tracer->pid).state;
    } while (waits_judge(policy, &seen) == WAIT_ON);
    return -ETIME;
}

/* One request and its reply, whose payload the caller frees also on failure. */
static int request_call(struct tracer *tracer, struct wire_message message, const void *bytes, size_t len,
                        struct reply *ret, struct err *err)
{
    *ret = (struct reply){.payload = BUF_INIT};
    if (tracer->dead)
        return err_set(err, -EPIPE, "the tracer process died");
    if (len > WIRE_SIZE_LIMIT - sizeof message)
        return err_set(err, -E2BIG, "%zu bytes are too many for one request", len);
    message.serial = ++tracer->serial;
    message.size = (uint32_t)(sizeof message + len);
    uint64_t since_ns = wait_now_ns(), deadline = since_ns + TRACER_TIMEOUT_NS;
    int code = send_all(tracer, &message, sizeof message, deadline);
    if (code == 0)
        code = send_all(tracer, bytes, len, deadline);
    if (code == 0)
        code = reply_await(tracer, message.serial, since_ns, ret);
    if (code == -EPIPE)
        return err_set(err, code, "the tracer process died");
    if (code < 0)
        return err_set(err, code, "the tracer did not answer in time");
    code = ret->message.code;
    if (code < 0 && ret->payload.len)
        return err_set(err, code, "%.*s", (int)ret->payload.len, ret->payload.data);
    return code < 0 ? err_errno(err, code, "thread or process %d", message.id) : code;
}

static int call_simple(struct tracer *tracer, struct wire_message message, const void *bytes, size_t len,
                       struct err *err)
{
    struct reply reply;
    int code = request_call(tracer, message, bytes, len, &reply, err);
    buf_done(&reply.payload);
    return code;
}

/* The same with a payload of exactly this size as its answer. */
static int call_result(struct tracer *tracer, struct wire_message message, const void *bytes, size_t len,
                       void *ret_bytes, size_t size, struct err *err)
{
    struct reply reply;
    int code = request_call(tracer, message, bytes, len, &reply, err);
    if (code == 0 && reply.payload.len != size)
        code = -EPROTO;
    if (code == 0 && size)
        memcpy(ret_bytes, reply.payload.data, size);
    buf_done(&reply.payload);
    return code;
}

/* ---- start and end ---- */

static void run_tracer(const char *path, int fd, int cells_fd)
{
    prctl(PR_SET_PDEATHSIG, SIGCONT); /* a stopped one would not notice that the monitor is gone; nothing to others */
    /* both may lie on each other's places */
    int socket_fd = fcntl(fd, F_DUPFD, SAFE_FD), cells_copy = cells_fd < 0 ? -1 : fcntl(cells_fd, F_DUPFD, SAFE_FD);
    if (socket_fd < 0 || dup2(socket_fd, WIRE_SOCKET_FD) < 0)
        _exit(126);
    if (cells_copy >= 0)
        dup2(cells_copy, WIRE_CELLS_FD);
    close_range(cells_copy >= 0 ? WIRE_CELLS_FD + 1 : WIRE_CELLS_FD, ~0U, 0);
    execl(path, "scry-tracer", (char *)NULL);
    _exit(127);
}

static void tracer_free(struct tracer *tracer)
{
    struct queued *queued, *next;
    DL_FOREACH_SAFE(tracer->events, queued, next)
    free(queued);
    if (tracer->fd >= 0)
        close(tracer->fd);
    buf_done(&tracer->in);
    free(tracer);
}

int tracer_start(struct tracer **ret_tracer, const char *path, int cells_fd, tracer_event_fn *fn, void *ctx,
                 struct err *err)
{
    int fds[2];
    struct tracer *tracer = calloc(1, sizeof *tracer);
    if (!tracer)
        return err_errno(err, -ENOMEM, "tracer");
    tracer->fd = -1;
    tracer->fn = fn;
    tracer->ctx = ctx;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0) {
        int code = -errno;
        tracer_free(tracer);
        return err_errno(err, code, "socket for the tracer");
    }
    tracer->fd = fds[0];
    tracer->pid = fork();
    if (tracer->pid == 0)
        run_tracer(path, fds[1], cells_fd);
    close(fds[1]);
    if (tracer->pid < 0) {
        int code = -errno;
        tracer_free(tracer);
        return err_errno(err, code, "the tracer cannot be started");
    }
    struct reply hello = {.payload = BUF_INIT};
    int code = reply_await(tracer, 0, wait_now_ns(), &hello);
    if (code == 0 && hello.message.a != WIRE_VERSION)
        code = err_set(err, -EPROTO, "%s is of another version of scry", path);
    else if (code == -ETIME)
        err_set(err, code, "the tracer %s was not ready in time: this node is busy, or something stops it", path);
    else if (code < 0)
        err_set(err, code, "the tracer %s does not start: is scry installed completely?", path);
    if (code < 0) {
        kill(tracer->pid, SIGKILL);
        waitpid(tracer->pid, NULL, 0);
        tracer_free(tracer);
        return code;
    }
    *ret_tracer = tracer;
    return 0;
}

/* Until everything is released or repaired; events that are still sent are of no interest. */
static void await_end(struct tracer *tracer)
{
    uint64_t deadline = wait_now_ns() + 2 * TRACER_TIMEOUT_NS;
    while (wait_ready(tracer, POLLIN, deadline) == 0 && message_receive(tracer) == 0)
        buf_clear(&tracer->in);
}

void tracer_stop_all(struct tracer *tracer)
{
    if (!tracer)
        return;
    struct wire_message bye = {.size = sizeof bye, .kind = WIRE_BYE};
    if (!tracer->dead)
        send_all(tracer, &bye, sizeof bye, wait_now_ns() + TRACER_TIMEOUT_NS);
    shutdown(tracer->fd, SHUT_WR);
    await_end(tracer);
    kill(tracer->pid, SIGKILL); /* it has ended, or it hangs; not yet waited for, its number is still its own */
    waitpid(tracer->pid, NULL, 0);
    await_end(tracer);
    tracer_free(tracer);
}

int tracer_fd(const struct tracer *tracer)
{
    return tracer->fd;
}

pid_t tracer_pid(const struct tracer *tracer)
{
    return tracer->pid;
}

bool tracer_died(const struct tracer *tracer)
{
    return tracer->dead;
}

bool tracer_pending(const struct tracer *tracer)
{
    return tracer->events != NULL;
}

void tracer_receive(struct tracer *tracer)
{
    if (tracer->dead)
        return;
    message_receive(tracer);
    reply_parse(tracer, 0, NULL, NULL);
}

int tracer_dispatch(struct tracer *tracer)
{
    tracer_receive(tracer);
    /* What comes while these are handled is left for the next call: threads that hit breakpoints without end may not
     * keep the monitor from its tools. */
    struct queued *last = tracer->events ? tracer->events->prev : NULL;
    uint64_t end_ns = clock_now_ns() + TRACER_TURN_NS;
    for (bool more = last != NULL; more || (tracer->dead && tracer->events);) {
        struct queued *queued = tracer->events;
        more = more && queued != last && clock_now_ns() < end_ns;
        DL_DELETE(tracer->events, queued);
        tracer->fn(tracer->ctx, &queued->event);
        free(queued);
    }
    return tracer->dead ? -EPIPE : 0;
}

/* ---- the calls ---- */

#define MESSAGE(...) ((struct wire_message){__VA_ARGS__})

int tracer_seize(struct tracer *tracer, pid_t pid, struct err *err)
{
    return call_simple(tracer, MESSAGE(.kind = WIRE_SEIZE, .id = pid), NULL, 0, err);
}

int tracer_release(struct tracer *tracer, pid_t pid)
{
    return call_simple(tracer, MESSAGE(.kind = WIRE_RELEASE, .id = pid), NULL, 0, NULL);
}

static void put_list(struct buf *buf, const char *const *list)
{
    size_t count = 0;
    while (list[count])
        count++;
    buf_printf(buf, "%zu", count);
    buf_putc(buf, 0);
    for (size_t i = 0; i < count; i++)
        buf_append(buf, list[i], strlen(list[i]) + 1);
}

int tracer_spawn(struct tracer *tracer, const struct tracer_spawn *spawn, pid_t *ret_pid, struct err *err)
{
    struct buf bytes = BUF_INIT;
    struct reply reply;
    buf_append(&bytes, spawn->path, strlen(spawn->path) + 1);
    for (int i = 0; i < 3; i++) {
        const char *name = spawn->io[i] ? spawn->io[i] : "";
        buf_append(&bytes, name, strlen(name) + 1);
    }
    put_list(&bytes, spawn->argv);
    put_list(&bytes, spawn->envp ? spawn->envp : (const char *const *)environ);
    if (bytes.failed) {
        buf_done(&bytes);
        return err_errno(err, -ENOMEM, "%s", spawn->path);
    }
    int code = request_call(tracer, MESSAGE(.kind = WIRE_SPAWN), bytes.data, bytes.len, &reply, err);
    if (code == 0)
        *ret_pid = (pid_t)reply.message.a;
    buf_done(&reply.payload);
    buf_done(&bytes);
    return code;
}

int tracer_watch(struct tracer *tracer, pid_t pid, const struct tracer_watch *watch)
{
    return call_simple(tracer, MESSAGE(.kind = WIRE_WATCH, .id = pid), watch, sizeof *watch, NULL);
}

static int switch_threads(struct tracer *tracer, enum wire_kind kind, const pid_t *tids, size_t count, int *ret_codes)
{
    struct reply reply;
    int code = request_call(tracer, MESSAGE(.kind = kind), tids, count * sizeof *tids, &reply, NULL);
    if (code == 0 && reply.payload.len != count * sizeof *ret_codes)
        code = -EPROTO;
    for (size_t i = 0; i < count; i++) {
        int one = code;
        if (code == 0)
            memcpy(&one, reply.payload.data + i * sizeof one, sizeof one);
        if (ret_codes)
            ret_codes[i] = one;
    }
    buf_done(&reply.payload);
    return code;
}

int tracer_stop(struct tracer *tracer, const pid_t *tids, size_t count, int *ret_codes)
{
    return switch_threads(tracer, WIRE_STOP, tids, count, ret_codes);
}

int tracer_continue(struct tracer *tracer, const pid_t *tids, size_t count, int *ret_codes)
{
    return switch_threads(tracer, WIRE_CONTINUE, tids, count, ret_codes);
}

int tracer_release_hold(struct tracer *tracer, uint64_t hold)
{
    if (tracer->dead)
        return -EPIPE;
    struct wire_message message = {.size = sizeof message, .kind = WIRE_RELEASE_HOLD, .a = hold};
    return send_all(tracer, &message, sizeof message, wait_now_ns() + TRACER_TIMEOUT_NS);
}

int tracer_step(struct tracer *tracer, pid_t tid, enum tracer_step_mode mode)
{
    return call_simple(tracer, MESSAGE(.kind = WIRE_STEP, .id = tid, .a = mode), NULL, 0, NULL);
}

int tracer_get_regs(struct tracer *tracer, pid_t tid, struct user_regs_struct *ret_regs)
{
    return call_result(tracer, MESSAGE(.kind = WIRE_GET_REGS, .id = tid), NULL, 0, ret_regs, sizeof *ret_regs, NULL);
}

int tracer_set_regs(struct tracer *tracer, pid_t tid, const struct user_regs_struct *regs)
{
    return call_simple(tracer, MESSAGE(.kind = WIRE_SET_REGS, .id = tid), regs, sizeof *regs, NULL);
}

int tracer_get_xstate(struct tracer *tracer, pid_t tid, void *ret_bytes, size_t *inout_size)
{
    struct reply reply;
    int code = request_call(tracer, MESSAGE(.kind = WIRE_GET_XSTATE, .id = tid), NULL, 0, &reply, NULL);
    if (code == 0 && reply.payload.len > *inout_size)
        code = -ENOSPC;
    if (code == 0) {
        memcpy(ret_bytes, reply.payload.data, reply.payload.len);
        *inout_size = reply.payload.len;
    }
    buf_done(&reply.payload);
    return code;
}

int tracer_set_xstate(struct tracer *tracer, pid_t tid, const void *bytes, size_t size)
{
    return call_simple(tracer, MESSAGE(.kind = WIRE_SET_XSTATE, .id = tid), bytes, size, NULL);
}

int tracer_goto(struct tracer *tracer, pid_t tid, uint64_t addr, struct err *err)
{
    return call_simple(tracer, MESSAGE(.kind = WIRE_GOTO, .id = tid, .a = addr), NULL, 0, err);
}

int tracer_call(struct tracer *tracer, pid_t tid, uint64_t addr, struct tracer_call_place *ret_place, struct err *err)
{
    struct tracer_call_place ignored;
    return call_result(tracer, MESSAGE(.kind = WIRE_CALL, .id = tid, .a = addr), NULL, 0,
                       ret_place ? ret_place : &ignored, sizeof *ret_place, err);
}

int tracer_load(struct tracer *tracer, pid_t pid, const struct tracer_load *load, struct err *err)
{
    struct buf text = BUF_INIT;
    buf_append(&text, load->path, strlen(load->path) + 1);
    buf_append(&text, load->symbol, strlen(load->symbol) + 1);
    buf_append(&text, load->data, load->data_size);
    int code = text.failed ? err_errno(err, -ENOMEM, "load")
                           : call_simple(tracer, MESSAGE(.kind = WIRE_LOAD, .id = pid, .a = load->tells), text.data,
                                         text.len, err);
    buf_done(&text);
    return code;
}

int tracer_load_result(struct tracer *tracer, pid_t pid, int64_t *ret_result, struct err *err)
{
    struct reply reply;
    int code = request_call(tracer, MESSAGE(.kind = WIRE_LOAD_RESULT, .id = pid), NULL, 0, &reply, err);
    if (code == 0)
        *ret_result = (int64_t)reply.message.a;
    buf_done(&reply.payload);
    return code;
}

int tracer_backtrace(struct tracer *tracer, pid_t tid, size_t max_depth, struct tracer_frame **ret_frames,
                     size_t *ret_count, struct err *err)
{
    struct reply reply;
    int code = request_call(tracer, MESSAGE(.kind = WIRE_BACKTRACE, .id = tid, .a = max_depth), NULL, 0, &reply, err);
    if (code == 0) {
        *ret_count = reply.payload.len / sizeof **ret_frames;
        *ret_frames = (struct tracer_frame *)buf_take(&reply.payload);
        if (!*ret_frames)
            code = err_errno(err, -ENOMEM, "backtrace");
    }
    buf_done(&reply.payload);
    return code;
}

int tracer_write_memory(struct tracer *tracer, pid_t pid, uint64_t addr, const void *bytes, size_t len)
{
    return call_simple(tracer, MESSAGE(.kind = WIRE_WRITE, .id = pid, .a = addr), bytes, len, NULL);
}

int tracer_break_set(struct tracer *tracer, pid_t pid, uint64_t addr, uint64_t id, const struct code_program *program,
                     uint8_t *ret_original, struct err *err)
{
    struct reply reply;
    int code = request_call(tracer, MESSAGE(.kind = WIRE_BREAK_SET, .id = pid, .a = addr, .b = id), program,
                            program ? sizeof *program : 0, &reply, err);
    if (code == 0 && ret_original)
        *ret_original = (uint8_t)reply.message.a;
    buf_done(&reply.payload);
    return code;
}

int tracer_break_clear(struct tracer *tracer, pid_t pid, uint64_t addr, uint64_t id)
{
    return call_simple(tracer, MESSAGE(.kind = WIRE_BREAK_CLEAR, .id = pid, .a = addr, .b = id), NULL, 0, NULL);
}
