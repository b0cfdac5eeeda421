/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/mpi/waiting.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/system/proc_file.h"
#include "jobdir/mpi/thread_wait.h"
#include "jobdir/text/text.h"

static const struct {
    const char *word, *text;
} kinds[WAITING_KINDS] = {
    [WAITING_NOT] = {"", ""},
    [WAITING_LOCK] = {"lock", "a lock"},
    [WAITING_CONDITION] = {"condition", "a condition"},
    [WAITING_THREAD] = {"thread", "the end of a thread"},
    [WAITING_CHILD] = {"child", "the end of a child"},
    [WAITING_SLEEP] = {"sleep", "sleep"},
    [WAITING_PIPE] = {"pipe", "a pipe"},
    [WAITING_SOCKET] = {"socket", "a connection"},
    [WAITING_DISK] = {"disk", "a disk or file system"},
    [WAITING_TERMINAL] = {"terminal", "a terminal"},
    [WAITING_EVENTS] = {"events", "events"},
    [WAITING_SIGNAL] = {"signal", "a signal"},
    [WAITING_MESSAGE] = {"message", "a message queue"},
    [WAITING_MPI] = {"mpi", "MPI"},
    [WAITING_OTHER] = {"other", "something else"},
};

const char *waiting_word(enum waiting_for what)
{
    return kinds[what].word;
}

const char *waiting_text(enum waiting_for what)
{
    return kinds[what].text;
}

enum waiting_for waiting_of_word(const char *word)
{
    for (size_t i = 1; word && i < WAITING_KINDS; i++)
        if (strcmp(kinds[i].word, word) == 0)
            return (enum waiting_for)i;
    return WAITING_NOT;
}

static const struct blocking_call calls[] = {
    {SYS_read, "read", "reads from", ABOUT_FD, WAITING_OTHER},
    {SYS_pread64, "pread64", "reads from", ABOUT_FD, WAITING_OTHER},
    {SYS_readv, "readv", "reads from", ABOUT_FD, WAITING_OTHER},
    {SYS_preadv, "preadv", "reads from", ABOUT_FD, WAITING_OTHER},
    {SYS_write, "write", "writes to", ABOUT_FD, WAITING_OTHER},
    {SYS_pwrite64, "pwrite64", "writes to", ABOUT_FD, WAITING_OTHER},
    {SYS_writev, "writev", "writes to", ABOUT_FD, WAITING_OTHER},
    {SYS_pwritev, "pwritev", "writes to", ABOUT_FD, WAITING_OTHER},
    {SYS_fsync, "fsync", "waits until the disk has", ABOUT_FD, WAITING_DISK},
    {SYS_fdatasync, "fdatasync", "waits until the disk has", ABOUT_FD, WAITING_DISK},
    {SYS_ftruncate, "ftruncate", "cuts", ABOUT_FD, WAITING_DISK},
    {SYS_fallocate, "fallocate", "makes room for", ABOUT_FD, WAITING_DISK},
    {SYS_flock, "flock", "waits for the lock (flock) of", ABOUT_FD, WAITING_LOCK},
    {SYS_fcntl, "fcntl", "waits for a lock (fcntl) in", ABOUT_LOCK, WAITING_LOCK},
    {SYS_ioctl, "ioctl", "waits in ioctl of", ABOUT_FD, WAITING_OTHER},
    {SYS_recvfrom, "recvfrom", "receives from", ABOUT_FD, WAITING_OTHER},
    {SYS_recvmsg, "recvmsg", "receives from", ABOUT_FD, WAITING_OTHER},
    {SYS_sendto, "sendto", "sends to", ABOUT_FD, WAITING_OTHER},
    {SYS_sendmsg, "sendmsg", "sends to", ABOUT_FD, WAITING_OTHER},
    {SYS_accept, "accept", "waits for a client at", ABOUT_FD, WAITING_EVENTS},
    {SYS_accept4, "accept4", "waits for a client at", ABOUT_FD, WAITING_EVENTS},
    {SYS_connect, "connect", "connects", ABOUT_FD, WAITING_SOCKET},
    {SYS_openat, "openat", "opens", ABOUT_PATH, WAITING_DISK},
    {SYS_close, "close", "closes", ABOUT_FD, WAITING_OTHER},
    {SYS_futex, "futex", "waits", ABOUT_FUTEX, WAITING_CONDITION},
    {SYS_wait4, "wait4", "waits for the end of", ABOUT_CHILD, WAITING_CHILD},
    {SYS_waitid, "waitid", "waits for the end of", ABOUT_CHILD2, WAITING_CHILD},
#ifdef SYS_poll
    {SYS_poll, "poll", "polls", ABOUT_POLL, WAITING_EVENTS},
    {SYS_select, "select", "waits in select", ABOUT_SELECT, WAITING_EVENTS},
    {SYS_epoll_wait, "epoll_wait", "waits for events of", ABOUT_EPOLL, WAITING_EVENTS},
    {SYS_pause, "pause", "waits for a signal", ABOUT_NOTHING, WAITING_SIGNAL},
#endif
    {SYS_ppoll, "ppoll", "polls", ABOUT_POLL, WAITING_EVENTS},
    {SYS_pselect6, "pselect6", "waits in select", ABOUT_SELECT, WAITING_EVENTS},
    {SYS_epoll_pwait, "epoll_pwait", "waits for events of", ABOUT_EPOLL, WAITING_EVENTS},
    {SYS_nanosleep, "nanosleep", "sleeps", ABOUT_SLEEP, WAITING_SLEEP},
    {SYS_clock_nanosleep, "clock_nanosleep", "sleeps", ABOUT_SLEEP, WAITING_SLEEP},
    {SYS_rt_sigsuspend, "rt_sigsuspend", "waits for a signal", ABOUT_SIGNAL, WAITING_SIGNAL},
    {SYS_rt_sigtimedwait, "rt_sigtimedwait", "waits for a signal", ABOUT_NOTHING, WAITING_SIGNAL},
    {SYS_msgrcv, "msgrcv", "receives from a System V message queue", ABOUT_NOTHING, WAITING_MESSAGE},
    {SYS_msgsnd, "msgsnd", "sends to a System V message queue", ABOUT_NOTHING, WAITING_MESSAGE},
    {SYS_semtimedop, "semtimedop", "waits for a System V semaphore", ABOUT_SEMAPHORE, WAITING_CONDITION},
    {SYS_semop, "semop", "waits for a System V semaphore", ABOUT_SEMAPHORE, WAITING_CONDITION},
    {SYS_mq_timedsend, "mq_timedsend", "sends to the message queue", ABOUT_FD, WAITING_MESSAGE},
    {SYS_mq_timedreceive, "mq_timedreceive", "receives from the message queue", ABOUT_FD, WAITING_MESSAGE},
    {SYS_io_getevents, "io_getevents", "waits for asynchronous I/O", ABOUT_NOTHING, WAITING_DISK},
};

