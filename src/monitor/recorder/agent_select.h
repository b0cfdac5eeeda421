/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is to be recorded of a process, by the settings of its job and by services.
 */
#ifndef SCRY_MONITOR_RECORDER_AGENT_SELECT_H
#define SCRY_MONITOR_RECORDER_AGENT_SELECT_H

#include "monitor/recorder/agent.h"

enum { MODE_OWN = 0xff /* of `modes`: as the program has it */ };

struct agent_selection {
    uint8_t *modes; /* of slots, as the settings want them */
    bool selected, waits;
    bool applies_soon;          /* in the next turn: it gets its area before its selection is looked for */
    struct selection_override { /* agent_select; the later ones win */
        struct selection *selection;
        uint32_t mode;
        struct selection_override *next;
    } * overrides;
    struct loop_source *hold_timer;
    struct kept_note unmatched;            /* by the selection in force */
    bool counts;                           /* some function is only counted */
    bool rated;                            /* there was a --rate: calls may be missing */
    bool switched;                         /* least_min_ns is known */
    uint64_t longest_min_ns, least_min_ns; /* shorter calls may be missing, all the time; 0: none */
    unsigned least_max_depth;              /* deeper calls may be missing; 0: none */
};

#endif
