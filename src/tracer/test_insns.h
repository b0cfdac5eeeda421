/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that begin with one instruction of each kind, and what they compute. */
#ifndef SCRY_TRACER_TEST_INSNS_H
#define SCRY_TRACER_TEST_INSNS_H

struct test_insn {
    const char *name;
    long (*fn)(long);
    long (*at)(long); /* where the instruction is */
    long (*expected)(long);
};
extern const struct test_insn test_insns[];
extern const unsigned test_insn_count;

long test_hot(long n);    /* n + 1; begins with lea 1(%rdi), %rax; ret */
void test_own_int3(void); /* int3; ret */
long test_nest(long n);   /* calls itself n times: each level is call, then add $1, %rax */
extern const char test_nest_call[], test_nest_after[];
long test_pushf(void); /* pushf; pop %rax; ret */
extern const char test_pushf_pop[];

#endif
