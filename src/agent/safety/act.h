/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs what conditional requests want at a call or a return: programs over the monitor's cells, right here in some ten
 * nanoseconds (shm/code.h), and events for the monitor, for which the thread waits. It waits in slices and releases
 * itself when tracing is switched off, or when the monitor is gone, stopped or replaced (timeout.h): no thread is ever
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

/*
 * The short way. A list that only runs programs, over integers in registers and where these lead to, while nobody waits, has
 * a plan: all of it that is found out but once. It never changes, and lasts as long as the area.
 */
struct agent_plan {
    uint32_t list_at, params_at; /* offsets in programs; params_at 0: the list looks at none */
    /* Of a list of one, with a program that does not look at the clock: most are. Else NULL. */
    const struct area_action *only;
    const struct code_program *program;
    uint32_t param_count;
    uint8_t runs; /* it can be run by this plan; else only the parameters are known, if `params_known` */
    uint8_t params_known, takes_params, takes_time;
    uint8_t told; /* of struct mpi_told (shm/mpi_told.h) it looks at: enum agent_plan_told */
    struct agent_plan_param {
        int32_t off;
        uint8_t reg;         /* of struct capture_frame */
        uint8_t size;        /* read at reg + off, so many bytes; 0: the register itself */
        uint8_t shift, bits; /* of that; bits 0: all that is left */
        uint8_t is_signed, type;
        uint8_t plain; /* 8 bytes at reg + off, as they are */
    } params[CODE_PARAMS];
};
enum agent_plan_told {
    AGENT_TOLD_PARS = 1, /* arguments of the call */
    AGENT_TOLD_REST = 2, /* what else is known when it begins */
    AGENT_TOLD_OTHER = 4 /* anything else, or another register */
};

/* Of a list at a site. NULL: it has none. */
const struct agent_plan *agent_plan_of(uint32_t list_at, uint64_t site);
/* gpr: as in struct capture_frame; of those that the plan does not look at, [7] alone is needed. */
void agent_plan_run(const struct agent_plan *plan, const uint64_t *gpr);

/* Does the monitor's process still live? For other waits, too. */
bool agent_monitor_alive(void);

/* The monitor's state: doorbell_monitor_state. */
char agent_monitor_state(void);

#endif
