/* SPDX-License-Identifier: Apache-2.0 */
/* What extensions can do: request, wait, keep state for each tool, convert tokens. Against the installed filter, and an
 * extension of this file, "tx", that also does what it should not. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <scry/ext.h>

#include "monitor/engine/object.h"
#include "monitor/engine/test_support.h"

int filter_register(void);

/* ---- the extension tx ---- */

static char heard[4096]; /* what the callbacks got, one after the other */
static unsigned depth, inside, states, callbacks;

static void hear(Omis_reply reply, void *param)
{
    const Omis_object_result *last = reply[0];
    assert_int_equal(inside, 0); /* never from inside another function of the extension */
    for (size_t i = 0; reply[i]; i++)
        last = reply[i];
    size_t len = strlen(heard);
    snprintf(heard + len, sizeof heard - len, "%s%s/%s%s%s;", param ? (const char *)param : "",
             omis_status_name(reply[0]->status), omis_status_name(last->status), last->result ? "=" : "",
             last->result ? last->result : "");
    omis_reply_free(reply);
    callbacks++;
}

/* The last result of a request that is waited for. */
static void tx_now(struct scry_call *call)
{
    inside++;
    Omis_reply reply = omis_request((char *)scry_arg_string(call, 0, NULL), NULL, NULL, 0);
    inside--;
    const Omis_object_result *last = reply[0];
    for (size_t i = 0; reply[i]; i++)
        last = reply[i];
    scry_result(call, NULL, "\"%s %s\"", omis_status_name(last->status), last->result ? last->result : "");
    omis_reply_free(reply);
}

static void tx_then(struct scry_call *call)
{
    inside++;
    Omis_reply reply =
        omis_request((char *)scry_arg_string(call, 0, NULL), hear, NULL, (Omis_flags)scry_arg_integer(call, 1));
    inside--;
    scry_result(call, NULL, "\"%s\"", reply ? reply[0]->result ? reply[0]->result : "" : "none");
    omis_reply_free(reply);
}

static void tx_again(struct scry_call *call)
{
    depth++;
    Omis_reply reply = omis_request((char *)": tx_again()", NULL, NULL, 0);
    if (reply[0]->status >= OMIS_FIRST_ERROR)
        scry_fail(call, NULL, reply[0]->status, "%u: %s", depth, reply[0]->result);
    else
        scry_fail(call, NULL, reply[1]->status, "%s", reply[1]->result);
    omis_reply_free(reply);
}

static char key;

static void state_free(void *data)
{
    states--;
    free(data);
}

static void tx_count(struct scry_call *call)
{
    int64_t *count = scry_tool_data(&key);
    if (!count) {
        count = calloc(1, sizeof *count);
        assert_int_equal(scry_tool_set_data(&key, count, state_free), 0);
        states++;
    }
    scry_result_integer(call, NULL, ++*count);
}

static void tx_convert(struct scry_call *call)
{
    struct scry_object **objects;
    size_t count = scry_convert(call, scry_arg_text(call, 0, NULL), scry_arg_string(call, 1, NULL), &objects);
    for (size_t i = 0; i < count; i++)
        scry_ok(call, objects[i]);
}

/* Answers with the reply to a request of its own. */
static struct scry_later *later;
static unsigned cancelled;

static void cancel(void *ctx)
{
    assert_ptr_equal(ctx, &later);
    later = NULL;
    cancelled++;
}

static void relay(Omis_reply reply, void *param)
{
    assert_ptr_equal(param, &later);
    if (later) {
        struct scry_call *call = scry_later_begin(later);
        scry_result(call, NULL, "%s", reply[1]->result);
        scry_later_end(later, 1);
    }
    omis_reply_free(reply);
}

static void tx_relay(struct scry_call *call)
{
    later = scry_later(call, cancel, &later);
    if (!later)
        scry_fail(call, NULL, OMIS_UNSPECIFIED_ERROR, "at once");
    else
        assert_null(omis_request((char *)scry_arg_string(call, 0, NULL), relay, &later, 0));
}

static void tx_raise(struct scry_call *call)
{
    const char *params[] = {"1", "2"};
    int result =
        scry_event_raise(scry_arg_string(call, 0, NULL), scry_object_count(call) ? scry_object_at(call, 0) : NULL,
                         params, (size_t)scry_arg_integer(call, 1));
    scry_result_integer(call, NULL, result);
}

