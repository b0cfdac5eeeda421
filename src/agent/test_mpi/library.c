/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For test_target_steps.c (..): what the agent takes for an MPI library, by its name, and for the interposer, by that
 * of a link to it. It notes what it may tell the agent by.
 */
#include <stddef.h>

#include "agent/hooks/mpi_host.h"

const struct mpi_host *test_mpi_host;

static void look(void)
{
}

static void *symbol(const char *name, void *found)
{
    return found;
}

const struct mpi_guest *scry_mpi_start(const struct mpi_host *host)
{
    static const struct mpi_guest guest = {.look = look, .symbol = symbol, .opens = look};
    test_mpi_host = host->version == MPI_HOST_VERSION ? host : NULL;
    return &guest;
}
