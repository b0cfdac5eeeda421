! SPDX-License-Identifier: Apache-2.0
! The calls that calls_f08.f90 makes, with `use mpi`.
program calls
  use mpi
  implicit none
  integer :: rank, size, left, right, ierr, request(2), half, i
  integer :: status(MPI_STATUS_SIZE)
  double precision :: out(10), in(10)
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, size, ierr)
  left = mod(rank + size - 1, size)
  right = mod(rank + 1, size)
  out = rank
  do i = 1, 3
    call MPI_Sendrecv(out, 4, MPI_DOUBLE_PRECISION, right, 1, in, 10, MPI_DOUBLE_PRECISION, left, 1, MPI_COMM_WORLD, status, ierr)
  end do
  call MPI_Irecv(in, 10, MPI_DOUBLE_PRECISION, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, request(1), ierr)
  call MPI_Isend(out, 5, MPI_DOUBLE_PRECISION, left, 2, MPI_COMM_WORLD, request(2), ierr)
  call MPI_Waitall(2, request, MPI_STATUSES_IGNORE, ierr)
  call MPI_Allreduce(MPI_IN_PLACE, in, 2, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierr)
  call MPI_Bcast(in, 10, MPI_DOUBLE_PRECISION, 0, MPI_COMM_WORLD, ierr)
  call MPI_Comm_split(MPI_COMM_WORLD, mod(rank, 2), 0, half, ierr)
  call MPI_Barrier(half, ierr)
  call MPI_Comm_free(half, ierr)
  call MPI_Send(out, 3, MPI_DOUBLE_PRECISION, MPI_PROC_NULL, 3, MPI_COMM_WORLD, ierr)
  if (rank == 0) print '(A, F6.1)', 'sum', in(1)
  call MPI_Finalize(ierr)
end program
