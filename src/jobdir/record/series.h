/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A value over the time of a job in bounded memory: the maximum in each window. When the windows are used up they are
 * joined in pairs, so that a run of a week takes no more room than one of a minute, and no spike is lost.
 */
#ifndef SCRY_JOBDIR_RECORD_SERIES_H
#define SCRY_JOBDIR_RECORD_SERIES_H

#include <stddef.h>

#include "base/data/buf.h"

enum { SERIES_WINDOWS = 480 };

struct series {
    double width_seconds; /* of one window; 0 in a zero-initialised, empty series */
    size_t used;
    double max[SERIES_WINDOWS]; /* < 0: nothing was measured in this window */
};

/* Values are >= 0, seconds since the start of the job; a step back in time counts for the last window. */
void series_add(struct series *series, double seconds, double value);
/* The same of all windows from `from` on; of a value that holds for that time. A value of -1: none was measured. */
void series_add_from(struct series *series, double from, double seconds, double value);

/* The greatest value, or 0. */
double series_max(const struct series *series);

/* Appends `columns` characters of U+2581...U+2588, one for each part of the time, scaled to `top` (0: the maximum); a
 * blank where nothing was measured. With ascii, characters of " .:-=+*#%@" . */
void series_sparkline(const struct series *series, struct buf *out, size_t columns, double top, int ascii);

#endif
