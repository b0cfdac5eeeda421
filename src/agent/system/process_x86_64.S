/* SPDX-License-Identifier: Apache-2.0 */
/* long process_clone(unsigned long flags, void *stack_high, void *tid, int (*fn)(void *), void *arg): see process.h. */
#include <asm/unistd.h>

    .text
    .hidden process_clone
    .globl  process_clone
    .type   process_clone, @function
process_clone:
    .cfi_startproc
    endbr64
    andq    $-16, %rsi
    subq    $16, %rsi
    movq    %rcx, (%rsi)
    movq    %r8, 8(%rsi)
    movq    %rdx, %r10
    xorl    %r8d, %r8d
    movl    $__NR_clone, %eax
    syscall
    testq   %rax, %rax
    jz      .Lchild
    ret
.Lchild:
    .cfi_undefined rip
    xorl    %ebp, %ebp
    popq    %rax
    popq    %rdi
    call    *%rax
    movl    %eax, %edi
    movl    $__NR_exit_group, %eax
    syscall
    hlt
    .cfi_endproc
    .size   process_clone, . - process_clone

    .section .note.GNU-stack, "", @progbits
