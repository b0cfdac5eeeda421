/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hooks that compilers call (-finstrument-functions): rdi is the function, rsi the return address into its caller;
 * at (%rsp) the hook's own return address, the site.
 *
 * What is not chosen leaves after one look at the filter. A function that is recorded, with values that agent/safety/moves.h
 * can say or without, or counted, no more and no less, on a stack that is known, with room in the packet, is done here
 * in one straight piece; everything else is a case for hooks.c and gets the registers as they are now. Up to the point
 * where that is decided only rax, r10 and r11 are used, and those are kept in the red zone (-8, -16, -24): signal
 * handlers leave it alone.
 *
 * Space is reserved by a compare-and-exchange that needs no lock: it is only a signal handler of this same thread that
 * may have been there since `pending` was set, and then it is all done again, with the time read anew, so that times in
 * a packet never go back. The cursor is read before the time for the same reason. What a handler that never comes back
 * (siglongjmp) leaves half done is set right by the next hook: record_recover.
 */
#include "agent/hooks/record_x86_64.inc"

        .text

        .globl  agent_hooks_begin, agent_hooks_end
        .hidden agent_hooks_begin, agent_hooks_end
agent_hooks_begin:

        /* Greater than 0: look on; less: the function may be quiet. */
        .macro FILTER bit
        movq    %rax, -8(%rsp)
        movq    %r10, -16(%rsp)
        imull   $FILTER_FACTOR, %edi, %eax
        shrl    $16, %eax
        leaq    agent_filter(%rip), %r10
        testb   $(\bit | FILTER_QUIET), (%r10,%rax)
        .endm

        /* The function's place among those that are quiet, rax as FILTER leaves it: r10 and rax together. */
        .macro QUIET
        andl    $QUIET_BITS, %eax
        leaq    agent_hot+HOT_QUIET(%rip), %r10
        .endm

        /* Whether the slot's function, its hook returning to (%rsp), has values that are taken in the short way: r11
         * its agent_moves, as long as the site's word is what it was: looked at later, where it holds up nothing. */
        .macro MOVES_FIND other, else
        movabsq $0x9e3779b97f4a7c15, %r11
        imulq   (%rsp), %r11
        shrq    $48, %r11
        movq    agent_moves_table(%rip), \other
        movq    (\other,%r11,8), %r11
        testq   %r11, %r11
        jz      \else
        movq    (%rsp), \other
        cmpq    \other, MOVES_ADDRESS(%r11)
        jne     \else
        .endm

        /* Where there is nothing: the site's place is still as it was, too. */
        .macro MOVES_CHECK other, else
        movq    MOVES_SITE(%r11), \other
        movq    SITE_VALUES(\other), \other
        cmpq    \other, MOVES_WORD(%r11)
        jne     \else
        movq    MOVES_SITE(%r11), \other
        movq    (\other), \other
        cmpq    \other, MOVES_SITE_ADDRESS(%r11)
        jne     \else
        .endm

        /* Writes layout and size at `head` of a record (rcx of the area, rdi; r11 or else: its agent_moves); the two bytes before
         * them come next. rdi becomes where its values go. */
        .macro MOVES head moves=%r11
        leaq    (\head+6)(%rdi,%rcx), %rdi
        movq    MOVES_HEAD(\moves), %rcx
        movq    %rcx, -8(%rdi)
        .endm

        /* Writes the values: r11 struct agent_moves, rdi where they go. Leaves rdx, rsi, r8. */
        .macro STEPS
        cmpw    $0, MOVES_KEEPS(%r11)
        je      15f
        movq    %rbx, KEPT_RBX(%rsp)
        movq    %rbp, KEPT_RBP(%rsp)
        movq    %r12, KEPT_R12(%rsp)
        movq    %r13, KEPT_R13(%rsp)
        movq    %r14, KEPT_R14(%rsp)
        movq    %r15, KEPT_R15(%rsp)
15:     addq    $(MOVES_LIST+MOVE_SIZE), %r11
        leaq    16f(%rip), %r9
        notrack jmp *-MOVE_SIZE(%r11)
