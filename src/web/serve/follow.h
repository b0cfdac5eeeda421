/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_WEB_SERVE_FOLLOW_H
#define SCRY_WEB_SERVE_FOLLOW_H

#include "jobdir/record/kinds.h"
#include "web/http/head.h"
#include "web/http/server.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * The records of a job as server-sent events, for all who look at it. Its spool, and those of its parts on other nodes, are
 * read while somebody looks; each record is turned into the text of an event once. The last of these are kept, for those who come
 * and those who are slow: whoever falls behind that goes on at the first that is there, and is told.
 */

struct follows;
struct follows *follows_new(struct server *server); /* NULL: out of memory */
void follows_free(struct follows *follows);

#endif
