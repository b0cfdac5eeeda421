/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heads of HTTP/1 as bytes, before libwebsockets reads them: it takes a bare LF as the end of a line, waits for ever behind a
 * line without a colon, and drops the connection without a word where its room ends. Only heads pass that have one meaning for every
 * program on the way (RFC 9112), and that fit. What they say is read by visit.c: also whether a body's length is one.
 */
#ifndef SCRY_WEB_HTTP_HEAD_H
#define SCRY_WEB_HTTP_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    HEAD_MOST = 12 << 10,     /* bytes of a request line and its headers */
    HEAD_LINE_MOST = 9 << 10, /* of the request line, in which a position may be (position.h) */
    HEAD_HEADERS_MOST = 50,
    HEAD_ARGUMENTS_MOST = 32, /* of the URL; libwebsockets has 94 places for these, and for headers that it knows */
    /* what libwebsockets needs for such a head: 8 bytes for each header, and some for the ends of texts */
    HEAD_ROOM_MOST = HEAD_MOST + 16 * (HEAD_HEADERS_MOST + HEAD_ARGUMENTS_MOST),
};

/* Of one connection; zero at its beginning. */
struct head {
    enum {
        HEAD_METHOD,
        HEAD_TARGET,
        HEAD_VERSION,
        HEAD_NAME,
        HEAD_VALUE,
        HEAD_LINE_END, /* behind CR */
        HEAD_END,      /* behind the CR of the empty line */
        HEAD_BODY,
        HEAD_LAST, /* no request may follow: what comes is no head, and the answer ends the connection */
    } state;
    char word[20]; /* method, version, name of a header in small letters; what is longer is none that counts */
    size_t word_len, size, headers, arguments, lengths;
    uint64_t body; /* bytes that are left of it */
};

struct head_refusal {
    int status;
    const char *phrase, *kind, *text;
};

/* The next bytes of a connection: how many of them may pass. *ret_refusal is NULL: all; otherwise those of whole requests before
 * the one that gets this answer, behind which the connection ends; it ends behind an answer that is under way, and then without this one. */
size_t head_take(struct head *head, const void *bytes, size_t len, const struct head_refusal **ret_refusal);

#endif
