/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of control groups, of files as the kernel writes them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "probe/node.h"

static char root[] = "/tmp/scry-memory-room-XXXXXX";

static void put(const char *directory, const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s/%s", root, directory, name);
    for (char *slash = path + sizeof root; (slash = strchr(slash, '/')); slash++) {
        *slash = 0;
        mkdir(path, 0700);
        *slash = '/';
    }
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void expect(const char *groups, uint64_t limit, uint64_t left)
{
    struct memory_room room;
    memory_room_of(groups, root, &room);
    assert_int_equal(room.limit, limit);
    assert_int_equal(room.left, left);
}

static void test_second(void **state)
{
    put("a", "memory.max", "1000000\n");
    put("a", "memory.current", "300000\n");
    put("a", "memory.stat", "anon 1\nfile 200000\nactive_file 40000\ninactive_file 60000\nshmem 100000\n");
    put("a/b", "memory.max", "max\n");
    put("a/b", "memory.current", "200000\n");
    expect("0::/a/b\n", 1000000, 800000); /* the group around it counts, and file pages do not */
    put("a/b", "memory.max", "500000\n");
    expect("0::/a/b\n", 500000, 300000);
    put("a/b", "memory.current", "600000\n");
    expect("0::/a/b\n", 500000, 0);
    expect("0::/a/b/not-there\n", 500000, 0);
    expect("0::/elsewhere\n", UINT64_MAX, UINT64_MAX);
    expect("0::/\n", UINT64_MAX, UINT64_MAX);
}

static void test_first(void **state)
{
    static const char groups[] = "9:name=systemd:/x\n4:cpu,memory:/job\n3:memoryless:/a\n0::/a\n";
    put("memory", "memory.limit_in_bytes", "9223372036854771712\n");
    put("memory", "memory.usage_in_bytes", "5000000\n");
    put("memory/job", "memory.limit_in_bytes", "2000000\n");
    put("memory/job", "memory.usage_in_bytes", "1500000\n");
    expect(groups, 2000000, 500000);
    put("memory/job", "memory.stat", "cache 1\ntotal_inactive_file 100000\ntotal_active_file 1\n");
    expect(groups, 2000000, 600001);
}

static void test_nonsense(void **state)
{
    static const char *const texts[] = {"",   "\n", ":", "::", "memory", "1:memory", "1:memory:", "x:memory\n0::\n",
                                        "0::"};
    char path[8192];
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct memory_room room;
        memory_room_of(texts[i], root, &room);
    }
    memset(path, 'p', sizeof path - 1);
    path[sizeof path - 1] = 0;
    memcpy(path, "0::/", 4);
    expect(path, UINT64_MAX, UINT64_MAX);
    put("c", "memory.max", "nonsense");
    put("c", "memory.current", "");
    expect("0::/c\n", UINT64_MAX, UINT64_MAX);
}

static void test_here(void **state)
{
    struct memory_room room;
    memory_room_read(&room);
    assert_true(room.limit > 1 << 20 && room.left < room.limit);
}

static int leave(void **state)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", root);
    return system(command);
}

static int enter(void **state)
{
    return mkdtemp(root) ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_second),
        cmocka_unit_test(test_first),
        cmocka_unit_test(test_nonsense),
        cmocka_unit_test(test_here),
    };
    return cmocka_run_group_tests_name("memory_room", tests, enter, leave);
}
