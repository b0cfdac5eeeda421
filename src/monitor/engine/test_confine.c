/* SPDX-License-Identifier: Apache-2.0 */
/* Each way around a confinement that was thought of. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "lang/value.h"
#include "monitor/engine/execute.h"
#include "monitor/engine/object.h"
#include "monitor/engine/test_support.h"

static const char JOB[] = "/tmp/jobs/abc", OTHER_JOB[] = "/tmp/jobs/xyz";
enum { OBSERVE = 1, CONTROL = 3, MEMORY = 7, NO_CONTROL = 5 };

int null_register(void);
int filter_register(void);

/* An extension that does whatever it is asked to, whoever asks. */
static void deputy(struct scry_call *call)
{
    Omis_reply reply = omis_request((char *)scry_arg_string(call, 0, NULL), NULL, NULL, 0);
    const Omis_object_result *result = reply[0]->status >= OMIS_FIRST_ERROR ? reply[0] : reply[1];
    if (result->status == OMIS_OK)
        scry_result_string(call, NULL, result->result ? result->result : "",
                           result->result ? strlen(result->result) : 0);
    else
        scry_fail(call, NULL, result->status, "%s", result->result ? result->result : "");
    omis_reply_free(reply);
}

static void finder(struct scry_call *call)
{
    scry_result_integer(call, NULL, scry_object_find(scry_arg_string(call, 0, NULL)) != NULL);
}

static int tx_register(void)
{
    static const struct scry_service rows[] = {
        {"tx_deputy", SCRY_INFORMATION, "string request -> any", SCRY_OPTIONAL, deputy, "."},
        {"tx_find", SCRY_INFORMATION, "string token -> integer", SCRY_OPTIONAL, finder, "."},
    };
    return scry_register_service(&rows[0]) || scry_register_service(&rows[1]);
}

/* ---- two jobs: abc has p_1_1, xyz has p_1_2 ---- */

static struct test_session *run, *run_other;
static pid_t own, other;

static int start(void **state)
{
    if (test_engine_start(state) < 0 || test_engine_extend("null", null_register) < 0 ||
        test_engine_extend("filter", filter_register) < 0 || test_engine_extend("tx", tx_register) < 0)
        return -1;
    own = test_child(2);
    other = test_child(1);
    run = test_open(NULL);
    run_other = test_open(NULL);
    test_has_text(test_ask(run, ": proc_attach3([], %d, \"\")", own), "=p_1_1");
    test_has_text(test_ask(run_other, ": proc_attach3([], %d, \"\")", other), "=p_1_2");
    test_has_text(test_ask(run, ": job_create(\"%s\", %d)", JOB, own), "=job_j_1_1");
    test_has_text(test_ask(run_other, ": job_create(\"%s\", %d)", OTHER_JOB, other), "=job_j_1_2");
    return 0;
}

static int stop(void **state)
{
    test_close(run);
    test_close(run_other);
    return test_engine_stop(state);
}

static struct test_session *open_confined(unsigned rights)
{
    struct test_session *tool = test_open(NULL);
    test_confine(tool, rights, JOB);
    return tool;
}

static void refused(struct test_session *tool, const char *request)
{
    const char *text = test_ask(tool, "%s", request);
    if (!strstr(text, "OMIS_NO_PERMISSION"))
        fail_msg("%s: %s", request, text);
}

static void allowed(struct test_session *tool, const char *request)
{
    const char *text = test_ask(tool, "%s", request);
    if (strstr(text, "OMIS_NO_PERMISSION"))
        fail_msg("%s: %s", request, text);
}

/* ---- rights ---- */

