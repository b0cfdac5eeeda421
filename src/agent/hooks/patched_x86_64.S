/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that were compiled without hooks (patched.h): what a stub calls at their entry, and what they return to.
 *
 * All general registers are kept, also those that calls may change: within a file compilers know which ones a function
 * changes, and have values in the others (gcc -fipa-ra). Flags are nobody's at entries and returns.
 *
 * A trampoline is 16 bytes, with a call to .Lreturned. PATCHED_RECORDS behind each is its record (struct patched_call), which
 * begins with the true return address. Unwinders are told so by one FDE for all: the word below the stack pointer, where
 * the function has returned from, has the trampoline's address (and, for an instant, 5 more). With operations that
 * Valgrind knows. Its frame's canonical address is odd, for libgcc takes frames of the same address for one. What it says
 * of the stack pointer: it stays.
 */
#include "agent/hooks/record_x86_64.inc"

        .text

        /* What the short way uses, in the red zone: signal handlers leave it alone. patched_fault() knows the order. The way out does
         * not use the last two. */
        .macro KEEP exit=0
        movq    %rax, -8(%rsp)
        movq    %rdx, -16(%rsp)
        movq    %rcx, -24(%rsp)
        movq    %rdi, -32(%rsp)
        movq    %r9, -40(%rsp)
        movq    %r10, -48(%rsp)
        movq    %r11, -56(%rsp)
        .ifeq \exit
        movq    %rsi, -64(%rsp)
        movq    %r8, -72(%rsp)
        .endif
        .endm

        .macro PUT_BACK exit=0
        movq    -8(%rsp), %rax
        movq    -16(%rsp), %rdx
        movq    -24(%rsp), %rcx
        movq    -32(%rsp), %rdi
        movq    -40(%rsp), %r9
        movq    -48(%rsp), %r10
        movq    -56(%rsp), %r11
        .ifeq \exit
        movq    -64(%rsp), %rsi
        movq    -72(%rsp), %r8
        .endif
        .endm

        .macro STACK_LEFT else
        movq    agent_altstack_low@gottpoff(%rip), %rcx
        movq    %rsp, %rax
        subq    %fs:(%rcx), %rax
        cmpq    $(HOOK_CONNECT_STACK + REGS_SIZE + 128), %rax
        jb      \else
        .endm

        /* The record of a trampoline, from the thread's own list or back to it, in one instruction, see list_change(). r11: self. Uses
         * rax, rcx, rdx. */
        .macro CALL_TAKE call, else
1:      movq    %fs:SELF_PATCHED_FREE(%r11), %rax
        movq    %rax, %rcx
        shrq    $32, %rcx
        jz      \else
        leaq    agent_patched_calls-PATCHED_TRAMPOLINE(%rip), \call
        addq    %rcx, \call
        movl    CALL_NEXT(\call), %edx
        shlq    $32, %rdx
        leal    1(%rax), %ecx
        orq     %rcx, %rdx
        cmpxchgq %rdx, %fs:SELF_PATCHED_FREE(%r11)
        jne     1b
        .endm

        .macro CALL_GIVE call
