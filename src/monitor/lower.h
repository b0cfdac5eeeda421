/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lowering: compiles a conditional request's action list to a program (shm/code.h) that runs where the event happens.
 * Possible when every action has a `lower` that accepts its arguments, and the tool does not want a reply each time
 * (OMIS_DONT_RETURN_OK).
 */
#ifndef SCRY_MONITOR_LOWER_H
#define SCRY_MONITOR_LOWER_H

#include "monitor/csr.h"

struct scry_code {
    struct code_program program;
    struct csr *csr;
};

/* NULL: must run in the monitor. The caller frees. */
struct code_program *lower_csr(struct csr *csr);

#endif