static void each_service_has_a_right(void **state)
{
    (void)state;
    const struct service *service;
    for (service = test_monitor->registry->services; service; service = service->hh.next) {
        bool value = strstr(service->row->name, "memory") || strstr(service->row->name, "regs") ||
                     strstr(service->row->name, "variable") || strstr(service->row->name, "content");
        if (value && service->right != RIGHT_MEMORY && strncmp(service->row->name, "null", 4) != 0)
            fail_msg("%s shows or changes values, and needs %s only", service->row->name, right_name(service->right));
        if (!service->right)
            fail_msg("%s has no right", service->row->name);
        if (service->row->kind == SCRY_MANIPULATION && service->right == RIGHT_OBSERVE &&
            strncmp(service->row->name, "csr_", 4) != 0 && strncmp(service->row->name, "user_event_", 11) != 0 &&
            !strstr(service->row->name, "tach"))
            fail_msg("%s changes something, and who observes may use it", service->row->name);
    }
}

static void rights_are_held(void **state)
{
    struct test_session *observe = open_confined(OBSERVE), *control = open_confined(CONTROL),
                        *memory = open_confined(MEMORY), *reads = open_confined(NO_CONTROL);
    (void)state;
    test_ask(observe, ": proc_attach([p_1_1])");
    test_ask(control, ": proc_attach([p_1_1])");
    test_ask(memory, ": proc_attach([p_1_1])");
    test_has_text(test_ask(observe, ": proc_send_signal([p_1_1], 0)"),
                  "this key may observe only: proc_send_signal needs control");
    test_has_text(test_ask(control, ": proc_read_memory([p_1_1], 0, 1, 1, 1)"), "needs memory");
    allowed(observe, ": proc_get_info([], 512)");
    allowed(observe, ": thread_get_info([], 1)");
    allowed(observe, ": node_get_info([], 1)");
    allowed(observe, ": version() services(\"\") extensions() print([1])");
    allowed(control, ": proc_send_signal([p_1_1], 0)");
    allowed(memory, ": proc_send_signal([p_1_1], 0)");
    allowed(memory, ": proc_read_memory([p_1_1], 4096, 1, 1, 1)");
    refused(control, ": thread_call([], 1)");
    refused(reads, ": proc_send_signal([], 0)"); /* who may read values need not be allowed to change anything else */
    allowed(reads, ": proc_read_memory([], 4096, 1, 1, 1)");
    test_close(reads);
    refused(control, ": thread_goto([], 1)");
    refused(control, ": thread_read_int_regs([], 0, 1)");
    refused(control, ": ct_read_variable([], \"a\")");
    refused(control, ": proc_get_info([], 32)"); /* the environment */
    allowed(memory, ": proc_get_info([], 32)");
    refused(observe, ": thread_stop([])");
    refused(observe, ": job_set(\"\", \"trace\", \"fn:a\")");
    refused(observe, ": job_send_signal(\"\", \"page\", 9)");
    refused(memory, ": job_set(\"\", \"log\", \"/home/me/.ssh/id_ed25519=.*\")"); /* which would be published */
    refused(observe, "thread_has_started_sys_call([], \"write\") : print([$par1])");
    refused(control, "ct_function_called([], \"main\") : print([1])");
    /* a list is checked as a whole: nothing of it is done */
    refused(observe, ": user_event_create() proc_send_signal([p_1_1], 9)");
    test_has_text(test_ask(observe, ": user_event_create()"), "=e_1_1");
    test_close(memory);
    test_close(control);
    test_close(observe);
}

static void nothing_local_is_used_from_elsewhere(void **state)
{
    static const char *const requests[] = {": proc_create([], \"/bin/true\", [], [], [])",
                                           ": scry_monitor_get_state()",
                                           ": scry_monitor_set_log_level(\"debug\")",
                                           ": job_create(\"/tmp/jobs/abc\", 1)",
                                           ": job_get_info([], 0)",
                                           ": job_get_info([job_j_1_1], 0)",
                                           ": job_destroy([job_j_1_1])",
                                           ": job_raise(\"abc\", \"job_progress\", [])",
                                           ": ct_snapshot([])",
                                           "job_events_wanted(\"abc\") : print([1])"};
    struct test_session *tool = open_confined(MEMORY);
    (void)state;
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++)
        refused(tool, requests[i]);
    test_close(tool);
}

/* ---- processes ---- */

