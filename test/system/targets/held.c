/* SPDX-License-Identifier: Apache-2.0 */
/*
 * held GO PROGRESS: calls step(), which may be held by a request, until the file GO is there. Meanwhile PROGRESS says
 * how often so far and how many microseconds the longest call took. With -DMPI_RANKS, two ranks call MPI_Sendrecv
 * instead, and each has its own PROGRESS.RANK.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int over; /* told by rank 0 to both */

#ifdef MPI_RANKS
#include <mpi.h>

static int rank;

static void step(int told)
{
    int other = 0;
    MPI_Sendrecv(&told, 1, MPI_INT, 1 - rank, 7, &other, 1, MPI_INT, 1 - rank, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    over = told || other;
}
#else
enum { rank };

void step(int told);
__attribute__((noinline)) void step(int told)
{
    over = told;
}
#endif

static long now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int main(int argc, char **argv)
{
    char path[4096], text[64];
    long longest = 0;
#ifdef MPI_RANKS
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    snprintf(path, sizeof path, "%s.%d", argv[2], rank);
#else
    snprintf(path, sizeof path, "%s", argv[2]);
#endif
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    for (long calls = 1; !over; calls++) {
        int told = rank == 0 && access(argv[1], F_OK) == 0;
        long begin = now_us();
        step(told);
        long took = now_us() - begin;
        longest = took > longest ? took : longest;
        int size = snprintf(text, sizeof text, "%12ld %12ld\n", calls, longest);
        if (pwrite(fd, text, (size_t)size, 0) != size)
            return 3;
        usleep(200);
    }
#ifdef MPI_RANKS
    MPI_Finalize();
#endif
    return 0;
}
