/* SPDX-License-Identifier: Apache-2.0 */
/* What read.c and victim.c have no C for. */
#include <asm/unistd.h>

/*
 * int agent_copy(void *dst, uint64_t src, size_t size): 0, or -1 after a fault that the signal handler sent on to
 * agent_copy_fixup. Nothing is on the stack but the return address at any instruction between the labels, so the fixup
 * can simply return. General registers only.
 */
    .text
    .hidden agent_copy
    .globl  agent_copy
    .hidden agent_copy_end
    .globl  agent_copy_end
    .hidden agent_copy_fixup
    .globl  agent_copy_fixup
    .type   agent_copy, @function
    .balign 64
agent_copy:
    .cfi_startproc
    endbr64
    cmpq    $8, %rdx
    jb      .Lshort
    cmpq    $16, %rdx
    ja      .Llong
    movq    (%rsi), %rax
    movq    -8(%rsi,%rdx), %rcx
    movq    %rax, (%rdi)
    movq    %rcx, -8(%rdi,%rdx)
    xorl    %eax, %eax
    ret
.Lshort:
    cmpl    $4, %edx
    jb      .Ltiny
    movl    (%rsi), %eax
    movl    -4(%rsi,%rdx), %ecx
    movl    %eax, (%rdi)
    movl    %ecx, -4(%rdi,%rdx)
    xorl    %eax, %eax
    ret
.Ltiny:
    testl   %edx, %edx
    jz      .Ldone
    movzbl  (%rsi), %eax
    movb    %al, (%rdi)
    cmpl    $2, %edx
    jb      .Ldone
    movzwl  -2(%rsi,%rdx), %eax
    movw    %ax, -2(%rdi,%rdx)
.Ldone:
    xorl    %eax, %eax
    ret
.Llong:
    cmpq    $256, %rdx
    jae     .Lstring
    xorl    %ecx, %ecx
    subq    $8, %rdx
.Lloop:
    movq    (%rsi,%rcx), %rax
    movq    %rax, (%rdi,%rcx)
    addq    $8, %rcx
    cmpq    %rdx, %rcx
    jb      .Lloop
    movq    (%rsi,%rdx), %rax
    movq    %rax, (%rdi,%rdx)
    xorl    %eax, %eax
    ret
.Lstring:
    movq    %rdx, %rcx
    rep movsb
    xorl    %eax, %eax
    ret
agent_copy_end:
agent_copy_fixup:
    movl    $-1, %eax
    ret
    .cfi_endproc
    .size   agent_copy, . - agent_copy

/*
 * long victim_clone(unsigned long flags, void *stack_high, void *tid, int (*fn)(void *), void *arg): clone(flags) on the
 * given stack (its high end), where fn(arg) runs, with whose result it exits. The process id, or -errno.
 */
    .hidden victim_clone
    .globl  victim_clone
    .type   victim_clone, @function
victim_clone:
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
    .size   victim_clone, . - victim_clone

    .section .note.GNU-stack, "", @progbits
