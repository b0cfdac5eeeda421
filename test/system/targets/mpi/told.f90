! SPDX-License-Identifier: Apache-2.0
! told GO OUT: as told.c, in Fortran: rank 0 sends to rank 1, counts what it sends, and says so in OUT.0.
program told
    use mpi
    implicit none
    integer, parameter :: rounds = 12
    integer :: rank, error, round, sent, sends, handle, bytes
    double precision :: numbers(100)
    character(len=2000) :: go, out
    logical :: there
    call get_command_argument(1, go)
    call get_command_argument(2, out)
    call MPI_Init(error)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
    there = .false.
    do while (.not. there)
        inquire(file=trim(go), exist=there)
    end do
    sends = 0
    bytes = 0
    numbers = 1
    do round = 1, rounds
        sent = round * 2
        if (rank == 0) then
            call MPI_Send(numbers, sent, MPI_DOUBLE_PRECISION, 1, 40 + round, MPI_COMM_WORLD, error)
            sends = sends + 1
            bytes = bytes + 8 * sent
        else if (rank == 1) then
            call MPI_Recv(numbers, 100, MPI_DOUBLE_PRECISION, 0, 40 + round, MPI_COMM_WORLD, MPI_STATUS_IGNORE, error)
        end if
    end do
    call MPI_Barrier(MPI_COMM_WORLD, error)
    if (rank == 0) then
        open(newunit=handle, file=trim(out)//'.0', status='replace')
        write(handle, '(a,i0)') 'sends ', sends, 'bytes ', bytes, 'barriers ', 1
        close(handle)
    end if
    call MPI_Finalize(error)
end program told
