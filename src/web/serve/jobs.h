/* SPDX-License-Identifier: Apache-2.0 */
/* Which job an id means: one's own, one that was dropped into a directory (--jobs), one that is elsewhere. */
#ifndef SCRY_WEB_SERVE_JOBS_H
#define SCRY_WEB_SERVE_JOBS_H

#include <limits.h>

#include "base/data/hash.h"
#include "web/http/visit.h"

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

/* Is this within the directory, when all links are followed? */
bool job_lies_in(const char *dir, const char *path);

/* The path that a job of that id has among one's own. false: there is none. */
bool job_own_path(struct span id, char ret_path[PATH_MAX]);

/* ---- list.c ---- */

/* Lists the next source of jobs that was not listed for this visit: one's own, then --jobs, then brokers; then calls the route's
 * function again. false: there are no more. */
bool jobs_list_next(struct visit *visit);
void jobs_list_free(struct server *server);

/* ---- known.c: jobs that are not found by their ids as names of directories, as they were listed last ---- */

struct known_job {
    UT_hash_handle hh;
    char *path, *word; /* its directory, or mirror; how commands call it */
    const char *dir;   /* it was put somewhere in this directory; NULL: it is elsewhere, and that is its mirror */
    bool followed;     /* behind a broker. Otherwise in the record: no more comes */
    char id[];
};
const struct known_job *known_job_find(struct server *server, struct span id); /* NULL: none */
/* Remembers a job of a list: of one's own jobs, those in `dir` (--jobs), or those at `broker`. The row gets another id if its own one
 * leads elsewhere; `notes` say so. false: it is not to be shown. */
bool known_job_learn(struct server *server, json_t *row, const char *dir, const char *broker, json_t *notes);
void known_jobs_free(struct server *server);

#endif
