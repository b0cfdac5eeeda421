/* SPDX-License-Identifier: Apache-2.0 */
/* What the table of paths (web/http/visit.h) calls. */
#ifndef SCRY_WEB_SERVE_ROUTES_H
#define SCRY_WEB_SERVE_ROUTES_H

#include "web/http/visit.h"

/* Functions of rows, by file. */
void answer_jobs(struct visit *visit); /* jobs.c */
void answer_job(struct visit *visit);  /* jobs.c */
void answer_set(struct visit *visit);  /* control.c */
void answer_signal(struct visit *visit);
void answer_records(struct visit *visit); /* stream.c */
void answer_files(struct visit *visit);   /* download.c */
void answer_file(struct visit *visit);
void answer_archive(struct visit *visit);
int files_print(const char *form, const char *dir,
                const char *top); /* what the child does that makes the list; the exit status */
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

#endif
