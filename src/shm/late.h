/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the monitor passes to the agent's library when it loads it into a running process (tracer_load): the argument of
 * scry_agent_late, and its result. Both come from one build; magic and version protect against mixtures.
 */
#ifndef SCRY_SHM_LATE_H
#define SCRY_SHM_LATE_H

#include <stdint.h>

enum { LATE_MAGIC = 0x6574616c, LATE_VERSION = 1, LATE_DIR = 4096 };
#define LATE_FUNCTION "scry_agent_late"

struct late_start {
    uint32_t magic, version;
    char socket[108];       /* of the monitor, for agents */
    char mpi_dir[LATE_DIR]; /* where the interposers lie; "": beside the agent */
};

/* The result. */
enum late_result {
    LATE_DONE,      /* calls of MPI are caught from here on, or already were */
    LATE_OTHER,     /* another version of the library, or it was switched off here before */
    LATE_NO_MPI,    /* no MPI library that is known is in the process */
    LATE_NOT_TAKEN, /* the interposer is not there for this library, has no room, or the monitor did not take it */
};

#endif
