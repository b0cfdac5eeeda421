/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a record is written in one straight piece, for the hooks that compilers call (hooks_x86_64.S, which says how) and those
 * of patched functions (patched_x86_64.S). `tag`: the end of the labels that lead away from it, each file has its own: at
 * entries plain (nothing was done), back (pending is set), undo (the frame is there, too); at exits again.
 */
#ifndef SCRY_AGENT_HOOKS_RECORD_X86_64_H
#define SCRY_AGENT_HOOKS_RECORD_X86_64_H

#include "agent/system/offsets.h"

        /*
         * A record at an entry: 0 plain, 1 with values (KEPT_MOVES(%rsp): struct agent_moves), 3 with varying ones. rax area,
         * r10 slot index, rdi the function, rsi where it returns to. Uses the registers that a call may change. patched: the
         * function's own address is the hook's, its return address is at 16(%rsp), and it goes on behind this.
         */
        .macro ENTER_RECORD values, tag, patched=0
        movq    agent_self@gottpoff(%rip), %r11
        movq    %fs:SELF_BLOCK(%r11), %r8
        testq   %r8, %r8
        jz      .Lenter_plain\tag
        cmpq    $0, BLOCK_PENDING(%r8)
        jne     .Lenter_plain\tag
        movq    BLOCK_CURSOR(%r8), %r9
        cmpq    $1, %r9                 /* 0, before the first packet, would mean that no hook is at work */
        adcq    $0, %r9
        movq    %r9, BLOCK_PENDING(%r8)
        movq    %rsp, %fs:SELF_WRITER(%r11)

        /* stack known, frame on top older than this one, room on it */
        .if \patched
        leaq    16(%rsp), %rcx
        .else
        leaq    8(%rsp), %rcx
        .endif
        movq    %rcx, %rdx
        subq    %fs:SELF_STACK_LOW(%r11), %rdx
        cmpq    %fs:SELF_STACK_SIZE(%r11), %rdx
        jae     .Lenter_back\tag
        movl    BLOCK_DEPTH(%r8), %r9d
        cmpl    %fs:SELF_FRAME_LIMIT(%r11), %r9d
        jae     .Lenter_back\tag
        movl    %r9d, %edx
        shlq    $FRAME_SHIFT, %rdx
        addq    %fs:SELF_FRAMES(%r11), %rdx
        cmpq    %rcx, FRAME_SP-FRAME_SIZE(%rdx)
        jbe     .Lenter_back\tag

        /* The frame: sp before and after it is counted, since a signal handler in between may have used it. */
        movl    $0, FRAME_FLAGS(%rdx)
        movq    %rcx, FRAME_SP(%rdx)
        incl    %r9d
        movl    %r9d, BLOCK_DEPTH(%r8)
        movq    %rcx, FRAME_SP(%rdx)
        movq    %rdi, FRAME_FUNCTION(%rdx)
        movq    %rsi, FRAME_CALLSITE(%rdx)
        .if \patched
        movq    %rdi, %rcx
        .else
        movq    (%rsp), %rcx
        .endif
        movq    %rcx, FRAME_SITE(%rdx)
        movl    %r10d, FRAME_SLOT(%rdx)
        movq    %fs:SELF_PACKET_SEQ(%r11), %r9
        movq    %r9, FRAME_PACKET_SEQ(%rdx)

        /* Where it is called from, in one of the rows from its own on: r11 the row's number, rdi the row. rcx hook */
        movq    %rax, %r9
        leaq    (%rsi,%rcx), %rdi
        movabsq $0x9e3779b97f4a7c15, %r11
        imulq   %rdi, %r11
        shrq    $40, %r11
        andq    agent_hot+HOT_PLACE_MASK(%rip), %r11
        movq    %r11, %rdi
        shlq    $PLACE_SHIFT, %rdi
        addq    agent_hot+HOT_PLACES(%rip), %rdi
        movl    $PLACE_PROBES, %eax
20:     cmpq    %rsi, (%rdi)
        jne     21f
        cmpq    %rcx, PLACE_HOOK(%rdi)
        jne     21f
        cmpl    %r10d, PLACE_SLOT(%rdi)
        je      22f
21:     incl    %r11d
        addq    $(1 << PLACE_SHIFT), %rdi
        decl    %eax
        jnz     20b
        movq    %rdx, %rsi
        jmp     .Lenter_undo\tag
