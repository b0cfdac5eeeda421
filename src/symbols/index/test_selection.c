/* SPDX-License-Identifier: Apache-2.0 */
/* Selections: what is meant by each item, and what is said of wrong ones. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "symbols/index/index.h"
#include "symbols/index/names.h"

static const struct module program = {
    .name = "stommel", .is_program = true, .bias = 0x1000, .start = 0x1000, .end = 0x9000};
static const struct module library = {.name = "libm.so.6", .bias = 0x100000, .start = 0x100000, .end = 0x200000};

static const struct index_function solve = {.address = 0x100,
                                            .size = 16,
                                            .name = "solve",
                                            .full = "solve",
                                            .linkage = "solve",
                                            .file = "/home/ann/ocean/src/stommel.c"};
static const struct index_function method = {.address = 0x200,
                                             .size = 16,
                                             .name = "ns::Grid<int, 2>::solve",
                                             .full = "ns::Grid<int, 2>::solve(double, char const*) const",
                                             .linkage = "_ZNK2ns4GridIiLi2EE5solveEdPKc",
                                             .file = "/home/ann/ocean/src/grid.cpp"};
static const struct index_function instance = {.address = 0x300,
                                               .size = 16,
                                               .name = "ns::sum<std::vector<int>>",
                                               .full = "ns::sum<std::vector<int>>(int)",
                                               .linkage = "_ZN2ns3sumI",
                                               .file = ""};
static const struct index_function less = {.address = 0x400,
                                           .size = 16,
                                           .name = "ns::operator<",
                                           .full = "ns::operator<(A const&, A const&)",
                                           .linkage = "_ZN2nsltERK",
                                           .file = "x.cpp"};
static const struct index_function clone = {.address = 0x500,
                                            .size = 16,
                                            .name = "work.constprop.0",
                                            .full = "work.constprop.0",
                                            .linkage = "work.constprop.0",
                                            .file = "/w.c"};
static const struct index_function unknown = {.address = 0x600, .name = "", .full = "", .linkage = "", .file = ""};

static bool matches(const char *text, const struct module *module, const struct index_function *function)
{
    struct selection *selection;
    struct err err = {0};
    if (selection_parse(&selection, text, &err) < 0)
        fail_msg("%s: %s", text, err.text);
    bool result = selection_matches(selection, module, function);
    selection_free(selection);
    return result;
}

static bool wants_unknown(const char *text, const struct module *module)
{
    struct selection *selection;
    assert_int_equal(selection_parse(&selection, text, NULL), 0);
    bool result = selection_wants_unknown(selection, module);
    selection_free(selection);
    return result;
}

#define yes(text, module, function) assert_true(matches(text, module, function))
#define no(text, module, function) assert_false(matches(text, module, function))

static void test_names(void **state)
{
    yes("solve", &program, &solve);
    yes("fn:solve", &program, &solve);
    yes("fn:s*e", &library, &solve);
    yes("s?lve", &program, &solve);
    yes("[a-s]olve", &program, &solve);
    no("[!a-s]olve", &program, &solve);
    no("solv", &program, &solve);
    no("Solve", &program, &solve);
    yes("main,solve", &program, &solve);
    yes(" main\tx ,, solve ", &program, &solve);
    yes("s\\olve", &program, &solve);
    no("s\\*e", &program, &solve);
    /* C++ */
    yes("solve", &program, &method);
    yes("so*", &program, &method);
    no("ns::solve", &program, &method);
    yes("ns::*::solve", &program, &method);
    yes("ns::Grid<int, 2>::solve", &program, &method);
    yes("x ns::Grid<int, 2>::solve y", &program, &method);
    yes("fn:ns::Grid<*>::solve", &program, &method);
    yes("*Grid*", &program, &method);
    yes("_ZNK2ns4GridIiLi2EE5solveEdPKc", &program, &method);
    yes("_ZNK2ns4Grid*", &program, &method);
    yes("solve(double, char const*) const", &program, &method);
    yes("solve(double, char const*)", &program, &method);
    no("solve(double, char const*) volatile", &program, &method);
    yes("solve(double,*", &program, &method);
    no("solve(int)", &program, &method);
    yes("ns::Grid<int, 2>::solve(double, char const*)*", &program, &method);
    yes("sum", &program, &instance);
    yes("ns::sum", &program, &instance);
    yes("ns::sum<std::vector<int> >", &program, &instance);
    yes("ns::sum<std::vector<int, std::allocator<int> > >", &program, &instance);
    yes("ns::sum<std::vector<int>>", &program, &instance);
    yes("sum<std::vector<int> >", &program, &instance);
    no("sum<int>", &program, &instance);
    yes("operator<", &program, &less);
    yes("operator<, main", &program, &less);
    yes("main operator<", &program, &less);
    yes("ns::operator<", &program, &less);
    yes("ns::operator<(A const&, A const&)", &program, &less);
    no("operator>", &program, &less);
    /* clones */
    yes("work", &program, &clone);
    yes("work.constprop.0", &program, &clone);
    no("work.cold", &program, &clone);
    no("constprop", &program, &clone);
    /* none */
    no("s*", &program, &unknown);
    yes("fn:*", &program, &unknown);
}

