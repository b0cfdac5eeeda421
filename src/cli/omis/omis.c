/* SPDX-License-Identifier: Apache-2.0 */
/* scry omis: requests from the command line, from a pipe, or typed in a shell. */
#include "cli/common/cli.h"

#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <scry/omis.h>

#include "base/data/cleanup.h"
#include "base/data/number.h"
#include "cli/omis/shell.h"
#include "client/client.h"
#include "jobdir/text/text.h"

/* A bare integer counts replies; a time has its unit. */
static bool parse_wait(const char *text, uint64_t *ret_replies, uint64_t *ret_ns)
{
    char *end;
    errno = 0;
    unsigned long long count = strtoull(text, &end, 10);
    if (isdigit((unsigned char)*text) && !*end) {
        *ret_replies = count;
        return !errno && count > 0;
    }
    bool good = time_parse(text, ret_ns);
    *ret_ns += good && !*ret_ns; /* 0 would be no limit */
    return good;
}

/* The time limit for the connection and every request. */
static void set_timeout(double seconds)
{
    omis_set_timeout((unsigned)(seconds * 1000));
    client_set_timeout((unsigned)(seconds * 1000));
}

static Omis_flags flags_of(const struct options *options)
{
    static const Omis_flags flags[] = {/* in the order of the words of --flags */
                                       OMIS_DONT_RETURN_OK, OMIS_DONT_RETURN_EN_DIS,   OMIS_BUFFER_REQUEST,
                                       OMIS_BUFFER_REPLIES, OMIS_WAIT_FOR_FIRST_REPLY, OMIS_DEBUG};
    Omis_flags all = options_on(options, "debug") ? OMIS_DEBUG : 0;
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (options_number(options, "flags") & UINT64_C(1) << i)
            all |= flags[i];
    return all;
}

static void ask_line(struct omis_session *session, struct span line)
{
    while (line.len && isspace((unsigned char)line.ptr[0]))
        line = span_of(line.ptr + 1, line.len - 1);
    if (line.len && line.ptr[0] != '#')
        omis_session_ask(session, line);
}

/* Sends one request a line, and prints other replies when they come. False: standard input cannot be read. */
static bool read_requests(struct omis_session *session)
{
    enum { READ_SIZE = 1 << 16 };
    _cleanup_(freep) char *bytes = malloc(READ_SIZE);
    _cleanup_(omis_lines_done) struct omis_lines lines = {0};
    struct span line;
    while (bytes && client_connected()) {
        struct pollfd events[] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = omis_fd(), .events = POLLIN}};
        if (poll(events, 2, -1) < 0 && errno != EINTR)
            return false;
        if (events[1].revents && !omis_session_handle(session))
            break;
        if (!events[0].revents)
            continue;
        ssize_t got = read(STDIN_FILENO, bytes, READ_SIZE);
        if (got < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (got < 0)
            return false;
        omis_lines_feed(&lines, bytes, (size_t)got);
        if (lines.bytes.failed) {
            errno = ENOMEM;
            return false;
        }
        while (client_connected() && omis_lines_next(&lines, got == 0, &line))
            ask_line(session, line);
        if (got == 0)
            break;
    }
    return bytes != NULL;
}

int cmd_omis(const struct options *options)
{
    const char *connect = options_text(options, "connect"), *wait = options_text(options, "wait"), *command;
    bool json = options_on(options, "json"), list = options_on(options, "list-services");
    bool asked = list || options_given(options, "command");
    bool shell = !asked && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    uint64_t wait_replies = 0, wait_ns = 0;
    struct omis_session session = {
        .json = json, .flags = flags_of(options), .color = !json && text_has_colours(STDOUT_FILENO)};
    if (wait && !parse_wait(wait, &wait_replies, &wait_ns))
        return cli_usage_error(options, "--wait expects a number of replies (3) or a time (2.5s), not \"%s\"", wait);
    if (options_given(options, "timeout"))
        set_timeout(options_seconds(options, "timeout"));
    if (!omis_session_open(&session, connect, !options_on(options, "no-start")))
        return EXIT_USAGE;
    if (list && !omis_services_list(&session))
        session.failed = true;
    for (size_t at = 0; client_connected() && (command = options_next(options, "command", &at));)
        omis_session_ask(&session, span_str(command));
    if (shell) {
        omis_shell_run(&session);
    } else if (!asked && !read_requests(&session)) {
        perror("scry omis: cannot read standard input");
        session.failed = true;
    }
    omis_session_flush(&session);
    /* after a failed request the replies may never come: a script with a typo must not hang */
    if (wait && client_connected() && !session.failed)
        omis_session_listen(&session, wait_replies, wait_ns);
    int status = omis_session_close(&session);
    return shell ? 0 : status; /* in a shell, the user has seen the errors */
}
