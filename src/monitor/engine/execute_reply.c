/* SPDX-License-Identifier: Apache-2.0 */
/* How replies are sent. */
#include <stdarg.h>
#include <stdio.h>

#include "monitor/engine/execute.h"
#include "monitor/engine/request_log.h"

/* As lang/reply.h encodes it: one element, one result, OMIS_NO_MEMORY, no objects, no text. */
static const unsigned char no_memory_reply[] = {
    1, 0, 0, 0, 1, 0, 0, 0, OMIS_NO_MEMORY & 0xff, OMIS_NO_MEMORY >> 8, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff};

void reply_send(struct session *session, uint32_t id, bool last, bool droppable, const struct reply_builder *reply)
{
    struct span bytes = span_of(reply->bytes.data, reply->bytes.len);
    if (reply->bytes.failed)
        bytes = span_of((const char *)no_memory_reply, sizeof no_memory_reply);
    request_log_reply(session, id, last, bytes);
    session->reply(session, id, last, droppable, bytes);
}

static void reply_status_span(struct session *session, uint32_t id, bool last, Omis_status status, struct span text)
{
    struct reply_builder reply = {0};
    reply_begin(&reply);
    reply_service(&reply);
    reply_result(&reply, span_of("", 0), status, text.len ? &text : NULL);
    reply_send(session, id, last, false, &reply);
    reply_done(&reply);
}

void reply_status(struct session *session, uint32_t id, bool last, Omis_status status, const char *format, ...)
{
    char text[2 * ERR_TEXT_SIZE];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    reply_status_span(session, id, last, status, span_str(text));
}
