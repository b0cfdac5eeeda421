/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "lang/request.h"
#include "lang/signature.h"

static struct arena arena;
static struct err err;

static int teardown(void **state)
{
    arena_done(&arena);
    return 0;
}

static struct signature read_signature(const char *text)
{
    struct signature signature;
    if (signature_parse(&arena, text, &signature, &err) < 0)
        fail_msg("%s", err.text);
    return signature;
}

static void parameters_are_read(void **state)
{
    struct signature signature = read_signature(
        "token<pa_c>* counters, integer addr,string exec , floating* f, binary b, token t, any* params -> void");
    assert_int_equal(signature.param_count, 7);
    static const struct {
        enum type_kind kind;
        bool list;
        const char *class, *name;
    } want[] = {
        {TYPE_TOKEN, true, "pa_c", "counters"}, {TYPE_INTEGER, false, "", "addr"}, {TYPE_STRING, false, "", "exec"},
        {TYPE_FLOATING, true, "", "f"},         {TYPE_BINARY, false, "", "b"},     {TYPE_TOKEN, false, "", "t"},
        {TYPE_ANY, true, "", "params"},
    };
    for (size_t i = 0; i < 7; i++) {
        assert_int_equal(signature.params[i].kind, want[i].kind);
        assert_int_equal(signature.params[i].list, want[i].list);
        assert_string_equal(signature.params[i].class, want[i].class);
        assert_true(span_is(signature.params[i].name, want[i].name));
    }
    assert_true(signature.returns_void);
    assert_int_equal(read_signature("-> string").param_count, 0);
    assert_int_equal(read_signature("void -> string").param_count, 0);
    assert_false(read_signature("-> string").returns_void);
}

static void outputs_are_read(void **state)
{
    struct signature signature = read_signature("token<t>* thread_list -> { integer sig; string* names }  ");
    assert_int_equal(signature.output_count, 2);
    assert_true(span_is(signature.outputs[0].name, "sig"));
    assert_int_equal(signature.outputs[0].kind, TYPE_INTEGER);
    assert_true(signature.outputs[1].list);
    assert_false(signature.open_outputs);
    assert_false(signature.returns_void);
    assert_true(span_is(signature.result, "{ integer sig; string* names }"));
    assert_true(read_signature("token<t>* l -> { string name; ... }").open_outputs);
    assert_int_equal(read_signature("token<t>* l -> { [integer a]; [string* b; integer c;] }").output_count, 3);
    signature = read_signature("token<t>* l -> { integer num; { integer pc; integer fp }* frames; integer more }");
    assert_int_equal(signature.output_count, 3);
    assert_int_equal(signature.outputs[1].kind, TYPE_ANY);
    assert_true(span_is(signature.outputs[1].name, "frames"));
    assert_int_equal(read_signature("-> { }").output_count, 0);
    assert_int_equal(read_signature("-> { integer a; string b }*").output_count, 2);
    assert_int_equal(read_signature("-> token* tokens").output_count, 0);
    signature = read_signature("integer<bytes> a, floating<1/s>* b -> void ! OMIS_OS_ERROR OMIS_NO_MEMORY");
    assert_true(span_is(signature.params[0].name, "a") && signature.params[1].list && signature.returns_void);
    assert_true(span_is(signature.result, "void"));
    assert_true(span_is(signature.statuses, " OMIS_OS_ERROR OMIS_NO_MEMORY"));
    assert_int_equal(read_signature("-> { integer<ns> a } ! OMIS_OS_ERROR").output_count, 1);
    assert_int_equal(signature_parse(&arena, "integer<bytes a -> void", &signature, NULL), -EINVAL);
    signature =
        read_signature("-> {integer a;integer a;integer a;integer a;integer a;integer a;integer a;integer a;integer "
                       "a;integer a;integer a;integer a;integer a;integer a;integer a;integer a;integer a}");
    assert_int_equal(signature.output_count, SIGNATURE_OUTPUTS);
    assert_true(signature.open_outputs);
}

