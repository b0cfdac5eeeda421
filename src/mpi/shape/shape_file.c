/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi/shape/shape.h"

#include <string.h>

#include "mpi/count/comm.h"
#include "mpi/shape/request.h"

static struct comm_info *file_find(struct mpi_self *self, const struct mpi_args *args)
{
    return comm_find_handle(self, FILE_OF(args->file));
}

static bool has_offset(uint32_t call)
{
    switch (call) {
    case CALL_MPI_File_read_at:
    case CALL_MPI_File_read_at_all:
    case CALL_MPI_File_read_at_all_begin:
    case CALL_MPI_File_write_at:
    case CALL_MPI_File_write_at_all:
    case CALL_MPI_File_write_at_all_begin:
    case CALL_MPI_File_iread_at:
    case CALL_MPI_File_iread_at_all:
    case CALL_MPI_File_iwrite_at:
    case CALL_MPI_File_iwrite_at_all:
    case CALL_MPI_File_read_at_c:
    case CALL_MPI_File_read_at_all_c:
    case CALL_MPI_File_read_at_all_begin_c:
    case CALL_MPI_File_write_at_c:
    case CALL_MPI_File_write_at_all_c:
    case CALL_MPI_File_write_at_all_begin_c:
    case CALL_MPI_File_iread_at_c:
    case CALL_MPI_File_iread_at_all_c:
    case CALL_MPI_File_iwrite_at_c:
    case CALL_MPI_File_iwrite_at_all_c:
    case CALL_MPI_File_seek:
    case CALL_MPI_File_seek_shared:
        return true;
    default:
        return false;
    }
}

/* All processes that opened the file make it: those with _all or _ordered in their name, and what changes the file for
 * all of them. Found out once. */
static bool is_collective(uint32_t call)
{
    static const char *const names[] = {"preallocate", "set_size", "set_view",   "set_atomicity",
                                        "set_info",    "sync",     "seek_shared"};
    static _Atomic uint8_t known[CALL_COUNT]; /* 1: no, 2: yes */
    uint8_t answer = atomic_load_explicit(&known[call], memory_order_relaxed);
    if (answer)
        return answer == 2;
    const char *name = call_infos[call].name + strlen("MPI_File_");
    bool yes = strstr(name, "_all") || strstr(name, "_ordered");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        yes |= strcmp(name, names[i]) == 0;
    atomic_store_explicit(&known[call], yes ? 2 : 1, memory_order_relaxed);
    return yes;
}

void file_before(struct mpi_self *self, const struct mpi_args *args)
{
    struct comm_info *file = file_find(self, args);
    struct self_target target = SELF_TARGET_NONE;
    target.comm = file->number;
    target.flags = MPIA_NOW_FILE;
    target.ordinal = is_collective(args->call) ? comm_ordinal(file) : 0;
    if (has_offset(args->call)) {
        target.flags |= MPIA_NOW_OFFSET;
        target.offset = (uint64_t)args->offset;
    }
    target.bytes = type_bytes_before(self, args->count, args->datatype);
    self_begin(self, args->blocking, &target);
}

void file_open_after(struct mpi_self *self, const struct mpi_args *args, int result)
{
    if (result == MPI_SUCCESS && mpi_hot.area && FILE_OF(*args->newfile) != FILE_OF(mpi_library.file_null))
        comm_note_file(self, *args->newfile, comm_find(self, args->comm), args->call, args->name);
}

void file_close_before(struct mpi_self *self, const struct mpi_args *args)
{
    struct self_target target = SELF_TARGET_NONE;
    uint64_t handle = args->newfile ? FILE_OF(*args->newfile) : 0;
    struct comm_info *file = comm_find_handle(self, handle);
    target.comm = file->number;
    target.flags = MPIA_NOW_FILE;
    target.ordinal = comm_ordinal(file);
    if (file->shown)
        comm_forget(handle);
    self_begin(self, args->blocking, &target);
}

/* Read counts as got, written as sent. */
static void moved(struct mpi_self *self, const struct mpi_args *args, const struct comm_info *file, uint64_t asked,
                  uint64_t bytes)
{
    bool reads = args->volume == CALL_VOLUME_READ;
    self_bytes(self, asked, reads ? 0 : bytes, reads ? bytes : 0);
    if (reads)
        self_got_from(self, file->number, MPIA_RANK_NONE, self->call, 1, bytes);
    else
        self_sent_to(self, file->number, MPIA_RANK_NONE, self->call, 1, bytes, asked);
}

void file_io_after(struct mpi_self *self, const struct mpi_args *args, int result)
{
    if (self->counts && result == MPI_SUCCESS)
        moved(self, args, file_find(self, args), type_bytes(self, args->count, args->datatype),
              status_bytes(args->status));
}

/* What is read is known when it completes; of what is written all is taken to be. */
void file_irequest_after(struct mpi_self *self, const struct mpi_args *args, int result)
{
    if (!self->counts || result != MPI_SUCCESS)
        return;
    struct comm_info *file = file_find(self, args);
    uint64_t bytes = type_bytes(self, args->count, args->datatype);
    bool reads = args->volume == CALL_VOLUME_READ;
    self_bytes(self, bytes, reads ? 0 : bytes, 0);
    if (!reads)
        self_sent_to(self, file->number, MPIA_RANK_NONE, self->call, 1, bytes, bytes);
    struct request_about about = {
        .flags = reads ? MPIA_REQUEST_RECEIVE : 0,
        .peer = MPIA_RANK_NONE,
        .tag = MPIA_TAG_NONE,
        .bytes = bytes,
        .comm = file,
        .ordinal = self->now->ordinal,
        .peer_call = self->call,
    };
    request_begin(self, *args->request, &about);
}

/* A split collective: what it moved is known at its end, which has the status. */
void file_begin_after(struct mpi_self *self, const struct mpi_args *args, int result)
{
    if (!self->counts || result != MPI_SUCCESS)
        return;
    self_bytes(self, type_bytes(self, args->count, args->datatype), 0, 0);
}

void file_end_after(struct mpi_self *self, const struct mpi_args *args, int result)
{
    if (!self->counts || result != MPI_SUCCESS)
        return;
    struct comm_info *file = file_find(self, args);
    moved(self, args, file, 0, status_bytes(args->status));
}
