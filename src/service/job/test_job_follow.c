/* SPDX-License-Identifier: Apache-2.0 */
/* Follows real processes: a held child that becomes a small tree. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/data/arena.h"
#include "base/system/clock.h"
#include "lang/request.h"
#include "probe/follow.h"
#include "probe/proc.h"
#include "service/job/follow.h"
#include "service/job/test_follow_support.h"

/* Twenty processes too short to be seen by looking now and then. */
static void many_short(void)
{
    for (int i = 0; i < 20; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            execl("/bin/true", "true", (char *)NULL);
            _exit(1);
        }
        waitpid(pid, NULL, 0);
    }
    _exit(7);
}

static void test_short_processes(void **state)
{
    if (follow_missing()) {
        print_message("perf is not available: %s\n", follow_missing());
        skip();
    }
    struct held held = hold(many_short);
    struct job_follow *follow;
    struct answer answer;
    struct err err = {0};
    siginfo_t info;
    assert_int_equal(job_follow_new(&follow, held.pid, NULL, &err), 0);
    assert_true(job_follow_fd(follow) >= 0);
    let_go(&held);
    assert_int_equal(waitid(P_PID, (id_t)held.pid, &info, WEXITED | WNOWAIT), 0);
    take_until(follow, ENDED_COUNT, 21, &answer);
    assert_int_equal(number(&answer, SINGLY), 1);
    assert_int_equal(number(&answer, STARTED), 21);
    assert_int_equal(number(&answer, ENDED), 21);
    assert_int_equal(number(&answer, ENDED_COUNT), 21);
    assert_int_equal(number(&answer, ALIVE_COUNT), 0);
    assert_int_equal(number(&answer, PEAK_PROCESSES), 2);
    assert_int_equal(number(&answer, LOST), 0);
    assert_int_equal(number(&answer, UNSEEN), 0);
    assert_true(number(&answer, UNCLOCKED) < 1000000);
    assert_true(number(&answer, ENDED_CPU) > 0);
    const struct value *root = find_ended(&answer, held.pid);
    assert_non_null(root);
    assert_int_equal(root[5].integer.bits, 7 << 8); /* nobody has waited for it yet, so its status can be had */
    size_t trues = 0;
    for (size_t i = 0; i < 21; i++) {
        const struct value *row = answer.values[ENDED_LIST].list.items + i * ENDED_MEMBERS;
        trues += row[8].text.len == 4 && memcmp(row[8].text.ptr, "true", 4) == 0;
        assert_true(row[3].integer.bits >= row[2].integer.bits);
    }
    assert_int_equal(trues, 20);
    uint64_t cursor = number(&answer, CURSOR);
    arena_done(&answer.arena);
    /* asked for again without the cursor, they come again; with it, they are gone */
    take(follow, 0, &answer);
    assert_int_equal(number(&answer, ENDED_COUNT), 21);
    arena_done(&answer.arena);
    take(follow, cursor, &answer);
    assert_int_equal(number(&answer, ENDED_COUNT), 0);
    assert_int_equal(number(&answer, ENDED), 21);
    arena_done(&answer.arena);
    job_follow_free(follow);
    waitpid(held.pid, NULL, 0);
}

static void wait_for_signal(void)
{
    pid_t pid = fork();
    if (pid == 0)
        for (;;)
            pause();
    for (;;)
        pause();
}

static pid_t child_of(const struct answer *answer, pid_t parent)
{
    const struct value *list = answer->values[ALIVE_LIST].list.items;
    for (size_t i = 0; i < number(answer, ALIVE_COUNT); i++)
        if (list[i * ALIVE_MEMBERS + 1].integer.bits == (uint64_t)parent)
            return (pid_t)list[i * ALIVE_MEMBERS].integer.bits;
    return 0;
}

enum { MANY_SEEN = 100 };
static int said[2], answered[2]; /* a hello, and its answer */

/* Children that live no longer than it takes to say hello. */
static void many_seen(void)
{
    for (int i = 0; i < MANY_SEEN; i++) {
        pid_t pid = fork();
        char go;
        if (pid == 0) {
            pid = getpid();
            if (write(said[1], &pid, sizeof pid) == sizeof pid && read(answered[0], &go, 1) == 1)
                raise(SIGKILL);
            _exit(1);
        }
        waitpid(pid, NULL, 0);
    }
    _exit(0);
}

/* A process that says hello is known to its end, although no sample saw it, and perf tells the end before the kernel is
 * through with it. */
