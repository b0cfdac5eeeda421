/* SPDX-License-Identifier: Apache-2.0 */
/* What is loaded in a process: programs linked in the ways in which programs come (test_target.c). */
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "probe/proc.h"
#include "base/system/own_memory.h"
#include "probe/test_child.h"

struct target {
    pid_t pid;
    int in;
    FILE *out;
    uint64_t main, data, bss;
};

static void start_target(struct target *target, const char *variable)
{
    const char *path = getenv(variable);
    if (!path)
        fail_msg("%s is not set: run this test by meson", variable);
    int in[2], out[2];
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    target->pid = fork();
    if (target->pid == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        execl(path, path, NULL);
        _exit(93);
    }
    close(in[0]);
    close(out[1]);
    target->in = in[1];
    target->out = fdopen(out[0], "r");
    unsigned long addresses[3];
    assert_int_equal(fscanf(target->out, "%lx %lx %lx", &addresses[0], &addresses[1], &addresses[2]), 3);
    target->main = addresses[0];
    target->data = addresses[1];
    target->bss = addresses[2];
}

static void stop_target(struct target *target)
{
    int status;
    close(target->in);
    fclose(target->out);
    waitpid(target->pid, &status, 0);
    assert_int_equal(status, 0);
}

static const struct proc_module *find_module(const struct proc_module *modules, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strstr(modules[i].path, name))
            return &modules[i];
    return NULL;
}

static void check_main(const struct target *target, const char *variable, bool libraries)
{
    struct proc_module *modules;
    size_t count;
    assert_int_equal(proc_modules(target->pid, &modules, &count), 0);
    char path[PATH_MAX];
    assert_non_null(realpath(getenv(variable), path));
    assert_string_equal(modules[0].path, path);
    assert_true(target->main - modules[0].code_start < modules[0].code_len);
    assert_true(target->data - modules[0].data_start < modules[0].data_len);
    assert_true(target->bss - modules[0].bss_start < modules[0].bss_len);
    assert_true(modules[0].bss_len >= 3 << 20);
    const struct proc_module *libc = find_module(modules, count, "/libc.so");
    assert_int_equal(!!libc, libraries);
    assert_int_equal(!!find_module(modules, count, "/ld-linux"), libraries);
    assert_non_null(find_module(modules, count, "[vdso]"));
    assert_string_equal(modules[count - 1].path, "[vdso]");
    assert_int_equal(count, libraries ? 4 : 2);
    for (size_t i = 0; i < count; i++) {
        unsigned char magic[4];
        assert_true(modules[i].code_len > 0);
        if (modules[i].bias) {
            assert_int_equal(proc_memory_read(target->pid, modules[i].bias, magic, 4, NULL), 0);
            assert_memory_equal(magic, "\177ELF", 4);
        }
    }
    proc_modules_free(modules, count);
}

static void test_modules(void **state)
{
    static const struct {
        const char *variable;
        bool libraries;
    } ways[] = {{"TARGET_PIE", true},
                {"TARGET_STATIC", false},
                {"TARGET_STATIC_PIE", false},
                {"TARGET_STRIPPED", true},
                {"TARGET_LLD", true}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct target target;
        if (!getenv(ways[i].variable))
            continue; /* that linker is not there */
        start_target(&target, ways[i].variable);
        check_main(&target, ways[i].variable, ways[i].libraries);
        stop_target(&target);
    }
}

static void test_modules_before_linker(void **state)
{
    pid_t pid = fork();
    if (pid == 0) {
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        execl(getenv("TARGET_PIE"), "target", NULL);
        _exit(92);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP); /* at its first instruction, in ld.so */
    struct proc_module *modules;
    size_t count;
    assert_int_equal(proc_modules(pid, &modules, &count), 0);
    assert_int_equal(count, 3);
    assert_non_null(strstr(modules[0].path, "target"));
    assert_true(modules[0].code_len > 0 && modules[0].bss_len >= 3 << 20);
    assert_non_null(strstr(modules[1].path, "/ld-linux"));
    assert_string_equal(modules[2].path, "[vdso]");
    proc_modules_free(modules, count);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* ---- Whether a library can be brought into a process, and why not ---- */

static void (*prepare)(void);

static void be_prepared(int say)
{
    if (prepare)
        prepare();
    say_number(say, 1);
    pause();
}

/* A child that is as `how` makes it: what is said of bringing something into it; NULL: it may be. */
static void check_loadable(void (*how)(void), const char *const *files, const char *reason)
{
    int ready;
    prepare = how;
    pid_t pid = start(be_prepared, &ready);
    await_number(ready);
    struct err err = {0};
    int code = proc_loadable(pid, files, &err);
    if (code != (reason ? -EOPNOTSUPP : 0) || (reason && !strstr(err.text, reason)))
        fail_msg("%d: %s", code, err.text);
    finish(pid, ready);
}

static void restrict_calls(void)
{
    struct sock_filter all[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    const struct sock_fprog program = {1, all};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
        _exit(99);
}

static void limit_memory(void)
{
    const struct rlimit limit = {256 << 20, 256 << 20};
    setrlimit(RLIMIT_AS, &limit);
    void *most = mmap(NULL, 200 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (most == MAP_FAILED)
        _exit(99);
}

/* As if it had been started so: /proc shows what is on the stack. */
static void switch_off(void)
{
    for (char **entry = environ; *entry; entry++)
        if (strlen(*entry) >= strlen("SCRY=off")) {
            strcpy(*entry, "SCRY=off");
            return;
        }
    _exit(99);
}

static void test_loadable(void **state)
{
    static const char *const none[] = {NULL}, *const nowhere[] = {"/nowhere/library.so", NULL};
    (void)state;
    if (SANITIZED) {
        print_message("SKIP: nothing is loaded into programs with a sanitizer\n");
        skip();
    }
    check_loadable(NULL, none, NULL);
    check_loadable(NULL, nowhere, "does not see the file /nowhere/library.so");
    check_loadable(restrict_calls, none, "seccomp");
    check_loadable(limit_memory, none, "ulimit -v");
    check_loadable(switch_off, none, "SCRY=off");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_modules),
        cmocka_unit_test(test_modules_before_linker),
        cmocka_unit_test(test_loadable),
    };
    return cmocka_run_group_tests_name("proc_modules", tests, NULL, NULL);
}
