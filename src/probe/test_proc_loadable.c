/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a library can be brought into a process, and why not. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "base/system/sanitized.h"
#include "probe/proc.h"
#include "probe/test_child.h"

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
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_loadable)};
    return cmocka_run_group_tests_name("proc_loadable", tests, NULL, NULL);
}
