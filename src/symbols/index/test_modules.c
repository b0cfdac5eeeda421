/* SPDX-License-Identifier: Apache-2.0 */
/* The modules of real processes: as they are linked, and with their files deleted, replaced, or in another root. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "symbols/index/index.h"
#include "symbols/index/index_build.h"
#include "symbols/capture/test_support.h"

static const char source[] = "#include <dlfcn.h>\n"
                             "#include <stdio.h>\n"
                             "int main(int argc, char **argv)\n"
                             "{\n"
                             "    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;\n"
                             "    printf(\"%p %p\\n\", (void *)main, library ? dlsym(library, \"answer\") : NULL);\n"
                             "    fflush(stdout);\n"
                             "    getchar();\n"
                             "    return 0;\n"
                             "}\n";

/* As where Yama does not let us read the memory of a process; or the process ends before its memory is read that often
 * again (ENDS_NEVER: it does not). */
enum { ENDS_NEVER = -1 };
static bool memory_forbidden;
static int ends_after = ENDS_NEVER;
ssize_t __real_process_vm_readv(pid_t pid, const struct iovec *to, unsigned long to_count, const struct iovec *from,
                                unsigned long from_count, unsigned long flags);
ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *to, unsigned long to_count, const struct iovec *from,
                                unsigned long from_count, unsigned long flags);
ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *to, unsigned long to_count, const struct iovec *from,
                                unsigned long from_count, unsigned long flags)
{
    if (ends_after == 0) {
        errno = ESRCH;
        return -1;
    }
    ends_after -= ends_after > 0;
    if (!memory_forbidden)
        return __real_process_vm_readv(pid, to, to_count, from, from_count, flags);
    errno = EPERM;
    return -1;
}

static int enter(void **state)
{
    int r = support_enter(state);
    support_write("prog.c", source, sizeof source - 1);
    return r;
}

struct child {
    pid_t pid;
    int in;
    unsigned long main, answer;
};

static struct child start(const char *root, const char *program, const char *argument)
{
    struct child child = {0};
    int in[2], out[2];
    char text[100] = "";
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    child.pid = fork();
    if (child.pid == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        if (!root || (chroot(root) == 0 && chdir("/") == 0))
            execl(program, program, argument, NULL);
        _exit(99);
    }
    close(in[0]);
    close(out[1]);
    child.in = in[1];
    for (size_t at = 0; !strchr(text, '\n');) {
        ssize_t got = read(out[0], text + at, sizeof text - 1 - at);
        assert_true(got > 0);
        at += (size_t)got;
    }
    close(out[0]);
    char *end;
    child.main = strtoul(text, &end, 16);
    child.answer = strncmp(end, " (nil)", 6) == 0 ? 0 : strtoul(end, NULL, 16);
    return child;
}

static void stop(struct child *child)
{
    int status;
    close(child->in);
    assert_int_equal(waitpid(child->pid, &status, 0), child->pid);
    assert_int_equal(status, 0);
}

struct found {
    struct module *modules;
    size_t count;
};

static struct found look(const struct child *child)
{
    struct found found;
    struct err err = {0};
    if (modules_read(child->pid, &found.modules, &found.count, &err) < 0)
        fail_msg("%s", err.text);
    size_t programs = 0;
    for (size_t i = 0; i < found.count; i++) {
        assert_true(found.modules[i].start < found.modules[i].end);
        assert_true(i == 0 || found.modules[i - 1].end <= found.modules[i].start);
        programs += found.modules[i].is_program;
    }
    assert_int_equal(programs, 1);
    return found;
}

/* The module of an address; its file, indexed, has the function there. */
static const struct module *expect(const struct found *found, unsigned long address, const char *name,
                                   const char *function)
{
    struct buf image = BUF_INIT;
    struct index *index = NULL;
    struct index_function at;
    struct err err = {0};
    char key[INDEX_KEY_SIZE];
    const struct module *module = module_find(found->modules, found->count, address);
    assert_non_null(module);
    assert_string_equal(module->name, name);
    assert_string_equal(module->problem, "");
    if (index_build(module->path, &image, key, &err) < 0 || index_store(&image, key, &err) < 0 ||
        index_open_key(&index, module->key, &err) < 0)
        fail_msg("%s", err.text);
    assert_true(index_find(index, address - module->bias, &at));
    assert_string_equal(at.name, function);
    index_close(index);
    buf_done(&image);
    return module;
}

static void expect_replaced(const struct found *found, unsigned long address, const char *name)
{
    const struct module *module = module_find(found->modules, found->count, address);
    assert_non_null(module);
    assert_string_equal(module->name, name);
    assert_string_equal(module->key, "");
    assert_string_equal(module->path, "");
    assert_non_null(strstr(module->problem, "replaced"));
}

/* Whether the kernel lets us open the files behind mappings. */
static bool may_open_maps(void)
{
    return geteuid() == 0;
}

static void test_ways(void **state)
{
    static const char *const ways[] = {
        "-pie -fPIE",          "-no-pie",     "-static", "-static-pie", "-Wl,-z,noseparate-code",
        "-Wl,--build-id=none", "-s -rdynamic"};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        support_run("cc -g %s -o prog prog.c 2>/dev/null", ways[i]);
        struct child child = start(NULL, "./prog", NULL);
        struct found found = look(&child);
        const struct module *module = expect(&found, child.main, "prog", "main");
        assert_true(module->is_program);
        assert_true(strstr(ways[i], "static") ? found.count == 1 : found.count >= 3);
        assert_null(module_find(found.modules, found.count, module->start - 1));
        assert_null(module_find(found.modules, found.count, 16));
        free(found.modules);
        stop(&child);
    }
}