static void bad_signatures_are_refused(void **state)
{
    static const char *const rows[] = {
        "",
        "integer a",
        "integer a ->",
        "integer a -> ",
        "int a -> void",
        "integer a, -> void",
        "integer a integer b -> void",
        "token<p a -> void",
        "token<> a -> void",
        "token<abcdefghijklmnop> a -> void",
        "integer a -> int",
        "integer a -> { int b }",
        "integer a -> { integer b",
        "integer a -> { integer b; [integer c }",
        "integer a -> { integer b integer c }",
        "integer a -> { { integer b }",
        "integer a -> integer b; integer c",
        "integer a -> void foo",
        "integer a, integer a, integer a, integer a, integer a, integer a, integer a, integer a, integer a -> void",
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct signature signature = {.param_count = 4711};
        err = (struct err){0};
        if (signature_parse(&arena, rows[i], &signature, &err) != -EINVAL)
            fail_msg("'%s' was accepted", rows[i]);
        assert_int_equal(signature.param_count, 4711);
        assert_non_null(strstr(err.text, "signature \""));
    }
}

/* Checks the arguments of ":f(...)" and prints what the handler would get; NULL if refused. */
static const char *check(const char *signature_text, const char *arguments)
{
    arena_reset(&arena);
    struct signature signature = read_signature(signature_text);
    struct buf text = BUF_INIT;
    struct request request;
    buf_printf(&text, ":f(%s)", arguments);
    struct span copy = arena_span(&arena, span_of(text.data, text.len));
    buf_done(&text);
    if (request_parse(&arena, copy, &request, &err) < 0)
        fail_msg("%s", err.text);
    const struct value *args = NULL;
    err = (struct err){0};
    enum check_result result = signature_check(&signature, span_str("f"), request.actions[0].args,
                                               request.actions[0].argc, &arena, &args, &err);
    assert_int_not_equal(result, CHECK_NO_MEMORY);
    if (result == CHECK_TYPE_MISMATCH) {
        assert_null(args);
        assert_int_equal(err.code, -EINVAL);
        return NULL;
    }
    struct buf out = BUF_INIT;
    for (size_t i = 0; i < signature.param_count; i++) {
        if (i)
            buf_putc(&out, ',');
        value_print(&out, &args[i]);
    }
    const char *printed = arena_dup(&arena, out.data ? out.data : "", out.len);
    buf_done(&out);
    return printed;
}

