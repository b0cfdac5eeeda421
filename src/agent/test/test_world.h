/* SPDX-License-Identifier: Apache-2.0 */
/* agent/system/world.h for unit tests: a clock that only goes when somebody waits, and one other process that is as
 * they say.
 */
#ifndef SCRY_AGENT_TEST_TEST_WORLD_H
#define SCRY_AGENT_TEST_TEST_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/system/world.h"

struct world {
    uint64_t now_ns;
    int32_t pid;    /* whose state it is; 0: of anybody */
    char state;     /* 0: /proc cannot be read */
    uint64_t ticks; /* when it was started */
    bool gone;
    unsigned looks, polls;
    bool busy;             /* another thread looks: outside_read has no place */
    uint64_t event_ns;     /* when something happens, 0: nothing does: */
    void (*event)(void *); /* called once, by the poll that reaches it */
    void *event_ctx;
};
extern struct world world;

/* A second after the start of the machine; the process sleeps. */
void world_reset(void);
void world_pass(uint64_t ms);

#endif
