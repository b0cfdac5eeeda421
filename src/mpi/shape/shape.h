/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the generated wrappers and what is noted of a call. A wrapper is, for every call of the table:
 *
 *     int scry_MPI_Recv(void *buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm, MPI_Status *status)
 *     {
 *         struct mpi_self *self = mpi_enter(CALL_MPI_Recv, site);
 *         if (!self)                        inside another call, or nothing is noted
 *             return real(...);
 *         struct mpi_args args = {.call = CALL_MPI_Recv, .volume = CALL_VOLUME_RECV, .blocking = true, .buf = buf, ...};
 *         shape_recv_before(self, &args);
 *         int result = real(buf, count, datatype, source, tag, comm, args.status);    its own twin, exactly once
 *         mpi_leave(self, result);          the time stamp: what comes now is not communication
 *         shape_recv_after(self, &args, result);
 *         mpi_done(self);
 *         return result;
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
struct mpi_self *mpi_poll(uint32_t call, uint64_t site);
void mpi_poll_in_vain(struct mpi_self *self);
void mpi_poll_came(struct mpi_self *self, uint32_t call, uint64_t site, int result);
void mpi_poll_timed(struct mpi_self *self);
struct mpi_self *mpi_tells(void);
struct mpi_self *mpi_telling(void);
bool mpi_acts_on_pars(const struct mpi_self *self);
#else
#include "mpi/count/comm.h"
#include "mpi/count/self.h" /* mpi_leave */
#include "mpi/count/type.h"
#include "mpi/message/tell.h" /* mpi_tells */
#include "mpi/shape/request.h"
#include "mpi/shape/volume.h"

/* ---- calls of which only count and time are noted, and those that begin and end everything ---- */

ALWAYS void plain_begin(struct mpi_self *self, const struct mpi_args *args)
{
    struct self_target target = SELF_TARGET_NONE;
    self_begin(self, args->blocking, &target);
}

#define HAVE_SHAPE_plain
ALWAYS void shape_plain_before(struct mpi_self *self, struct mpi_args *args)
{
    plain_begin(self, args);
}

ALWAYS void shape_plain_after(struct mpi_self *self, struct mpi_args *args, int result)
{
}

#define HAVE_SHAPE_init
ALWAYS void shape_init_before(struct mpi_self *self, struct mpi_args *args)
{
    self_init_enter(self);
    plain_begin(self, args);
}

ALWAYS void shape_init_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    self_init_return(self, result == MPI_SUCCESS);
}

#define HAVE_SHAPE_init_thread
ALWAYS void shape_init_thread_before(struct mpi_self *self, struct mpi_args *args)
{
    shape_init_before(self, args);
}

ALWAYS void shape_init_thread_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    self_init_return(self, result == MPI_SUCCESS);
}

#define HAVE_SHAPE_finalize
ALWAYS void shape_finalize_before(struct mpi_self *self, struct mpi_args *args)
{
    self_finalize_enter(self);
    plain_begin(self, args);
}

ALWAYS void shape_finalize_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    self_finalize_return(self);
}

#define HAVE_SHAPE_abort
ALWAYS void shape_abort_before(struct mpi_self *self, struct mpi_args *args)
{
    self_abort(args->errorcode);
    plain_begin(self, args);
}

ALWAYS void shape_abort_after(struct mpi_self *self, struct mpi_args *args, int result)
{
}

#define HAVE_SHAPE_pcontrol
ALWAYS void shape_pcontrol_before(struct mpi_self *self, struct mpi_args *args)
{
    plain_begin(self, args);
}

ALWAYS void shape_pcontrol_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    self_pcontrol(self, args->level);
}

/* datatypes */

#define HAVE_SHAPE_type_commit
ALWAYS void shape_type_commit_before(struct mpi_self *self, struct mpi_args *args)
{
    plain_begin(self, args);
}

ALWAYS void shape_type_commit_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    if (result == MPI_SUCCESS)
        type_committed(*args->newtype);
}

#define HAVE_SHAPE_type_free
ALWAYS void shape_type_free_before(struct mpi_self *self, struct mpi_args *args)
{
    if (args->newtype)
        type_freed(HANDLE_OF(*args->newtype)); /* before it may be given to another thread's */
    plain_begin(self, args);
}

ALWAYS void shape_type_free_after(struct mpi_self *self, struct mpi_args *args, int result)
{
}

/* ---- collectives ---- */

/* Collectives: blocking, non-blocking and persistent ones. What they move: volume.h. */

void coll_before(struct mpi_self *self, const struct mpi_args *args);
void coll_after(struct mpi_self *self, const struct mpi_args *args, int result);
void coll_init_after(struct mpi_self *self, const struct mpi_args *args, int result);

