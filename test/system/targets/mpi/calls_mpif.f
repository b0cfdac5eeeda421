! SPDX-License-Identifier: Apache-2.0
! The calls that calls_f08.f90 makes, in the oldest style:
! include 'mpif.h'.
      program calls
      implicit none
      include 'mpif.h'
      integer rank, size, left, right, ierr, request(2), half, i
      integer status(MPI_STATUS_SIZE), statuses(MPI_STATUS_SIZE, 2)
      double precision out(10), in(10)
      call MPI_INIT(ierr)
      call MPI_COMM_RANK(MPI_COMM_WORLD, rank, ierr)
      call MPI_COMM_SIZE(MPI_COMM_WORLD, size, ierr)
      left = mod(rank + size - 1, size)
      right = mod(rank + 1, size)
      out = rank
      do i = 1, 3
        call MPI_SENDRECV(out, 4, MPI_DOUBLE_PRECISION, right, 1,
     &      in, 10, MPI_DOUBLE_PRECISION, left, 1, MPI_COMM_WORLD,
     &      status, ierr)
      end do
      call MPI_IRECV(in, 10, MPI_DOUBLE_PRECISION, MPI_ANY_SOURCE,
     &    MPI_ANY_TAG, MPI_COMM_WORLD, request(1), ierr)
      call MPI_ISEND(out, 5, MPI_DOUBLE_PRECISION, left, 2,
     &    MPI_COMM_WORLD, request(2), ierr)
      call MPI_WAITALL(2, request, statuses, ierr)
      call MPI_ALLREDUCE(MPI_IN_PLACE, in, 2, MPI_DOUBLE_PRECISION,
     &    MPI_SUM, MPI_COMM_WORLD, ierr)
      call MPI_BCAST(in, 10, MPI_DOUBLE_PRECISION, 0, MPI_COMM_WORLD,
     &    ierr)
      call MPI_COMM_SPLIT(MPI_COMM_WORLD, mod(rank, 2), 0, half, ierr)
      call MPI_BARRIER(half, ierr)
      call MPI_COMM_FREE(half, ierr)
      call MPI_SEND(out, 3, MPI_DOUBLE_PRECISION, MPI_PROC_NULL, 3,
     &    MPI_COMM_WORLD, ierr)
      if (rank .eq. 0) print '(A, F6.1)', 'sum', in(1)
      call MPI_FINALIZE(ierr)
      end program
