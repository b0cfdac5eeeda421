/* SPDX-License-Identifier: Apache-2.0 */
/* Lowered action lists and held threads, with programs put into an area as the monitor puts them there. */
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "agent/safety/act.h"
#include "agent/safety/read.h"
#include "agent/safety/values.h"
#include "shm/mpi_told.h"

static struct area_view view;
static struct doorbell bell;
static code_cell cells[CODE_CELLS];
static struct area_thread *thread;
static struct area_site *site;
static uint64_t used; /* of programs */

static uint64_t own_ticks(void)
{
    char text[1024];
    FILE *file = fopen("/proc/self/stat", "r");
    size_t got = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[got] = 0;
    char *at = strrchr(text, ')');
    for (int field = 2; field < 22; field++)
        at = strchr(at + 1, ' ');
    return strtoull(at, NULL, 10);
}

static int setup(void **state)
{
    struct area header;
    uint64_t size = area_plan(&header, 0, 1024, 4);
    void *base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    memcpy(base, &header, sizeof header);
    assert_true(area_take(&view, base, size));
    atomic_store(&view.area->on, 1);
    bell.monitor_pid = getpid();
    bell.monitor_start_ticks = own_ticks();
    thread = area_thread_at(&view, 0);
    site = area_site_find(&view, 0x401000, true);
    used = 64;
    agent_read_init(&view);
    agent_act_init(&view, &bell, cells);
    memset((void *)cells, 0, sizeof cells);
    return 0;
}

static int teardown(void **state)
{
    return munmap(view.area, view.size);
}

static uint32_t put(const void *bytes, size_t size)
{
    uint32_t at = (uint32_t)used;
    memcpy(view.programs + used, bytes, size);
    used += (size + 7) & ~(size_t)7;
    return at;
}

static uint32_t put_code(uint32_t count, const struct code_insn *insns)
{
    struct code_program program = {.count = count};
    memcpy(program.insns, insns, count * sizeof *insns);
    return put(&program, offsetof(struct code_program, insns) + count * sizeof *insns);
}

static uint32_t put_list(uint32_t count, const struct area_action *actions)
{
    uint8_t bytes[4096];
    struct area_list list = {.count = count};
    memcpy(bytes, &list, sizeof list);
    memcpy(bytes + sizeof list, actions, count * sizeof *actions);
    return put(bytes, sizeof list + count * sizeof *actions);
}

static uint32_t put_capture(uint8_t flags, uint16_t minimum, uint32_t count, const struct capture_insn *insns)
{
    uint8_t bytes[4096];
    struct area_program program = {.size = 8 + 8 * count};
    struct capture_head head = {.version = CAPTURE_VERSION, .flags = flags, .minimum = minimum};
    memcpy(bytes, &program, sizeof program);
    memcpy(bytes + sizeof program, &head, sizeof head);
    memcpy(bytes + sizeof program + sizeof head, insns, 8 * (size_t)count);
    return put(bytes, sizeof program + program.size);
}

/* par0: rdi as a signed number; par1: what rsi points to, or missing */
static void put_params(void)
{
    const struct capture_insn insns[] = {
        {CAPTURE_NUMBER, 0, 2, CODE_SIGNED},   {CAPTURE_VALUE, 5, 8, 0}, {CAPTURE_END, 0, 0, 0},
        {CAPTURE_NUMBER, 0, 2, CODE_UNSIGNED}, {CAPTURE_READ, 4, 8, 0},  {CAPTURE_END, 0, 0, 0},
    };
    atomic_store(&site->params, put_capture(0, 18, 6, insns));
}

static struct capture_frame frame;

static struct agent_call call_of(void)
{
    return (struct agent_call){.frame = &frame,
                               .site_entry = site,
                               .site = 0x401000,
                               .callsite = 0x402000,
                               .sp = 0x7ffd0000,
                               .time = 111,
                               .entry_time = 99,
                               .slot = 7,
                               .depth = 3};
}