static void test_seen(void **state)
{
    if (missing_statuses())
        skip();
    pid_t pids[MANY_SEEN];
    struct job_follow *follow;
    struct answer answer;
    struct err err = {0};
    assert_int_equal(pipe(said), 0);
    assert_int_equal(pipe(answered), 0);
    struct held held = hold(many_seen);
    assert_int_equal(job_follow_new(&follow, held.pid, NULL, &err), 0);
    let_go(&held);
    for (int i = 0; i < MANY_SEEN; i++) {
        while (poll(&(struct pollfd){.fd = said[0], .events = POLLIN}, 1, 0) == 0)
            job_follow_drain(follow); /* as soon as perf knows */
        assert_int_equal(read(said[0], &pids[i], sizeof *pids), sizeof *pids);
        job_follow_seen(follow, pids[i]);
        job_follow_seen(follow, 1); /* none of it */
        assert_int_equal(write(answered[1], "x", 1), 1);
    }
    waitpid(held.pid, NULL, 0);
    take_until(follow, ENDED_COUNT, MANY_SEEN + 1, &answer);
    assert_int_equal(number(&answer, COMING), 0);
    for (int i = 0; i < MANY_SEEN; i++)
        assert_int_equal(find_ended(&answer, pids[i])[5].integer.bits, SIGKILL);
    arena_done(&answer.arena);
    job_follow_free(follow);
    for (int i = 0; i < 2; i++) {
        close(said[i]);
        close(answered[i]);
    }
}

enum { UNREAD = 3000 };

/* More than a ring has room for, all on one processor, and nobody reads. */
static void many_unread(void)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    sched_setaffinity(0, sizeof one, &one);
    for (int i = 0; i < UNREAD; i++) {
        pid_t pid = vfork(); /* a sanitized process takes long to fork */
        if (pid == 0)
            _exit(0);
        waitpid(pid, NULL, 0);
    }
    if (write(said[1], "", 1) == 1)
        for (;;)
            pause();
}

/* Processes of which no record told are counted by the time that they needed, and said to be missing. */
static void test_unseen(void **state)
{
    if (follow_missing())
        skip();
    struct job_follow *follow;
    struct answer answer;
    struct err err = {0};
    char done;
    assert_int_equal(pipe(said), 0);
    struct held held = hold(many_unread);
    assert_int_equal(job_follow_new(&follow, held.pid, NULL, &err), 0);
    let_go(&held);
    assert_int_equal(read(said[0], &done, 1), 1);
    take_until(follow, ENDED, UNREAD, &answer);
    arena_done(&answer.arena);
    take_until(follow, COMING, 0, &answer);
    assert_int_equal(number(&answer, STARTED), UNREAD + 1);
    assert_true(number(&answer, LOST) > 0);
    uint64_t unseen = number(&answer, UNSEEN), listed = number(&answer, ENDED_COUNT);
    assert_true(unseen > 0);
    assert_int_equal(unseen + listed, UNREAD);
    arena_done(&answer.arena);
    kill(held.pid, SIGKILL);
    waitpid(held.pid, NULL, 0);
    take_until(follow, ENDED, UNREAD + 1, &answer);
    assert_int_equal(number(&answer, UNSEEN), unseen);
    assert_true(number(&answer, UNCLOCKED) < 1000000);
    arena_done(&answer.arena);
    job_follow_free(follow);
    for (int i = 0; i < 2; i++)
        close(said[i]);
}

static void follow_alive(bool late)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    struct held held = hold(wait_for_signal);
    struct job_follow *follow = NULL;
    struct answer answer;
    struct err err = {0};
    if (!late)
        assert_int_equal(job_follow_new(&follow, held.pid, NULL, &err), 0);
    let_go(&held);
    if (late) {
        char path[64], text[32];
        snprintf(path, sizeof path, "/proc/%d/task/%d/children", held.pid, held.pid);
        for (size_t got = 0; got == 0; poll(NULL, 0, 1)) {
            FILE *file = fopen(path, "r");
            assert_non_null(file);
            got = fread(text, 1, sizeof text, file);
            fclose(file);
        }
        assert_int_equal(job_follow_new(&follow, held.pid, NULL, &err), 0);
    }
    take_until(follow, ALIVE_COUNT, 2, &answer);
    assert_int_equal(number(&answer, STARTED), 2);
    if (late)
        assert_int_equal(number(&answer, SINGLY), 0);
    pid_t child = child_of(&answer, held.pid);
    assert_true(child > 0);
    const struct value *row = answer.values[ALIVE_LIST].list.items;
    assert_true(row[4].integer.bits > 0);                    /* resident */
    assert_true(row[5].integer.bits >= row[4].integer.bits); /* peak */
    assert_int_equal(row[6].integer.bits, 1);                /* threads */
    arena_done(&answer.arena);
    /* the root dies; its child becomes ours and is followed on, then dies by a signal */
    assert_int_equal(job_follow_signal(follow, SIGUSR1), 0);
    waitpid(held.pid, NULL, 0);
    assert_int_equal(job_follow_signal(follow, SIGTERM), -ESRCH);
    take_until(follow, ALIVE_COUNT, 1, &answer);
    assert_non_null(find_ended(&answer, held.pid));
    assert_int_equal(find_ended(&answer, held.pid)[5].integer.bits, SIGUSR1);
    arena_done(&answer.arena);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    take_until(follow, ENDED, 2, &answer);
    assert_int_equal(number(&answer, ALIVE_COUNT), 0);
    assert_int_equal(find_ended(&answer, child)[5].integer.bits, SIGKILL);
    arena_done(&answer.arena);
    job_follow_free(follow);
    prctl(PR_SET_CHILD_SUBREAPER, 0);
}

