/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In place of a library of Fortran's wrappers: one that calls C as those do, with a call for its own purposes on the
 * way, and one that only tells what it finds in the registers.
 */
#include <mpi.h>
#include <stdint.h>

#pragma GCC visibility push(default)
void mpi_send_(void *buf, int *count, int *datatype, int *dest, int *tag, int *comm, int *error);
void mpi_comm_size_(int *comm, int *size, int *error);

void mpi_send_(void *buf, int *count, int *datatype, int *dest, int *tag, int *comm, int *error)
{
    int size;
    PMPI_Comm_size((MPI_Comm)(intptr_t)*comm, &size);
    *error = PMPI_Send(buf, *count, (MPI_Datatype)(intptr_t)*datatype, *dest, *tag, (MPI_Comm)(intptr_t)*comm);
}

void mpi_comm_size_(int *comm, int *size, int *error)
{
    *error = PMPI_Comm_size((MPI_Comm)(intptr_t)*comm, size);
}

/* rax = address of 24 numbers: what the registers were comes there */
__asm__(".text\n"
        ".globl mpi_finalize_\n"
        ".type mpi_finalize_, @function\n"
        "mpi_finalize_:\n"
        "movq %rbx, (%rax)\n movq %rcx, 8(%rax)\n movq %rdx, 16(%rax)\n movq %rsi, 24(%rax)\n movq %rdi, 32(%rax)\n"
        "movq %rbp, 40(%rax)\n movq %r8, 48(%rax)\n movq %r9, 56(%rax)\n movq %r10, 64(%rax)\n movq %r12, 72(%rax)\n"
        "movq %r13, 80(%rax)\n movq %r14, 88(%rax)\n movq %r15, 96(%rax)\n movq %rsp, 104(%rax)\n"
        "movsd %xmm0, 112(%rax)\n movsd %xmm7, 120(%rax)\n"
        "pushfq\n popq 128(%rax)\n"
        "ret\n"
        ".size mpi_finalize_, . - mpi_finalize_\n");
