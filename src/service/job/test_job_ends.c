/* SPDX-License-Identifier: Apache-2.0 */
/* How the processes of a job ended, and what they were: of real ones. */
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

static int said[2], answered[2];

static void wait_only(void)
{
    for (;;)
        pause();
}

static int open_files(void)
{
    int count = 0;
    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

/* One that has not ended yet holds those behind it back, not for ever; nothing stays open. */
static void test_ended_list(void **state)
{
    if (missing_statuses())
        skip();
    struct job_ended_list list = {0};
    struct held held = hold(wait_only);
    int files = open_files();
    siginfo_t info;
    struct job_ended first = {
        .pid = 1, .end_ns = clock_now_ns() + UINT64_C(100) * NS_PER_SECOND, .pidfd = proc_pidfd(held.pid)};
    struct job_ended second = {.pid = 2, .end_ns = clock_now_ns(), .pidfd = -1};
    struct job_ended stale = {
        .pid = 3, .end_ns = clock_now_ns() - UINT64_C(2) * NS_PER_SECOND, .pidfd = proc_pidfd(held.pid)};
    job_ended_add(&list, &first);
    job_ended_add(&list, &second);
    job_ended_add(&list, &stale);
    assert_int_equal(job_ended_known(&list), 0);
    kill(held.pid, SIGKILL);
    assert_int_equal(waitid(P_PID, (id_t)held.pid, &info, WEXITED | WNOWAIT), 0);
    assert_int_equal(job_ended_known(&list), 3);
    assert_int_equal(job_ended_at(&list, 0)->status, SIGKILL);
    assert_int_equal(job_ended_at(&list, 1)->status, JOB_ENDED_STATUS_UNKNOWN);
    assert_int_equal(job_ended_at(&list, 2)->status, JOB_ENDED_STATUS_UNKNOWN);
    waitpid(held.pid, NULL, 0);
    close(held.go);
    held = hold(wait_only);
    assert_int_equal(list.pidfds, 0);
    /* what is forgotten, told or left at the end is closed */
    first.pidfd = proc_pidfd(held.pid);
    job_ended_add(&list, &first);
    for (int i = 0; i < JOB_ENDED_KEPT; i++)
        job_ended_add(&list, &second);
    assert_int_equal(list.forgotten, 4);
    assert_int_equal(job_ended_known(&list), JOB_ENDED_KEPT + 4);
    for (int i = 0; i < 2; i++) {
        first.pidfd = proc_pidfd(held.pid);
        job_ended_add(&list, &first);
    }
    assert_int_equal(list.pidfds, 2);
    job_ended_forget(&list, list.next + 1);
    assert_int_equal(list.pidfds, 2);
    job_ended_forget(&list, list.next - 1);
    assert_int_equal(list.pidfds, 1);
    job_ended_done(&list);
    assert_int_equal(open_files(), files);
    kill(held.pid, SIGKILL);
    waitpid(held.pid, NULL, 0);
    close(held.go);
}

/* Nobody has heard of these before their ends: they were not seen by a sample, and have no agent. */
static void many_ways(void)
{
    for (int i = 0; i < 40; i++) {
        if (fork() == 0) { /* with a child each that is gone before anybody could look */
            pid_t pid = fork();
            if (pid == 0)
                raise(i % 2 ? SIGKILL : SIGTERM);
            waitpid(pid, NULL, 0);
            _exit(i);
        }
        wait(NULL);
    }
    _exit(3);
}

static void test_all_statuses(void **state)
{
    struct err err = {0};
    int heard = exits_open(&err);
    if (heard < 0 || follow_missing()) {
        print_message("SKIP: %s\n", heard < 0 ? err.text : follow_missing());
        skip();
    }
    close(heard);
    struct held held = hold(many_ways);
    struct job_follow *follow;
    struct answer answer;
    int signals[2] = {0}, codes[40] = {0};
    assert_int_equal(job_follow_new(&follow, held.pid, NULL, &err), 0);
    let_go(&held);
    waitpid(held.pid, NULL, 0);
    take_until(follow, ENDED_COUNT, 81, &answer);
    for (size_t i = 0; i < 81; i++) {
        const struct value *row = answer.values[ENDED_LIST].list.items + i * ENDED_MEMBERS;
        int status = (int)row[5].integer.bits;
        assert_false(row[5].integer.negative);
        assert_true(row[9].text.len > 0);
        if (WIFSIGNALED(status))
            signals[WTERMSIG(status) == SIGKILL]++;
        else
            codes[WEXITSTATUS(status)]++;
    }
    assert_int_equal(signals[0], 20);
    assert_int_equal(signals[1], 20);
    for (int i = 0; i < 40; i++)
        assert_int_equal(codes[i], i == 3 ? 2 : 1);
    arena_done(&answer.arena);
    job_follow_free(follow);
}

static struct job_command *command_made(const char *text)
{
    struct job_command *command =
        job_command_new(span_str("/somewhere"), span_of(text, strlen(text) + 1), true, clock_now_ns());
    assert_non_null(command);
    command->said = true;
    return command;
}

static bool command_is(const struct value *command, const char *text)
{
    const struct value *list = &command[2];
    return command[0].integer.bits == 1 && !command[0].integer.negative && span_is(command[1].text, "/somewhere") &&
           list->list.count == 1 && span_is(list->list.items[0].text, text);
}

/* Says when it has started a child and another program comes, waits each time. */
static void child_and_exec(void)
{
    pid_t pid = fork();
    char go;
    if (pid == 0 && write(said[1], "c", 1) == 1)
        _exit(read(answered[0], &go, 1) == 1);
    if (waitpid(pid, NULL, 0) == pid && write(said[1], "e", 1) == 1 && read(answered[0], &go, 1) == 1)
        execl("/bin/true", "true", (char *)NULL);
    _exit(9);
}

static void until_said(void)
{
    char c;
    assert_int_equal(read(said[0], &c, 1), 1);
}

/* What a process reported, even late, is its own and that of children that execute nothing; not of the program after.
 */
static void test_commands(void **state)
{
    if (follow_missing())
        skip();
    struct job_follow *follow;
    struct answer answer;
    struct err err = {0};
    assert_int_equal(pipe(said), 0);
    assert_int_equal(pipe(answered), 0);
    struct held held = hold(child_and_exec);
    assert_int_equal(job_follow_new(&follow, held.pid, NULL, &err), 0);
    struct job_command *first = command_made("first");
    let_go(&held);
    until_said();
    /* read late: the child was there before */
    job_follow_drain(follow);
    job_follow_command(follow, held.pid, first);
    struct job_command *other = command_made("other");
    job_follow_command(follow, 1, other);        /* none of it, */
    job_follow_command(follow, held.pid, other); /* nor this: it has said what it is */
    assert_int_equal(write(answered[1], "x", 1), 1);
    until_said();
    take_until(follow, ENDED_COUNT, 1, &answer);
    assert_true(command_is(answer.values[ENDED_LIST].list.items + 11, "first"));
    assert_true(command_is(answer.values[ALIVE_LIST].list.items + 9, "first"));
    arena_done(&answer.arena);
    take(follow, 0, &answer); /* told once */
    assert_true(answer.values[ALIVE_LIST].list.items[9].integer.negative);
    arena_done(&answer.arena);
    assert_int_equal(write(answered[1], "x", 1), 1);
    waitpid(held.pid, NULL, 0);
    take_until(follow, ENDED_COUNT, 2, &answer);
    assert_true(find_ended(&answer, held.pid)[11].integer.negative);
    arena_done(&answer.arena);
    /* of the program before: no; and what is older than the process */
    job_follow_command(follow, held.pid, other);
    take(follow, 0, &answer);
    assert_true(find_ended(&answer, held.pid)[11].integer.negative);
    arena_done(&answer.arena);
    job_follow_free(follow);
    assert_int_equal(first->users, 1); /* ours */
    assert_int_equal(other->users, 1);
    job_command_drop(first);
    job_command_drop(other);
    for (int i = 0; i < 2; i++) {
        close(said[i]);
        close(answered[i]);
    }
}

/* One whose status an event is to tell holds those behind it back, not for ever; an event of before its end is none. */
static void test_awaited(void **state)
{
    struct job_ended_list list = {0};
    uint64_t now = clock_now_ns(), far = now + UINT64_C(100) * NS_PER_SECOND;
    const struct job_ended first = {.pid = 1, .end_ns = far, .event_ns = far, .pidfd = -1, .awaits = true};
    const struct job_ended second = {
        .pid = 2, .end_ns = now, .pidfd = -1, .status = SIGTERM, .source = JOB_ENDED_BY_EVENT};
    const struct job_ended stale = {.pid = 3, .end_ns = now - UINT64_C(4) * NS_PER_SECOND, .pidfd = -1, .awaits = true};
    struct exit_event event = {.pid = 1, .tid = 1, .status = 7 << 8, .time_ns = now};
    /* a thread that ended by itself is the last, and what the one that ended all has told came too early */
    struct job_ended_list both = {0};
    job_ended_add(&both, &first);
    event.time_ns = far - 1000;
    job_ended_event(&both, &event);
    assert_int_equal(job_ended_known(&both), 0);
    job_ended_event(&both, &(struct exit_event){.pid = 1, .tid = 2, .status = 0, .time_ns = far});
    assert_int_equal(job_ended_at(&both, 0)->status, 7 << 8);
    job_ended_done(&both);
    event.time_ns = now;
    job_ended_add(&list, &first);
    job_ended_add(&list, &second);
    job_ended_add(&list, &stale);
    job_ended_event(&list, &event);
    assert_int_equal(job_ended_known(&list), 0);
    event.time_ns = far;
    job_ended_event(&list, &event);
    assert_int_equal(job_ended_known(&list), 3);
    assert_int_equal(job_ended_at(&list, 0)->status, 7 << 8);
    assert_int_equal(job_ended_at(&list, 1)->status, SIGTERM);
    assert_int_equal(job_ended_at(&list, 2)->source, JOB_ENDED_NOT_KNOWN);
    assert_int_equal(list.in_vain, 1);
    assert_int_equal(list.awaiting, 0);
    job_ended_done(&list);
}

/* A thread that ends by itself while another one ends all of them. */
static void test_thread_beside_the_end(void **state)
{
    struct job_exits exits = {.fd = -1};
    const uint64_t second = NS_PER_SECOND, now = 100 * second;
    const struct exit_event told[] = {
        {.pid = 7, .tid = 7, .status = 5 << 8, .time_ns = now},
        {.pid = 7, .tid = 8, .status = 0, .time_ns = now + 1000},
        {.pid = 8, .tid = 9, .status = 3 << 8, .time_ns = now},
        {.pid = 8, .tid = 8, .status = 0, .time_ns = now + 2 * second},
        {.pid = 9, .tid = 10, .status = 0, .time_ns = now},
        {.pid = 9, .tid = 9, .status = SIGTERM, .time_ns = now + 1},
        {.pid = 10, .tid = 10, .status = 6 << 8, .time_ns = now + 1},
    };
    exits.list = malloc(sizeof told);
    assert_non_null(exits.list);
    memcpy(exits.list, told, sizeof told);
    exits.count = exits.room = sizeof told / sizeof *told;
    job_exits_read(&exits);
    assert_int_equal(exits.count, 4);
    assert_int_equal(job_exits_find(&exits, 7)->status, 5 << 8);
    assert_int_equal(job_exits_find(&exits, 7)->time_ns, now + 1000);
    assert_int_equal(job_exits_find(&exits, 8)->status, 0);
    assert_int_equal(job_exits_find(&exits, 9)->status, SIGTERM);
    assert_int_equal(job_exits_find(&exits, 10)->status, 6 << 8);
    job_exits_close(&exits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ended_list),
        cmocka_unit_test(test_awaited),
        cmocka_unit_test(test_thread_beside_the_end),
        cmocka_unit_test(test_all_statuses),
        cmocka_unit_test(test_commands),
    };
    return cmocka_run_group_tests_name("job_ends", tests, NULL, NULL);
}