16:
        .endm

        /* Before the record is reserved: its varying values are put into SELF_POINTED, their size into KEPT_SIZE(%rsp). Then
         * `area` is the area anew. Leaves rdx, rsi, r8. */
        .macro GATHER area, else
        movq    KEPT_MOVES(%rsp), %r11
        movq    %fs:0, %rdi
        addq    agent_self@gottpoff(%rip), %rdi
        addq    $SELF_POINTED, %rdi
        STEPS
        subq    $SELF_POINTED, %rdi
        subq    agent_self@gottpoff(%rip), %rdi
        subq    %fs:0, %rdi
        movq    %rdi, KEPT_SIZE(%rsp)
        movq    agent_hot+HOT_AREA(%rip), \area
        testq   \area, \area
        jz      \else
        .endm

        /* As MOVES, of what was gathered: 8 bytes at least. */
        .macro GATHERED head
        movq    KEPT_MOVES(%rsp), %r11
        movl    MOVES_LAYOUT(%r11), %eax
        movl    %eax, \head(%rdi)
        movq    KEPT_SIZE(%rsp), %rcx
        movw    %cx, \head+4(%rdi)
        addq    $(\head+6), %rdi
        movq    %fs:0, %r11
        addq    agent_self@gottpoff(%rip), %r11
        subq    $8, %rcx
        movq    SELF_POINTED(%r11,%rcx), %rax
        movq    %rax, (%rdi,%rcx)
        xorl    %r9d, %r9d
17:     movq    SELF_POINTED(%r11,%r9), %rax
        movq    %rax, (%rdi,%r9)
        addq    $8, %r9
        cmpq    %rcx, %r9
        jb      17b
        .endm

        /* Are pointers followed directly? */
        .macro MOVES_CAN area, else
        cmpl    $0, AREA_READER(\area)
        jne     \else
        cmpl    $0, agent_signals_careful(%rip)
        jne     \else
        .endm

        /* r11 struct agent_moves: is all of the frame in reach? */
        .macro MOVES_NEAR other, else
        movq    %rbp, \other
        subq    %rsp, \other
        addq    MOVES_RBP_BIAS(%r11), \other
        cmpq    MOVES_RBP_LIMIT(%r11), \other
        ja      \else
        .endm

        /* A thread's count of function r10 - 1 is not at its place, rcx: at the other one, or one that is free: `found`. Else r10 is
         * the slot. No other thread takes any. */
        .macro COUNT_ELSEWHERE found
        xorq    $COUNT_SIZE, %rcx
        cmpl    %r10d, (%rcx)
        je      \found
        xorq    $COUNT_SIZE, %rcx
        xorl    %eax, %eax
        cmpxchgl %r10d, (%rcx)
        je      \found
        xorq    $COUNT_SIZE, %rcx
        xorl    %eax, %eax
        cmpxchgl %r10d, (%rcx)
        je      \found
        decl    %r10d
        shlq    $SLOT_SHIFT, %r10
        addq    agent_hot+HOT_SLOTS(%rip), %r10
        .endm

        /* A function that is not even counted, see quiet_begin; else others of its byte. Here, for a branch back costs them less
         * than one over it costs what is not chosen. */
        .p2align 6
        .cfi_startproc
.Lenter_quiet:
        QUIET
        cmpq    %rdi, (%r10,%rax)
        jne     .Lenter_look
        ret
        .p2align 6
        .globl  __cyg_profile_func_enter
        .type   __cyg_profile_func_enter, @function
__cyg_profile_func_enter:
        FILTER  FILTER_ENTER
        jg      .Lenter_look
        js      .Lenter_quiet
        ret
        .p2align 4
.Lenter_look:
        movq    %r11, -24(%rsp)
        movq    agent_hot+HOT_AREA(%rip), %rax
        testq   %rax, %rax
        jz      .Lenter_full
        cmpl    $0, AREA_ON(%rax)
        je      2f
        SLOT_FIND .Lenter_full, %r10
        cmpl    $MODE_RECORD, SLOT_MODE(%r11)
        jne     .Lenter_more
.Lenter_record:
        cmpl    $0, AREA_MAX_DEPTH(%rax)
        jne     .Lenter_full
        cmpq    $0, AREA_MIN_TICKS(%rax)
        jne     .Lenter_full
        ENTER_RECORD 0, 0

        /* Not so plain: the long way. Takes back what was done. */
