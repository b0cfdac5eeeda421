/* SPDX-License-Identifier: Apache-2.0 */
/* The services of `ct` and the settings of jobs, with agents that are not there. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "probe/cells.h"
#include "monitor/engine/csr.h"
#include "monitor/engine/test_support.h"
#include "service/ct/ct.h"
#include "service/ct/test_fake_agents.h"
#include "service/omis/service.h"

/* A tool with a process that has an agent: p_1_1. */
static struct test_session *with_process(pid_t *ret_pid)
{
    struct test_session *tool = test_open(NULL);
    pid_t pid = test_child(1);
    fake_come(pid, "");
    test_ask(tool, ": proc_attach3([], %d, \"\")", pid);
    if (ret_pid)
        *ret_pid = pid;
    return tool;
}

/* ---- conditions ---- */

static const char *problem_of(const char *text)
{
    static struct err err;
    struct arena arena = ARENA_INIT;
    struct ct_condition condition;
    err.text[0] = 0;
    ct_condition_compile(&arena, span_str(text), false, &condition, &err);
    arena_done(&arena);
    return err.text;
}

/* a, b ... of a condition are parameters with these numbers. */
static bool holds(const char *text, int64_t a, int64_t b, double x, double y)
{
    struct arena arena = ARENA_INIT;
    struct ct_condition condition;
    struct err err = {0};
    if (ct_condition_compile(&arena, span_str(text), false, &condition, &err) < 0)
        fail_msg("%s: %s", text, err.text);
    assert_true(code_check(&condition.program, 1));
    struct code_event event = {.param_count = condition.param_count};
    for (unsigned i = 0; i < condition.param_count; i++) {
        const char *name = condition.params[i];
        const double floating = name[0] == 'x' ? x : y;
        event.types[i] = name[0] == 'x' || name[0] == 'y' ? CODE_FLOATING : CODE_SIGNED;
        event.params[i] = name[0] == 'a' ? a : b;
        if (event.types[i] == CODE_FLOATING)
            memcpy(&event.params[i], &floating, sizeof floating);
    }
    bool result = code_run(&condition.program, &event, NULL) & CODE_PASSED;
    arena_done(&arena);
    return result;
}

