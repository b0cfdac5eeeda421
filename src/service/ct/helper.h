/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to the helper scry-symbols by services of `ct` that look at variables now. */
#ifndef SCRY_SERVICE_CT_HELPER_H
#define SCRY_SERVICE_CT_HELPER_H

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "tracer/tracer.h"
#include "symbols/client/helper_client.h"

struct process;
struct thread;

enum { CT_FRAMES = 256 }; /* of a thread that are looked at */
#define CT_HELPER_NS (UINT64_C(10) * NS_PER_SECOND)

/* Runs `scry-symbols JOB` with a request, at most 10 s. 0 or -errno with err; in any case the caller ends the reader,
 * which has the answers (helper_next). */
int ct_helper_run(const char *job, const struct buf *request, struct helper_reader *ret_reader, struct err *err);

/* Begins a request of `variable`: the process, its modules, how deep pointers are followed. *ret_agent (may be NULL) is
 * where the agent's code is, whose frames are not the program's; empty without an agent. */
struct ct_range {
    uint64_t start, end;
};
int ct_request_begin(struct buf *request, const struct process *process, unsigned depth, struct ct_range *ret_agent,
                     struct err *err);
/* Adds the frames of a thread that is stopped; the caller frees them. */
int ct_request_frames(struct buf *request, struct thread *thread, struct tracer_frame **ret_frames, size_t *ret_count,
                      struct err *err);

/* Threads of one process wait while they are looked at: those that are not stopped anyway. */
int ct_threads_stop(struct thread *const *threads, size_t count, struct err *err);
void ct_threads_continue(struct thread *const *threads, size_t count);

#endif
