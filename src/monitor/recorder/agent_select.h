/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is recorded of a process: its settings and the functions that they select (agent_select.c), captured values
 * (agent_compile.c), and what event services ask for (agent_demand.c).
 */
#ifndef SCRY_MONITOR_RECORDER_AGENT_SELECT_H
#define SCRY_MONITOR_RECORDER_AGENT_SELECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/data/buf.h"
#include "shm/area.h"
#include "symbols/client/client.h"

struct agent;
struct agents;

/* agent_select.c */
void agent_apply(struct agent *agent); /* settings to switches and slots; lets it go as soon as that can be */
bool agent_applies_long(
    const struct agent *agent);          /* so many functions have to be compared that an answer goes first */
void agent_indexed(struct agent *agent); /* an index that it waited for is there, or failed */
bool agent_inherit(struct agent *agent, const struct agent *parent); /* the parent's choice, as it is in place */
/* Whether something is to be recorded: an agent may be there only for what is done at calls of MPI. */
bool agent_records(const struct agent *agent);
void agent_go(struct agent *agent);
void agent_forks_update(struct agent *agent); /* after a change of what is demanded */
void agent_settle(struct agent *agent);       /* lets main go on if everything is in place */
void agent_filter_update(struct agent *agent);
bool agent_modes_new(struct agent *agent);
void agent_mode_update(struct agent *agent, uint32_t slot); /* settings and demands of one slot */
void agent_modules_changed(struct agent *agent);            /* dlopen */
void agent_overrides_free(struct agent *agent);
void agent_select_free(struct agent *agent);

/* agent_compile.c */
enum { COMPILED_PROBLEMS = 32, COMPILED_EXPRESSION = 64 };

/* An expression is no number at entries or exits of some function, and never will be there. */
struct compiled_problem {
    char expression[COMPILED_EXPRESSION]; /* cut where it is longer */
    bool at_exit;
    struct number_problem problem;
};
/* Captures of the slots whose modes want values and that have none yet, in the background. */
void agent_compile(struct agent *agent);
bool agent_compiling(const struct agent *agent);
void agent_compile_again(struct agent *agent);                                  /* the settings of values changed */
bool agent_compiled_inherit(struct agent *agent, const struct agent *parent);   /* programs, sites and layouts */
uint32_t agent_capture_put(struct agent *agent, const void *code, size_t size); /* offset of it with its size; 0 */
bool agent_site_set(struct agent *agent, uint64_t address, uint32_t program, uint32_t layout);
/* Both at once: a thread must never take the bytes of one program for those of another. */
void agent_site_values(struct area_site *site, uint32_t values, uint32_t layout);
void agent_site_clear(struct area_site *site);
void agent_site_put_back(struct agent *agent, const struct area_site *was);
void agent_compile_slot_again(struct agent *agent, uint32_t slot); /* more is wanted of it than when it was compiled */
void agent_compile_ended(struct agent *agent); /* what is compiled for a job stops with its last process */
void agent_compile_free(struct agent *agent);
void agent_compiled_sets_free(struct agents *agents);
uint32_t agent_program_put(struct agent *agent, const void *bytes, size_t size); /* offset in programs; 0: no room */

/* agent_demand.c */
uint32_t agent_demand_mode(const struct agent *agent, uint32_t slot); /* bits that demands add to a slot's mode */
bool agent_demand_wants(const struct agent *agent, uint32_t slot);    /* something compiled */
bool agent_demand_statics(const struct agent *agent);                 /* some demand wants them */
unsigned agent_demand_params(const struct agent *agent, uint32_t slot, const char *const **ret_params);
void agent_demands_compiled(struct agent *agent, bool ok);
/* Their parameters are no numbers in some function: struct compiled_problem. */
void agent_demands_problem(struct agent *agent, const struct buf *problems);
bool agent_demands_wait(const struct agent *agent); /* some is not in place yet */
void agent_demands_indexed(struct agent *agent);    /* modules or indexes changed */
void agent_demands_free(struct agent *agent);
/* What a monitor before this one wanted done at calls nobody wants any more: the lists go, and threads that wait for it
 * go on. */
void agent_demands_adopt(struct agent *agent);

/* agent_mpi.c: what the sites of an MPI call emit for action lists, by names (mpi_params.h). 0 or -ENOSPC. */
int agent_mpi_params_put(struct agent *agent, uint32_t call, const char *const *names, unsigned count);

#endif
