! SPDX-License-Identifier: Apache-2.0
! Each line with `call MPI_...` is one call, executed once, in this order: that is what test_fortran.py expects to be
! seen. Compiled three times: with USE_F08, with USE_MPI, and with neither for mpif.h.
program test_fortran
#ifdef USE_F08
  use mpi_f08
#elif defined(USE_MPI)
  use mpi
#endif
  implicit none
#if !defined(USE_F08) && !defined(USE_MPI)
  include 'mpif.h'
#endif
#ifdef USE_F08
  type(MPI_Request) :: requests(2)
  type(MPI_Comm) :: comm
  type(MPI_Datatype) :: pair, types(1)
  type(MPI_Status) :: status
#else
  integer :: requests(2), comm, pair, types(1), status(MPI_STATUS_SIZE)
#endif
  integer :: ierror, rank, size, a(4), b(4), counts(1), places(1)
  double precision :: time

  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, size, ierror)
  a = rank
  b = 17
  call MPI_Irecv(b, 4, MPI_INTEGER, rank, 7, MPI_COMM_WORLD, requests(1), ierror)
  call MPI_Isend(a, 4, MPI_INTEGER, rank, 7, MPI_COMM_WORLD, requests(2), ierror)
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, ierror)
  if (b(4) /= rank) stop 1
  call MPI_Sendrecv(a, 4, MPI_INTEGER, rank, 8, b, 4, MPI_INTEGER, rank, 8, MPI_COMM_WORLD, status, ierror)
  call MPI_Bcast(a, 4, MPI_INTEGER, 0, MPI_COMM_WORLD, ierror)
  a = 3
  call MPI_Allreduce(MPI_IN_PLACE, a, 4, MPI_INTEGER, MPI_SUM, MPI_COMM_SELF, ierror)
  if (a(2) /= 3) stop 2
  call MPI_Gather(a, 4, MPI_INTEGER, b, 4, MPI_INTEGER, 0, MPI_COMM_SELF, ierror)
  counts = 4
  places = 0
  types = MPI_INTEGER
  call MPI_Alltoallw(a, counts, places, types, b, counts, places, types, MPI_COMM_SELF, ierror)
  if (b(3) /= 3) stop 3
  call MPI_Comm_dup(MPI_COMM_WORLD, comm, ierror)
  call MPI_Barrier(comm, ierror)
  call MPI_Comm_free(comm, ierror)
  call MPI_Type_contiguous(2, MPI_INTEGER, pair, ierror)
  call MPI_Type_commit(pair, ierror)
  call MPI_Type_free(pair, ierror)
  time = MPI_Wtime()
  call MPI_Finalize(ierror)
end program
