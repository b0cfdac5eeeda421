/* SPDX-License-Identifier: Apache-2.0 */
/* Of any number of warnings the first and the last of each kind are kept, and all are counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/data/hash.h"
#include "jobdir/record/model.h"

static void add(struct kept *kept, const char *member, const char *kind, int number)
{
    json_t *record = json_pack("{s:s, s:i}", member, kind, "number", number);
    kept_add(kept, record);
    json_decref(record);
}

static json_int_t number_at(const struct kept *kept, size_t at)
{
    return json_integer_value(json_object_get(json_array_get(kept->records, at), "number"));
}

static void test_few(void **state)
{
    struct kept kept;
    assert_int_equal(kept_init(&kept), 0);
    for (int i = 0; i < 2 * KEPT_EACH; i++)
        add(&kept, "note", "disk", i);
    json_t *omitted = kept_omitted(&kept);
    assert_int_equal(json_array_size(kept.records), 2 * KEPT_EACH);
    assert_int_equal(json_array_size(omitted), 0);
    json_decref(omitted);
    kept_done(&kept);
}

/* One that came once amidst is there; so are the first and the last ones, in their order. */
static void test_many(void **state)
{
    enum { MANY = 100000 };
    struct kept kept;
    assert_int_equal(kept_init(&kept), 0);
    const json_t *borrowed = kept.records;
    for (int i = 0; i < MANY; i++)
        add(&kept, i == MANY / 2 ? "kind" : "note", i == MANY / 2 ? "memory" : i % 2 ? "disk" : "lost", i);
    size_t count = json_array_size(kept.records);
    assert_ptr_equal(borrowed, kept.records);
    assert_true(count > 2 * 2 * KEPT_EACH && count <= 2 * 3 * KEPT_EACH + 1);
    assert_int_equal(kept.total, MANY);
    bool seen = false;
    for (size_t i = 0; i < count; i++) {
        assert_true(i == 0 || number_at(&kept, i) > number_at(&kept, i - 1));
        seen |= number_at(&kept, i) == MANY / 2;
        if (i < (size_t)2 * KEPT_EACH)
            assert_int_equal(number_at(&kept, i), i);
        if (count - i <= (size_t)2 * KEPT_EACH)
            assert_int_equal(number_at(&kept, i), MANY - (int)(count - i));
    }
    assert_true(seen);
    json_t *omitted = kept_omitted(&kept), *kind;
    size_t index, sum = count;
    json_array_foreach(omitted, index, kind) sum += (size_t)json_integer_value(json_object_get(kind, "count"));
    assert_int_equal(json_array_size(omitted), 2);
    assert_int_equal(sum, MANY);
    json_decref(omitted);
    kept_done(&kept);
}

/* Kinds come from files, too: there are never more than so many. */
static void test_many_kinds(void **state)
{
    struct kept kept;
    char name[32];
    assert_int_equal(kept_init(&kept), 0);
    for (int i = 0; i < 10 * KEPT_KINDS; i++) {
        snprintf(name, sizeof name, "kind%d", i);
        add(&kept, "kind", name, i);
    }
    assert_true(HASH_COUNT(kept.kinds) <= KEPT_KINDS + 1);
    assert_true(json_array_size(kept.records) <= KEPT_KINDS + 3 * KEPT_EACH);
    assert_int_equal(number_at(&kept, 0), 0);
    assert_int_equal(number_at(&kept, json_array_size(kept.records) - 1), 10 * KEPT_KINDS - 1);
    kept_done(&kept);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_few), cmocka_unit_test(test_many),
                                       cmocka_unit_test(test_many_kinds)};
    return cmocka_run_group_tests_name("kept", tests, NULL, NULL);
}
