/* SPDX-License-Identifier: Apache-2.0 */
#include "tracer/test_insns.h"

#include <unistd.h>

/* The first instruction, then what is needed for a result. */
#define FUNCTION(name, body) \
    __asm__(".text\n.p2align 4\n.type insn_" #name ", @function\ninsn_" #name ":\n .cfi_startproc\n" body \
            "\n .cfi_endproc\n.size insn_" #name ", . - insn_" #name "\n"); \
    long insn_##name(long n)

FUNCTION(push, "push %rbp; mov %rdi, %rax; mov %rsp, %rbp; pop %rbp; ret");
FUNCTION(push_r12, "push %r12; mov %rdi, %r12; lea (%r12), %rax; pop %r12; ret");
FUNCTION(endbr, "endbr64; mov %rdi, %rax; ret");
FUNCTION(nop, "nopw 0(%rax,%rax,1); mov %rdi, %rax; ret");
FUNCTION(sub_rsp, "sub $24, %rsp; mov %rdi, (%rsp); mov (%rsp), %rax; add $24, %rsp; ret");
FUNCTION(mov, "mov %rdi, %rax; ret");
FUNCTION(red_zone, "mov %rdi, -8(%rsp); mov -8(%rsp), %rax; ret");
FUNCTION(lea_rip, "lea insn_word(%rip), %rax; mov (%rax), %rax; add %rdi, %rax; sub insn_word(%rip), %rax; ret");
FUNCTION(load_rip, "mov insn_word(%rip), %rax; add %rdi, %rax; sub insn_word(%rip), %rax; ret");
FUNCTION(cmp_rip, "cmpl $5, insn_word(%rip); mov %rdi, %rax; je 1f; xor %eax, %eax; 1: ret");
FUNCTION(flags, "test %rdi, %rdi; mov %rdi, %rax; jns 1f; neg %rax; 1: ret");
FUNCTION(call, "call plain; ret");
FUNCTION(call_memory, "call *insn_target(%rip); ret");
FUNCTION(jump, "jmp plain");
FUNCTION(jump_memory, "jmp *insn_target(%rip)");
FUNCTION(sse, "movq %rdi, %xmm0; movq %xmm0, %rax; ret");
FUNCTION(push_memory, "push insn_word(%rip); pop %rax; add %rdi, %rax; sub insn_word(%rip), %rax; ret");
FUNCTION(push_small, "push $-3; pop %rax; lea 3(%rax,%rdi), %rax; ret");
FUNCTION(string, "rep movsb; mov %rdi, %rax; ret"); /* rcx is 0, see call_string */
FUNCTION(system, "syscall; ret");                   /* rax is set, see call_system */
FUNCTION(loop, "loop 1f; nop; 1: mov %rdi, %rax; ret");
FUNCTION(mov_wide, "movabs $0x123456789abcdef0, %rax; lea (%rdi), %rax; ret");
__asm__(".data\n.p2align 3\ninsn_word: .quad 5\ninsn_target: .quad plain\n.text\nplain: mov %rdi, %rax; ret\n");

/* each conditional jump, after the flags were set by a comparison of n with 0 */
#define CONDITIONS(X) X(o) X(no) X(b) X(ae) X(e) X(ne) X(be) X(a) X(s) X(ns) X(p) X(np) X(l) X(ge) X(le) X(g)
#define CONDITION(cc) \
    __asm__(".text\ncond_" #cc ": cmp $0, %rdi; jmp insn_j" #cc "\n.p2align 4\n"); \
    FUNCTION(j##cc, "j" #cc " 1f; mov $1, %eax; ret; 1: mov $2, %eax; ret"); \
    long cond_##cc(long n); \
    static long expect_##cc(long n) \
    { \
        unsigned char set; \
        __asm__("cmp $0, %1; set" #cc " %0" : "=q"(set) : "r"(n) : "cc"); \
        return set ? 2 : 1; \
    }
CONDITIONS(CONDITION)

__asm__(".text\n.p2align 4\n.globl test_hot\n.hidden test_hot\n.type test_hot, @function\n"
        "test_hot: .cfi_startproc; lea 1(%rdi), %rax; ret; .cfi_endproc\n.size test_hot, . - test_hot\n"
        ".p2align 4\n.globl test_own_int3\n.hidden test_own_int3\n"
        "test_own_int3: int3; ret\n"
        ".p2align 4\n.globl test_nest, test_nest_call, test_nest_after\n.hidden test_nest, test_nest_call\n"
        ".hidden test_nest_after\n.type test_nest, @function\n"
        "test_nest: .cfi_startproc; xor %eax, %eax; test %rdi, %rdi; je 1f; dec %rdi\n"
        "sub $8, %rsp; .cfi_adjust_cfa_offset 8\n"
        "test_nest_call: call test_nest\n"
        "test_nest_after: add $1, %rax; add $8, %rsp; .cfi_adjust_cfa_offset -8\n"
        "1: ret; .cfi_endproc\n.size test_nest, . - test_nest\n"
        ".p2align 4\n.globl test_pushf, test_pushf_pop\n.hidden test_pushf, test_pushf_pop\n"
        "test_pushf: pushf\ntest_pushf_pop: pop %rax; ret\n");

static long same(long n)
{
    return n;
}

static long magnitude(long n)
{
    return n < 0 ? -n : n;
}

static long parent(long n)
{
    (void)n;
    return getppid();
}

/* wrappers that set more registers than a C call does; the breakpoint is on the instruction they jump to */
__asm__(".text\n.p2align 4\ncall_string: xor %ecx, %ecx; mov %rdi, %rsi; jmp insn_string\n"
        "call_system: mov $110, %eax; jmp insn_system\n"
        "call_loop: mov $2, %ecx; jmp insn_loop\n");
long call_string(long n);
long call_system(long n);
long call_loop(long n);

#define PLAIN(name, result) \
    { \
#name, insn_##name, insn_##name, result \
    }
#define JUMP(cc) {"j" #cc, cond_##cc, insn_j##cc, expect_##cc},
const struct test_insn test_insns[] = {PLAIN(push, same),
                                       PLAIN(push_r12, same),
                                       PLAIN(endbr, same),
                                       PLAIN(nop, same),
                                       PLAIN(sub_rsp, same),
                                       PLAIN(mov, same),
                                       PLAIN(red_zone, same),
                                       PLAIN(lea_rip, same),
                                       PLAIN(load_rip, same),
                                       PLAIN(cmp_rip, same),
                                       PLAIN(flags, magnitude),
                                       PLAIN(call, same),
                                       PLAIN(call_memory, same),
                                       PLAIN(jump, same),
                                       PLAIN(jump_memory, same),
                                       PLAIN(sse, same),
                                       PLAIN(push_memory, same),
                                       PLAIN(push_small, same),
                                       PLAIN(mov_wide, same),
                                       {"rep movsb", call_string, insn_string, same},
                                       {"syscall", call_system, insn_system, parent},
                                       {"loop", call_loop, insn_loop, same},
                                       CONDITIONS(JUMP)};
const unsigned test_insn_count = sizeof test_insns / sizeof *test_insns;
