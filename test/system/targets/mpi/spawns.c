/* SPDX-License-Identifier: Apache-2.0 */
/* spawns: starts two processes more by MPI_Comm_spawn, which get a number from its rank 0, and end before it. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    MPI_Comm parent, other;
    int rank, number = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_get_parent(&parent);
    if (parent == MPI_COMM_NULL) {
        MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other, MPI_ERRCODES_IGNORE);
        number = 42;
        MPI_Bcast(&number, 1, MPI_INT, rank == 0 ? MPI_ROOT : MPI_PROC_NULL, other);
    } else {
        other = parent;
        MPI_Bcast(&number, 1, MPI_INT, 0, other);
    }
    printf("%s %d has %d\n", parent == MPI_COMM_NULL ? "parent" : "child", rank, number);
    MPI_Comm_disconnect(&other);
    MPI_Finalize();
    return 0;
}