/* What ends jobs reaches all of it. */
static void test_signal_all(void **state)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    struct held held = hold(wait_for_signal);
    struct job_follow *follow = NULL;
    struct answer answer;
    struct err err = {0};
    int status = 0;
    assert_int_equal(job_follow_new(&follow, held.pid, NULL, &err), 0);
    let_go(&held);
    take_until(follow, ALIVE_COUNT, 2, &answer);
    pid_t child = child_of(&answer, held.pid);
    arena_done(&answer.arena);
    assert_int_equal(job_follow_signal(follow, SIGSTOP), 0);
    assert_int_equal(waitpid(held.pid, &status, WUNTRACED), held.pid);
    assert_true(WIFSTOPPED(status));
    while (proc_letter(child, 0) != 'T')
        poll(NULL, 0, 1);
    assert_int_equal(job_follow_signal(follow, SIGCONT), 0);
    assert_int_equal(job_follow_signal(follow, SIGTERM), 0);
    waitpid(held.pid, NULL, 0);
    waitpid(child, &status, 0);
    assert_int_equal(status, SIGTERM);
    job_follow_free(follow);
    prctl(PR_SET_CHILD_SUBREAPER, 0);
}

static void test_alive(void **state)
{
    follow_alive(false);
}

static void test_late(void **state)
{
    follow_alive(true);
}

static void take_agents_name(int signo)
{
    prctl(PR_SET_NAME, "scry-agent");
}

static void wait_for_name(void)
{
    signal(SIGUSR1, take_agents_name);
    wait_for_signal();
}

/* Follows a process and its child, which takes the name of the agent's when it gets SIGUSR1. Orphans are ours. */
static struct job_follow *follow_two(pid_t *ret_root, pid_t *ret_child)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    struct held held = hold(wait_for_name);
    struct job_follow *follow = NULL;
    struct answer answer;
    struct err err = {0};
    assert_int_equal(job_follow_new(&follow, held.pid, NULL, &err), 0);
    let_go(&held);
    take_until(follow, ALIVE_COUNT, 2, &answer);
    assert_int_equal(number(&answer, PEAK_PROCESSES), 2);
    *ret_root = held.pid;
    *ret_child = child_of(&answer, held.pid);
    assert_true(*ret_child > 0);
    arena_done(&answer.arena);
    return follow;
}

static void follow_end(struct job_follow *follow)
{
    job_follow_free(follow);
    prctl(PR_SET_CHILD_SUBREAPER, 0);
}

/* Seen before it said what it is: a process of the agent is none of the job's from then on, nor was it one. */
static void test_agents_own(void **state)
{
    struct answer answer;
    pid_t root, child;
    struct job_follow *follow = follow_two(&root, &child);
    kill(child, SIGUSR1);
    take_until(follow, ALIVE_COUNT, 1, &answer);
    assert_int_equal(number(&answer, STARTED), 1);
    assert_int_equal(number(&answer, ENDED), 0);
    assert_int_equal(number(&answer, PEAK_PROCESSES), 1);
    assert_int_equal(number(&answer, PEAK_THREADS), 1);
    arena_done(&answer.arena);
    kill(root, SIGKILL);
    kill(child, SIGKILL);
    waitpid(root, NULL, 0);
    waitpid(child, NULL, 0);
    take_until(follow, ENDED, 1, &answer);
    assert_int_equal(number(&answer, ENDED_COUNT), 1);
    arena_done(&answer.arena);
    follow_end(follow);
}

/* The same, when the job's own one has ended already. */
static void test_agents_own_last(void **state)
{
    struct answer answer;
    pid_t root, child;
    struct job_follow *follow = follow_two(&root, &child);
    kill(root, SIGKILL);
    waitpid(root, NULL, 0);
    take_until(follow, ALIVE_COUNT, 1, &answer);
    arena_done(&answer.arena);
    kill(child, SIGUSR1);
    take_until(follow, ALIVE_COUNT, 0, &answer);
    assert_int_equal(number(&answer, STARTED), 1);
    assert_int_equal(number(&answer, PEAK_PROCESSES), 1);
    assert_int_equal(number(&answer, PEAK_THREADS), 1);
    arena_done(&answer.arena);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    follow_end(follow);
}

