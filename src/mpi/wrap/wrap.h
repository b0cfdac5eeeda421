/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the generated wrappers (wrap.py), the redirecting of slots (bind.c) and the stubs of Fortran (fortran_x86_64.S)
 * share.
 *
 * Each call has two entries: what slots of MPI_Send are redirected to, and those of PMPI_Send. `real` of an entry is
 * what all slots that lead there had before, so that an entry knows where to go on without knowing its caller.
 */
#ifndef SCRY_MPI_WRAP_WRAP_H
#define SCRY_MPI_WRAP_WRAP_H

#include <stdint.h>

#include "shm/mpi_calls.h"

#pragma GCC visibility push(hidden)

enum mpi_kind { MPI_KIND_PLAIN, MPI_KIND_PROFILED, MPI_KINDS }; /* called as MPI_..., as PMPI_... */

struct mpi_entry {
    void *wrapper[MPI_KINDS]; /* NULL: the library's header does not have it */
    uint32_t helper;          /* Fortran's wrappers in the library call it for themselves, too */
    uint32_t quick;           /* has shape quick */
};
extern const struct mpi_entry mpi_entries[CALL_COUNT]; /* generated */

extern void *mpi_real[CALL_COUNT][MPI_KINDS];

/* ---- where calls come from ---- */

/* The library of Fortran's wrappers: calls that come from there were made for a caller of a Fortran name, who passed
 * one of our stubs and was noted there. */
struct mpi_fortran {
    uint64_t low, size;
};
extern struct mpi_fortran mpi_fortran;

struct mpi_fortran_caller { /* of a thread; written by fortran_x86_64.S */
    uint64_t site;
    uint64_t stub; /* number of the stub */
};
extern _Thread_local struct mpi_fortran_caller mpi_fortran_caller __attribute__((tls_model("initial-exec")));

/* Who called Fortran's wrapper that calls `call` from `site`; 0: it does so for its own purposes. */
uint64_t mpi_fortran_site(uint32_t call, uint64_t site);

/* MPI_Pcontrol is variadic: its entries are in fortran_x86_64.S and jump on. Returns where to. */
void *mpi_pcontrol(int level, uint64_t site, uint32_t kind);
int scry_MPI_Pcontrol(const int level, ...);
int scry_PMPI_Pcontrol(const int level, ...);

#pragma GCC visibility pop

#endif
