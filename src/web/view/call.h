/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_WEB_VIEW_CALL_H
#define SCRY_WEB_VIEW_CALL_H

#include "web/view/lane.h"

/* The values of a call: read again where it begins and ends, and written as names and texts. */

struct values {
    struct buf arguments, locals, result, caller; /* as JSON; empty: not recorded */
};

/* Of a call whose whole time is known. 0, or -errno with err. Pass ret_values, which is zero before, to values_done in
 * any case. */
int values_read(struct values *ret_values, struct view *view, const struct view_lane *lane,
                const struct lane_call *call, struct err *err);
void values_done(struct values *values);

/* `,"name":[{"name", "value"}, ...]`: the members of one of them, each value as text. */
void values_put_list(struct buf *out, const char *name, const struct buf *json);
/* `,"result":` its text, or null. */
void values_put_result(struct buf *out, const struct values *values);

#endif