.Lenter_undo0:
        movq    FRAME_FUNCTION(%rsi), %rdi
        movq    FRAME_CALLSITE(%rsi), %rsi
        decl    BLOCK_DEPTH(%r8)
.Lenter_back0:
        movq    $0, BLOCK_PENDING(%r8)
.Lenter_plain0:
        xorl    %eax, %eax
        jmp     .Lenter_slow
.Lenter_full:
        movl    $1, %eax
.Lenter_slow:
        leaq    agent_enter_slow(%rip), %r11
        jmp     .Lslow

        /* With values, counted, or with an action. rax area, r10 slot index, r11 slot. */
        .p2align 4
.Lenter_more:
        cmpl    $MODE_VALUES, SLOT_MODE(%r11)
        jne     .Lenter_other
        MOVES_FIND %rax, .Lenter_full
        movq    agent_hot+HOT_AREA(%rip), %rax
        testq   %rax, %rax
        jz      .Lenter_full
        cmpl    $0, AREA_MAX_DEPTH(%rax)
        jne     .Lenter_full
        cmpq    $0, AREA_MIN_TICKS(%rax)
        jne     .Lenter_full
        cmpl    $MOVES_KIND_SHORT, MOVES_KIND(%r11)
        jb      .Lenter_nothing
        ja      .Lenter_frame
        movq    %r11, KEPT_MOVES(%rsp)
.Lenter_short:
        ENTER_RECORD 1, 1
.Lenter_nothing:
        MOVES_CHECK %rax, .Lenter_full
        movq    agent_hot+HOT_AREA(%rip), %rax
        testq   %rax, %rax
        jz      .Lenter_full
        jmp     .Lenter_record
.Lenter_undo1:
.Lenter_undo3:
        movq    FRAME_FUNCTION(%rsi), %rdi
        movq    FRAME_CALLSITE(%rsi), %rsi
        decl    BLOCK_DEPTH(%r8)
.Lenter_back1:
.Lenter_back3:
        movq    $0, BLOCK_PENDING(%r8)
.Lenter_plain1:
.Lenter_plain3:
        movl    $2, %eax
        jmp     .Lenter_slow

        .p2align 4
.Lenter_frame:
        cmpl    $MOVES_KIND_VARYING, MOVES_KIND(%r11)
        ja      .Lenter_full
        movq    %r11, KEPT_MOVES(%rsp)
        MOVES_NEAR %rcx, .Lenter_plain1
        cmpl    $MOVES_KIND_NEAR, MOVES_KIND(%r11)
        je      .Lenter_short
        MOVES_CAN %rax, .Lenter_plain1
        ENTER_RECORD 3, 3

        .p2align 4
.Lenter_other:
        cmpl    $MODE_TALLY, SLOT_MODE(%r11)
        je      .Lenter_tally
        cmpl    $MODE_ACT, SLOT_MODE(%r11)
        jne     1f
        movl    %r10d, %eax
        leaq    agent_enter_act(%rip), %r11
        jmp     .Lslow