const struct blocking_call *blocking_call_of(long number)
{
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (calls[i].number == number)
            return &calls[i];
    return NULL;
}

bool module_is_on_the_way(const char *path)
{
    static const char *const names[] = {"libc.so",   "libc-2",   "libpthread", "ld-linux", "ld-2", "libstdc++.so",
                                        "libc++.so", "libgcc_s", "libscry-",   "[vdso]",   NULL};
    return text_begins_with_one(text_base(path), names);
}

bool function_is_start(const char *name)
{
    static const char *const starts[] = {"_start",   "__libc_start_", "start_thread", "clone3",
                                         "__clone3", "thread_start",  "__clone",      NULL};
    return text_begins_with_one(name, starts);
}

/* ---- of a thread ---- */

/* Where /proc/PID/task/TID/syscall may not be read: by the kernel's function in which it waits, by the beginning of its name. */
static enum waiting_for by_kernel(const char *name)
{
    static const struct {
        const char *start;
        enum waiting_for what;
    } functions[] = {
        {"futex", WAITING_CONDITION},
        {"hrtimer_nanosleep", WAITING_SLEEP},
        {"do_nanosleep", WAITING_SLEEP},
        {"pipe_", WAITING_PIPE},
        {"anon_pipe_", WAITING_PIPE},
        {"do_wait", WAITING_CHILD},
        {"wait_for_partner", WAITING_PIPE},
        {"ep_poll", WAITING_EVENTS},
        {"poll_schedule", WAITING_EVENTS},
        {"do_select", WAITING_EVENTS},
        {"do_poll", WAITING_EVENTS},
        {"unix_stream", WAITING_SOCKET},
        {"sk_", WAITING_SOCKET},
        {"tcp_", WAITING_SOCKET},
        {"inet_", WAITING_SOCKET},
        {"skb_", WAITING_SOCKET},
        {"n_tty", WAITING_TERMINAL},
        {"io_schedule", WAITING_DISK},
        {"folio_wait", WAITING_DISK},
        {"rpc_", WAITING_DISK},
        {"nfs_", WAITING_DISK},
        {"locks_lock", WAITING_LOCK},
        {"flock_lock", WAITING_LOCK},
        {"sigsuspend", WAITING_SIGNAL},
        {"do_sigtimedwait", WAITING_SIGNAL},
        {"do_msg", WAITING_MESSAGE},
        {"do_semtimedop", WAITING_CONDITION},
    };
    name += strncmp(name, "__", 2) == 0 ? 2 : 0;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (strncmp(name, functions[i].start, strlen(functions[i].start)) == 0)
            return functions[i].what;
    return *name && strcmp(name, "0") != 0 ? WAITING_OTHER : WAITING_NOT;
}