1:      movq    %fs:SELF_PATCHED_FREE(%r11), %rax
        movq    %rax, %rcx
        shrq    $32, %rcx
        movl    %ecx, CALL_NEXT(\call)
        leaq    agent_patched_calls-PATCHED_TRAMPOLINE(%rip), %rcx
        movq    \call, %rdx
        subq    %rcx, %rdx
        shlq    $32, %rdx
        leal    1(%rax), %ecx
        orq     %rcx, %rdx
        cmpxchgq %rdx, %fs:SELF_PATCHED_FREE(%r11)
        jne     1b
        .endm

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
        KEEP
        movq    8(%rsp), %rdi
        addq    (%rsp), %rdi
        movq    16(%rsp), %rsi
        movq    agent_hot+HOT_AREA(%rip), %rax
        testq   %rax, %rax
        jz      .Lentry_slow
        cmpl    $0, AREA_ON(%rax)
        je      .Lentry_done
        leaq    agent_patched_trampolines(%rip), %rcx   /* it was jumped to */
        movq    %rsi, %rdx
        subq    %rcx, %rdx
        cmpq    $(PATCHED_CALLS * PATCHED_TRAMPOLINE), %rdx
        jb      .Lentry_slow
        SLOT_FIND .Lentry_slow, %r10
        cmpl    $MODE_RECORD, SLOT_MODE(%r11)
        jne     .Lentry_slow
        cmpl    $0, AREA_MAX_DEPTH(%rax)
        jne     .Lentry_slow
        cmpq    $0, AREA_MIN_TICKS(%rax)
        jne     .Lentry_slow
        movq    %rax, %r8
        movq    agent_self@gottpoff(%rip), %r11
        movq    %rsp, %rdx              /* not on another stack: it may be another thread's, with this one's variables */
        subq    %fs:SELF_STACK_LOW(%r11), %rdx
        cmpq    %fs:SELF_STACK_SIZE(%r11), %rdx
        jae     .Lentry_slow
        CALL_TAKE %r9, .Lentry_slow
        movq    %r9, -80(%rsp)
        decl    %fs:SELF_PATCHED_KEPT(%r11)
        movq    %r8, %rax
        ENTER_RECORD 0, p, 1

        /* The record of the trampoline first, then its address: rsi frame */
        movq    -80(%rsp), %r9
        movq    FRAME_CALLSITE(%rsi), %rax
        movq    %rax, (%r9)
        movq    FRAME_FUNCTION(%rsi), %rax
        movq    %rax, CALL_FUNCTION(%r9)
        leaq    16(%rsp), %rax
        movq    %rax, CALL_SP(%r9)
        subq    $PATCHED_RECORDS, %r9
        movq    %r9, 16(%rsp)
.Lentry_done:
        PUT_BACK
        ret     $8

        /* Not so plain: the long way. Takes back what was done. */
.Lenter_undop:
        decl    BLOCK_DEPTH(%r8)
.Lenter_backp:
        movq    $0, BLOCK_PENDING(%r8)
.Lenter_plainp:
        movq    agent_self@gottpoff(%rip), %r11
        movq    -80(%rsp), %r9
        CALL_GIVE %r9
        incl    %fs:SELF_PATCHED_KEPT(%r11)
        /* A handler's stack may have no room for that. */
agent_patched_entry_slow:
.Lentry_slow:
        STACK_LEFT .Lentry_done
        PUT_BACK
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
        .globl  agent_patched_return, agent_patched_return_slow, agent_patched_entry_slow
        .hidden agent_patched_return, agent_patched_return_slow, agent_patched_entry_slow
        .type   .Lreturned, @function
