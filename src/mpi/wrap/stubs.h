/* SPDX-License-Identifier: Apache-2.0 */
/* The pools of entry_x86_64.S. Also read by the assembler. */
#ifndef SCRY_MPI_WRAP_STUBS_H
#define SCRY_MPI_WRAP_STUBS_H

#define MPI_STUBS 1024
#define MPI_STUB_SIZE 64

#define MPI_TABLE_ENTRIES 2048 /* two a call (wrap.h) */
#define MPI_TABLE_ENTRY_SIZE 16

#ifndef __ASSEMBLER__
#include <stdint.h>

extern const uint8_t mpi_stub_pool[MPI_STUBS * MPI_STUB_SIZE];
extern void *mpi_stub_targets[MPI_STUBS];
#endif

#endif
