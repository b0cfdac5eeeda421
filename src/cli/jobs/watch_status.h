/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lines below the records of scry watch on a terminal: where each layer of the job is now. They are erased before
 * more records are printed, and drawn again below these. Not drawn where there is no room.
 */
#ifndef SCRY_CLI_JOBS_WATCH_STATUS_H
#define SCRY_CLI_JOBS_WATCH_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/data/buf.h"
#include "jobdir/record/model.h"

struct watch_status {
    bool on, colours;
    struct job_model model;
    size_t drawn; /* lines that are on the screen */
};

/* For a terminal that can do it; else nothing below does anything. */
void watch_status_start(struct watch_status *status, int fd, bool colours);
/* The last call. */
void watch_status_done(struct watch_status *status);

/* Appends what erases the lines, and what draws them: into the same buffer as the records between. */
void watch_status_erase(struct watch_status *status, struct buf *out);
void watch_status_draw(struct watch_status *status, struct buf *out, size_t rows, size_t columns, double seconds);

#endif
