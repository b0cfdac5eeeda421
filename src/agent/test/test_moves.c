/* SPDX-License-Identifier: Apache-2.0 */
/* What hooks do themselves of a capture program (moves.h): the same bytes as the interpreter. */
#include "agent/safety/crash.h"
#include "agent/safety/moves.h"
#include "agent/safety/read.h"
#include "agent/safety/signals.h"
#include "agent/safety/values.h"
#include "base/system/test_rounds.h"
#include "shm/capture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <string.h>
#include <sys/mman.h>

enum { SITES = 1024, SITE = 0x401000, VALUES_HEAD = 14, INSNS = 24, STACK = 65536, OUT = 1024, PAGE = 4096 };

static struct area_site sites[SITES];
static _Alignas(8) uint8_t programs[1 << 20];
static size_t used;
static struct area_view view;
static struct area_site *site;
static uint8_t *pages; /* two of them, the second is not readable */

static int setup(void **state)
{
    memset(sites, 0, sizeof sites);
    used = 8;
    view = (struct area_view){.area = view.area,
                              .sites = sites,
                              .site_mask = SITES - 1,
                              .programs = programs,
                              .programs_size = sizeof programs};
    site = &sites[area_hash(SITE) & (SITES - 1)];
    agent_programs_forget();
    agent_moves_forget();
    return 0;
}

static void program_put(unsigned minimum, size_t count, const struct capture_insn *insns)
{
    const struct area_program program = {.size = (uint32_t)(8 + 8 * count)};
    const struct capture_head head = {.version = CAPTURE_VERSION, .minimum = (uint16_t)minimum};
    memcpy(programs + used, &program, sizeof program);
    memcpy(programs + used + sizeof program, &head, sizeof head);
    memcpy(programs + used + sizeof program + sizeof head, insns, 8 * count);
    atomic_store(&site->address, SITE);
    atomic_store(&site->values, (uint32_t)used);
    used += sizeof program + sizeof head + 8 * count;
    if (used > sizeof programs - 4096) { /* as in another area: there is room for so many */
        agent_programs_forget();
        agent_moves_forget();
        used = 8;
    }
}

static const struct agent_moves *learnt(void)
{
    agent_moves_learn(&view, SITE);
    return agent_moves_table[(uint64_t)SITE * UINT64_C(0x9e3779b97f4a7c15) >> 48];
}

static const void *code_of(enum agent_move_code code)
{
    return (const uint8_t *)agent_moves_code + agent_moves_code[code];
}

static void a_program_is_learnt(void **state)
{
    const struct capture_insn few[] = {
        {CAPTURE_REG, 3, 4, 0}, {CAPTURE_MEM, 7, 8, 16}, {CAPTURE_MEM, 6, 2, -20}, {CAPTURE_MEM, 6, 4, 24}};
    const struct capture_insn clobbered[] = {{CAPTURE_REG, 3, 4, 0}, {CAPTURE_REG, 0, 8, 0}};
    const struct capture_insn below[] = {{CAPTURE_MEM, 7, 8, -8}};
    const struct agent_moves *none = learnt();
    assert_int_equal(none->kind, MOVES_NONE);
    atomic_store(&site->layout, 77);
    program_put(18, 4, few);
    const struct agent_moves *m = learnt();
    assert_ptr_not_equal(m, none);
    assert_ptr_equal(m, learnt());
    assert_int_equal(m->kind, MOVES_NEAR);
    assert_int_equal(m->layout, 77);
    assert_int_equal(m->size, 18);
    assert_int_equal(m->total, VALUES_HEAD + 18);
    assert_ptr_equal(m->moves[0].code, code_of(MOVE_RBX_4));
    assert_ptr_equal(m->moves[1].code, code_of(MOVE_RSP_8));
    assert_int_equal(m->moves[1].number, 24); /* the hook's return address is between */
    assert_ptr_equal(m->moves[2].code, code_of(MOVE_AT_RBP_2));
    assert_int_equal(m->moves[2].number, -20);
    assert_ptr_equal(m->moves[3].code, code_of(MOVE_AT_RBP_4_END));
    /* rbp 28 above rsp: -20 is the first byte of the frame; one less is outside, and so is what is far above */
    assert_true(28 + m->rbp_bias <= m->rbp_limit);
    assert_false(27 + m->rbp_bias <= m->rbp_limit);
    assert_false(4096 + m->rbp_bias <= m->rbp_limit);
    program_put(12, 2, clobbered);
    const struct agent_moves *clobbers = learnt();
    assert_int_equal(clobbers->kind, MOVES_LONG);
    assert_ptr_equal(learnt(), clobbers);
    program_put(8, 1, below);
    assert_int_equal(learnt()->kind, MOVES_LONG);
}