22:     leal    PLACE_BIT(%r11), %r10d

        /* The record. rcx cursor, rsi frame, rdi area, r10 the record */
        movq    %rdx, %rsi
        .if \values == 3
        movq    %r10, %rdx
        GATHER  %rdi, .Lenter_undo\tag
        movq    %rdx, %r10
        .else
        movq    %r9, %rdi
        .endif
        movq    BLOCK_PENDING(%r8), %rcx
        .if \values == 3
        movq    KEPT_SIZE(%rsp), %r9
        leaq    14(%rcx,%r9), %r9
        .elseif \values
        movq    KEPT_MOVES(%rsp), %r11
        movzwl  MOVES_TOTAL(%r11), %r9d
        addq    %rcx, %r9
        .else
        leaq    8(%rcx), %r9
        .endif
        cmpq    BLOCK_END(%r8), %r9
        ja      .Lenter_undo\tag
        rdtsc
        shlq    $32, %rdx
        orq     %rax, %rdx
        movq    %rdx, FRAME_TIME(%rsi)
        movl    %edx, %eax
        shll    $5, %eax
        shlq    $32, %r10
        orq     %rax, %r10
        movq    %rdx, %rax
        subq    BLOCK_LAST_TIME(%r8), %rax
        shrq    $TIME_BITS, %rax
        jnz     .Lenter_undo\tag
        .if \values
        .if \values == 3
        movq    KEPT_MOVES(%rsp), %r11
        .endif
        movq    MOVES_SITE(%r11), %rax
        movq    SITE_VALUES(%rax), %rax
        cmpq    %rax, MOVES_WORD(%r11)
        jne     .Lenter_undo\tag
        .endif
        movq    %rcx, %rax
        cmpxchgq %r9, BLOCK_CURSOR(%r8)
        jne     .Lenter_undo\tag
        .if \values
        orq     $ID_ENTRY_VALUES, %r10
        .if \values == 3
        addq    %rcx, %rdi
        movq    %r10, (%rdi)
        GATHERED 8
        .else
        MOVES   8
        movq    %r10, -14(%rdi)
        STEPS
        .endif
        .else
        movq    %r10, (%rdi,%rcx)
        .endif
        movl    $FLAG_RECORDED, FRAME_FLAGS(%rsi)
        movq    %rdx, BLOCK_LAST_TIME(%r8)
        movq    $0, BLOCK_PENDING(%r8)
        .ifeq \patched
        ret
        .endif
        .endm

        /* A record at an exit: 0 plain, 1 with values (r8: struct agent_moves), 2 with one byte that is always the same (likewise),
         * as of a result that the compiler removed, 3 with varying values. rax frame, r10 block, r11 self. */
        .macro EXIT_RECORD values, tag
        movq    %rax, %fs:SELF_LEAVING(%r11)
        .if \values
        movl    $(ID_EXIT_VALUES + 1), %fs:SELF_HOLE_ID(%r11)
        .endif
        .if \values == 3
        movq    %rax, %rdx
        movq    %r10, %r8
        GATHER  %rdi, .Lexit_gone
        movq    %rdx, %r11
        movq    %r8, %r10
        .else
        movq    %rax, %r11
        movq    agent_hot+HOT_AREA(%rip), %rdi
        .endif
        movq    BLOCK_PENDING(%r10), %rcx
        .if \values == 3
        movq    KEPT_SIZE(%rsp), %r9
        leaq    22(%rcx,%r9), %r9
        .elseif \values == 2
        leaq    23(%rcx), %r9
        .elseif \values
        movzwl  MOVES_TOTAL(%r8), %r9d
        leaq    8(%rcx,%r9), %r9
        .else
        leaq    4(%rcx), %r9
        .endif
        cmpq    BLOCK_END(%r10), %r9
        ja      .Lexit_again\tag
        rdtsc
        shlq    $32, %rdx
        orq     %rax, %rdx
        movq    %rdx, %rax
        subq    BLOCK_LAST_TIME(%r10), %rax
        shrq    $TIME_BITS, %rax
        jnz     .Lexit_again\tag
        .if \values
        .if \values == 3
        movq    KEPT_MOVES(%rsp), %r8
        .endif
        movq    MOVES_SITE(%r8), %rax
        movq    SITE_VALUES(%rax), %rax
        cmpq    %rax, MOVES_WORD(%r8)
        jne     .Lexit_again\tag
        .endif
        movq    %rcx, %rax
        cmpxchgq %r9, BLOCK_CURSOR(%r10)
        jne     .Lexit_again\tag
        movl    %edx, %eax
        shll    $5, %eax
        .if \values
        orl     $ID_EXIT_VALUES, %eax
        .if \values == 2
        addq    %rcx, %rdi
        movl    %eax, (%rdi)
        movl    FRAME_SLOT(%r11), %ecx
        movl    %ecx, 4(%rdi)
        movq    MOVES_TEMPLATE(%r8), %r8
        movq    %r8, 15(%rdi) /* layout, size and the byte; what is before them comes next */
        movq    FRAME_TIME(%r11), %rax
        movq    %rax, 8(%rdi)
        movl    $0, FRAME_FLAGS(%r11)
        decl    BLOCK_DEPTH(%r10)
        movq    %rdx, BLOCK_LAST_TIME(%r10)
        DONE    %r10
        .else
        movq    %r11, %rsi
        .if \values == 3
        addq    %rcx, %rdi
        movl    %eax, (%rdi)
        movl    FRAME_SLOT(%rsi), %eax
        movl    %eax, 4(%rdi)
        movq    FRAME_TIME(%rsi), %rax
        movq    %rax, 8(%rdi)
        movq    %r10, %r8
        GATHERED 16
        .else
        MOVES   16 %r8
        movl    %eax, -22(%rdi)
        movl    FRAME_SLOT(%rsi), %eax
        movl    %eax, -18(%rdi)
        movq    FRAME_TIME(%rsi), %rax
        movq    %rax, -14(%rdi)
        movq    %r8, %r11
        movq    %r10, %r8
        STEPS
        .endif
        movl    $0, FRAME_FLAGS(%rsi)
        decl    BLOCK_DEPTH(%r8)
        movq    %rdx, BLOCK_LAST_TIME(%r8)
        DONE    %r8
        .endif
        .else
        orl     $ID_EXIT, %eax
        movl    %eax, (%rdi,%rcx)
        decl    BLOCK_DEPTH(%r10)
        movq    %rdx, BLOCK_LAST_TIME(%r10)
        movq    $0, BLOCK_PENDING(%r10)
        .endif
        .endm

#endif
