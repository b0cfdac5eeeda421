/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A signal at every single instruction of the hooks (test_target_steps.c), with handlers that call functions, are
 * interrupted themselves, and never return: what is recorded pairs all the same. With TEST_MPI_STEPS it is those of
 * calls of MPI.
 *
 * To come to an instruction all those before it are stepped through. So each handler comes at each EVERYth instruction
 * only, the next one at those beside them: together they come at nearly all. In a thorough run each one does, and always
 * the one that only calls and returns.
 */
#include "agent/test/test_monitor.h"
#include "base/system/test_rounds.h"
#include "shm/capture.h"
#include "shm/mpi_told.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct after {
    uint32_t slot;
    uint64_t count;
};

static void count_after(void *ctx, const struct mini_event *event)
{
    struct after *after = ctx;
    after->count += (event->id == RECORD_ENTRY || event->id == RECORD_ENTRY_VALUES) && event->function == after->slot;
}

static uint64_t number_in(const char *text, const char *before)
{
    const char *at = strstr(text, before);
    assert_non_null(at);
    return strtoull(at + strlen(before), NULL, 10);
}

/* Puts a program into the area; returns where. */
static uint64_t program_put(const struct area_view *view, unsigned minimum, const struct capture_insn *insns,
                            size_t count)
{
    const struct capture_head head = {.version = CAPTURE_VERSION, .minimum = (uint16_t)minimum};
    const struct area_program program = {.size = (uint32_t)(sizeof head + count * sizeof *insns)};
    uint64_t at = (view->area->programs_used + 7) & ~UINT64_C(7);
    memcpy(view->programs + at, &program, sizeof program);
    memcpy(view->programs + at + sizeof program, &head, sizeof head);
    memcpy(view->programs + at + sizeof program + sizeof head, insns, count * sizeof *insns);
    view->area->programs_used = at + sizeof program + program.size;
    return at;
}

enum { LAYOUT = 5 };

/* ---- values with a pointer ---- */

enum { POINTED = 13 }; /* bytes: the pointer, a status, what is there */

/* The target says where they are. */
static void values_prepare(struct mini *mini, struct mini_area *area)
{
    const struct capture_insn insns[] = {
        {CAPTURE_REG, 3, 8, 0}, {CAPTURE_FOLLOW, 3, 2, 0}, {CAPTURE_READ, 3, 4, 0}, {CAPTURE_END, 0, 0, 0}};
    program_put(&area->view, 9, insns, sizeof insns / sizeof *insns);
}

static void values_look(void *ctx, const struct mini_event *event)
{
    static const uint8_t there[] = {CAPTURE_OK, 77, 0, 0, 0};
    uint64_t *seen = ctx;
    if (event->id != RECORD_ENTRY_VALUES && event->id != RECORD_EXIT_VALUES)
        return;
    assert_int_equal(event->layout, LAYOUT);
    assert_int_equal(event->size, POINTED);
    assert_memory_equal(event->bytes + 8, there, sizeof there);
    ++*seen;
}

/* ---- calls of MPI ---- */

enum { VALUES = 12 }; /* bytes: two fields */

/* As the monitor does it: the call has its slot, and a program at both its sites. */
static void mpi_prepare(struct mini *mini, struct mini_area *area)
{
    const struct area_view *view = &area->view;
    const struct capture_insn insns[] = {{CAPTURE_MEM, MPI_TOLD_REGISTER, 4, offsetof(struct mpi_told, peer)},
                                         {CAPTURE_MEM, MPI_TOLD_REGISTER, 8, offsetof(struct mpi_told, bytes)}};
    uint64_t at = program_put(view, VALUES, insns, sizeof insns / sizeof *insns);
    const uint64_t sites[] = {mpi_function_entry(CALL_MPI_Sendrecv), mpi_function_exit(CALL_MPI_Sendrecv)};
    for (size_t i = 0; i < 2; i++) {
        struct area_site *site = area_site_find(view, sites[i], true);
        site->values = (uint32_t)at;
        site->layout = LAYOUT;
    }
    area_slot_find(view, mpi_function(CALL_MPI_Sendrecv), true)->mode = AREA_RECORD | AREA_VALUES;
    view->area->messages = 1;
}

