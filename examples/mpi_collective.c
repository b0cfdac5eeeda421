/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that talks a lot: the conjugate gradient method for a one-dimensional Poisson equation, with two scalar
 * products (MPI_Allreduce) and one exchange of edges in each step, and little computation in between. For measuring
 * what watching costs.
 *
 *     mpi_collective [POINTS [STEPS]]         points of each rank (default 2000), steps (default 20000)
 *
 * Prints the residual and the seconds that the steps took. Numbers are added in the order of the ranks, so the result
 * is the same in each run.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int rank, size;

/* out = A in: -1 2 -1, with the neighbours' edges in in[0] and in[count + 1]. */
static void apply(int count, double *in, double *out)
{
    int left = rank > 0 ? rank - 1 : MPI_PROC_NULL, right = rank + 1 < size ? rank + 1 : MPI_PROC_NULL;
    in[0] = in[count + 1] = 0;
    MPI_Sendrecv(&in[1], 1, MPI_DOUBLE, left, 1, &in[count + 1], 1, MPI_DOUBLE, right, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    MPI_Sendrecv(&in[count], 1, MPI_DOUBLE, right, 2, &in[0], 1, MPI_DOUBLE, left, 2, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    for (int i = 1; i <= count; i++)
        out[i] = 2 * in[i] - in[i - 1] - in[i + 1];
}

static double product(int count, const double *a, const double *b)
{
    double own = 0, all = 0;
    for (int i = 1; i <= count; i++)
        own += a[i] * b[i];
    MPI_Allreduce(&own, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

int main(int argc, char **argv)
{
    int count = argc > 1 ? atoi(argv[1]) : 2000, steps = argc > 2 ? atoi(argv[2]) : 20000;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    size_t room = (size_t)count + 2;
    double *x = calloc(room, sizeof *x), *r = calloc(room, sizeof *r), *p = calloc(room, sizeof *p);
    double *ap = calloc(room, sizeof *ap);
    if (!x || !r || !p || !ap || count < 1)
        MPI_Abort(MPI_COMM_WORLD, 2);
    for (int i = 1; i <= count; i++)
        r[i] = p[i] = 1;
    double residual = product(count, r, r), begun = MPI_Wtime();
    for (int step = 0; step < steps; step++) {
        apply(count, p, ap);
        double curvature = product(count, p, ap), before = residual;
        double length = curvature > 0 ? residual / curvature : 0;
        for (int i = 1; i <= count; i++) {
            x[i] += length * p[i];
            r[i] -= length * ap[i];
        }
        residual = product(count, r, r);
        double next = before > 0 ? residual / before : 0;
        for (int i = 1; i <= count; i++)
            p[i] = r[i] + next * p[i];
    }
    double seconds = MPI_Wtime() - begun;
    if (rank == 0)
        printf("residual %.12e\nseconds %.6f\n", residual, seconds);
    free(x);
    free(r);
    free(p);
    free(ap);
    MPI_Finalize();
    return 0;
}