static void conditions_mean_what_they_mean_in_c(void **state)
{
    for (int64_t a = -2; a <= 2; a++)
        for (int64_t b = -2; b <= 2; b++) {
            double x = (double)a / 2, y = b == 2 ? (double)NAN : (double)b;
            assert_int_equal(holds("a > 1", a, b, x, y), a > 1);
            assert_int_equal(holds("a==b&&x<y", a, b, x, y), a == b && x < y);
            assert_int_equal(holds("a <= -1 || b >= 0x1 && x != 0.5", a, b, x, y), a <= -1 || (b >= 1 && x != 0.5));
            assert_int_equal(holds("a > 0 && b > 0 || a < 0 && b < 0 || x == 0", a, b, x, y),
                             (a > 0 && b > 0) || (a < 0 && b < 0) || x == 0);
            assert_int_equal(holds("y != y", a, b, x, y), y != y);
            assert_int_equal(holds("!a || b", a, b, x, y), !a || b);
            assert_int_equal(holds("x < a", a, b, x, y), x < (double)a);
            assert_int_equal(holds("a * 2 + b == 2 - -b", a, b, x, y), a * 2 + b == 2 - -b);
            assert_int_equal(holds("(a + 1) * (b + 1) >= 4 - b % 2", a, b, x, y), (a + 1) * (b + 1) >= 4 - b % 2);
            assert_int_equal(holds("!(a > 0 && (b > 0 || x < 0))", a, b, x, y), !(a > 0 && (b > 0 || x < 0)));
            assert_int_equal(holds("a&3^b|4 == 5", a, b, x, y), (((a & 3) ^ b) | (4 == 5)) != 0);
            assert_int_equal(holds("a -1<b<<2", a, b, x, y), a - 1 < b * 4);
            assert_int_equal(holds("~a == b && !-a", a, b, x, y), ~a == b && !-a);
            assert_int_equal(holds("x * 0.5 - a / 4.0 > b / 3 * 0.25", a, b, x, y),
                             x * 0.5 - (double)a / 4.0 > (double)(b / 3) * 0.25);
            assert_int_equal(holds("b && 7 / b > 3", a, b, x, y), b && 7 / b > 3);
        }
    assert_true(holds("", 0, 0, 0, 0));
    assert_true(holds("a == 'x' && b != '\\n'", 'x', 0, 0, 0));
    assert_true(holds("a == true && b == NULL", 1, 0, 0, 0));
    assert_true(holds("a < 18446744073709551615", -1, 0, 0, 0)); /* by their values */
    assert_true(holds("a == -9223372036854775808", INT64_MIN, 0, 0, 0));
    assert_true(holds("x > -1.5e300 && x<1e-3f", 0, 0, 0, 0));
    assert_true(holds("x == 0.1f && y == 0.1", 0, 0, (double)0.1f, 0.1));
    assert_true(holds("(unsigned char)a == 254 && (signed char)(a + 200) == -58 && (bool)b", -2, 7, 0, 0));
    assert_true(
        holds("(double)a / 2 == 3.5 && a / 2 == 3 && (int)(x * 2) == -3 && -(long)a * 2 == -14", 7, 0, -1.75, 0));
    assert_true(holds("(unsigned long)a == 18446744073709551615 && (uint32_t)b == 1 << 31", -1, INT32_MIN, 0, 0));
    assert_true(holds("(float)0.1 == 0.1f && (float)0.1 != 0.1 && (float)a == 16777216", 16777217, 0, 0, 0));
    assert_true(holds("0.1f + 0.2f == 0.3f && 0.1 + 0.2 != 0.3 && 1 / 3.0f != 1 / 3.0", 0, 0, 0, 0));
    assert_false(holds("(unsigned char)x == 44 || (unsigned char)x != 44", 0, 0, 300, 0)); /* C says nothing of it */
    assert_true(holds("a == sizeof(unsigned short) * sizeof (long)", 16, 0, 0, 0));
}

