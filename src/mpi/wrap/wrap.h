/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the generated wrappers (wrap.py), the redirecting of slots (bind.c) and the stubs of Fortran (entry_x86_64.S)
 * share.
 *
 * Each call has two entries: what slots of MPI_Send are redirected to, and those of PMPI_Send. `real` of an entry is
 * what all slots that lead there had before, so that an entry knows where to go on without knowing its caller.
 */
#ifndef SCRY_MPI_WRAP_WRAP_H
#define SCRY_MPI_WRAP_WRAP_H

/* The pools of entry_x86_64.S, which reads them here. */
#define MPI_STUBS 1024
#define MPI_STUB_SIZE 64

#define MPI_TABLE_ENTRIES 2048 /* two a call */
#define MPI_TABLE_ENTRY_SIZE 16

#ifndef __ASSEMBLER__

#include <stdbool.h>
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

/*
 * ---- calls by the table (table.c) ----
 *
 * Calls that programs make all the time have wrappers of their own, compiled from the table. All others share one, which
 * reads from a table what it has to do; so do most calls while they are reported. Their entries (entry_x86_64.S) differ in
 * a number only: twice that of the call, and the kind.
 */

#define WRAP_ENTERED 0x10000 /* with the number: mpi_enter or mpi_quick_tells was called, and the call is reported */

extern const uint8_t mpi_table_pool[MPI_TABLE_ENTRIES * MPI_TABLE_ENTRY_SIZE];
#define WRAP_BY_TABLE(call, kind) ((void *)(mpi_table_pool + MPI_TABLE_ENTRY_SIZE * (2 * CALL_##call + (kind))))

/* Goes on there from a wrapper, with its arguments. The number is passed in a register that no argument is in. */
extern const uint8_t mpi_table_entered[];
#define WRAP_TELL(call, kind, ...) \
    __builtin_call_with_static_chain(((__typeof__(call) *)mpi_table_entered)(__VA_ARGS__), \
                                     (void *)(uintptr_t)(WRAP_ENTERED + 2 * CALL_##call + (kind)))

/* Of entry_x86_64.S: what the call returned; or, where nothing is noted, the function to go on to. */
struct wrap_returns {
    int64_t result;
    void *goes_on;
};
/* `given`: six arguments, where the call returns to, the other arguments. */
struct wrap_returns mpi_by_table(const uint64_t *given, uint32_t number);

/* ---- where calls come from ---- */

/* The library of Fortran's wrappers: calls that come from there were made for a caller of a Fortran name, who passed
 * one of our stubs and was noted there. */
struct mpi_fortran {
    uint64_t low, size;
};
extern struct mpi_fortran mpi_fortran;

struct mpi_fortran_caller { /* of a thread; written by entry_x86_64.S */
    uint64_t site;
    uint64_t stub; /* number of the stub */
};
extern _Thread_local struct mpi_fortran_caller mpi_fortran_caller __attribute__((tls_model("initial-exec")));

/* Who called Fortran's wrapper that calls `call` from `site`; 0: it does so for its own purposes. */
uint64_t mpi_fortran_site(uint32_t call, uint64_t site);

/*
 * Fortran's names of MPI calls, in the manglings that there are, gfortran's first (fortran.c). Called where slots are
 * redirected, one thread at a time.
 */
extern const uint8_t mpi_stub_pool[MPI_STUBS * MPI_STUB_SIZE];
extern void *mpi_stub_targets[MPI_STUBS];
/* Whether it may be one: mpi_..._, MPI_... in capitals, the same with P in front. */
bool fortran_is_name(const char *name);
/* The stub that notes its caller and goes on to `target`; the same for the same target. NULL: none, leave it alone. */
void *fortran_stub(const char *name, void *target);

/* MPI_Pcontrol is variadic: its entries are in entry_x86_64.S, which call the first, and jump on. Return where to. */
void *mpi_pcontrol_entered(int level, uint64_t site, uint32_t kind);
void *mpi_pcontrol(int level, uint64_t site, uint32_t kind);
int scry_MPI_Pcontrol(const int level, ...);
int scry_PMPI_Pcontrol(const int level, ...);

/* ---- the start (connect.c) ---- */

struct mpi_host;

/*
 * What the interposer has the agent say to the monitor, and taking over the MPI area that comes back. Whatever goes
 * wrong, nothing is counted at all.
 *
 * Once, after mpi_library_start. False: nothing may be redirected. With host->why_not the monitor gets that, and the
 * answer is false, too.
 */
bool mpi_connect(const struct mpi_host *host);

#pragma GCC visibility pop

#endif /* __ASSEMBLER__ */

#endif
