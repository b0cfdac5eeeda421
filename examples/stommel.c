/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two-dimensional Stommel model of ocean circulation, with MPI.
 *
 * H. Stommel (1948) explained why ocean currents are strong along western shores with one equation for the stream
 * function psi in a rectangular ocean of LX by LY metres and psi = 0 on the shore:
 *
 *     gamma (psi_xx + psi_yy) + beta psi_x = f(y),    f(y) = -alpha sin(pi y / LY)
 *
 * gamma: friction at the bottom, beta: the change of the Coriolis force with latitude, f: the curl of the wind's
 * stress. With central differences each point is a weighted mean of its four neighbours plus the force; Jacobi's method
 * repeats that for all points at once, from the values of the step before.
 *
 *     stommel [NX NY STEPS [INTERVAL]]
 *
 * NX by NY inner points, spread over the ranks in blocks; every INTERVAL steps one line is printed. A block talks to
 * its neighbours through two communicators, one for its row of blocks and one for its column.
 *
 * The result is checked, and the exit status is 0 only if it is right. For some sizes against stored numbers; for other
 * small ones by doing all again on rank 0 without MPI; and always by what is known of the method: the weights are
 * positive and add up to one, so the largest change of a step can never be larger than that of the step before.
 */
#include <float.h>
#include <math.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Functions stay functions, so that a tool finds each of them. */
#define SEPARATE __attribute__((noinline))

static const double LX = 2.0e6, LY = 2.0e6;                          /* m */
static const double ALPHA = 1.0e-9, BETA = 2.25e-11, GAMMA = 3.0e-6; /* m/s^2, 1/(m s), 1/s */

enum { DEFAULT_NX = 240, DEFAULT_NY = 240, DEFAULT_STEPS = 40000, SERIAL_LIMIT = 40000000 };

/* Sum of all points and the largest, computed on one rank. Stommel's solution in closed form, which the steps approach,
 * has 1.1418e12 and 5.0842e7 on the default grid's points. */
static const struct known {
    int nx, ny, steps;
    double sum, max;
} known_results[] = {
    {DEFAULT_NX, DEFAULT_NY, DEFAULT_STEPS, 1141853387977.3958, 50842735.838242061},
    {320, 320, 60000, 2025643911088.7175, 50837122.986890011},
};

struct weights {
    double east, west, side, force; /* side: north and south alike */
};

/* One rank's block: nx by ny points and a frame of neighbours' points (or shore) around them. */
struct block {
    int nx, ny;           /* inner points here */
    int first_x, first_y; /* the number of our first inner point in the ocean, from 1 */
    double *psi, *next, *force;
    double *sent, *received;      /* a line of points on its way along x */
    MPI_Comm row, column;         /* ranks side by side in x; in y */
    int west, east, south, north; /* ranks in row and column, or MPI_PROC_NULL at the shore */
};