/* Boxes in a process (or a thread, then in its process) and groups of processes, each with tokens of what they are
 * about. */
struct box {
    char tokens[4][32];
    size_t count;
};

static const char *box_container(void *data)
{
    return ((struct box *)data)->tokens[0];
}

static const char *box_member(void *data, size_t index)
{
    const struct box *box = data;
    return index < box->count ? box->tokens[index] : NULL;
}

static void tx_new(struct scry_call *call)
{
    struct box *box = calloc(1, sizeof *box);
    for (; box->count < scry_arg_count(call, 1) && box->count < 4; box->count++)
        snprintf(box->tokens[box->count], sizeof box->tokens[0], "%s", scry_arg_list_text(call, 1, box->count, NULL));
    scry_result(call, NULL, "%s", scry_object_token(scry_object_new(call, scry_arg_string(call, 0, NULL), box)));
}

static void tx_name(struct scry_call *call)
{
    const char *params[] = {"1"};
    for (size_t i = 0; i < scry_object_count(call); i++) {
        scry_ok(call, scry_object_at(call, i));
        scry_event_raise("tx_named", scry_object_at(call, i), params, 1);
    }
}

/* An object that reads a pipe and counts time; with 0 it destroys itself. */
static int pipe_fds[2];
static unsigned ticks, hangups;

static void tick(struct scry_object *object)
{
    ticks++;
    if (ticks == 3)
        scry_object_destroy(object);
}

static void came(struct scry_object *object, int fd, unsigned events)
{
    char byte = 0;
    const char *params[] = {"7"};
    if (events & POLLHUP)
        hangups++;
    else if (read(fd, &byte, 1) == 1 && byte == '0')
        scry_object_destroy(object);
    else
        scry_event_raise("tx_named", object, params, 1);
    Omis_reply reply = omis_request((char *)": tx()", NULL, NULL, 0); /* for the object's tool */
    assert_int_equal(reply[1]->status, OMIS_OK);
    omis_reply_free(reply);
}

static void tx_watch(struct scry_call *call)
{
    struct scry_object *object = scry_object_new(call, "tx_b", calloc(1, sizeof(struct box)));
    assert_null(scry_watch_timer(object, 0, tick));
    if (scry_arg_integer(call, 0))
        assert_non_null(scry_watch_timer(object, 0.001, tick));
    else
        assert_true(scry_watch_fd(object, pipe_fds[0], POLLIN, came) &&
                    !scry_watch_fd(object, pipe_fds[0], POLLIN, came));
    scry_result(call, NULL, "%s", scry_object_token(object));
}

static const struct scry_service rows[] = {
    {"tx_watch", SCRY_MANIPULATION, "integer timer -> token", SCRY_OPTIONAL, tx_watch, "Watches."},
    {"tx_new", SCRY_MANIPULATION, "string class, any* tokens -> token", SCRY_OPTIONAL, tx_new, "A box or a group."},
    {"tx_name", SCRY_INFORMATION, "token<tx_b>* box_list -> void", SCRY_OPTIONAL, tx_name, "Names boxes."},
    {"tx_named", SCRY_EVENT, "token<tx_b>* box_list -> { integer number }", SCRY_OPTIONAL, NULL, "One was named."},
    {"tx", SCRY_INFORMATION, "-> integer", SCRY_OPTIONAL, tx_count, "How often this tool has asked."},
    {"tx_now", SCRY_INFORMATION, "string request -> string", SCRY_OPTIONAL, tx_now, "Waits for a request."},
    {"tx_then", SCRY_INFORMATION, "string request, integer flags -> string", SCRY_OPTIONAL, tx_then, "With callback."},
    {"tx_again", SCRY_INFORMATION, "-> void", SCRY_OPTIONAL, tx_again, "Requests itself."},
    {"tx_relay", SCRY_INFORMATION, "string request -> any", SCRY_OPTIONAL, tx_relay, "Answers later."},
    {"tx_convert", SCRY_INFORMATION, "any tokens, string class -> void", SCRY_OPTIONAL, tx_convert, "Converts."},
    {"tx_raise", SCRY_MANIPULATION, "string event, integer params, [token<p>* proc_list] -> integer", SCRY_OPTIONAL,
     tx_raise, "Raises an event."},
    {"tx_happened", SCRY_EVENT, "token<p>* proc_list -> { integer number }", SCRY_OPTIONAL, NULL, "Raised by hand."},
};