static void only_processes_of_the_job(void **state)
{
    struct test_session *tool = open_confined(MEMORY);
    char text[128];
    (void)state;
    refused(tool, ": proc_attach([p_1_2])");
    snprintf(text, sizeof text, ": proc_attach3([], %d, \"\")", other);
    test_has_text(test_ask(tool, "%s", text), "is none of the job abc");
    /* what it runs is not told either */
    snprintf(text, sizeof text, ": proc_attach3([], %d, \"/bin/nothing\")", other);
    test_has_text(test_ask(tool, "%s", text), "is none of the job abc");
    refused(tool, ": proc_attach3([], 1, \"\")");
    refused(tool, ": proc_send_signal([p_1_2], 9)");
    refused(tool, ": proc_send_signal([p_1_1, p_1_2], 0)");
    refused(tool, ": proc_get_info(p_1_2, 1)");
    refused(tool, ": proc_get_info([p_1_2], 1)");
    refused(tool, ": thread_get_info([p_1_2], 1)");
    refused(tool, ": proc_get_loader_info([p_1_2])");
    test_ask(run_other, ": thread_get_info([], 1)"); /* its threads have tokens now */
    refused(tool, ": proc_get_info([t_1_1], 1)");
    refused(tool, ": thread_stop([t_1_1])");
    test_has_text(test_ask(tool, ": ct_read_variable([p_1_2], \"a\")"), "NO_PERMISSION");
    /* the node stands for what is attached */
    snprintf(text, sizeof text, ": proc_attach3([], %d, \"\")", own);
    test_has_text(test_ask(tool, "%s", text), "=p_1_1");
    test_ask(tool, ": node_attach([n_1])");
    const char *all = test_ask(tool, ": proc_get_info([n_1], 512)");
    test_has_text(all, "p_1_1");
    assert_null(strstr(all, "p_1_2"));
    all = test_ask(tool, ": proc_get_info([], 512)");
    assert_null(strstr(all, "p_1_2"));
    /* a process of nobody's job */
    snprintf(text, sizeof text, ": proc_attach3([], %d, \"\")", test_child(1));
    refused(tool, text);
    test_close(tool);
}

static void no_job_no_process(void **state)
{
    struct test_session *tool = test_open(NULL);
    (void)state;
    test_confine(tool, MEMORY, "/tmp/jobs/ab"); /* nobody follows it; the beginning of another's name */
    refused(tool, ": proc_attach([p_1_1])");
    refused(tool, ": job_get_settings(\"abc\")");
    test_close(tool);
}

/* ---- jobs by their names ---- */

static void only_its_own_job(void **state)
{
    static const char *const requests[] = {": job_set(\"xyz\", \"trace\", \"fn:a\")",
                                           ": job_set(\"/tmp/jobs/xyz\", \"trace\", \"fn:a\")",
                                           ": job_set(\"job_j_1_2\", \"trace\", \"fn:a\")",
                                           ": job_set(\"/tmp/jobs/../jobs/xyz\", \"trace\", \"fn:a\")",
                                           ": job_get_settings(\"xyz\")",
                                           ": job_trace_info(\"xyz\")",
                                           ": mpi_get_ranks(\"xyz\")",
                                           ": mpi_get_activity(\"/etc\")",
                                           ": mpi_get_wait_graph(\"/etc\", 1)",
                                           ": mpi_flush(\"/tmp\")",
                                           "job_setting_changed(\"xyz\") : print([$value])",
                                           "job_was_requested(\"xyz\") : print([$request])",
                                           "job_log_matched(\"xyz\") : print([$line])",
                                           "mpi_job_has_stalled(\"xyz\", 1) : print([1])"};
    struct test_session *tool = open_confined(MEMORY);
    (void)state;
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++)
        refused(tool, requests[i]);
    /* an error does not name other jobs */
    assert_null(strstr(test_ask(tool, ": job_get_settings(\"nothing\")"), "xyz"));
    allowed(tool, ": job_get_settings(\"abc\")");
    allowed(tool, ": job_get_settings(\"/tmp/jobs/abc\")");
    allowed(tool, ": job_get_settings(\"\")"); /* its own, not that of nobody */
    test_has_text(test_ask(tool, ": job_get_settings(\"\")"), "OMIS_OK | OMIS_OK");
    test_close(tool);
}

