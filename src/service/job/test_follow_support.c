/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/system/clock.h"
#include "probe/follow.h"
#include "probe/proc.h"
#include "service/job/test_follow_support.h"

struct held hold(void (*work)(void))
{
    int ends[2];
    char go;
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* not to be left behind by a test that failed */
        close(ends[1]);
        if (read(ends[0], &go, 1) == 1)
            work();
        _exit(0);
    }
    close(ends[0]);
    return (struct held){pid, ends[1]};
}

void let_go(struct held *held)
{
    assert_int_equal(write(held->go, "x", 1), 1);
    close(held->go);
}

void take(struct job_follow *follow, uint64_t cursor, struct answer *answer)
{
    struct buf text = BUF_INIT;
    struct err err = {0};
    size_t count;
    answer->arena = ARENA_INIT;
    job_follow_sample(follow);
    job_follow_print(follow, cursor, &text);
    assert_false(text.failed);
    char *copy = arena_dup(&answer->arena, text.data, text.len);
    assert_int_equal(values_parse(&answer->arena, span_of(copy, text.len), &answer->values, &count, &err), 0);
    assert_int_equal(count, MEMBERS);
    assert_int_equal(answer->values[ENDED_LIST].list.count, ENDED_MEMBERS * answer->values[ENDED_COUNT].integer.bits);
    assert_int_equal(answer->values[ALIVE_LIST].list.count, ALIVE_MEMBERS * answer->values[ALIVE_COUNT].integer.bits);
    buf_done(&text);
}

uint64_t number(const struct answer *answer, int member)
{
    return answer->values[member].integer.bits;
}

const struct value *find_ended(const struct answer *answer, pid_t pid)
{
    const struct value *list = answer->values[ENDED_LIST].list.items;
    for (size_t i = 0; i < number(answer, ENDED_COUNT); i++)
        if (list[i * ENDED_MEMBERS].integer.bits == (uint64_t)pid)
            return list + i * ENDED_MEMBERS;
    return NULL;
}

void take_until(struct job_follow *follow, int member, uint64_t wanted, struct answer *answer)
{
    uint64_t end = clock_now_ns() + UINT64_C(20) * NS_PER_SECOND;
    for (;;) {
        take(follow, 0, answer);
        if (number(answer, member) == wanted)
            return;
        assert_true(clock_now_ns() < end);
        arena_done(&answer->arena);
        poll(NULL, 0, 1);
    }
}

bool missing_statuses(void)
{
    int status, pidfd = proc_pidfd(getpid());
    bool missing = proc_pidfd_exit_status(pidfd, &status) == -ENOTSUP;
    close(pidfd);
    if (missing)
        print_message("# SKIP: PIDFD_GET_INFO does not tell exit statuses before Linux 6.15\n");
    return missing || follow_missing();
}