/* And another one whose list of actions adds to a cell if an argument is 1. */
enum { CELL = 3 };

static void acts_prepare(struct mini *mini, struct mini_area *area)
{
    const struct area_view *view = &area->view;
    const struct capture_insn insns[] = {
        {CAPTURE_NUMBER, 0, 2, CODE_SIGNED},
        {CAPTURE_READ, MPI_TOLD_REGISTER, 8, offsetof(struct mpi_told, par) + 2 * sizeof(int64_t)},
        {CAPTURE_END, 0, 0, 0}};
    struct {
        uint32_t count, reserved;
        struct code_insn insns[2];
    } program = {.count = 2,
                 .insns = {{.op = CODE_UNLESS, .a_kind = CODE_PARAM, .b = 1}, {.op = CODE_ADD, .cell = CELL, .a = 1}}};
    struct {
        struct area_list list;
        struct area_action action;
    } list = {.list = {.count = 1}, .action = {.enabled = 1}};
    mpi_prepare(mini, area);
    view->area->messages = 0;
    area_site_find(view, mpi_function_entry(CALL_MPI_Isend), true)->params =
        (uint32_t)program_put(view, 9, insns, sizeof insns / sizeof *insns);
    uint64_t at = (view->area->programs_used + 7) & ~UINT64_C(7);
    list.action.program_at = (uint32_t)at;
    memcpy(view->programs + at, &program.count, sizeof program.count);
    memcpy(view->programs + at + offsetof(struct code_program, insns), program.insns, sizeof program.insns);
    at += sizeof(struct code_insn) * 3;
    memcpy(view->programs + at, &list, sizeof list);
    view->area->programs_used = at + sizeof list;
    struct area_slot *slot = area_slot_find(view, mpi_function(CALL_MPI_Isend), true);
    slot->enter_list = (uint32_t)at;
    slot->mode = AREA_ACT_ENTER;
}

static uint64_t cell_read(const struct mini *mini)
{
    int64_t value = -1;
    assert_int_equal(pread(mini->cells_fd, &value, sizeof value, CELL * sizeof(code_cell)), sizeof value);
    return (uint64_t)value;
}

struct mpi_seen {
    uint64_t values, messages;
};

static void mpi_look(void *ctx, const struct mini_event *event)
{
    static const uint8_t values[VALUES] = {7, [4] = 8};
    static const struct record_message message = {.comm = 1, .bytes = 2, .order = 3, .call = 4, .peer = 5, .tag = 6};
    struct mpi_seen *seen = ctx;
    if (event->id == RECORD_MESSAGE) {
        assert_memory_equal(event->bytes, &message, sizeof message);
        seen->messages++;
    } else if (event->id == RECORD_ENTRY_VALUES || event->id == RECORD_EXIT_VALUES) {
        assert_int_equal(event->layout, LAYOUT);
        assert_int_equal(event->size, VALUES);
        assert_memory_equal(event->bytes, values, VALUES);
        seen->values++;
    }
}

/* ---- programs ---- */

enum { EVERY = 29 };