static void *allocate(size_t count)
{
    void *memory = calloc(count, sizeof(double));
    if (!memory) {
        fprintf(stderr, "stommel: no memory for %zu numbers\n", count);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    return memory;
}

/* Called for each point: nothing to trace. */
__attribute__((no_instrument_function)) static inline size_t at(int ny, int i, int j)
{
    return (size_t)i * (size_t)(ny + 2) + (size_t)j;
}

SEPARATE static struct weights make_weights(int nx, int ny)
{
    double dx = LX / (nx + 1), dy = LY / (ny + 1);
    double friction_x = GAMMA / (dx * dx), friction_y = GAMMA / (dy * dy), rotation = BETA / (2 * dx);
    double centre = 2 * (friction_x + friction_y);
    return (struct weights){.east = (friction_x + rotation) / centre,
                            .west = (friction_x - rotation) / centre,
                            .side = friction_y / centre,
                            .force = 1 / centre};
}

/* Part `index` of `parts` nearly equal parts of 1..count. */
static void split(int count, int parts, int index, int *ret_first, int *ret_count)
{
    int small = count / parts, larger = count % parts;
    *ret_count = small + (index < larger);
    *ret_first = 1 + index * small + (index < larger ? index : larger);
}

/* Lays the ranks out in a grid as square as their number allows and makes the communicators. */
SEPARATE static void divide(struct block *block, int nx, int ny, int rank, int ranks)
{
    int parts[2] = {0, 0};
    MPI_Dims_create(ranks, 2, parts);
    int x = rank % parts[0], y = rank / parts[0];
    MPI_Comm_split(MPI_COMM_WORLD, y, x, &block->row);
    MPI_Comm_split(MPI_COMM_WORLD, x, y, &block->column);
    block->west = x > 0 ? x - 1 : MPI_PROC_NULL;
    block->east = x < parts[0] - 1 ? x + 1 : MPI_PROC_NULL;
    block->south = y > 0 ? y - 1 : MPI_PROC_NULL;
    block->north = y < parts[1] - 1 ? y + 1 : MPI_PROC_NULL;
    split(nx, parts[0], x, &block->first_x, &block->nx);
    split(ny, parts[1], y, &block->first_y, &block->ny);
    size_t points = (size_t)(block->nx + 2) * (size_t)(block->ny + 2);
    block->psi = allocate(points);
    block->next = allocate(points);
    block->force = allocate(points);
    block->sent = allocate((size_t)block->nx + 2);
    block->received = allocate((size_t)block->nx + 2);
}

/* The boundary condition: no water leaves the ocean. The start: none moves. */
SEPARATE static void bc(struct block *block)
{
    size_t bytes = (size_t)(block->nx + 2) * (size_t)(block->ny + 2) * sizeof *block->psi;
    memset(block->psi, 0, bytes);
    memset(block->next, 0, bytes);
}

/* The wind, which only depends on y. */
SEPARATE static void do_force(struct block *block, int ny)
{
    double dy = LY / (ny + 1);
    for (int i = 1; i <= block->nx; i++)
        for (int j = 1; j <= block->ny; j++)
            block->force[at(block->ny, i, j)] = -ALPHA * sin(M_PI * (block->first_y + j - 1) * dy / LY);
}

/* Halo exchange along x: lines of constant i lie one after the other in memory. */
SEPARATE static void do_transfer_x(struct block *block)
{
    int ny = block->ny;
    double *psi = block->psi;
    MPI_Sendrecv(psi + at(ny, block->nx, 1), ny, MPI_DOUBLE, block->east, 1, psi + at(ny, 0, 1), ny, MPI_DOUBLE,
                 block->west, 1, block->row, MPI_STATUS_IGNORE);
    MPI_Sendrecv(psi + at(ny, 1, 1), ny, MPI_DOUBLE, block->west, 2, psi + at(ny, block->nx + 1, 1), ny, MPI_DOUBLE,
                 block->east, 2, block->row, MPI_STATUS_IGNORE);
}

/* Sends line `from` of constant j to a neighbour and takes line `into` from the one on the other side. */
SEPARATE static void shift_line(struct block *block, int from, int destination, int into, int source, int tag)
{
    for (int i = 1; i <= block->nx; i++)
        block->sent[i - 1] = block->psi[at(block->ny, i, from)];
    MPI_Sendrecv(block->sent, block->nx, MPI_DOUBLE, destination, tag, block->received, block->nx, MPI_DOUBLE, source,
                 tag, block->column, MPI_STATUS_IGNORE);
    for (int i = 1; source != MPI_PROC_NULL && i <= block->nx; i++)
        block->psi[at(block->ny, i, into)] = block->received[i - 1];
}

SEPARATE static void do_transfer_y(struct block *block)
{
    shift_line(block, block->ny, block->north, 0, block->south, 3);
    shift_line(block, 1, block->south, block->ny + 1, block->north, 4);
}

SEPARATE static void do_transfer(struct block *block)
{
    do_transfer_x(block);
    do_transfer_y(block);
}

/* One step of Jacobi's method over a block; returns the largest change of a point. */
SEPARATE static double do_jacobi(const double *psi, double *next, const double *force, int nx, int ny,
                                 const struct weights *w)
{
    double largest = 0;
    for (int i = 1; i <= nx; i++) {
        for (int j = 1; j <= ny; j++) {
            size_t k = at(ny, i, j);
            double value = w->east * psi[k + (size_t)ny + 2] + w->west * psi[k - (size_t)ny - 2] +
                           w->side * (psi[k + 1] + psi[k - 1]) - w->force * force[k];
            double change = fabs(value - psi[k]);
            next[k] = value;
            if (change > largest)
                largest = change;
        }
    }
    return largest;
}

SEPARATE static double do_reduce(double value, MPI_Op operation)
{
    double all = 0;
    MPI_Allreduce(&value, &all, 1, MPI_DOUBLE, operation, MPI_COMM_WORLD);
    return all;
}

/* Sum and largest value over the inner points of a field. */
SEPARATE static void measure(const double *psi, int nx, int ny, double *ret_sum, double *ret_max)
{
    double sum = 0, max = 0;
    for (int i = 1; i <= nx; i++) {
        for (int j = 1; j <= ny; j++) {
            double value = psi[at(ny, i, j)];
            sum += value;
            max = value > max ? value : max;
        }
    }
    *ret_sum = sum;
    *ret_max = max;
}

/* The same ocean on one rank, for comparison. */
SEPARATE static void do_serial(int nx, int ny, int steps, double *ret_sum, double *ret_max)
{
    struct block whole = {.nx = nx, .ny = ny, .first_x = 1, .first_y = 1};
    size_t points = (size_t)(nx + 2) * (size_t)(ny + 2);
    whole.psi = allocate(points);
    whole.next = allocate(points);
    whole.force = allocate(points);
    struct weights weights = make_weights(nx, ny);
    do_force(&whole, ny);
    for (int step = 0; step < steps; step++) {
        do_jacobi(whole.psi, whole.next, whole.force, nx, ny, &weights);
        double *old = whole.psi;
        whole.psi = whole.next;
        whole.next = old;
    }
    measure(whole.psi, nx, ny, ret_sum, ret_max);
    free(whole.psi);
    free(whole.next);
    free(whole.force);
}

static bool same(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b));
}

