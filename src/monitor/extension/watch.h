/* SPDX-License-Identifier: Apache-2.0 */
/* Timers and descriptors of extensions: each belongs to an object, is for its tool, and ends with it at the latest. */
#ifndef SCRY_MONITOR_EXTENSION_WATCH_H
#define SCRY_MONITOR_EXTENSION_WATCH_H

#include <stdint.h>

#include <scry/ext.h>

/* NULL: out of memory, or the kernel refused. */
struct scry_watch *ext_watch_timer(struct scry_object *object, uint64_t period_ns,
                                   void (*fn)(struct scry_object *object));
struct scry_watch *ext_watch_fd(struct scry_object *object, int fd, uint32_t events,
                                void (*fn)(struct scry_object *object, int fd, unsigned events));
void ext_watch_end(struct scry_watch *watch);

#endif
