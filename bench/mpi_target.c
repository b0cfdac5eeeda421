/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What bench_mpi.py runs: calls that a process makes to itself, so that nothing waits for another one and the library's
 * share is small and steady. Prints nanoseconds a call: the tenth of a hundred of many short rounds, so that what other
 * processes do meanwhile does not count; and `clock`, which is two readings of the time stamp counter, the least that
 * timing a call takes. With an argument it prints its process id first, and begins when a line of input comes.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

enum { ROUNDS = 1500, CALLS = 400 };

static double out, in;
static char many[64];

static void self_sendrecv(void)
{
    MPI_Sendrecv(&out, 1, MPI_DOUBLE, 0, 1, &in, 1, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void request_pair(void) /* three calls */
{
    MPI_Request request[2];
    MPI_Status status[2]; /* not IGNORE: gcc takes MPICH's address of it for an array of no size */
    MPI_Irecv(&in, 1, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD, &request[0]);
    MPI_Isend(&out, 1, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD, &request[1]);
    MPI_Waitall(2, request, status);
}

static void allreduce(void)
{
    MPI_Allreduce(&out, &in, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_SELF);
}

static void iprobe(void)
{
    int flag;
    MPI_Iprobe(0, 7, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
}

static void two_clocks(void)
{
    many[0] += (char)__rdtsc();
    many[1] += (char)__rdtsc();
}

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(const char *name, void (*once)(void), int calls)
{
    static double rounds[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        double begin = now_ns();
        for (int k = 0; k < CALLS; k++)
            once();
        rounds[i] = (now_ns() - begin) / CALLS / calls;
    }
    qsort(rounds, ROUNDS, sizeof *rounds, compare);
    printf("%s %.2f\n", name, rounds[ROUNDS / 10]);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (argc > 1) {
        printf("%d\n", (int)getpid());
        fflush(stdout);
        if (getchar() == EOF)
            return 1;
    }
    measure("MPI_Sendrecv", self_sendrecv, 1);
    measure("Irecv+Isend+Waitall", request_pair, 3);
    measure("MPI_Allreduce", allreduce, 1);
    measure("MPI_Iprobe", iprobe, 1);
    measure("clock", two_clocks, 1);
    MPI_Finalize();
    return 0;
}
