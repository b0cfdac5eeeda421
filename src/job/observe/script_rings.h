/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The observer's side of shm/script_ring.h: finds the files that interpreters of one language make, takes the records
 * out of them some times a second and whenever a writer calls, and removes them when their process is gone. Each source
 * that wants them has its own.
 */
#ifndef SCRY_JOB_OBSERVE_SCRIPT_RINGS_H
#define SCRY_JOB_OBSERVE_SCRIPT_RINGS_H

#include <jansson.h>

#include "job/observe/observe.h"
#include "shm/script_ring.h"

struct script_rings;

struct script_rings_ring {
    pid_t pid;
    void *own; /* the user's, NULL at first */
    const struct script_view *view;
};

/* All but the language may be NULL. */
struct script_rings_use {
    const char *language; /* as in struct script_open */
    void (*began)(void *ctx, struct script_rings_ring *ring);
    void (*record)(void *ctx, struct script_rings_ring *ring, const struct script_event *record);
    void (*looked)(void *ctx, struct script_rings_ring *ring); /* all records were taken: time for sums */
    void (*ended)(void *ctx, struct script_rings_ring *ring);  /* free `own` */
};

/* Makes the directory, and removes those of jobs that are gone. NULL with err. */
struct script_rings *script_rings_new(struct observer *observer, const struct script_rings_use *use, void *ctx,
                                      struct err *err);
/* A process was first seen, or ended, or executes something perhaps, as the source was told: looks at its rings. `ended`: it is over, though the kernel
 * may still have it for a moment. */
void script_rings_process_changed(struct script_rings *rings, pid_t pid, bool ended);
/* Looks a last time, ends all rings, and removes the directory. NULL is fine. */
void script_rings_free(struct script_rings *rings);

/* Is so much free where the files are made? */
bool script_rings_have_room(const struct script_rings *rings, uint64_t bytes);

/* A copy; "": there is none. NULL: out of memory. */
char *script_text_copy(const struct script_text *text);
/* Why a process is not watched any more, as the record says: each reason is noted once. */
void script_rings_note_aside(struct script_rings *rings, const struct script_rings_ring *ring,
                             const struct script_event *event);

/* The frames of a record, [{function, file, line}, ...]; "" where there is none. NULL: out of memory. */
json_t *script_frames_json(const struct script_event *event);

/* Of a sum: in ns, whatever the ring has. */
uint64_t script_rings_ns(const struct script_rings *rings, const struct script_rings_ring *ring, uint64_t time);

#endif
