/* SPDX-License-Identifier: Apache-2.0 */
/* The one table of paths. `scry-serve --routes` prints it, and a test holds doc/reference/api.json against that. */
#ifndef SCRY_WEB_SERVE_ROUTES_H
#define SCRY_WEB_SERVE_ROUTES_H

#include <stdbool.h>
#include <stddef.h>

#include "web/serve/visit.h"

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

/* Functions of rows, by file. */
void answer_session_get(struct visit *visit); /* login.c */
void answer_session_post(struct visit *visit);
void answer_session_delete(struct visit *visit);
void answer_links_post(struct visit *visit);
void answer_jobs(struct visit *visit); /* list.c */
void answer_job(struct visit *visit);  /* jobs.c */
void answer_set(struct visit *visit);  /* control.c */
void answer_signal(struct visit *visit);
void answer_records(struct visit *visit); /* stream.c */
void answer_files(struct visit *visit);   /* download.c */
void answer_file(struct visit *visit);
void answer_archive(struct visit *visit);
int files_print(const char *form, const char *dir); /* what the child does that makes the list; the exit status */
void answer_view(struct visit *visit);
void answer_compare(struct visit *visit);
void answer_site(struct visit *visit);
void answer_tasks(struct visit *visit); /* tasks.c */
void answer_tasks_post(struct visit *visit);
void answer_task_check(struct visit *visit);
void answer_task_ways(struct visit *visit);
void answer_task_outputs(struct visit *visit);
void answer_task_output(struct visit *visit);
void answer_task(struct visit *visit);
void answer_task_do(struct visit *visit);
void answer_task_file(struct visit *visit);
void answer_task_events(struct visit *visit); /* changes.c */
void answer_scaling(struct visit *visit);
void answer_page(struct visit *visit); /* pages.c */

#endif
