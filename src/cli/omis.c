/* SPDX-License-Identifier: Apache-2.0 */
/* scry omis: requests from the command line, from a pipe, or typed in a shell. */
#include "cli/cli.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include <scry/omis.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "cli/omis_lines.h"
#include "cli/omis_services.h"
#include "cli/omis_session.h"
#include "cli/omis_shell.h"
#include "client/client.h"

static const char help[] = "Usage: scry omis [OPTION...] [-c REQUEST]...\n"
                           "\n"
                           "Sends requests of the On-line Monitoring Interface Specification 2.0 to the\n"
                           "monitor and prints the replies. Without -c, requests are read from standard\n"
                           "input, one a line (empty lines and lines that start with # are skipped); on a\n"
                           "terminal that is a shell with history, completion (Tab) and help.\n"
                           "\n"
                           "  -c, --command REQUEST   send this; may be repeated, all in one session\n"
                           "      --wait N|SECONDSs   afterwards, listen for N more replies (--wait 3) or\n"
                           "                          for a time (--wait 2.5s), unless one failed\n"
                           "      --json              one JSON object for each reply\n"
                           "      --timeout SECONDS   a request not answered within this time has failed\n"
                           "      --flags FLAG,...    the specification's flags for every request:\n"
                           "                          dont_return_ok, dont_return_en_dis, buffer_request,\n"
                           "                          buffer_replies, wait_for_first_reply, debug\n"
                           "      --debug             debugging output of the monitor, on standard error\n"
                           "      --list-services     the names of what the monitor can do here; on a\n"
                           "                          terminal or with --json, more\n"
                           "      --connect URL       unix:PATH, the socket of another monitor\n"
                           "      --no-start          do not start a monitor if none runs\n"
                           "  -h, --help              this text\n"
                           "\n"
                           "The exit status is 0 if no status in any reply was an error, 1 if one was, 2 if\n"
                           "there was no monitor to ask.\n"
                           "\n"
                           "Example: the process 4711, then a line when it ends\n"
                           "\n"
                           "  scry omis -c ': proc_attach3([], 4711, \"\")' -c ': proc_get_info([], 3)' \\\n"
                           "            -c 'proc_has_terminated([]) : print([\"ended\", $proc])' \\\n"
                           "            -c ': csr_enable([])' --wait 1\n";

struct options {
    const char *connect;
    char **commands; /* borrowed from argv */
    size_t command_count;
    bool json, start, list_services, wait;
    Omis_flags flags;
    uint64_t wait_replies, wait_ns;
};

/* A number of seconds from `text` on, at most 1e9. Returns what follows it, or NULL. */
static const char *parse_seconds(const char *text, uint64_t *ret_ns)
{
    char *end;
    errno = 0;
    double seconds = strtod(text, &end);
    if ((!isdigit((unsigned char)*text) && *text != '.') || end == text || errno || !(seconds >= 0) || seconds > 1e9)
        return NULL;
    *ret_ns = (uint64_t)(seconds * NS_PER_SECOND) + 1;
    return end;
}

/* Flags by their names in the specification, with or without OMIS_, in either case. */
static bool parse_flags(Omis_flags *flags, const char *text)
{
    static const struct {
        const char *name;
        Omis_flags flag;
    } names[] = {
        {"wait_for_first_reply", OMIS_WAIT_FOR_FIRST_REPLY},
        {"dont_return_ok", OMIS_DONT_RETURN_OK},
        {"dont_return_en_dis", OMIS_DONT_RETURN_EN_DIS},
        {"buffer_request", OMIS_BUFFER_REQUEST},
        {"buffer_replies", OMIS_BUFFER_REPLIES},
        {"debug", OMIS_DEBUG},
    };
    for (;; text++) {
        size_t i = 0, prefix = strncasecmp(text, "omis_", 5) == 0 ? 5 : 0, len = strcspn(text += prefix, ",");
        while (i < sizeof names / sizeof *names &&
               (strlen(names[i].name) != len || strncasecmp(names[i].name, text, len) != 0))
            i++;
        if (i == sizeof names / sizeof *names)
            return false;
        *flags |= names[i].flag;
        text += len;
        if (!*text)
            return true;
    }
}

/* A bare integer counts replies; with an s behind it, it is seconds. */
static bool parse_wait(struct options *options, const char *text)
{
    char *end;
    errno = 0;
    options->wait = true;
    unsigned long long count = strtoull(text, &end, 10);
    if (isdigit((unsigned char)*text) && !*end && !errno && count > 0) {
        options->wait_replies = count;
        return true;
    }
    const char *behind = parse_seconds(text, &options->wait_ns);
    return behind && strcmp(behind, "s") == 0;
}

