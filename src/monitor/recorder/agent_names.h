/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What functions and values are called: modules and their indexes (agent_names.c), libraries that were unloaded
 * (agent_unloaded.c), and how values are laid out (agent_layouts.c).
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

/* agent_unloaded.c */
#define CLOSES_UNKNOWN UINT32_MAX
struct unloaded_module {
    uint64_t start, end, bias;
    uint32_t seen; /* how many libraries had been closed when it was there */
    struct shared_index *shared;
    char name[256], *path; /* path: NULL if there was no memory */
};
struct unloaded_sites;

struct slot_module { /* that a slot's function is of */
    const char *name, *path, *key;
    uint64_t bias;
    struct shared_index *shared;
    const struct module *module; /* NULL: it is not mapped any more */
};

/* agent_names.c */
int agent_modules_refresh(struct agent *agent);                              /* reads them again, asks for indexes */
bool agent_modules_inherit(struct agent *agent, const struct agent *parent); /* of the process it was forked from */
bool agent_module_hooked(const struct agent *agent, size_t module);
bool agent_indexes_ready(const struct agent *agent); /* none is being built */
void agent_name_slot(struct agent *agent, uint32_t slot);
/* The same, the first time that it occurs; with RECORD_PLACE, of a place and its slot. */
void agent_know(struct agent *agent, uint32_t slot);
/* The place's bit in agent.known and agent.named. */
static inline uint32_t agent_known_place(const struct area_view *view, uint32_t place)
{
    return view->slot_mask + 1 + (place & ~RECORD_PLACE);
}
void agent_name_place(struct agent *agent, uint32_t place); /* with or without RECORD_PLACE */
void agent_names_again(struct agent *agent);                /* indexes came */
void agent_modules_free(struct agent *agent);
void agent_modules_drop(struct agent *agent); /* what is mapped now; what was stays known */
void agent_index_put(struct agents *agents, struct shared_index *shared);
void agents_indexes_free(struct agents *agents);

/* agent_unloaded.c */
struct modules_reading {
    struct module *modules;
    struct shared_index **indexes;
    uint32_t *modules_seen; /* room for them */
    size_t count;
    uint32_t seen; /* how many had been closed when this was read, or CLOSES_UNKNOWN */
};
/* false: it is not known for certain. */
bool agent_slot_module(const struct agent *agent, uint32_t slot, struct slot_module *ret_module);
/* The same of an address by which a place is known: where it is called from, or the hook there. */
bool agent_place_module(const struct agent *agent, uint32_t place, uint64_t address, struct slot_module *ret_module);
/* Before what is known is replaced: a module whose file was replaced on disk, or cannot be read at this moment, keeps
 * its key, if its build-id in memory is what it was. Its path stays "": the new file is none to compile captures from.
 */
void agent_modules_keep_known(const struct agent *agent, const struct modules_reading *reading);
void agent_modules_replace(struct agent *agent, const struct modules_reading *reading);
/* Into the trace, if there is one. */
void agent_module_write(struct agent *agent, const struct module *module);
void agent_unloaded_free(struct agent *agent);

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
