/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the agent (libscry-agent.so) and the MPI interposer that it loads into a process with an MPI library
 * (libscry-mpi-openmpi.so, libscry-mpi-mpich.so; one source, compiled with each mpi.h). Both are of the same build; the
 * version only keeps a mixture from harm.
 *
 * The agent finds the MPI library in the process, loads the interposer that fits, and calls scry_mpi_start(). From then
 * on it calls look() after a dlopen, and symbol() for what dlsym found under a name that begins with MPI_ or PMPI_.
 */
#ifndef SCRY_AGENT_HOOKS_MPI_HOST_H
#define SCRY_AGENT_HOOKS_MPI_HOST_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/safety/timeout.h"
#include "shm/area.h"
#include "shm/record.h"

/* Telling: while MPIA_METRIC_TELL is set, each outermost call is a function's call for the agent. Between call_begins
 * and call_ends nothing but longjmp comes between; calls that are left so are noticed by their stack address, as those
 * of functions are. `told` lies on the calling thread's stack and is the same for both. Not from signal handlers that
 * interrupted one of these functions. */
struct mpi_told;

enum { MPI_HOST_VERSION = 11, MPI_MESSAGES = 4 };

/* A struct record_message as it is written and read again at once. */
struct mpi_message {
    uint64_t time, comm, bytes, order;
    uint32_t kind, call;
    int32_t peer, tag;
};

static inline struct record_message mpi_message_record(const struct mpi_message *message)
{
    return (struct record_message){.kind = (uint8_t)message->kind,
                                   .call = message->call,
                                   .comm = message->comm,
                                   .peer = message->peer,
                                   .tag = message->tag,
                                   .bytes = message->bytes,
                                   .order = message->order};
}

/* What is reported with a call's begin or end, so that it costs little: when it ended, and which messages are to be
 * recorded with it: behind its entry, with the same time, before its exit. Times in ticks, none earlier than the one before; 0:
 * now, of a message: that of the call. Where messages are not recorded, none is. */
struct mpi_messages {
    uint64_t time;
    uint32_t count;
    struct mpi_message list[MPI_MESSAGES];
};

/* Low bits of mpi_host.acts: what a list of actions looks at. */
enum mpi_acts {
    MPI_ACTS_PARS = 1, /* told.par[1] and those after it */
    MPI_ACTS_REST = 2, /* the rest of struct mpi_told */
    MPI_ACTS_ALL = 3
};

/* What the monitor gave: mappings that no child of fork gets. */
struct mpi_shared {
    void *area;
    uint64_t size;
    struct doorbell *bell;
};

struct mpi_host {
    uint32_t version;
    uint32_t library;         /* enum mpi_library */
    const char *library_name; /* of the MPI library, as the dynamic linker has it */
    uint64_t library_address; /* an address inside of it (its dynamic section) */
    const char *why_not;      /* not NULL: nothing may be counted; the reason goes to the monitor */
    bool late;                /* brought into a running program: MPI may run already */
    void *(*dlsym)(void *handle, const char *name);                                /* the C library's own */
    bool (*connect)(const struct hello_mpi *hello, struct mpi_shared *ret_shared); /* asks the monitor for the area */
    /* From here on calls are reported (or no longer): there will be an area, and MPI's functions have their slots, when it
     * returns. false: the monitor took too long, or there is none; it is not asked again. */
    bool (*tell)(bool on);
    /* Returns the time of the call's entry, where that was read when nearly all was done: from there on time is the call's. 0:
     * it was not. */
    uint64_t (*call_begins)(uint32_t call, uint64_t site, struct mpi_told *told, const struct mpi_messages *messages);
    void (*call_ends)(uint32_t call, uint64_t site, struct mpi_told *told, const struct mpi_messages *messages);
    /* By call; not 0: nobody records it, but when it begins a list of actions is to be run that waits for nobody, or was. So
     * call_acts can be tried with that before call_begins: told has what the bits say. true: that was all, there is no
     * call_begins and no call_ends. */
    const _Atomic uint64_t *acts;
    bool (*call_acts)(uint32_t call, const struct mpi_told *told, uint64_t acts);
    /* Those of which the call has too many to be reported with it. */
    void (*messages)(const struct mpi_messages *messages);
    timeout_function *lasts; /* whether to wait (on) for the monitor */
};

struct mpi_guest {
    /* Redirects what was loaded since. From any thread, but not from a signal handler. */
    void (*look)(void);
    /* What dlsym shall return for `name`, for which it found `found`. */
    void *(*symbol)(const char *name, void *found);
    /* The calling thread goes to dlopen, after which nothing can be done: its next call of MPI looks, if nothing else
     * did before. */
    void (*opens)(void);
    /* The program is going to restrict its system calls: nothing is counted any more, and none are made. false: this is
     * a child by vfork, which restricts its own. */
    bool (*seal)(const char *why);
};

/* The one function that the interposer exports. NULL: it does nothing, and never will. The host outlives it. */
const struct mpi_guest *scry_mpi_start(const struct mpi_host *host);
typedef const struct mpi_guest *mpi_start_function(const struct mpi_host *host);

#endif
