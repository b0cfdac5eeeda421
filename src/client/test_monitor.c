/* SPDX-License-Identifier: Apache-2.0 */
#include "client/test_monitor.h"

#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lang/reply.h"
#include "wire/stream.h"

struct test_monitor {
    char dir[64], path[96];
    int listen_fd, fd;
    bool rude;
    part_fn *part;
    struct frame_reader reader;
    pthread_barrier_t meeting;
    pthread_t thread;
};

static struct test_monitor *current; /* there is one at a time */

static void remove_socket(struct test_monitor *monitor)
{
    unlink(monitor->path);
    rmdir(monitor->dir);
}

_Noreturn void test_monitor_failed(const char *file, int line, const char *what)
{
    fprintf(stderr, "%s:%d: the monitor's part failed: %s\n", file, line, what);
    if (current)
        remove_socket(current);
    abort();
}

static void *run(void *ctx)
{
    struct test_monitor *monitor = ctx;
    struct pollfd ready = {.fd = monitor->listen_fd, .events = POLLIN}; /* local_listen made it non-blocking */
    while (poll(&ready, 1, -1) < 0)
        CHECK(errno == EINTR);
    monitor->fd = accept(monitor->listen_fd, NULL, NULL);
    CHECK(monitor->fd >= 0);
    if (!monitor->rude) {
        struct frame hello = part_read(monitor, FRAME_HELLO);
        CHECK(hello.payload.len >= 8);
        uint32_t words[2];
        memcpy(words, hello.payload.ptr, sizeof words);
        CHECK(le32toh(words[0]) == WIRE_VERSION);
        uint32_t answer[2] = {htole32(WIRE_VERSION), words[1] ? words[1] : htole32(TEST_TOOL_ID)};
        part_frame(monitor, FRAME_WELCOME, 0, 0, span_of((char *)answer, sizeof answer));
    }
    monitor->part(monitor);
    part_close(monitor);
    return NULL;
}

static struct test_monitor *start(part_fn *part, bool rude)
{
    struct test_monitor *monitor = calloc(1, sizeof *monitor);
    CHECK(monitor);
    snprintf(monitor->dir, sizeof monitor->dir, "/tmp/scry-test-client-XXXXXX");
    CHECK(mkdtemp(monitor->dir));
    snprintf(monitor->path, sizeof monitor->path, "%s/monitor.sock", monitor->dir);
    monitor->part = part;
    monitor->rude = rude;
    monitor->fd = -1;
    CHECK(pthread_barrier_init(&monitor->meeting, NULL, 2) == 0);
    struct err err;
    monitor->listen_fd = local_listen(monitor->path, &err);
    CHECK(monitor->listen_fd >= 0);
    current = monitor;
    CHECK(pthread_create(&monitor->thread, NULL, run, monitor) == 0);
    return monitor;
}

struct test_monitor *test_monitor_start(part_fn *part)
{
    return start(part, false);
}

struct test_monitor *test_monitor_start_rude(part_fn *part)
{
    return start(part, true);
}

void test_monitor_stop(struct test_monitor *monitor)
{
    pthread_join(monitor->thread, NULL);
    close(monitor->listen_fd);
    remove_socket(monitor);
    current = NULL;
    frame_reader_done(&monitor->reader);
    pthread_barrier_destroy(&monitor->meeting);
    free(monitor);
}

int test_monitor_teardown(void **state)
{
    if (current) {
        /* its part may wait for something that never comes now: the thread is left to the end of the program */
        remove_socket(current);
        current = NULL;
        omis_finalize();
    }
    return 0;
}

const char *test_monitor_path(const struct test_monitor *monitor)
{
    return monitor->path;
}

Omis_status test_monitor_connect(struct test_monitor *monitor, void (*error_handler)(Omis_reply reply), int *tool_id)
{
    char program[] = "tool", option[160];
    snprintf(option, sizeof option, "--omis-connect=unix:%s", monitor->path);
    char *arguments[] = {program, option, NULL};
    char **argv = arguments;
    int argc = 2;
    return omis_init(&argc, &argv, error_handler, tool_id);
}

int part_fd(struct test_monitor *monitor)
{
    return monitor->fd;
}

struct frame part_read(struct test_monitor *monitor, enum frame_type type)
{
    struct frame frame;
    int code;
    while ((code = frame_reader_next(&monitor->reader, &frame)) == 0) {
        size_t size;
        char *room = frame_reader_room(&monitor->reader, &size);
        CHECK(room);
        ssize_t got = recv(monitor->fd, room, size, 0);
        if (got < 0 && errno == EINTR)
            continue;
        CHECK(got > 0);
        frame_reader_fed(&monitor->reader, (size_t)got);
    }
    CHECK(code == 1);
    CHECK(frame.type == type);
    return frame;
}

uint32_t part_request(struct test_monitor *monitor, const char *text, Omis_flags *ret_flags)
{
    struct frame frame = part_read(monitor, FRAME_REQUEST);
    uint32_t flags;
    CHECK(frame.id != 0);
    CHECK(frame.payload.len >= sizeof flags);
    memcpy(&flags, frame.payload.ptr, sizeof flags);
    if (ret_flags)
        *ret_flags = le32toh(flags);
    if (text)
        CHECK(span_is(span_of(frame.payload.ptr + 4, frame.payload.len - 4), text));
    return frame.id;
}

bool part_nothing_comes(struct test_monitor *monitor)
{
    struct frame frame;
    char byte;
    return frame_reader_next(&monitor->reader, &frame) == 0 &&
           recv(monitor->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

void part_read_end(struct test_monitor *monitor)
{
    char bytes[4096];
    while (recv(monitor->fd, bytes, sizeof bytes, 0) > 0)
        ;
}

void part_send(struct test_monitor *monitor, struct span bytes)
{
    while (bytes.len) {
        ssize_t put = send(monitor->fd, bytes.ptr, bytes.len, MSG_NOSIGNAL);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return; /* the tool has closed: some parts are about that */
        bytes = span_of(bytes.ptr + put, bytes.len - (size_t)put);
    }
}

void part_frame(struct test_monitor *monitor, enum frame_type type, uint8_t flags, uint32_t id, struct span payload)
{
    struct buf out = BUF_INIT;
    frame_append(&out, type, flags, id, payload, span_of("", 0));
    CHECK(!out.failed);
    part_send(monitor, span_of(out.data, out.len));
    buf_done(&out);
}

void part_reply(struct test_monitor *monitor, enum frame_type type, uint8_t flags, uint32_t id,
                const struct part_result *results)
{
    struct reply_builder builder = {0};
    reply_begin(&builder);
    int open = -1;
    for (; results->objects; results++) {
        while (open < results->service) {
            reply_service(&builder);
            open++;
        }
        struct span text = results->text ? span_str(results->text) : span_of("", 0);
        reply_result(&builder, span_str(results->objects), results->status, results->text ? &text : NULL);
    }
    CHECK(!builder.bytes.failed);
    part_frame(monitor, type, flags, id, span_of(builder.bytes.data, builder.bytes.len));
    reply_done(&builder);
}

void part_close(struct test_monitor *monitor)
{
    if (monitor->fd >= 0)
        close(monitor->fd);
    monitor->fd = -1;
}

void part_finalize(struct test_monitor *monitor)
{
    part_read(monitor, FRAME_FINALIZE);
    part_frame(monitor, FRAME_GOODBYE, 0, 0, span_of("", 0));
    part_read_end(monitor);
}

void test_monitor_meet(struct test_monitor *monitor)
{
    pthread_barrier_wait(&monitor->meeting);
}
