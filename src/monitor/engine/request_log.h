/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests, replies, events and changes of conditional requests in the log, one line each (base/system/log.h, level
 * debug). All are cheap when that level is off. They change nothing, and never fail: without memory they
 * log nothing.
 */
#ifndef SCRY_MONITOR_ENGINE_REQUEST_LOG_H
#define SCRY_MONITOR_ENGINE_REQUEST_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/data/buf.h"
#include "lang/reply.h"

struct csr;
struct csr_target;
struct event;
struct session;

/* The text as it came. */
void request_log_request(const struct session *session, uint32_t id, uint32_t flags, struct span text);
/* `encoded` as lang/reply.h says: of each reply how large it is, its first error or else its first text. */
void request_log_reply(const struct session *session, uint32_t id, bool last, struct span encoded);
/* `matched` conditional requests have their lists executed. */
void request_log_event(const struct event *event, size_t matched);
/* `state`: defined, enabled, disabled, deleted, dropped or triggered. */
void request_log_csr(const struct csr *csr, const char *state);
/* How it went in one process. */
void request_log_armed(const struct csr *csr, const struct csr_target *target);

#endif
