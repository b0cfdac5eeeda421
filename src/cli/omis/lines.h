/* SPDX-License-Identifier: Apache-2.0 */
/* Splits a stream into requests, one a line. A newline inside binary data (LENGTH#BYTES) ends nothing. One inside a
 * string does, since a string cannot contain it: so a forgotten quote costs only one line. */
#ifndef SCRY_CLI_OMIS_LINES_H
#define SCRY_CLI_OMIS_LINES_H

#include <stdbool.h>

#include "base/data/buf.h"

/* Zero-initialised is ready. */
struct omis_lines {
    struct buf bytes;
    size_t used; /* of bytes, by the line handed out last */
    size_t at;   /* scanned up to here */
    enum { LINES_PLAIN, LINES_WORD, LINES_NUMBER, LINES_STRING, LINES_ESCAPE } state;
    size_t number; /* LINES_NUMBER: its value so far */
};

void omis_lines_feed(struct omis_lines *lines, const char *bytes, size_t len);

/* Returns the next whole line without its newline, and at the end of the stream (`last`) also an incomplete one. It is
 * borrowed until the next call. */
bool omis_lines_next(struct omis_lines *lines, bool last, struct span *ret_line);

void omis_lines_done(struct omis_lines *lines);

#endif
