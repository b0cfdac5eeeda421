/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives must be called by all ranks of a communicator in the same order. Here the ranks decide by their own data
 * which way to go, and one goes another: it calls MPI_Barrier where the others call MPI_Allreduce. What happens then is
 * up to the library; mostly all hang.
 *
 *     mpirun -n 4 mpi_mismatch [RANK]         the rank that differs (default 2); -1: none
 *
 * `scry why` says which collective on which communicator it is, and who calls what.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 500000 };

__attribute__((noinline)) static void add_up(double *mine, double *sums)
{
    MPI_Allreduce(mine, sums, COUNT, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

__attribute__((noinline)) static void nothing_to_add(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    int rank, size, differs = argc > 1 ? atoi(argv[1]) : 2;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    double *mine = calloc(COUNT, sizeof *mine), *sums = calloc(COUNT, sizeof *sums);
    if (!mine || !sums)
        MPI_Abort(MPI_COMM_WORLD, 2);
    mine[0] = rank;
    MPI_Bcast(&size, 1, MPI_INT, 0, MPI_COMM_WORLD); /* the first collective; the next is the one that differs */
    if (rank == 0) {
        printf("%d ranks, and rank %d differs\n", size, differs);
        fflush(stdout);
    }
    if (rank == differs)
        nothing_to_add();
    else
        add_up(mine, sums);
    if (rank == 0)
        printf("sum %.0f\n", sums[0]);
    free(mine);
    free(sums);
    MPI_Finalize();
    return 0;
}