static void test_files(void **state)
{
    yes("file:stommel.c", &program, &solve);
    yes("file:src/stommel.c", &program, &solve);
    yes("file:./src/stommel.c", &program, &solve);
    yes("file:/home/ann/ocean/src/stommel.c", &program, &solve);
    yes("file:/home/ann/*", &program, &solve);
    yes("file:*.c", &program, &solve);
    yes("file:ocean/*", &program, &solve);
    yes("file:sto*", &program, &solve);
    no("file:ommel.c", &program, &solve);
    no("file:/src/stommel.c", &program, &solve);
    no("file:stommel", &program, &solve);
    no("file:*.c", &program, &instance);
}

static void test_places(void **state)
{
    yes("lib:stommel", &program, &solve);
    no("lib:stommel", &library, &solve);
    yes("lib:libm*", &library, &solve);
    no("lib:libm*", NULL, &solve);
    yes("addr:1100-1110", &program, &solve);
    yes("addr:0x1100-0x1101", &program, &solve);
    no("addr:1000-1100", &program, &solve);
    no("addr:1101-2000", &program, &solve);
    yes("addr:100100-100101", &library, &solve);
    yes("all", &library, &unknown);
    yes("all", NULL, &unknown);
}

static void test_combined(void **state)
{
    yes("", &program, &solve);
    no("", &library, &solve);
    no("!solve", &program, &solve);
    yes("!other", &program, &solve);
    no("!other", &library, &solve);
    no("solve !file:stommel.c", &program, &solve);
    yes("solve !file:other.c", &program, &solve);
    no("!lib:* solve", &program, &solve);
    yes("all !lib:libm*", &program, &solve);
    no("all !lib:libm*", &library, &solve);
    no("all !all", &program, &solve);
    no("main", &program, &solve);
}

static void test_unknown(void **state)
{
    assert_true(wants_unknown("", &program));
    assert_false(wants_unknown("", &library));
    assert_false(wants_unknown("solve", &program));
    assert_false(wants_unknown("file:x.c", &program));
    assert_true(wants_unknown("all", &library));
    assert_true(wants_unknown("fn:*", &library));
    assert_false(wants_unknown("all !lib:libm.so.6", &library));
    assert_true(wants_unknown("all !lib:libm.so.6", &program));
    assert_true(wants_unknown("all !solve", &program));
    assert_true(wants_unknown("lib:libm*", &library));
    assert_false(wants_unknown("lib:libm*", &program));
    assert_true(wants_unknown("solve addr:1000-1001", &program));
    assert_true(wants_unknown("addr:8fff-10000", &program));
    assert_false(wants_unknown("addr:9000-10000", &program));
    assert_false(wants_unknown("addr:0-1000", &program));
}

