/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the generated wrappers and what is noted of a call. A wrapper is, for every call of the table:
 *
 *     int scry_MPI_Recv(void *buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm, MPI_Status
 * *status)
 *     {
 *         struct mpi_self *self = mpi_enter(CALL_MPI_Recv, site);  NULL: inside another call, or nothing is noted
 *         if (!self) return real(...);
 *         struct mpi_args args = {.call = CALL_MPI_Recv, .volume = CALL_VOLUME_RECV, .blocking = true, .buf = buf,
 * ...}; shape_recv_before(self, &args); int result = real(buf, count, datatype, source, tag, comm, args.status); its
 * own twin, exactly once mpi_leave(self, result);                                 the time stamp: what comes now is not
 * communication shape_recv_after(self, &args, result); mpi_done(self); return result;
 *     }
 *
 * and for those of shape quick: `mpi_quick(CALL_MPI_Wtime); return real();`. Calls that are made seldom have no wrapper of
 * their own: wrap/table.c does all this for each of them. A call that is reported goes another way: wrap.py has a body for those
 * that programs make most, and the others go by the table, too.
 *
 * `real` is what the object that called would have got without us: the program's own PMPI tool, or the library. Shapes
 * see the arguments and change none of them but one: where the program gave MPI_STATUS_IGNORE or MPI_STATUSES_IGNORE,
 * shape_*_before may put a status of ours into args.status or args.statuses, so that what was received is known; that
 * is why wrappers pass these two from args. Shapes never call MPI_ names: only PMPI_ ones through mpi/count/library.h's
 * table, of those only local ones, and those only on handles that are known to be valid (one that a call just succeeded
 * with), so that an error of ours never reaches an error handler of the program's. Everything that a shape does with
 * arguments is inlined into the wrapper, so arguments that it does not use cost nothing.
 *
 * Thread-safe: a thread writes its own block only. A signal handler that calls MPI is nested (and erroneous). Nothing
 * here allocates but from the area's pool and by mmap, takes a lock that blocks, or touches errno.
 */
#ifndef SCRY_MPI_SHAPE_SHAPE_H
#define SCRY_MPI_SHAPE_SHAPE_H

#include <mpi.h> /* of the library that this is compiled for: types and integer constants; no symbol of it is linked */

#include "mpi/count/call.h"
#include "shm/mpi_area.h"
#include "shm/mpi_told.h"

#pragma GCC visibility push(hidden)

/* What shapes found out before the call and use after it. */
struct comm_info;
struct mpi_found {
    struct comm_info *comm; /* known then */
    int32_t to, from;       /* world ranks */
    uint64_t size;          /* of the datatype; TYPE_UNKNOWN */
};

/* What a call was given, by the roles of the table; those it does not have are 0. Pointers are the program's own: read
 * after the call only what MPI then defines. */
struct mpi_args {
    uint32_t call, volume; /* enum call_id, enum call_volume */
    bool blocking;
    struct mpi_told *told;    /* NULL: a call that is only counted. Known when a wrapper is compiled */
    uint64_t order, order_in; /* of the post of a send, of a receive, if it is reported */
    const void *buf, *sbuf;
    void *rbuf;
    MPI_Count count, scount, rcount; /* MPI_Count: also of calls with large counts */
    const int *counts, *scounts, *rcounts;
    const MPI_Count *lcounts, *lscounts, *lrcounts;
    MPI_Datatype datatype, stype, rtype;
    const MPI_Datatype *stypes, *rtypes;
    MPI_Datatype *newtype;
    MPI_Op op;
    int dest, source, tag, stag, rtag, root;
    MPI_Comm comm, intercomm;
    MPI_Comm *newcomm;
    MPI_Group group;
    MPI_Request *request; /* one, in or out */
    MPI_Request request_value;
    MPI_Request *requests; /* argument of many */
    MPI_Message *message;
    MPI_Status *status, *statuses; /* what the wrapper passes on */
    int request_count, partitions;
    int *flag, *index, *outcount, *indices;
    MPI_Win win;
    MPI_Win *newwin;
    MPI_Count tcount; /* of the target of one-sided calls */
    MPI_Datatype ttype;
    MPI_File file;
    MPI_File *newfile;
    MPI_Offset offset;
    const char *name;
    int level, errorcode, required, fd;
    int *provided;
    struct mpi_found found;
};

/* All of it 0, a multiple of 64 bytes. In a loop that is not taken for a memset: for so few bytes that is slow. */
static inline __attribute__((always_inline)) void told_clear(void *all, size_t size)
{
    typedef uint64_t pair __attribute__((vector_size(16), aligned(8), may_alias));
    pair zero = {0, 0}, *at = all;
    __asm__("" : "+x"(zero));
#pragma GCC unroll 8
    for (size_t i = 0; i < size / sizeof(pair); i += 4)
        at[i] = at[i + 1] = at[i + 2] = at[i + 3] = zero;
}

/* An argument as it is reported; and what the i-th points to, when the call has succeeded. */
#define TOLD(argument) ((int64_t)(intptr_t)(argument))
#define TOLD_BACK(told, i, pointer) \
    do { \
        if (pointer) \
            (told)->par[i] = TOLD(*(pointer)); \
    } while (0)

#ifdef MPI_SHAPES_ELSEWHERE /* tests have their own */
void mpi_leave(struct mpi_self *self, int result);
struct mpi_self *mpi_tells(void);
struct mpi_self *mpi_telling(void);
bool mpi_acts_on_pars(const struct mpi_self *self);
#else
#include "mpi/count/self.h"   /* mpi_leave */
#include "mpi/message/tell.h" /* mpi_tells */
#include "mpi/shape/shape_collective.h"
#include "mpi/shape/shape_comm.h"
#include "mpi/shape/shape_file.h"
#include "mpi/shape/shape_onesided.h"
#include "mpi/shape/shape_other.h"
#include "mpi/shape/shape_p2p.h"
#include "mpi/shape/shape_request.h"
#endif

#pragma GCC visibility pop

#endif
