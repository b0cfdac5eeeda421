/* SPDX-License-Identifier: Apache-2.0 */
/* Between read.c, victim.c and outside.c. */
#ifndef SCRY_AGENT_SAFETY_READ_INTERNAL_H
#define SCRY_AGENT_SAFETY_READ_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* read_x86_64.S: a plain copy whose faults are repaired by our signal handler */
int agent_copy(void *dst, uint64_t address, size_t size);
extern const char agent_copy_end[], agent_copy_fixup[];

/* ---- victim.c ---- */

enum victim_outcome { VICTIM_READ, VICTIM_FAULT, VICTIM_NOT_POSSIBLE };
enum victim_outcome victim_read(pid_t self, void *dst, uint64_t address, size_t size);
void victim_end(pid_t self);

/* ---- outside.c: looking at /proc without a descriptor appearing in the program ---- */

enum { DEVICES_MAX = 64 };

struct outside {
    pid_t pid;             /* the process to look at */
    pid_t tracer;          /* TracerPid; -1: not known */
    uint64_t ticks;        /* field 22 of stat; 0: could not be read, or no such process */
    char state;            /* field 3: 'R', 'S', 'T', 'Z', ...; 0 likewise */
    unsigned device_count; /* mappings of devices and the like; DEVICES_MAX + 1: too many */
    uint64_t devices[DEVICES_MAX][2];
};
enum outside_what { OUTSIDE_TRACER = 1, OUTSIDE_DEVICES = 2, OUTSIDE_STAT = 4 };

/* false: not done (another thread is in it, or clone is refused). Uses one static buffer: *ret_outside points to it,
 * and is valid until outside_release(). */
const struct outside *outside_read(pid_t pid, unsigned what);
void outside_release(void);

#endif
