/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the agent (libscry-agent.so) and the MPI interposer that it loads into a process with an MPI library
 * (libscry-mpi-openmpi.so, libscry-mpi-mpich.so; one source, compiled with each mpi.h). Both are of the same build; the
 * version only keeps a mixture from harm.
 *
 * The agent finds the MPI library in the process, loads the interposer that fits, and calls scry_mpi_start(). From then
 * on it calls look() after a dlopen, and symbol() for what dlsym found under a name that begins with MPI_ or PMPI_.
 */
#ifndef SCRY_AGENT_MPI_HOST_H
#define SCRY_AGENT_MPI_HOST_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/ask.h"

/* Telling: while MPIA_METRIC_TELL is set, each outermost call is a function's call for the agent. Between call_begins
 * and call_ends nothing but longjmp comes between; calls that are left so are noticed by their stack address, as those
 * of functions are. `told` lies on the calling thread's stack and is the same for both. Not from signal handlers that
 * interrupted one of these functions. */
struct mpi_told;
struct record_message;

enum { MPI_HOST_VERSION = 4 };

struct mpi_host {
    uint32_t version;
    uint32_t library;         /* enum mpi_library */
    const char *library_name; /* of the MPI library, as the dynamic linker has it */
    uint64_t library_address; /* an address inside of it (its dynamic section) */
    const char *socket;       /* the agent's socket of the monitor */
    const char *job;          /* SCRY_JOB, "": none */
    const char *why_not;      /* not NULL: nothing may be counted; this is to be told to the monitor */
    void *(*dlsym)(void *handle, const char *name); /* the C library's own */
    agent_ask_function *ask;                        /* the monitor */
    /* From here on calls are told (or no longer): there will be an area, and MPI's functions have their slots, when it
     * returns. false: the monitor took too long, or there is none; it is not asked again. */
    bool (*tell)(bool on);
    void (*call_begins)(uint32_t call, uint64_t site, struct mpi_told *told);
    void (*call_ends)(uint32_t call, uint64_t site, struct mpi_told *told);
    /* A record, if messages are recorded; time in ticks: of it, 0: now. */
    void (*message)(const struct record_message *record, uint64_t time);
};

struct mpi_guest {
    /* Redirects what was loaded since. From any thread, but not from a signal handler. */
    void (*look)(void);
    /* What dlsym shall return for `name`, for which it found `found`. */
    void *(*symbol)(const char *name, void *found);
    /* The calling thread goes to dlopen, after which nothing can be done: its next call of MPI looks, if nothing else
     * did before. */
    void (*opens)(void);
};

/* The one function that the interposer exports. NULL: it does nothing, and never will. The host outlives it. */
const struct mpi_guest *scry_mpi_start(const struct mpi_host *host);
typedef const struct mpi_guest *mpi_start_function(const struct mpi_host *host);

#endif
