/* SPDX-License-Identifier: Apache-2.0 */
/* The processes that scry top shows, in the chosen order and form. */
#ifndef SCRY_CLI_TOP_PROCESSES_H
#define SCRY_CLI_TOP_PROCESSES_H

#include "base/data/buf.h"
#include "cli/top/keys.h"
#include "jobdir/report/report.h"
#include "jobdir/text/fields.h"

struct top_processes {
    const struct job_process **list; /* borrowed from the model */
    unsigned *depths;                /* in the tree */
    size_t count;
};

/* Of the job and its parts. The list is empty if there is no memory. */
void top_processes_choose(struct top_processes *ret_processes, const struct job_report *report,
                          const struct top_choice *choice);
void top_processes_done(struct top_processes *processes);

struct top_process {
    const struct job_process *process;
    unsigned depth;
};
extern const struct field top_process_fields[]; /* the table: of a struct top_process, which belongs to the report */

#endif
