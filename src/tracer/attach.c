/* SPDX-License-Identifier: Apache-2.0 */
/* Attaching to processes and letting them go as if they had never been touched. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utlist.h>

#include "base/data/cleanup.h"
#include "base/system/file.h"
#include "base/system/proc_file.h"
#include "tracer/tracee.h"

static long attach_options(void)
{
    return PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC | PTRACE_O_TRACEEXIT |
           PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEVFORKDONE;
}

bool attach_shares_memory(pid_t parent, pid_t child)
{
    return syscall(SYS_kcmp, parent, child, KCMP_VM, 0, 0) == 0;
}

static int attach_explain(pid_t pid, int code, struct err *err)
{
    if (code != -EPERM && code != -EACCES)
        return err_errno(err, code, "process %d cannot be traced", pid);
    long tracer = proc_status_number(pid, 0, "TracerPid");
    if (tracer > 0) {
        char comm[64];
        proc_comm((pid_t)tracer, 0, comm, sizeof comm);
        return err_set(err, -EPERM, "process %d is traced by %s, pid %ld: end that first", pid,
                       *comm ? comm : "somebody", tracer);
    }
    _cleanup_(freep) char *scope = NULL;
    size_t len;
    long uid = proc_status_number(pid, 0, "Uid");
    if (uid >= 0 && (uid_t)uid != geteuid())
        return err_set(err, -EPERM, "process %d belongs to another user (uid %ld)", pid, uid);
    if (file_read("/proc/sys/kernel/yama/ptrace_scope", &scope, &len) == 0 && len && scope[0] != '0')
        return err_set(err, -EPERM,
                       "the kernel forbids tracing process %d (kernel.yama.ptrace_scope is %c): start it by scry run, "
                       "or have that set to 0",
                       pid, scope[0]);
    return err_set(err, -EPERM, "the kernel forbids tracing process %d (it is protected, or a kernel thread)", pid);
}

bool attach_is_traced(pid_t tid)
{
    return proc_status_number(tid, 0, "TracerPid") == getpid();
}

static int seize_thread(struct process *process, pid_t tid)
{
    if (ptrace(PTRACE_SEIZE, tid, NULL, (void *)attach_options()) < 0) {
        int code = -errno;
        if (code != -EPERM)
            return code;
        char state = proc_letter(tid, 0);
        if (!state || strchr("ZX", state))
            return -ESRCH; /* the kernel says EPERM for the dead */
        if (!attach_is_traced(tid))
            return code;
        struct thread *thread = thread_new(process, tid); /* its status will come, or is waiting as an unknown one */
        if (thread)
            thread->fresh = true;
        return thread ? 1 : -ENOMEM;
    }
    return thread_new(process, tid) ? 1 : -ENOMEM;
}

/* Seizes the threads not yet known. The number of new ones, or -errno. */
int attach_seize_new(struct process *process)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", process->pid);
    DIR *dir = opendir(path);
    if (!dir)
        return -ESRCH;
    int found = 0, code = 0;
    for (struct dirent *entry; code >= 0 && (entry = readdir(dir));) {
        pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
        struct thread *known = tid > 0 ? thread_find(tid) : NULL;
        if (tid <= 0 || known)
            continue;
        code = seize_thread(process, tid);
        if (code == -ESRCH)
            code = 0;
        else if (code > 0)
            found += code;
    }
    closedir(dir);
    return code < 0 ? code : found;
}

/* All threads, until there is no new one. Twice: the kernel's list may skip some while others end. 0 or -errno. */
static int seize_all(struct process *process)
{
    for (int quiet = 0; quiet < 2 && !process->dead;) {
        int found = attach_seize_new(process);
        if (found < 0)
            return found;
        quiet = found ? 0 : quiet + 1;
        if (found)
            pump_ready();
    }
    return 0;
}

