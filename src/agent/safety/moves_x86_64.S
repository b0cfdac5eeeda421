/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps of values (moves.h; what each does is in offsets.h). rsp is the hook's, rbx, rbp and r12 to r15 are as the
 * hook found them; r11 is the next step, rcx is free, rdi where the next value goes, rax what is computed,
 * r9 where to go at the end (on an AMD EPYC that is quicker than call and return); r10 is free; rdx, rsi and r8 stay.
 */
#include "agent/system/offsets.h"

        .text

        .macro  NEXT
        addq    $MOVE_SIZE, %r11
        notrack jmp *-MOVE_SIZE(%r11)
        .endm

        /* Most steps begin with it. */
        .macro  NUMBER
        movq    -8(%r11), %rcx
        .endm

        .p2align 4
        .globl  agent_moves_begin, agent_moves_end
        .hidden agent_moves_begin, agent_moves_end
        .type   agent_moves_begin, @function
agent_moves_begin:
        .cfi_startproc
.Lmove_END:
        notrack jmp *%r9

        /* The end of a step for so many bytes; after: what its name ends with. */
        .macro DONE after, size
        .ifb \after
        addq    $\size, %rdi
        NEXT
        .else
        notrack jmp *%r9
        .endif
        .endm

        .macro RUN name, size, base, register, move, count, after
.Lmove_\name\()_\size\()_RUN_\count\after:
        .set    .Lrun, 0
        .rept   \count
        movslq  4*.Lrun-8(%r11), %rcx
        \move  (\base,%rcx), \register
        \move  \register, \size*.Lrun(%rdi)
        .set    .Lrun, .Lrun+1
        .endr
        .ifb \after
        addq    $(MOVE_SIZE*((\count+1)/4)), %r11
        .endif
        DONE    \after, (\size*\count)
        .endm

        .macro COPIES name, base, after
.Lmove_\name\()_1\after:
        NUMBER
        movzbl  (\base,%rcx), %r10d
        movb    %r10b, (%rdi)
        DONE    \after, 1
.Lmove_\name\()_2\after:
        NUMBER
        movzwl  (\base,%rcx), %r10d
        movw    %r10w, (%rdi)
        DONE    \after, 2
.Lmove_\name\()_4\after:
        NUMBER
        movl    (\base,%rcx), %r10d
        movl    %r10d, (%rdi)
        DONE    \after, 4
.Lmove_\name\()_8\after:
        NUMBER
        movq    (\base,%rcx), %r10
        movq    %r10, (%rdi)
        DONE    \after, 8
        .irp    count, 2, 3, 4, 5, 6, 7, 8
        RUN     \name, 4, \base, %r10d, movl, \count, \after
        RUN     \name, 8, \base, %r10, movq, \count, \after
        .endr
        .endm

        .macro REGISTER_OUTS name, whole, low, after
.Lmove_\name\()_4\after:
        .ifc \low, %ecx
        NUMBER
        .endif
        movl    \low, (%rdi)
        DONE    \after, 4
.Lmove_\name\()_8\after:
        .ifc \whole, %rcx
        NUMBER
        .endif
        movq    \whole, (%rdi)
        DONE    \after, 8
        .endm

        .macro NUMBER_OUTS name, byte, half, low, whole, after
.Lmove_\name\()_1\after:
        .ifc \byte, %cl
        NUMBER
        .endif
        movb    \byte, (%rdi)
        DONE    \after, 1
.Lmove_\name\()_2\after:
        .ifc \half, %cx
        NUMBER
        .endif
        movw    \half, (%rdi)
        DONE    \after, 2
        REGISTER_OUTS \name, \whole, \low, \after
        .endm

        .macro OUTS after
        COPIES  RSP, %rsp, \after
        COPIES  AT_RBP, %rbp, \after
        REGISTER_OUTS RBX, %rbx, %ebx, \after
        REGISTER_OUTS RBP, %rbp, %ebp, \after
        REGISTER_OUTS R12, %r12, %r12d, \after
        REGISTER_OUTS R13, %r13, %r13d, \after
        REGISTER_OUTS R14, %r14, %r14d, \after
        REGISTER_OUTS R15, %r15, %r15d, \after
        NUMBER_OUTS OUT, %al, %ax, %eax, %rax, \after
        NUMBER_OUTS NUMBER, %cl, %cx, %ecx, %rcx, \after
        .endm
        OUTS
        OUTS    _END

        .macro GETS name, base
.Lmove_GET_\name\()_1:
        NUMBER
        movzbl  (\base,%rcx), %eax
        NEXT
.Lmove_GET_\name\()_2:
        NUMBER
        movzwl  (\base,%rcx), %eax
        NEXT
.Lmove_GET_\name\()_4:
        NUMBER
        movl    (\base,%rcx), %eax
        NEXT
.Lmove_GET_\name\()_8:
        NUMBER
        movq    (\base,%rcx), %rax
        NEXT
        .endm
        GETS    RSP, %rsp
        GETS    AT_RBP, %rbp

        .macro OF_REGISTER name, whole
