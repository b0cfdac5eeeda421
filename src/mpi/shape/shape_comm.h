/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that make, name and end communicators, and start processes. */
#ifndef SCRY_MPI_SHAPE_SHAPE_COMM_H
#define SCRY_MPI_SHAPE_SHAPE_COMM_H

#include "mpi/count/comm.h"
#include "mpi/shape/shape.h"

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

#endif