int attach_seize(pid_t pid, struct err *err)
{
    struct process *process = process_find(pid);
    if (process && !process->releasing) {
        process->wanted = true;
        return 0;
    }
    if (process)
        return err_set(err, -EAGAIN, "process %d is just being released", pid);
    if (pid == getpid() || pid == monitor_pid)
        return err_set(err, -EPERM, "process %d is the monitor itself, or its tracer", pid);
    long tgid = proc_status_number(pid, 0, "Tgid");
    if (tgid < 0)
        return err_set(err, -ESRCH, "there is no process %d", pid);
    if (tgid != pid)
        return err_set(err, -ESRCH, "%d is a thread of process %ld", pid, tgid);
    process = process_new(pid, space_new());
    if (!process)
        return err_errno(err, -ENOMEM, "process %d", pid);
    int found = seize_all(process);
    if (process->dead)
        return err_set(err, -ESRCH, "process %d ended", pid);
    if (found < 0 || !process->threads) {
        int code = attach_explain(pid, found < 0 ? found : -ESRCH, err);
        if (process->threads)
            attach_release(process);
        else
            process_remove(process);
        return code;
    }
    process->wanted = true;
    return 0;
}

/* ---- before the first int3 ---- */

static bool threads_settled(void *ctx)
{
    struct process *process = ctx;
    for (struct thread *thread = process->threads; thread; thread = thread->next)
        if (thread->unsettled && !thread->exited)
            return false;
    return true;
}

/* May the thread be inside fork, clone or vfork, begun before it was traced? Sleeping ones are not. */
static bool may_be_forking(const struct thread *thread)
{
    char path[64], state = proc_letter(thread->tid, 0);
    if (state != 'D')
        return state == 'R';
    _cleanup_(freep) char *call = NULL;
    size_t len;
    snprintf(path, sizeof path, "/proc/%d/syscall", thread->tid);
    if (file_read(path, &call, &len) < 0)
        return true;
    long number = strtol(call, NULL, 10);
    return number == SYS_fork || number == SYS_vfork || number == SYS_clone || number == SYS_clone3;
}

static void threads_unsettle(struct process *process)
{
    for (struct thread *thread = process->threads; thread; thread = thread->next) {
        if (thread->seen_stop || thread->listening || thread->fresh || !may_be_forking(thread))
            continue;
        thread->unsettled = true;
        if (!thread->interrupted)
            thread->interrupted = thread_interrupt(thread);
    }
}

/* A child whose fork began before the seizing is not traced, and would get a copy of int3 bytes, or, by vfork, share
 * them: nothing is written before every thread that may be forking has stopped once. */
int attach_settle(struct process *process, struct err *err)
{
    if (process->space->settled)
        return 0;
    int code, found = 0;
    do {
        threads_unsettle(process);
        code = pump_until(threads_settled, process);
        /* a thread whose creation began before its creator was traced appears only now */
        if (code == 0 && !process->dead && (found = attach_seize_new(process)) < 0)
            code = found;
    } while (code == 0 && !process->dead && found > 0);
    if (process->dead)
        return err_set(err, -ESRCH, "process %d ended", process->pid);
    if (code < 0)
        return err_set(err, code, "a thread of process %d waits inside fork or vfork: try again when it has returned",
                       process->pid);
    process->space->settled = true;
    return 0;
}

/* ---- letting go ---- */

/* A SIGTRAP of our making that is queued but not delivered would kill the target once nobody traces it. */
bool attach_trap_pending(const struct thread *thread)
{
    siginfo_t infos[16];
    struct __ptrace_peeksiginfo_args args = {.nr = 16};
    for (;;) {
        long got = ptrace(PTRACE_PEEKSIGINFO, thread->tid, &args, infos);
        for (long i = 0; i < got; i++)
            if (infos[i].si_signo == SIGTRAP &&
                (infos[i].si_code == SI_KERNEL || infos[i].si_code == TRAP_TRACE || infos[i].si_code == TRAP_BRKPT))
                return true;
        if (got < 16)
            return false;
        args.off += (uint64_t)got;
    }
}

void attach_detach_thread(struct thread *thread)
{
    if (thread->stop != STOP_EXIT && thread_load_regs(thread) == 0 &&
        (thread->trap_due || breakpoint_find(thread->process->space, thread->regs.rip - 1) ||
         space_is_call_stub(thread->process->space, thread->regs.rip - 1)) &&
        attach_trap_pending(thread)) {
        /* it comes before the thread is in user mode again */
        thread_flush_regs(thread);
        thread->in_stop = thread->regs_valid = thread->interrupted = false;
        int signal = thread->signal;
        thread->signal = 0;
        guard_signal_forget(thread);
        thread_go(thread, PTRACE_CONT, signal);
        return;
    }
    thread_flush_regs(thread);
    if (thread->calls)
        thread->process->keep_stubs = true;
    space_leave_stubs(
        thread->process); /* before it can return there without us, also from a call of an earlier seizing */
    guard_signal_forget(thread);
    if (!thread_go(thread, PTRACE_DETACH, thread->signal)) {
        thread->in_stop = thread->regs_valid = false; /* killed: its end will be reported */
        return;
    }
    thread_remove(thread);
}

