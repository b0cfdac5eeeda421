/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What functions and values are called: modules and their indexes, libraries that were unloaded (agent_names.c), and how
 * values are laid out (agent_layouts.c).
 */
#ifndef SCRY_MONITOR_RECORDER_AGENT_NAMES_H
#define SCRY_MONITOR_RECORDER_AGENT_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uthash.h>

#include "shm/area.h"
#include "shm/record.h"
#include "symbols/index/index.h"

struct agent;
struct agents;
struct module;
struct trace;

/* Of all agents. */
struct shared_index {
    char key[INDEX_KEY_SIZE];
    struct index *index; /* NULL: not built yet, or failed */
    bool failed, building;
    char problem[128];
    unsigned users;
    UT_hash_handle hh;
};

struct agent_layout_text {
    uint32_t id;
    enum {
        LAYOUT_KEPT,  /* of a call of MPI that has not come yet: it is not in the trace */
        LAYOUT_NOTED, /* in the trace for us, but not in its metadata, which would become large */
        LAYOUT_USED,
    } state;
    UT_hash_handle hh;
    char text[];
};

/* agent_names.c */
int agent_modules_refresh(struct agent *agent);                              /* reads them again, asks for indexes */
bool agent_modules_inherit(struct agent *agent, const struct agent *parent); /* of the process it was forked from */
bool agent_module_hooked(const struct agent *agent, size_t module);
bool agent_indexes_ready(const struct agent *agent); /* none is being built */
/* Writes the name of a slot, or with RECORD_PLACE of a place, into the trace; a walk_function_fn of an agent. */
void agent_name(void *agent, uint32_t function);
/* The same, the first time that it occurs, and with a place also of its slot. */
void agent_know(struct agent *agent, uint32_t slot);
/* The place's bit in agent.known and agent.named. */
static inline uint32_t agent_known_place(const struct area_view *view, uint32_t place)
{
    return view->slot_mask + 1 + (place & ~RECORD_PLACE);
}
void agent_names_again(struct agent *agent); /* indexes came */
void agent_modules_free(struct agent *agent);
void agents_indexes_free(struct agents *agents);

/* Into the trace, if there is one. */
void agent_module_write(struct agent *agent, const struct module *module);

/* agent_layouts.c */
void agent_layout_add(struct agent *agent, uint32_t id, const char *text);
void agent_layouts_write(struct agent *agent);                              /* to a trace made after them */
void agent_layouts_adopt(struct agent *agent, const struct trace *earlier); /* NULL: it cannot be read */
void agent_layouts_inherit(struct agent *agent, const struct agent *parent);
void agent_layouts_free(struct agent *agent);
/* Layouts of calls that may never come: in the trace from their first use. A new one's number, or RECORD_NO_LAYOUT. */
uint32_t agent_layout_new(struct agent *agent, const char *text);
void agent_layout_keep(struct agent *agent, uint32_t id, const char *text);
void agent_layout_used(struct agent *agent, uint32_t id);
void agent_layouts_walked(struct agent *agent); /* behind a packet: those that came up in it are in the trace */
bool agent_layout_seen(void *ctx, uint32_t id); /* as walk_layout_fn, of an agent */

#endif