static int tx_register(void)
{
    heard[0] = 0;
    depth = inside = states = callbacks = cancelled = 0;
    if (scry_register_class("tx_b", free, "box") < 0 || scry_register_container("tx_b", "t", box_container) < 0 ||
        scry_register_class("tx_g", free, "group") < 0 || scry_register_members("tx_g", "p", box_member) < 0 ||
        scry_register_container("tx_b", "tx_g", box_container) == 0 ||
        scry_register_members("tx_g", "tx_g", box_member) == 0)
        return -1;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (scry_register_service(&rows[i]) < 0)
            return -1;
    return 0;
}

/* ---- */

static void on_ready(struct session *session)
{
    (void)session;
}

static struct test_session *start(void)
{
    if (!registry_find(test_monitor->registry, span_str("tx"))) {
        assert_int_equal(test_engine_extend("tx", tx_register), 0);
        assert_int_equal(test_engine_extend("filter", filter_register), 0);
    }
    struct test_session *session = test_open(NULL);
    session->session.ready = on_ready;
    return session;
}

static void turn(void)
{
    assert_int_equal(loop_step(test_loop, 0), 0);
}

/* What all replies that have come say. */
static const char *all(struct test_session *session)
{
    static char text[65536];
    text[0] = 0;
    while (session->replies) {
        strncat(text, test_next(session), sizeof text - strlen(text) - 1);
        strncat(text, "\n", sizeof text - strlen(text) - 1);
    }
    return text;
}

static void requests_at_once(void **state)
{
    struct test_session *tool = start(), *other = start();
    assert_string_equal(test_ask(tool, ": tx_now(\": print([1])\") print([2])"),
                        "OMIS_OK | OMIS_OK=\"OMIS_OK 1,[1]\" | OMIS_OK=1,[2]");
    test_has_text(test_ask(tool, ": { tx_now(\": { version() }\") }"), "OMIS_OK=\"OMIS_OK 2,0");
    test_has_text(test_ask(tool, ": tx_now(\"nonsense\")"), "OMIS_OK=\"OMIS_SYNTAX_ERROR ");
    /* with the scope of the tool that asks */
    test_has_text(test_ask(tool, ": proc_attach3([], %d, \"\")", test_child(1)), "n_1=p_1_1");
    test_has_text(test_ask(tool, ": tx_now(\": proc_get_info([], 512)\")"), "OMIS_OK=\"OMIS_OK ");
    test_has_text(test_ask(other, ": tx_now(\": proc_get_info([p_1_1], 512)\")"), "OMIS_UNKNOWN_OBJECT p_1_1");
    test_close(other);
    test_close(tool);
    assert_null(test_monitor->tools);
}

/* A service that requests itself ends, and the monitor goes on. */
static void requests_of_itself(void **state)
{
    struct test_session *tool = start();
    test_has_text(test_ask(tool, ": tx_again() print([1])"), "OMIS_UNSPECIFIED_ERROR=17: no request can be waited for");
    assert_int_equal(test_monitor->nested, 0);
    test_close(tool);
}

static void requests_with_a_callback(void **state)
{
    struct test_session *tool = start();
    test_has_text(test_ask(tool, ": tx_then(\": print([1])\", 0) print([2])"), "=\"none\" | OMIS_OK=1,[2]");
    assert_string_equal(heard, "");
    turn();
    turn();
    assert_string_equal(heard, "OMIS_OK/OMIS_OK=1,[1];");
    heard[0] = 0;
    /* a conditional one: every reply, until it is deleted */
    test_ask(tool, ": user_event_create()");
    test_ask(tool, ": tx_then(\"user_event_has_been_raised(e_1_1) : print([$par1])\", %d)", OMIS_WAIT_FOR_FIRST_REPLY);
    test_ask(tool, ": csr_enable([c_1_1]) user_event_raise(e_1_1, [7], 0)");
    test_ask(tool, ": csr_delete([])");
    for (int i = 0; i < 100 && callbacks < 4; i++)
        turn();
    assert_string_equal(heard, "OMIS_CSR_ENABLED/OMIS_OK;OMIS_CSR_TRIGGERED/OMIS_OK=1,[7];OMIS_CSR_DELETED/OMIS_OK;");
    heard[0] = 0;
    test_ask(tool, ": tx_then(\": print([1])\", %d) tx_then(\": user_event_raise(e_1_1, [], 1)\", %d)",
             OMIS_DONT_RETURN_OK, OMIS_DONT_RETURN_OK);
    for (int i = 0; i < 100 && !heard[0]; i++)
        turn();
    turn();
    assert_string_equal(heard, "OMIS_OK/OMIS_OK=1,[1];"); /* the other is only OK */
    test_close(tool);
}