1:      cmpl    $MODE_COUNT, SLOT_MODE(%r11)
        jne     .Lenter_full

        /* Only counted: a frame, the time in it, and its place among what this thread has counted. */
        movq    agent_self@gottpoff(%rip), %r11
        movq    %fs:SELF_BLOCK(%r11), %r8
        testq   %r8, %r8
        jz      .Lenter_plain0
        cmpq    $0, BLOCK_PENDING(%r8)
        jne     .Lenter_plain0
        movq    BLOCK_CURSOR(%r8), %r9
        cmpq    $1, %r9
        adcq    $0, %r9
        movq    %r9, BLOCK_PENDING(%r8)
        movq    %rsp, %fs:SELF_WRITER(%r11)
        leaq    8(%rsp), %rcx
        movq    %rcx, %rdx
        subq    %fs:SELF_STACK_LOW(%r11), %rdx
        cmpq    %fs:SELF_STACK_SIZE(%r11), %rdx
        jae     .Lenter_back0
        movl    BLOCK_DEPTH(%r8), %r9d
        cmpl    %fs:SELF_FRAME_LIMIT(%r11), %r9d
        jae     .Lenter_back0
        movl    %r9d, %edx
        shlq    $FRAME_SHIFT, %rdx
        addq    %fs:SELF_FRAMES(%r11), %rdx
        cmpq    %rcx, FRAME_SP-FRAME_SIZE(%rdx)
        jbe     .Lenter_back0
        movl    $0, FRAME_FLAGS(%rdx)
        movq    %rcx, FRAME_SP(%rdx)
        incl    %fs:SELF_PLAIN(%r11)
        incl    %r9d
        movl    %r9d, BLOCK_DEPTH(%r8)
        movq    %rcx, FRAME_SP(%rdx)
        movq    %rdi, FRAME_FUNCTION(%rdx)
        movq    %rsi, FRAME_CALLSITE(%rdx)
        movq    (%rsp), %rcx
        movq    %rcx, FRAME_SITE(%rdx)
        movl    %r10d, FRAME_SLOT(%rdx)
        movq    %fs:SELF_PACKET_SEQ(%r11), %rcx
        movq    %rcx, FRAME_PACKET_SEQ(%rdx)
        movl    %r10d, %ecx
        andl    $COUNT_MASK, %ecx
        shll    $COUNT_SHIFT, %ecx
        leaq    BLOCK_COUNTS(%r8,%rcx), %rcx
        incl    %r10d
        cmpl    %r10d, (%rcx)
        jne     .Lenter_counts
.Lenter_counted:
        incq    COUNT_CALLS(%rcx)
.Lenter_timed:
        movq    %rdx, %rsi
        rdtsc
        shlq    $32, %rdx
        orq     %rax, %rdx
        movq    %rdx, FRAME_TIME(%rsi)
        movl    $FLAG_COUNT, FRAME_FLAGS(%rsi)
        movq    $0, BLOCK_PENDING(%r8)
2:      ret

.Lenter_counts:
        COUNT_ELSEWHERE .Lenter_counted
        lock
        incq    SLOT_CALLS(%r10)
        jmp     .Lenter_timed

        /* How often, and nothing else: neither a frame nor a time. As above for its place. */
        .p2align 4
.Lenter_tally:
        movq    agent_self@gottpoff(%rip), %r11
        movq    %fs:SELF_BLOCK(%r11), %rax
        testq   %rax, %rax
        jz      .Lenter_full
        cmpq    $0, %fs:SELF_STACK_SIZE(%r11)
        je      .Lenter_full
        movl    %r10d, %ecx
        andl    $COUNT_MASK, %ecx
        shll    $COUNT_SHIFT, %ecx
        leaq    BLOCK_COUNTS(%rax,%rcx), %rcx
        incl    %r10d
        cmpl    %r10d, (%rcx)
        jne     3f
.Ltallied:
        incq    COUNT_THINNED(%rcx)
        testl   $TALLY_BITS, COUNT_THINNED(%rcx)
        jz      .Ltallied_many
        ret
.Ltallied_many:
        movl    $1, %eax
        leaq    agent_tally_many(%rip), %r11
        jmp     .Lslow
3:      COUNT_ELSEWHERE .Ltallied
        lock
        incq    SLOT_THINNED(%r10)
        ret
        .cfi_endproc
        .size   __cyg_profile_func_enter, . - __cyg_profile_func_enter

        /* All of it is written: as thread_unguard, what is reserved is taken back before what it was. */
        .macro DONE block
        movq    agent_self@gottpoff(%rip), %r11
        movq    BLOCK_CURSOR(\block), %rax
        movq    %rax, BLOCK_PENDING(\block)
        movl    $0, %fs:SELF_HOLE_ID(%r11)
        movq    $0, BLOCK_PENDING(\block)
        .endm

        /* A call from before that, which is on a shadow stack, lies above an address; with alloca, its frame pointer does. */
        .p2align 6
        .cfi_startproc
.Lexit_quiet:
        QUIET
        cmpq    %rdi, (%r10,%rax)
        jne     .Lexit_look
        cmpq    %rsp, QUIET_ABOVE(%r10,%rax)
        jbe     .Lexit_look
        cmpq    %rbp, QUIET_ABOVE(%r10,%rax)
        jbe     .Lexit_look
        ret
        .p2align 6
        .globl  __cyg_profile_func_exit
        .type   __cyg_profile_func_exit, @function