static void a_sum_is_few_steps(void **state)
{
    /* as of a result int a + b, in rbx and rbp: what is extended is not looked at */
    const struct capture_insn sum[] = {{CAPTURE_LEA, 32, 3, 0},
                                       {CAPTURE_ALU, 32, CAPTURE_ADD, 6},
                                       {CAPTURE_CONST, 33, 0, 0},
                                       {32, 0, 0, 0},
                                       {CAPTURE_ALU, 32, CAPTURE_SHL, 33},
                                       {CAPTURE_ALU, 32, CAPTURE_SHR, 33},
                                       {CAPTURE_VALUE, 32, 4, 0}};
    program_put(4, sizeof sum / sizeof *sum, sum);
    const struct agent_moves *m = learnt();
    assert_int_equal(m->kind, MOVES_SHORT);
    const enum agent_move_code codes[] = {MOVE_GET_RBX, MOVE_ADD_RBP, MOVE_OUT_4_END};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        assert_ptr_equal(m->moves[i].code, code_of(codes[i]));
}

static void where_a_pointer_leads_is_two_steps(void **state)
{
    const struct capture_insn bytes[] = {{CAPTURE_LOAD, 32, 8 << 8 | 7, 8},
                                         {CAPTURE_VALUE, 32, 8, 0},
                                         {CAPTURE_FOLLOW, 32, 2, 0},
                                         {CAPTURE_READ, 32, 16, 0},
                                         {CAPTURE_END, 0, 0, 0}};
    const struct capture_insn string[] = {{CAPTURE_REG, 3, 8, 0}, {CAPTURE_STRING, 3, 64, 0}};
    const struct capture_insn wide[] = {{CAPTURE_REG, 3, 8, 0}, {CAPTURE_STRING, 3, CAPTURE_STRING_N(64, 1), 0}};
    const struct capture_insn offset[] = {
        {CAPTURE_REG, 3, 8, 0}, {CAPTURE_FOLLOW, 3, 2, 0}, {CAPTURE_READ, 3, 16, 8}, {CAPTURE_END, 0, 0, 0}};
    program_put(9, 5, bytes);
    const struct agent_moves *m = learnt();
    assert_int_equal(m->kind, MOVES_VARYING);
    assert_int_equal(m->size, 8 + 1 + 16);
    const enum agent_move_code codes[] = {MOVE_GET_RSP_8, MOVE_OUT_8, MOVE_FOLLOW, MOVE_END};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        assert_ptr_equal(m->moves[i].code, code_of(codes[i]));
    program_put(9, 2, string);
    m = learnt();
    assert_int_equal(m->kind, MOVES_VARYING);
    assert_ptr_equal(m->moves[2].code, code_of(MOVE_STRING));
    program_put(9, 2, wide);
    assert_int_equal(learnt()->kind, MOVES_LONG);
    program_put(9, 4, offset);
    assert_int_equal(learnt()->kind, MOVES_LONG);
    program_put(1, 1, &string[1]); /* too short to be copied as it is */
    assert_int_equal(learnt()->kind, MOVES_LONG);
}

/* ---- the steps, and the interpreter ---- */

static uint8_t *steps_end __asm__("steps_end") __attribute__((used)); /* where the last step left off */

