! SPDX-License-Identifier: Apache-2.0
! Calls of each class with `use mpi_f08`: three messages to the right, one to the left, reductions in place, a made
! communicator. The other styles make the same calls on lines of their own.
program calls
  use mpi_f08
  implicit none
  integer :: rank, size, left, right, i
  type(MPI_Request) :: request(2)
  type(MPI_Status) :: status
  type(MPI_Comm) :: half
  double precision :: out(10), in(10)
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, size)
  left = mod(rank + size - 1, size)
  right = mod(rank + 1, size)
  out = rank
  do i = 1, 3
    call MPI_Sendrecv(out, 4, MPI_DOUBLE_PRECISION, right, 1, in, 10, MPI_DOUBLE_PRECISION, left, 1, MPI_COMM_WORLD, status)
  end do
  call MPI_Irecv(in, 10, MPI_DOUBLE_PRECISION, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, request(1))
  call MPI_Isend(out, 5, MPI_DOUBLE_PRECISION, left, 2, MPI_COMM_WORLD, request(2))
  call MPI_Waitall(2, request, MPI_STATUSES_IGNORE)
  call MPI_Allreduce(MPI_IN_PLACE, in, 2, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD)
  call MPI_Bcast(in, 10, MPI_DOUBLE_PRECISION, 0, MPI_COMM_WORLD)
  call MPI_Comm_split(MPI_COMM_WORLD, mod(rank, 2), 0, half)
  call MPI_Barrier(half)
  call MPI_Comm_free(half)
  call MPI_Send(out, 3, MPI_DOUBLE_PRECISION, MPI_PROC_NULL, 3, MPI_COMM_WORLD)
  if (rank == 0) print '(A, F6.1)', 'sum', in(1)
  call MPI_Finalize()
end program
