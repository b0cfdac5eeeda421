/* SPDX-License-Identifier: Apache-2.0 */
/* With a real mosquitto on a unix socket; test/system/test_broker.py has TLS, clusters and bad brokers. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/system/clock.h"
#include "base/system/pause.h"
#include "broker/link.c"
#include "shm/waits.h"

static char dir[64], config[80], sock[80];
static pid_t broker;
static struct loop *loop;
static struct broker_url url;

struct seen {
    struct link *link;
    int connected, lost, published, granted, refused, messages, last_published;
    bool retained, close_on_message;
    const char *subscribe;
    char why[256], topic[128], payload[64];
};

static void on_connected(void *ctx, bool session_present)
{
    struct seen *seen = ctx;
    seen->connected++;
    if (seen->subscribe)
        assert_int_equal(link_subscribe(seen->link, seen->subscribe, 1, NULL), 0);
}

static void on_lost(void *ctx, const char *why)
{
    struct seen *seen = ctx;
    seen->lost++;
    snprintf(seen->why, sizeof seen->why, "%s", why);
}

static void on_published(void *ctx, int id)
{
    struct seen *seen = ctx;
    seen->published++;
    seen->last_published = id;
}

static void on_subscribed(void *ctx, int id, bool granted)
{
    struct seen *seen = ctx;
    if (granted)
        seen->granted++;
    else
        seen->refused++;
}

static void on_text(void *ctx, const char *topic, struct span payload, bool retained)
{
    struct seen *seen = ctx;
    seen->messages++;
    seen->retained = retained;
    snprintf(seen->topic, sizeof seen->topic, "%s", topic);
    snprintf(seen->payload, sizeof seen->payload, "%.*s", SPAN_ARG(payload));
    if (seen->close_on_message) {
        link_close(seen->link, true);
        seen->link = NULL;
    }
}

static const struct link_events events = {on_connected, on_lost, on_published, on_subscribed, on_text};

static void start_broker(void)
{
    broker = fork();
    if (broker == 0) {
        FILE *log = freopen("/dev/null", "w", stderr);
        (void)log;
        execlp("mosquitto", "mosquitto", "-c", config, (char *)NULL);
        execl("/usr/sbin/mosquitto", "mosquitto", "-c", config, (char *)NULL);
        _exit(127);
    }
}

static void stop_broker(int signo)
{
    kill(broker, signo);
    waitpid(broker, NULL, 0);
    broker = 0;
}

static int setup(void **state)
{
    snprintf(dir, sizeof dir, "/tmp/scry-test-link-XXXXXX");
    if (!mkdtemp(dir) || loop_new(&loop) < 0)
        return -1;
    snprintf(config, sizeof config, "%s/conf", dir);
    snprintf(sock, sizeof sock, "%s/sock", dir);
    FILE *file = fopen(config, "w");
    fprintf(file, "listener 0 %s\nallow_anonymous true\nmax_queued_messages 0\n%s", sock,
            getuid() ? "" : "user root\n");
    fclose(file);
    snprintf(url.path, sizeof url.path, "%s", sock);
    start_broker();
    return 0;
}

static int teardown(void **state)
{
    stop_broker(SIGTERM);
    loop_free(loop);
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command);
}

static void open_link(struct seen *seen, const char *client, const char *will)
{
    struct err err;
    struct link_options options = {.url = &url, .client = client, .what = "client", .events = &events, .ctx = seen};
    if (will) {
        options.will_topic = "test/will";
        options.will = span_str(will);
    }
    assert_int_equal(link_open(&seen->link, loop, &options, &err), 0);
}

#define WAIT_FOR(condition) \
    for (uint64_t end = clock_now_ns() + 20ull * NS_PER_SECOND; !(condition);) { \
        assert_true(clock_now_ns() < end); \
        assert_int_equal(loop_step(loop, 100000000), 0); \
    }

static void messages_arrive(void **state)
{
    struct seen reader = {.subscribe = "test/#"}, writer = {0};
    open_link(&reader, "reader", NULL);
    WAIT_FOR(reader.granted);
    open_link(&writer, "writer", NULL);
    assert_int_equal(link_publish(writer.link, "test/a", span_str("x"), 1, false, NULL), -ENOTCONN);
    WAIT_FOR(writer.connected);
    int id;
    assert_int_equal(link_publish(writer.link, "test/a", span_str("hello"), 1, true, &id), 0);
    assert_int_equal(writer.published, 0);
    assert_int_equal(link_in_flight(writer.link), 1);
    WAIT_FOR(writer.published && reader.messages);
    assert_int_equal(writer.last_published, id);
    assert_int_equal(link_in_flight(writer.link), 0);
    assert_string_equal(reader.topic, "test/a");
    assert_string_equal(reader.payload, "hello");
    assert_false(reader.retained);
    assert_int_equal(link_publish(writer.link, "test/b", span_of("", 0), 0, false, &id), 0);
    WAIT_FOR(writer.published == 2 && reader.messages == 2);
    assert_string_equal(reader.payload, "");
    assert_int_equal(link_publish(writer.link, "test/#", span_str("x"), 1, false, NULL), -EINVAL);
    assert_int_equal(link_publish(writer.link, "test/a", span_of("", LINK_MESSAGE_BYTES + 1), 1, false, NULL),
                     -EMSGSIZE);
    assert_int_equal(link_in_flight(writer.link), 0);

    struct seen late = {.subscribe = "test/a", .close_on_message = true};
    open_link(&late, "late", NULL);
    WAIT_FOR(late.messages);
    assert_true(late.retained);
    assert_null(late.link);
    link_close(reader.link, true);
    link_close(writer.link, true);
    assert_int_equal(loop_step(loop, 0), 0);
}

static void the_will_is_for_those_who_say_nothing(void **state)
{
    struct seen reader = {.subscribe = "test/will"}, polite = {0}, gone = {0};
    open_link(&reader, "reader", NULL);
    WAIT_FOR(reader.granted);
    open_link(&polite, "polite", "polite");
    open_link(&gone, "gone", "gone");
    WAIT_FOR(polite.connected && gone.connected);
    link_close(polite.link, true);
    WAIT_FOR(!reader.messages);
    link_close(gone.link, false);
    WAIT_FOR(reader.messages);
    assert_string_equal(reader.payload, "gone");
    link_close(reader.link, true);
}

/* Nothing with QoS 1 is missing, whatever happens to the broker, and the order of what comes first is kept. */
static void the_rest_follows_an_outage(void **state)
{
    enum { COUNT = 2000 };
    struct seen reader = {.subscribe = "test/n"}, writer = {0};
    open_link(&reader, "reader", NULL);
    open_link(&writer, "writer", NULL);
    WAIT_FOR(reader.granted && writer.connected);
    int sent = 0, full = 0;
    while (sent < COUNT) {
        char text[16];
        snprintf(text, sizeof text, "%d", sent);
        int code = link_publish(writer.link, "test/n", span_str(text), 1, false, NULL);
        if (code == 0)
            sent++;
        else
            assert_true(code == -EAGAIN || code == -ENOTCONN);
        full += code == -EAGAIN;
        if (code < 0)
            assert_int_equal(loop_step(loop, 100000000), 0);
        if (code == 0 && sent == COUNT / 2) {
            /* One at least is not acknowledged: as many as there may be, or this one. */
            kill(broker, SIGSTOP);
            snprintf(text, sizeof text, "%d", sent);
            for (int look = 0; look < 20; look++) {
                code = link_publish(writer.link, "test/n", span_str(text), 1, false, NULL);
                if (code == 0) {
                    sent++;
                    break;
                }
                assert_int_equal(loop_step(loop, 10000000), 0);
            }
            stop_broker(SIGKILL);
            WAIT_FOR(writer.lost > 1 && reader.lost);
            assert_int_not_equal(link_in_flight(writer.link), 0);
            assert_non_null(strstr(writer.why, "refused"));
            start_broker();
            WAIT_FOR(reader.granted == 2);
        }
    }
    WAIT_FOR(writer.published == COUNT);
    WAIT_FOR(atoi(reader.payload) == COUNT - 1);
    assert_true(full > 0);
    link_close(reader.link, true);
    link_close(writer.link, true);
}