static void make_library(const char *path, const char *before)
{
    char text[200];
    int len = snprintf(text, sizeof text, "%s\nint answer(void) { return 42; }\n", before);
    support_write("lib.c", text, (size_t)len);
    support_run("cc -g -shared -fPIC -o %s lib.c", path);
}

static void test_libraries(void **state)
{
    support_run("cc -g -o prog prog.c");
    make_library("'lib a.so'", "");
    struct child child = start(NULL, "./prog", "./lib a.so");
    assert_true(child.answer != 0);
    struct found found = look(&child);
    assert_false(expect(&found, child.answer, "lib a.so", "answer")->is_program);
    free(found.modules);

    /* replaced by another: deleted, so only the kernel still has it */
    assert_int_equal(unlink("lib a.so"), 0);
    make_library("'lib a.so'", "int more(void) { return 1; }");
    found = look(&child);
    if (may_open_maps())
        expect(&found, child.answer, "lib a.so", "answer");
    else
        expect_replaced(&found, child.answer, "lib a.so");
    free(found.modules);

    /* the same once more is as good */
    assert_int_equal(unlink("lib a.so"), 0);
    make_library("'lib a.so'", "");
    found = look(&child);
    expect(&found, child.answer, "lib a.so", "answer");
    free(found.modules);
    stop(&child);
}

static void test_replaced(void **state)
{
    for (int with_id = 0; with_id < 2; with_id++) {
        support_run("cc -g -Wl,--build-id=%s -o prog prog.c", with_id ? "sha1" : "none");
        struct child child = start(NULL, "./prog", NULL);
        support_run("cc -g -O2 -Wl,--build-id=%s -o new prog.c && mv new prog", with_id ? "sha1" : "none");
        struct found found = look(&child);
        const struct module *module = expect(&found, child.main, "prog", "main"); /* by /proc/PID/exe */
        assert_true(module->is_program);
        assert_int_equal(strncmp(module->path, "/proc/", 6), 0);
        free(found.modules);
        stop(&child);
    }
}

/* Without a look into its memory the inodes decide. */
static void test_forbidden(void **state)
{
    support_run("cc -g -o prog prog.c");
    make_library("lib.so", "");
    struct child child = start(NULL, "./prog", "./lib.so");
    memory_forbidden = true;
    struct found found = look(&child);
    assert_true(found.count >= 4);
    expect(&found, child.main, "prog", "main");
    expect(&found, child.answer, "lib.so", "answer");
    free(found.modules);

    assert_int_equal(rename("prog", "old"), 0); /* still known by the name that it has now */
    make_library("new.so", "int more(void) { return 1; }");
    assert_int_equal(rename("new.so", "lib.so"), 0);
    found = look(&child);
    expect(&found, child.main, "old", "main");
    if (may_open_maps())
        expect(&found, child.answer, "lib.so", "answer");
    else
        expect_replaced(&found, child.answer, "lib.so");
    free(found.modules);
    memory_forbidden = false;
    stop(&child);
}

static void test_other_root(void **state)
{
    if (geteuid() != 0) {
        print_message("# SKIP: only root can change the root\n");
        skip();
    }
    support_run("cc -g -static -o prog prog.c 2>/dev/null && mkdir inside && cp prog inside/prog");
    char root[PATH_MAX];
    assert_non_null(realpath("inside", root));
    struct child child = start(root, "/prog", NULL);
    struct found found = look(&child);
    expect(&found, child.main, "prog", "main");
    free(found.modules);
    stop(&child);
}

static void test_gone(void **state)
{
    struct err err = {0};
    struct module *modules;
    size_t count;
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    waitpid(pid, NULL, 0);
    assert_int_equal(modules_read(pid, &modules, &count, &err), -ESRCH);
    assert_true(err.text[0] != 0);
}

/* It has ended after its mappings were read: it is gone, and does not seem to have closed its libraries. */
static void test_ends_meanwhile(void **state)
{
    support_run("cc -g -o prog prog.c");
    make_library("lib.so", "");
    struct child child = start(NULL, "./prog", "./lib.so");
    struct found found = look(&child);
    size_t count = 0;
    int reads = 0, code = -ESRCH;
    for (; code < 0 && reads < 100; reads++) {
        struct err err = {0};
        struct module *modules = NULL;
        ends_after = reads;
        code = modules_read(child.pid, &modules, &count, &err);
        assert_true(code == 0 || code == -ESRCH);
        free(modules);
    }
    ends_after = ENDS_NEVER;
    assert_int_equal(code, 0);
    assert_int_equal(count, found.count);
    assert_in_range(reads, 10, 99);
    free(found.modules);
    stop(&child);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_ways, enter, support_leave),
        cmocka_unit_test_setup_teardown(test_libraries, enter, support_leave),
        cmocka_unit_test_setup_teardown(test_replaced, enter, support_leave),
        cmocka_unit_test_setup_teardown(test_forbidden, enter, support_leave),
        cmocka_unit_test_setup_teardown(test_other_root, enter, support_leave),
        cmocka_unit_test_setup_teardown(test_gone, enter, support_leave),
        cmocka_unit_test_setup_teardown(test_ends_meanwhile, enter, support_leave),
    };
    return cmocka_run_group_tests_name("modules", tests, NULL, NULL);
}