static void all_jobs_is_its_own(void **state)
{
    struct test_session *tool = open_confined(OBSERVE);
    (void)state;
    /* "" would be: all jobs. Of another tool's event it would hear nothing, of its own job's it does */
    test_enable(tool, QUIET, "c_1_1", "job_log_matched(\"\") : print([$line, $job])");
    test_ask(run_other, ": job_raise(\"xyz\", \"job_log_matched\", [\"a\", \"b\", \"/x\", 1, \"secret\", 0, \"\"])");
    assert_null(tool->replies);
    test_close(tool);
}

/* ---- events, and what their lists do ---- */

static void lists_of_events_are_confined(void **state)
{
    struct test_session *tool = open_confined(CONTROL);
    (void)state;
    test_ask(tool, ": proc_attach([p_1_1])");
    test_has_text(test_ask(tool, ": user_event_create()"), "=e_1_1");
    refused(tool, "user_event_has_been_raised(e_1_1) : proc_read_memory([$par1], 0, 1, 1, 1)");
    /* a token, and a job, that come as a parameter */
    test_enable(tool, QUIET, "c_1_1", "user_event_has_been_raised(e_1_1) : proc_send_signal([$par1], 0)");
    test_ask(tool, ": user_event_raise(e_1_1, [p_1_2], 1)");
    test_has_text(test_next(tool), "OMIS_NO_PERMISSION p_1_2");
    test_ask(tool, ": csr_delete([])");
    while (tool->replies)
        test_take(tool);
    test_enable(tool, QUIET, "c_1_2", "user_event_has_been_raised(e_1_1) : job_get_settings($par1)");
    test_ask(tool, ": user_event_raise(e_1_1, [\"xyz\"], 1)");
    test_has_text(test_next(tool), "OMIS_NO_PERMISSION");
    /* all processes: its own */
    test_ask(tool, ": csr_delete([])");
    while (tool->replies)
        test_take(tool);
    test_enable(tool, QUIET, "c_1_3", "user_event_has_been_raised(e_1_1) : proc_get_info([n_1], 512)");
    test_ask(tool, ": user_event_raise(e_1_1, [], 1)");
    const char *text = test_next(tool);
    test_has_text(text, "p_1_1");
    assert_null(strstr(text, "p_1_2"));
    test_close(tool);
}

static void events_of_others_do_not_exist(void **state)
{
    struct test_session *tool = open_confined(MEMORY);
    (void)state;
    test_has_text(test_ask(run, ": user_event_create()"), "=e_1_1");
    test_has_text(test_ask(run, ": null_box_create()"), "=null_b_1_1");
    /* whose lists would run with the rights of that tool */
    refused(tool, ": user_event_raise(e_1_1, [], 1)");
    refused(tool, "user_event_has_been_raised(e_1_1) : print([1])");
    refused(tool, "null_box_changed([null_b_1_1]) : print([1])");
    refused(tool, ": null_box_get([null_b_1_1])");
    refused(tool, ": null_box_set([null_b_1_1], 3)");
    refused(tool, ": user_event_destroy(e_1_1)");
    refused(tool, ": filter(1, 1, e_1_1)");
    test_enable(run, QUIET, "c_1_3", "user_event_has_been_raised(e_1_1) : print([1])");
    refused(tool, ": csr_delete([c_1_3])");
    refused(tool, ": csr_disable([c_1_3])");
    refused(tool, "proc_has_terminated([p_1_2]) : print([1])");
    assert_null(run->replies);
    test_close(tool);
}

