/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a loop of two instructions with every register set to a value that it prints before; when a flag in memory is
 * set it prints what the registers hold then. Numbers are those of the ABI's DWARF table; rsp, rbp and rax are the
 * loop's own.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { INTS = 16, XMMS = 16, STS = 3 };

struct state {
    uint64_t ints[INTS]; /* by DWARF number; rbp (6), rsp (7) and rax (0) are not used */
    unsigned char xmm[XMMS][16];
    long double st[STS];
};

static struct state before, after;
static volatile uint64_t flag;

/* rdi: what to load, rsi: where to store; the loop waits for flag. */
void run(const struct state *load, struct state *store, volatile uint64_t *until);
__asm__(".text\n"
        ".globl run, loop_start, loop_jump\n"
        ".type run, @function\n"
        "run:\n"
        "  .cfi_startproc\n"
        "  push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n push %rsi\n push %rdx\n"
        "  fninit\n"
        "  fldt 416(%rdi)\n fldt 400(%rdi)\n fldt 384(%rdi)\n"
        "  movups 128(%rdi), %xmm0\n movups 144(%rdi), %xmm1\n movups 160(%rdi), %xmm2\n movups 176(%rdi), %xmm3\n"
        "  movups 192(%rdi), %xmm4\n movups 208(%rdi), %xmm5\n movups 224(%rdi), %xmm6\n movups 240(%rdi), %xmm7\n"
        "  movups 256(%rdi), %xmm8\n movups 272(%rdi), %xmm9\n movups 288(%rdi), %xmm10\n movups 304(%rdi), %xmm11\n"
        "  movups 320(%rdi), %xmm12\n movups 336(%rdi), %xmm13\n movups 352(%rdi), %xmm14\n movups 368(%rdi), %xmm15\n"
        "  mov 8(%rdi), %rdx\n mov 16(%rdi), %rcx\n mov 24(%rdi), %rbx\n mov 32(%rdi), %rsi\n"
        "  mov 64(%rdi), %r8\n mov 72(%rdi), %r9\n mov 80(%rdi), %r10\n mov 88(%rdi), %r11\n"
        "  mov 96(%rdi), %r12\n mov 104(%rdi), %r13\n mov 112(%rdi), %r14\n mov 120(%rdi), %r15\n"
        "  mov (%rsp), %rax\n"
        "  mov 40(%rdi), %rdi\n"
        "loop_start:\n"
        "1:\n"
        "  cmpq $0, (%rax)\n"
        "loop_jump:\n"
        "  je 1b\n" /* 2 bytes, as to a global name it need not be */
        "  mov 8(%rsp), %rax\n"
        "  mov %rdx, 8(%rax)\n mov %rcx, 16(%rax)\n mov %rbx, 24(%rax)\n mov %rsi, 32(%rax)\n mov %rdi, 40(%rax)\n"
        "  mov %r8, 64(%rax)\n mov %r9, 72(%rax)\n mov %r10, 80(%rax)\n mov %r11, 88(%rax)\n"
        "  mov %r12, 96(%rax)\n mov %r13, 104(%rax)\n mov %r14, 112(%rax)\n mov %r15, 120(%rax)\n"
        "  movups %xmm0, 128(%rax)\n movups %xmm1, 144(%rax)\n movups %xmm2, 160(%rax)\n movups %xmm3, 176(%rax)\n"
        "  movups %xmm4, 192(%rax)\n movups %xmm5, 208(%rax)\n movups %xmm6, 224(%rax)\n movups %xmm7, 240(%rax)\n"
        "  movups %xmm8, 256(%rax)\n movups %xmm9, 272(%rax)\n movups %xmm10, 288(%rax)\n movups %xmm11, 304(%rax)\n"
        "  movups %xmm12, 320(%rax)\n movups %xmm13, 336(%rax)\n movups %xmm14, 352(%rax)\n movups %xmm15, 368(%rax)\n"
        "  fstpt 384(%rax)\n fstpt 400(%rax)\n fstpt 416(%rax)\n"
        "  pop %rdx\n pop %rsi\n pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n"
        "  ret\n"
        "  .cfi_endproc\n"
        ".size run, .-run\n"
        ".globl spoil\n"
        ".type spoil, @function\n"
        "spoil:\n"
        "  .cfi_startproc\n"
        "  mov $-1, %rax\n mov %rax, %rcx\n mov %rax, %rdx\n mov %rax, %rsi\n mov %rax, %rdi\n"
        "  mov %rax, %r8\n mov %rax, %r9\n mov %rax, %r10\n mov %rax, %r11\n"
        "  pcmpeqd %xmm0, %xmm0\n movaps %xmm0, %xmm1\n movaps %xmm0, %xmm7\n movaps %xmm0, %xmm15\n"
        "  fninit\n fldz\n"
        "  movaps %xmm0, -24(%rsp)\n" /* the red zone; faults unless the stack is aligned as for a call */
        "  incq spoiled(%rip)\n"
        "  cmp %rax, %rax\n"
        "  ret\n"
        "  .cfi_endproc\n"
        ".size spoil, .-spoil\n");
/* For thread_call: spoils every register that a function may spoil, and counts. */
void spoil(void);
uint64_t spoiled __attribute__((used));
extern const char loop_start[], loop_jump[];

_Static_assert(offsetof(struct state, xmm) == 128 && offsetof(struct state, st) == 384, "the offsets above");

static void print(const struct state *state)
{
    for (int i = 0; i < INTS; i++)
        if (i != 0 && i != 6 && i != 7)
            printf("int%d %llu\n", i, (unsigned long long)state->ints[i]);
    for (int i = 0; i < XMMS; i++) {
        double low;
        uint64_t high;
        memcpy(&low, state->xmm[i], sizeof low);
        memcpy(&high, state->xmm[i] + 8, sizeof high);
        printf("xmm%d %.17g\nhigh%d %llu\n", i, low, i, (unsigned long long)high);
    }
    for (int i = 0; i < STS; i++)
        printf("st%d %.21Lg\n", i, state->st[i]);
    printf("ready\n");
    fflush(stdout);
}

int main(void)
{
    for (unsigned i = 0; i < INTS; i++)
        before.ints[i] = 0x8123456789abcd00u + i;
    for (unsigned i = 0; i < XMMS; i++) {
        double low = 1.0 / (i + 3);
        uint64_t high = 0xfedcba9876543200u + i;
        memcpy(before.xmm[i], &low, sizeof low);
        memcpy(before.xmm[i] + 8, &high, sizeof high);
    }
    for (int i = 0; i < STS; i++)
        before.st[i] = 1.0L / (i + 7);
    printf("spoil %p\nspoiled %p\n", (void *)(uintptr_t)spoil, (void *)&spoiled);
    printf("flag %p\nloop_start %p\nloop_jump %p\n", (volatile void *)&flag, (const void *)loop_start,
           (const void *)loop_jump);
    print(&before);
    run(&before, &after, &flag);
    print(&after);
    return 0;
}
