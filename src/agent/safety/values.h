/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the capture programs (shm/capture.h) of the area. A program is checked once, when it first runs. `programs` is
 * never reused, so the result for an offset holds for ever (map it read-only, and it cannot change afterwards).
 * Async-signal-safe, no allocation, errno unchanged, general registers only.
 */
#ifndef SCRY_AGENT_SAFETY_VALUES_H
#define SCRY_AGENT_SAFETY_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/area.h"
#include "shm/capture.h"

/* Runs the program at `offset` of view->programs (0: none). Returns the bytes emitted, 0 if it is no program. */
size_t agent_values_capture(const struct area_view *view, uint32_t offset, const struct capture_frame *frame, void *out,
                            size_t room);

/* The caller's values at an entry: `unwind_at` (area_site.unwind of the entry site) gives the caller's registers, with
 * which the program of the call site, `offset`, is run. */
size_t agent_values_caller(const struct area_view *view, uint32_t unwind_at, uint32_t offset,
                           const struct capture_frame *frame, void *out, size_t room);

/* Does the program need xmm registers in the frame? */
bool agent_values_wants_xmm(const struct area_view *view, uint32_t offset);

/* What is known of the program at an offset, checked at the first call. For act.c, too. */
enum agent_program_kind { AGENT_PROGRAM_CAPTURE, AGENT_PROGRAM_CODE, AGENT_PROGRAM_LIST };
enum agent_program_flag {
    AGENT_PROGRAM_OK = 1,       /* else none of the others */
    AGENT_PROGRAM_XMM = 2,      /* capture */
    AGENT_PROGRAM_DURATION = 2, /* code: looks at how long the call took; list: one of its programs does */
    AGENT_PROGRAM_TIME = 4,     /* code: looks at the clock */
    AGENT_PROGRAM_PARAMS = 8,   /* code: looks at parameters; list: one of its programs does */
    AGENT_PROGRAM_RAISES = 16,  /* list */
    AGENT_PROGRAM_KEPT = 16,    /* capture: looks at no register that a call may change */
};
/* Another area, or the first one: forgets all programs. false: there is no memory for any. */
bool agent_programs_forget(void);
unsigned agent_program_flags(const struct area_view *view, uint32_t offset, enum agent_program_kind kind);

#endif
