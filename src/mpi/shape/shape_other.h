/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of which only count and time are noted, and those that begin and end everything. */
#ifndef SCRY_MPI_SHAPE_SHAPE_OTHER_H
#define SCRY_MPI_SHAPE_SHAPE_OTHER_H

#include "mpi/count/self.h"
#include "mpi/shape/shape.h"
#include "mpi/count/type.h"

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

/* ---- datatypes ---- */

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

#endif