/* ---- those that programs call most (wrap.py), in the wrapper ---- */

#define HAVE_SHAPE_coll_short
ALWAYS void shape_coll_short_before(struct mpi_self *self, struct mpi_args *args)
{
    struct self_target target = SELF_TARGET_NONE;
    struct comm_info *comm = comm_find(self, args->comm);
    target.comm = comm->number;
    target.ordinal = comm_ordinal(comm);
    if (volume_is_rooted(args->volume))
        target.peer = comm_world_rank(comm, args->root);
    if (args->volume != CALL_VOLUME_BARRIER)
        target.bytes = type_bytes_before(self, args->count, args->datatype);
    self_begin(self, true, &target);
}

/* Where the communicator is not a plain one. */
void coll_short_rest(struct mpi_self *self, uint32_t rule, const void *sbuf, MPI_Count count, MPI_Datatype type,
                     int root, MPI_Comm comm);

ALWAYS void shape_coll_short_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    if (UNLIKELY(!self->counts || result != MPI_SUCCESS))
        return;
    const struct comm_info *comm = comm_find(self, args->comm);
    if (UNLIKELY(comm->kind == MPIA_COMM_FREE || comm->kind == MPIA_COMM_INTER || !comm->targets)) {
        coll_short_rest(self, args->volume, args->sbuf, args->count, args->datatype, args->root, args->comm);
        return;
    }
    bool rooted = volume_is_rooted(args->volume);
    const struct volume_in in = {
        .size = comm->targets,
        .place = rooted && (uint32_t)args->root == comm->rank ? VOLUME_ROOT : VOLUME_ELSEWHERE,
        .in_place = args->sbuf == MPI_IN_PLACE,
        .block_sent = args->volume == CALL_VOLUME_BARRIER ? 0 : type_bytes(self, args->count, args->datatype),
    };
    struct volume volume = volume_of(args->volume, &in);
    int32_t root = rooted ? comm_world_rank(comm, args->root) : MPIA_RANK_NONE;
    self_bytes(self, volume.args, volume.sent, volume.got);
    self_sent_to(self, comm->number, root, self->call, 1, volume.sent, volume.args);
    self_got_from(self, comm->number, root, self->call, 1, volume.got);
}

/* ---- all ---- */

#define HAVE_SHAPE_coll
static inline void shape_coll_before(struct mpi_self *self, struct mpi_args *args)
{
    coll_before(self, args);
}

static inline void shape_coll_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    coll_after(self, args, result);
}

#define HAVE_SHAPE_icoll
static inline void shape_icoll_before(struct mpi_self *self, struct mpi_args *args)
{
    coll_before(self, args);
}

static inline void shape_icoll_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    coll_after(self, args, result);
}

#define HAVE_SHAPE_coll_init
static inline void shape_coll_init_before(struct mpi_self *self, struct mpi_args *args)
{
    coll_before(self, args);
}

static inline void shape_coll_init_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    coll_init_after(self, args, result);
}

/* ---- calls that make, name and end communicators, and start processes ---- */

void comm_new_before(struct mpi_self *self, const struct mpi_args *args);
void comm_new_after(struct mpi_self *self, const struct mpi_args *args, int result);
void comm_connect_after(struct mpi_self *self, const struct mpi_args *args, int result);
void comm_idup_after(struct mpi_self *self, const struct mpi_args *args, int result);
void comm_free_before(struct mpi_self *self, const struct mpi_args *args);
void comm_free_after(struct mpi_self *self, const struct mpi_args *args, int result);
void comm_name_after(struct mpi_self *self, const struct mpi_args *args, int result);

#define HAVE_SHAPE_comm_new
static inline void shape_comm_new_before(struct mpi_self *self, struct mpi_args *args)
{
    comm_new_before(self, args);
}

static inline void shape_comm_new_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    comm_new_after(self, args, result);
}

#define HAVE_SHAPE_comm_idup
static inline void shape_comm_idup_before(struct mpi_self *self, struct mpi_args *args)
{
    comm_new_before(self, args);
}

static inline void shape_comm_idup_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    comm_idup_after(self, args, result);
}

#define HAVE_SHAPE_comm_parent
static inline void shape_comm_parent_before(struct mpi_self *self, struct mpi_args *args)
{
    struct self_target target = SELF_TARGET_NONE;
    self_begin(self, args->blocking, &target);
}

static inline void shape_comm_parent_after(struct mpi_self *self, struct mpi_args *args, int result)
{ /* it was noted after MPI_Init */
}

#define HAVE_SHAPE_comm_spawn
static inline void shape_comm_spawn_before(struct mpi_self *self, struct mpi_args *args)
{
    comm_new_before(self, args);
}

static inline void shape_comm_spawn_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    comm_new_after(self, args, result);
}