__cyg_profile_func_exit:
        FILTER  FILTER_EXIT
        jg      .Lexit_look
        js      .Lexit_quiet
        ret
        .p2align 4
.Lexit_look:
        movq    %r11, -24(%rsp)
        cmpq    $0, agent_hot+HOT_AREA(%rip)
        je      .Lexit_full
        movq    agent_self@gottpoff(%rip), %r11
        movq    %fs:SELF_BLOCK(%r11), %r10
        testq   %r10, %r10
        jz      2f
        cmpq    $0, BLOCK_PENDING(%r10)
        jne     .Lexit_full
        movq    BLOCK_CURSOR(%r10), %rax
        cmpq    $1, %rax
        adcq    $0, %rax
        movq    %rax, BLOCK_PENDING(%r10)
        movq    %rsp, %fs:SELF_WRITER(%r11)

        /* rax the frame on top */
        movl    BLOCK_DEPTH(%r10), %eax
        shlq    $FRAME_SHIFT, %rax
        addq    %fs:SELF_FRAMES(%r11), %rax
        subq    $FRAME_SIZE, %rax
        cmpq    %rdi, FRAME_FUNCTION(%rax)
        jne     .Lexit_other
        leaq    8(%rsp), %rdi
        cmpq    %rsi, (%rsp)
        je      .Lexit_tail
        cmpq    %rdi, FRAME_SP(%rax)
        jne     .Lexit_recursive
.Lexit_matches:
        cmpl    $FLAG_RECORDED, FRAME_FLAGS(%rax)
        jne     .Lexit_count
        movl    FRAME_SLOT(%rax), %edi
        shlq    $SLOT_SHIFT, %rdi
        addq    agent_hot+HOT_SLOTS(%rip), %rdi
        cmpl    $MODE_RECORD, SLOT_MODE(%rdi)
        jne     .Lexit_values
.Lexit_record:
        movq    FRAME_PACKET_SEQ(%rax), %rdi
        cmpq    %fs:SELF_PACKET_SEQ(%r11), %rdi
        jne     .Lexit_restore

        EXIT_RECORD 0, 0
2:      ret

        /* A tail call: the function's frame is gone already, sp is its caller's. */
        .p2align 4
.Lexit_tail:
        cmpq    %rdi, FRAME_SP(%rax)
        jae     .Lexit_restore
        cmpq    %rdi, FRAME_SP-FRAME_SIZE(%rax)
        jae     .Lexit_matches
        jmp     .Lexit_restore

        /* Recorded with values: plain where there are none at this exit, as in a tail call. rdi slot */
        .p2align 4
.Lexit_values:
        cmpl    $MODE_VALUES, SLOT_MODE(%rdi)
        jne     .Lexit_restore
        cmpq    %rsi, (%rsp)
        je      .Lexit_record
        MOVES_FIND %rdi, .Lexit_restore
        cmpl    $MOVES_KIND_SHORT, MOVES_KIND(%r11)
        ja      .Lexit_frame
        jb      1f
        cmpw    $0, MOVES_CONSTANT(%r11)
        jne     3f
4:      movq    %r11, %r8
        movq    agent_self@gottpoff(%rip), %r11
        EXIT_RECORD 1, 1
        ret
3:      movq    %r11, %r8
        movq    agent_self@gottpoff(%rip), %r11
        EXIT_RECORD 2, 2
        ret
1:      MOVES_CHECK %rdi, .Lexit_restore
        movq    agent_self@gottpoff(%rip), %r11
        jmp     .Lexit_record

        .p2align 4
.Lexit_frame:
        cmpl    $MOVES_KIND_VARYING, MOVES_KIND(%r11)
        ja      .Lexit_restore
        MOVES_NEAR %rdi, .Lexit_restore
        cmpl    $MOVES_KIND_NEAR, MOVES_KIND(%r11)
        je      4b
        movq    agent_hot+HOT_AREA(%rip), %rdi
        testq   %rdi, %rdi
        jz      .Lexit_restore
        MOVES_CAN %rdi, .Lexit_restore
        movq    %r11, KEPT_MOVES(%rsp)
        movq    agent_self@gottpoff(%rip), %r11
        EXIT_RECORD 3, 3
        ret
