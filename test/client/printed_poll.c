/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The second program printed in section 7.1.6 of the specification, a tool with the main loop of a user interface: with
 * the four parameters that omis_init has in 7.1.3, without the local variable omis_fd that hides the function of this
 * name, and with the X toolkit replaced by a loop over poll that has the same shape. A second input is the user, who
 * presses keys (the bytes of standard input): "e" raises the event that a conditional request waits for, "q" ends.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "omis.h"

/* ---- in place of the X toolkit ---- */

typedef struct {
    struct pollfd inputs[4];
    void (*callbacks[4])(void *closure, int *source);
    void *closures[4];
    int count;
} AppContext;

static void AppAddInput(AppContext *app, int source, void (*callback)(void *closure, int *source), void *closure)
{
    app->inputs[app->count] = (struct pollfd){.fd = source, .events = POLLIN};
    app->callbacks[app->count] = callback;
    app->closures[app->count++] = closure;
}

_Noreturn static void AppMainLoop(AppContext *app)
{
    for (;;) {
        poll(app->inputs, (nfds_t)app->count, -1);
        for (int i = 0; i < app->count; i++)
            if (app->inputs[i].revents)
                app->callbacks[i](app->closures[i], &app->inputs[i].fd);
    }
}

/* ---- the tool ---- */

static void say(const char *what, const char *text)
{
    printf("%s: %s\n", what, text ? text : "no result");
    fflush(stdout);
}

static void raised(Omis_reply reply, void *param)
{
    if (reply[0]->status == OMIS_CSR_TRIGGERED)
        say("event", reply[1]->result);
    omis_reply_free(reply);
}

static void key(void *closure, int *source)
{
    char c, request[128];
    if (read(*source, &c, 1) == 1 && c == 'e') {
        snprintf(request, sizeof request, ": user_event_raise(%s, [7], 0)", (char *)closure);
        Omis_reply reply = omis_request(request, NULL, NULL, 0);
        if (reply[1] == NULL || reply[1]->status != OMIS_OK)
            say("error", reply[1] ? reply[1]->result : reply[0]->result);
        omis_reply_free(reply);
    } else if (c == 'q') {
        omis_finalize();
        exit(0);
    }
}

static void cb(void *closure, int *source)
{
    omis_handler();
}

/* Sends a request that must succeed and returns a copy of the text where it tells the new token. */
static char *ask(char *request, void (*callback)(Omis_reply reply, void *param), int element)
{
    Omis_reply reply = omis_request(request, callback, NULL, OMIS_WAIT_FOR_FIRST_REPLY);
    if (reply[0]->status >= OMIS_FIRST_ERROR || reply[1]->status >= OMIS_FIRST_ERROR) {
        say("error", reply[0]->status >= OMIS_FIRST_ERROR ? reply[0]->result : reply[1]->result);
        exit(1);
    }
    char *text = strdup(reply[element]->result ? reply[element]->result : "");
    omis_reply_free(reply);
    return text;
}

int main(int argc, char **argv)
{
    AppContext app = {0};
    char request[256];

    if (omis_init(&argc, &argv, NULL, NULL) != OMIS_OK) /* initialize mon. system */
        return 1;

    char create[] = ": user_event_create()";
    char *event = ask(create, NULL, 1);
    snprintf(request, sizeof request, "user_event_has_been_raised([%s]) : print([\"number\", $par1])", event);
    char *csr = ask(request, raised, 0);
    snprintf(request, sizeof request, ": csr_enable([%s])", csr);
    free(ask(request, NULL, 1));
    free(csr);
    say("ready", event);

    AppAddInput(&app, 0, key, event);

    /* Add OMIS file descriptor as an additional input source
       to the main loop. */
    AppAddInput(&app, omis_fd(), cb, NULL);

    AppMainLoop(&app); /* main loop */
}