#define HAVE_SHAPE_comm_connect
static inline void shape_comm_connect_before(struct mpi_self *self, struct mpi_args *args)
{
    comm_new_before(self, args);
}

static inline void shape_comm_connect_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    comm_connect_after(self, args, result);
}

#define HAVE_SHAPE_comm_free
static inline void shape_comm_free_before(struct mpi_self *self, struct mpi_args *args)
{
    comm_free_before(self, args);
}

static inline void shape_comm_free_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    comm_free_after(self, args, result);
}

#define HAVE_SHAPE_comm_name
static inline void shape_comm_name_before(struct mpi_self *self, struct mpi_args *args)
{
    struct self_target target = SELF_TARGET_NONE;
    target.comm = comm_find(self, args->comm)->number;
    self_begin(self, args->blocking, &target);
}

static inline void shape_comm_name_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    comm_name_after(self, args, result);
}

/* ---- one-sided calls ---- */

/* One-sided communication: windows are noted as communicators are, their ranks are those of their communicator. */

/* What an operation moves by its rule (put, get, getput): count x size of the origin's and the result's arguments.
 * MPI_Fetch_and_op and MPI_Compare_and_swap have no counts: one element, of the latter two go. MPI_NO_OP sends none. */
void rma_after(struct mpi_self *self, const struct mpi_args *args, int result);

static inline void rma_begin(struct mpi_self *self, const struct mpi_args *args)
{
    const struct comm_info *window = comm_find_handle(self, HANDLE_OF(args->win));
    struct self_target target = SELF_TARGET_NONE;
    target.comm = window->number;
    target.flags = MPIA_NOW_WINDOW;
    target.peer = comm_world_rank(window, args->dest);
    target.bytes = type_bytes_before(self, args->count, args->datatype);
    self_begin(self, args->blocking, &target);
}

#define HAVE_SHAPE_rma
static inline void shape_rma_before(struct mpi_self *self, struct mpi_args *args)
{
    rma_begin(self, args);
}

static inline void shape_rma_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    rma_after(self, args, result);
}

#define HAVE_SHAPE_rma_request
static inline void shape_rma_request_before(struct mpi_self *self, struct mpi_args *args)
{
    rma_begin(self, args);
}

static inline void shape_rma_request_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    rma_after(self, args, result);
}

#define HAVE_SHAPE_win_new
static inline void shape_win_new_before(struct mpi_self *self, struct mpi_args *args)
{
    struct comm_info *comm = comm_find(self, args->comm);
    struct self_target target = SELF_TARGET_NONE;
    target.comm = comm->number;
    target.ordinal = comm_ordinal(comm);
    self_begin(self, args->blocking, &target);
}

static inline void shape_win_new_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    if (result == MPI_SUCCESS && mpi_hot.area && HANDLE_OF(*args->newwin) != HANDLE_OF(mpi_library.win_null))
        comm_note_window(self, *args->newwin, comm_find(self, args->comm), args->call);
}

/* The process got a lock on a window, or gave it back: whoever waits for one waits for those that hold them. */
void window_held(struct mpi_self *self, uint64_t window, bool more);
/* MPI_Win_start is about to be called, MPI_Win_post was: with whom, in the rows of peers. */
void window_epoch(struct mpi_self *self, const struct mpi_args *args, uint32_t window);
/* MPI_Win_complete was called, or MPI_Win_start has failed. */
void window_epoch_over(struct mpi_self *self, uint32_t window);

/* Those in which all processes of the window take part have an ordinal; the others (lock, flush, ...) a target. */

#define HAVE_SHAPE_win_sync
static inline void shape_win_sync_before(struct mpi_self *self, struct mpi_args *args)
{
    struct comm_info *window = comm_find_handle(self, HANDLE_OF(args->win));
    struct self_target target = SELF_TARGET_NONE;
    target.comm = window->number;
    target.flags = MPIA_NOW_WINDOW;
    if (args->call == CALL_MPI_Win_fence)
        target.ordinal = comm_ordinal(window);
    if (args->call == CALL_MPI_Win_lock || args->call == CALL_MPI_Win_unlock || args->call == CALL_MPI_Win_flush ||
        args->call == CALL_MPI_Win_flush_local)
        target.peer = comm_world_rank(window, args->dest);
    if (args->call == CALL_MPI_Win_start)
        window_epoch(self, args, window->number);
    self_begin(self, args->blocking, &target);
}

