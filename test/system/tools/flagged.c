/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tool that passes flags to omis_request, which `scry omis` does not: a line of standard input is
 *
 *     FLAGS REQUEST       flags in hexadecimal; with 0x100 the callback is NULL
 *
 * and for each reply a line is printed: number of the request, how it came (returned, callback, error), then one field
 * for each element, all separated by tabs. A field holds its results as objects, status and result, separated by \037
 * and ended by \036. Every line of input is answered by `sent N` when omis_request has returned.
 */
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <omis.h>

enum { NO_CALLBACK = 0x100, LINE_LIMIT = 1 << 20 };

static void print_reply(const char *how, unsigned number, Omis_reply reply)
{
    printf("%u\t%s", number, how);
    for (size_t i = 0; reply[i]; i++) {
        putchar('\t');
        for (const Omis_object_result *result = reply[i]; result->obj_list; result++)
            printf("%s\037%d\037%s\036", result->obj_list, result->status, result->result ? result->result : "NULL");
    }
    putchar('\n');
    fflush(stdout);
}

static void on_reply(Omis_reply reply, void *param)
{
    print_reply("callback", (unsigned)(uintptr_t)param, reply);
    omis_reply_free(reply);
}

static void on_error(Omis_reply reply)
{
    print_reply("error", 0, reply);
    omis_reply_free(reply);
}

static void send_line(char *line, unsigned number)
{
    char *request;
    unsigned flags = (unsigned)strtoul(line, &request, 16);
    Omis_reply reply = omis_request(request + (*request == ' '), flags & NO_CALLBACK ? NULL : on_reply,
                                    (void *)(uintptr_t)number, flags & ~(unsigned)NO_CALLBACK);
    if (reply)
        print_reply("returned", number, reply);
    omis_reply_free(reply);
    printf("sent %u\n", number);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    static char input[LINE_LIMIT];
    size_t len = 0;
    unsigned number = 0;
    int id = argc > 1 && strncmp(argv[1], "--id=", 5) == 0 ? atoi(argv[1] + 5) : 0;
    if (omis_init(&argc, &argv, on_error, &id) != OMIS_OK)
        return 1;
    printf("tool %d\n", id);
    fflush(stdout);
    for (;;) {
        struct pollfd fds[] = {{.fd = 0, .events = POLLIN}, {.fd = omis_fd(), .events = POLLIN}};
        if (poll(fds, 2, -1) < 0)
            return 1;
        if (fds[1].revents)
            omis_handler();
        if (!fds[0].revents)
            continue;
        ssize_t got = read(0, input + len, sizeof input - 1 - len);
        if (got <= 0)
            break;
        len += (size_t)got;
        char *end;
        while ((end = memchr(input, '\n', len))) {
            *end++ = 0;
            send_line(input, ++number);
            len -= (size_t)(end - input);
            memmove(input, end, len);
        }
    }
    return omis_finalize() == OMIS_OK ? 0 : 1;
}