/* The tool goes away: every callback gets its last reply, what was requested ends, and nothing is left. */
static void the_tool_goes(void **state)
{
    struct test_session *tool = start();
    test_ask(tool, ": user_event_create() tx()");
    test_ask(tool, ": tx_then(\"user_event_has_been_raised(e_1_1) : print([1])\", 0)");
    turn(); /* it is defined now */
    test_ask(tool, ": csr_enable([]) user_event_raise(e_1_1, [], 0) tx_then(\": print([2])\", 0)");
    test_close(tool);
    assert_string_equal(heard,
                        "OMIS_CSR_DEFINED/OMIS_OK;OMIS_CSR_ENABLED/OMIS_OK;OMIS_CSR_TRIGGERED/OMIS_OK=1,[1];"
                        "OMIS_CSR_DELETED/OMIS_OK;"
                        "OMIS_UNKNOWN_OBJECT/OMIS_UNKNOWN_OBJECT=the tool has gone before the request was done;");
    assert_int_equal(states, 0);
    assert_null(test_monitor->tools);
    turn();
}

static void answers_with_a_reply(void **state)
{
    struct test_session *tool = start();
    test_send(tool, 0, ": tx_relay(\": print([1])\") print([2])");
    assert_null(tool->replies);
    turn();
    turn();
    assert_string_equal(test_next(tool), "OMIS_OK | OMIS_OK=1,[1] | OMIS_OK=1,[2]");
    test_has_text(test_ask(tool, ": { tx_relay(\": print([1])\") }"), "OMIS_UNSPECIFIED_ERROR=at once");
    /* one that is waited for cannot wait itself */
    test_has_text(test_ask(tool, ": tx_now(\": tx_relay(\\\": print([1])\\\")\")"), "OMIS_UNSPECIFIED_ERROR at once");
    test_send(tool, 0, ": tx_relay(\": print([1])\")");
    test_close(tool); /* while it waits */
    assert_int_equal(cancelled, 1);
    turn();
}

static void keeps_state_for_each_tool(void **state)
{
    struct test_session *tool = start(), *other = start(), *further = test_open(tool);
    test_has_text(test_ask(tool, ": tx() tx()"), "OMIS_OK=1 | OMIS_OK=2");
    test_has_text(test_ask(other, ": tx()"), "OMIS_OK=1");
    test_has_text(test_ask(further, ": tx()"), "OMIS_OK=3");
    assert_int_equal(states, 2);
    test_close(tool);
    assert_int_equal(states, 2);
    test_close(further);
    assert_int_equal(states, 1);
    test_close(other);
    assert_int_equal(states, 0);
}

static void converts(void **state)
{
    struct test_session *tool = start();
    test_ask(tool, ": proc_attach3([], %d, \"\")", test_child(2));
    assert_string_equal(test_ask(tool, ": tx_convert([p_1_1], \"t\") tx_convert([], \"t\") tx_convert(t_1_1, \"p\")"),
                        "OMIS_OK | OMIS_OK t_1_1,t_1_2 | OMIS_OK t_1_1,t_1_2 | OMIS_OK p_1_1");
    test_has_text(test_ask(tool, ": tx_convert([p_1_9, n_1], \"p\")"), "OMIS_UNKNOWN_OBJECT p_1_9=there is no");
    test_has_text(test_ask(tool, ": tx_convert(n_1, \"p\")"), "OMIS_TYPE_MISMATCH=n_1 cannot be converted");
    test_has_text(test_ask(tool, ": tx_convert([1], \"p\")"), "OMIS_TYPE_MISMATCH=[1] is no token");
    test_close(tool);
}