static void extensions_are_as_confined(void **state)
{
    struct test_session *tool = open_confined(OBSERVE);
    (void)state;
    refused(tool, ": tx_deputy(\": proc_send_signal([p_1_1], 9)\")");
    refused(tool, ": tx_deputy(\": proc_attach([p_1_2])\")");
    refused(tool, ": tx_deputy(\": job_get_settings(\\\"xyz\\\")\")");
    refused(tool, ": tx_deputy(\": scry_monitor_get_state()\")");
    test_has_text(test_ask(tool, ": tx_find(\"p_1_1\")"), "=1");
    test_has_text(test_ask(tool, ": tx_find(\"p_1_2\")"), "=0");
    test_has_text(test_ask(tool, ": tx_find(\"job_j_1_2\")"), "=0");
    test_has_text(test_ask(run, ": tx_find(\"p_1_2\")"), "=1"); /* who is not confined */
    refused(tool, ": null_box_create()");                       /* by its kind */
    test_close(tool);
}

/* ---- memory ---- */

static void memory_has_limits(void **state)
{
    struct test_session *tool = open_confined(OBSERVE);
    struct buf request = BUF_INIT;
    (void)state;
    /* objects: at the call, also within one list; and what was deleted makes room */
    buf_puts(&request, ":");
    for (unsigned i = 0; i <= CONFINED_OBJECTS; i++)
        buf_puts(&request, " user_event_create()");
    test_has_text(test_ask(tool, "%s", request.data), "at most 512 objects");
    test_has_text(test_ask(tool, "user_event_has_been_raised(e_1_1) : print([1])"), "at most 512 objects");
    test_ask(tool, ": user_event_destroy(e_1_2) user_event_destroy(e_1_3)");
    test_has_text(test_ask(tool, ": user_event_create()"), "=e_1_");
    /* the text of conditional requests */
    buf_clear(&request);
    buf_puts(&request, "user_event_has_been_raised(e_1_1) : print([\"");
    for (unsigned i = 0; i < CONFINED_TEXT_BYTES; i++)
        buf_putc(&request, 'x');
    buf_puts(&request, "\"])");
    test_has_text(test_ask(tool, "%s", request.data), "conditional requests of 262144 bytes");
    test_has_text(test_ask(run, ": user_event_create()"), "=e_1_"); /* who is not confined has no such limits */
    /* events that raise events, with parameters that are copied each time */
    test_enable(tool, QUIET, "c_1_1",
                "user_event_has_been_raised(e_1_1) : user_event_raise(e_1_1, [$par1], 1) user_event_raise(e_1_1, "
                "[$par1], 1)");
    test_ask(tool, ": user_event_raise(e_1_1, [1], 1)");
    bool limited = false;
    while (tool->replies)
        limited |= strstr(test_next(tool), "more than 256 events were raised by one event") != NULL;
    assert_true(limited);
    buf_clear(&request);
    buf_puts(&request, ": user_event_raise(e_1_1, [\"");
    for (unsigned i = 0; i < CONFINED_PARAMS_BYTES; i++)
        buf_putc(&request, 'x');
    buf_puts(&request, "\"], 1)");
    test_has_text(test_ask(tool, "%s", request.data), "take at most 16384 bytes");
    assert_null(tool->replies);
    /* one reply */
    buf_clear(&request);
    buf_puts(&request, ":");
    for (unsigned i = 0; i < 6000; i++)
        buf_puts(&request, " services(\"\")");
    test_has_text(test_ask(tool, "%s", request.data), "longer than 8388608 bytes");
    buf_done(&request);
    test_close(tool);
}

/* ---- other tools ---- */

static bool joins(struct test_session *other_tool, unsigned rights, const char *job, const char *serial)
{
    struct test_session *tool = test_open(other_tool);
    struct confinement confinement = {0};
    struct err err;
    assert_int_equal(confine(&confinement, rights, job, "laptop", serial, &err), 0);
    bool may = confine_tool(tool->session.tool, &confinement, &err) == 0;
    confinement_done(&confinement);
    test_close(tool);
    return may;
}

