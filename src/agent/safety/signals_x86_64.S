/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent_signal_entry: what the kernel calls. Asks agent_signal_handle (signals.c) and either returns, or goes on to the
 * program's handler exactly as the kernel would have entered it: same three arguments, the kernel's frame (or its copy
 * on the stack that the program's handler would have had) right below it, so that it returns to the kernel itself.
 *
 * __sigsetjmp: leaves the word with the signals that the program believes blocked in the unused end of the saved mask,
 * for siglongjmp (signals_interpose.c), and goes on to the real one, which returns to the caller.
 */
#include <asm/unistd.h>

    .text
    .hidden agent_signal_entry
    .globl  agent_signal_entry
    .type   agent_signal_entry, @function
agent_signal_entry:
    .cfi_startproc
    endbr64
    subq    $40, %rsp           /* struct chain: handler, frame, info, context; signal */
    .cfi_adjust_cfa_offset 40
    movq    %rdi, 32(%rsp)
    leaq    40(%rsp), %rcx
    movq    %rsp, %r8
    cld
    call    agent_signal_handle
    testl   %eax, %eax
    jz      .Lreturn
    movq    (%rsp), %r11
    movq    32(%rsp), %rdi
    movq    16(%rsp), %rsi
    movq    24(%rsp), %rdx
    movq    8(%rsp), %rsp
    .cfi_adjust_cfa_offset -40
    xorl    %eax, %eax
    jmp     *%r11
    .cfi_adjust_cfa_offset 40
.Lreturn:
    addq    $40, %rsp
    .cfi_adjust_cfa_offset -40
    ret
    .cfi_endproc
    .size   agent_signal_entry, . - agent_signal_entry

/* Debuggers and unwinders know a signal's frame by these very bytes at the return address. */
    .hidden sigset_restorer
    .globl  sigset_restorer
    .type   sigset_restorer, @function
    .balign 16
    nop
sigset_restorer:
    movq    $__NR_rt_sigreturn, %rax
    syscall
    .size   sigset_restorer, . - sigset_restorer

    .globl  __sigsetjmp
    .type   __sigsetjmp, @function
    .balign 16
__sigsetjmp:
    .cfi_startproc
    endbr64
    testl   %esi, %esi
    jz      .Lgo_on
    movq    agent_signals_blocked@gottpoff(%rip), %rax
    movq    %fs:(%rax), %rax
    movabsq $0x7363727900000000, %rcx /* SIGNALS_TAG */
    orq     %rcx, %rax
    movq    %rax, 192(%rdi)     /* SIGNALS_TAG_AT */
.Lgo_on:
    movq    agent_real_sigsetjmp(%rip), %rax
    testq   %rax, %rax
    jz      .Lfind
    jmp     *%rax
.Lfind:
    pushq   %rdi
    .cfi_adjust_cfa_offset 8
    pushq   %rsi
    .cfi_adjust_cfa_offset 8
    subq    $8, %rsp
    .cfi_adjust_cfa_offset 8
    call    agent_find_sigsetjmp
    addq    $8, %rsp
    .cfi_adjust_cfa_offset -8
    popq    %rsi
    .cfi_adjust_cfa_offset -8
    popq    %rdi
    .cfi_adjust_cfa_offset -8
    jmp     .Lgo_on
    .cfi_endproc
    .size   __sigsetjmp, . - __sigsetjmp

    .section .note.GNU-stack, "", @progbits