.Lexit_gone:
        movq    %rdx, %r11
        movq    %r8, %r10
        jmp     .Lexit_again3

        .p2align 4
.Lexit_count:
        cmpl    $FLAG_COUNT, FRAME_FLAGS(%rax)
        jne     .Lexit_restore
        movl    FRAME_SLOT(%rax), %edi
        shlq    $SLOT_SHIFT, %rdi
        addq    agent_hot+HOT_SLOTS(%rip), %rdi
        cmpl    $MODE_COUNT, SLOT_MODE(%rdi)
        jne     .Lexit_restore
        movq    %rax, %rcx
        rdtsc
        shlq    $32, %rdx
        orq     %rax, %rdx
        subq    FRAME_TIME(%rcx), %rdx
        movl    FRAME_SLOT(%rcx), %ecx
        movl    %ecx, %eax
        andl    $COUNT_MASK, %eax
        shll    $COUNT_SHIFT, %eax
        incl    %ecx
        cmpl    %ecx, BLOCK_COUNTS(%r10,%rax)
        jne     .Lexit_counts
.Lexit_counted:
        addq    %rdx, BLOCK_COUNTS+COUNT_TICKS(%r10,%rax)
.Lexit_timed:
        movl    %fs:SELF_PLAIN(%r11), %eax
        subl    $1, %eax
        adcl    $0, %eax
        movl    %eax, %fs:SELF_PLAIN(%r11)
        decl    BLOCK_DEPTH(%r10)
        movq    $0, BLOCK_PENDING(%r10)
        ret

.Lexit_counts:
        xorq    $COUNT_SIZE, %rax
        cmpl    %ecx, BLOCK_COUNTS(%r10,%rax)
        je      .Lexit_counted
        lock
        addq    %rdx, SLOT_TICKS(%rdi)
        jmp     .Lexit_timed

        /* Another function's frame is on top, or another call's of it. If it is an older one, and the function one whose
         * exits are of no use, that is as it should be. It is not another call's if the frame pointer lies above where it was
         * entered: then the exit's sp (rdi) differs because of alloca; nor may it be if that is hardly lower. */
        .p2align 4
.Lexit_recursive:
        cmpq    %rsi, FRAME_CALLSITE(%rax)
        jne     1f
        negq    %rdi
        addq    FRAME_SP(%rax), %rdi
        cmpq    $EXIT_NEAR, %rdi
        jbe     .Lexit_restore
        movq    %rbp, %rdi
        subq    %fs:SELF_STACK_LOW(%r11), %rdi
        cmpq    %fs:SELF_STACK_SIZE(%r11), %rdi
        jae     1f
        cmpq    FRAME_SP(%rax), %rbp
        jae     .Lexit_restore
1:      movq    FRAME_FUNCTION(%rax), %rdi
.Lexit_other:
        movq    FRAME_SP(%rax), %rax
        movq    $0, BLOCK_PENDING(%r10)
        leaq    8(%rsp), %r10
        cmpq    %r10, %rax
        jbe     .Lexit_full
        SLOT_FIND .Lexit_full
        testl   $MODE_EXITS, SLOT_MODE(%r11)
        jnz     .Lexit_full
        ret

.Lexit_again0:
        movq    FRAME_FUNCTION(%r11), %rdi
        movq    $0, BLOCK_PENDING(%r10)
        xorl    %eax, %eax
        jmp     .Lexit_slow
.Lexit_again1:
.Lexit_again2:
.Lexit_again3:
        movq    FRAME_FUNCTION(%r11), %rdi
        movq    $0, BLOCK_PENDING(%r10)
        movl    $2, %eax
        jmp     .Lexit_slow
.Lexit_restore:
        movq    FRAME_FUNCTION(%rax), %rdi
.Lexit_back:
        movq    $0, BLOCK_PENDING(%r10)
.Lexit_full:
        movl    $1, %eax
