/* SPDX-License-Identifier: Apache-2.0 */
/* What was compiled, in the cache: it comes back as it was for the same file and request, and for nothing else. */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/system/file.h"
#include "symbols/client/client.h"
#include "symbols/capture/test_support.h"

static void fill(struct buf *items)
{
    compiled_add(items, &(struct helper_answer){.kind = HELPER_LAYOUT, .id = 1, .text = "args(n:i4)"});
    compiled_add(items, &(struct helper_answer){.kind = HELPER_BLOCK, .id = 3, .code = "shared", .code_size = 6});
    compiled_add(
        items,
        &(struct helper_answer){
            .kind = HELPER_SITE, .site = HELPER_EXIT, .id = 1, .address = 0x1234, .code = "program", .code_size = 7});
    compiled_add(items, &(struct helper_answer){
                            .kind = HELPER_PARAMS, .site = HELPER_ENTRY, .address = 0x99, .code = "", .code_size = 0});
}

static int load(const char *key, const char *request)
{
    struct buf items = BUF_INIT;
    uint64_t functions;
    int code = compiled_load(&items, &functions, key, request, NULL);
    assert_true(code == 0 || items.len == 0);
    buf_done(&items);
    return code;
}

static void test_comes_back(void **state)
{
    struct buf stored = BUF_INIT, items = BUF_INIT;
    uint64_t functions;
    struct compiled_item item;
    const void *bytes;
    size_t at = 0;
    fill(&stored);
    assert_int_equal(load("key", "request"), -ENOENT);
    assert_int_equal(compiled_store(&stored, 5, "key", "request", NULL), 0);
    assert_int_equal(compiled_load(&items, &functions, "key", "request", NULL), 0);
    assert_int_equal(functions, 5);
    assert_true(compiled_next(&items, &at, &item, &bytes));
    assert_true(item.kind == HELPER_LAYOUT && item.id == 1);
    assert_string_equal(bytes, "args(n:i4)");
    assert_true(compiled_next(&items, &at, &item, &bytes));
    assert_true(item.kind == HELPER_BLOCK && item.id == 3 && item.size == 6);
    assert_memory_equal(bytes, "shared", 6);
    assert_true(compiled_next(&items, &at, &item, &bytes));
    assert_true(item.kind == HELPER_SITE && item.site == HELPER_EXIT && item.address == 0x1234 && item.size == 7);
    assert_memory_equal(bytes, "program", 7);
    assert_true(compiled_next(&items, &at, &item, &bytes));
    assert_true(item.kind == HELPER_PARAMS && item.size == 0);
    assert_false(compiled_next(&items, &at, &item, &bytes));
    assert_int_equal(at, items.len);
    assert_int_equal(load("key", "request of another"), -ENOENT);
    assert_int_equal(load("another", "request"), -ENOENT);
    assert_int_equal(load("", "request"), -EINVAL);
    assert_int_equal(load("../key", "request"), -EINVAL);
    buf_done(&stored);
    buf_done(&items);
}

/* Whichever byte is wrong, and wherever it ends, it is refused. */
static void test_damaged(void **state)
{
    uint64_t functions;
    struct buf stored = BUF_INIT, items = BUF_INIT;
    glob_t found;
    char *bytes;
    size_t size;
    fill(&stored);
    assert_int_equal(compiled_store(&stored, 5, "key", "request", NULL), 0);
    assert_int_equal(glob("*/scry/symbols/key-*.captures", 0, NULL, &found), 0);
    assert_int_equal(found.gl_pathc, 1);
    assert_int_equal(file_read(found.gl_pathv[0], &bytes, &size), 0);
    assert_int_equal(compiled_read(&items, &functions, bytes, size, "request", NULL), 0);
    assert_true(items.len == stored.len && memcmp(items.data, stored.data, items.len) == 0);
    buf_clear(&items);
    assert_int_equal(compiled_read(&items, &functions, bytes, size, "REQUEST", NULL), -EBADMSG);
    for (size_t i = 0; i < size; i++) {
        assert_int_equal(compiled_read(&items, &functions, bytes, i, "request", NULL), -EBADMSG);
        bytes[i] ^= 0x10;
        assert_int_equal(compiled_read(&items, &functions, bytes, size, "request", NULL), -EBADMSG);
        bytes[i] ^= 0x10;
    }
    assert_int_equal(items.len, 0);
    assert_int_equal(truncate(found.gl_pathv[0], (off_t)size - 1), 0);
    assert_int_equal(load("key", "request"), -EBADMSG);
    unlink(found.gl_pathv[0]);
    assert_int_equal(mkfifo(found.gl_pathv[0], 0600), 0);
    assert_int_equal(load("key", "request"), -EBADMSG);
    free(bytes);
    globfree(&found);
    buf_done(&stored);
    buf_done(&items);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_comes_back, support_enter, support_leave),
        cmocka_unit_test_setup_teardown(test_damaged, support_enter, support_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
