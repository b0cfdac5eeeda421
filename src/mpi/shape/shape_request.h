/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completion. The handles are noted before the call, which sets them to MPI_REQUEST_NULL; what completed is looked up
 * when it has returned. Statuses are ours where the program wants none.
 */
#ifndef SCRY_MPI_SHAPE_SHAPE_REQUEST_H
#define SCRY_MPI_SHAPE_SHAPE_REQUEST_H

#include "mpi/shape/request.h"
#include "mpi/shape/shape.h"

ALWAYS void wait_note_one(struct mpi_self *self, uint64_t handle)
{
    self->wait_count = 1;
    self->wait_handles = self->own_handles;
    self->own_handles[0] = handle;
}

ALWAYS void wait_begin_one(struct mpi_self *self, const struct mpi_args *args, uint64_t handle)
{
    struct self_target target = SELF_TARGET_NONE;
    wait_note_one(self, handle);
    if (LIKELY(self->counts))
        self->now->waits[0] = handle;
    target.flags = MPIA_NOW_REQUESTS;
    target.waiting = handle != HANDLE_OF(mpi_library.request_null);
    self_begin(self, args->blocking, &target);
}

/* Of many requests; `statuses`: as many of ours as needed if the program gives none. */
void wait_begin_many(struct mpi_self *self, struct mpi_args *args, bool statuses);
void wait_note_many(struct mpi_self *self, struct mpi_args *args,
                    bool statuses); /* that, of a poll without a time stamp */
void wait_all_done(struct mpi_self *self, const struct mpi_args *args, int result);
void wait_some_done(struct mpi_self *self, const struct mpi_args *args, int result);

ALWAYS void wait_status_provide(struct mpi_self *self, struct mpi_args *args)
{
    if (args->status == MPI_STATUS_IGNORE)
        args->status = &self->status;
}

ALWAYS void wait_one_done(struct mpi_self *self, const struct mpi_args *args, uint32_t at)
{
    if (at < self->wait_count)
        request_complete(self, self->wait_handles[at], args->status);
}

/* ---- polls without a time stamp (count/poll.c) ---- */

/* Memory for `count` handles and, `statuses`, as many statuses; what there is none for is NULL. */
MPI_Status *wait_room(struct mpi_self *self, uint32_t count, bool statuses);

ALWAYS void poll_note_one(struct mpi_self *self, const MPI_Request *request)
{
    wait_note_one(self, HANDLE_OF(*request));
}

ALWAYS MPI_Status *poll_status(struct mpi_self *self, MPI_Status *status)
{
    return status == MPI_STATUS_IGNORE ? &self->status : status;
}

ALWAYS void poll_note_many(struct mpi_self *self, int count, const MPI_Request *requests)
{
    uint32_t there = count > 0 && requests ? (uint32_t)count : 0;
    if (LIKELY(there <= SELF_INLINE))
        self->wait_handles = self->own_handles;
    else
        wait_room(self, there, true);
    self->wait_count = self->wait_handles ? there : 0;
    for (uint32_t i = 0; i < self->wait_count; i++)
        self->wait_handles[i] = HANDLE_OF(requests[i]);
}

/* After poll_note_many. */
ALWAYS MPI_Status *poll_statuses(struct mpi_self *self, int count, MPI_Status *statuses)
{
    if (statuses != MPI_STATUSES_IGNORE || count <= 0)
        return statuses;
    MPI_Status *own = wait_room(self, (uint32_t)count, true);
    return own ? own : statuses;
}

/* ---- one ---- */

#define HAVE_SHAPE_wait
ALWAYS void shape_wait_before(struct mpi_self *self, struct mpi_args *args)
{
    wait_begin_one(self, args, HANDLE_OF(*args->request));
    wait_status_provide(self, args);
}

ALWAYS void shape_wait_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    if (LIKELY(result == MPI_SUCCESS))
        wait_one_done(self, args, 0);
    else if (request_is_null(*args->request)) /* it is complete, and has failed */
        request_complete(self, self->own_handles[0], NULL);
}

#define HAVE_SHAPE_test
ALWAYS void shape_test_before(struct mpi_self *self, struct mpi_args *args)
{
    wait_begin_one(self, args, HANDLE_OF(*args->request));
    wait_status_provide(self, args);
}

ALWAYS void shape_test_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    if (result == MPI_SUCCESS && *args->flag)
        wait_one_done(self, args, 0);
    else if (result != MPI_SUCCESS && request_is_null(*args->request))
        request_complete(self, self->own_handles[0], NULL);
}

#define HAVE_SHAPE_request_get_status
ALWAYS void shape_request_get_status_before(struct mpi_self *self, struct mpi_args *args)
{
    wait_begin_one(self, args, HANDLE_OF(args->request_value));
    wait_status_provide(self, args);
}

