/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Agents that are not there, for tests of the services of `ct` and `job`: one process of one job with two functions, in
 * place of monitor/recorder/agents.c. What it was asked for is kept here; fake_call plays a call as the agent would.
 */
#ifndef SCRY_SERVICE_CT_TEST_FAKE_AGENTS_H
#define SCRY_SERVICE_CT_TEST_FAKE_AGENTS_H

#include "monitor/recorder/agents.h"
#include "shm/mpi_told.h"

enum { FAKE_DEMANDS = 8 };

struct fake_demand {
    struct csr *csr; /* NULL: unused */
    char selection[64];
    bool is_mpi; /* instead of a selection: */
    uint64_t mpi[MPI_CALL_WORDS];
    bool at_exit, raise, values, has_program;
    struct code_program program;
    char params[CODE_PARAMS][32];
    unsigned param_count;
};

extern struct fake_demand fake_demands[FAKE_DEMANDS];
extern unsigned fake_demand_calls, fake_released;
extern char fake_settings[256], fake_selected[64];
extern uint32_t fake_mode;
extern bool fake_job_known;

/* MPI is in the process: monitor->mpi knows it. How many requests want its calls, and its messages numbered. */
extern int fake_tells, fake_numbers;
extern bool fake_mpi_on; /* before it comes */
void fake_mpi_come(struct monitor *monitor, pid_t pid);
void fake_mpi_gone(struct monitor *monitor);

/* For cmocka, before test_engine_stop: an engine with these agents and the extension `pa`. */
int fake_engine_start(void **state);

/* `pid` has an agent from here on, in job `dir`; it is gone. */
void fake_come(pid_t pid, const char *dir);
void fake_gone(void);

/* A call of "solve" or the return from it, with values for the parameters "n" (signed), "x" (double) and "p"
 * (missing). Returns how many programs ran to their end; lists of raised events have run then. */
unsigned fake_call(bool exit, int64_t n, double x);
/* The same with an MPI call; `told` is its report. */
unsigned fake_mpi_call(uint32_t call, bool exit, const struct mpi_told *told);
unsigned fake_filters_run(void); /* filters of raises that passed since the last call of it */

#endif