static void target_steps(const char *target, bool mpi, const char *mode, const char *which)
{
    struct mini mini;
    char dir[128], link[160], every[64];
    static int turn;
    bool acts = strstr(mode, "acts") != NULL, forks = strstr(mode, "fork") != NULL;
    mini_init(&mini);
    bool all = strcmp(mode, "calls") == 0;         /* the commonest case, and soon done */
    bool most = !mpi && strcmp(mode, "jump") == 0; /* more instructions than all others: what was left is looked for */
    snprintf(every, sizeof every, "TEST_EVERY=%ld:%d", all ? 1 : test_rounds(most ? 3 * EVERY + 1 : EVERY, 1),
             all ? 0 : turn++ % EVERY);
    mini.environment[0] = every;
    mini.buffer_bytes = 16 << 20;
    snprintf(dir, sizeof dir, "SCRY_MPI_DIR=%s", mini.directory);
    snprintf(link, sizeof link, "%s/libscry-mpi-openmpi.so", mini.directory);
    if (mpi) {
        mini.prepare = acts ? acts_prepare : mpi_prepare;
        mini.environment[1] = dir;
        assert_int_equal(symlink(getenv("TEST_MPI_LIBRARY"), link), 0);
    }
    bool values = strstr(mode, "values") != NULL;
    if (values)
        mini.prepare = values_prepare;
    mini_run(&mini, target, mode, which);
    unlink(link);
    if (!WIFEXITED(mini.status) || WEXITSTATUS(mini.status))
        fail_msg("%s %s: status %#x", mode, which, (unsigned)mini.status);
    struct mini_totals totals;
    mini_pair(&mini, &mini.areas[0], &totals);
    struct after after = {mini_slot(&mini, &mini.areas[0], "after"), 0};
    mini_each(&mini, &mini.areas[0], count_after, &after);
    struct after within = {0, 0};
    if (strstr(mode, "calls") || strstr(mode, "again")) {
        within.slot = mini_slot(&mini, &mini.areas[0], "within");
        mini_each(&mini, &mini.areas[0], count_after, &within);
    }
    uint64_t valued = 0;
    if (values)
        mini_each(&mini, &mini.areas[0], values_look, &valued);
    struct mpi_seen seen = {0, 0};
    if (mpi)
        mini_each(&mini, &mini.areas[0], mpi_look, &seen);
    uint64_t rounds = number_in(mini.output, "rounds "), withins = number_in(mini.output, "within ");
    print_message("# %s %s: %" PRIu64 " rounds, %" PRIu64 " entries, %" PRIu64 " unwound, %" PRIu64
                  " discarded, %" PRIu64 " messages\n",
                  mode, which, rounds, totals.entries, totals.unwound, totals.discarded, seen.messages);
    assert_true(rounds > 0 && !values == !valued);
    assert_true(!totals.unwound || strstr(mode, "jump") ||
                strstr(mode, "nested")); /* handlers that return end no calls */
    assert_int_equal(totals.open, 0);
    assert_int_equal(totals.entries, totals.exits + totals.unwound + totals.lost);
    assert_true(!mpi || forks || (seen.values && !seen.messages == !strstr(mode, "messages")));
    if (acts) /* two before the first round; a call that is left has acted or not; so has that of a child, which is traced, too */
        assert_in_range(cell_read(&mini), 2 + (strstr(mode, "jump") ? 1 : rounds), 2 + rounds * (forks ? 2 : 1));
    /* what comes after a call that was left, or not, is all there */
    assert_int_equal(after.count, rounds);
    assert_int_equal(mini.areas[0].view.area->too_deep, 0);
    /* and so is what a handler has called, but for what is said to be discarded */
    if (!totals.discarded)
        assert_int_equal(within.count, withins);
    if (strcmp(mode, "calls") == 0 && !mpi) /* in a round twice, leaf, leaf, after; in a handler within; main */
        assert_int_equal(totals.entries + totals.exits + totals.discarded, 2 * (4 * rounds + 4 * withins + 1));
    mini_done(&mini);
}

static void steps(const char *mode, const char *which)
{
    target_steps(getenv("TEST_STEPS"), false, mode, which);
}

static void mpi_steps(const char *mode, const char *which)
{
    target_steps(getenv("TEST_MPI_STEPS"), true, mode, which);
}

static void handlers_that_return(void **state)
{
    steps("quiet", "1");
    steps("calls", "1");
}

static void values_with_handlers(void **state)
{
    steps("values,calls", "1");
    steps("values,jump", "1");
    steps("values,calls,jump,stack", "1");
    steps("values,calls,silent,jump", "1");
    steps("values,calls,nested,inner,jump", "307:240:240");
    steps("values,calls,jump,full", "1:100:400:40");
}

static void handlers_that_never_return(void **state)
{
    steps("jump", "1");
    steps("calls,jump", "1");
    steps("calls,jump,stack", "1");
}

/* ... and that nobody tells of: what is on the stack says it. */
static void handlers_that_go_in_silence(void **state)
{
    steps("calls,silent,jump", "1");
    steps("calls,silent,jump,stack", "1");
}