ALWAYS void shape_request_get_status_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    if (result == MPI_SUCCESS && *args->flag)
        request_seen(self, self->own_handles[0], args->status);
}

#define HAVE_SHAPE_cancel
ALWAYS void shape_cancel_before(struct mpi_self *self, struct mpi_args *args)
{
    wait_begin_one(self, args, HANDLE_OF(*args->request));
}

ALWAYS void shape_cancel_after(struct mpi_self *self, struct mpi_args *args, int result)
{ /* whether it was cancelled is seen when it completes */
}

#define HAVE_SHAPE_request_free
ALWAYS void shape_request_free_before(struct mpi_self *self, struct mpi_args *args)
{
    wait_begin_one(self, args, HANDLE_OF(*args->request));
}

ALWAYS void shape_request_free_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    if (result == MPI_SUCCESS)
        request_freed(self, self->own_handles[0]);
}

/* ---- many ---- */

#define HAVE_SHAPE_waitall
ALWAYS void shape_waitall_before(struct mpi_self *self, struct mpi_args *args)
{
    wait_begin_many(self, args, true);
}

ALWAYS void shape_waitall_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    wait_all_done(self, args, result);
}

#define HAVE_SHAPE_testall
ALWAYS void shape_testall_before(struct mpi_self *self, struct mpi_args *args)
{
    wait_begin_many(self, args, true);
}

ALWAYS void shape_testall_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    if (result != MPI_SUCCESS || *args->flag)
        wait_all_done(self, args, result);
}

#define HAVE_SHAPE_waitany
ALWAYS void shape_waitany_before(struct mpi_self *self, struct mpi_args *args)
{
    wait_begin_many(self, args, false);
    wait_status_provide(self, args);
}

ALWAYS void shape_waitany_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    if (result == MPI_SUCCESS && *args->index != MPI_UNDEFINED)
        wait_one_done(self, args, (uint32_t)*args->index);
}

#define HAVE_SHAPE_testany
ALWAYS void shape_testany_before(struct mpi_self *self, struct mpi_args *args)
{
    wait_begin_many(self, args, false);
    wait_status_provide(self, args);
}

ALWAYS void shape_testany_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    if (result == MPI_SUCCESS && *args->flag && *args->index != MPI_UNDEFINED)
        wait_one_done(self, args, (uint32_t)*args->index);
}

#define HAVE_SHAPE_waitsome
ALWAYS void shape_waitsome_before(struct mpi_self *self, struct mpi_args *args)
{
    wait_begin_many(self, args, true);
}

ALWAYS void shape_waitsome_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    wait_some_done(self, args, result);
}

#define HAVE_SHAPE_testsome
ALWAYS void shape_testsome_before(struct mpi_self *self, struct mpi_args *args)
{
    wait_begin_many(self, args, true);
}

ALWAYS void shape_testsome_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    wait_some_done(self, args, result);
}

/* ---- starting, and operations of the program's own ---- */

#define HAVE_SHAPE_start
ALWAYS void shape_start_before(struct mpi_self *self, struct mpi_args *args)
{
    wait_begin_one(self, args, HANDLE_OF(*args->request));
}

ALWAYS void shape_start_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    if (result == MPI_SUCCESS)
        request_start(self, *args->request);
}

#define HAVE_SHAPE_startall
ALWAYS void shape_startall_before(struct mpi_self *self, struct mpi_args *args)
{
    wait_begin_many(self, args, false);
}

ALWAYS void shape_startall_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    for (int i = 0; result == MPI_SUCCESS && i < args->request_count; i++)
        request_start(self, args->requests[i]);
}

#define HAVE_SHAPE_grequest_start
ALWAYS void shape_grequest_start_before(struct mpi_self *self, struct mpi_args *args)
{
    struct self_target target = SELF_TARGET_NONE;
    self_begin(self, args->blocking, &target);
}

ALWAYS void shape_grequest_start_after(struct mpi_self *self, struct mpi_args *args, int result)
{
    struct request_about about = {.peer = MPIA_RANK_NONE, .tag = MPIA_TAG_NONE};
    if (self->counts && result == MPI_SUCCESS)
        request_begin(self, *args->request, &about);
}

#define HAVE_SHAPE_grequest_complete
ALWAYS void shape_grequest_complete_before(struct mpi_self *self, struct mpi_args *args)
{
    wait_begin_one(self, args, HANDLE_OF(args->request_value));
}

ALWAYS void shape_grequest_complete_after(struct mpi_self *self, struct mpi_args *args, int result)
{
}

#endif
