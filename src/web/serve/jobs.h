/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_WEB_SERVE_JOBS_H
#define SCRY_WEB_SERVE_JOBS_H

#include "base/data/hash.h"
#include "web/http/visit.h"

#include <limits.h>

/* Which job an id means: one's own, one that was dropped into a directory (--jobs), one that is elsewhere. */

struct named_job {
    char path[PATH_MAX]; /* the absolute path of its directory, or of its mirror */
    const char *word;    /* how commands call it; good until the loop goes on */
    bool mirrored;       /* it is elsewhere, and this is its mirror: as old as the last command that asked for it */
    bool followed;       /* and it is behind a broker, so that more may come */
    bool own;            /* it lies among the user's own: what it says of its processes is believed */
};

/* The job that the first part of the path names. false: there is none, and the visit has its answer, or gets it when the jobs have been
 * listed: then the route's function is called again. */
bool job_of_visit(struct visit *visit, struct named_job *ret_job);
/* The same for who reads the directory itself. A mirror is brought up to date before: then it is false at first, and the route's
 * function is called again. */
bool job_of_visit_here(struct visit *visit, struct named_job *ret_job);

void jobs_list_free(struct server *server);

/* Of jobs that are not found by their ids as names of directories, as they were listed last. */
void known_jobs_free(struct server *server);

#endif