/* In seconds, where there is one. */
static void conditions_know_the_duration(void **state)
{
    struct arena arena = ARENA_INIT;
    struct ct_condition condition;
    struct err err = {0};
    assert_int_equal(
        ct_condition_compile(&arena, span_str("duration > 0.002 && 1 >= $duration"), true, &condition, &err), 0);
    assert_int_equal(condition.param_count, 0);
    assert_true(code_check(&condition.program, 1));
    static const struct {
        uint64_t ns;
        bool holds;
    } rows[] = {{2000000, false}, {2000001, true}, {1000000000, true}, {1000000001, false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct code_event event = {.duration_ns = rows[i].ns};
        assert_int_equal(code_run(&condition.program, &event, NULL) & CODE_PASSED, rows[i].holds);
    }
    assert_int_equal(ct_condition_compile(&arena, span_str("duration > n / 1000.0"), true, &condition, &err), 0);
    struct code_event slow = {.duration_ns = 3000000, .params = {2}, .param_count = 1};
    assert_int_equal(code_run(&condition.program, &slow, NULL), CODE_PASSED);
    slow.duration_ns = 2000000;
    assert_int_equal(code_run(&condition.program, &slow, NULL), 0);
    assert_int_equal(ct_condition_compile(&arena, span_str("duration > n"), false, &condition, &err), 0);
    assert_int_equal(condition.param_count, 2); /* at calls it is a variable as others */
    arena_done(&arena);
}

static void expressions_are_parameters(void **state)
{
    struct arena arena = ARENA_INIT;
    struct ct_condition condition;
    struct err err;
    const char *text = " p->next->v[3].x > *q && n != **r || n == ns::limit ; &s , n, a[(b[1] + 1) % 4], sizeof(*q)";
    assert_int_equal(ct_condition_compile(&arena, span_str(text), false, &condition, &err), 0);
    static const char *const names[] = {"p->next->v[3].x",   "*q",        "n", "**r", "ns::limit", "&s",
                                        "a[(b[1] + 1) % 4]", "sizeof(*q)"};
    assert_int_equal(condition.param_count, sizeof names / sizeof *names);
    for (unsigned i = 0; i < condition.param_count; i++)
        assert_string_equal(condition.params[i], names[i]);
    arena_done(&arena);
}

static void says_what_is_wrong_with_a_condition(void **state)
{
    test_has_text(problem_of("n >"), "expected a value");
    test_has_text(problem_of("n > 1 &&"), "at its end");
    test_has_text(problem_of("n > 1 or m"), "expected an operator, as == or &&, or ';' at \"or m\" (byte 7)");
    test_has_text(problem_of("a[1"), "']'");
    test_has_text(problem_of("p-> > 1"), "expected a name");
    test_has_text(problem_of("n > 99999999999999999999"), "at most 64 bits");
    test_has_text(problem_of("n > 12x"), "expected a number");
    test_has_text(problem_of("n == 'ab'"), "expected a character");
    test_has_text(problem_of("n = 1"), "expected an operator, as == or &&, or ';' at \"= 1\"");
    test_has_text(problem_of("n == 0; m; k"), "expected ',' and another expression at \"; k\" (byte 10)");
    test_has_text(problem_of("a||b||c||d||e||f||g||h||i"), "more than 8 different expressions");
    char many[128] = "", deep[256] = "";
    for (int i = 0; i < 33; i++)
        strcat(many, "n+");
    strcat(many, "n");
    memset(deep, '(', 70);
    test_has_text(problem_of(many), "more than 32 operations");
    test_has_text(problem_of(deep), "more than 64 parentheses");
    test_has_text(problem_of("n*n+(n*n+(n*n+(n*n+(n*n+(n*n+(n*n+(n*n+(n*n+n*n))))))))"), "more than 8 results to keep");
    test_has_text(problem_of("(n > 1"), "expected an operator or ')'");
    test_has_text(problem_of("n > 1)"), "expected an operator, as == or &&, or ';' at \")\"");
    test_has_text(problem_of("n + > 1"), "expected a value");
    test_has_text(problem_of("(unsigned float)n > 1"), "expected an operator or ')'");
    test_has_text(problem_of("sizeof n > 1"), "expected '('");
    test_has_text(problem_of("sizeof(n > 1"), "expected ')' at its end");
}

/* ---- information ---- */

static void informs(void **state)
{
    struct test_session *tool = with_process(NULL);
    assert_string_equal(test_ask(tool, ": ct_list_functions([], \"*\")"),
                        "OMIS_OK | OMIS_OK p_1_1=[\"s\\\"lve\",\"a.c\",5,8192,\"program\",\"count\"]");
    test_has_text(test_ask(tool, ": ct_list_functions([], \"later\")"), "OMIS_UNSPECIFIED_ERROR p_1_1=the index");
    assert_string_equal(test_ask(tool, ": ct_select([], \"a b\", \"values\")"), "OMIS_OK | OMIS_OK p_1_1");
    assert_string_equal(fake_selected, "a b");
    assert_int_equal(fake_mode, AREA_RECORD | AREA_VALUES);
    test_has_text(test_ask(tool, ": ct_select([], \"a b\", \"all\")"), "OMIS_PARAMETER_ERROR=mode: ");
    assert_string_equal(test_ask(tool, ": ct_get_profile([], 0)"),
                        "OMIS_OK | OMIS_OK p_1_1=[\"0x2000\",\"\",0,7,70,-1,-1,-1]");
    assert_string_equal(test_ask(tool, ": ct_call_tree([]) ct_get_callers([])"),
                        "OMIS_OK | OMIS_OK p_1_1=[] | OMIS_OK p_1_1=[]");
    test_has_text(test_ask(tool, ": ct_get_info([])"),
                  "p_1_1=\"running\",1,12,3,4096,0.000001500,0,0,0,0,\"\",\"the trace\",\"\"");
    test_has_text(test_ask(tool, ": ct_flush([])"), "the disk is full");
    test_has_text(test_ask(tool, ": ct_snapshot([])"), "belongs to no job");
    test_has_text(test_ask(tool, ": ct_snapshot([], [\"memory\", 1])"), "OMIS_PARAMETER_ERROR=what: element 1");
    fake_gone();
    test_has_text(test_ask(tool, ": ct_get_info([])"), "OMIS_UNSUPPORTED_SERVICE p_1_1=process");
    test_close(tool);
}

/* ---- events ---- */

static void raises_events(void **state)
{
    struct test_session *tool = with_process(NULL);
    test_install(tool, 0, "c_1_1",
                 "ct_function_called([], \"solve\", \"n > 3 && x < 2\") : print([$function, $file, $line, "
                 "$depth, $args, $par0, $par1, $proc, $thread])");
    test_has_text(test_next(tool), "OMIS_CSR_ENABLED | OMIS_OK p_1_1");
    test_next(tool);
    assert_string_equal(fake_demands[0].selection, "solve");
    assert_true(fake_demands[0].raise && fake_demands[0].values && fake_demands[0].has_program);
    assert_null(tool->replies);
    fake_call(false, 3, 1.5);
    fake_call(true, 4, 1.5);
    assert_null(tool->replies);
    assert_int_equal(fake_released, 0);
    fake_call(false, 4, 1.5);
    assert_string_equal(test_next(tool), "OMIS_CSR_TRIGGERED t_1_1 | "
                                         "OMIS_OK=9,[\"solve\",\"a.c\",5,3,\"\",4,1.5,p_1_1,t_1_1]");
    assert_int_equal(fake_released, 1);
    test_send(tool, 0, ": csr_disable([c_1_1])");
    test_next(tool);
    test_next(tool);
    assert_null(fake_demands[0].csr);
    test_close(tool);
}

static void raises_returns(void **state)
{
    struct test_session *tool = with_process(NULL);
    test_enable(tool, 0, "c_1_1", "ct_function_returned([p_1_1], \"solve\") : print([$function, $duration])");
    assert_true(fake_demands[0].at_exit && !fake_demands[0].values && !fake_demands[0].has_program);
    fake_call(true, 0, 0);
    assert_string_equal(test_next(tool), "OMIS_CSR_TRIGGERED t_1_1 | OMIS_OK=2,[\"solve\",5e-07]");
    /* one that is missing */
    test_enable(tool, 0, "c_1_2", "ct_function_returned([p_1_1], \"solve\", \"; p\") : print([$par0])");
    fake_call(true, 0, 0);
    test_next(tool);
    assert_string_equal(test_next(tool), "OMIS_CSR_TRIGGERED t_1_1 | OMIS_OK=1,[\"<not available>\"]");
    test_close(tool);
}

static void refuses_wrong_definitions(void **state)
{
    struct test_session *tool = with_process(NULL);
    test_send(tool, 0, "ct_function_called([], \"solve\", \"n >\") : print([])");
    test_has_text(test_next(tool), "OMIS_PARAMETER_ERROR=condition: expected");
    test_send(tool, 0, "ct_function_called([], \"addr:nonsense\") : print([])");
    test_has_text(test_next(tool), "OMIS_PARAMETER_ERROR=");
    test_send(tool, 0, "ct_function_called([]) : print([])");
    test_has_text(test_next(tool), "OMIS_TYPE_MISMATCH=ct_function_called takes 2 to 3 arguments");
    test_send(tool, 0, "ct_function_called([], \"solve\") : print([$duration])");
    test_has_text(test_next(tool), "OMIS_UNKNOWN_ECP=");
    fake_gone();
    test_install(tool, 0, "c_1_3", "ct_function_called([], \"solve\") : print([1])");
    test_has_text(test_next(tool), "OMIS_CSR_ENABLED | OMIS_UNSUPPORTED_SERVICE p_1_1=process");
    test_close(tool);
}

static void a_new_agent_is_armed(void **state)
{
    pid_t pid;
    struct test_session *tool = with_process(&pid);
    fake_gone();
    test_install(tool, 0, "c_1_1", "ct_function_called([], \"solve\") : print([1])");
    test_has_text(test_next(tool), "OMIS_UNSUPPORTED_SERVICE p_1_1=");
    test_next(tool);
    fake_come(pid, "");
    assert_string_equal(test_next(tool), "OMIS_CSR_ENABLED | OMIS_OK p_1_1");
    fake_call(false, 0, 0);
    test_has_text(test_next(tool), "OMIS_CSR_TRIGGERED");
    fake_gone();
    fake_come(pid, ""); /* executed another program */
    assert_null(tool->replies);
    fake_call(false, 0, 0);
    test_has_text(test_next(tool), "OMIS_CSR_TRIGGERED");
    test_close(tool);
}

/* ---- lowering ---- */

static void lists_run_in_the_agent(void **state)
{
    struct test_session *tool = with_process(NULL);
    test_has_text(test_ask(tool, ": pa_counter_create() pa_counter_create()"), "=pa_c_1_1");
    test_enable(
        tool, QUIET, "c_1_1",
        "ct_function_called([], \"solve\", \"n > 3\") : pa_counter_add([pa_c_1_1], $par0) pa_counter_add(pa_c_1_2, 1)");
    assert_false(fake_demands[0].raise || fake_demands[0].values);
    for (int i = 0; i < 10; i++)
        assert_int_equal(fake_call(false, i, 0), i > 3);
    test_has_text(test_ask(tool, ": pa_counter_read([pa_c_1_1, pa_c_1_2])"), "pa_c_1_1=39 OMIS_OK pa_c_1_2=6");
    assert_null(tool->replies);
    assert_int_equal(fake_released, 0);
    /* a counter less: the list is the monitor's then, which says so */
    test_ask(tool, ": pa_counter_delete([pa_c_1_2])");
    assert_true(fake_demands[0].raise);
    fake_call(false, 5, 0);
    test_has_text(test_next(tool), "OMIS_OK pa_c_1_1 | OMIS_UNKNOWN_OBJECT");
    test_close(tool);
}

static void what_cannot_be_lowered_is_raised(void **state)
{
    struct test_session *tool = with_process(NULL);
    test_ask(tool, ": pa_counter_create()");
    test_enable(tool, QUIET, "c_1_1", "ct_function_called([], \"solve\", \"; x\") : pa_counter_add([pa_c_1_1], $line)");
    assert_true(fake_demands[0].raise);
    fake_call(false, 0, 0);
    test_has_text(test_ask(tool, ": pa_counter_read([pa_c_1_1])"), "=5");
    test_close(tool);
}

/* c_1_2 counts; c_1_3 and c_1_4 switch it on and off, in the agent. */
static void lists_enable_and_disable(void **state)
{
    struct test_session *tool = with_process(NULL);
    test_ask(tool, ": pa_counter_create()");
    test_send(tool, QUIET, "ct_function_returned([], \"solve\") : pa_counter_add([pa_c_1_1], 1)");
    test_next(tool);
    test_enable(tool, QUIET, "c_1_2", "ct_function_called([], \"solve\", \"n == 1\") : csr_enable([c_1_1])");
    test_enable(tool, QUIET, "c_1_3", "ct_function_called([], \"solve\", \"n == 2\") : csr_disable([c_1_1])");
    for (int i = 0; i < FAKE_DEMANDS; i++)
        assert_false(fake_demands[i].raise);
    fake_call(true, 0, 0);
    fake_call(false, 1, 0);
    fake_call(true, 0, 0);
    fake_call(true, 0, 0);
    fake_call(false, 2, 0);
    fake_call(true, 0, 0);
    test_has_text(test_ask(tool, ": pa_counter_read([pa_c_1_1])"), "=2");
    /* and by the monitor */
    test_ask(tool, ": csr_enable([c_1_1])");
    fake_call(true, 0, 0);
    test_ask(tool, ": csr_disable([c_1_1])");
    fake_call(true, 0, 0);
    test_has_text(test_ask(tool, ": pa_counter_read([pa_c_1_1])"), "=3");
    /* it is deleted: the lists that switch it are the monitor's */
    test_ask(tool, ": csr_delete([c_1_1])");
    while (tool->replies)
        test_next(tool);
    fake_call(false, 1, 0);
    test_has_text(test_next(tool), "OMIS_UNKNOWN_OBJECT");
    test_close(tool);
}

/* A request that raises is switched, too, and two that switch each other. */
static void switches_raising_requests(void **state)
{
    struct test_session *tool = with_process(NULL);
    test_send(tool, OMIS_DONT_RETURN_EN_DIS, "ct_function_returned([], \"solve\") : print([1])");
    test_next(tool);
    test_send(tool, QUIET,
              "ct_function_called([], \"solve\", \"n == 2\") : csr_disable([c_1_1, c_1_2]) csr_enable([c_1_3])");
    test_next(tool);
    test_enable(tool, QUIET, "c_1_3",
                "ct_function_called([], \"solve\", \"n == 1\") : csr_enable([c_1_1, c_1_2]) csr_disable([c_1_3])");
    fake_call(true, 0, 0);
    assert_int_equal(fake_filters_run(), 0);
    fake_call(false, 1, 0);
    fake_call(true, 0, 0);
    test_has_text(test_next(tool), "OMIS_CSR_TRIGGERED");
    fake_call(false, 2, 0);
    fake_call(true, 0, 0);
    assert_null(tool->replies);
    fake_call(false, 1, 0);
    fake_call(true, 0, 0);
    test_has_text(test_next(tool), "OMIS_CSR_TRIGGERED");
    test_close(tool);
}

/* A tool that wants reports of enabled requests gets them: the list runs in the monitor. */
static void enables_aloud(void **state)
{
    struct test_session *tool = with_process(NULL);
    test_send(tool, 0, "ct_function_returned([], \"solve\") : print([1])");
    test_next(tool);
    test_enable(tool, QUIET, "c_1_2", "ct_function_called([], \"solve\") : csr_enable([c_1_1])");
    assert_true(fake_demands[0].raise);
    fake_call(false, 1, 0);
    assert_string_equal(test_next(tool), "OMIS_CSR_ENABLED | OMIS_OK p_1_1");
    test_close(tool);
}

static void lists_post_user_events(void **state)
{
    struct test_session *tool = with_process(NULL);
    test_ask(tool, ": user_event_create()");
    test_enable(tool, 0, "c_1_1", "user_event_has_been_raised(e_1_1) : print([$par1, $par2])");
    test_enable(tool, QUIET, "c_1_2",
                "ct_function_called([], \"solve\", \"n == 1\") : user_event_raise(e_1_1, [7, \"seven\"], 1)");
    assert_false(fake_demands[0].raise);
    fake_call(false, 0, 0);
    assert_null(tool->replies);
    fake_call(false, 1, 0);
    fake_call(false, 1, 0);
    assert_string_equal(test_next(tool), "OMIS_CSR_TRIGGERED u_0 | OMIS_OK=2,[7,\"seven\"]");
    assert_string_equal(test_next(tool), "OMIS_CSR_TRIGGERED u_0 | OMIS_OK=2,[7,\"seven\"]");
    assert_null(tool->replies);
    /* with resume 0 the thread waits */
    test_enable(tool, QUIET, "c_1_3", "ct_function_returned([], \"solve\") : user_event_raise(e_1_1, [8, 9], 0)");
    fake_call(true, 1, 0);
    assert_string_equal(test_next(tool), "OMIS_CSR_TRIGGERED t_1_1 | OMIS_OK=2,[8,9]");
    assert_int_equal(fake_released, 1);
    test_ask(tool, ": user_event_destroy(e_1_1)");
    fake_call(false, 1, 0);
    test_has_text(test_next(tool), "OMIS_UNKNOWN_OBJECT");
    test_close(tool);
}

/* A program that was taken away may still run in a thread: its cells are not another object's at once. */
static void cells_rest(void **state)
{
    struct cell_memory *cells = test_monitor->cells;
    int first = cell_new(cells);
    cell_free(cells, first);
    int second = cell_new(cells), count = 1, cell;
    assert_true(first >= 0 && second >= 0 && second != first);
    while ((cell = cell_new(cells)) >= 0 && cell != first)
        count++;
    assert_int_equal(cell, first); /* when all others are in use */
    assert_int_equal(count, CODE_CELLS - 1);
    assert_int_equal(cell_new(cells), -1);
    for (int i = 100; i < 140; i++)
        cell_free(cells, i);
    for (int i = 100; i < 140; i++)
        assert_int_equal(cell_new(cells), i);
}

/* ---- jobs ---- */

static void jobs_have_settings(void **state)
{
    struct test_session *run = test_open(NULL), *other = test_open(NULL);
    pid_t pid = test_child(1);
    test_has_text(test_ask(run, ": node_attach2(\"\") job_create(\"/tmp/jobs/abc\", %d)", pid), "=job_j_1_1");
    assert_true(fake_job_known);
    assert_string_equal(test_ask(other, ": job_set(\"abc\", \"depth\", \"5\")"), "OMIS_OK | OMIS_OK");
    assert_string_equal(test_ask(other, ": job_get_settings(\"job_j_1_1\")"), "OMIS_OK | OMIS_OK=[\"depth\",\"5\"]");
    test_has_text(test_ask(other, ": job_set(\"/tmp/jobs/abc\", \"depth\", \"x\")"),
                  "OMIS_PARAMETER_ERROR=depth takes a number");
    test_has_text(test_ask(other, ": job_set(\"abc\", \"sample\", \"2\")"), "OMIS_PARAMETER_ERROR=sample: ");
    test_has_text(test_ask(other, ": job_set(\"xyz\", \"depth\", \"2\")"), "no job xyz runs here; running: abc");
    test_enable(run, 0, "c_1_1", "job_setting_changed(\"/tmp/jobs/abc\") : print([$key, $value])");
    assert_string_equal(test_ask(other, ": job_set(\"abc\", \"sample\", \"2\")"), "OMIS_OK | OMIS_OK");
    assert_string_equal(test_next(run), "OMIS_CSR_TRIGGERED u_0 | OMIS_OK=2,[\"sample\",\"2\"]");
    test_ask(other, ": job_set(\"abc\", \"depth\", \"6\")");
    assert_string_equal(test_next(run), "OMIS_CSR_TRIGGERED u_0 | OMIS_OK=2,[\"depth\",\"6\"]");
    assert_string_equal(test_ask(other, ": job_trace_info(\"abc\")"),
                        "OMIS_OK | OMIS_OK=1,2,3,4,\"why\",\"2 processes were not traced: no room\",0,"
                        "\"none\",[[\"refused\",2,0,\"no room\"]],[[\"nothing_recorded\",\"why\"]]");
    test_close(run);
    assert_false(fake_job_known);
    test_has_text(test_ask(other, ": job_set(\"abc\", \"depth\", \"2\")"), "none does");
    test_close(other);
}

/* What scry run finds out: it is told what is wanted, and what it raises reaches those who wait. */
static void scry_run_raises_events(void **state)
{
    struct test_session *run = test_open(NULL), *other = test_open(NULL);
    test_ask(run, ": node_attach2(\"\") job_create(\"/tmp/jobs/abc\", %d)", test_child(1));
    test_enable(run, 0, "c_1_1", "job_events_wanted(\"\") : print([$events])");
    assert_string_equal(test_next(run), "OMIS_CSR_TRIGGERED u_0 | OMIS_OK=1,[\"\"]");
    test_enable(run, 0, "c_1_2", "job_log_matched(\"\", \"err*\") : print([$line, $text, $job])");
    assert_string_equal(test_next(run), "OMIS_CSR_TRIGGERED u_0 | OMIS_OK=1,[\"job_log_matched\"]");
    test_enable(other, 0, "c_1_3", "job_command_failed(\"abc\", \"run.sh:*\") : print([$status, $seconds])");
    assert_string_equal(test_next(run), "OMIS_CSR_TRIGGERED u_0 | OMIS_OK=1,[\"job_log_matched job_command_failed\"]");

    assert_string_equal(test_ask(run, ": job_raise(\"abc\", \"job_log_matched\", "
                                      "[\"/l\", -1, \"info\", \"p\", \"no\", 0, \"\"]) "
                                      "job_raise(\"/tmp/jobs/abc\", \"job_log_matched\", "
                                      "[\"/l\", 7, \"error\", \"p\", \"disk\", 0, \"\"])"),
                        "OMIS_OK | OMIS_OK | OMIS_OK");
    assert_string_equal(test_next(run), "OMIS_CSR_TRIGGERED u_0 | OMIS_OK=3,[7,\"disk\",\"/tmp/jobs/abc\"]");
    assert_null(run->replies);
    test_ask(run, ": job_raise(\"abc\", \"job_command_failed\", "
                  "[1, \"bash\", \"/home/run.sh\", 12, \"\", \"false\", 1, -1])");
    assert_string_equal(test_next(other), "OMIS_CSR_TRIGGERED u_0 | OMIS_OK=2,[1,-1.0]");

    test_has_text(test_ask(other, ": job_raise(\"abc\", \"job_progress\", [\"\", 1, 2, 3])"), "OMIS_NO_PERMISSION");
    test_has_text(test_ask(run, ": job_raise(\"abc\", \"job_progress\", [\"\", 1, 2])"),
                  "4 outputs without the job, not 3");
    test_has_text(test_ask(run, ": job_raise(\"abc\", \"job_progress\", [1, 1, 2, 3])"),
                  "output source of job_progress");
    test_has_text(test_ask(run, ": job_raise(\"abc\", \"job_setting_changed\", [\"\"])"), "is no event that job_raise");
    test_has_text(test_ask(run, ": job_raise(\"xyz\", \"job_progress\", [])"), "no job xyz runs here");

    test_close(other);
    assert_string_equal(test_next(run), "OMIS_CSR_TRIGGERED u_0 | OMIS_OK=1,[\"job_log_matched\"]");
    test_close(run);
}

/* Rules of scry run mean the processes of its job that are traced, also those that come later. */
static void processes_of_a_job_are_attached(void **state)
{
    struct test_session *run = test_open(NULL);
    test_ask(run, ": node_attach2(\"\") job_create(\"/tmp/jobs/abc\", %d)", test_child(1));
    test_enable(run, 0, "c_1_1", "ct_function_called([], \"solve\", \"x != x\") : print([$proc])");
    fake_come(test_child(1), "/tmp/jobs/abc");
    assert_string_equal(test_next(run), "OMIS_CSR_ENABLED | OMIS_OK p_1_1");
    fake_call(false, 0, 1);
    assert_null(run->replies);
    fake_call(false, 0, (double)NAN);
    assert_string_equal(test_next(run), "OMIS_CSR_TRIGGERED t_1_1 | OMIS_OK=1,[p_1_1]");
    test_close(run);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, fake_engine_start, test_engine_stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conditions_mean_what_they_mean_in_c),
        cmocka_unit_test(conditions_know_the_duration),
        cmocka_unit_test(expressions_are_parameters),
        cmocka_unit_test(says_what_is_wrong_with_a_condition),
        TEST(informs),
        TEST(scry_run_raises_events),
        TEST(raises_events),
        TEST(raises_returns),
        TEST(refuses_wrong_definitions),
        TEST(a_new_agent_is_armed),
        TEST(lists_run_in_the_agent),
        TEST(what_cannot_be_lowered_is_raised),
        TEST(lists_enable_and_disable),
        TEST(switches_raising_requests),
        TEST(enables_aloud),
        TEST(lists_post_user_events),
        TEST(cells_rest),
        TEST(jobs_have_settings),
        TEST(processes_of_a_job_are_attached),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
