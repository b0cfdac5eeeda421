/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that were compiled without hooks (patched.h): what a stub calls at their entry, and what they return to.
 *
 * All general registers are kept, also those that calls may change: within a file compilers know which ones a function
 * changes, and have values in the others (gcc -fipa-ra). Flags are nobody's at entries and returns.
 *
 * A trampoline is 16 bytes: a call to .Lreturned, and in its last 4 how far it is from there to its record (struct
 * patched_call), which begins with the true return address. Unwinders are told so by one FDE for all: the word below the
 * stack pointer, where the function has returned from, has the trampoline's address (and, for an instant, 5 more). Its
 * frame's canonical address is odd, for libgcc takes frames of the same address for one. What it says of the stack pointer:
 * it stays.
 */
#include "agent/system/offsets.h"

        .text

        .macro SAVE
        movq    %rax, 0*8(%rsp)
        movq    %rdx, 1*8(%rsp)
        movq    %rcx, 2*8(%rsp)
        movq    %rbx, 3*8(%rsp)
        movq    %rsi, 4*8(%rsp)
        movq    %rdi, 5*8(%rsp)
        movq    %rbp, 6*8(%rsp)
        movq    %r8, 8*8(%rsp)
        movq    %r9, 9*8(%rsp)
        movq    %r10, 10*8(%rsp)
        movq    %r11, 11*8(%rsp)
        movq    %r12, 12*8(%rsp)
        movq    %r13, 13*8(%rsp)
        movq    %r14, 14*8(%rsp)
        movq    %r15, 15*8(%rsp)
        movb    $0, REGS_HAS_XMM(%rsp)
        movb    $0, REGS_HAS_RESULT(%rsp)
        .endm

        /* What C may have changed. */
        .macro RESTORE
        movq    0*8(%rsp), %rax
        movq    1*8(%rsp), %rdx
        movq    2*8(%rsp), %rcx
        movq    4*8(%rsp), %rsi
        movq    5*8(%rsp), %rdi
        movq    8*8(%rsp), %r8
        movq    9*8(%rsp), %r9
        movq    10*8(%rsp), %r10
        movq    11*8(%rsp), %r11
        .endm

        /* At (%rsp) where the stub goes on, then how far the function is from there, then the return address. */
        .p2align 4
        .globl  agent_patched_entry
        .hidden agent_patched_entry
        .type   agent_patched_entry, @function
agent_patched_entry:
        .cfi_startproc
        .cfi_def_cfa rsp, 24
        leaq    -(REGS_SIZE + 8)(%rsp), %rsp
        .cfi_adjust_cfa_offset REGS_SIZE + 8
        SAVE
        movb    $PATCHED_ENTRY, REGS_PATCHED(%rsp)
        leaq    (REGS_SIZE + 8 + 16)(%rsp), %rax
        movq    %rax, 7*8(%rsp)
        movq    (REGS_SIZE + 8)(%rsp), %rax
        addq    (REGS_SIZE + 8 + 8)(%rsp), %rax
        movq    %rax, 16*8(%rsp)
        movq    %rsp, %rdi
        call    agent_patched_enter
        RESTORE
        leaq    (REGS_SIZE + 8)(%rsp), %rsp
        .cfi_adjust_cfa_offset -(REGS_SIZE + 8)
        ret     $8
        .cfi_endproc
        .size   agent_patched_entry, . - agent_patched_entry

        /* At (%rsp), where the return address was, that of the trampoline's call: it becomes the trampoline's own, and at last the
         * true one. */
        .p2align 4
        .type   .Lreturned, @function
.Lreturned:
        .cfi_startproc
        subq    $PATCHED_CALL, (%rsp)
        leaq    -(REGS_SIZE + 8)(%rsp), %rsp
        .cfi_adjust_cfa_offset REGS_SIZE + 8
        SAVE
        movb    $PATCHED_EXIT, REGS_PATCHED(%rsp)
        leaq    (REGS_SIZE + 8)(%rsp), %rax
        movq    %rax, 7*8(%rsp)
        movq    $0, 16*8(%rsp)
        movq    %rsp, %rdi
        call    agent_patched_leave
        RESTORE
        leaq    (REGS_SIZE + 8)(%rsp), %rsp
        .cfi_adjust_cfa_offset -(REGS_SIZE + 8)
        ret
        .cfi_endproc
        .size   .Lreturned, . - .Lreturned

        .p2align 4
        .globl  agent_patched_trampolines
        .hidden agent_patched_trampolines
        .type   agent_patched_trampolines, @function
        .cfi_startproc
        .cfi_def_cfa rsp, 1
        /* return address: at the place that *(CFA - 9) & -16 leads to: lit9 minus deref const1s(-16) and plus_uconst(12) dup
         * deref_size(4) plus */
        .cfi_escape 0x10, 16, 12, 0x39, 0x1c, 0x06, 0x09, 0xf0, 0x1a, 0x23, 12, 0x12, 0x94, 4, 0x22
        /* stack pointer: CFA - 1 */
        .cfi_escape 0x16, 7, 2, 0x31, 0x1c
        .skip   16, 0x90                        /* unwinders look one byte before a return address */
agent_patched_trampolines:
        .set    number, 0
        .rept   PATCHED_CALLS
        call    .Lreturned
        .byte   0x0f, 0x1f, 0x80, 0, 0, 0, 0
        .long   agent_patched_calls + number * PATCHED_CALL_SIZE - .
        .set    number, number + 1
        .endr
        .cfi_endproc
        .size   agent_patched_trampolines, . - agent_patched_trampolines

        .section .note.GNU-stack, "", @progbits
