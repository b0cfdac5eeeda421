/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is mapped into a process: modules, and the indexes of their functions, which all processes share.
 */
#ifndef SCRY_MONITOR_RECORDER_AGENT_NAMES_H
#define SCRY_MONITOR_RECORDER_AGENT_NAMES_H

#include "monitor/recorder/agent.h"
#include "symbols/index/index.h"

/* Of all agents. */
struct shared_index {
    char key[INDEX_KEY_SIZE];
    struct index *index; /* NULL: not built yet, or failed */
    bool failed, building;
    char problem[128];
    unsigned users;
    UT_hash_handle hh;
};

struct agent_mapped {
    struct module *modules;
    struct shared_index **indexes; /* of the modules */
    size_t count;
    uint32_t *seen;                   /* of each, how many libraries had been closed when it was surely there */
    struct unloaded_module *unloaded; /* the last ones that were unloaded, the oldest first */
    size_t unloaded_count;
    struct unloaded_sites *unloaded_sites; /* what was captured in them */
    uint32_t looked;                       /* the program's count of changes that this is of */
    bool unnamed;                          /* functions got a number for a name because an index was missing */
    uint64_t *known;                       /* agent_known; */
    uint64_t *named;                       /* of these, those that have a name, not only their address, or a module */
};

/* Whether functions of a module call the hooks. */
bool agent_module_hooked(const struct agent *agent, size_t module);
/* Into the trace, if there is one. */
void agent_module_write(struct agent *agent, const struct module *module);

#endif
