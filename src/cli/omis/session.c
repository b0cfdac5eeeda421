/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/omis/session.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/system/clock.h"
#include "cli/common/cli.h"
#include "cli/omis/print.h"
#include "client/client.h"

/* The error handler of omis_init has no parameter. */
static struct omis_session *the_session;

static void print(struct omis_session *session, Omis_reply reply, uint32_t number)
{
    if (session->before_output)
        session->before_output(session->ctx);
    if (session->json)
        omis_print_json(stdout, reply, number);
    else
        omis_print_text(stdout, reply, number, session->color);
    fflush(stdout);
    if (session->after_output)
        session->after_output(session->ctx);
}

/* The parameter of the callback is the request's number. */
static void on_reply(Omis_reply reply, void *param)
{
    struct omis_session *session = the_session;
    uint32_t number = (uint32_t)(uintptr_t)param;
    print(session, reply, number);
    if (session->seen)
        session->seen(session->ctx, reply);
    if (omis_reply_has_error(reply))
        session->failed = true;
    if (number == session->awaited)
        session->awaited = 0;
    else
        session->replies++;
    omis_reply_free(reply);
}

/* Debugging output, and errors that belong to no request: for people. */
static void on_error(Omis_reply reply)
{
    const Omis_object_result *result = reply[0];
    bool error = result && result->obj_list && result->status >= OMIS_FIRST_ERROR;
    if (the_session->before_output)
        the_session->before_output(the_session->ctx);
    fputs(error ? "scry omis: " : "debug: ", stderr);
    const char *text = result && result->obj_list && result->result ? result->result : "no description";
    omis_print_safely(stderr, text, strlen(text));
    fputc('\n', stderr);
    if (the_session->after_output)
        the_session->after_output(the_session->ctx);
    if (error)
        the_session->failed = true;
    omis_reply_free(reply);
}

bool omis_session_open(struct omis_session *session, const char *url, bool start)
{
    char program[] = "scry", no_start[] = "--omis-no-start", connect[PATH_MAX + 32];
    char *arguments[4] = {program, NULL}, **argv = arguments;
    int argc = 1;
    if (url) {
        if ((size_t)snprintf(connect, sizeof connect, "--omis-connect=%s", url) >= sizeof connect) {
            fprintf(stderr, "scry omis: --connect: the URL is too long\n");
            return false;
        }
        arguments[argc++] = connect;
    }
    if (!start)
        arguments[argc++] = no_start;
    the_session = session;
    session->interrupt_fd = -1;
    return omis_init(&argc, &argv, on_error, NULL) == OMIS_OK;
}

bool omis_session_handle(struct omis_session *session)
{
    omis_handler();
    return client_connected();
}

/* Waits for replies until `until_ns` (0: for ever). False: waiting longer is useless. */
static bool wait_for_replies(struct omis_session *session, uint64_t until_ns)
{
    int timeout = -1;
    if (until_ns) {
        uint64_t now = clock_now_ns();
        if (now >= until_ns)
            return false;
        timeout = (int)((until_ns - now) / 1000000 < 1000000 ? (until_ns - now) / 1000000 + 1 : 1000000);
    }
    struct pollfd events[] = {{.fd = omis_fd(), .events = POLLIN}, {.fd = session->interrupt_fd, .events = POLLIN}};
    if (events[0].fd < 0)
        return false;
    int count = poll(events, 2, timeout);
    if ((count < 0 && errno != EINTR) || session->interrupted)
        return false;
    return count > 0 && events[0].revents ? omis_session_handle(session) : true;
}

void omis_session_ask(struct omis_session *session, struct span text)
{
    uint32_t number = ++session->requests;
    size_t others = client_unanswered();
    session->awaited = number;
    Omis_reply reply = client_request(text, on_reply, (void *)(uintptr_t)number, session->flags);
    if (reply) {
        on_reply(reply, (void *)(uintptr_t)number);
        return;
    }
    if (session->flags & OMIS_BUFFER_REQUEST)
        return;
    bool may_be_silent = session->flags & (OMIS_DONT_RETURN_OK | OMIS_DONT_RETURN_EN_DIS);
    /* One pass after the loss of the connection delivers the error reply. */
    while (session->awaited == number && (!may_be_silent || client_unanswered() > others) &&
           wait_for_replies(session, 0))
        ;
    session->awaited = 0;
}

void omis_session_flush(struct omis_session *session)
{
    if (!(session->flags & OMIS_BUFFER_REQUEST))
        return;
    client_send();
    while (client_unanswered() && wait_for_replies(session, 0))
        ;
}

Omis_reply omis_session_query(struct omis_session *session, const char *text)
{
    return client_request(span_str(text), NULL, NULL, 0);
}

void omis_session_listen(struct omis_session *session, uint64_t replies, uint64_t time_ns)
{
    uint64_t enough = session->replies + replies, until = time_ns ? clock_now_ns() + time_ns : 0;
    while (!session->interrupted && (!replies || session->replies < enough) && wait_for_replies(session, until))
        ;
}

int omis_session_close(struct omis_session *session)
{
    if (client_connected())
        omis_handler(); /* debugging output of the last request */
    bool lost = !client_connected();
    omis_finalize();
    return session->failed || lost ? EXIT_ERRORS : 0;
}