static void process_leave(struct process *process)
{
    struct thread *thread, *next;
    process->releasing = true;
    breakpoint_clear_process(process);
    DL_FOREACH_SAFE(process->threads, thread, next)
    {
        thread->stopped = false;
        thread->hold = 0;
        thread->step = TRACER_STEP_NONE;
        thread->leaving = true;
        thread_update(thread);
        /* a zombie leader cannot be detached: its status is collected when the process ends */
        if (!thread->dead && thread->exited)
            thread_remove(thread);
    }
}

void attach_try_leave(struct process *process)
{
    if (process->wanted || process->dead)
        return;
    if (process->space->references > 1 && process->space->inserted_count)
        process_update(process); /* borrows memory with int3 in it: stays until its exec or end */
    else
        process_leave(process);
}

static bool process_left(void *ctx)
{
    struct process *process = ctx;
    if (process->dead)
        return true;
    for (struct thread *thread = process->threads; thread; thread = thread->next)
        if (!thread_is_blocked(thread))
            return false;
    return true;
}

void attach_release(struct process *process)
{
    struct space *space = space_get(process->space);
    process->wanted = false;
    process_leave(process);
    struct process *other, *next;
    HASH_ITER(hh, all_processes, other, next)
    {
        if (other->space == space && other != process)
            attach_try_leave(other);
    }
    if (!process->dead)
        pump_until(process_left, process);
    space_put(space);
}

static bool nothing_left(void *ctx)
{
    (void)ctx;
    for (struct process *process = all_processes; process; process = process->hh.next)
        if (!process_left(process))
            return false;
    return true;
}

void attach_release_all(void)
{
    struct process *process, *next;
    HASH_ITER(hh, all_processes, process, next)
    {
        process->wanted = false;
        process->pauses = 0;
        process_leave(process);
    }
    pump_until(nothing_left, NULL);
    stop_adopt_unknowns(0);
}

/* ---- starting programs ---- */

/* Starting a program seized: the child waits until it is, then executes, and is stopped at its first instruction. */

struct spawn_request {
    char *path;
    char *io[3];
    char **argv, **envp; /* in one block */
};

/* The payload: path, three file names, number of arguments, those, number of variables, those; strings with their
 * NUL. */
static const char *next_string(const char **at, const char *end)
{
    const char *string = *at, *nul = memchr(string, 0, (size_t)(end - string));
    if (!nul)
        return NULL;
    *at = nul + 1;
    return string;
}

static char **next_list(const char **at, const char *end)
{
    const char *count_text = next_string(at, end);
    unsigned long count = count_text ? strtoul(count_text, NULL, 10) : 0;
    if (!count_text || count > (size_t)(end - *at))
        return NULL;
    char **list = calloc(count + 1, sizeof *list);
    for (unsigned long i = 0; list && i < count; i++) {
        list[i] = (char *)next_string(at, end);
        if (!list[i]) {
            free(list);
            return NULL;
        }
    }
    return list;
}

static int spawn_parse(const char *bytes, size_t len, struct spawn_request *ret)
{
    const char *end = bytes + len;
    *ret = (struct spawn_request){.path = (char *)next_string(&bytes, end)};
    for (int i = 0; i < 3; i++)
        ret->io[i] = bytes < end ? (char *)next_string(&bytes, end) : NULL;
    ret->argv = ret->io[2] && bytes < end ? next_list(&bytes, end) : NULL;
    ret->envp = ret->argv && bytes < end ? next_list(&bytes, end) : NULL;
    if (ret->envp)
        return 0;
    free(ret->argv);
    return -EINVAL;
}

