/* SPDX-License-Identifier: Apache-2.0 */
/* The events of MPI calls, with agents that are not there. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "monitor/engine/csr.h"
#include "monitor/engine/test_support.h"
#include "service/omis/service.h"
#include "service/ct/test_fake_agents.h"
#include "shm/mpi_area.h"

static pid_t pid; /* of p_1_1 */

static int stop(void **state)
{
    fake_mpi_gone(test_monitor);
    return test_engine_stop(state);
}

static struct test_session *with_process(bool agent, bool mpi)
{
    struct test_session *tool = test_open(NULL);
    pid = test_child(2);
    if (agent)
        fake_come(pid, "");
    if (mpi)
        fake_mpi_come(test_monitor, pid);
    test_ask(tool, ": proc_attach3([], %d, \"\")", pid);
    return tool;
}

static const struct mpi_told send_told = {
    .par = {0, 0x7fff00000000, 25, 77, 3, 9, -1140850688},
    .flags = MPI_TOLD_COMM | MPI_TOLD_PEER | MPI_TOLD_TAG | MPI_TOLD_BYTES,
    .comm = 1,
    .peer = 5,
    .tag = 9,
    .bytes = 100,
};

/* ---- definitions ---- */

static const char *problem_of(struct test_session *tool, const char *text)
{
    test_send(tool, 0, "%s", text);
    return test_next(tool);
}

static void says_what_is_wrong(void **state)
{
    struct test_session *tool = test_open(NULL);
    test_has_text(problem_of(tool, "thread_has_started_lib_call([], \"MPI_Sned\") : print([1])"),
                  "OMIS_PARAMETER_ERROR=lib_call_name: MPI has no call \"MPI_Sned\": is it MPI_Send, ");
    test_has_text(problem_of(tool, "thread_has_started_lib_call([], \"pvm_barrier_of_all\") : print([1])"),
                  "OMIS_PARAMETER_ERROR=lib_call_name: MPI has no call \"pvm_barrier_of_all\"");
    test_has_text(
        problem_of(tool, "thread_has_started_lib_call([], \"MPI_Send\", \"cnt > 1\") : print([1])"),
        "OMIS_PARAMETER_ERROR=condition: MPI_Send has no 'cnt' when it starts: it has par1 buf, par2 count, par3 "
        "datatype, par4 dest, par5 tag, par6 comm, par7 (the message), par8 (its length), peer, tag, comm, bytes");
    test_has_text(problem_of(tool, "thread_has_started_lib_call([], \"MPI_Send\", \"count >\") : print([1])"),
                  "OMIS_PARAMETER_ERROR=condition: expected a value");
    test_has_text(problem_of(tool, "thread_has_started_lib_call([], \"MPI_Send\", \"result != 0\") : print([1])"),
                  "the result is there when the call has ended");
    test_has_text(problem_of(tool, "thread_has_started_lib_call([], \"MPI_Send\") : print([$par0])"),
                  "OMIS_UNKNOWN_ECP=");
    test_has_text(problem_of(tool, "thread_has_started_lib_call([], \"MPI_Send\") : print([$par9])"),
                  "OMIS_UNKNOWN_ECP=MPI_Send has no 'par9'");
    test_has_text(problem_of(tool, "thread_has_started_lib_call([], \"MPI_Barrier\") : print([$dest])"),
                  "OMIS_UNKNOWN_ECP=MPI_Barrier has no 'dest'");
    test_has_text(problem_of(tool, "thread_has_started_lib_call([], \"MPI_W*\") : print([$dest])"),
                  "OMIS_UNKNOWN_ECP=none of these calls has 'dest'");
    test_has_text(problem_of(tool, "thread_has_started_lib_call([], \"MPI_Send\") : print([$nonsense])"),
                  "has no parameter $nonsense");
    test_has_text(problem_of(tool, "thread_has_started_lib_call([], \"MPI_Send\") : print([$duration])"),
                  "OMIS_UNKNOWN_ECP=");
    test_has_text(problem_of(tool, "thread_has_started_lib_call([]) : print([1])"), "OMIS_TYPE_MISMATCH=");
    test_close(tool);
}