/* No file system is asked about the file: that may wait, too. */
static enum waiting_for of_fd(pid_t pid, int fd)
{
    char path[PROC_PATH_SIZE], target[PATH_MAX];
    struct statx status;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
    ssize_t len = readlink(path, target, sizeof target - 1);
    target[len < 0 ? 0 : len] = '\0';
    if (strncmp(target, "pipe:", 5) == 0)
        return WAITING_PIPE;
    if (strncmp(target, "socket:", 7) == 0)
        return WAITING_SOCKET;
    if (strncmp(target, "anon_inode:", 11) == 0)
        return WAITING_EVENTS;
    if (strncmp(target, "/dev/tty", 8) == 0 || strncmp(target, "/dev/pts/", 9) == 0)
        return WAITING_TERMINAL;
    if (target[0] != '/' || statx(AT_FDCWD, path, AT_STATX_DONT_SYNC, STATX_TYPE, &status) < 0)
        return WAITING_OTHER;
    return S_ISFIFO(status.stx_mode) ? WAITING_PIPE : S_ISCHR(status.stx_mode) ? WAITING_OTHER : WAITING_DISK;
}

/* Of one descriptor it is what that is: so programs wait with a limit. */
static enum waiting_for of_poll(pid_t pid, const unsigned long long *args)
{
    struct pollfd only;
    if (args[1] != 1)
        return args[1] ? WAITING_EVENTS : WAITING_SLEEP;
    return proc_peek(pid, args[0], &only, sizeof only) == sizeof only ? of_fd(pid, only.fd) : WAITING_EVENTS;
}

static enum waiting_for of_futex(pid_t pid, const char *text)
{
    struct thread_wait wait = thread_wait_of(pid, text);
    return wait.kind == THREAD_WAITS_OWNER || wait.other ? WAITING_LOCK
           : wait.kind == THREAD_WAITS_END               ? WAITING_THREAD
                                                         : WAITING_CONDITION;
}

static enum waiting_for of_call(pid_t pid, pid_t tid, const struct blocking_call *call, const unsigned long long *args,
                                const char *text)
{
    char name[64];
    switch (call->about) {
    case ABOUT_FD:
        return call->what == WAITING_OTHER ? of_fd(pid, (int)args[0]) : call->what;
    case ABOUT_PATH: /* of a FIFO until its other end is open */
        if (proc_file_read(pid, tid, "wchan", name, sizeof name, NULL) == 0 && by_kernel(name) == WAITING_PIPE)
            return WAITING_PIPE;
        return call->what;
    case ABOUT_POLL:
        return of_poll(pid, args);
    case ABOUT_SELECT:
        return args[1] || args[2] || args[3] ? call->what : WAITING_SLEEP;
    case ABOUT_FUTEX:
        return of_futex(pid, text);
    default:
        return call->what;
    }
}

bool waiting_look(pid_t pid, pid_t tid, enum waiting_for *ret_what, uint64_t *ret_sp, uint64_t *ret_pc)
{
    char text[256];
    long number = -1;
    unsigned long long args[6] = {0}, sp = 0, pc = 0;
    *ret_what = WAITING_NOT;
    *ret_sp = *ret_pc = 0;
    int code = proc_file_read(pid, tid, "syscall", text, sizeof text, NULL);
    if (code == 0 && strncmp(text, "running", 7) == 0)
        return true;
    if (code == -ESRCH)
        return false;
    char letter = proc_letter(pid, tid);
    if (letter != 'S' && letter != 'D')
        return letter && letter != 'Z' && letter != 'X';
    if (code < 0) {
        if (proc_file_read(pid, tid, "wchan", text, sizeof text, NULL) == 0)
            *ret_what = by_kernel(text);
        return true;
    }
    int count = sscanf(text, "%ld %llx %llx %llx %llx %llx %llx %llx %llx", &number, &args[0], &args[1], &args[2],
                       &args[3], &args[4], &args[5], &sp, &pc);
    if (count == 3) { /* -1: not in a call; a page of its memory is read */
        sp = args[0];
        pc = args[1];
    }
    const struct blocking_call *call = count == 9 ? blocking_call_of(number) : NULL;
    *ret_what = call ? of_call(pid, tid, call, args, text) : letter == 'D' ? WAITING_DISK : WAITING_OTHER;
    if (*ret_what == WAITING_OTHER && letter == 'D')
        *ret_what = WAITING_DISK;
    *ret_sp = sp;
    *ret_pc = pc;
    return true;
}