/* Objects of an extension in the hierarchy: what they are in, and what is in them. */
static void converts_classes_of_extensions(void **state)
{
    struct test_session *tool = start();
    for (int i = 0; i < 3; i++)
        test_ask(tool, ": proc_attach3([], %d, \"\")", test_child(1));
    test_ask(tool,
             ": thread_get_info([], 1) tx_new(\"tx_b\", [t_1_1]) tx_new(\"tx_b\", [t_1_2]) tx_new(\"tx_b\", [t_1_1])");
    test_ask(tool, ": tx_new(\"tx_g\", [p_1_1, t_1_3, p_1_3, p_1_9])"); /* a thread is no member */
    assert_string_equal(
        test_ask(tool, ": tx_name([p_1_1]) tx_name([t_1_2]) tx_name([n_1]) tx_name([]) tx_name([p_1_3])"),
        "OMIS_OK | OMIS_OK tx_b_1_1,tx_b_1_3 | OMIS_OK tx_b_1_2 | OMIS_OK tx_b_1_1,tx_b_1_2,tx_b_1_3 | "
        "OMIS_OK tx_b_1_1,tx_b_1_2,tx_b_1_3 | OMIS_OK");
    assert_string_equal(
        test_ask(tool, ": thread_get_info([tx_b_1_1], 1) thread_get_info(tx_b_1_2, 1) "
                       "thread_get_info([tx_g_1_1], 1)"),
        "OMIS_OK | OMIS_OK t_1_1=p_1_1 | OMIS_OK t_1_2=p_1_2 | OMIS_OK t_1_1=p_1_1 OMIS_OK t_1_3=p_1_3");
    test_has_text(test_ask(tool, ": tx_name([tx_g_1_1])"), "OMIS_OK | OMIS_OK tx_b_1_1,tx_b_1_3");
    /* in events, too; in the scope of the tool; and when it is gone */
    test_install(tool, 0, "c_1_1", "tx_named([p_1_1]) : print([$number])");
    all(tool);
    test_send(tool, 0, ": tx_name([tx_b_1_2])");
    assert_null(strstr(all(tool), "TRIGGERED"));
    test_send(tool, 0, ": tx_name([tx_b_1_3])");
    test_has_text(all(tool), "OMIS_CSR_TRIGGERED tx_b_1_3 | OMIS_OK=1,[1]");
    test_install(tool, 0, "c_1_2", "tx_happened([tx_g_1_1]) : print([$proc])");
    all(tool);
    test_send(tool, 0, ": tx_raise(\"tx_happened\", 1, [p_1_2])");
    assert_null(strstr(all(tool), "TRIGGERED"));
    test_send(tool, 0, ": tx_raise(\"tx_happened\", 1, [p_1_3])");
    test_has_text(all(tool), "OMIS_CSR_TRIGGERED p_1_3");
    test_ask(tool, ": csr_delete([]) proc_detach([p_1_1])");
    test_has_text(test_ask(tool, ": thread_get_info([tx_b_1_1], 1)"), "p_1_1 (pid ");
    test_has_text(test_ask(tool, ": thread_get_info([tx_g_1_1], 1)"), "OMIS_OK | OMIS_OK t_1_3=p_1_3");
    test_has_text(test_ask(tool, ": tx_new(\"tx_b\", [u_0]) thread_get_info([tx_b_1_4], 1)"),
                  "OMIS_UNKNOWN_OBJECT tx_b_1_4=tx_b_1_4 is in no object of class t_ any more");
    test_ask(tool, ": tx_name([tx_b_1_4, n_1])");
    test_close(tool);
}

static void wait_for(const unsigned *number, unsigned least)
{
    for (int i = 0; i < 1000 && *number < least; i++)
        assert_int_equal(loop_step(test_loop, 10 * 1000 * 1000), 0);
    assert_true(*number >= least);
}