static void arguments_are_brought_into_shape(void **state)
{
    static const struct {
        const char *signature, *arguments, *want;
    } rows[] = {
        {"integer a -> void", "-1", "-1"},
        {"floating a -> void", "2", "2.0"},
        {"floating a -> void", "-2", "-2.0"},
        {"floating a -> void", "18446744073709551615", "1.8446744073709551615e+19"},
        {"floating* a -> void", "[1,2.5,$x]", "[1.0,2.5,$x]"},
        {"floating* a -> void", "1", "[1.0]"},
        {"string a -> void", "\"x\"", "\"x\""},
        {"binary a -> void", "1#x", "1#x"},
        {"token<p>* a -> void", "p_1_1", "[p_1_1]"},
        {"token<p>* a -> void", "[]", "[]"},
        {"token<p>* a -> void", "[p_1_1,$proc]", "[p_1_1,$proc]"},
        {"token<p>* a -> void", "$proc", "$proc"},
        {"token<e> a -> void", "[e_1_1]", "e_1_1"},
        {"token a -> void", "e_1_1", "e_1_1"},
        {"token a -> void", "[$e]", "$e"},
        {"integer* a -> void", "7", "[7]"},
        {"any a -> void", "[1,[2,\"x\"]]", "[1,[2,\"x\"]]"},
        {"any a -> void", "p_1", "p_1"},
        {"any* a -> void", "1.5", "[1.5]"},
        {"any* a -> void", "[1,[2],1#x]", "[1,[2],1#x]"},
        {"integer a, string b -> void", "$x,$y", "$x,$y"},
        {"-> void", "", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *got = check(rows[i].signature, rows[i].arguments);
        if (!got)
            fail_msg("%s", err.text);
        assert_string_equal(got, rows[i].want);
    }
}

static void mismatches_say_which_argument(void **state)
{
    static const struct {
        const char *signature, *arguments, *message;
    } rows[] = {
        {"integer a -> void", "1.5", "at byte 3: argument 1 (a) of f: expected an integer, found a floating"},
        {"integer a -> void", "[1]", "at byte 3: argument 1 (a) of f: expected an integer, found a list"},
        {"integer a, integer* b -> void", "1,[2,\"x\"]",
         "at byte 8: argument 2 (b) of f: expected a list of integers, found a string"},
        {"integer* b -> void", "[[1]]", "at byte 4: argument 1 (b) of f: expected a list of integers, found a list"},
        {"floating a -> void", "\"x\"", "at byte 3: argument 1 (a) of f: expected a floating, found a string"},
        {"string a -> void", "1#x", "at byte 3: argument 1 (a) of f: expected a string, found binary data"},
        {"string a -> void", "p_1", "at byte 3: argument 1 (a) of f: expected a string, found a token"},
        {"binary a -> void", "\"x\"", "at byte 3: argument 1 (a) of f: expected binary data, found a string"},
        {"token a -> void", "1", "at byte 3: argument 1 (a) of f: expected a token, found an integer"},
        {"token a -> void", "[]", "at byte 3: argument 1 (a) of f: expected a token, found a list"},
        {"token a -> void", "[a_1,a_2]", "at byte 3: argument 1 (a) of f: expected a token, found a list"},
        {"token<p>* a -> void", "[1]", "at byte 4: argument 1 (a) of f: expected a list of tokens, found an integer"},
        {"token<p>* a, integer flags -> void", "[]",
         "f takes 2 arguments (a: a list of tokens, flags: an integer), found 1"},
        {"integer a -> void", "1,2", "f takes 1 argument (a: an integer), found 2"},
        {"-> void", "1", "f takes 0 arguments, found 1"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_null(check(rows[i].signature, rows[i].arguments));
        assert_string_equal(err.text, rows[i].message);
    }
}

static void lists_that_fit_are_not_copied(void **state)
{
    struct signature signature = read_signature("integer* a -> void");
    struct value items[3] = {value_int(1), value_int(2), value_int(3)}, list = value_list(items, 3);
    const struct value *args;
    assert_int_equal(signature_check(&signature, span_str("f"), &list, 1, &arena, &args, &err), CHECK_OK);
    assert_ptr_equal(args[0].list.items, items);
}

static void parameters_may_be_left_out(void **state)
{
    struct signature signature =
        read_signature("token<p>* l, string name, [string condition], [any* what], [integer n], [floating f] -> void");
    const struct value *checked,
        items[] = {value_list(NULL, 0), value_string(span_str("f")), value_string(span_str("c"))};
    struct span service = span_str("s");
    assert_int_equal(signature.param_count, 6);
    assert_int_equal(signature.required_count, 2);
    assert_int_equal(signature_check(&signature, service, items, 2, &arena, &checked, &err), CHECK_OK);
    assert_true(checked[2].kind == VALUE_STRING && checked[2].text.len == 0);
    assert_true(checked[3].kind == VALUE_LIST && checked[3].list.count == 0);
    assert_true(checked[4].kind == VALUE_INTEGER && checked[4].integer.bits == 0);
    assert_true(checked[5].kind == VALUE_FLOATING);
    assert_int_equal(signature_check(&signature, service, items, 3, &arena, &checked, &err), CHECK_OK);
    assert_true(span_is(checked[2].text, "c"));
    assert_int_equal(signature_check(&signature, service, items, 1, &arena, &checked, &err), CHECK_TYPE_MISMATCH);
    assert_non_null(strstr(err.text, "takes 2 to 6 arguments"));
    signature = read_signature("[string name] -> void");
    assert_int_equal(signature_check(&signature, service, NULL, 0, &arena, &checked, &err), CHECK_OK);
    assert_int_equal(checked[0].kind, VALUE_STRING);
    assert_int_equal(signature_parse(&arena, "[integer a], integer b -> void", &signature, &err), -EINVAL);
    assert_int_equal(signature_parse(&arena, "[integer a -> void", &signature, &err), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_may_be_left_out),
        cmocka_unit_test(parameters_are_read),
        cmocka_unit_test(outputs_are_read),
        cmocka_unit_test(bad_signatures_are_refused),
        cmocka_unit_test(arguments_are_brought_into_shape),
        cmocka_unit_test(mismatches_say_which_argument),
        cmocka_unit_test(lists_that_fit_are_not_copied),
    };
    return cmocka_run_group_tests_name("signature", tests, NULL, teardown);
}
