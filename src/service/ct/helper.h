/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to the helper scry-symbols, for services of `ct` that read variables now. */
#ifndef SCRY_SERVICE_CT_HELPER_H
#define SCRY_SERVICE_CT_HELPER_H

#include "base/data/buf.h"
#include "base/system/clock.h"
#include "base/data/err.h"
#include "tracer/tracer.h"
#include "symbols/client/helper_client.h"

struct process;
struct thread;

enum { CT_FRAMES = 256 }; /* of a thread, at most */

/* Runs `scry-symbols JOB` with a request, for at most 10 s. 0 or -errno with err. In any case the caller ends the
 * reader, which has the answers (helper_next). */
int ct_helper_run(const char *job, const struct buf *request, struct helper_reader *ret_reader, struct err *err);

/* Begins a request of `variable`: the process, its modules, levels of pointers. *ret_agent (may be NULL) is the range
 * of the agent's code, whose frames are not the program's; empty without an agent. */
struct ct_range {
    uint64_t start, end;
};
int ct_request_begin(struct buf *request, const struct process *process, unsigned depth, struct ct_range *ret_agent,
                     struct err *err);
/* Adds the frames of a stopped thread. The caller frees them. */
int ct_request_frames(struct buf *request, struct thread *thread, struct tracer_frame **ret_frames, size_t *ret_count,
                      struct err *err);

/* Stops threads of one process, unless they are stopped already, while they are inspected. */
int ct_threads_stop(struct thread *const *threads, size_t count, struct err *err);
void ct_threads_continue(struct thread *const *threads, size_t count);

#endif
