/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lowering: compiles a conditional request's action list to a program (shm/code.h) that runs where the event happens.
 * Possible when every action has a `lower` that accepts its arguments, and the tool does not want a reply each time
 * (OMIS_DONT_RETURN_OK).
 */
#ifndef SCRY_MONITOR_ENGINE_LOWER_H
#define SCRY_MONITOR_ENGINE_LOWER_H

#include "monitor/engine/csr.h"

struct value;

struct scry_code {
    struct code_program program;
    struct csr *csr;
    struct csr_post *previous_posts; /* of the program before */
};

/* NULL: must run in the monitor. The caller frees. */
struct code_program *lower_csr(struct csr *csr);

/* What has to hold so that the event of a request that is not lowered is handed to the monitor: of csr->event_data and
 * its gate. *ret_filter: NULL if nothing has to; the caller frees. 0, or -1: too long, or out of memory. */
int lower_filter(struct csr *csr, struct code_program **ret_filter);

/* The next instruction, zeroed but for its operation; NULL: the program is full. */
struct code_insn *lower_insn(struct scry_code *code, enum code_op op);

/* A user event that a program posts: raised by the monitor, as often as the program did, when it comes to it. */
struct csr_post {
    int cell; /* how often since the monitor last read it */
    struct scry_object *object;
    const struct value *params; /* of the request's arena */
    size_t param_count;
    struct csr_post *next;
};

/* Adds a post to the program. 0, or -1: agents cannot post it. */
int lower_post(struct scry_code *code, struct scry_object *event, const struct value *params, size_t param_count);

/* Raises what was posted; called when the doorbell was rung. Between monitor_enter and monitor_leave. False: there is
 * more, call again. */
bool lower_posts_raise(struct monitor *monitor);
void lower_posts_free(struct csr *csr);

#endif
