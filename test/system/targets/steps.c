/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A recursive function of known instructions. Every line on standard input calls `outer` once; prints how often the
 * recursive one was entered. A step over a call must go on after the call of the same activation, not of a deeper one.
 */
#include <stdio.h>

/* outer: mov, call (the recursion), lea, ret. recurse: dec of rdi until it is 0; entered n + 1 times. */
long outer(long n);
__asm__(".text\n"
        ".globl outer, outer_call, outer_after, outer_end, recurse, recurse_call, recurse_after\n"
        ".type outer, @function\n"
        "outer:\n"
        "  .cfi_startproc\n"
        "  xor %eax, %eax\n"
        "outer_call:\n"
        "  call recurse\n"
        "outer_after:\n"
        "  lea 0(%rax), %rax\n"
        "outer_end:\n"
        "  ret\n"
        "  .cfi_endproc\n"
        ".size outer, .-outer\n"
        ".type recurse, @function\n"
        "recurse:\n"
        "  .cfi_startproc\n"
        "  inc %rax\n"
        "  test %rdi, %rdi\n"
        "  jz 1f\n"
        "  dec %rdi\n"
        "recurse_call:\n"
        "  call recurse\n"
        "recurse_after:\n"
        "  nop\n"
        "1: ret\n"
        "  .cfi_endproc\n"
        ".size recurse, .-recurse\n");
extern char outer_call[], outer_after[], outer_end[], recurse[], recurse_call[], recurse_after[];

int main(void)
{
    char line[64];
    printf(
        "outer %p\nouter_call %p\nouter_after %p\nouter_end %p\nrecurse %p\nrecurse_call %p\nrecurse_after %p\nready\n",
        (void *)outer, (void *)outer_call, (void *)outer_after, (void *)outer_end, (void *)recurse,
        (void *)recurse_call, (void *)recurse_after);
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        long n = 0;
        sscanf(line, "%ld", &n);
        printf("%ld\n", outer(n));
        fflush(stdout);
    }
    return 0;
}