/* On rank 0: whether sum and largest are what they must be; says how it knows. */
SEPARATE static bool check_result(int nx, int ny, int steps, double sum, double max)
{
    double right_sum = 0, right_max = 0;
    const char *source = NULL;
    for (size_t i = 0; i < sizeof known_results / sizeof *known_results; i++) {
        const struct known *known = &known_results[i];
        if (known->nx == nx && known->ny == ny && known->steps == steps) {
            source = "the stored result";
            right_sum = known->sum;
            right_max = known->max;
        }
    }
    if (!source && (double)nx * ny * steps > SERIAL_LIMIT) {
        printf("checked  changes never grew (too large to repeat on one rank)\n");
        return isfinite(sum) && max > 0;
    }
    if (!source) {
        source = "the same on one rank";
        do_serial(nx, ny, steps, &right_sum, &right_max);
    }
    bool right = same(sum, right_sum) && same(max, right_max);
    printf("checked  against %s: %s\n", source, right ? "equal" : "DIFFERENT");
    if (!right)
        printf("         sum %.17g, not %.17g; largest %.17g, not %.17g\n", sum, right_sum, max, right_max);
    return right;
}

/* Repeats Jacobi's step. Returns false if a change grew, which cannot be. */
SEPARATE static bool solve(struct block *block, const struct weights *weights, int steps, int interval, int rank)
{
    /* When the solution is reached, what changes is rounding: of values that ALPHA / (GAMMA (pi / LY)^2) bounds. */
    double rounding = 16 * DBL_EPSILON * ALPHA / (GAMMA * (M_PI / LY) * (M_PI / LY));
    double start = MPI_Wtime(), before = INFINITY;
    for (int step = 1; step <= steps; step++) {
        do_transfer(block);
        double change =
            do_reduce(do_jacobi(block->psi, block->next, block->force, block->nx, block->ny, weights), MPI_MAX);
        double *old = block->psi;
        block->psi = block->next;
        block->next = old;
        if (rank == 0 && (step % interval == 0 || step == steps)) {
            printf("step %7d  change %.6e  %6.2f s\n", step, change, MPI_Wtime() - start);
            fflush(stdout);
        }
        if (change > before + rounding) {
            if (rank == 0)
                printf("step %7d  the change grew from %.17g to %.17g\n", step, before, change);
            return false;
        }
        before = change;
    }
    return true;
}

static void usage(const char *problem, int rank)
{
    if (rank == 0)
        fprintf(stderr, "stommel: %s\nusage: stommel [NX NY STEPS [INTERVAL]]\n", problem);
    MPI_Finalize();
    exit(2);
}

static int number(const char *text, int rank)
{
    char *end;
    long value = strtol(text, &end, 10);
    if (*end || value < 1 || value > 10000000)
        usage("arguments are numbers from 1 to 10000000", rank);
    return (int)value;
}

int main(int argc, char **argv)
{
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc != 1 && argc != 4 && argc != 5)
        usage("there are three arguments, or four, or none", rank);
    int nx = argc > 1 ? number(argv[1], rank) : DEFAULT_NX, ny = argc > 1 ? number(argv[2], rank) : DEFAULT_NY;
    int steps = argc > 1 ? number(argv[3], rank) : DEFAULT_STEPS;
    int interval = argc > 4 ? number(argv[4], rank) : (steps + 7) / 8;

    struct weights weights = make_weights(nx, ny);
    if (weights.west <= 0)
        usage("NX is too small: the grid is too coarse for the western current", rank);
    struct block block = {.nx = 0};
    divide(&block, nx, ny, rank, ranks);
    /* Every rank has to hear of it, or the others would wait for ever. */
    if (do_reduce(block.nx < block.ny ? block.nx : block.ny, MPI_MIN) < 1)
        usage("more ranks than points in one direction", rank);
    if (rank == 0)
        printf("stommel  %d x %d points, %d steps, %d rank%s\n", nx, ny, steps, ranks, ranks == 1 ? "" : "s");

    bc(&block);
    do_force(&block, ny);
    bool right = solve(&block, &weights, steps, interval, rank);

    double sum, max;
    measure(block.psi, block.nx, block.ny, &sum, &max);
    sum = do_reduce(sum, MPI_SUM);
    max = do_reduce(max, MPI_MAX);
    if (rank == 0) {
        printf("result   sum %.12e, largest %.12e\n", sum, max);
        right = check_result(nx, ny, steps, sum, max) && right;
    }
    right = do_reduce(right, MPI_MIN) > 0;

    MPI_Comm_free(&block.row);
    MPI_Comm_free(&block.column);
    free(block.psi);
    free(block.next);
    free(block.force);
    free(block.sent);
    free(block.received);
    MPI_Finalize();
    return right ? 0 : 1;
}