static void joins_only_its_like(void **state)
{
    struct test_session *tool = open_confined(CONTROL);
    (void)state;
    assert_false(joins(run, CONTROL, JOB, "01ab"));  /* one that may do everything */
    assert_true(joins(tool, CONTROL, JOB, "01ab"));  /* a distributed tool */
    assert_false(joins(tool, OBSERVE, JOB, "01ab")); /* would get more, */
    assert_false(joins(tool, MEMORY, JOB, "01ab"));  /* or give more */
    assert_false(joins(tool, CONTROL, OTHER_JOB, "01ab"));
    assert_false(joins(tool, CONTROL, JOB, "02ab")); /* another's key */
    struct test_session *local = test_open(tool);    /* who is not confined becomes it */
    refused(local, ": proc_attach([p_1_2])");
    test_close(local);
    test_close(tool);
}

static void only_lowers(void **state)
{
    struct confinement confinement = {0};
    struct err err;
    (void)state;
    assert_int_equal(confine(&confinement, 0, JOB, "", "", &err), -EINVAL);
    assert_int_equal(confine(&confinement, 8, JOB, "", "", &err), -EINVAL);
    assert_int_equal(confine(&confinement, 1, "abc", "", "", &err), -EINVAL);
    assert_null(confinement.job);
    /* whose key it is is known of one that may do everything, too; and it can be confined later */
    assert_int_equal(confine(&confinement, 3, "", "laptop", "01", &err), -EINVAL);
    assert_int_equal(confine(&confinement, 7, "", "root", "02", &err), 0);
    assert_null(confinement.job);
    assert_string_equal(confinement.serial, "02");
    assert_int_equal(confine(&confinement, 2, JOB, "laptop", "01", &err), 0);
    assert_int_equal(confine(&confinement, 7, "", "root", "02", &err), 0);
    assert_string_equal(confinement.job, JOB);
    assert_int_equal(confinement.rights, CONTROL);
    assert_int_equal(confine(&confinement, 7, JOB, "root", "02", &err), 0);
    assert_int_equal(confinement.rights, CONTROL);
    assert_string_equal(confinement.who, "laptop");
    assert_int_equal(confine(&confinement, 7, OTHER_JOB, "", "", &err), -EPERM);
    assert_int_equal(confine(&confinement, 1, JOB, "", "", &err), 0);
    assert_int_equal(confinement.rights, OBSERVE);
    confinement_done(&confinement);
}

/* ---- the record ---- */

static void changes_are_told(void **state)
{
    struct test_session *tool = open_confined(CONTROL);
    (void)state;
    test_enable(run, QUIET, "c_1_1", "job_was_requested(\"abc\") : print([$who, $serial, $request, $status, $why])");
    test_ask(tool, ": proc_attach([p_1_1]) proc_get_info([], 512)");
    assert_null(run->replies); /* that changed nothing */
    test_ask(tool, ": proc_send_signal([p_1_1], 0)");
    test_has_text(test_next(run), "\"laptop\",\"01ab\",\": proc_send_signal([p_1_1], 0)\",\"OMIS_OK\",\"\"");
    refused(tool, ": scry_monitor_get_state()");
    test_has_text(test_next(run), "\"OMIS_NO_PERMISSION\",\"scry_monitor_get_state can be used only on the job's node");
    refused(tool, ": scry_monitor_get_state()"); /* in the same second, */
    struct test_session *again = open_confined(OBSERVE);
    refused(again, ": scry_monitor_get_state()"); /* also of a new session */
    test_close(again);
    assert_null(run->replies);
    test_send(tool, 0, "proc_has_terminated([p_1_1]) : proc_send_signal([], 9)"); /* when it is defined */
    test_has_text(test_next(run), "proc_has_terminated([p_1_1]) : proc_send");
    assert_null(run->replies);
    assert_null(run_other->replies);
    test_close(tool);
    tool = open_confined(MEMORY);
    test_ask(tool, ": proc_attach([p_1_1]) proc_write_memory([p_1_1], 1, 1, 1, [4711])"); /* values are not told */
    const char *text = test_next(run);
    test_has_text(text, ": proc_attach(...) proc_write_memory(...)");
    assert_null(strstr(text, "4711"));
    test_close(tool);
}

