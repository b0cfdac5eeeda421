/* SPDX-License-Identifier: Apache-2.0 */
/* Rank 0 sends 40 bytes, then 8, to rank 1, whose first buffer is too short: that receive fails, and says so; the second gets all. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    char bytes[40] = {0};
    int rank, code = MPI_SUCCESS, kind = MPI_SUCCESS;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (rank == 0) {
        MPI_Send(bytes, sizeof bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
        MPI_Send(bytes, 8, MPI_BYTE, 1, 2, MPI_COMM_WORLD);
    } else if (rank == 1) {
        code = MPI_Recv(bytes, 4, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Error_class(code, &kind);
        MPI_Recv(bytes, 8, MPI_BYTE, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        printf("%s\n", kind == MPI_ERR_TRUNCATE ? "truncated" : "not truncated");
    }
    MPI_Finalize();
    return 0;
}
