/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_JOB_RECORD_RECORDER_H
#define SCRY_JOB_RECORD_RECORDER_H

#include "base/data/notes.h"
#include "base/data/buf.h"
#include "base/system/clock.h"
#include "job/record/hide_args.h"
#include "job/record/scribe.h"
#include "jobdir/record/kinds.h"
#include "jobdir/record/model.h"
#include "shm/waits.h"

#include <jansson.h>
#include <stdint.h>

/* Receives every fact about a job, and puts it into the model (for the summary) and the spool. */

struct recorder {
    struct scribe scribe;
    struct job_model model;
    uint64_t start_ns;  /* CLOCK_MONOTONIC; "t" counts from here */
    bool started;       /* the command was; "t" is 0 before */
    pid_t command;      /* set when scry run has waited for it: the monitor may not know its status; 0 */
    int command_status; /* its wait status */
    uint64_t crashes_omitted;
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

/* The wait status of the command, or JOB_STATUS_UNKNOWN. */
int recorder_status(const struct recorder *recorder, pid_t pid);

/* A process ended with this status. Records a crash if it was one. */
void recorder_ended(struct recorder *recorder, pid_t pid, const char *name, int status);

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
