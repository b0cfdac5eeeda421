/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The debugging example of section 5.3.2 of the specification, request by request as printed there. Tokens, the address
 * and the register numbers are those of the running programs, and in place of the library call a system call is
 * awaited, since no programming library is watched.
 *
 *     debugging PID-1 SYSTEM-CALL PID-2 ADDRESS        ends when standard input does
 *
 * Prints what is found at each event: the process, its stack and its registers.
 */
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <omis.h>

static void fail(const char *what, Omis_reply reply)
{
    const Omis_object_result *result = reply && reply[0] && reply[1] ? &reply[1][0] : reply ? &reply[0][0] : NULL;
    fprintf(stderr, "debugging: %s: status %d, %s\n", what, result ? result->status : -1,
            result && result->result ? result->result : "no result");
    exit(1);
}

static void on_error(Omis_reply reply)
{
    fail("error", reply);
}

/* What the action list of the fourth request found. */
static void on_event(Omis_reply reply, void *param)
{
    if (reply[0][0].status == OMIS_CSR_TRIGGERED) {
        printf("event at %s\n", reply[0][0].obj_list);
        for (int i = 1; reply[i]; i++)
            printf("%d %s\n", reply[i][0].status, reply[i][0].result ? reply[i][0].result : "NULL");
        fflush(stdout);
    }
    omis_reply_free(reply);
}

/* The others only tell of their definition, and that they raised the event. */
static void on_other(Omis_reply reply, void *param)
{
    for (int i = 1; reply[i]; i++)
        if (reply[i][0].status >= OMIS_FIRST_ERROR)
            fail("a request", reply);
    omis_reply_free(reply);
}

/* Sends a request; the first reply's result `element`, which the caller frees. */
static char *ask(int element, void (*callback)(Omis_reply reply, void *param), const char *format, ...)
{
    char request[1000];
    va_list args;
    va_start(args, format);
    vsnprintf(request, sizeof request, format, args);
    va_end(args);
    Omis_reply reply = omis_request(request, callback, NULL, callback ? OMIS_WAIT_FOR_FIRST_REPLY : 0);
    for (int i = 0; reply && reply[i]; i++)
        if (reply[i][0].status >= OMIS_FIRST_ERROR)
            fail(request, reply);
    if (!reply || !reply[0] || !reply[element])
        fail(request, reply);
    char *result = reply[element][0].result ? strdup(reply[element][0].result) : NULL;
    omis_reply_free(reply);
    return result;
}

int main(int argc, char **argv)
{
    if (omis_init(&argc, &argv, on_error, NULL) != OMIS_OK || argc != 5)
        return 1;
    free(ask(1, NULL, ": node_attach2(\"localhost\")"));
    char *p_1123 = ask(1, NULL, ": proc_attach3([n_1], %s, \"\")", argv[1]);
    char *p_1234 = ask(1, NULL, ": proc_attach3([n_1], %s, \"\")", argv[3]);
    printf("%s %s\n", p_1123, p_1234);

    char *e_1 = ask(1, NULL, ": user_event_create()");
    char *c_1 = ask(0, on_other, "thread_has_started_sys_call([%s], \"%s\") :\n    user_event_raise([%s], [], 0)",
                    p_1123, argv[2], e_1);
    char *c_2 =
        ask(0, on_other, "thread_reached_addr([%s], %s) :\n    user_event_raise([%s], [], 0)", p_1234, argv[4], e_1);
    char *c_3 = ask(0, on_event,
                    "user_event_has_been_raised([%s]) :\n    print([$proc])\n    thread_get_backtrace([$proc], 0)\n"
                    "    thread_read_int_regs([$proc], 0, 32)",
                    e_1);
    free(ask(0, NULL, ": csr_enable([%s]) ; csr_enable([%s, %s])", c_3, c_1, c_2));
    printf("ready\n");
    fflush(stdout);
    for (;;) {
        struct pollfd fds[] = {{.fd = 0, .events = POLLIN}, {.fd = omis_fd(), .events = POLLIN}};
        char byte;
        if (poll(fds, 2, -1) < 0)
            return 1;
        if (fds[1].revents)
            omis_handler();
        if (fds[0].revents && read(0, &byte, 1) <= 0)
            break;
    }
    char *tokens[] = {p_1123, p_1234, e_1, c_1, c_2, c_3};
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
        free(tokens[i]);
    return omis_finalize() == OMIS_OK ? 0 : 1;
}
