/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of libc that the agent has to hear of, but whose caller must stay who it is (dlopen and dlsym look at their
 * return address), or whose arguments cannot be passed on in C (makecontext). Each calls its part in modules.c, with
 * the first arguments, and goes on to the real function, which that returned.
 */
        .text

        .macro PASS name part
        .globl  \name
        .type   \name, @function
        .p2align 4
\name:
        .cfi_startproc
        endbr64
        pushq   %rdi
        .cfi_adjust_cfa_offset 8
        pushq   %rsi
        .cfi_adjust_cfa_offset 8
        pushq   %rdx
        .cfi_adjust_cfa_offset 8
        pushq   %rcx
        .cfi_adjust_cfa_offset 8
        pushq   %r8
        .cfi_adjust_cfa_offset 8
        pushq   %r9
        .cfi_adjust_cfa_offset 8
        pushq   %rax
        .cfi_adjust_cfa_offset 8
        leaq    7*8(%rsp), %rdi         /* a patched function may have jumped here: its caller is who calls */
        call    patched_uncover
        movq    6*8(%rsp), %rdi
        movq    5*8(%rsp), %rsi
        movq    4*8(%rsp), %rdx
        call    \part
        movq    %rax, %r11
        popq    %rax
        .cfi_adjust_cfa_offset -8
        popq    %r9
        .cfi_adjust_cfa_offset -8
        popq    %r8
        .cfi_adjust_cfa_offset -8
        popq    %rcx
        .cfi_adjust_cfa_offset -8
        popq    %rdx
        .cfi_adjust_cfa_offset -8
        popq    %rsi
        .cfi_adjust_cfa_offset -8
        popq    %rdi
        .cfi_adjust_cfa_offset -8
        jmp     *%r11
        .cfi_endproc
        .size   \name, . - \name
        .endm

        PASS dlopen, modules_dlopen
        PASS dlmopen, modules_dlmopen
        PASS dlsym, modules_dlsym
        PASS makecontext, modules_makecontext
        PASS syscall, modules_syscall

        .section .note.GNU-stack, "", @progbits
