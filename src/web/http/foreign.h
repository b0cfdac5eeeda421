/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What comes from others in headers and URLs: cookies, lists of encodings and of tags, ranges, origins, ids of jobs.
 * Pure; any bytes are fine.
 */
#ifndef SCRY_WEB_HTTP_FOREIGN_H
#define SCRY_WEB_HTTP_FOREIGN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/data/buf.h"

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

#endif