static void test_counter(void **state)
{
    const struct code_insn add[] = {{.op = CODE_ADD, .cell = 5, .a = 3}};
    const struct area_action actions[] = {
        {.csr = 1, .enabled = 1, .program_at = put_code(1, add)},
        {.csr = 2, .enabled = 0, .program_at = put_code(1, add)},
    };
    uint32_t list = put_list(2, actions);
    struct agent_call call = call_of();
    assert_int_equal(agent_act_needs(list, site, false), 0);
    errno = 55;
    for (int i = 0; i < 10; i++)
        agent_act(thread, list, &call);
    agent_act(NULL, list, &call);
    assert_int_equal(errno, 55);
    assert_int_equal(cells[5], 33);
    assert_int_equal(view.area->raised, 0);
    agent_act_init(&view, &bell, NULL); /* without cells nothing is run */
    agent_act(thread, list, &call);
    assert_int_equal(cells[5], 33);
}

/* What is decoded in act.c itself and what the interpreter makes of the same program are the same. */
static void test_params_plain(void **state)
{
    struct {
        int32_t before, there, after;
    } near = {7, -5, 0};
    const struct code_insn copies[] = {{.op = CODE_SET, .cell = 0, .a_kind = CODE_PARAM, .a = 0},
                                       {.op = CODE_SET, .cell = 1, .a_kind = CODE_PARAM, .a = 1},
                                       {.op = CODE_SET, .cell = 2, .a_kind = CODE_PARAM, .a = 2},
                                       {.op = CODE_SET, .cell = 3, .a_kind = CODE_PARAM, .a = 3},
                                       {.op = CODE_SET, .cell = 4, .a_kind = CODE_PARAM, .a = 4},
                                       {.op = CODE_SET, .cell = 5, .a_kind = CODE_PARAM, .a = 5}};
    const struct capture_insn insns[] = {
        {CAPTURE_NUMBER, 0, 2, CODE_SIGNED},
        {CAPTURE_BITS, 5, 8, CAPTURE_BITS_OFF(0, 32, 1)},
        {CAPTURE_END},
        {CAPTURE_NUMBER, 0, 2, CODE_UNSIGNED},
        {CAPTURE_BITS, 5, 8, CAPTURE_BITS_OFF(8, 16, 0)},
        {CAPTURE_END},
        {CAPTURE_NUMBER, 0, 3, CODE_SIGNED},
        {CAPTURE_LOAD, 33, 4 << 8 | 4, 0},
        {CAPTURE_BITS, 33, 8, CAPTURE_BITS_OFF(0, 32, 1)},
        {CAPTURE_END},
        {CAPTURE_NUMBER, 0, 3, CODE_UNSIGNED},
        {CAPTURE_LOAD, 33, 4 << 8 | 4, 0},
        {CAPTURE_VALUE, 33, 8, 0},
        {CAPTURE_END},
        {CAPTURE_NUMBER, 0, 2, CODE_SIGNED},
        {CAPTURE_BITS, 5, 8, CAPTURE_BITS_OFF(0, 64, 1)},
        {CAPTURE_END},
        {CAPTURE_NUMBER, 0, 2, CODE_SIGNED},
        {CAPTURE_READ, 4, 8, -4},
        {CAPTURE_END},
        {CAPTURE_NUMBER, 0, 3, CODE_UNSIGNED}, /* this one is not plain */
        {CAPTURE_CONST, 33, 0, 0},
        {CAPTURE_END}, /* (the constant is these 8 bytes) */
        {CAPTURE_END},
    };
    int64_t expected[2][6];
    const struct area_action action = {.enabled = 1, .program_at = put_code(6, copies)};
    uint32_t list = put_list(1, &action);
    struct agent_call call = call_of();
    frame.gpr[5] = UINT64_C(0x12345678fedcba98);
    for (int round = 0; round < 2; round++) {
        frame.gpr[4] = round ? 16 : (uintptr_t)&near.there;
        for (unsigned plain = 0; plain < 2; plain++) {
            atomic_store(&site->params, put_capture(0, plain ? 54 : 63, plain ? 20 : 24, insns));
            for (int i = 0; i < 6; i++)
                cells[i] = 4711;
            agent_act(thread, list, &call);
            for (int i = 0; i < 6; i++)
                if (plain)
                    assert_int_equal(cells[i], expected[round][i]);
                else
                    expected[round][i] = cells[i];
        }
        assert_int_equal(cells[0], (int32_t)0xfedcba98);
        assert_int_equal(cells[1], 0xdcba);
        assert_int_equal(cells[4], 0x12345678fedcba98);
    }
    assert_int_equal(expected[0][2], -5);
    assert_int_equal(expected[0][3], (uint32_t)-5);
    assert_int_equal(expected[0][5], (int64_t)((uint64_t)(uint32_t)-5 << 32 | 7));
}