/* Timers and descriptors belong to objects, and so to tools. */
static void watches(void **state)
{
    struct test_session *tool = start();
    assert_int_equal(pipe2(pipe_fds, O_NONBLOCK), 0);
    ticks = hangups = 0;
    test_ask(tool, ": tx_watch(0) tx_watch(1)");
    test_install(tool, 0, "c_1_1", "tx_named([tx_b_1_1]) : print([$number])");
    all(tool);
    wait_for(&ticks, 3); /* it ends itself then */
    test_has_text(test_ask(tool, ": tx_name([tx_b_1_2])"), "does not exist any more");
    assert_int_equal(write(pipe_fds[1], "1", 1), 1);
    turn();
    test_has_text(all(tool), "OMIS_CSR_TRIGGERED tx_b_1_1 | OMIS_OK=1,[7]");
    test_has_text(test_ask(tool, ": tx()"), "OMIS_OK=2");
    test_close(tool); /* and its watches */
    turn();

    tool = start();
    test_ask(tool, ": tx_watch(0)");
    assert_int_equal(write(pipe_fds[1], "0", 1), 1);
    turn();
    test_has_text(test_ask(tool, ": tx_name([tx_b_1_3])"), "does not exist any more");
    test_ask(tool, ": tx_watch(0)");
    close(pipe_fds[1]);
    wait_for(&hangups, 1);
    for (int i = 0; i < 3; i++)
        turn();
    assert_int_equal(hangups, 1); /* it would be ready for ever */
    test_close(tool);
    close(pipe_fds[0]);
    assert_int_equal(states, 0);
}

