/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi/shape/shape.h"

#include "mpi/shape/request.h"

/* Handles first, statuses behind them. Where there is no memory for many, what completes is not seen: then it stays
 * among the requests until its handle comes again. */
MPI_Status *wait_room(struct mpi_self *self, uint32_t count, bool statuses)
{
    self->wait_handles = self->own_handles;
    if (LIKELY(count <= SELF_INLINE))
        return self->own_statuses;
    uint64_t handles = (uint64_t)count * sizeof(uint64_t);
    uint8_t *memory = self_scratch(self, handles + (statuses ? count * sizeof(MPI_Status) : 0));
    self->wait_handles = (uint64_t *)(void *)memory;
    return memory ? (MPI_Status *)(void *)(memory + handles) : NULL;
}

void wait_begin_many(struct mpi_self *self, struct mpi_args *args, bool statuses)
{
    struct self_target target = SELF_TARGET_NONE;
    uint32_t count = args->request_count > 0 && args->requests ? (uint32_t)args->request_count : 0;
    bool provide = statuses && args->statuses == MPI_STATUSES_IGNORE && count;
    MPI_Status *own = wait_room(self, count, provide);
    if (provide && own)
        args->statuses = own;
    self->wait_count = self->wait_handles ? count : 0;
    uint64_t null = HANDLE_OF(mpi_library.request_null);
    for (uint32_t i = 0; i < self->wait_count; i++) {
        uint64_t handle = HANDLE_OF(args->requests[i]);
        self->wait_handles[i] = handle;
        if (handle == null)
            continue;
        if (target.waiting < MPIA_WAITS && self->counts)
            self->now->waits[target.waiting] = handle;
        target.waiting++;
    }
    target.flags = MPIA_NOW_REQUESTS;
    self_begin(self, args->blocking, &target);
}

void wait_all_done(struct mpi_self *self, const struct mpi_args *args, int result)
{
    if (result != MPI_SUCCESS && ERROR_CLASS(result) != MPI_ERR_IN_STATUS)
        return;
    uint64_t null = HANDLE_OF(mpi_library.request_null);
    bool known = args->statuses != MPI_STATUSES_IGNORE;
    for (uint32_t i = 0; i < self->wait_count && args->told && known && result == MPI_SUCCESS; i++)
        if (self->wait_handles[i] != null)
            request_known(self, self->wait_handles[i], &args->statuses[i]);
    for (uint32_t i = 0; i < self->wait_count; i++) {
        const MPI_Status *status = known ? &args->statuses[i] : NULL;
        if (self->wait_handles[i] == null)
            continue;
        if (result == MPI_SUCCESS)
            request_complete(self, self->wait_handles[i], status);
        else if (status && ERROR_CLASS(status->MPI_ERROR) != MPI_ERR_PENDING)
            request_complete(self, self->wait_handles[i], status->MPI_ERROR == MPI_SUCCESS ? status : NULL);
    }
}

void wait_some_done(struct mpi_self *self, const struct mpi_args *args, int result)
{
    if ((result != MPI_SUCCESS && ERROR_CLASS(result) != MPI_ERR_IN_STATUS) || *args->outcount == MPI_UNDEFINED)
        return;
    bool known = args->statuses != MPI_STATUSES_IGNORE;
    for (int i = 0; i < *args->outcount && args->told && known && result == MPI_SUCCESS; i++)
        if ((uint32_t)args->indices[i] < self->wait_count)
            request_known(self, self->wait_handles[args->indices[i]], &args->statuses[i]);
    for (int i = 0; i < *args->outcount; i++) {
        const MPI_Status *status = known ? &args->statuses[i] : NULL;
        uint32_t at = (uint32_t)args->indices[i];
        bool good = result == MPI_SUCCESS || (status && status->MPI_ERROR == MPI_SUCCESS);
        if (at < self->wait_count)
            request_complete(self, self->wait_handles[at], good ? status : NULL);
    }
}
