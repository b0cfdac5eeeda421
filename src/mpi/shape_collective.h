/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives: blocking, non-blocking and persistent ones. What they move: volume.h. */
#ifndef SCRY_MPI_SHAPE_COLLECTIVE_H
#define SCRY_MPI_SHAPE_COLLECTIVE_H

#include "mpi/shape.h"

void coll_before(struct mpi_self *self, const struct mpi_args *args);
void coll_after(struct mpi_self *self, const struct mpi_args *args, int result);
void coll_init_after(struct mpi_self *self, const struct mpi_args *args, int result);

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

#endif