/* STRIDE:FROM:TO: here the instructions of the outer call are gone through in part */
static void handlers_in_handlers(void **state)
{
    static const char *const modes[] = {"calls,nested", "calls,nested,inner", "calls,nested,inner,jump",
                                        "calls,nested,stack"};
    static const char *const few[] = {"307:20:20", "337:61:61", "367:370:370"};
    static const char *const many[] = {"61:20:20", "67:61:61", "73:370:370"};
    const char *const *parts = test_rounds(0, 1) ? many : few;
    size_t every = (size_t)test_rounds(2, 1);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        for (size_t k = i % every; k < sizeof few / sizeof *few; k += every)
            steps(modes[i], parts[k]);
}

/* The shadow stack grows, in the call and in the handlers. */
static void where_the_stack_grows(void **state)
{
    steps("calls,edge", "1");
    steps("calls,edge,jump", "1");
    steps("calls,edge,silent,jump", "1");
    steps("calls,edge,nested,inner,jump", "307:100:100");
}

/* STRIDE:FROM:TO:ROOM: so many bytes are left in the packet before the call */
static void at_the_end_of_a_packet(void **state)
{
    static const char *const rooms[] = {"1:1:200:4", "1:200:420:8"};
    for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++) {
        steps("calls,full", rooms[i]);
        steps("calls,jump,full", rooms[i]);
    }
}

/* ... and comes again: the first handler returns, only the second may leave, and what the first has called stays */
static void handlers_one_after_the_other(void **state)
{
    steps("calls,again", "97:1:40");
    steps("calls,again,jump", "97:1:60");
    steps("again,silent,jump", "31:1:60");
    steps("calls,again,jump,full", "97:1:40:4");
    steps("calls,again,jump,full", "131:200:220:8");
}

static void mpi_calls_with_handlers(void **state)
{
    static const char *const modes[] = {"messages,says,calls", "messages,calls,jump",
                                        "says,calls,jump",     "jump",
                                        "says,calls,stack",    "messages,says,calls,jump,stack",
                                        "says,silent,jump"};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        mpi_steps(modes[i], "1");
    mpi_steps("says,calls,nested,inner,jump", "67:61:80");
}

/* What was reserved is given back, or filled where a handler has written something behind it. */
static void mpi_calls_after_a_while(void **state)
{
    static const char *const modes[] = {"late,messages", "late,messages,calls", "late,calls,jump", "late,silent,jump"};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        mpi_steps(modes[i], "1:150:700");
}

static void mpi_calls_that_act(void **state)
{
    static const char *const modes[] = {"acts,calls", "acts,says,calls,jump", "acts,calls,jump,stack",
                                        "acts,silent,jump"};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        mpi_steps(modes[i], "1");
    mpi_steps("acts,fork", "1");
}

static void mpi_calls_at_the_end_of_a_packet(void **state)
{
    mpi_steps("messages,says,calls,full", "1:1:700:200");
    mpi_steps("messages,says,calls,full", "1:900:1300:200");
    mpi_steps("messages,says,calls,jump,full", "1:400:900:120");
    mpi_steps("jump,full", "1:1:600:40");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(handlers_that_return),         cmocka_unit_test(handlers_that_never_return),
        cmocka_unit_test(handlers_that_go_in_silence),  cmocka_unit_test(handlers_in_handlers),
        cmocka_unit_test(where_the_stack_grows),        cmocka_unit_test(at_the_end_of_a_packet),
        cmocka_unit_test(handlers_one_after_the_other), cmocka_unit_test(values_with_handlers),
    };
    const struct CMUnitTest mpi_tests[] = {
        cmocka_unit_test(mpi_calls_with_handlers),
        cmocka_unit_test(mpi_calls_after_a_while),
        cmocka_unit_test(mpi_calls_at_the_end_of_a_packet),
        cmocka_unit_test(mpi_calls_that_act),
    };
    const char *only = getenv("TEST_ONLY");
    if (only)
        cmocka_set_test_filter(only);
    return getenv("TEST_MPI_STEPS") ? cmocka_run_group_tests(mpi_tests, NULL, NULL)
                                    : cmocka_run_group_tests(tests, NULL, NULL);
}
