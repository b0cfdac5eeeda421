/* SPDX-License-Identifier: Apache-2.0 */
/* Receives every fact about a job, and puts it into the model (for the summary) and the spool. */
#ifndef SCRY_JOB_RECORD_RECORDER_H
#define SCRY_JOB_RECORD_RECORDER_H

#include <stdint.h>

#include <jansson.h>

#include "base/data/notes.h"
#include "base/data/span.h"
#include "job/record/hide_args.h"
#include "job/record/scribe.h"
#include "jobdir/record/kinds.h"
#include "jobdir/record/model.h"

enum { RECORDER_CRASHES = 20 };

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
/* Adopts the record (NULL: out of memory, counted as lost), and adds "type" and "t" (now). */
void recorder_put_take(struct recorder *recorder, const char *type, json_t *record);
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

#endif
