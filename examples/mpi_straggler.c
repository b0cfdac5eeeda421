/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rank does more than the others: all wait for it in each step's MPI_Allreduce, and look busy meanwhile.
 *
 *     mpirun -n 4 mpi_straggler [STEPS [SECONDS [RANK]]]
 *
 * In each of STEPS steps (default 1) rank RANK (default 1) computes for SECONDS (default 60) in large_part(), the
 * others for a moment. `scry why` says who waits for whom, and where that one is; `scry report` shows the same as
 * imbalance.
 */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static volatile double sink;

__attribute__((noinline)) static double large_part(double seconds)
{
    double sum = 0, end = MPI_Wtime() + seconds;
    for (long i = 1;; i++) {
        sum += 1.0 / ((double)i * (double)i);
        if (i % 10000000 == 0 && MPI_Wtime() >= end)
            return sum;
    }
}

__attribute__((noinline)) static double small_part(void)
{
    double sum = 0;
    for (int i = 1; i < 100000; i++)
        sum += 1.0 / ((double)i * (double)i);
    return sum;
}

int main(int argc, char **argv)
{
    int rank, steps = argc > 1 ? atoi(argv[1]) : 1, slow = argc > 3 ? atoi(argv[3]) : 1;
    double seconds = argc > 2 ? atof(argv[2]) : 60, most = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        printf("rank %d computes for %g seconds in each of %d steps\n", slow, seconds, steps);
        fflush(stdout);
    }
    for (int step = 0; step < steps; step++) {
        double own = rank == slow ? large_part(seconds) : small_part();
        sink = own;
        MPI_Allreduce(&own, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    }
    if (rank == 0)
        printf("largest sum %.6f\n", most);
    MPI_Finalize();
    return 0;
}
