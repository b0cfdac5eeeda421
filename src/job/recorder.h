/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes known of a job goes through here: into the model for the summary, and into the spool. */
#ifndef SCRY_JOB_RECORDER_H
#define SCRY_JOB_RECORDER_H

#include <stdint.h>

#include <jansson.h>

#include "base/notes.h"
#include "job/hide_args.h"
#include "job/scribe.h"
#include "jobdir/record/kinds.h"
#include "jobdir/record/model.h"

enum { RECORDER_CRASHES = 20 };

struct recorder {
    struct scribe scribe;
    struct job_model model;
    uint64_t start_ns;  /* CLOCK_MONOTONIC; "t" counts from here */
    pid_t command;      /* once scry run has waited for it: the monitor may have seen its end without its status; 0 */
    int command_status; /* of it */
    uint64_t crashes_omitted;
    struct hide_args *hide;    /* in command lines */
    struct untraced *untraced; /* programs that the agent is not in */
};

double recorder_seconds(const struct recorder *recorder, uint64_t monotonic_ns);
/* Adopts the record (NULL: out of memory, counted as lost), completes it with "type" and "t" (now). */
void recorder_put_take(struct recorder *recorder, const char *type, json_t *record);
/* The same of a row, recorder_put(recorder, RECORD(gap, .from = 1, ...)); what it points to stays the caller's. */
void recorder_put(struct recorder *recorder, enum record_type type, const void *row);
/* A warning. What the fields borrow is copied. */
void recorder_note(struct recorder *recorder, struct note note);

/* The wait status of the command, or JOB_STATUS_UNKNOWN. */
int recorder_status(const struct recorder *recorder, pid_t pid);

/* A process ended with this status: notes a crash if it was one. */
void recorder_ended(struct recorder *recorder, pid_t pid, const char *name, int status);

#endif
