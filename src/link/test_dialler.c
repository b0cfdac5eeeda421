/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "base/system/clock.h"
#include "link/dialler.h"

static const uint8_t secret[TLS_SECRET] = {1, 2, 3};

/* The program has it; here nobody goes by ssh. */
const char *link_remote_command(void)
{
    return "";
}

/* A socket at a free port of this machine; nobody takes what comes. */
static int listen_at(struct link_way *way)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof here;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&here, sizeof here), 0);
    assert_int_equal(listen(fd, 4), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&here, &len), 0);
    *way = (struct link_way){
        .kind = LINK_TLS, .host = "127.0.0.1", .shown = "there", .port = ntohs(here.sin_port), .secret = secret};
    return fd;
}

static void wait_for(const struct dialler_wait *wait)
{
    struct pollfd ready = {.fd = wait->fd, .events = (short)wait->events};
    poll(&ready, 1, 20);
}

/* Until it waits for the other end's greeting: without a thread for it, only one that never blocks comes so far. */
static void step_to_greeting(struct dialler *dialler, struct dialler_wait *wait)
{
    struct transport *transport = NULL;
    struct err err = {0};
    do {
        assert_int_equal(dialler_step(dialler, &transport, wait, &err), -EAGAIN);
        assert_null(transport);
        wait_for(wait);
    } while (!dialler->transport);
    assert_int_equal(dialler_step(dialler, &transport, wait, &err), -EAGAIN);
    assert_true(wait->until_ns > clock_now_ns());
}

static void test_steps(void **state)
{
    struct link_way way;
    struct dialler dialler;
    struct dialler_wait wait;
    struct transport *ours = NULL, *theirs = NULL;
    struct tls *tls = NULL;
    struct err err = {0};
    (void)state;
    int listener = listen_at(&way);
    dialler_init(&dialler, &way);
    step_to_greeting(&dialler, &wait);
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    assert_true(fd >= 0);
    assert_int_equal(tls_new_shared(&tls, secret, true, &err), 0);
    assert_int_equal(tls_transport(tls, fd, &theirs, &err), 0);
    int code = -EAGAIN;
    while (!ours || code == -EAGAIN) {
        if (code == -EAGAIN)
            code = transport_shake(theirs, &err);
        if (!ours && dialler_step(&dialler, &ours, &wait, &err) == -EAGAIN)
            wait_for(&wait);
    }
    assert_int_equal(code, 0);
    assert_true(ours->shaken);
    transport_free(theirs);
    tls_free(tls);
    transport_free(ours);
    dialler_done(&dialler);
    close(listener);
}

/* It is given up amidst of that, and begun anew at the addresses that are known. */
static void test_again(void **state)
{
    struct link_way way;
    struct dialler dialler;
    struct dialler_wait wait;
    (void)state;
    int listener = listen_at(&way);
    dialler_init(&dialler, &way);
    step_to_greeting(&dialler, &wait);
    dialler_stop(&dialler);
    snprintf(way.host, sizeof way.host, "no-such-host.invalid"); /* is not looked up */
    step_to_greeting(&dialler, &wait);
    dialler_done(&dialler);
    close(listener);
}

static void test_nobody(void **state)
{
    struct link_way way;
    struct dialler dialler;
    struct transport *transport = NULL;
    struct err err = {0};
    (void)state;
    close(listen_at(&way));
    dialler_init(&dialler, &way);
    assert_int_equal(dialler_connect(&dialler, &transport, &err), -ECONNREFUSED);
    assert_non_null(strstr(err.text, "nobody listens at port"));
    assert_null(transport);
    dialler_done(&dialler);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_steps), cmocka_unit_test(test_again),
                                       cmocka_unit_test(test_nobody)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