/* As a hook: with registers, on a stack. false: they did not leave the registers that they should. */
bool steps_go(const struct agent_move *moves, const uint64_t *registers, uint8_t *out);
__asm__(".text\n"
        ".type steps_go, @function\n"
        "steps_go:\n"
        "    pushq %rbx\n    pushq %rbp\n    pushq %r12\n    pushq %r13\n    pushq %r14\n    pushq %r15\n"
        "    movq %rsp, steps_rsp(%rip)\n"
        "    movq %rdi, %r11\n    movq %rdx, %rdi\n"
        "    movq 24(%rsi), %rbx\n    movq 48(%rsi), %rbp\n    movq 96(%rsi), %r12\n    movq 104(%rsi), %r13\n"
        "    movq 112(%rsi), %r14\n    movq 120(%rsi), %r15\n"
        "    movq 56(%rsi), %rsp\n    leaq -8(%rsp), %rsp\n"
        "    movq 128(%rsi), %rax\n    movq %rax, (%rsp)\n"
        "    movq %rbx, -40(%rsp)\n    movq %rbp, -48(%rsp)\n    movq %r12, -56(%rsp)\n    movq %r13, -64(%rsp)\n"
        "    movq %r14, -72(%rsp)\n    movq %r15, -80(%rsp)\n"
        "    movl $1, %edx\n    movl $2, %esi\n    movl $3, %r8d\n"
        "    movq 8(%r11), %rcx\n    addq $16, %r11\n    leaq 1f(%rip), %r9\n    jmp *-16(%r11)\n"
        "1:  movq steps_rsp(%rip), %rsp\n    movq %rdi, steps_end(%rip)\n"
        "    cmpq $1, %rdx\n    jne 2f\n    cmpq $2, %rsi\n    jne 2f\n    cmpq $3, %r8\n    jne 2f\n"
        "    movl $1, %eax\n"
        "3:  popq %r15\n    popq %r14\n    popq %r13\n    popq %r12\n    popq %rbp\n    popq %rbx\n    ret\n"
        "2:  xorl %eax, %eax\n    jmp 3b\n"
        ".size steps_go, . - steps_go\n"
        ".local steps_rsp\n.comm steps_rsp,8,8\n");

static uint64_t seed = 1;

static uint64_t random_number(void)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return seed >> 33;
}

static unsigned below(unsigned limit)
{
    return (unsigned)(random_number() % limit);
}

static uint64_t random_value(void)
{
    static const uint64_t odd[] = {
        0, 1, UINT64_MAX, 63, 64, 65, 31, 32, UINT64_C(1) << 63, UINT32_MAX, 0x3ff0000000000000};
    return below(3) ? odd[below(sizeof odd / sizeof *odd)] : random_number() << 33 ^ random_number() << 5 ^ below(99);
}

/* To the readable page, to its end, to nowhere, or no pointer. */
static uint64_t random_pointer(void)
{
    const uint64_t odd[] = {0, 16, 4095, (uintptr_t)pages + PAGE, UINT64_C(1) << 47, UINT64_MAX};
    return below(4) ? (uintptr_t)pages + (below(3) ? below(PAGE) : PAGE - 1 - below(100))
                    : odd[below(sizeof odd / sizeof *odd)];
}

static unsigned random_register(void)
{
    static const uint8_t kept[] = {3, 6, 12, 13, 14, 15, 16};
    return kept[below(sizeof kept)];
}

/* A program that reads only temporaries that have something; returns what it emits at least, in *ret_count
 * instructions. */
static unsigned random_program(struct capture_insn *insns, size_t *ret_count)
{
    unsigned size = 0, known = 0;
    size_t count = 0, most = 1 + below(INSNS - 3);
    while (count < most) {
        unsigned to = below(6), from = known && below(2) ? CAPTURE_TEMP + below(known) : random_register();
        unsigned n = below(2) ? 4U << below(2) : 1 + below(8), bytes = 1U << below(4);
        struct capture_insn *insn = &insns[count++];
        to = to > known ? known : to;
        *insn = (struct capture_insn){CAPTURE_LEA, (uint8_t)(CAPTURE_TEMP + to), (uint16_t)from,
                                      below(2) ? 0 : (int32_t)random_number()};
        switch (below(10)) {
        case 0:
            *insn = (struct capture_insn){CAPTURE_VALUE, (uint8_t)from, (uint16_t)n, (int32_t)below(9 - n)};
            size += n;
            continue;
        case 1:
            *insn = (struct capture_insn){CAPTURE_MEM, below(2) ? 6 : 7, (uint16_t)n, (int32_t)below(64)};
            size += n;
            continue;
        case 2:
            insn->op = CAPTURE_CONST;
            const uint64_t value = random_value();
            memcpy(&insns[count++], &value, 8);
            break;
        case 3:
            *insn = (struct capture_insn){below(2) ? CAPTURE_LOAD : CAPTURE_PEEK, insn->r,
                                          (uint16_t)(bytes << 8 | (below(2) ? 6 : 7)), (int32_t)below(64)};
            break;
        case 4:
            break;
        case 5:
            from = below(4) ? 13 + below(3) : from; /* where pointers are */
            size++;
            if (below(2) || count + 2 > INSNS) {
                *insn = (struct capture_insn){CAPTURE_STRING, (uint8_t)from, (uint16_t)(1 + below(70)), 0};
                continue;
            }
            *insn = (struct capture_insn){CAPTURE_FOLLOW, (uint8_t)from, 2, 0};
            insns[count++] = (struct capture_insn){CAPTURE_READ, (uint8_t)from, (uint16_t)(1 + below(50)), 0};
            insns[count++] = (struct capture_insn){CAPTURE_END, 0, 0, 0};
            continue;
        default:
            if (to < known)
                *insn = (struct capture_insn){CAPTURE_ALU, insn->r, (uint16_t)below(CAPTURE_ALUS), (int32_t)from};
        }
        known += to == known;
    }
    if (known && count < INSNS) {
        insns[count++] = (struct capture_insn){CAPTURE_VALUE, (uint8_t)(CAPTURE_TEMP + below(known)), 4, 0};
        size += 4;
    }
    *ret_count = count;
    return size;
}