static void test_params(void **state)
{
    put_params();
    uint64_t there = 40;
    const struct code_insn when[] = {
        {.op = CODE_UNLESS, .operation = CODE_GT, .a_kind = CODE_PARAM, .a = 0, .b = 1000},
        {.op = CODE_ADD, .cell = 1, .a_kind = CODE_PARAM, .a = 1},
        {.op = CODE_ADD, .cell = 2, .a = 1},
    };
    const struct area_action action = {.enabled = 1, .program_at = put_code(3, when)};
    uint32_t list = put_list(1, &action);
    struct agent_call call = call_of();
    assert_int_equal(agent_act_needs(list, site, false), AGENT_ACT_FRAME);
    frame.gpr[5] = 1000;
    frame.gpr[4] = (uintptr_t)&there;
    agent_act(thread, list, &call);
    assert_int_equal(cells[2], 0);
    frame.gpr[5] = 1001;
    agent_act(thread, list, &call);
    assert_int_equal(cells[1], 40);
    assert_int_equal(cells[2], 1);
    frame.gpr[4] = 16; /* a bad pointer is a missing parameter: nothing is added */
    agent_act(thread, list, &call);
    assert_int_equal(cells[1], 40);
    assert_int_equal(cells[2], 2);
    call.frame = NULL; /* so are all without registers */
    agent_act(thread, list, &call);
    assert_int_equal(cells[2], 2);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void test_timer(void **state)
{
    const struct code_insn start[] = {{.op = CODE_TIMER_START, .cell = 1, .other = 2}};
    const struct code_insn end[] = {{.op = CODE_TIMER_STOP, .cell = 1, .other = 2}};
    const struct area_action enter = {.enabled = 1, .program_at = put_code(1, start)};
    const struct area_action leave = {.enabled = 1, .program_at = put_code(1, end)};
    uint32_t enters = put_list(1, &enter), leaves = put_list(1, &leave);
    struct agent_call call = call_of();
    uint64_t before = now_ns();
    agent_act(thread, enters, &call);
    assert_true((uint64_t)cells[1] >= before && (uint64_t)cells[1] <= now_ns());
    agent_act(thread, leaves, &call);
    assert_int_equal(cells[1], 0);
    assert_true(cells[2] > 0 && (uint64_t)cells[2] <= now_ns() - before);
}

/* What is no program is not run: each of them broken in some way. */
static void test_broken(void **state)
{
    const struct code_insn wrong[] = {{.op = CODE_ADD, .cell = CODE_CELLS, .a = 3}};
    const struct code_insn good[] = {{.op = CODE_ADD, .cell = 1, .a = 1}};
    uint32_t huge_code[2] = {UINT32_MAX, 0};
    struct area_program huge_program = {.size = UINT32_MAX};
    struct area_list huge_list = {.count = UINT32_MAX};
    uint32_t offsets[] = {put_code(1, wrong),
                          put(huge_code, sizeof huge_code),
                          3,
                          UINT32_MAX & ~7U,
                          (uint32_t)view.programs_size - 8,
                          (uint32_t)view.programs_size,
                          put(&huge_program, 8),
                          put(&huge_list, 8)};
    struct agent_call call = call_of();
    uint8_t out[64];
    for (unsigned i = 0; i < sizeof offsets / sizeof *offsets; i++) {
        const struct area_action actions[] = {{.enabled = 1, .program_at = offsets[i]},
                                              {.enabled = 1, .program_at = put_code(1, good)}};
        agent_act(thread, put_list(2, actions), &call);
        assert_int_equal(cells[1], i + 1);
        if (i != 0 && i != 4)
            agent_act(thread, offsets[i], &call);
        assert_int_equal(agent_values_capture(&view, offsets[i], &frame, out, sizeof out), 0);
        atomic_store(&site->params, offsets[i]);
    }
    assert_int_equal(cells[1], sizeof offsets / sizeof *offsets);
}

static void *acts(void *list)
{
    struct agent_call call = call_of();
    call.values = true;
    call.exit = true;
    agent_act(thread, (uint32_t)(uintptr_t)list, &call);
    return NULL;
}

static uint32_t put_raise(uint32_t filter)
{
    const struct area_action actions[] = {{.csr = 12, .raise = 1, .enabled = 0},
                                          {.csr = 13, .raise = 1, .enabled = 1, .program_at = filter},
                                          {.csr = 14, .raise = 1, .enabled = 1, .program_at = filter}};
    return put_list(3, actions);
}

static void wait_posted(void)
{
    while (atomic_load(&thread->raise.hold) != AREA_HOLD_POSTED)
        sched_yield();
}

static void release(void)
{
    atomic_store(&thread->raise.hold, AREA_HOLD_RELEASED);
    syscall(SYS_futex, &thread->raise.hold, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void test_raise(void **state)
{
    const struct capture_insn values[] = {{CAPTURE_REG, 5, 8, 0}};
    const struct code_insn filter[] = {
        {.op = CODE_UNLESS, .operation = CODE_GT, .a_kind = CODE_PARAM, .a = 0, .b = 10}};
    put_params();
    atomic_store(&site->values, put_capture(0, 8, 1, values));
    atomic_store(&site->layout, 42);
    uint32_t list = put_raise(put_code(1, filter));
    pthread_t other;
    uint64_t there = 88;
    frame.gpr[4] = (uintptr_t)&there;
    frame.gpr[5] = 5;
    acts((void *)(uintptr_t)list); /* does not pass the filter */
    assert_int_equal(view.area->raised, 0);
    frame.gpr[5] = 77;
    uint32_t rung = atomic_load(&bell.rung);
    pthread_create(&other, NULL, acts, (void *)(uintptr_t)list);
    wait_posted();
    const struct area_raise *raise = &thread->raise;
    assert_int_equal(raise->csr, 13);
    assert_int_equal(raise->exit, 1);
    assert_int_equal(raise->slot, 7);
    assert_int_equal(raise->depth, 3);
    assert_int_equal(raise->time, 111);
    assert_int_equal(raise->entry_time, 99);
    assert_int_equal(raise->site, 0x401000);
    assert_int_equal(raise->callsite, 0x402000);
    assert_int_equal(raise->frame, 0x7ffd0000);
    assert_int_equal(raise->param_count, 2);
    assert_int_equal(raise->params[0], 77);
    assert_int_equal(raise->params[1], 88);
    assert_int_equal(raise->param_types[1], CODE_UNSIGNED);
    assert_int_equal(raise->layout, 42);
    assert_int_equal(raise->values_size, 8);
    assert_int_equal(raise->values[0], 77);
    release();
    pthread_join(other, NULL);
    assert_int_equal(atomic_load(&raise->hold), AREA_HOLD_NONE);
    assert_true(atomic_load(&bell.rung) > rung);
    assert_int_equal(view.area->raised, 1);
}

static atomic_uint nested_list, nested_done;

static void nested(int signal)
{
    acts((void *)(uintptr_t)atomic_load(&nested_list));
    atomic_fetch_add(&nested_done, 1);
}

/* A handler that raises while its thread is held is counted, not held; the thread stays held. */
static void test_nested(void **state)
{
    pthread_t other;
    uint32_t list = put_raise(0);
    atomic_store(&nested_list, list);
    atomic_store(&nested_done, 0);
    signal(SIGUSR1, nested);
    pthread_create(&other, NULL, acts, (void *)(uintptr_t)list);
    wait_posted();
    for (unsigned i = 1; i <= 5; i++) {
        pthread_kill(other, SIGUSR1);
        while (atomic_load(&nested_done) < i)
            sched_yield();
        assert_int_equal(atomic_load(&thread->raise.hold), AREA_HOLD_POSTED);
    }
    release();
    pthread_join(other, NULL);
    assert_int_equal(view.area->raised, 6);
}

static void test_let_go_off(void **state)
{
    pthread_t other;
    pthread_create(&other, NULL, acts, (void *)(uintptr_t)put_raise(0));
    wait_posted();
    atomic_store(&view.area->on, 0);
    pthread_join(other, NULL);
}

/* `reaped` or not: then its remains are there until somebody asks for its exit status. */
static void let_go_dead(bool reaped)
{
    pthread_t other;
    pid_t monitor = fork();
    if (monitor == 0)
        for (;;)
            pause();
    atomic_store(&bell.monitor_pid, monitor);
    atomic_store(&bell.monitor_start_ticks, 0);
    pthread_create(&other, NULL, acts, (void *)(uintptr_t)put_raise(0));
    wait_posted();
    assert_true(agent_monitor_alive());
    kill(monitor, SIGKILL);
    if (reaped)
        waitpid(monitor, NULL, 0);
    pthread_join(other, NULL);
    assert_false(agent_monitor_alive());
    if (!reaped)
        waitpid(monitor, NULL, 0);
}

static void test_let_go_dead(void **state)
{
    let_go_dead(true);
}

static void test_let_go_zombie(void **state)
{
    let_go_dead(false);
}

/* Another process has its number now. */
static void test_let_go_other(void **state)
{
    atomic_store(&bell.monitor_start_ticks, own_ticks() + 1);
    acts((void *)(uintptr_t)put_raise(0));
    assert_int_equal(view.area->raised, 1);
}

static void test_post(void **state)
{
    const struct code_insn post[] = {{.op = CODE_POST, .cell = 9}};
    const struct area_action action = {.enabled = 1, .program_at = put_code(1, post)};
    struct agent_call call = call_of();
    uint32_t rung = atomic_load(&bell.rung);
    agent_act(thread, put_list(1, &action), &call);
    assert_int_equal(cells[9], 1);
    assert_int_equal(atomic_load(&bell.rung), rung + 1);
}

static void test_cost(void **state)
{
    enum { ROUNDS = 200000 };
    const struct capture_insn one[] = {
        {CAPTURE_NUMBER, 0, 2, CODE_SIGNED}, {CAPTURE_BITS, 5, 8, CAPTURE_BITS_OFF(0, 32, 1)}, {CAPTURE_END}};
    uint64_t own = 5;
    frame.gpr[5] = 2000;
    frame.gpr[4] = (uintptr_t)&own;
    const struct code_insn add[] = {{.op = CODE_ADD, .cell = 5, .a = 1}};
    const struct code_insn start[] = {{.op = CODE_TIMER_START, .cell = 1, .other = 2}};
    const struct code_insn when[] = {
        {.op = CODE_UNLESS, .operation = CODE_GT, .a_kind = CODE_PARAM, .a = 0, .b = 1000},
        {.op = CODE_ADD, .cell = 2, .a = 1},
    };
    put_params();
    uint32_t two_params = atomic_load(&site->params), one_param = put_capture(0, 9, 3, one);
    const struct {
        const char *name;
        uint32_t program, params;
    } cases[] = {{"counter", put_code(1, add), 0},
                 {"timer", put_code(1, start), 0},
                 {"filter, one parameter", put_code(2, when), one_param},
                 {"filter, two parameters", put_code(2, when), two_params}};
    struct agent_call call = call_of();
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct area_action action = {.enabled = 1, .program_at = cases[i].program};
        uint32_t list = put_list(1, &action);
        atomic_store(&site->params, cases[i].params);
        uint64_t begin = now_ns();
        for (int k = 0; k < ROUNDS; k++)
            agent_act(thread, list, &call);
        print_message("# %s: %.1f ns\n", cases[i].name, (double)(now_ns() - begin) / ROUNDS);
    }
    assert_int_equal(cells[5], ROUNDS);
    assert_int_equal(cells[2], 2 * ROUNDS);
}

/* In the short way, if there is one. */
static bool act_short(uint32_t list)
{
    const struct agent_plan *plan = agent_plan_of(list, frame.gpr[16]);
    if (plan)
        agent_plan_run(plan, frame.gpr);
    return plan;
}

static const struct code_insn above_five[] = {
    {.op = CODE_UNLESS, .operation = CODE_GT, .a_kind = CODE_PARAM, .a = 0, .b_kind = CODE_IMMEDIATE_UNSIGNED, .b = 5},
    {.op = CODE_ADD, .cell = 5, .a = 3}};

/* Plain lists are run without all that an event may need; others are left alone. */
static void test_short(void **state)
{
    struct area_action action = {.csr = 1, .enabled = 1, .program_at = put_code(2, above_five)};
    uint32_t list = put_list(1, &action);
    const struct capture_insn insns[] = {
        {CAPTURE_NUMBER, 0, 2, CODE_SIGNED}, {CAPTURE_BITS, 5, 8, CAPTURE_BITS_OFF(0, 32, 1)}, {CAPTURE_END}};
    frame.gpr[16] = 0x401000;
    frame.gpr[5] = 6;
    assert_false(act_short(0));
    assert_false(act_short(list)); /* no parameters are known: that is not for here to say */
    atomic_store(&site->params, put_capture(0, 9, 3, insns));
    assert_true(act_short(list));
    assert_int_equal(cells[5], 3);
    frame.gpr[5] = 5;
    assert_true(act_short(list));
    frame.gpr[5] = UINT32_C(0xffffffff); /* -1 */
    assert_true(act_short(list));
    assert_int_equal(cells[5], 3);
    action.raise = 1;
    assert_false(act_short(put_list(1, &action)));
    action = (struct area_action){.enabled = 1, .program_at = put_code(1, &(struct code_insn){.op = CODE_OP_COUNT})};
    assert_false(act_short(put_list(1, &action)));
    assert_int_equal(cells[5], 3);
}

/* What is not to be found out again is what can change: which are enabled, and the parameters. */
static void test_plan_changes(void **state)
{
    const struct code_insn add[] = {{.op = CODE_ADD, .cell = 6, .a = 1}};
    const struct area_action actions[] = {{.enabled = 1, .program_at = put_code(2, above_five)},
                                          {.enabled = 0, .program_at = put_code(1, add)},
                                          {.enabled = 1}};
    uint32_t list = put_list(3, actions), one = put_list(1, &actions[1]);
    struct area_list *there = (struct area_list *)(void *)(view.programs + list);
    struct area_list *alone = (struct area_list *)(void *)(view.programs + one);
    put_params();
    frame.gpr[16] = 0x401000;
    frame.gpr[5] = 6;
    frame.gpr[4] = 16;
    assert_true(act_short(list) && act_short(one));
    assert_true(cells[5] == 3 && cells[6] == 0);
    atomic_store(&there->actions[0].enabled, 0);
    atomic_store(&there->actions[1].enabled, 1);
    atomic_store(&alone->actions[0].enabled, 1);
    assert_true(act_short(list) && act_short(one));
    assert_true(cells[5] == 3 && cells[6] == 2);
    atomic_store(&there->actions[0].enabled, 1);
    const struct capture_insn other[] = {{CAPTURE_NUMBER, 0, 2, CODE_SIGNED}, {CAPTURE_VALUE, 4, 8, 0}, {CAPTURE_END}};
    atomic_store(&site->params, put_capture(0, 9, 3, other));
    assert_true(act_short(list));
    assert_int_equal(cells[5], 6);
    frame.gpr[4] = 5;
    assert_true(act_short(list));
    assert_int_equal(cells[5], 6);
}

/* There is no place for any number of plans: the long way has none. */
static void test_plans_end(void **state)
{
    const struct code_insn add[] = {{.op = CODE_ADD, .cell = 7, .a = 1}};
    const struct area_action action = {.enabled = 1, .program_at = put_code(1, add)};
    struct agent_call call = call_of();
    unsigned runs = 0, many = 0;
    uint32_t first = put_list(1, &action);
    assert_true(act_short(first));
    for (runs = 1; runs < 100000; runs++, many++) {
        uint32_t list = put_list(1, &action);
        if (!act_short(list)) {
            agent_act(thread, list, &call);
            break;
        }
    }
    assert_in_range(many, 1000, 99998);
    assert_int_equal(cells[7], runs + 1);
    assert_true(act_short(first));
    agent_act_init(&view, &bell, cells); /* another area */
    assert_true(act_short(put_list(1, &action)));
}

/* What a list looks at of a call of MPI. */
static void test_told(void **state)
{
    static const struct {
        struct capture_insn insn;
        unsigned told;
    } cases[] = {
        {{CAPTURE_READ, MPI_TOLD_REGISTER, 8, offsetof(struct mpi_told, par) + 8}, AGENT_TOLD_PARS},
        {{CAPTURE_READ, MPI_TOLD_REGISTER, 8, offsetof(struct mpi_told, par) + 8 * MPI_TOLD_PARS}, AGENT_TOLD_PARS},
        {{CAPTURE_READ, MPI_TOLD_REGISTER, 8, offsetof(struct mpi_told, par)}, AGENT_TOLD_OTHER},
        {{CAPTURE_READ, MPI_TOLD_REGISTER, 8, offsetof(struct mpi_told, par) + 12}, AGENT_TOLD_OTHER},
        {{CAPTURE_READ, MPI_TOLD_REGISTER, 8, offsetof(struct mpi_told, peer)}, AGENT_TOLD_REST},
        {{CAPTURE_READ, MPI_TOLD_REGISTER, 8, offsetof(struct mpi_told, ordinal)}, AGENT_TOLD_REST},
        {{CAPTURE_READ, MPI_TOLD_REGISTER, 8, offsetof(struct mpi_told, site)}, AGENT_TOLD_OTHER},
        {{CAPTURE_READ, MPI_TOLD_REGISTER, 8, offsetof(struct mpi_told, sent)}, AGENT_TOLD_OTHER},
        {{CAPTURE_READ, MPI_TOLD_REGISTER, 8, -8}, AGENT_TOLD_OTHER},
        {{CAPTURE_READ, 4, 8, 8}, AGENT_TOLD_OTHER},
        {{CAPTURE_VALUE, MPI_TOLD_REGISTER, 8, 0}, AGENT_TOLD_OTHER},
        {{CAPTURE_READ, 0, 8, 0}, 0}, /* what the call does not have */
    };
    struct area_action action = {.enabled = 1, .program_at = put_code(2, above_five)};
    uint32_t list = put_list(1, &action);
    struct mpi_told told = {.par = {0, 6, 5}, .peer = 7};
    uint64_t gpr[8] = {[MPI_TOLD_REGISTER] = (uintptr_t)&told, [7] = (uintptr_t)&told};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct capture_insn insns[] = {{CAPTURE_NUMBER, 0, 2, CODE_SIGNED}, cases[i].insn, {CAPTURE_END}};
        atomic_store(&site->params, put_capture(0, 9, 3, insns));
        const struct agent_plan *plan = agent_plan_of(list, 0x401000);
        assert_non_null(plan);
        assert_int_equal(plan->told, cases[i].told);
        cells[5] = 0;
        if (i == 0 || i == 4 || i == 11) {
            agent_plan_run(plan, gpr);
            assert_int_equal(cells[5], i == 11 ? 0 : 3);
        }
    }
    assert_int_equal(agent_plan_of(put_list(1, &(struct area_action){.enabled = 1}), 0)->told, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_counter),    TEST(test_params),      TEST(test_params_plain),  TEST(test_short),
        TEST(test_timer),      TEST(test_broken),      TEST(test_raise),         TEST(test_nested),
        TEST(test_let_go_off), TEST(test_let_go_dead), TEST(test_let_go_zombie), TEST(test_let_go_other),
        TEST(test_post),       TEST(test_cost),        TEST(test_plan_changes),  TEST(test_plans_end),
        TEST(test_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
