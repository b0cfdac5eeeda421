/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The six procedures of OMIS, and nothing else: raises an event of its own, and prints its time and parameter.
 * doc/howto/c-program.md compiles it.
 */
#include <omis.h>
#include <poll.h>
#include <stdio.h>

static int ticks;

/* Called from omis_handler with each reply. It is ours to free. */
static void tick(Omis_reply reply, void *param)
{
    (void)param;
    if (reply[0][0].status == OMIS_CSR_TRIGGERED) {
        printf("tick: %s\n", reply[1][0].result);
        ticks++;
    }
    omis_reply_free(reply);
}

/* Sends a request, waits for its answer, and copies the first result. */
static int ask(const char *text, char *ret_result, int size)
{
    char request[256];
    snprintf(request, sizeof request, "%s", text);
    Omis_reply reply = omis_request(request, NULL, NULL, 0);
    const Omis_object_result *answer = reply[1] ? &reply[1][0] : &reply[0][0];
    if (ret_result)
        snprintf(ret_result, size, "%s", answer->result ? answer->result : "");
    int status = reply[0][0].status >= OMIS_FIRST_ERROR ? reply[0][0].status : answer->status;
    if (status >= OMIS_FIRST_ERROR)
        fprintf(stderr, "%s: error %d: %s\n", text, status, answer->result ? answer->result : "");
    omis_reply_free(reply);
    return status;
}

int main(int argc, char **argv)
{
    char event[64], csr[64], request[256];
    if (omis_init(&argc, &argv, NULL, NULL) != OMIS_OK || ask(": user_event_create()", event, sizeof event) != OMIS_OK)
        return 1;

    /* A conditional request: its first reply has its token, the later ones come when the event is raised. */
    snprintf(request, sizeof request, "user_event_has_been_raised(%s): print([$time, $par1])", event);
    Omis_reply reply = omis_request(request, tick, NULL, OMIS_WAIT_FOR_FIRST_REPLY);
    snprintf(csr, sizeof csr, "%s", reply[0][0].result);
    omis_reply_free(reply);
    snprintf(request, sizeof request, ": csr_enable([%s])", csr);
    ask(request, NULL, 0);
    snprintf(request, sizeof request, ": user_event_raise(%s, [42], 1)", event);
    ask(request, NULL, 0);

    struct pollfd replies = {.fd = omis_fd(), .events = POLLIN};
    while (ticks == 0 && poll(&replies, 1, 5000) > 0)
        omis_handler();
    return omis_finalize() == OMIS_OK && ticks == 1 ? 0 : 1;
}
