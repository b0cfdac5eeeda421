/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that writes the job directory for scry run. A disk that hangs delays only this process: neither scry run,
 * which has signals to pass on, nor the job. What scry run has for it waits in a socket and in memory, up to a limit.
 * More is lost, and counted. If the disk hangs at the end of the job, the process stays until it has written the rest.
 *
 * No function here blocks but scribe_wait. Not thread-safe.
 */
#ifndef SCRY_JOB_RECORD_SCRIBE_H
#define SCRY_JOB_RECORD_SCRIBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <jansson.h>

#include "base/data/buf.h"

/* The state of the directory at the last scribe_wait. */
struct scribe_told {
    uint64_t lost;       /* records received and not written */
    uint64_t size_bytes; /* of the records written */
    int replaced;        /* the last file: 0 or -errno */
    bool stopped;        /* recording has stopped */
    char reason[256];    /* why */
};

struct scribe {
    int fd; /* -1: no process, and all records are lost */
    pid_t pid;
    struct buf out; /* not sent yet */
    size_t batch;   /* in it, one more than where the last message begins, if that is of records; 0: it is not, or is
                       being sent */
    uint64_t next_seq, lost;
    bool settled; /* nothing was put since the last scribe_wait that was answered */
    bool late;    /* it did not answer in time: do not wait for it again */
    struct scribe_told told;
};

/* For the existing job directory `dir`. 0 or -errno; before that, and after an error, *scribe has no process. */
int scribe_start(struct scribe *scribe, const char *dir, const char *id, uint64_t max_bytes);
/* Adopts the record (NULL: lost) and appends it to the spool, see jobdir/record/spool.h. */
void scribe_put_take(struct scribe *scribe, json_t *record);
/* The same of the line of a record that has no time; without its end. */
void scribe_put_line(struct scribe *scribe, struct span line, double seconds);
/* Sends what can be sent without blocking. */
void scribe_push(struct scribe *scribe);
/* Sets the largest size of the job directory. */
void scribe_limit(struct scribe *scribe, uint64_t max_bytes);
/* Ends the records: the reserve for the files at the end is theirs now. */
void scribe_close_spool(struct scribe *scribe);
/* Replaces a file of the directory as a whole, mode 0600. It is on disk when the process has done so (`now`), or a second later
 * if the process lives so long: the disk takes longer than all else that a short job needs. */
void scribe_replace(struct scribe *scribe, const char *name, const char *bytes, size_t len, bool now);
/* Waits until everything is written, or cannot be: see `told`. false: the disk does not answer, or the process was
 * killed. */
bool scribe_wait(struct scribe *scribe);
/* The number of records lost, here and in the process. */
uint64_t scribe_lost(const struct scribe *scribe);
/* Has the process end when it has written everything, and waits for that, but not for a late one. Any scribe, also twice. */
void scribe_end(struct scribe *scribe);
/* After it: waits until it has ended. */
void scribe_reap(struct scribe *scribe);

#endif