/* 8.2.2, as printed. */
static void filters(void **state)
{
    struct test_session *tool = start();
    test_ask(tool, ": proc_attach3([], %d, \"\")", test_child(2));
    test_ask(tool, ": thread_get_info([], 1) user_event_create() user_event_create()");
    test_install(tool, 0, "c_1_1", "user_event_has_been_raised(e_1_2) : print([$proc])");
    all(tool);
    static const struct {
        const char *var, *val;
        bool same;
    } cases[] = {{"5", "5", true},
                 {"5", "6", false},
                 {"0x10", "16", true},
                 {"1", "1.0", true},
                 {"1.5", "1.5", true},
                 {"18446744073709551615", "18446744073709551614", false},
                 {"-1", "18446744073709551615", false},
                 {"\"a\"", "\"a\"", true},
                 {"\"5\"", "5", false},
                 {"[1, 2]", "[1,2]", true},
                 {"p_1_1", "p_1_1", true},
                 {"t_1_2", "p_1_1", true},
                 {"p_1_1", "n_1", true},
                 {"p_1_1", "t_1_2", false},
                 {"u_0", "p_1_1", false},
                 {"u_0", "u_0", true},
                 {"3#a\nb", "3#a\nb", true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        test_send(tool, 0, ": filter(%s, %s, e_1_2)", cases[i].var, cases[i].val);
        const char *text = all(tool);
        test_has_text(text, "OMIS_OK | OMIS_OK e_1_2");
        if (cases[i].same != (strstr(text, "OMIS_CSR_TRIGGERED u_0 | OMIS_OK=1,[u_0]") != NULL))
            fail_msg("%s, %s: %s", cases[i].var, cases[i].val, text);
    }
    test_has_text(test_ask(tool, ": filter(1, 1, e_1_7)"), "OMIS_UNKNOWN_OBJECT=there is no object e_1_7");
    test_has_text(test_ask(tool, ": filter(1, 1, p_1_1)"), "OMIS_TYPE_MISMATCH=");
    test_close(tool);
}

/* The object where it happened is passed on, and the chain is counted through requests of extensions. */
static void filters_events(void **state)
{
    struct test_session *tool = start();
    test_ask(tool, ": proc_attach3([], %d, \"\") user_event_create()", test_child(1));
    test_install(tool, 0, "c_1_1", "tx_happened([]) : filter($number, 1, e_1_1)");
    all(tool);
    test_install(tool, 0, "c_1_2", "user_event_has_been_raised(e_1_1) : print([$proc])");
    all(tool);
    test_send(tool, 0, ": tx_raise(\"tx_happened\", 1, [p_1_1])");
    test_has_text(all(tool), "OMIS_CSR_TRIGGERED p_1_1 | OMIS_OK=1,[p_1_1]");
    test_send(tool, 0, ": csr_delete([]) proc_detach([])");
    all(tool);
    test_install(tool, 0, "c_1_3", "user_event_has_been_raised(e_1_1) : filter(1, 1, e_1_1)");
    test_send(tool, 0, ": user_event_raise(e_1_1, [], 1)");
    test_has_text(all(tool), "events raised each other 64 times in a row");
    assert_int_equal(test_monitor->cascade, 0);
    test_close(tool);
}

static void waits_for_all_parts(void **state)
{
    struct test_session *tool = start();
    test_ask(tool, ": user_event_create()");
    test_install(tool, 0, "c_1_1", "user_event_has_been_raised(e_1_1) : print([1])");
    for (int round = 0; round < 2; round++) {
        test_send(tool, 0, ": filter_all(1, 3, e_1_1) filter_all(3, 3, e_1_1) filter_all(1, 3, e_1_1)");
        assert_null(strstr(all(tool), "TRIGGERED"));
        test_send(tool, 0, ": filter_all(2, 3, e_1_1)");
        test_has_text(all(tool), "OMIS_CSR_TRIGGERED");
    }
    test_has_text(test_ask(tool, ": filter_all(4, 3, e_1_1)"), "OMIS_PARAMETER_ERROR e_1_1=part is from 1");
    test_ask(tool, ": filter_all(64, 64, e_1_1)"); /* not all: freed with the tool */
    test_close(tool);
}

/* Mistakes in raising are refused; those of different extensions cannot meet. */
static void refuses_mistakes(void **state)
{
    static const struct scry_service foreign = {
        "tx_happened", SCRY_EVENT, "-> { integer number }", SCRY_OPTIONAL, NULL, "Taken.", NULL, NULL, NULL};
    struct test_session *tool = start();
    struct err err;
    test_ask(tool, ": proc_attach3([], %d, \"\")", test_child(1));
    test_has_text(test_ask(tool, ": tx_raise(\"tx_unknown\", 1)"), "=-1");
    test_has_text(test_ask(tool, ": tx_raise(\"tx_now\", 1)"), "=-1");
    test_has_text(test_ask(tool, ": tx_raise(\"proc_has_terminated\", 0, [p_1_1])"), "=-1");
    test_has_text(test_ask(tool, ": tx_raise(\"tx_happened\", 2)"), "=-1");
    test_has_text(test_ask(tool, ": tx_raise(\"tx_happened\", 1)"), "=0");         /* nobody waits for it */
    assert_int_equal(omis_init(NULL, NULL, NULL, NULL), OMIS_UNSUPPORTED_SERVICE); /* and comes back */
    assert_int_equal(registry_add(test_monitor->registry, &foreign, "tx", &err), -EEXIST);
    assert_string_equal(err.text, "service tx_happened exists already");
    assert_int_equal(registry_add(test_monitor->registry, &foreign, "other", &err), -EINVAL);
    test_has_text(err.text, "must be \"other\" or start with \"other_\"");
    test_close(tool);
}

/* An extension that is a tool itself (6.1). */
static int own_register(void)
{
    Omis_reply reply = omis_request((char *)": user_event_create()", NULL, NULL, 0);
    assert_int_equal(reply[1]->status, OMIS_OK);
    omis_reply_free(reply);
    assert_null(omis_request((char *)"user_event_has_been_raised(e_1_1) : print([$par1])", hear, NULL, 0));
    assert_null(omis_request((char *)": csr_enable([])", hear, NULL, 0));
    return 0;
}

static void is_a_tool_itself(void **state)
{
    struct test_session *tool = start();
    assert_int_equal(test_engine_extend("own", own_register), 0);
    turn();
    test_ask(tool, ": user_event_raise(e_1_1, [5], 1)"); /* anybody may */
    turn();
    test_has_text(heard, "OMIS_CSR_TRIGGERED/OMIS_OK=1,[5];");
    test_close(tool);
    assert_non_null(test_monitor->tools);
    heard[0] = 0;
    tool_end(test_monitor->tools);
    assert_string_equal(heard, "OMIS_CSR_DELETED/OMIS_OK;");
    Omis_reply reply = omis_request((char *)": version()", NULL, NULL, 0); /* nobody is served now */
    assert_int_equal(reply[0]->status, OMIS_UNSPECIFIED_ERROR);
    omis_reply_free(reply);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, test_engine_start, test_engine_stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(requests_at_once),
        TEST(requests_of_itself),
        TEST(requests_with_a_callback),
        TEST(the_tool_goes),
        TEST(answers_with_a_reply),
        TEST(keeps_state_for_each_tool),
        TEST(converts_classes_of_extensions),
        TEST(watches),
        TEST(converts),
        TEST(filters),
        TEST(filters_events),
        TEST(waits_for_all_parts),
        TEST(refuses_mistakes),
        TEST(is_a_tool_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
