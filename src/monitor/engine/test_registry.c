/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/engine/object.h"

static void run(struct scry_call *call)
{
    (void)call;
}

static const char *missing(void)
{
    return "not here";
}

static struct registry *new_registry(void)
{
    struct registry *registry = calloc(1, sizeof *registry);
    assert_non_null(registry);
    return registry;
}

static void finds_what_was_added(void **state)
{
    static const struct scry_service rows[] = {
        {"alpha", SCRY_INFORMATION, "token<p>* list, integer flags -> void", SCRY_REQUIRED, run, "A."},
        {"beta", SCRY_EVENT, "string name, token<pa_c> counter -> { integer sig }", SCRY_PARTIAL, NULL, "B."},
        {"gamma_2", SCRY_MANIPULATION, "-> token", SCRY_OPTIONAL, NULL, "C.", .missing = missing},
    };
    struct registry *registry = new_registry();
    struct err err;
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(registry_add(registry, &rows[i], "", &err), 0);
    struct service *service = registry_find(registry, span_str("alpha"));
    assert_non_null(service);
    assert_int_equal(service->object_arg, 0);
    assert_string_equal(service->object_class, "p");
    service = registry_find(registry, span_str("beta"));
    assert_int_equal(service->object_arg, 1);
    assert_string_equal(service->object_class, "pa_c");
    assert_int_equal(registry_find(registry, span_str("gamma_2"))->object_arg, -1);
    assert_null(registry_find(registry, span_str("alph")));
    assert_null(registry_find(registry, span_str("")));
    assert_null(registry_find(registry, span_of("alpha\0", 6)));
    assert_int_equal(registry_add(registry, &rows[0], "", &err), -EEXIST);
    assert_non_null(strstr(err.text, "alpha"));
    registry_free(registry);
}

static void refuses_rows_that_cannot_work(void **state)
{
    static const struct scry_service rows[] = {
        {NULL, SCRY_INFORMATION, "-> void", SCRY_REQUIRED, run, "."},
        {"", SCRY_INFORMATION, "-> void", SCRY_REQUIRED, run, "."},
        {"Upper", SCRY_INFORMATION, "-> void", SCRY_REQUIRED, run, "."},
        {"1st", SCRY_INFORMATION, "-> void", SCRY_REQUIRED, run, "."},
        {"no_signature", SCRY_INFORMATION, NULL, SCRY_REQUIRED, run, "."},
        {"bad_signature", SCRY_INFORMATION, "integer -> ->", SCRY_REQUIRED, run, "."},
        {"no_doc", SCRY_INFORMATION, "-> void", SCRY_REQUIRED, run, NULL},
        {"no_run", SCRY_INFORMATION, "-> void", SCRY_REQUIRED, NULL, "."},
        {"no_kind", (enum scry_kind)3, "-> void", SCRY_REQUIRED, run, "."},
        {"no_class", SCRY_INFORMATION, "-> void", (enum scry_requirement)3, run, "."},
    };
    struct registry *registry = new_registry();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct err err = {0};
        assert_int_equal(registry_add(registry, &rows[i], "", &err), -EINVAL);
        assert_true(err.text[0]);
    }
    assert_null(registry->services);
    registry_free(registry);
}

static void keeps_extensions_apart(void **state)
{
    static const struct scry_service own = {"ab_one", SCRY_INFORMATION, "-> void", SCRY_OPTIONAL, run, "."},
                                     alien = {"abc_one", SCRY_INFORMATION, "-> void", SCRY_OPTIONAL, run, "."};
    struct registry *registry = new_registry();
    struct err err;
    assert_int_equal(registry_add(registry, &alien, "ab", &err), -EINVAL);
    assert_int_equal(registry_add(registry, &own, "ab", &err), 0);
    assert_int_equal(registry_add(registry, &alien, "abc", &err), 0);
    assert_int_equal(registry_add_extension(registry, "ab", &err), 0);
    assert_int_equal(registry_add_extension(registry, "ab", &err), -EEXIST);
    assert_true(registry_has_extension(registry, span_str("ab")));
    assert_false(registry_has_extension(registry, span_str("a")));
    registry_remove_extension(registry, "abc");
    assert_null(registry_find(registry, span_str("abc_one")));
    assert_non_null(registry_find(registry, span_str("ab_one")));
    char prefix[16];
    for (int i = 1; i < 64; i++) {
        snprintf(prefix, sizeof prefix, "x%d", i);
        assert_int_equal(registry_add_extension(registry, prefix, &err), 0);
    }
    assert_int_equal(registry_add_extension(registry, "one_more", &err), -ENOSPC);
    registry_free(registry);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_what_was_added),
        cmocka_unit_test(refuses_rows_that_cannot_work),
        cmocka_unit_test(keeps_extensions_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
