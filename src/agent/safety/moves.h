/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The short way of values: what a capture program that only takes numbers out of the registers that hooks keep, and out
 * of the frame, computes with these, or takes bytes and strings where these lead to, comes to, as steps that hooks_x86_64.S goes through while it writes the record.
 * Learnt when a site is met on the long way; holds as long as the site's word in the area is what it was then.
 *
 * A step is the address of its code and a number for it. Its code goes on to the next one. What is computed is in one
 * register, or in words of the hook's red zone. How many bytes there are where pointers lead to is known only when the
 * steps are over, so there they write into memory of the thread, and the record is reserved after them.
 *
 * Entries are written once, published by one store and never freed: a thread or a signal handler that meets one finds
 * it whole. Where there is no room for more, sites go the long way.
 */
#ifndef SCRY_AGENT_SAFETY_MOVES_H
#define SCRY_AGENT_SAFETY_MOVES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/system/offsets.h"
#include "shm/area.h"

enum {
    MOVES_MOST = 32, /* steps */
    MOVES_TABLE = 65536,
    MOVES_POOL = 16384,
    MOVES_POINTED = 256, /* bytes of varying values */
};

enum moves_kind {
    MOVES_NONE,    /* there are no values here: as a plain record */
    MOVES_SHORT,   /* the list is all of it */
    MOVES_NEAR,    /* the same, where what it reads at rbp is in the frame */
    MOVES_VARYING, /* as NEAR, with pointers; 8 bytes at least */
    MOVES_LONG,    /* the interpreter has to do it */
};

/* MOVE_RSP_1 ...: what steps do. */
enum agent_move_code {
#define MOVE_CODE(name) MOVE_##name,
    MOVE_CODES(MOVE_CODE)
#undef MOVE_CODE
        MOVES_CODES
};

struct agent_move {
    const void *code;
    int64_t number;
};

/* moves_x86_64.S: where the code of each is, from here on; and all of it, but
 * COMPUTE, in which rsp is the hook's. */
extern const int32_t agent_moves_code[MOVES_CODES] __attribute__((visibility("hidden")));
extern const char agent_moves_begin[] __attribute__((visibility("hidden")));
extern const char agent_moves_end[] __attribute__((visibility("hidden")));

struct agent_moves {
    uint64_t address;             /* the site */
    const struct area_site *site; /* its place in the area, or the free one where it would be */
    uint64_t site_address, word;  /* what that held */
    uint64_t rbp_bias, rbp_limit; /* it is if rbp - rsp + bias <= limit, unsigned */
    uint32_t layout;
    uint16_t size;  /* of the values; of varying ones at most */
    uint16_t total; /* of the record of an entry; likewise */
    uint32_t kind;
    uint16_t constant;                   /* 1: all of it is one constant byte */
    uint16_t keeps;                      /* 1: registers are needed in the red zone (KEPT_RBX ...) */
    uint64_t template;                   /* then: from its second byte on layout, size, that byte */
    uint64_t head;                       /* from its third byte on layout, size */
    struct agent_move moves[MOVES_MOST]; /* the last one is MOVE_END, or ..._END */
};

extern struct agent_moves *_Atomic *agent_moves_table; /* [MOVES_TABLE] */

/* For FOLLOW and STRING: where the next of the values goes. */
uint8_t *agent_moves_follow(uint8_t *to, uint64_t address, uint64_t size) __attribute__((visibility("hidden")));
uint8_t *agent_moves_string(uint8_t *to, uint64_t address, uint64_t most) __attribute__((visibility("hidden")));

/* The site was met on the long way. */
void agent_moves_learn(const struct area_view *view, uint64_t address);
/* Another area, or the first one. false: there is no memory. */
bool agent_moves_forget(void);

#endif
