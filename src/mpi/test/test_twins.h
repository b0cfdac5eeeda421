/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stand-in for an MPI library, a program that calls it, and what the interposer noted of it (test_guest.c). The
 * first two are generated from the table of calls (test_twins.py).
 */
#ifndef SCRY_MPI_TEST_TWINS_H
#define SCRY_MPI_TEST_TWINS_H

#include <stdint.h>

#include "shm/mpi_calls.h"

#define TWIN_ANSWER 0x5000 /* what a call returns, and its number */

/* ---- the library ---- */

struct twin {
    uint32_t calls, count;
    uint64_t given[24];
};
extern struct twin twins[CALL_COUNT];

/* ---- the program (test_driver.c) ---- */

enum twin_way { TWIN_SLOT, TWIN_PROFILED, TWIN_POINTER, TWIN_DLSYM, TWIN_DLSYM_PROFILED, TWIN_WAYS };

struct twin_try {
    uint32_t call, count;
    const uint64_t *given;
    enum twin_way way;
    uint32_t calls, others, noted; /* before */
};

extern char twin_memory[];
extern void (*const twin_tries[])(void);
void twin_before(struct twin_try *try, enum twin_way way);
void twin_after(struct twin_try *try, uint64_t result, uint64_t expected);
void *twin_hide(void *function);
void *twin_dlsym(const char *name);

/* ---- the interposer ---- */

struct twin_guest {
    uint32_t entered[CALL_COUNT]; /* outermost */
    uint32_t inner;               /* found themselves in another call */
    uint64_t site;                /* of the last */
    int64_t told[15], result;     /* of the last that was told */
    char why_not[128];
};

#endif
