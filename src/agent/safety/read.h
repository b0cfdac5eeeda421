/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads memory that may not be there, inside the traced program: a bad address is reported, and never harms. Three
 * ways; area.reader (enum area_reader) can change at any time:
 *
 *   direct   a copy whose fault our SIGSEGV/SIGBUS handler repairs. Only where that is certain to work: our handlers in
 * place, both signals open in the kernel's mask of this thread (agent/safety/signals.h says how that is known), room for
 * a signal's frame on a stack known to be the thread's own, no debugger. Else the next way is taken. syscall  process_vm_readv on ourselves:
 * 1 us, always possible but in some sandboxes. Never touches device mappings. victim   another process in the same
 * memory does the copy and may die of it: 30 us, a new one for each read. In a program with threads `syscall` is used
 * instead, unless that is refused.
 *
 * Device mappings are known from /proc/self/maps (at the start and after dlopen) and from mmap, which is interposed:
 * what is neither anonymous nor a regular file outside of sysfs counts as one. Not seen: what a raw system call maps,
 * or mremap moves.
 *
 * Whatever the way: kernel and non-canonical addresses and the first page are refused, device mappings are left to
 * process_vm_readv (which refuses them), and the thread's own stack above the stack pointer is copied as it is.
 * Async-signal-safe, no allocation, errno untouched, general registers only.
 */
#ifndef SCRY_AGENT_SAFETY_READ_H
#define SCRY_AGENT_SAFETY_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "shm/area.h"

/* Call it when the area is mapped, before anything is read; also in the child after fork (a victim is the parent's). */
void agent_read_init(const struct area_view *view);
/* Ends the victim of another thread's read, if any: before exec, at exit, when the agent switches itself off. */
void agent_read_done(void);

/* 0, or -1: nothing usable was copied. A capture_read_fn. */
int agent_read(void *dst, uint64_t address, size_t size);

/* The same where area.reader is AREA_READ_DIRECT, in a hook: as quick as may be where all is as it was. */
int agent_read_again(void *dst, uint64_t address, size_t size);

/* Put these around all reads of one event: facts about this thread (open signals, room on the stack) are found once,
 * not for each read. Nests (signal handlers): pass begin's result to end. */
unsigned agent_read_begin(void);
void agent_read_end(unsigned before);

/* Whether the word at an address can be read, found out without a fault, by a system call. */
bool agent_read_there(uint64_t address);

/* The number of bad addresses in this thread so far; and who is told of each (hooks/, not in tests of this part alone). */
uint64_t agent_read_faults(void);
extern void agent_read_failed(uint64_t faults) __attribute__((weak));

/* The program mapped something: [address, address + size) of file descriptor fd. Notes device mappings. */
void agent_read_mapped(uint64_t address, size_t size, int fd);
/* Looks for device mappings in /proc/self/maps, and for a debugger: at the start, after dlopen. */
void agent_read_rescan(void);

/* ---- for signals.c ---- */

/* The process that was initialised for; 0: none, or this is a child of it that was not yet. */
int32_t agent_read_process(void);
/* A word of signals.c in memory that fork wipes, whichever way it was made: in a child it is 0 until that writes it, area
 * or none. NULL: nobody was initialised. */
_Atomic int32_t *agent_read_wiped(void);

/* This thread changed its alternate signal stack. */
void agent_read_altstack(void);
/* If pc is in our copying: where to continue, else 0. */
uint64_t agent_read_fixup(uint64_t pc);

/* ---- inside the room ---- */

/* read_x86_64.S: a plain copy whose faults are repaired by our signal handler */
int agent_copy(void *dst, uint64_t address, size_t size);
extern const char agent_copy_end[], agent_copy_fixup[];

/* ---- victim.c ---- */

enum victim_outcome { VICTIM_READ, VICTIM_FAULT, VICTIM_NOT_POSSIBLE };

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
