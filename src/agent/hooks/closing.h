/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Libraries that are closed. Another one may be mapped at the same address, and must not inherit what is known by
 * address: so the slots of a library's functions are closed with it (AREA_CLOSED), before that can happen.
 */
#ifndef SCRY_AGENT_HOOKS_CLOSING_H
#define SCRY_AGENT_HOOKS_CLOSING_H

#include <stdint.h>

struct closing {                    /* of one call of dlclose */
    struct closing_object *objects; /* with hooks, that were there before; NULL: nobody is to hear of it */
    uint32_t count, cap;
};

void closing_begin(struct closing *ret_closing);
void closing_end(struct closing *closing);
/* Lets another thread's dlclose finish first, as the C library does, but not for long. */
void closing_wait(void);

#endif
