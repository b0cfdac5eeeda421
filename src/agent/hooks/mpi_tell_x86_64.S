/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the interposer calls the agent: notes what its caller needs kept, as a hook does, so that after a fault of ours
 * (agent/safety/crash.c) the program goes on behind the call.
 */
#include "agent/system/offsets.h"

        .text

        /* regs: the argument that is what was kept */
        .macro  GUARDED name, to, regs
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
        movb    $0, REGS_PATCHED(%rsp)
        movq    %rsp, %\regs
        call    \to
        addq    $REGS_SIZE + 8, %rsp
        .cfi_adjust_cfa_offset -(REGS_SIZE + 8)
        ret
        .cfi_endproc
        .size   \name, . - \name
        .endm

        GUARDED agent_mpi_begins, mpi_tell_begins, r8
        GUARDED agent_mpi_ends, mpi_tell_ends, r8
        GUARDED agent_mpi_acts, mpi_tell_acts, rcx
        GUARDED agent_mpi_messages, mpi_tell_messages, rsi

        .section .note.GNU-stack, "", @progbits