/* ---- events ---- */

static void raises_events(void **state)
{
    struct test_session *tool = with_process(true, true);
    test_install(tool, 0, "c_1_1",
                 "thread_has_started_lib_call([], \"MPI_Send\", \"count > 20 && peer == 5\") : print([$call, $par2, "
                 "$par4, $dest, $par7, $par8, $comm, $peer, $tag, $bytes, $msg, $proc, $thread])");
    assert_string_equal(test_next(tool), "OMIS_CSR_ENABLED | OMIS_OK p_1_1");
    test_next(tool);
    assert_int_equal(fake_tells, 1);
    assert_int_equal(fake_numbers, 1);
    assert_true(fake_demands[0].raise && fake_demands[0].has_program);
    struct mpi_told told = send_told;
    fake_mpi_call(CALL_MPI_Recv, false, &told);
    fake_mpi_call(CALL_MPI_Send, true, &told);
    told.par[2] = 20;
    fake_mpi_call(CALL_MPI_Send, false, &told);
    assert_null(tool->replies);
    assert_int_equal(fake_released, 0);
    fake_mpi_call(CALL_MPI_Send, false, &send_told);
    assert_string_equal(test_next(tool),
                        "OMIS_CSR_TRIGGERED t_1_1 | OMIS_OK=13,[\"MPI_Send\",25,3,3,u_0,100,1,5,9,100,u_0,"
                        "p_1_1,t_1_1]");
    assert_int_equal(fake_released, 1);
    test_send(tool, 0, ": csr_disable([c_1_1])");
    test_next(tool);
    test_next(tool);
    assert_null(fake_demands[0].csr);
    assert_int_equal(fake_tells, 0);
    assert_int_equal(fake_numbers, 0);
    test_close(tool);
}

static void raises_ends(void **state)
{
    struct test_session *tool = with_process(true, true);
    test_enable(
        tool, 0, "c_1_1",
        "thread_has_ended_lib_call([p_1_1], \"MPI_Recv,MPI_Barrier\") : print([$par0, $result, $call, $received, "
        "$duration])");
    struct mpi_told told = {.par = {15}, .got_bytes = 12, .flags = MPI_TOLD_ENDED};
    fake_mpi_call(CALL_MPI_Recv, true, &told);
    assert_string_equal(test_next(tool), "OMIS_CSR_TRIGGERED t_1_1 | OMIS_OK=5,[15,15,\"MPI_Recv\",12,5e-07]");
    told.got_bytes = 0;
    fake_mpi_call(CALL_MPI_Barrier, true, &told);
    assert_string_equal(test_next(tool), "OMIS_CSR_TRIGGERED t_1_1 | OMIS_OK=5,[15,15,\"MPI_Barrier\",0,5e-07]");
    /* what only some of the calls have */
    test_enable(tool, 0, "c_1_2", "thread_has_ended_lib_call([], \"MPI_*\") : print([$par3])");
    fake_mpi_call(CALL_MPI_Bcast, true, &send_told);
    assert_string_equal(test_next(tool), "OMIS_CSR_TRIGGERED t_1_1 | OMIS_OK=1,[77]");
    fake_mpi_call(CALL_MPI_Wtime, true, &send_told);
    test_has_text(test_next(tool), "OMIS_UNKNOWN_ECP=the event context parameter $");
    test_close(tool);
}

/* What a call does not have makes no comparison true. */
static void conditions_on_many_calls(void **state)
{
    struct test_session *tool = with_process(true, true);
    test_enable(tool, 0, "c_1_1", "thread_has_started_lib_call([], \"\", \"tag != 1\") : print([$call])");
    fake_mpi_call(CALL_MPI_Barrier, false, &send_told);
    assert_null(tool->replies);
    fake_mpi_call(CALL_MPI_Send, false, &send_told);
    assert_string_equal(test_next(tool), "OMIS_CSR_TRIGGERED t_1_1 | OMIS_OK=1,[\"MPI_Send\"]");
    test_close(tool);
}

