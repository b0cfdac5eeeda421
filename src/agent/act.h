/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What conditional requests want done at a call or a return: programs over the monitor's cells, run right here in some
 * ten nanoseconds (shm/code.h), and events that are handed to the monitor while the thread waits. It waits in slices
 * and lets itself go when tracing is switched off or the monitor is gone, stopped or another one (patience.h): no
 * thread is ever held by a dead monitor. Async-signal-safe, no allocation, errno untouched, general registers only.
 */
#ifndef SCRY_AGENT_ACT_H
#define SCRY_AGENT_ACT_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/area.h"
#include "shm/capture.h"

/* Once the area is mapped, and again after fork. cells: CODE_CELLS of them; NULL: nothing is run. */
void agent_act_init(const struct area_view *view, struct doorbell *bell, code_cell *cells);

struct agent_call {                     /* what happened; borrowed */
    const struct capture_frame *frame;  /* NULL: registers are not known, parameters and values are missing then */
    const struct area_site *site_entry; /* of `site`; NULL: none is known */
    uint64_t site, callsite, sp;        /* hook's return address, return address into the caller, stack address */
    uint64_t time, entry_time;          /* ticks */
    uint32_t slot, depth;
    bool exit;   /* returned */
    bool values; /* a raised event carries values (AREA_VALUES) */
};

/* Whether the list at `list_at` needs registers (and vector registers) for this site: then call->frame has to be. */
enum agent_act_need { AGENT_ACT_FRAME = 1, AGENT_ACT_XMM = 2 };
unsigned agent_act_needs(uint32_t list_at, const struct area_site *site_entry, bool values);

/* Runs the list (slot.enter_list, slot.exit_list; offset in programs). `thread`: the block of this thread, NULL: it has
 * none (then nothing is raised). May wait for the monitor. */
void agent_act(struct area_thread *thread, uint32_t list_at, const struct agent_call *call);

/* The same, if all the list does is to run programs over integers in registers and in the frame, with nobody to wait
 * for; else nothing was done, and false. `frame`: complete but for vector registers. */
bool agent_act_short(uint32_t list_at, const struct capture_frame *frame);

/* Whether the monitor's process still lives. For waiting of other kinds, too. */
bool agent_monitor_alive(void);

/* How it stands with it: patience_monitor_state. */
char agent_monitor_state(void);

#endif
