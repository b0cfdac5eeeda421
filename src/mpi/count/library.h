/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is used of the MPI library itself: its PMPI_ functions that only read the own process, and its predefined
 * handles, found by name at the start (in Open MPI they are addresses of objects). Nothing of it is linked, so
 * a library that the program opened for itself is as good as one that it is linked with. Read-only after the start.
 */
#ifndef SCRY_MPI_COUNT_LIBRARY_H
#define SCRY_MPI_COUNT_LIBRARY_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

#define LIBRARY_FUNCTIONS(X) \
    X(Type_size_x) \
    X(Comm_size) \
    X(Comm_rank) \
    X(Comm_remote_size) \
    X(Comm_test_inter) \
    X(Comm_group) \
    X(Comm_remote_group) \
    X(Comm_get_parent) \
    X(Comm_get_attr) \
    X(Group_size) \
    X(Group_free) \
    X(Group_translate_ranks) \
    X(Topo_test) \
    X(Cartdim_get) \
    X(Cart_shift) \
    X(Graph_neighbors_count) \
    X(Dist_graph_neighbors_count) \
    X(Initialized) \
    X(Finalized) \
    X(Query_thread) \
    X(Get_processor_name) \
    X(Get_library_version) \
    X(Iprobe) \
    X(Improbe) \
    X(Imrecv) \
    X(Isend) \
    X(Test) \
    X(Request_free) \
    X(Request_get_status)

enum { LIBRARY_TYPES = 96 };

struct library {
#define LIBRARY_MEMBER(name) __typeof__(PMPI_##name) *name;
    LIBRARY_FUNCTIONS(LIBRARY_MEMBER)
#undef LIBRARY_MEMBER
    MPI_Comm comm_world, comm_self, comm_null;
    MPI_Group group_null;
    MPI_Request request_null;
    MPI_Message message_null, message_no_proc;
    MPI_Datatype datatype_null, packed;
    MPI_Win win_null;
    MPI_File file_null;
    MPI_Op no_op;
    uint64_t request_empty;            /* Open MPI: the one request of operations that are complete at once; 0: none */
    MPI_Datatype types[LIBRARY_TYPES]; /* predefined ones whose handle does not say the size */
    uint32_t type_count;
};

extern struct library mpi_library;

/* `find` as dlsym: PMPI_ names in the library, others in the program's lookup order (Open MPI's predefined objects may
 * be copied into the executable). False if something is missing: then nothing may be noted. */
typedef void *library_find(void *handle, const char *name);
bool mpi_library_start(void *handle, library_find *find);

/* A handle of whatever kind as a number. */
#ifdef OPEN_MPI
#define HANDLE_OF(handle) ((uint64_t)(uintptr_t)(handle))
#else
#define HANDLE_OF(handle) ((uint64_t)(uint32_t)(handle))
#endif
#define FILE_OF(file) ((uint64_t)(uintptr_t)(file)) /* a pointer in both */

/* An error's class. */
#ifdef OPEN_MPI
#define ERROR_CLASS(code) (code)
#else
#define ERROR_CLASS(code) ((code)&0x7f)
#endif

/* Bytes that a receive has got, and whether it was cancelled; of the status of an operation that completed. */
static inline uint64_t status_bytes(const MPI_Status *status)
{
#ifdef OPEN_MPI
    return status->_ucount;
#else
    return (uint64_t)((uint32_t)status->count_hi_and_cancelled >> 1) << 32 | (uint32_t)status->count_lo;
#endif
}

static inline bool status_cancelled(const MPI_Status *status)
{
#ifdef OPEN_MPI
    return status->_cancelled;
#else
    return status->count_hi_and_cancelled & 1;
#endif
}

#pragma GCC visibility pop

#endif
