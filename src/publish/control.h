/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_PUBLISH_CONTROL_H
#define SCRY_PUBLISH_CONTROL_H

#include "base/data/buf.h"

#include <stdint.h>

/*
 * The control channel at the job's end: opens the sealed requests that come through the broker, and gives them to the
 * node's monitor, on a connection for each session that is confined to the job and to the rights of the sender's key
 * (monitor/engine/confine.h). So whatever the other end says, the monitor decides, by the same rules for all.
 *
 * A session is a channel (wire/channel.h) with the frames of a tool and a monitor in it. It belongs to the key that
 * began it, and to that end's address. It begins with a message that asks for nothing; so one that somebody kept
 * back, and lets through when its sender is long gone, does nothing. It is over when either end says so, when nothing
 * came for a while, or when the key has expired or was revoked.
 */

struct publisher;
struct control;

/* Sets the publisher's address. Without a key of the job, and where no address can be made, which is in the log, the job
 * takes no requests: *ret_control is NULL. */
void control_start(struct publisher *publisher, struct control **ret_control);
/* Ends all sessions, and says so to the other ends as far as there is room. NULL is fine. */
void control_stop(struct control *control, const char *why);
/* Sends what is due, as far as there is room. */
void control_pump(struct control *control);
/* What was refused since the start, "3 expired, 1 forged"; "": nothing. What is only of another hour is in the log. */
void control_refusals(const struct control *control, char *ret_text, size_t size);

#endif
