/* SPDX-License-Identifier: Apache-2.0 */
/* MPI-IO: files are noted as communicators are. What was really read or written is what the status says. */
#ifndef SCRY_MPI_SHAPE_SHAPE_FILE_H
#define SCRY_MPI_SHAPE_SHAPE_FILE_H

#include "mpi/count/comm.h"
#include "mpi/shape/request.h"
#include "mpi/shape/shape.h"
#include "mpi/count/type.h"

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

#endif