static void test_wrong(void **state)
{
    static const struct {
        const char *text, *said;
    } cases[] = {
        {"solve fnn:x", "'fnn:' at character 7"},
        {"fn:", "'fn:' at character 1"},
        {"main !", "'!' at character 6"},
        {"!!x", NULL},
        {"addr:12", "addr:LOW-HIGH"},
        {"addr:20-10", "empty"},
        {"addr:10-10", "empty"},
        {"addr:-1-10", "addr:LOW-HIGH"},
        {"addr:x-y", "addr:LOW-HIGH"},
        {"addr:1-2z", "addr:LOW-HIGH"},
        {"addr:1-11111111111111111", "addr:LOW-HIGH"},
        {"stommel.c", "write file:stommel.c"},
        {"!grid.cpp", "write file:grid.cpp"},
        {"libm.so.6", "write lib:libm.so.6"},
        {"libx.so", "write lib:libx.so"},
        {"x\\", "backslash"},
        {"file:", "nothing follows"},
        {"main fn:[", "'fn:[' at character 6 has a [ that is not closed"},
        {"solve[a-", "not closed"},
        {"fn:[!]", "not closed"},
        {"[a\\]", "not closed"},
        {"!file:x[1/*.c", "'file:x[1/*.c' at character 2 has a ["},
        {"lib:[", "not closed"},
        {"operator[", "not closed"},
        {"[a,b]", "'[a' at character 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct selection *selection = NULL;
        struct err err = {0};
        int r = selection_parse(&selection, cases[i].text, &err);
        if (!cases[i].said) {
            selection_free(selection);
            continue;
        }
        assert_int_equal(r, -EINVAL);
        assert_null(selection);
        if (!strstr(err.text, cases[i].said))
            fail_msg("%s: %s", cases[i].text, err.text);
    }
    struct selection *selection;
    struct err err = {0};
    char *many = malloc(4 * SELECTION_ITEMS + 8);
    for (int i = 0; i <= SELECTION_ITEMS; i++)
        memcpy(many + 2 * i, "a ", 3);
    assert_int_equal(selection_parse(&selection, many, &err), -E2BIG);
    many[2 * SELECTION_ITEMS] = 0;
    assert_int_equal(selection_parse(&selection, many, &err), 0);
    selection_free(selection);
    free(many);
}

static void test_globs(void **state)
{
    /* many stars are no trap */
    char text[20001], glob[4001];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = 0;
    for (size_t i = 0; i < sizeof glob - 1; i += 2)
        memcpy(glob + i, "a*", 2);
    glob[sizeof glob - 2] = 'b';
    glob[sizeof glob - 1] = 0;
    assert_false(glob_matches(glob, span_str(text)));
    assert_true(glob_matches("[", span_str("[")));
    assert_non_null(glob_unclosed("a[[b]c[d"));
    assert_null(glob_unclosed("a[[b]c\\[d"));
    assert_null(glob_unclosed("operator[]"));
    assert_null(glob_unclosed("std::unique_ptr<int []>::get*"));
    assert_null(glob_unclosed("[]]*[!]]*[^]a]"));
    assert_true(glob_matches("operator[]", span_str("operator[]")));
    assert_true(glob_matches("[]]", span_str("]")));
    assert_true(glob_matches("[^]a]", span_str("b")));
    assert_false(glob_matches("[^]a]", span_str("]")));
    assert_true(glob_matches("[a\\]]", span_str("]")));
    assert_true(glob_matches("[a-]", span_str("-")));
    assert_true(glob_matches("*", span_str("")));
    assert_false(glob_matches("?", span_str("")));
    assert_true(span_is(name_last_part(span_str("a::b<c::d>::e")), "e"));
    assert_true(span_is(name_last_part(span_str("a::operator<<")), "operator<<"));
    assert_true(span_is(name_last_part(span_str("a::operator->::b")), "b"));
    assert_true(span_is(name_last_part(span_str("")), ""));
    assert_true(span_is(name_without_template(span_str("f<a<b> >")), "f"));
    assert_true(span_is(name_without_template(span_str("a<b>::f")), "a<b>::f"));
    assert_true(span_is(name_without_template(span_str("a<b>::f<c>")), "a<b>::f"));
    assert_true(span_is(name_without_template(span_str("operator>")), "operator>"));
    assert_true(span_is(name_without_template(span_str("operator-><int>")), "operator->"));
    assert_true(span_is(name_without_template(span_str("operator< <int>")), "operator<"));
    assert_true(span_is(name_without_clone(span_str("f.part.0.cold")), "f"));
    assert_true(span_is(name_without_clone(span_str("f.0")), "f.0"));
    assert_true(span_is(name_without_clone(span_str(".cold")), ".cold"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),    cmocka_unit_test(test_files),   cmocka_unit_test(test_places),
        cmocka_unit_test(test_combined), cmocka_unit_test(test_unknown), cmocka_unit_test(test_wrong),
        cmocka_unit_test(test_globs),
    };
    return cmocka_run_group_tests_name("selection", tests, NULL, NULL);
}