.Lmove_GET_\name:
        movq    \whole, %rax
        NEXT
.Lmove_ADD_\name:
        addq    \whole, %rax
        NEXT
.Lmove_SUB_\name:
        subq    \whole, %rax
        NEXT
.Lmove_MUL_\name:
        imulq   \whole, %rax
        NEXT
        .endm
        OF_REGISTER RBX, %rbx
        OF_REGISTER RBP, %rbp
        OF_REGISTER R12, %r12
        OF_REGISTER R13, %r13
        OF_REGISTER R14, %r14
        OF_REGISTER R15, %r15

.Lmove_SET:
        movq    -8(%r11), %rax
        NEXT
.Lmove_PUT:
        NUMBER
        movq    %rax, (%rsp,%rcx)
        NEXT
.Lmove_INCREASE:
        addq    -8(%r11), %rax
        NEXT

        /* Each is entered twice: with a number, and with one in memory. */
        .macro ALU name
.Lmove_\name:
        NUMBER
        movq    (%rsp,%rcx), %rcx
        jmp     .Lmove_\name\()_GOT
.Lmove_\name\()_NUMBER:
        NUMBER
.Lmove_\name\()_GOT:
        .endm
        .macro PLAIN name, code
        ALU     \name
        \code  %rcx, %rax
        NEXT
        .endm
        .macro SHIFT name, code
        ALU     \name
        xorl    %r10d, %r10d
        \code  %cl, %rax
        cmpq    $64, %rcx
        cmovaeq %r10, %rax
        NEXT
        .endm
        .macro COMPARE name, code
        ALU     \name
        cmpq    %rcx, %rax
        \code  %al
        movzbl  %al, %eax
        NEXT
        .endm
        .macro UPPER name, code
        ALU     \name
        movq    %rdx, %r10
        \code  %rcx
        movq    %rdx, %rax
        movq    %r10, %rdx
        NEXT
        .endm
        PLAIN   ADD, addq
        PLAIN   SUB, subq
        PLAIN   MUL, imulq
        PLAIN   AND, andq
        PLAIN   OR, orq
        PLAIN   XOR, xorq
        SHIFT   SHL, shlq
        SHIFT   SHR, shrq
        ALU     SAR
        movl    $63, %r10d
        cmpq    %r10, %rcx
        cmovaq  %r10, %rcx
        sarq    %cl, %rax
        NEXT
        COMPARE EQUAL, sete
        COMPARE AT_MOST, setbe
        COMPARE LESS, setb
        COMPARE LESS_SIGNED, setl
        UPPER   MUL_HIGH, mulq
        UPPER   MUL_HIGH_SIGNED, imulq
        .cfi_endproc
agent_moves_end:
        .size   agent_moves_begin, . - agent_moves_begin

        /* A step that is a function, below the red zone. */
        .set    CALL_ROOM, 128 + 56
        .macro CALL_BEGIN
        .cfi_startproc
        leaq    -CALL_ROOM(%rsp), %rsp
        .cfi_adjust_cfa_offset CALL_ROOM
        movq    %rdx, (%rsp)
        movq    %rsi, 8(%rsp)
        movq    %rdi, 16(%rsp)
        movq    %r8, 24(%rsp)
        movq    %r9, 32(%rsp)
        movq    %r11, 40(%rsp)
        movq    %rax, %rsi
        .endm
        .macro CALL_END function
        call    \function
        movq    (%rsp), %rdx
        movq    8(%rsp), %rsi
        movq    16(%rsp), %rdi
        movq    24(%rsp), %r8
        movq    32(%rsp), %r9
        movq    40(%rsp), %r11
        leaq    CALL_ROOM(%rsp), %rsp
        .cfi_adjust_cfa_offset -CALL_ROOM
        .endm

        .macro COMPUTE name, function
.Lmove_\name:
        NUMBER
        movslq  %ecx, %r10
        movq    (%rsp,%r10), %r10
        CALL_BEGIN
        shrq    $32, %rcx
        movl    %ecx, %edi
        movq    %r10, %rdx
        CALL_END \function
        NEXT
        .cfi_endproc
        .endm
        COMPUTE COMPUTE, capture_compute
        COMPUTE COMPUTE_FLOAT, capture_compute_float
.Lmove_FOLLOW:
        NUMBER
        CALL_BEGIN
        movq    %rcx, %rdx
        CALL_END agent_moves_follow
        movq    %rax, %rdi
        NEXT
        .cfi_endproc
.Lmove_STRING:
        NUMBER
        CALL_BEGIN
        movq    %rcx, %rdx
        CALL_END agent_moves_string
        movq    %rax, %rdi
        NEXT
        .cfi_endproc

        .section .rodata
        .p2align 2
        .globl  agent_moves_code
        .hidden agent_moves_code
        .type   agent_moves_code, @object
agent_moves_code:
#define MOVE_CODE(name) .long .Lmove_##name - agent_moves_code;
        MOVE_CODES(MOVE_CODE)
#undef MOVE_CODE
        .size   agent_moves_code, . - agent_moves_code

        .section .note.GNU-stack, "", @progbits
