/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fortran's names of MPI calls, in the manglings that there are (gfortran's first). Called where slots are redirected,
 * one thread at a time.
 */
#ifndef SCRY_MPI_WRAP_FORTRAN_H
#define SCRY_MPI_WRAP_FORTRAN_H

#include <stdbool.h>
#include <stdint.h>

/* Whether it may be one: mpi_..._, MPI_... in capitals, the same with P in front. */
bool fortran_is_name(const char *name);
/* The stub that notes its caller and goes on to `target`; the same for the same target. NULL: none, leave it alone. */
void *fortran_stub(const char *name, void *target);

/* For entry_x86_64.S. */
void *mpi_pcontrol_entered(int level, uint64_t site, uint32_t kind);

#endif
