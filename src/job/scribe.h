/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that writes the job directory for scry run: a disk that hangs holds it up, and neither scry run, which
 * has signals to pass on, nor the job. What scry run has for it waits in a socket and in memory, up to a limit; more is
 * counted as lost. If the disk hangs at the end of the job, the process stays until it has written the rest.
 *
 * No function here waits but scribe_wait. Not thread-safe.
 */
#ifndef SCRY_JOB_SCRIBE_H
#define SCRY_JOB_SCRIBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <jansson.h>

#include "base/buf.h"

/* How it stands with the directory, as of the last scribe_wait. */
struct scribe_told {
    uint64_t lost;       /* records that were given to it and not written */
    uint64_t size_bytes; /* of the records written */
    int replaced;        /* of the last file: 0 or -errno */
    bool stopped;        /* recording has stopped */
    char reason[256];    /* why */
};

struct scribe {
    int fd; /* -1: there is none; what it is given is lost */
    pid_t pid;
    struct buf out; /* not sent yet */
    uint64_t next_seq, lost;
    bool late; /* it did not answer in its time: it is not waited for again */
    struct scribe_told told;
};

/* For the job directory at `dir`, which exists. 0 or -errno; then, and before, *scribe has no process. */
int scribe_start(struct scribe *scribe, const char *dir, const char *id, uint64_t max_bytes);
/* Adopts the record (NULL: lost) and appends it to the spool, see jobdir/record/spool.h. */
void scribe_put_take(struct scribe *scribe, json_t *record);
/* Sends what can be sent. */
void scribe_push(struct scribe *scribe);
/* The most that the job directory may have from now on. */
void scribe_limit(struct scribe *scribe, uint64_t max_bytes);
/* No more records come: what was kept free for the files of the end is theirs. */
void scribe_close_spool(struct scribe *scribe);
/* Replaces a file of the directory as a whole, mode 0600. */
void scribe_replace(struct scribe *scribe, const char *name, const char *bytes, size_t len);
/* Everything given before is written, or cannot be: `told` says it. false: the disk does not answer, or the process was
 * killed. */
bool scribe_wait(struct scribe *scribe);
/* How many records were lost, here and there. */
uint64_t scribe_lost(const struct scribe *scribe);
/* Ends the process once it has written everything; one that is late is left behind. Any scribe, also twice. */
void scribe_end(struct scribe *scribe);

#endif