agent_patched_return:
.Lreturned:
        .cfi_startproc
        subq    $PATCHED_CALL, (%rsp)
        KEEP    1
        movq    agent_hot+HOT_AREA(%rip), %rdi
        testq   %rdi, %rdi
        jz      .Lexit_slow
        movq    (%rsp), %r9
        addq    $PATCHED_RECORDS, %r9
        movq    %r9, -80(%rsp)
        movq    agent_self@gottpoff(%rip), %r11
        movq    %fs:SELF_BLOCK(%r11), %r10
        testq   %r10, %r10
        jz      .Lexit_slow
        cmpq    $0, BLOCK_PENDING(%r10)
        jne     .Lexit_slow
        cmpq    %rsp, CALL_SP(%r9)
        jne     .Lexit_slow
        cmpl    $PATCHED_KEPT_MOST, %fs:SELF_PATCHED_KEPT(%r11)
        jge     .Lexit_slow
        movq    BLOCK_CURSOR(%r10), %rax
        cmpq    $1, %rax
        adcq    $0, %rax
        movq    %rax, BLOCK_PENDING(%r10)
        leaq    -8(%rsp), %rax
        movq    %rax, %fs:SELF_WRITER(%r11)

        /* rax the frame on top: this call's, and no other's before it at the same place, which was jumped from */
        movl    BLOCK_DEPTH(%r10), %eax
        shlq    $FRAME_SHIFT, %rax
        addq    %fs:SELF_FRAMES(%r11), %rax
        subq    $FRAME_SIZE, %rax
        movq    CALL_FUNCTION(%r9), %rdi
        cmpq    %rdi, FRAME_FUNCTION(%rax)
        jne     .Lexit_back
        cmpq    %rsp, FRAME_SP(%rax)
        jne     .Lexit_back
        cmpq    %rsp, FRAME_SP-FRAME_SIZE(%rax)
        je      .Lexit_back
        cmpl    $FLAG_RECORDED, FRAME_FLAGS(%rax)
        jne     .Lexit_back
        movl    FRAME_SLOT(%rax), %edi
        shlq    $SLOT_SHIFT, %rdi
        addq    agent_hot+HOT_SLOTS(%rip), %rdi
        cmpl    $MODE_RECORD, SLOT_MODE(%rdi)
        jne     .Lexit_back
        movq    FRAME_PACKET_SEQ(%rax), %rdi
        cmpq    %fs:SELF_PACKET_SEQ(%r11), %rdi
        jne     .Lexit_back
        EXIT_RECORD 0, p

        /* The return address first, then the record is free. */
        movq    agent_self@gottpoff(%rip), %r11
        movq    -80(%rsp), %r9
        movq    (%r9), %rax
        movq    %rax, (%rsp)
        movq    $0, CALL_SP(%r9)
        CALL_GIVE %r9
        incl    %fs:SELF_PATCHED_KEPT(%r11)
        PUT_BACK 1
        ret
.Lexit_againp:
.Lexit_back:
        movq    $0, BLOCK_PENDING(%r10)
agent_patched_return_slow:
.Lexit_slow:
        STACK_LEFT .Lexit_unseen
        PUT_BACK 1
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
        /* Nobody sees its end. */
.Lexit_unseen:
        movq    (%rsp), %r9
        addq    $PATCHED_RECORDS, %r9
        movq    (%r9), %rax
        movq    %rax, (%rsp)
        movq    $0, CALL_SP(%r9)
        movq    agent_self@gottpoff(%rip), %r11
        CALL_GIVE %r9
        incl    %fs:SELF_PATCHED_KEPT(%r11)
        PUT_BACK 1
        ret
        .cfi_endproc
        .size   .Lreturned, . - .Lreturned

        .section .patched, "ax", @progbits
        .globl  agent_patched_trampolines, agent_patched_calls, agent_patched_places
        .hidden agent_patched_trampolines, agent_patched_calls, agent_patched_places
        .type   agent_patched_trampolines, @function
        .type   agent_patched_calls, @object
        .p2align 12
        .skip   4096 - 16
        .cfi_startproc
        .cfi_def_cfa rsp, 1
        /* return address: saved at (*(CFA - 9) & -16) + PATCHED_RECORDS: lit9 minus deref const1s(-16) and plus_uconst */
        .cfi_escape 0x10, 16, 10, 0x39, 0x1c, 0x06, 0x09, 0xf0, 0x1a, 0x23, 0x80, 0x80, 0x10
        /* stack pointer: CFA - 1 */
        .cfi_escape 0x16, 7, 2, 0x31, 0x1c
        .skip   16, 0x90                        /* unwinders look one byte before a return address */
agent_patched_trampolines:
        .rept   PATCHED_CALLS
        call    .Lreturned
        .skip   PATCHED_TRAMPOLINE - PATCHED_CALL, 0xcc
        .endr
        .cfi_endproc
        .size   agent_patched_trampolines, . - agent_patched_trampolines

        /* The records, and behind them as much for places on stacks: whole pages that nobody may write to, so that they do not count as
         * the program's data (ulimit -d). Where functions are patched, memory is mapped over them. */
agent_patched_calls:
        .skip   PATCHED_RECORDS
agent_patched_places:
        .skip   PATCHED_RECORDS
        .size   agent_patched_calls, . - agent_patched_calls

        .section .note.GNU-stack, "", @progbits
