/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs on the host of another machine, reached by ssh, that shares no files with this one. Its files go to
 * ~/.cache/scry/tasks/ID there; `scry run` takes the place of the shell that sshd began, and writes all it has there. So a
 * connection that is lost ends nothing: what brings the run home first waits for its end, and removes it there only when it
 * is here, whole.
 *
 * All put a script for a shell of this machine into `out`: near.sh, and a call. Of what is executed there, far.sh, it has lines. Which host it
 * is says the task.
 */
#ifndef SCRY_TASK_FAR_H
#define SCRY_TASK_FAR_H

#include "base/data/buf.h"
#include "task/store.h"

/* Brings the task's files there and starts a run. `line`: words for a shell, behind `scry run --output=DIR`. */
void far_put_start(struct buf *out, const struct task *task, uint64_t run, const char *line);
/* Waits for the end of the run, and brings it and what it wrote among the task's files, if there is room for it. What did not come
 * whole stays there, and may be brought again. */
void far_put_gather(struct buf *out, const struct task *task, uint64_t run);
/* What came of a run that was gathered: all; a part; not a word, though it was sent there; nothing, and nothing is there. */
enum far_came { FAR_WHOLE, FAR_PART, FAR_SILENT, FAR_NOTHING };
enum far_came far_came(const struct task *task, uint64_t run);
/* TERM for its scry run; KILL: for the command and all below it. `stop`: why, one word. */
void far_put_signal(struct buf *out, const struct task *task, uint64_t run, const char *signal, const char *stop);

/* Limits of a shell for each process and file, as task_launch has them for processes of this machine. */
void far_put_limits(struct buf *out, const struct task *task);
/* Is it a log (collect.logs) of what the program prints? Where its expression begins, or NULL. */
const char *far_log_of_output(const char *log, bool *ret_is_err);

#endif
