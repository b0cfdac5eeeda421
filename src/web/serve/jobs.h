/* SPDX-License-Identifier: Apache-2.0 */
/* Which job an id means: one's own, one that was dropped into a directory (--jobs), one that is elsewhere. */
#ifndef SCRY_WEB_SERVE_JOBS_H
#define SCRY_WEB_SERVE_JOBS_H

#include <limits.h>

#include "web/http/visit.h"

struct named_job {
    char path[PATH_MAX]; /* the absolute path of its directory, or of its mirror */
    const char *word;    /* how commands call it; good until the loop goes on */
    bool mirrored;       /* it is elsewhere, and this is its mirror: as old as the last command that asked for it */
    bool followed;       /* and it is behind a broker, so that more may come */
    bool own;            /* it lies among the user's own: what it says of its processes is believed */
};

/* The job that the first part of the path names. false: there is none, and the visit has its answer. */
bool job_of_visit(struct visit *visit, struct named_job *ret_job);
/* The same for who reads the directory itself. A mirror is brought up to date before: then it is false at first, and the route's
 * function is called again. */
bool job_of_visit_here(struct visit *visit, struct named_job *ret_job);

/* Is this within the directory, when all links are followed? */
bool job_lies_in(const char *dir, const char *path);

/* ---- list.c: jobs that are elsewhere, as they were listed last ---- */

struct known_job;
const struct known_job *known_job_find(struct server *server, struct span id); /* NULL: none */
const char *known_job_path(const struct known_job *known);
const char *known_job_word(const struct known_job *known);
bool known_job_is_followed(const struct known_job *known);
void known_jobs_free(struct server *server);

#endif
