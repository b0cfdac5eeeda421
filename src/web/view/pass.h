/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_WEB_VIEW_PASS_H
#define SCRY_WEB_VIEW_PASS_H

#include "web/view/lane.h"

/*
 * The pass over all traces of a job: fills the pyramids of the lanes, and notes the points from which they can be read
 * again. It goes on a slice at a time. Several traces are read side by side, so that the picture grows from the left.
 */

/* Reads a slice. 1: there is more to read now, 0: not at the moment; -errno with err. view->complete: never again. */
int pass_work(struct view *view, struct err *err);

/* The calls of a lane that are open, by what was read; and until when they were, which is never before the lane's last
 * event. NULL, INT64_MAX: all of it was read. */
const struct open_calls *pass_open(const struct view *view, const struct view_lane *lane);
int64_t pass_open_until(const struct view *view, const struct view_lane *lane);

#endif
