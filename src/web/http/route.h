/* SPDX-License-Identifier: Apache-2.0 */
/* Paths and what answers them. The program has one table; `scry-serve --routes` prints it, and a test holds doc/reference/api.json
 * against that. */
#ifndef SCRY_WEB_HTTP_ROUTE_H
#define SCRY_WEB_HTTP_ROUTE_H

#include <stdbool.h>
#include <stddef.h>

#include "web/http/visit.h"

struct route {
    const char *path; /* relative; `*` is a part, `**` all parts that are left */
    enum method method;
    unsigned right; /* enum right; 0: no session is needed */
    void (*answer)(struct visit *visit);
    const char *asks;      /* what is asked for the answer: a command of scry, or a question to scry-view */
    const char *arguments; /* of the query, separated by blanks */
    bool body;             /* takes the body by itself, as it comes: `answer` is called before */
};
extern const struct route route_rows[];
extern const size_t route_count;

/* The one for this path and method, and its parts. NULL: none; *ret_methods has those that the path has. */
const struct route *route_find(const char *path, enum method method, struct span ret_parts[PARTS_OF_PATH],
                               unsigned *ret_methods);
const char *method_name(enum method method);

/* What this room answers itself: who one is, the ways in, the pages. */
void answer_session_get(struct visit *visit); /* session.c */
void answer_session_post(struct visit *visit);
void answer_session_delete(struct visit *visit);
void answer_links_post(struct visit *visit);
void answer_page(struct visit *visit); /* pages.c */

#endif
