/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries that are not C functions: they are passed through with all arguments as they are, those on the stack too.
 *
 * The stubs of Fortran. Its names (mpi_send_, mpi_send_f08_ ...) have no wrappers: the library's own convert arguments
 * and call C names, which have. What is lost on the way is who called; a stub notes that and jumps on to the original.
 * Nothing but r11 is changed, as on any way through a procedure linkage table.
 */
#include "mpi/wrap/wrap.h"

        .text
        .globl  mpi_stub_pool
        .hidden mpi_stub_pool
        .type   mpi_stub_pool, @function
        .p2align 6
mpi_stub_pool:
        .cfi_startproc
        .set    number, 0
        .rept   MPI_STUBS
        .p2align 6
        endbr64
        pushq   %rax
        .cfi_adjust_cfa_offset 8
        movq    8(%rsp), %rax
        movq    mpi_fortran_caller@gottpoff(%rip), %r11
        movq    %rax, %fs:(%r11)
        movq    $number, %fs:8(%r11)
        popq    %rax
        .cfi_adjust_cfa_offset -8
        movq    mpi_stub_targets + 8 * number(%rip), %r11
        jmp     *%r11
        .set    number, number + 1
        .endr
        .cfi_endproc
        .size   mpi_stub_pool, . - mpi_stub_pool

/* Entries of calls by the table (wrap.h). */
        .globl  mpi_table_pool
        .hidden mpi_table_pool
        .type   mpi_table_pool, @function
        .p2align 4
mpi_table_pool:
        .cfi_startproc
        .set    number, 0
        .rept   MPI_TABLE_ENTRIES
        .p2align 4
        endbr64
        movl    $number, %r10d
        jmp     mpi_table_entered
        .set    number, number + 1
        .endr
        .cfi_endproc
        .size   mpi_table_pool, . - mpi_table_pool

/* The number is in r10d. All arguments are integers or addresses. */
        .globl  mpi_table_entered
        .hidden mpi_table_entered
        .type   mpi_table_entered, @function
        .p2align 4
mpi_table_entered:
        .cfi_startproc
        endbr64
        .irp    register, r9, r8, rcx, rdx, rsi, rdi
        pushq   %\register
        .cfi_adjust_cfa_offset 8
        .endr
        movq    %rsp, %rdi
        movl    %r10d, %esi
        subq    $8, %rsp
        .cfi_adjust_cfa_offset 8
        call    mpi_by_table
        addq    $8, %rsp
        .cfi_adjust_cfa_offset -8
        movq    %rdx, %r11
        .irp    register, rdi, rsi, rdx, rcx, r8, r9
        popq    %\register
        .cfi_adjust_cfa_offset -8
        .endr
        testq   %r11, %r11
        jnz     1f
        movq    %rax, %xmm0 /* MPI_Wtime returns it there */
        ret
1:      jmp     *%r11
        .cfi_endproc
        .size   mpi_table_entered, . - mpi_table_entered

/* MPI_Pcontrol(int level, ...): noted first, then gone to. */
        .macro PCONTROL name kind
        .globl  \name
        .hidden \name
        .type   \name, @function
        .p2align 4
\name:
        .cfi_startproc
        endbr64
        subq    $200, %rsp
        .cfi_adjust_cfa_offset 200
        movq    %rdi, (%rsp)
        movq    %rsi, 8(%rsp)
        movq    %rdx, 16(%rsp)
        movq    %rcx, 24(%rsp)
        movq    %r8, 32(%rsp)
        movq    %r9, 40(%rsp)
        movq    %rax, 48(%rsp)
        movaps  %xmm0, 64(%rsp)
        movaps  %xmm1, 80(%rsp)
        movaps  %xmm2, 96(%rsp)
        movaps  %xmm3, 112(%rsp)
        movaps  %xmm4, 128(%rsp)
        movaps  %xmm5, 144(%rsp)
        movaps  %xmm6, 160(%rsp)
        movaps  %xmm7, 176(%rsp)
        movq    200(%rsp), %rsi
        movl    $\kind, %edx
        call    mpi_pcontrol_entered
        movq    %rax, %r11
        movq    (%rsp), %rdi
        movq    8(%rsp), %rsi
        movq    16(%rsp), %rdx
        movq    24(%rsp), %rcx
        movq    32(%rsp), %r8
        movq    40(%rsp), %r9
        movq    48(%rsp), %rax
        movaps  64(%rsp), %xmm0
        movaps  80(%rsp), %xmm1
        movaps  96(%rsp), %xmm2
        movaps  112(%rsp), %xmm3
        movaps  128(%rsp), %xmm4
        movaps  144(%rsp), %xmm5
        movaps  160(%rsp), %xmm6
        movaps  176(%rsp), %xmm7
        addq    $200, %rsp
        .cfi_adjust_cfa_offset -200
        jmp     *%r11
        .cfi_endproc
        .size   \name, . - \name
        .endm

        PCONTROL scry_MPI_Pcontrol, 0
        PCONTROL scry_PMPI_Pcontrol, 1

        .section .note.GNU-stack, "", @progbits