static void a_broker_that_is_not_there(void **state)
{
    struct seen seen = {0};
    struct broker_url before = url;
    snprintf(url.path, sizeof url.path, "%s/none", dir);
    open_link(&seen, "client", NULL);
    WAIT_FOR(seen.lost == 2);
    assert_string_equal(seen.why, "No such file or directory");
    url = before;
    link_close(seen.link, true);

    url.path[0] = 0; /* two places, of which the first does not answer */
    struct err err;
    assert_int_equal(broker_url_parse("mqtt://127.0.0.1:1,localhost:1", &url, &err), 0);
    memset(&seen, 0, sizeof seen);
    open_link(&seen, "client", NULL);
    WAIT_FOR(seen.lost == 1);
    assert_string_equal(seen.why, "127.0.0.1: Connection refused");
    WAIT_FOR(seen.lost == 2);
    assert_string_equal(seen.why, "localhost: Connection refused");
    link_close(seen.link, true);
    url = before;
    open_link(&seen, "client", NULL); /* closed while it connects */
    assert_int_equal(loop_step(loop, 1000000), 0);
    link_close(seen.link, false);
}

/* Two of one name have each other thrown out: soon they come back once a minute at most, and say why. */
static void two_of_one_name(void **state)
{
    enum { HASTE = 50 };
    if (time_hasten(HASTE) != HASTE) {
        print_message("SKIP: SCRY_TEST_HASTE is set\n");
        skip();
    }
    setenv("SCRY_TEST_HASTE", "50", 1);
    bool hastened = time_hasten(HASTE) == 1;
    struct seen seen[2] = {{0}, {0}};
    for (int i = 0; i < 2 && hastened; i++)
        open_link(&seen[i], "same", NULL);
    if (hastened)
        WAIT_FOR(seen[0].lost >= AGAIN_MANY && seen[1].lost >= AGAIN_MANY);
    uint64_t least_ns = UINT64_MAX, most_ns = 0;
    for (int i = 0; i < 2 && hastened; i++) {
        uint64_t soonest_ns = retry_ns(seen[i].link, 1023), latest_ns = retry_ns(seen[i].link, 0);
        least_ns = soonest_ns < least_ns ? soonest_ns : least_ns;
        most_ns = latest_ns > most_ns ? latest_ns : most_ns;
        link_close(seen[i].link, true);
    }
    unsetenv("SCRY_TEST_HASTE");
    if (!hastened) {
        print_message("SKIP: needs -Dpauses=true\n");
        skip();
    }
    assert_in_range(least_ns, AGAIN_SELDOM_NS, 2 * AGAIN_SELDOM_NS);
    assert_in_range(most_ns, least_ns, 2 * AGAIN_SELDOM_NS);
    assert_non_null(strstr(seen[0].why, "perhaps another client is connected there by this one's name, same"));
}

/* TLS sets no errno when the other end is gone: that is no "Success". */
static void what_has_no_errno(void **state)
{
    errno = 0;
    assert_string_equal(reason_text(MOSQ_ERR_ERRNO), "the connection was lost");
    errno = ECONNRESET;
    assert_string_equal(reason_text(MOSQ_ERR_ERRNO), "Connection reset by peer");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_arrive),
        cmocka_unit_test(the_will_is_for_those_who_say_nothing),
        cmocka_unit_test(the_rest_follows_an_outage),
        cmocka_unit_test(a_broker_that_is_not_there),
        cmocka_unit_test(two_of_one_name),
        cmocka_unit_test(what_has_no_errno),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
