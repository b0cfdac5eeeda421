/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the monitor holds at the moment, for people who look for a mistake in scry: lines in the form of the log
 * (base/system/log.h), a word that says what it is, then `key=value`. Reads only; changes nothing.
 */
#ifndef SCRY_MONITOR_ENGINE_STATE_H
#define SCRY_MONITOR_ENGINE_STATE_H

#include "base/data/buf.h"

struct monitor;

/* Appends lines, each ended by '\n'. Without memory out->failed is set. */
void monitor_state_print(const struct monitor *monitor, struct buf *out);

#endif
