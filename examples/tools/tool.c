/* SPDX-License-Identifier: Apache-2.0 */
#include "tool.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *tool_name = "tool";

void tool_fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "%s: ", tool_name);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

/* Called with what concerns no request: that the monitor cannot be reached, or has gone. */
static void on_error(Omis_reply reply)
{
    tool_fail("%s", reply[0]->result);
}

void tool_start(const char *name, int *argc, char ***argv, int *tool_id)
{
    tool_name = name;
    setvbuf(stdout, NULL, _IOLBF, 0); /* what was seen shall be shown */
    if (omis_init(argc, argv, on_error, tool_id) != OMIS_OK)
        exit(1);
}

static char *format_text(const char *format, va_list args)
{
    char *text;
    if (vasprintf(&text, format, args) < 0)
        tool_fail("out of memory");
    return text;
}

/* What was asked for must have worked. */
static void check(struct omis_reader *reader, const char *request)
{
    const char *why = omis_reader_first_error(reader);
    if (why)
        tool_fail("%s\n  in the request %s", why, request);
}

static struct omis_reader *ask(const char *format, va_list args, bool must_work)
{
    char *request = format_text(format, args);
    struct omis_reader *reader = omis_reader_take(omis_request(request, NULL, NULL, 0));
    if (must_work)
        check(reader, request);
    omis_reader_find(reader, 1);
    free(request);
    return reader;
}

struct omis_reader *tool_ask(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    struct omis_reader *reader = ask(format, args, true);
    va_end(args);
    return reader;
}

struct omis_reader *tool_try(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    struct omis_reader *reader = ask(format, args, false);
    va_end(args);
    return reader;
}

const char *tool_ask_text(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    struct omis_reader *reader = ask(format, args, true);
    va_end(args);
    const char *text = strdup(omis_text(omis_item(omis_reader_values(reader), 0), NULL));
    omis_reader_free(reader);
    return text;
}

struct watch {
    tool_event_fn *event;
    void *param;
};

/* Replies of a conditional request also say that it was enabled or disabled, for instance when a process has ended. */
static void on_reply(Omis_reply reply, void *param)
{
    struct watch *watch = param;
    struct omis_reader *reader = omis_reader_take(reply);
    omis_reader_find(reader, 0);
    if (omis_reader_status(reader) == OMIS_CSR_TRIGGERED)
        watch->event(reader, watch->param);
    omis_reader_free(reader);
}

void tool_on(tool_event_fn *event, void *param, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *request = format_text(format, args);
    va_end(args);
    struct watch *watch = malloc(sizeof *watch);
    if (!watch)
        tool_fail("out of memory");
    *watch = (struct watch){event, param};
    /* The first reply has the new request's token, in element 0. It does nothing until it is enabled. */
    struct omis_reader *reader =
        omis_reader_take(omis_request(request, on_reply, watch, OMIS_WAIT_FOR_FIRST_REPLY | OMIS_DONT_RETURN_EN_DIS));
    check(reader, request);
    omis_reader_find(reader, 0);
    omis_reader_free(tool_ask(": csr_enable([%s])", omis_reader_text(reader)));
    omis_reader_free(reader);
    free(request);
}

void tool_wait(int milliseconds)
{
    struct pollfd replies = {.fd = omis_fd(), .events = POLLIN};
    if (poll(&replies, 1, milliseconds) > 0)
        omis_handler();
}

const char *tool_quote(const char *text)
{
    char *quoted = malloc(4 * strlen(text) + 3), *to = quoted;
    if (!quoted)
        tool_fail("out of memory");
    *to++ = '"';
    for (; *text; text++)
        to += *text == '"' || *text == '\\' ? sprintf(to, "\\%c", *text)
              : (unsigned char)*text < ' '  ? sprintf(to, "\\%03o", (unsigned char)*text)
                                            : sprintf(to, "%c", *text);
    strcpy(to, "\"");
    return quoted;
}
