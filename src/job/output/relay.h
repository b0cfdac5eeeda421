/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_JOB_OUTPUT_RELAY_H
#define SCRY_JOB_OUTPUT_RELAY_H

#include "base/data/err.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Standard output and error of a job that are no files, passed on and kept (job/output/keep.h). In place of each the job gets a
 * pipe; one for both, where both are the same, so that the order stays.
 *
 * The relay, a process of its own that lives as long as somebody can write, copies what is in the job's pipe to a pipe of its own
 * by tee(2), and then moves it on by splice(2). Nothing is taken out before it is delivered: so whoever kills the relay takes no
 * byte away, and doubles none. A standby takes its place when it dies, and makes a new one. The keeper writes the copy to the disk; it
 * holds nothing of the user's, so a disk that hangs holds up it alone: then no more is kept. Only who kills relay and standby at the
 * same time ends the job's output.
 *
 * If nobody reads any more, nobody reads the job's pipe: it gets its SIGPIPE as it would have. If somebody reads slowly, the job
 * waits as it would have. The flags of the user's descriptors, which others share, are not touched.
 */

enum { RELAY_STREAMS = 2 };

/* What all of its processes, and scry run, know. One of them writes each value. */
struct relay_shared {
    _Atomic pid_t relay;            /* it, once there is a standby */
    _Atomic unsigned keepers;       /* that were made */
    _Atomic bool given;             /* the job has its ends */
    _Atomic bool over;              /* nobody can write any more */
    _Atomic unsigned asked, passed; /* that all that was written before is passed on */
    struct relay_bytes {
        _Atomic uint64_t ahead;          /* in the job's pipe: so much was copied before */
        _Atomic uint64_t copied, missed; /* and so much was not */
        _Atomic uint64_t kept;
        _Atomic uint64_t waited_ns; /* of the job, for room for copies */
        _Atomic int error;          /* why nothing is kept any more: an errno */
        _Atomic bool closed;
    } streams[RELAY_STREAMS];
};

struct relay {
    int control;                      /* it hangs up when all is passed on; -1: there is no relay */
    pid_t pid;                        /* of the first */
    int outputs[RELAY_STREAMS];       /* standard output and error of the job, our ends; -1: as they are */
    const char *names[RELAY_STREAMS]; /* what each is kept as: "stdout", "stderr", "output" for both; NULL: it is not */
    const char *reasons[RELAY_STREAMS]; /* why not; NULL: it is a file, or closed */
    struct relay_shared *shared;
};

#define RELAY_NONE ((struct relay){.control = -1, .outputs = {-1, -1}})

/* Starts it where one of `targets`, standard output and error of the caller, is a pipe, a socket or /dev/null. `most`: bytes of
 * the end to keep of each, in the job directory `dir`. 0 or -errno: then there is none. */
int relay_start(struct relay *ret_relay, const int targets[RELAY_STREAMS], const char *dir, uint64_t most);
/* The job has its ends. */
void relay_given(struct relay *relay);
/* Waits until what was written so far is passed on, as long as the reader takes some of it every RELAY_STUCK_MS, and then a moment
 * until it is kept; what is left is passed on after that. false: `interrupt` (-1: none) became readable before. */
bool relay_wait(struct relay *relay, int interrupt);
/* What is not whole of the i-th stream's copy, in words; NULL: nothing. */
const char *relay_lack(const struct relay *relay, size_t i, char *ret_text, size_t size);
/* Lets go of it; it goes on. `job_started` false: it ends, and is waited for; nothing is kept. */
void relay_done(struct relay *relay, bool job_started);

#endif
