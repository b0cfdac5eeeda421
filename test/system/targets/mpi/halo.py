# SPDX-License-Identifier: Apache-2.0
"""Three messages of 80 bytes to the right neighbour, and one sum, with mpi4py."""
import array

from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.Get_rank(), comm.Get_size()
mine, theirs = array.array("d", [rank] * 10), array.array("d", [0] * 10)
for _ in range(3):
    comm.Sendrecv([mine, MPI.DOUBLE], (rank + 1) % size, 1, [theirs, MPI.DOUBLE], (rank - 1) % size, 1)
total = array.array("d", [0])
comm.Allreduce([array.array("d", [rank]), MPI.DOUBLE], [total, MPI.DOUBLE])
if rank == 0:
    print("total", total[0])
