/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stuck WAY: three ranks that cannot go on, or hardly.
 *
 *     tag        rank 0 receives another tag than rank 1 sent, and both go to a barrier
 *     wildcard   all receive from anybody
 *     waitall    0 and 1 wait in MPI_Waitall for each other's message, which neither sends; 2 waits for 0
 *     split      as deadlock, but on a made communicator where the ranks have other numbers
 *     ended      rank 0 receives from rank 1, which is done
 *     roots      MPI_Bcast of much, with different roots
 *     read       all write to a pipe file nobody reads: rank 1 computes (reads a fifo), the others wait for it
 *     ibarrier   0 and 2 wait for the end of MPI_Ibarrier, 1 sleeps
 */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static double numbers[300000];

int main(int argc, char **argv)
{
    int rank, other;
    const char *way = argc > 1 ? argv[1] : "";
    MPI_Request requests[2];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    other = rank == 0 ? 1 : 0;
    if (strcmp(way, "tag") == 0) {
        if (rank == 1)
            MPI_Send(numbers, 1, MPI_DOUBLE, 0, 6, MPI_COMM_WORLD);
        if (rank == 0)
            MPI_Recv(numbers, 1, MPI_DOUBLE, 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
    } else if (strcmp(way, "wildcard") == 0) {
        MPI_Recv(numbers, 1, MPI_DOUBLE, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (strcmp(way, "waitall") == 0 && rank < 2) {
        MPI_Irecv(numbers, 1, MPI_DOUBLE, other, 1, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(numbers + 1, 1, MPI_DOUBLE, 2, 1, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    } else if (strcmp(way, "waitall") == 0) {
        MPI_Recv(numbers, 1, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (strcmp(way, "split") == 0) {
        MPI_Comm turned;
        MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &turned); /* world rank 2 is 0 there, 0 is 2 */
        if (rank != 1)
            MPI_Recv(numbers, 1, MPI_DOUBLE, rank, 1, turned, MPI_STATUS_IGNORE);
    } else if (strcmp(way, "ended") == 0) {
        if (rank == 0)
            MPI_Recv(numbers, 1, MPI_DOUBLE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (strcmp(way, "roots") == 0) {
        MPI_Bcast(numbers, 300000, MPI_DOUBLE, rank == 1 ? 1 : 0, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
    } else if (strcmp(way, "read") == 0) {
        char byte;
        if (rank == 1) {
            int fd = open("fifo", O_RDWR);
            ssize_t got = fd < 0 ? -1 : read(fd, &byte, 1);
            (void)got;
        }
        MPI_Barrier(MPI_COMM_WORLD);
    } else if (strcmp(way, "ibarrier") == 0) {
        if (rank == 1)
            sleep(1000);
        MPI_Ibarrier(MPI_COMM_WORLD, &requests[0]);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    }
    MPI_Finalize();
    return 0;
}
