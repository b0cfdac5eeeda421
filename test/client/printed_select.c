/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first program printed in section 7.1.6 of the specification, a tool that reads commands, as it stands there but
 * for the four parameters that omis_init has in 7.1.3, and with its ellipsis filled in: a command is the name of a
 * service without parameters, "debug" (the same with debugging output) or "quit". test_printed.py types the commands.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/select.h>
#include "omis.h"

static void print_reply(Omis_reply reply, void *param)
{
    Omis_object_result *result = reply[1] ? &reply[1][0] : &reply[0][0];
    printf("%s: status %d, %s\n", (char *)param, result->status, result->result ? result->result : "no result");
    fflush(stdout);
    free(param);
    omis_reply_free(reply);
}

static void err_handler(Omis_reply reply)
{
    printf("handler: status %d, %s\n", reply[0][0].status, reply[0][0].result);
    fflush(stdout);
    omis_reply_free(reply);
}

int main(int argc, char **argv)
{
    fd_set fds;
    int mon_fd;
    char input_buf[80];

    /* Initialize connection to monitoring system */
    if (omis_init(&argc, &argv, err_handler, NULL) != OMIS_OK)
        return 1;

    /* Get OMIS file descriptor */
    mon_fd = omis_fd();

    do {
        /* Build file descriptor set containing the OMIS file
           descriptor and the stdin file descriptor */
        FD_ZERO(&fds);
        FD_SET(mon_fd, &fds);
        FD_SET(0, &fds);

        /* Block until there is some input */
        select(mon_fd + 1, &fds, NULL, NULL, NULL);

        /* Read from stdin, if there is something to read */
        if (FD_ISSET(0, &fds)) {
            if (scanf("%79s", input_buf) != 1)
                break;
            /* decode input_buf and execute commands */
            if (strcmp(input_buf, "quit")) {
                char request[128];
                int debug = !strcmp(input_buf, "debug");
                snprintf(request, sizeof request, ": %s()", debug ? "version" : input_buf);
                omis_request(request, print_reply, strdup(input_buf), debug ? OMIS_DEBUG : 0);
            }
        }

        /* Handle OMIS messages */
        omis_handler();

    } while (strcmp(input_buf, "quit"));

    omis_finalize(); /* shut down connection */
}