/* Of tools on the node, too: but not of those that only look, nor of what scry run does itself. */
static void local_changes_are_told(void **state)
{
    struct test_session *tool = test_open(NULL);
    (void)state;
    test_enable(run, QUIET, "c_1_1",
                "job_was_requested(\"abc\") : print([$who, $serial, $pid, $request, $status, $left_out])");
    test_ask(tool, ": proc_attach([p_1_1]) proc_get_info([], 512)");
    test_ask(run, ": proc_send_signal([p_1_1], 0)");
    test_ask(run_other, ": proc_send_signal([p_1_2], 0)");
    assert_null(run->replies);
    test_ask(tool, ": proc_send_signal([], 0)"); /* the processes are known when it is carried out */
    test_has_text(test_next(run), "\"\",0,\": proc_send_signal([], 0)\",\"OMIS_OK\",0");
    test_ask(tool, ": job_set(\"abc\", \"sample\", \"2\")");
    test_has_text(test_next(run), "job_set(");
    test_ask(tool, ": job_send_signal(\"abc\", \"page\", 0)");
    test_has_text(test_next(run), ": job_send_signal(\\\"abc\\\", \\\"page\\\", 0)\",\"OMIS_OK\"");
    test_ask(tool, ": proc_attach([p_1_2]) proc_send_signal([p_1_2], 0)"); /* another job's */
    assert_null(run->replies);
    test_ask(tool, ": proc_write_memory([p_1_1], 1, 1, 1, [4711])"); /* values are not told */
    const char *text = test_next(run);
    test_has_text(text, ": proc_write_memory(...)");
    assert_null(strstr(text, "4711"));
    test_close(tool);
}

/* Once, when it changes something for the first time. */
static void local_lists_of_events_are_told(void **state)
{
    struct test_session *tool = test_open(NULL);
    (void)state;
    test_enable(run, QUIET, "c_1_1", "job_was_requested(\"abc\") : print([$request])");
    test_ask(tool, ": proc_attach([p_1_1]) user_event_create()");
    test_enable(tool, QUIET, "c_1_2", "user_event_has_been_raised(e_1_1) : proc_send_signal([p_1_1], 0)");
    assert_null(run->replies);
    test_ask(tool, ": user_event_raise(e_1_1, [], 0)");
    test_has_text(test_next(run), "user_event_has_been_raised(e_1_1) : proc_send_signal([p_1_1], 0)");
    test_ask(tool, ": user_event_raise(e_1_1, [], 0)");
    assert_null(run->replies);
    test_close(tool);
}

static void very_many_changes_are_counted(void **state)
{
    struct test_session *tool = test_open(NULL);
    int told = 0;
    (void)state;
    test_enable(run, QUIET, "c_1_1", "job_was_requested(\"abc\") : print([$request, $left_out])");
    test_ask(tool, ": proc_attach([p_1_1])");
    for (int i = 0; i < 500; i++)
        test_ask(tool, ": proc_send_signal([p_1_1], 0)");
    for (; run->replies; told++)
        test_next(run);
    assert_in_range(told, 64, 400);
    test_ask(run, ": job_get_info([], 1)");
    const char *text = test_next(run);
    test_has_text(text, "\"\",");
    assert_null(run->replies);
    test_close(tool);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)
    const struct CMUnitTest tests[] = {
        TEST(each_service_has_a_right),
        TEST(rights_are_held),
        TEST(nothing_local_is_used_from_elsewhere),
        TEST(only_processes_of_the_job),
        TEST(no_job_no_process),
        TEST(only_its_own_job),
        TEST(all_jobs_is_its_own),
        TEST(lists_of_events_are_confined),
        TEST(events_of_others_do_not_exist),
        TEST(extensions_are_as_confined),
        TEST(memory_has_limits),
        TEST(joins_only_its_like),
        cmocka_unit_test(only_lowers),
        TEST(changes_are_told),
        TEST(local_changes_are_told),
        TEST(local_lists_of_events_are_told),
        TEST(very_many_changes_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
