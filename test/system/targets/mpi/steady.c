/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that compute the same sum in each of their steps, 20 a second, until there is a file "GO" in their directory. At the
 * end rank 0 says how many results were wrong, and what the longest time between two steps of a rank was. Each rank writes
 * where its function step and its counter are into a file "steady".
 */
#include <mpi.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { TERMS = 1000, SUM = 333833500, REST_NS = 50 * 1000 * 1000 };

static long steps;

__attribute__((noinline)) static long step(void)
{
    long sum = 0;
    for (volatile long i = 1; i <= TERMS; i++)
        sum += i * i;
    steps++;
    return sum;
}

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}

static int say_where(void)
{
    FILE *file = fopen("steady.new", "w");
    if (!file)
        return -1;
    fprintf(file, "%d %p %p\n", (int)getpid(), (void *)step, (void *)&steps);
    return fclose(file) || rename("steady.new", "steady");
}

int main(int argc, char **argv)
{
    int ranks, rank;
    long wrong = 0, all_wrong = 0;
    double longest = 0, of_all = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (say_where())
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (double last = now(); access("GO", F_OK) != 0;) {
        wrong += step() != SUM;
        nanosleep(&(struct timespec){.tv_nsec = REST_NS}, NULL);
        double at = now();
        longest = at - last > longest ? at - last : longest;
        last = at;
    }
    MPI_Reduce(&wrong, &all_wrong, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(&longest, &of_all, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d ranks, %ld wrong, longest %.2f s\n", ranks, all_wrong, of_all);
    MPI_Finalize();
    return 0;
}
