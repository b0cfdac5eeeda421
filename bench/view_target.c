/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What bench_view.py looks at: ranks that compute in functions inside each other, compiled with -finstrument-functions,
 * and exchange a message with their neighbours in each step.
 *
 *     view_target STEPS
 *
 * makes about 520 calls in each rank and step.
 */
#include <mpi.h>
#include <stdlib.h>

void cell(int *value);
void row(int *value, int count);
void sweep(int *value);
void exchange(int *value, int rank, int size);

static volatile int sink;

__attribute__((noinline)) void cell(int *value)
{
    *value = *value * 5 + 1;
}

__attribute__((noinline)) void row(int *value, int count)
{
    for (int i = 0; i < count; i++)
        cell(value);
}

__attribute__((noinline)) void sweep(int *value)
{
    for (int i = 0; i < 32; i++)
        row(value, 15);
}

__attribute__((noinline)) void exchange(int *value, int rank, int size)
{
    int from = *value;
    MPI_Sendrecv(&from, 1, MPI_INT, (rank + 1) % size, 1, value, 1, MPI_INT, (rank + size - 1) % size, 1,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    int rank, size, value = 1, sum = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < (argc > 1 ? atoi(argv[1]) : 10); i++) {
        sweep(&value);
        exchange(&value, rank, size);
        if (i % 50 == 0)
            MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    }
    sink = sum;
    MPI_Finalize();
    return 0;
}