static void threads_are_told_apart(void **state)
{
    struct test_session *tool = with_process(true, true);
    test_ask(tool, ": thread_get_info([], 1)"); /* names them */
    test_ask(tool, ": pa_counter_create()");
    test_enable(tool, QUIET, "c_1_1",
                "thread_has_started_lib_call([t_1_2], \"MPI_Send\") : pa_counter_add([pa_c_1_1], 1)");
    assert_true(fake_demands[0].raise);              /* programs do not know their thread */
    fake_mpi_call(CALL_MPI_Send, false, &send_told); /* of t_1_1 */
    test_has_text(test_ask(tool, ": pa_counter_read([pa_c_1_1])"), "pa_c_1_1=0");
    test_enable(tool, QUIET, "c_1_2",
                "thread_has_started_lib_call([t_1_1], \"MPI_Send\") : pa_counter_add([pa_c_1_1], 5)");
    fake_mpi_call(CALL_MPI_Send, false, &send_told);
    test_has_text(test_ask(tool, ": pa_counter_read([pa_c_1_1])"), "pa_c_1_1=5");
    test_close(tool);
}

/* ---- lowering ---- */

static void lists_run_in_the_agent(void **state)
{
    struct test_session *tool = with_process(true, true);
    test_ask(tool, ": pa_counter_create() pa_counter_create() pa_timer_create()");
    test_enable(tool, QUIET, "c_1_1",
                "thread_has_started_lib_call([], \"MPI_Send\", \"tag > 3\") : pa_counter_add([pa_c_1_1], $par8) "
                "pa_counter_add([pa_c_1_2], $count) pa_timer_start([pa_t_1_1])");
    test_enable(tool, QUIET, "c_1_2", "thread_has_ended_lib_call([], \"MPI_Send\") : pa_timer_stop([pa_t_1_1])");
    assert_false(fake_demands[0].raise || fake_demands[1].raise);
    assert_string_equal(fake_demands[0].params[0], "tag");
    assert_string_equal(fake_demands[0].params[1], "par8");
    assert_string_equal(fake_demands[0].params[2], "count");
    struct mpi_told told = send_told;
    for (int i = 0; i < 10; i++) {
        told.tag = i;
        assert_int_equal(fake_mpi_call(CALL_MPI_Send, false, &told), i > 3);
        fake_mpi_call(CALL_MPI_Send, true, &told);
    }
    test_has_text(test_ask(tool, ": pa_counter_read([pa_c_1_1, pa_c_1_2])"), "pa_c_1_1=600 OMIS_OK pa_c_1_2=150");
    assert_null(tool->replies);
    assert_int_equal(fake_released, 0);
    test_close(tool);
}

/* A token cannot be added: the monitor says so. */
static void what_is_no_number_is_the_monitors(void **state)
{
    struct test_session *tool = with_process(true, true);
    test_ask(tool, ": pa_counter_create()");
    test_enable(tool, QUIET, "c_1_1",
                "thread_has_started_lib_call([], \"MPI_Send\") : pa_counter_add([pa_c_1_1], $par7)");
    assert_true(fake_demands[0].raise);
    fake_mpi_call(CALL_MPI_Send, false, &send_told);
    test_has_text(test_next(tool), "OMIS_TYPE_MISMATCH=");
    test_close(tool);
}

