/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/system/clock.h"
#include "link/link.h"

static void good_names(void **state)
{
    static const struct {
        const char *name;
        enum link_kind kind;
        const char *user, *host;
        unsigned port;
    } cases[] = {
        {"n2", LINK_SSH, "", "n2", 0},
        {"node-07.rack_3.example.org", LINK_SSH, "", "node-07.rack_3.example.org", 0},
        {"eve@n2", LINK_SSH, "eve", "n2", 0},
        {"eve@realm@n2", LINK_SSH, "eve@realm", "n2", 0},
        {"10.0.0.7", LINK_SSH, "", "10.0.0.7", 0},
        {"::1", LINK_SSH, "", "::1", 0},
        {"[::1]", LINK_SSH, "", "::1", 0},
        {"eve@fe80::1%eth0", LINK_SSH, "eve", "fe80::1%eth0", 0},
        {"ssh://n2", LINK_SSH, "", "n2", 0},
        {"ssh://eve@n2:2222/", LINK_SSH, "eve", "n2", 2222},
        {"ssh://[fe80::1%eth0.5]:22", LINK_SSH, "", "fe80::1%eth0.5", 22},
        {"ssh://2001:db8::7", LINK_SSH, "", "2001:db8::7", 0},
        {"tls://n2:7007", LINK_TLS, "", "n2", 7007},
        {"tls://[2001:db8::7]:65535", LINK_TLS, "", "2001:db8::7", 65535},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct link_endpoint endpoint;
        struct err err = {0};
        assert_int_equal(link_endpoint_node(cases[i].name, &endpoint, &err), 0);
        assert_int_equal(endpoint.kind, cases[i].kind);
        assert_int_equal(endpoint.port, cases[i].port);
        assert_string_equal(endpoint.user, cases[i].user);
        assert_string_equal(endpoint.host, cases[i].host);
        assert_string_equal(endpoint.shown, cases[i].name);
    }
}

/* What does not belong there is refused before ssh sees it, in one line. */
static void bad_names(void **state)
{
    static const char *const cases[][2] = {
        {"", "missing"},
        {"@n2", "name of a user"},
        {"eve@", "name or address"},
        {"-oProxyCommand=id", "name or address"},
        {"-l@n2", "name of a user"},
        {"eve@-n2", "name or address"},
        {"ssh://-n2", "name or address"},
        {"n2;reboot", "name or address"},
        {"$(id)", "name or address"},
        {"n2 n3", "name or address"},
        {"n2\nn3", "letters, digits"},
        {"n2\x1b[31m", "letters, digits"},
        {"e'e@n2", "name of a user"},
        {"`id`@n2", "name of a user"},
        {"n\xc3\xb6", "letters, digits"},
        {"n2:2222", "ssh://HOST:PORT"},
        {"[::1]:22", "ssh://HOST:PORT"},
        {"n2:ssh", "1 to 65535"},
        {"ssh://n2:0", "1 to 65535"},
        {"ssh://n2:65536", "1 to 65535"},
        {"ssh://n2:", "1 to 65535"},
        {"ssh://n2:2x", "1 to 65535"},
        {"ssh://eve:secret@n2", "no password"},
        {"ssh://n2/path", "name or address"},
        {"[::1", "name or address"},
        {"[]", "name or address"},
        {"[::1]22", "name or address"},
        {"tls://n2", "port is missing"},
        {"tls://eve@n2:1", "name or address"},
        {"http://n2", "no way to another machine"},
    };
    struct link_endpoint endpoint;
    struct err err;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        err = (struct err){0};
        if (link_endpoint_node(cases[i][0], &endpoint, &err) != -EINVAL || !strstr(err.text, cases[i][1]))
            fail_msg("%s: %s", cases[i][0], err.text);
        assert_null(strchr(err.text, '\n'));
        assert_null(strstr(err.text, "secret"));
    }
    char longest[LINK_NAME + 1];
    memset(longest, 'n', sizeof longest);
    longest[LINK_NAME - 1] = 0;
    assert_int_equal(link_endpoint_node(longest, &endpoint, &err), 0);
    longest[LINK_NAME - 1] = 'n';
    longest[LINK_NAME] = 0;
    assert_int_equal(link_endpoint_node(longest, &endpoint, &err), -EINVAL);
}

static const uint8_t secret[TLS_SECRET] = {1, 2, 3};

/* The program has it; here nobody goes by ssh. */
const char *link_remote_command(void)
{
    return "";
}

/* A socket at a free port of this machine; nobody takes what comes. */
static int listen_at(struct link_endpoint *endpoint)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof here;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&here, sizeof here), 0);
    assert_int_equal(listen(fd, 4), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&here, &len), 0);
    *endpoint = (struct link_endpoint){
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
    struct link_endpoint endpoint;
    struct dialler dialler;
    struct dialler_wait wait;
    struct transport *ours = NULL, *theirs = NULL;
    struct tls *tls = NULL;
    struct err err = {0};
    (void)state;
    int listener = listen_at(&endpoint);
    dialler_init(&dialler, &endpoint);
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
    struct link_endpoint endpoint;
    struct dialler dialler;
    struct dialler_wait wait;
    (void)state;
    int listener = listen_at(&endpoint);
    dialler_init(&dialler, &endpoint);
    step_to_greeting(&dialler, &wait);
    dialler_stop(&dialler);
    snprintf(endpoint.host, sizeof endpoint.host, "no-such-host.invalid"); /* is not looked up */
    step_to_greeting(&dialler, &wait);
    dialler_done(&dialler);
    close(listener);
}

static void test_nobody(void **state)
{
    struct link_endpoint endpoint;
    struct dialler dialler;
    struct transport *transport = NULL;
    struct err err = {0};
    (void)state;
    close(listen_at(&endpoint));
    dialler_init(&dialler, &endpoint);
    assert_int_equal(dialler_connect(&dialler, &transport, &err), -ECONNREFUSED);
    assert_non_null(strstr(err.text, "nobody listens at port"));
    assert_null(transport);
    dialler_done(&dialler);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_names), cmocka_unit_test(bad_names),   cmocka_unit_test(test_steps),
        cmocka_unit_test(test_again), cmocka_unit_test(test_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
