/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_JOB_RECORD_WRITER_H
#define SCRY_JOB_RECORD_WRITER_H

#include "base/data/buf.h"
#include "base/data/notes.h"
#include "base/system/clock.h"
#include "jobdir/text/hide_args.h"
#include "jobdir/record/kinds.h"
#include "jobdir/record/model.h"
#include "shm/waits.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * The process that writes the job directory for scry run. A disk that hangs delays only this process: neither scry run,
 * which has signals to pass on, nor the job. What scry run has for it waits in a socket and in memory, up to a limit.
 * More is lost, and counted. If the disk hangs at the end of the job, the process stays until it has written the rest.
 *
 * No function here blocks but writer_wait. Not thread-safe.
 */

/* The state of the directory at the last writer_wait. */
struct writer_told {
    uint64_t lost;       /* records received and not written */
    uint64_t size_bytes; /* of the records written */
    int replaced;        /* the last file: 0 or -errno */
    bool stopped;        /* recording has stopped */
    char reason[256];    /* why */
};

struct writer {
    int fd; /* -1: no process, and all records are lost */
    pid_t pid;
    struct buf out; /* not sent yet */
    size_t batch;   /* in it, one more than where the last message begins, if that is of records; 0: it is not, or is
                       being sent */
    uint64_t next_seq, lost;
    bool settled; /* nothing was put since the last writer_wait that was answered */
    bool late;    /* it did not answer in time: do not wait for it again */
    struct writer_told told;
};

/* For the existing job directory `dir`. 0 or -errno; before that, and after an error, *writer has no process. */
int writer_start(struct writer *writer, const char *dir, const char *id, uint64_t max_bytes);
/* Adopts the record (NULL: lost) and appends it to the spool, see jobdir/record/spool.h. */
void writer_put_take(struct writer *writer, json_t *record);
/* The same of the line of a record that has no time; without its end. */
void writer_put_line(struct writer *writer, struct span line, double seconds);
/* Sends what can be sent without blocking. */
void writer_push(struct writer *writer);
/* Sets the largest size of the job directory. */
void writer_limit(struct writer *writer, uint64_t max_bytes);
/* Ends the records: the reserve for the files at the end is theirs now. */
void writer_close_spool(struct writer *writer);
/* Replaces a file of the directory as a whole, mode 0600. It is on disk when the process has done so (`now`), or a second later
 * if the process lives so long: the disk takes longer than all else that a short job needs. */
void writer_replace(struct writer *writer, const char *name, const char *bytes, size_t len, bool now);
/* Waits until everything is written, or cannot be: see `told`. false: the disk does not answer, or the process was
 * killed. */
bool writer_wait(struct writer *writer);
/* The number of records lost, here and in the process. */
uint64_t writer_lost(const struct writer *writer);
/* Has the process end when it has written everything, and waits for that, but not for a late one. Any writer, also twice. */
void writer_end(struct writer *writer);
/* After it: waits until it has ended. */
void writer_reap(struct writer *writer);

/* Receives every fact about a job, and puts it into the model (for the summary) and the spool. */

enum { RECORDER_CRASHES = 20 };

struct recorder_crash { /* a process that crashed, beside its record */
    char *program;      /* its file; NULL: not known */
    json_t *argv;       /* its command; NULL: not known */
    char *cwd;          /* NULL: likewise */
    double start, end;
};

struct recorder {
    struct writer writer;
    struct job_model model;
    uint64_t start_ns;  /* CLOCK_MONOTONIC; "t" counts from here */
    bool started;       /* the command was; "t" is 0 before */
    pid_t command;      /* set when scry run has waited for it: the monitor may not know its status; 0 */
    int command_status; /* its wait status */
    uint64_t crashes_omitted;
    struct recorder_crash crashes[RECORDER_CRASHES];
    struct hide_args *hide;    /* in command lines */
    struct untraced *untraced; /* programs that the agent is not in */
    /* Called with each record; may be NULL. */
    void (*recorded)(void *ctx, enum record_type type, json_t *record);
    void *ctx;
};

double recorder_seconds(const struct recorder *recorder, uint64_t monotonic_ns);
/* The same of a record that was read from a line, an object in JSON with its type and without "t": the line itself goes
 * to the spool. Borrows both. */
void recorder_put_line(struct recorder *recorder, const char *type, json_t *record, struct span line);
/* The same of a row, recorder_put(recorder, RECORD(gap, .from = 1, ...)); what it points to stays the caller's. */
void recorder_put(struct recorder *recorder, enum record_type type, const void *row);
/* Records a warning. Copies borrowed fields. */
void recorder_note(struct recorder *recorder, struct note note);

/* The wait status of the command, also of one that has ended and that nobody has waited for yet, or JOB_STATUS_UNKNOWN. */
int recorder_status(const struct recorder *recorder, pid_t pid);

/* A process ended. Records a crash if it was one. program: as it was started in cwd; NULL: not known. */
void recorder_ended(struct recorder *recorder, const struct process_end_record *ended, const char *program,
                    const char *cwd);
void recorder_crashes_done(struct recorder *recorder);

/*
 * When to take the next sample of a job: at first in short intervals, for short jobs, then at multiples of the period.
 * A late sample is not followed by those that were missed. Pure.
 */

/* After `now_ns`, of a job that began at `start_ns` (CLOCK_MONOTONIC), with --sample `period` seconds. */
static inline uint64_t sampling_next_ns(uint64_t start_ns, uint64_t now_ns, double period)
{
    uint64_t passed_ns = now_ns - start_ns, period_ns = (uint64_t)(period * NS_PER_SECOND);
    uint64_t next_ns = passed_ns < SAMPLING_FIRST_NS / 2 ? SAMPLING_FIRST_NS : passed_ns * 2;
    if (period_ns && next_ns > passed_ns + period_ns)
        next_ns = (passed_ns / period_ns + 1) * period_ns;
    return start_ns + next_ns;
}

#endif
