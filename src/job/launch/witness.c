/* SPDX-License-Identifier: Apache-2.0 */
#include "job/launch/witness.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/system/pause.h"
#include "base/system/process.h"
#include "base/system/wait_world.h"
#include "job/launch/launch.h"
#include "shm/waits.h"

/* A question: has this signal reached you, too? The answer is a byte. Or, without a signal: whom to wake with (0:
 * nobody); without an answer. */
struct question {
    int signo, code;
    pid_t sender, wake_with;
};

/* ---- the witness ---- */

static bool take_same(const struct question *question)
{
    const struct timespec now = {0};
    siginfo_t info;
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, question->signo);
    while (sigtimedwait(&one, &info, &now) > 0) /* removes earlier ones, too */
        if (info.si_code == question->code && info.si_pid == question->sender)
            return true;
    return false;
}

static _Noreturn void serve(int fd, pid_t supervisor)
{
    pid_t wake_with = 0;
    for (;;) {
        struct question question;
        struct pollfd input = {.fd = fd, .events = POLLIN};
        if (wake_with && !waits_is_stopped(wait_look(wake_with).state)) {
            pause_at("witness.wake");
            kill(supervisor, SIGCONT);
            wake_with = 0;
        }
        if (poll(&input, 1, wake_with ? WITNESS_WAKE_MS : -1) <= 0)
            continue;
        if (read(fd, &question, sizeof question) != sizeof question)
            _exit(0); /* scry run has ended */
        if (!question.signo) {
            wake_with = question.wake_with;
            continue;
        }
        char answer = take_same(&question);
        if (write(fd, &answer, 1) != 1)
            _exit(0);
    }
}

/* ---- scry run ---- */

int witness_start(struct witness *ret_witness)
{
    int ends[2];
    *ret_witness = (struct witness){.fd = -1};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return -errno;
    pid_t supervisor = getpid(), pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* also while it is stopped */
        if (getppid() != supervisor)
            _exit(0);
        serve(worker_become(WITNESS_PROCESS_NAME, ends[1]), supervisor);
    }
    int code = pid < 0 ? -errno : 0;
    close(ends[1]);
    if (pid < 0)
        close(ends[0]);
    else
        *ret_witness = (struct witness){.pid = pid, .fd = ends[0]};
    return code;
}

void witness_end(struct witness *witness)
{
    if (!witness->pid)
        return;
    close(witness->fd);
    kill(witness->pid, SIGKILL);
    while (waitpid(witness->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    *witness = (struct witness){.fd = -1};
}

static bool ask(const struct witness *witness, const struct question *question)
{
    return witness->pid && send(witness->fd, question, sizeof *question, MSG_NOSIGNAL | MSG_DONTWAIT) > 0;
}

static bool answered(const struct witness *witness, int timeout_ms, char *ret_answer)
{
    struct pollfd input = {.fd = witness->fd, .events = POLLIN};
    return poll(&input, 1, timeout_ms) > 0 && recv(witness->fd, ret_answer, 1, MSG_DONTWAIT) == 1;
}

/* The whole group was stopped, and only scry run was continued. Do this only if needed: SIGCONT removes pending stop
 * signals, and hides the group's next one unless that is asked for at once. */
static void wake(const struct witness *witness)
{
    if (!waits_is_stopped(wait_look(witness->pid).state))
        return;
    kill(witness->pid, SIGCONT);
    ask(witness, &(struct question){.signo = SIGCONT, .code = SI_USER, .sender = getpid()});
}

bool witness_had(const struct witness *witness, const struct signalfd_siginfo *info)
{
    struct question question = {.signo = (int)info->ssi_signo, .code = info->ssi_code, .sender = (pid_t)info->ssi_pid};
    char answer = 0;
    while (recv(witness->fd, &answer, 1, MSG_DONTWAIT) > 0) /* late answers */
        ;
    if (!ask(witness, &question))
        return false;
    if (answered(witness, WITNESS_STOPPED_MS, &answer))
        return answer != 0;
    wake(witness);
    return answered(witness, WITNESS_ANSWER_MS, &answer) && answer != 0;
}

void witness_wake_with(const struct witness *witness, pid_t pid)
{
    ask(witness, &(struct question){.wake_with = pid});
}

void witness_wake_no_more(const struct witness *witness)
{
    ask(witness, &(struct question){0});
}
