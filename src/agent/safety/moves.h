/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The short way of values: what a capture program that only takes a few numbers out of the registers that hooks keep,
 * and out of the frame, comes to, as a list that hooks_x86_64.S works off while it writes the record. Learnt when a
 * site is met on the long way; holds as long as the site's word in the area is what it was then.
 *
 * Entries are written once, published by one store and never freed: a thread or a signal handler that meets one finds
 * it whole. Where there is no room for more, sites go the long way.
 */
#ifndef SCRY_AGENT_SAFETY_MOVES_H
#define SCRY_AGENT_SAFETY_MOVES_H

#include <stdatomic.h>
#include <stdint.h>

#include "shm/area.h"

enum {
    MOVES_MOST = 9,
    MOVES_TABLE = 65536,
    MOVES_POOL = 16384,
    MOVES_CONSTANTS = 4,
};

enum moves_kind {
    MOVES_NONE,  /* there are no values here: as a plain record */
    MOVES_SHORT, /* the list is all of it */
    MOVES_LONG,  /* the interpreter has to do it */
};

struct agent_move {
    int8_t base;  /* what `off` is from: the register kept there, see offsets.h */
    uint8_t size; /* 1, 2, 4, 8 */
    uint16_t reserved;
    int32_t off;
};

struct agent_moves {
    uint64_t address;             /* the site */
    const struct area_site *site; /* its place in the area, or the free one where it would be */
    uint64_t site_address, word;  /* what that held */
    uint64_t rbp_bias, rbp_limit; /* all is in the frame if rbp - rsp + bias <= limit, unsigned */
    uint32_t layout;
    uint16_t size;  /* of the values */
    uint16_t total; /* of the record of an entry */
    uint32_t kind;
    uint16_t count;
    uint8_t registers; /* 1: registers but rsp are needed; MOVES_ONE_CONSTANT: all of it is one constant byte */
    uint8_t reserved;
    uint64_t template; /* then: from its second byte on layout, size, that byte */
    struct agent_move moves[MOVES_MOST];
    uint64_t constants[MOVES_CONSTANTS];
};

extern struct agent_moves *_Atomic agent_moves_table[MOVES_TABLE];

/* The site was met on the long way. */
void agent_moves_learn(const struct area_view *view, uint64_t address);
/* Another area. */
void agent_moves_forget(void);

#endif
