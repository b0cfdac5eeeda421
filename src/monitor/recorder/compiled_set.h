/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was compiled for one request is the same for all processes of a program, as addresses in its file. It is kept
 * in memory and, for later monitors, in the cache of symbols (symbols/client/client.h).
 */
#ifndef SCRY_MONITOR_RECORDER_COMPILED_SET_H
#define SCRY_MONITOR_RECORDER_COMPILED_SET_H

#include <uthash.h>

#include "monitor/recorder/agents_internal.h"
#include "symbols/client/client.h"

enum { COMPILED_PROBLEMS = 32, COMPILED_EXPRESSION = 64 };

/* An expression is no number at entries or exits of some function, and never will be there. */
struct compiled_problem {
    char expression[COMPILED_EXPRESSION]; /* cut where it is longer */
    bool at_exit;
    struct number_problem problem;
};

struct compiled_set {
    struct agents *agents;
    char *request;            /* without what is different from process to process */
    char key[INDEX_KEY_SIZE]; /* of the file; "": it is kept in memory only */
    struct helper_job *job;   /* NULL: complete */
    struct buf items;         /* symbols/client/client.h */
    struct buf programs;      /* all of items, as they lie in an area: made at first need */
    size_t first_program;
    struct buf problems;    /* of parameters: struct compiled_problem */
    bool missing;           /* functions whose debug information is in a file that is not there */
    uint64_t bare;          /* the first function by address that has no values because of -g1; 0: none */
    uint64_t functions;     /* of so many, in the order of the request, items are complete; */
    size_t functions_len;   /* bytes of items */
    uint32_t layout, block; /* the first ids for the others */
    bool done;              /* the helper came to its end */
    bool telling;           /* it is being put into processes */
    uint64_t used;
    UT_hash_handle hh;
};

/* What is known for a request, in memory or in the cache. key "": it is never in the cache. If it is not done and has
 * no job, it has to be compiled first, from the function `functions` on. NULL: no memory. */
struct compiled_set *compiled_set_get(struct agents *agents, const char *key, const char *request);
static inline bool compiled_set_waits(const struct compiled_set *set)
{
    return !set->job && !set->done && !set->telling;
}
/* Has it compiled: the helper is given `input`, with what is this process's own. False: that cannot be, it is gone. */
bool compiled_set_start(struct compiled_set *set, struct buf *input_take);

/* As they lie in an area: its blocks, then its programs as struct area_program, in the order of the items; where the
 * first program is, and the bytes that each takes there. */
const struct buf *compiled_set_programs(struct compiled_set *set, size_t *ret_first);
size_t compiled_program_size(const struct compiled_item *item);

/* agent_compile.c: the helper has ended. */
void agent_compiled_came(struct compiled_set *set);

/* Nobody waits for it any more: what there is goes into the cache. */
void compiled_set_cancel(struct compiled_set *set);

#endif
