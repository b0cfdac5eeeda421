/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long the phases of a task take: what is expected of each is one object in its state, `expected`, with seconds by the
 * name of the phase. A task takes it over from earlier ones when it begins, and each phase of its own that ends well is worth
 * more. What is brought from another machine is not guessed: its bytes are counted.
 */
#ifndef SCRY_TASK_ESTIMATE_H
#define SCRY_TASK_ESTIMATE_H

#include "task/store.h"

/* What the last tasks say of one that begins: seconds of a build by the same command of the same files, and of a run of the
 * same program, but for its name and what it collects. A new reference. */
json_t *task_expect(const struct task_store *store, const char *id);
/* The phase that a task is in has ended well, and so has all before it. */
void task_note_took(struct task *task);

/* How far the phase is that a task is in, 0 to 1, and the seconds left of it: by what its job says, or by what is expected.
 * -1: not known. What takes longer than expected has no end that anybody knows. */
void task_estimate(const struct task *task, const json_t *phase, double *ret_share, double *ret_left);

/* The phase that a task is in, or NULL. */
json_t *task_phase(const json_t *state);
/* What the runs that ended well took, in seconds; -1: there is none. */
struct task_took {
    double median, least, most;
    size_t runs;
};
struct task_took task_took(const json_t *runs);
/* The file that says how much of a run has come from another machine: what the archive has, in so many digits, then what dd
 * prints while it passes on. */
enum { TASK_BYTES_DIGITS = 20 };
#define TASK_BYTES_FILE "runs/%llu.bytes"

#endif
