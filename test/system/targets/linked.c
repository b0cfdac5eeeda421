/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connection to a broker (src/broker/link.h) alone, for tests and benchmarks.
 *
 *     linked send URL TOPIC COUNT QOS BYTES RATE   sends "0 ", "1 ", ... filled up to BYTES, RATE a second (0: as fast as
 *                                                  it goes); "sent SECONDS" when all are acknowledged
 *     linked read URL PATTERN QOS [SESSION]        prints "got TOPIC NUMBER" for each; with SESSION the broker keeps them
 *                                                  while the reader is away
 *
 * Both print "up", "ready" (subscribed) and "lost WHY", and end when standard input does, or by `sent`.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/system/clock.h"
#include "broker/link.h"

static struct loop *loop;
static struct link *link_of;
static const char *topic;
static int qos, count, next, acknowledged, bytes;
static double rate;
static uint64_t start_ns;
static struct loop_source *timer;

static void send_some(void *ctx)
{
    static char text[LINK_MESSAGE_BYTES + 1];
    while (link_is_up(link_of) && next < count) {
        uint64_t due_ns = start_ns + (rate > 0 ? (uint64_t)((double)next / rate * 1e9) : 0), now_ns = clock_now_ns();
        if (due_ns > now_ns) {
            loop_set_timer(timer, due_ns - now_ns, 0);
            return;
        }
        int used = snprintf(text, sizeof text, "%d ", next), len = bytes > used ? bytes : used;
        memset(text + used, 'x', (size_t)(len - used));
        int code = link_publish(link_of, topic, span_of(text, (size_t)len), qos, false, NULL);
        if (code < 0 && code != -EAGAIN && code != -ENOTCONN)
            printf("error %s\n", strerror(-code));
        if (code < 0)
            return;
        next++;
    }
}

static void on_connected(void *ctx, bool session_present)
{
    puts("up");
    if (!count)
        link_subscribe(link_of, topic, qos, NULL);
    send_some(NULL);
}

static void on_lost(void *ctx, const char *why)
{
    printf("lost %s\n", why);
}

static void on_published(void *ctx, int id)
{
    if (++acknowledged == count) {
        printf("sent %.6f\n", (double)(clock_now_ns() - start_ns) / 1e9);
        loop_stop(loop);
    }
    send_some(NULL);
}

static void on_subscribed(void *ctx, int id, bool granted)
{
    puts(granted ? "ready" : "refused");
}

static void on_message(void *ctx, const char *of, struct span payload, bool retained)
{
    printf("got %s %.*s\n", of, (int)strcspn(payload.ptr, " "), payload.ptr);
}

static void on_input(void *ctx, int fd, uint32_t events)
{
    char byte;
    if (read(fd, &byte, 1) <= 0)
        loop_stop(loop);
}

int main(int argc, char **argv)
{
    static const struct link_events events = {on_connected, on_lost, on_published, on_subscribed, on_message};
    bool sends = argc == 8 && strcmp(argv[1], "send") == 0, reads = argc > 4 && strcmp(argv[1], "read") == 0;
    if (!sends && !reads)
        return 2;
    setlinebuf(stdout);
    struct err err;
    struct broker_url url;
    if (broker_url_parse(argv[2], &url, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    topic = argv[3];
    qos = atoi(argv[sends ? 5 : 4]);
    if (sends) {
        count = atoi(argv[4]);
        bytes = atoi(argv[6]);
        rate = atof(argv[7]);
    }
    char name[32];
    snprintf(name, sizeof name, "linked%d", (int)getpid());
    struct link_options options = {.url = &url,
                                   .client = reads && argc > 5 ? argv[5] : name,
                                   .what = "client",
                                   .keep_session = reads && argc > 5,
                                   .keepalive_seconds = 5,
                                   .events = &events};
    if (loop_new(&loop) < 0 || !(timer = loop_add_timer(loop, 0, 0, send_some, NULL)) ||
        link_open(&link_of, loop, &options, &err) < 0)
        return 1;
    start_ns = clock_now_ns();
    loop_add_fd(loop, STDIN_FILENO, EPOLLIN, on_input, NULL);
    loop_run(loop);
    link_close(link_of, true);
    loop_free(loop);
    return 0;
}
