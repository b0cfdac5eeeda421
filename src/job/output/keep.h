/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_JOB_OUTPUT_KEEP_H
#define SCRY_JOB_OUTPUT_KEEP_H

#include <stddef.h>
#include <stdint.h>

/*
 * Writes what a program wrote to a stream into the job directory, as jobdir/record/output.h says and reads it: the first KEEP_FIRST
 * bytes, and at least KEEP_SEGMENT of the end. A time stands for what came in KEEP_TIMES_MS; where the times are too many, each second
 * one goes.
 *
 * Whoever is killed here leaves what another one goes on with: nothing but the files says how far it is.
 */

enum { KEEP_FIRST = 1 << 20, KEEP_SEGMENT = 4 << 20, KEEP_TIMES_MOST = 1 << 20 };

struct keep {
    const char *stream; /* borrowed */
    char folder[4096];  /* DIR/output */
    int dir, fd, times; /* -1: none */
    uint64_t most;      /* bytes of the segments behind the first */
    uint64_t start, at; /* of the segment, and of the next byte, in the stream */
    uint64_t said_ms, times_bytes;
};

/* In this job directory; makes what is missing, and goes on where another one ended. 0 or -errno; keep_done in both cases. */
int keep_open(struct keep *ret_keep, const char *dir, const char *stream, uint64_t most);
/* Appends what was written at that time of day. 0 or -errno: then nothing more can be kept. */
int keep_put(struct keep *keep, const char *bytes, size_t len, uint64_t wall_ns);
void keep_done(struct keep *keep);

#endif
