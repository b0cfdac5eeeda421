/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi/wrap/wrap.h"

#include <string.h>
#include <strings.h>

struct mpi_fortran mpi_fortran;
_Thread_local struct mpi_fortran_caller mpi_fortran_caller;
void *mpi_stub_targets[MPI_STUBS];
static uint16_t stub_calls[MPI_STUBS]; /* enum call_id */
static unsigned stub_count = 1;        /* number 0 stands for nobody */

/* mpi_send_, mpi_send, MPI_SEND, mpi_send__, pmpi_send_, mpi_send_f08_, mpi_send_f08ts_ ...: CALL_MPI_Send. */
static enum call_id call_of(const char *name)
{
    static const char *const endings[] = {"_f08ts_large_", "_f08_large_", "_f08ts_", "_f08_", "__", "_", ""};
    name += name[0] == 'p' || name[0] == 'P';
    size_t length = strlen(name);
    for (unsigned i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        size_t ending = strlen(endings[i]);
        if (length <= ending || strcmp(name + length - ending, endings[i]) != 0)
            continue;
        for (unsigned call = 1; call < CALL_COUNT; call++)
            if (strlen(call_infos[call].name) == length - ending &&
                strncasecmp(call_infos[call].name, name, length - ending) == 0)
                return (enum call_id)call;
    }
    return CALL_NONE;
}

bool fortran_is_name(const char *name)
{
    name += name[0] == 'p' || name[0] == 'P';
    bool lower = strncmp(name, "mpi_", 4) == 0, upper = strncmp(name, "MPI_", 4) == 0;
    if (!lower && !upper)
        return false;
    for (const char *at = name; upper && *at; at++)
        if (*at >= 'a' && *at <= 'z')
            return false; /* C's */
    return true;
}

void *fortran_stub(const char *name, void *target)
{
    for (unsigned i = 1; i < stub_count; i++)
        if (mpi_stub_targets[i] == target)
            return (void *)(uintptr_t)(mpi_stub_pool + i * MPI_STUB_SIZE);
    enum call_id call = call_of(name);
    if (stub_count == MPI_STUBS || call == CALL_NONE)
        return NULL;
    stub_calls[stub_count] = (uint16_t)call;
    mpi_stub_targets[stub_count] = target;
    return (void *)(uintptr_t)(mpi_stub_pool + stub_count++ * MPI_STUB_SIZE);
}

uint64_t mpi_fortran_site(uint32_t call, uint64_t site)
{
    const struct mpi_fortran_caller *caller = &mpi_fortran_caller;
    if (mpi_entries[call].helper && stub_calls[caller->stub % MPI_STUBS] != call)
        return 0;
    return caller->site ? caller->site : site;
}

void *mpi_pcontrol_entered(int level, uint64_t site, uint32_t kind)
{
    if (site - mpi_fortran.low < mpi_fortran.size)
        site = mpi_fortran_site(CALL_MPI_Pcontrol, site);
    return mpi_pcontrol(level, site, kind);
}
