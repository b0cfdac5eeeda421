/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is told of one MPI call while somebody wants to hear of it: the interposer (src/mpi) fills it on the stack of
 * its wrapper and passes it to the agent, for which an MPI call is a function like others. Its address is none that can
 * be mapped, MPI_FUNCTION(call); its two hook sites are right behind it. Capture programs and parameters of conditions
 * read this struct by their register MPI_TOLD_REGISTER, little-endian: the low bytes of a field are a smaller number.
 * Freestanding.
 */
#ifndef SCRY_SHM_MPI_TOLD_H
#define SCRY_SHM_MPI_TOLD_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/mpi_calls.h"

/* ---- the functions ---- */

#define MPI_FUNCTIONS UINT64_C(0x4d50490000000000) /* "MPI": not canonical */
enum { MPI_FUNCTION_SHIFT = 4 };

static inline uint64_t mpi_function(uint32_t call)
{
    return MPI_FUNCTIONS + ((uint64_t)call << MPI_FUNCTION_SHIFT);
}

static inline uint64_t mpi_function_entry(uint32_t call) /* its hook sites */
{
    return mpi_function(call) + 1;
}

static inline uint64_t mpi_function_exit(uint32_t call)
{
    return mpi_function(call) + 2;
}

/* Of a function's or a site's address; CALL_NONE: it is no MPI call's. */
static inline uint32_t mpi_function_call(uint64_t address)
{
    uint64_t call = (address - MPI_FUNCTIONS) >> MPI_FUNCTION_SHIFT;
    return address >= MPI_FUNCTIONS && call < CALL_COUNT ? (uint32_t)call : CALL_NONE;
}

static inline bool mpi_function_is(uint64_t address)
{
    return mpi_function_call(address) != CALL_NONE;
}

/* ---- communicators ---- */

enum { MPI_IDENTITY_NONE, MPI_IDENTITY_WORLD, MPI_IDENTITY_SELF };

/* What all processes call a communicator that was made as the ordinal-th from a parent: neither 0, nor one of those
 * above, but for one in 2^62. */
static inline uint64_t mpi_comm_identity(uint64_t parent, uint32_t ordinal, int32_t lowest_world_rank)
{
    uint64_t hash = parent * UINT64_C(0x9e3779b97f4a7c15) ^ ((uint64_t)ordinal << 32 | (uint32_t)lowest_world_rank);
    hash = (hash ^ hash >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    hash = (hash ^ hash >> 27) * UINT64_C(0x94d049bb133111eb);
    return parent == MPI_IDENTITY_NONE ? MPI_IDENTITY_NONE : (hash ^ hash >> 31) | 4;
}

/* ---- a call ---- */

enum {
    MPI_TOLD_PARS = 15,
    MPI_TOLD_REGISTER = 5, /* of struct capture_frame: has the address of the struct */
};

enum mpi_told_flag {                     /* which fields say something */
                     MPI_TOLD_ENDED = 1, /* the call has returned: par[0], what was handed back */
                     MPI_TOLD_COMM = 2,  /* comm, comm_id */
                     MPI_TOLD_PEER = 4,
                     MPI_TOLD_SOURCE = 8, /* source_peer, source_tag: of the receiving half of a send-receive */
                     MPI_TOLD_TAG = 16,
                     MPI_TOLD_BYTES = 32,
                     MPI_TOLD_ORDINAL = 64,
                     MPI_TOLD_SENT = 128, /* it has posted a message: sent */
                     MPI_TOLD_GOT = 256,  /* it has received one: got, got_bytes */
                     MPI_TOLD_SAYS = 512, /* its end says more than that it is over: it has failed, received, ... */
};

/* A message as both its ends name it: the number-th of those that `from` has posted to `to` on that communicator with
 * that tag. */
struct mpi_told_message {
    uint64_t comm_id; /* mpi_comm.identity */
    uint64_t number;  /* 1 is the first; 0: not counted (MPIA_METRIC_MESSAGES), or not known for sure */
    int64_t from, to; /* world ranks */
    int64_t tag;
    uint64_t bytes;
};

struct mpi_told {
    /* [0] the result, once it has returned; [i] the i-th argument of the C function: integers sign-extended, handles
     * and pointers as they are. What the call has handed back by a pointer to one integer or one handle (flag, newcomm,
     * request, ...) stands in place of the pointer when it has returned. */
    int64_t par[1 + MPI_TOLD_PARS];
    uint64_t flags;   /* enum mpi_told_flag */
    uint64_t site;    /* where it was called: the return address as the file itself has addresses (mpi_site.offset) */
    uint64_t comm_id; /* mpi_comm.identity: the same on all ranks */
    int64_t comm;     /* its number in this process's MPI area */
    int64_t peer;     /* world rank of the destination, source, target or root, or MPIA_RANK_...; of a receive that has
                         returned the one it came from */
    int64_t tag;
    int64_t source_peer, source_tag;
    uint64_t bytes;                    /* by the arguments */
    uint64_t got_bytes;                /* that the receives which it completed have brought */
    uint64_t ordinal;                  /* of collectives: the sequence number on comm */
    uint64_t completed;                /* requests that it has completed */
    struct mpi_told_message sent, got; /* the first if there are several */
};

#endif