/* For the connection and for every request. */
static bool set_timeout(const char *text)
{
    uint64_t ns;
    const char *behind = parse_seconds(text, &ns);
    if (!behind || (*behind && strcmp(behind, "s") != 0) || ns < 1000000 || ns / 1000000 > UINT_MAX)
        return false;
    omis_set_timeout((unsigned)(ns / 1000000));
    client_set_patience((unsigned)(ns / 1000000));
    return true;
}

/* 0: go on. -1: done. Else: the exit status. */
static int parse_options(struct options *options, int argc, char **argv)
{
    enum { CONNECT = 256, JSON, WAIT, LIST_SERVICES, NO_START, DEBUG, TIMEOUT, FLAGS, HELP };
    static const struct option names[] = {
        {"command", required_argument, NULL, 'c'},
        {"connect", required_argument, NULL, CONNECT},
        {"json", no_argument, NULL, JSON},
        {"wait", required_argument, NULL, WAIT},
        {"list-services", no_argument, NULL, LIST_SERVICES},
        {"no-start", no_argument, NULL, NO_START},
        {"debug", no_argument, NULL, DEBUG},
        {"timeout", required_argument, NULL, TIMEOUT},
        {"flags", required_argument, NULL, FLAGS},
        {"help", no_argument, NULL, HELP},
        {0},
    };
    int option;
    opterr = 0;
    while ((option = getopt_long(argc, argv, ":c:h", names, NULL)) != -1) {
        switch (option) {
        case 'c':
            options->commands[options->command_count++] = optarg;
            break;
        case CONNECT:
            if (strncmp(optarg, "unix:", strlen("unix:")) != 0)
                return cli_usage_error("omis", "--connect takes a socket, unix:PATH, not \"%s\"", optarg);
            options->connect = optarg;
            break;
        case JSON:
            options->json = true;
            break;
        case WAIT:
            if (!parse_wait(options, optarg))
                return cli_usage_error("omis", "--wait takes a number of replies (3) or a time (2.5s), not \"%s\"",
                                       optarg);
            break;
        case LIST_SERVICES:
            options->list_services = true;
            break;
        case NO_START:
            options->start = false;
            break;
        case DEBUG:
            options->flags |= OMIS_DEBUG;
            break;
        case TIMEOUT:
            if (!set_timeout(optarg))
                return cli_usage_error("omis", "--timeout takes seconds (2.5), more than 0, not \"%s\"", optarg);
            break;
        case FLAGS:
            if (!parse_flags(&options->flags, optarg))
                return cli_usage_error("omis",
                                       "--flags takes names with commas between them (dont_return_ok, "
                                       "dont_return_en_dis, buffer_request, buffer_replies, wait_for_first_reply, "
                                       "debug), not \"%s\"",
                                       optarg);
            break;
        case HELP:
        case 'h':
            fputs(help, stdout);
            return -1;
        case ':':
            return cli_usage_error("omis", "%s needs an argument", argv[optind - 1]);
        default:
            return cli_unknown_option("omis", argv[optind - 1]);
        }
    }
    if (optind < argc)
        return cli_usage_error("omis", "unexpected argument \"%s\": requests are given with -c", argv[optind]);
    return 0;
}

static void ask_line(struct omis_session *session, struct span line)
{
    while (line.len && isspace((unsigned char)line.ptr[0]))
        line = span_of(line.ptr + 1, line.len - 1);
    if (line.len && line.ptr[0] != '#')
        omis_session_ask(session, line);
}

/* One request a line; what comes in between is printed when it comes. False when standard input cannot be read. */
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

static int run(const struct options *options)
{
    struct omis_session session = {
        .json = options->json, .flags = options->flags, .color = !options->json && cli_color(STDOUT_FILENO)};
    bool asked = options->command_count > 0 || options->list_services;
    bool shell = !asked && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    if (!omis_session_open(&session, options->connect, options->start))
        return EXIT_USAGE;
    if (options->list_services && !omis_services_list(&session))
        session.failed = true;
    for (size_t i = 0; i < options->command_count && client_connected(); i++)
        omis_session_ask(&session, span_str(options->commands[i]));
    if (shell) {
        omis_shell_run(&session);
    } else if (!asked && !read_requests(&session)) {
        perror("scry omis: cannot read standard input");
        session.failed = true;
    }
    omis_session_flush(&session);
    /* what was to be waited for may never come when a request failed: a script with a typo shall end, not hang */
    if (options->wait && client_connected() && !session.failed)
        omis_session_listen(&session, options->wait_replies, options->wait_ns);
    int status = omis_session_close(&session);
    return shell ? 0 : status; /* what went wrong in a shell, its user has seen */
}

int cmd_omis(int argc, char **argv)
{
    _cleanup_(freep) char **commands = calloc((size_t)argc, sizeof *commands);
    struct options options = {.commands = commands, .start = true};
    if (!commands)
        return cli_usage_error("omis", "out of memory");
    int code = parse_options(&options, argc, argv);
    return code < 0 ? 0 : code > 0 ? code : run(&options);
}
