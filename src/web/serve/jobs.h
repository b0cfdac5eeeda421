/* SPDX-License-Identifier: Apache-2.0 */
/* Which job an id means: one's own, one that was dropped into a directory (--jobs), one that is elsewhere. */
#ifndef SCRY_WEB_SERVE_JOBS_H
#define SCRY_WEB_SERVE_JOBS_H

#include <limits.h>

#include "web/serve/visit.h"

/* The absolute path of the directory of the job that the first part of the path names. false: there is none, and the visit
 * has its answer. */
bool job_of_visit(struct visit *visit, char ret_path[PATH_MAX]);

#endif