static void gates(void **state)
{
    struct test_session *tool = with_process(true, true);
    test_ask(tool, ": pa_counter_create()");
    test_send(tool, QUIET, "thread_has_started_lib_call([], \"MPI_Send\") : pa_counter_add([pa_c_1_1], 1)");
    test_next(tool);
    test_enable(tool, QUIET, "c_1_2", "thread_has_started_lib_call([], \"MPI_Init\") : csr_enable([c_1_1])");
    fake_mpi_call(CALL_MPI_Send, false, &send_told);
    test_has_text(test_ask(tool, ": pa_counter_read([pa_c_1_1])"), "pa_c_1_1=0");
    fake_mpi_call(CALL_MPI_Init, false, &send_told);
    fake_mpi_call(CALL_MPI_Send, false, &send_told);
    test_has_text(test_ask(tool, ": pa_counter_read([pa_c_1_1])"), "pa_c_1_1=1");
    test_close(tool);
}

/* ---- processes that come ---- */

static void waits_for_its_agent(void **state)
{
    struct test_session *tool = with_process(false, true);
    test_install(tool, 0, "c_1_1", "thread_has_started_lib_call([], \"MPI_Send\") : print([$count])");
    assert_string_equal(test_next(tool), "OMIS_CSR_ENABLED | OMIS_OK");
    test_next(tool);
    assert_int_equal(fake_tells, 1); /* so that it asks for its area */
    assert_int_equal(fake_numbers, 0);
    assert_null(tool->replies);
    fake_come(pid, "");
    assert_string_equal(test_next(tool), "OMIS_CSR_ENABLED | OMIS_OK p_1_1");
    assert_int_equal(fake_tells, 1);
    fake_mpi_call(CALL_MPI_Send, false, &send_told);
    assert_string_equal(test_next(tool), "OMIS_CSR_TRIGGERED t_1_1 | OMIS_OK=1,[25]");
    test_send(tool, 0, ": csr_delete([c_1_1])");
    assert_int_equal(fake_tells, 0);
    test_close(tool);
}

/* It is in force, and said that nothing will come. */
static void mpi_is_off(void **state)
{
    fake_mpi_on = false;
    struct test_session *tool = with_process(true, true);
    fake_mpi_on = true;
    test_install(tool, 0, "c_1_1", "thread_has_started_lib_call([], \"MPI_Send\") : print([$count])");
    test_has_text(test_next(tool), "OMIS_CSR_ENABLED | OMIS_OK p_1_1=MPI is switched off in process");
    test_next(tool);
    fake_mpi_call(CALL_MPI_Send, false, &send_told);
    test_has_text(test_next(tool), "OMIS_CSR_TRIGGERED");
    test_close(tool);
}

static void waits_for_its_mpi(void **state)
{
    struct test_session *tool = with_process(false, false);
    test_install(tool, 0, "c_1_1", "thread_has_started_lib_call([], \"MPI_Send\") : print([$count])");
    test_has_text(test_next(tool), "OMIS_UNSUPPORTED_SERVICE p_1_1=process");
    test_next(tool);
    fake_mpi_come(test_monitor, pid); /* it has loaded its library */
    assert_int_equal(fake_tells, 1);
    fake_come(pid, "");
    assert_string_equal(test_next(tool), "OMIS_CSR_ENABLED | OMIS_OK p_1_1");
    /* another program in the same process */
    fake_gone();
    fake_mpi_gone(test_monitor);
    fake_mpi_come(test_monitor, pid);
    assert_int_equal(fake_tells, 1);
    fake_come(pid, "");
    fake_mpi_call(CALL_MPI_Send, false, &send_told);
    const char *text = test_next(tool);
    while (!strstr(text, "OMIS_CSR_TRIGGERED"))
        text = test_next(tool);
    test_close(tool);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, fake_engine_start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(says_what_is_wrong),
        TEST(raises_events),
        TEST(raises_ends),
        TEST(conditions_on_many_calls),
        TEST(threads_are_told_apart),
        TEST(lists_run_in_the_agent),
        TEST(what_is_no_number_is_the_monitors),
        TEST(gates),
        TEST(waits_for_its_agent),
        TEST(mpi_is_off),
        TEST(waits_for_its_mpi),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