static void steps_are_what_the_interpreter_does(void **state)
{
    static _Alignas(16) uint8_t stack[STACK];
    unsigned rounds = (unsigned)test_rounds(20000, 400000), short_ones = 0, varying = 0;
    for (unsigned round = 0; round < rounds; round++) {
        struct capture_insn insns[INSNS];
        uint8_t expected[OUT] = {0}, got[OUT] = {0};
        struct capture_frame frame = {0};
        size_t count;
        for (unsigned i = 0; i < 17; i++)
            frame.gpr[i] = i >= 13 && i < 16 ? random_pointer() : random_value();
        frame.gpr[7] = (uint64_t)(uintptr_t)(stack + STACK / 2);
        frame.gpr[6] = frame.gpr[7] + 64;
        for (unsigned i = 0; i < 256; i++)
            stack[STACK / 2 + i] = (uint8_t)random_number();
        for (unsigned i = 0; i < PAGE / 8; i++)
            pages[below(PAGE)] = (uint8_t)(below(8) ? random_number() : 0);
        unsigned minimum = random_program(insns, &count);
        if (!minimum || minimum > OUT)
            continue;
        program_put(minimum, count, insns);
        const struct agent_moves *m = learnt();
        assert_non_null(m);
        if (m->kind == MOVES_LONG)
            continue;
        short_ones++;
        varying += m->kind == MOVES_VARYING;
        struct capture_head head = {.version = CAPTURE_VERSION, .minimum = (uint16_t)minimum};
        uint8_t code[8 + 8 * INSNS];
        memcpy(code, &head, sizeof head);
        memcpy(code + sizeof head, insns, 8 * count);
        size_t size = capture_run(code, 8 + 8 * count, &frame, agent_read, expected, sizeof expected);
        assert_true(m->kind == MOVES_VARYING ? size >= minimum && size <= m->size : size == minimum && size == m->size);
        assert_true(steps_go(m->moves, frame.gpr, got));
        if (memcmp(got, expected, size) != 0)
            for (size_t i = 0; i < count; i++)
                print_message("# %u %u %u %d\n", insns[i].op, insns[i].r, insns[i].n, insns[i].off);
        assert_true(m->kind != MOVES_VARYING || steps_end == got + size);
        assert_memory_equal(got, expected, m->kind == MOVES_VARYING ? size : sizeof got);
    }
    assert_true(short_ones > rounds / 2 && varying > rounds / 8);
}

/* With reads as they are in a program. */
static int begin(void **state)
{
    view.area = mmap(NULL, AREA_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(pages + PAGE, PAGE, PROT_NONE);
    atomic_store(&view.area->on, 1);
    agent_read_init(&view);
    agent_crash_init(&view, NULL, &(struct agent_crash_ops){0});
    agent_signals_start();
    return 0;
}

static int end(void **state)
{
    agent_signals_stop();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_program_is_learnt, setup),
        cmocka_unit_test_setup(a_sum_is_few_steps, setup),
        cmocka_unit_test_setup(where_a_pointer_leads_is_two_steps, setup),
        cmocka_unit_test_setup(steps_are_what_the_interpreter_does, setup),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