static void test_gone(void **state)
{
    struct job_follow *follow = NULL;
    struct err err = {0};
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    waitpid(pid, NULL, 0);
    assert_true(job_follow_new(&follow, pid, NULL, &err) < 0);
    assert_null(follow);
    assert_non_null(strstr(err.text, "cannot follow"));
}

/* The kernel drops its events of ends when nobody reads: that is the reason of each that is not known, and none is
 * taken for another's. */
static void test_dropped(void **state)
{
    struct job_follow *follow;
    struct answer answer;
    struct err err = {0};
    char done;
    int small = 4096;
    assert_int_equal(pipe(said), 0);
    struct held held = hold(many_unread);
    assert_int_equal(job_follow_new(&follow, held.pid, NULL, &err), 0);
    int fd = job_follow_exits_fd(follow);
    if (fd < 0 || follow_missing()) {
        job_follow_free(follow);
        kill(held.pid, SIGKILL);
        waitpid(held.pid, NULL, 0);
        skip();
    }
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    let_go(&held);
    assert_int_equal(read(said[0], &done, 1), 1);
    take_until(follow, COMING, 0, &answer);
    size_t count = number(&answer, ENDED_COUNT), unknown = 0;
    for (size_t i = 0; i < count; i++) {
        const struct value *row = answer.values[ENDED_LIST].list.items + i * ENDED_MEMBERS;
        static const char why[] = "the kernel dropped";
        assert_true(row[5].integer.negative || row[5].integer.bits == 0);
        assert_int_equal(row[5].integer.negative, row[9].text.len == 0);
        if (row[5].integer.negative)
            assert_non_null(memmem(row[10].text.ptr, row[10].text.len, why, strlen(why)));
        unknown += row[5].integer.negative;
    }
    assert_true(unknown > 0); /* all of them where others end, too */
    arena_done(&answer.arena);
    kill(held.pid, SIGKILL);
    waitpid(held.pid, NULL, 0);
    job_follow_free(follow);
    for (int i = 0; i < 2; i++)
        close(said[i]);
}

static bool is_pid(const void *ctx, pid_t pid)
{
    return pid == *(const pid_t *)ctx;
}

static bool is_of_job(pid_t orphan, const struct job_tree_root *root)
{
    struct job_tree tree;
    bool ours = false;
    job_tree_read(&tree, "scry-agent");
    job_tree_mark(&tree, is_pid, &root->pid, root);
    for (size_t i = 0; i < tree.count; i++)
        ours |= tree.list[i].pid == orphan && tree.list[i].ours;
    job_tree_done(&tree);
    return ours;
}

/* Whoever its parent is now: the job is in its environment. */
static void test_orphans(void **state)
{
    struct proc_stat stat;
    pid_t root_pid = fork();
    if (root_pid == 0)
        for (;;)
            pause();
    char text[32] = "";
    FILE *file = popen("SCRY_JOB=/a/job sh -c 'sleep 1000 >/dev/null 2>&1 & echo $!'", "r");
    assert_non_null(file);
    assert_non_null(fgets(text, sizeof text, file));
    assert_int_equal(pclose(file), 0);
    pid_t orphan = atoi(text);
    assert_int_equal(proc_stat_read(root_pid, 0, &stat), 0);
    struct job_tree_root root = {.pid = root_pid, .ticks = stat.start_ticks, .dir = "/a/job"};
    for (int i = 0; i < 10000 && !is_of_job(orphan, &root); i++)
        poll(NULL, 0, 1); /* while it executes sleep it has no environment */
    assert_true(is_of_job(orphan, &root));
    root.dir = "/a/jo";
    assert_false(is_of_job(orphan, &root));
    root.dir = NULL;
    assert_false(is_of_job(orphan, &root));
    root = (struct job_tree_root){.pid = root_pid, .ticks = stat.start_ticks + 1000000, .dir = "/a/job"};
    assert_false(is_of_job(orphan, &root)); /* it is older than the job */
    kill(orphan, SIGKILL);
    kill(root_pid, SIGKILL);
    waitpid(root_pid, NULL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_short_processes),
        cmocka_unit_test(test_alive),
        cmocka_unit_test(test_signal_all),
        cmocka_unit_test(test_late),
        cmocka_unit_test(test_seen),
        cmocka_unit_test(test_unseen),
        cmocka_unit_test(test_agents_own),
        cmocka_unit_test(test_agents_own_last),
        cmocka_unit_test(test_gone),
        cmocka_unit_test(test_dropped),
        cmocka_unit_test(test_orphans),
    };
    return cmocka_run_group_tests_name("job_follow", tests, NULL, NULL);
}