/* Between fork and exec: only what is safe there. Returns what failed. */
static int spawn_redirect(const struct spawn_request *request, int *ret_which)
{
    for (int i = 0; i < 3; i++) {
        if (!request->io[i] || !request->io[i][0])
            continue;
        int fd;
        *ret_which = i;
        if (i == 2 && request->io[1] && strcmp(request->io[1], request->io[2]) == 0)
            fd = dup(1); /* one file, one position */
        else
            fd = open(request->io[i], i ? O_WRONLY | O_CREAT | O_TRUNC : O_RDONLY, 0666);
        if (fd < 0 || (fd != i && dup2(fd, i) < 0))
            return -errno;
        if (fd > 2)
            close(fd);
    }
    return 0;
}

struct failure {
    int code, what; /* 0..2: that file; 3: the program */
};

static void spawn_fail(int fd, int code, int what)
{
    struct failure failure = {code, what};
    ssize_t put = write(fd, &failure, sizeof failure);
    (void)put;
    _exit(127);
}

static void run_child(const struct spawn_request *request, int go_fd, int error_fd)
{
    struct sigaction act = {.sa_handler = SIG_DFL};
    for (int signo = 1; signo < NSIG; signo++)
        sigaction(signo, &act, NULL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    char go;
    if (read(go_fd, &go, 1) != 1)
        _exit(127); /* the tracer died */
    int which = 0, code = spawn_redirect(request, &which);
    if (code < 0)
        spawn_fail(error_fd, code, which);
    if (error_fd != 3) { /* everything from 3 on is closed, the error's way back by exec */
        dup2(error_fd, 3);
        error_fd = 3;
    }
    fcntl(3, F_SETFD, FD_CLOEXEC);
    close_range(4, ~0U, 0);
    execve(request->path, request->argv, request->envp);
    spawn_fail(error_fd, -errno, 3);
}

static bool spawn_executed(void *ctx)
{
    struct process *process = ctx;
    return process->dead || !process->spawning;
}

static int spawn_start(const struct spawn_request *request, pid_t *ret_pid, struct err *err)
{
    int go[2], errors[2];
    if (pipe2(go, O_CLOEXEC) < 0)
        return err_errno(err, -errno, "pipe");
    if (pipe2(errors, O_CLOEXEC) < 0) {
        close(go[0]);
        close(go[1]);
        return err_errno(err, -errno, "pipe");
    }
    pid_t pid = fork();
    if (pid == 0) {
        close(go[1]);
        run_child(request, go[0], errors[1]);
    }
    close(go[0]);
    close(errors[1]);
    int code = pid < 0 ? err_errno(err, -errno, "fork") : 0;
    struct process *process = NULL;
    if (code == 0 && ptrace(PTRACE_SEIZE, pid, NULL, (void *)attach_options()) < 0)
        code = err_errno(err, -errno, "a new process cannot be traced");
    else if (code == 0) {
        process = process_new(pid, space_new());
        struct thread *thread = process ? thread_new(process, pid) : NULL;
        if (!thread)
            code = err_errno(err, -ENOMEM, "new process");
    }
    if (code == 0) {
        process->wanted = process->spawning = true;
        ssize_t put = write(go[1], "", 1);
        code = put == 1 ? pump_until(spawn_executed, process) : -EPIPE;
        struct failure failure;
        if (code == 0 && !process->dead) {
            *ret_pid = pid;
        } else if (fcntl(errors[0], F_SETFL, O_NONBLOCK) == 0 &&
                   read(errors[0], &failure, sizeof failure) == sizeof failure) {
            code = failure.what == 3 ? err_errno(err, failure.code, "%s cannot be executed", request->path)
                                     : err_errno(err, failure.code, "%s cannot be opened for %s",
                                                 request->io[failure.what], request->path);
        } else {
            code = err_set(err, code < 0 ? code : -ESRCH, "%s did not start", request->path);
        }
        if (code < 0 && !process->dead)
            kill(pid, SIGKILL); /* waits for the other end of a fifo, for example */
    }
    close(go[1]);
    close(errors[0]);
    return code;
}

int spawn_process(const char *bytes, size_t len, pid_t *ret_pid, struct err *err)
{
    struct spawn_request request;
    if (spawn_parse(bytes, len, &request) < 0)
        return err_set(err, -EINVAL, "malformed request");
    int code = spawn_start(&request, ret_pid, err);
    free(request.argv);
    free(request.envp);
    return code;
}