static inline void shape_win_sync_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    bool locks = args->call == CALL_MPI_Win_lock || args->call == CALL_MPI_Win_lock_all;
    if ((locks || args->call == CALL_MPI_Win_unlock || args->call == CALL_MPI_Win_unlock_all) && result == MPI_SUCCESS)
        window_held(self, HANDLE_OF(args->win), locks);
    if (args->call == CALL_MPI_Win_post && result == MPI_SUCCESS)
        window_epoch(self, args, comm_find_handle(self, HANDLE_OF(args->win))->number);
    if ((args->call == CALL_MPI_Win_complete && result == MPI_SUCCESS) ||
        (args->call == CALL_MPI_Win_start && result != MPI_SUCCESS))
        window_epoch_over(self, comm_find_handle(self, HANDLE_OF(args->win))->number);
}

#define HAVE_SHAPE_win_free
static inline void shape_win_free_before(struct mpi_self *self, struct mpi_args *args)
{
    uint64_t handle = args->newwin ? HANDLE_OF(*args->newwin) : 0;
    struct comm_info *window = comm_find_handle(self, handle);
    struct self_target target = SELF_TARGET_NONE;
    target.comm = window->number;
    target.flags = MPIA_NOW_WINDOW;
    target.ordinal = comm_ordinal(window);
    if (window->shown)
        comm_forget(handle);
    self_begin(self, args->blocking, &target);
}

static inline void shape_win_free_after(struct mpi_self *self, struct mpi_args *args, int result)
{
}

#define HAVE_SHAPE_win_name
static inline void shape_win_name_before(struct mpi_self *self, struct mpi_args *args)
{
    struct self_target target = SELF_TARGET_NONE;
    target.comm = comm_find_handle(self, HANDLE_OF(args->win))->number;
    target.flags = MPIA_NOW_WINDOW;
    self_begin(self, args->blocking, &target);
}

static inline void shape_win_name_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    if (result == MPI_SUCCESS && mpi_hot.area)
        comm_name(comm_find_handle(self, HANDLE_OF(args->win)), args->name);
}

/* ---- files ---- */

/* MPI-IO: files are noted as communicators are. What was really read or written is what the status says. */

void file_before(struct mpi_self *self, const struct mpi_args *args);
void file_open_after(struct mpi_self *self, const struct mpi_args *args, int result);
void file_close_before(struct mpi_self *self, const struct mpi_args *args);
void file_io_after(struct mpi_self *self, const struct mpi_args *args, int result);
void file_irequest_after(struct mpi_self *self, const struct mpi_args *args, int result);
void file_begin_after(struct mpi_self *self, const struct mpi_args *args, int result);
void file_end_after(struct mpi_self *self, const struct mpi_args *args, int result);

static inline void file_status_provide(struct mpi_self *self, struct mpi_args *args)
{
    if (args->status == MPI_STATUS_IGNORE)
        args->status = &self->status;
}

#define HAVE_SHAPE_file
static inline void shape_file_before(struct mpi_self *self, struct mpi_args *args)
{
    file_before(self, args);
}

static inline void shape_file_after(struct mpi_self *self, struct mpi_args *args, int result)
{
}

#define HAVE_SHAPE_file_open
static inline void shape_file_open_before(struct mpi_self *self, struct mpi_args *args)
{
    struct comm_info *comm = comm_find(self, args->comm);
    struct self_target target = SELF_TARGET_NONE;
    target.comm = comm->number;
    target.ordinal = comm_ordinal(comm);
    self_begin(self, args->blocking, &target);
}

static inline void shape_file_open_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    file_open_after(self, args, result);
}

#define HAVE_SHAPE_file_close
static inline void shape_file_close_before(struct mpi_self *self, struct mpi_args *args)
{
    file_close_before(self, args);
}

static inline void shape_file_close_after(struct mpi_self *self, struct mpi_args *args, int result)
{
}

#define HAVE_SHAPE_file_io
static inline void shape_file_io_before(struct mpi_self *self, struct mpi_args *args)
{
    file_before(self, args);
    file_status_provide(self, args);
}

static inline void shape_file_io_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    file_io_after(self, args, result);
}

#define HAVE_SHAPE_file_irequest
static inline void shape_file_irequest_before(struct mpi_self *self, struct mpi_args *args)
{
    file_before(self, args);
}

static inline void shape_file_irequest_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    file_irequest_after(self, args, result);
}

#define HAVE_SHAPE_file_begin
static inline void shape_file_begin_before(struct mpi_self *self, struct mpi_args *args)
{
    file_before(self, args);
}

static inline void shape_file_begin_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    file_begin_after(self, args, result);
}

#define HAVE_SHAPE_file_end
static inline void shape_file_end_before(struct mpi_self *self, struct mpi_args *args)
{
    file_before(self, args);
    file_status_provide(self, args);
}

static inline void shape_file_end_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    file_end_after(self, args, result);
}

/* ---- messages; completion ---- */

#include "mpi/shape/shape_p2p.h"
#include "mpi/shape/shape_request.h"
#endif

#pragma GCC visibility pop

#endif
