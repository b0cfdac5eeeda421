/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_WEB_HTTP_HEAD_H
#define SCRY_WEB_HTTP_HEAD_H

#include "base/data/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Heads of HTTP/1 as bytes, before libwebsockets reads them: it takes a bare LF as the end of a line, waits for ever behind a
 * line without a colon, and drops the connection without a word where its room ends. Only heads pass that have one meaning for every
 * program on the way (RFC 9112), and that fit. What they say is read by request.c: also whether a body's length is one.
 */

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

/*
 * What comes from others in headers and URLs: cookies, lists of encodings and of tags, ranges, origins, ids of jobs.
 * Pure; any bytes are fine.
 */

enum { FOREIGN_ID_MOST = 160 };

/* The value of a cookie of this name in a header Cookie; no bytes: there is none, or there are two, of which nobody
 * knows who has set which (RFC 6265, 8.6). */
struct span foreign_cookie(struct span header, const char *name);

/* Does the header Accept-Encoding allow gzip (RFC 9110, 12.5.3)? */
bool foreign_takes_gzip(struct span header);

/* Is the tag, with its quotes, among those of If-None-Match? Weak ones are compared as strong ones (RFC 9110, 13.1.2). */
bool foreign_has_tag(struct span header, const char *tag);

enum foreign_range { RANGE_NONE, RANGE_PART, RANGE_BEYOND };
/* The header Range of something of `size` bytes. RANGE_NONE: there is none that is understood, or there are several; all
 * of it is sent. RANGE_BEYOND: none of it is there. */
enum foreign_range foreign_range(struct span header, uint64_t size, uint64_t *ret_from, uint64_t *ret_len);

/* Is it an id of a job or task: letters, digits, and ._- behind the first one? */
bool foreign_is_id(struct span text);
/* A file within a directory: no empty part, none that begins with a dot, no control characters. */
bool foreign_is_path(struct span text);

/* A number without a sign, and nothing else. */
bool foreign_number(struct span text, uint64_t *ret_number);

/* The next part of a list, without blanks around it. false: no more. */
bool foreign_next(struct span *list, char separator, struct span *ret_part);
struct span foreign_trim(struct span text);

/*
 * Where a reader of a job's records is: for the job, and for each of its parts on other nodes, how far it has read. As
 * text it is the id of an event: OFFSET, then ,HASH:OFFSET for each part, in base 36, where HASH is of the part's name.
 * So it says what comes next also to a server that was started again.
 */

enum { POSITION_PARTS = 400, POSITION_TEXT = 8 << 10 };

struct position {
    size_t count;
    struct position_part {
        uint32_t name; /* hash; of the job itself 0 */
        uint64_t offset;
    } parts[POSITION_PARTS];
};

/* false: it is no such text; then nothing is known. */
bool position_parse(struct span text, struct position *ret_position);
uint64_t position_of(const struct position *position, uint32_t name); /* 0: nothing was read of it */
void position_put(struct buf *out, uint32_t name, uint64_t offset, bool first);
uint32_t position_name(const char *part); /* never 0 */

#endif
