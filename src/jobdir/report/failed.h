/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What failed in a job: which process was the first to end with a status other than 0, or by a signal, and which one
 * made its parents fail, up to the command. The latter is judged by times and statuses. Of the children of a process
 * that failed, it is the first to fail after which the process started nothing more, one that failed by itself before one that
 * was ended (SIGTERM, SIGPIPE); otherwise the last whose status the process itself ended with. A shell keeps the status it had while the
 * trap of its exit cleans up: of its children it is rather the last one with that status. A failure that the parent ignored (a
 * test, `|| true`) is none of these, nor what nobody read on (SIGPIPE) without pipefail, nor is a child that was ended when its parent went on to an end of its own: the parent has
 * sent the signal, as far as is known. A daemon of a launcher of MPI may be among the parents though it ended with 0.
 */
#ifndef SCRY_JOBDIR_REPORT_FAILED_H
#define SCRY_JOBDIR_REPORT_FAILED_H

#include <jansson.h>

#include "base/data/buf.h"
#include "jobdir/text/fields.h"
#include "jobdir/record/model.h"

/* .failed of report.schema.json; command: the number of the job's supervisor, whose child the command is. A new
 * reference, or NULL when out of memory. */
json_t *report_failed_json(const struct job_model *model, pid_t supervisor);

/* The chain of the process that ended last with this status (as a shell has it: 128 and the number of a signal), or by a
 * crash: MPICH's launcher has a status of its own then. A new reference; NULL: there is none. */
json_t *report_failed_with_json(const struct job_model *model, int status);

/* Lines for people. elsewhere: how many processes failed on other nodes. all: also when the command did not fail, and why
 * statuses are not known. */
void report_failed_text(struct buf *out, const json_t *failed, uint64_t elsewhere, bool all);

/* The command line as people read it, of so many columns: it is cut in the middle, for what a command was about is often its last
 * word. false: it is not known. */
bool report_command(struct buf *out, const json_t *argv, bool cut, size_t most);

/* Of a struct job_process: how it ended; what is known of its command. */
extern const struct field report_status_fields[], report_argv_fields[];

#endif
