/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the interposer calls the agent: notes what its caller needs kept, as a hook does, so that after a fault of ours
 * (agent/crash.c) the program goes on behind the call.
 */
#include "agent/offsets.h"

        .text

        .macro  GUARDED name, to
        .globl  \name
        .hidden \name
        .type   \name, @function
        .p2align 4
\name:
        .cfi_startproc
        subq    $REGS_SIZE + 8, %rsp
        .cfi_adjust_cfa_offset REGS_SIZE + 8
        movq    %rbx, 3*8(%rsp)
        movq    %rbp, 6*8(%rsp)
        leaq    REGS_SIZE + 16(%rsp), %rax
        movq    %rax, 7*8(%rsp)
        movq    %r12, 12*8(%rsp)
        movq    %r13, 13*8(%rsp)
        movq    %r14, 14*8(%rsp)
        movq    %r15, 15*8(%rsp)
        movq    REGS_SIZE + 8(%rsp), %rax
        movq    %rax, 16*8(%rsp)
        movq    %rsp, %rcx
        call    \to
        addq    $REGS_SIZE + 8, %rsp
        .cfi_adjust_cfa_offset -(REGS_SIZE + 8)
        ret
        .cfi_endproc
        .size   \name, . - \name
        .endm

        GUARDED agent_mpi_begins, mpi_tell_begins
        GUARDED agent_mpi_ends, mpi_tell_ends
        GUARDED agent_mpi_message, mpi_tell_message

        .section .note.GNU-stack, "", @progbits
