/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs what conditional requests want at a call or a return: programs over the monitor's cells, right here in some ten
 * nanoseconds (shm/code.h), and events for the monitor, for which the thread waits. It waits in slices and releases
 * itself when tracing is switched off, or when the monitor is gone, stopped or replaced (patience.h): no thread is ever
 * held by a dead monitor. Async-signal-safe, no allocation, errno unchanged, general registers only.
 */
#ifndef SCRY_AGENT_SAFETY_ACT_H
#define SCRY_AGENT_SAFETY_ACT_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/area.h"
#include "shm/capture.h"

/* Call it when the area is mapped, and again after fork. cells: CODE_CELLS of them; NULL: run nothing. */
void agent_act_init(const struct area_view *view, struct doorbell *bell, code_cell *cells);

struct agent_call {                     /* the call; borrowed */
    const struct capture_frame *frame;  /* NULL: registers, and so parameters and values, are not known */
    const struct area_site *site_entry; /* of `site`; NULL: none is known */
    uint64_t site, callsite, sp;        /* hook's return address, return address into the caller, stack address */
    uint64_t time, entry_time;          /* ticks */
    uint32_t slot, depth;
    bool exit;   /* returned */
    bool values; /* a raised event carries values (AREA_VALUES) */
};

/* Does the list at `list_at` need registers (and vector registers) for this site? Then set call->frame. */
enum agent_act_need { AGENT_ACT_FRAME = 1, AGENT_ACT_XMM = 2 };
unsigned agent_act_needs(uint32_t list_at, const struct area_site *site_entry, bool values);

/* Runs the list (slot.enter_list, slot.exit_list; offset in programs). `thread`: the block of this thread; NULL: none,
 * and nothing is raised. May wait for the monitor. */
void agent_act(struct area_thread *thread, uint32_t list_at, const struct agent_call *call);

/* The same, if the list only runs programs over integers in registers and in the frame, and nobody waits. Else does
 * nothing and returns false. `frame`: complete but for vector registers. */
bool agent_act_short(uint32_t list_at, const struct capture_frame *frame);

/* Does the monitor's process still live? For other waits, too. */
bool agent_monitor_alive(void);

/* The monitor's state: patience_monitor_state. */
char agent_monitor_state(void);

#endif