.Lexit_slow:
        leaq    agent_exit_slow(%rip), %r11
        jmp     .Lslow
        .cfi_endproc
        .size   __cyg_profile_func_exit, . - __cyg_profile_func_exit
agent_hooks_end:

        /* rax 1: all registers but rax, r10, r11 are the hook's; 2: those that calls keep, rdi and rsi; r11 where to go. */
        .type   .Lslow, @function
.Lslow:
        .cfi_startproc
        movq    agent_altstack_low@gottpoff(%rip), %r10
        movq    %fs:(%r10), %r10
        negq    %r10
        addq    %rsp, %r10
        cmpq    $HOOK_CONNECT_STACK, %r10
        jb      .Lslow_small
.Lslow_fits:
        leaq    -(REGS_SIZE + 8)(%rsp), %rsp
        .cfi_adjust_cfa_offset REGS_SIZE + 8
        movq    %rdx, 1*8(%rsp)
        movq    %rcx, 2*8(%rsp)
        movq    %rbx, 3*8(%rsp)
        movq    %rsi, 4*8(%rsp)
        movq    %rdi, 5*8(%rsp)
        movq    %rbp, 6*8(%rsp)
        movq    %r8, 8*8(%rsp)
        movq    %r9, 9*8(%rsp)
        movq    %r12, 12*8(%rsp)
        movq    %r13, 13*8(%rsp)
        movq    %r14, 14*8(%rsp)
        movq    %r15, 15*8(%rsp)
        movq    (REGS_SIZE + 8 - 8)(%rsp), %rdx
        movq    %rdx, 0*8(%rsp)
        movq    (REGS_SIZE + 8 - 16)(%rsp), %rdx
        movq    %rdx, 10*8(%rsp)
        movq    (REGS_SIZE + 8 - 24)(%rsp), %rdx
        movq    %rdx, 11*8(%rsp)
        leaq    (REGS_SIZE + 8 + 8)(%rsp), %rdx
        movq    %rdx, 7*8(%rsp)
        movq    -8(%rdx), %rdx
        movq    %rdx, 16*8(%rsp)
        movb    $0, REGS_HAS_XMM(%rsp)
        movw    $0, REGS_HAS_RESULT(%rsp)       /* and REGS_PATCHED */
        movl    %eax, %ecx
        movq    %rsp, %rdx
        call    *%r11
        leaq    (REGS_SIZE + 8)(%rsp), %rsp
        .cfi_adjust_cfa_offset -(REGS_SIZE + 8)
        ret

        /* A handler's stack has no room for it: the call is not recorded. */
.Lslow_small:
        cmpq    $0, agent_hot+HOT_AREA(%rip)
        je      2f
        cmpq    $HOOK_STACK, %r10
        jae     .Lslow_fits
        movq    agent_self@gottpoff(%rip), %r10
        movq    %fs:SELF_BLOCK(%r10), %r10
        testq   %r10, %r10
        jz      1f
        incq    BLOCK_DISCARDED(%r10)
        ret
1:      movq    agent_hot+HOT_AREA(%rip), %r10
        testq   %r10, %r10
        jz      2f
        lock incq AREA_UNPLACED(%r10)
2:      ret
        .cfi_endproc

        .p2align 4
        .globl  agent_save_xmm
        .hidden agent_save_xmm
        .type   agent_save_xmm, @function
agent_save_xmm:
        .cfi_startproc
        movb    $1, REGS_HAS_XMM(%rdi)
        .irp    n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
        movups  %xmm\n, REGS_XMM+16*\n(%rdi)
        .endr
        ret
        .cfi_endproc
        .size   agent_save_xmm, . - agent_save_xmm

/*
 * Whole pages of memory: agent_hot and agent_filter, see agent.h and large.h. In a section of their own, for their
 * alignment would part the other variables from those that begin with a value, and cost each process one page more.
 */
#define PAGE 4096
#define FILTER_SIZE 65536

        .section .agent_pages, "aw", @nobits

        .macro PAGES name size
        .p2align 12
        .globl  \name
        .hidden \name
        .type   \name, @object
        .size   \name, \size
\name:
        .skip   \size
        .endm

        PAGES agent_hot, PAGE
        PAGES agent_filter, FILTER_SIZE

        .section .note.GNU-stack, "", @progbits
