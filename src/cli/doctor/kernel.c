/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/doctor/doctor.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/file.h"
#include "base/system/proc_file.h"

/* The number in a file of /proc/sys; `missing` when there is none. */
static int read_number(const char *path, int missing)
{
    _cleanup_(freep) char *text = NULL;
    return file_read(path, &text, NULL) == 0 ? atoi(text) : missing;
}

/* Starts a child that sleeps until it is killed, and dies with this process. -1 with errno. */
static pid_t start_patient(void)
{
    pid_t parent = getpid(), pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (getppid() == parent)
        pause();
    _exit(0);
}

static void end_patient(pid_t pid)
{
    kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

void doctor_kernel(struct finding *finding)
{
    struct utsname name;
    uname(&name);
    finding_set(finding, FINDING_OK, "Linux %s on %s", name.release, name.machine);
    if (strcmp(name.machine, "x86_64") != 0) {
        finding_set(finding, FINDING_FAIL, "Linux %s on %s: scry knows only x86_64", name.release, name.machine);
        return;
    }
    int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    if (fd >= 0) {
        close(fd);
        return;
    }
    finding_set(finding, FINDING_FAIL, "Linux %s has no pidfd_open (%s), which is needed to watch processes",
                name.release, strerror(errno));
    finding_remedy(finding,
                   errno == ENOSYS ? "use Linux 5.3 or later" : "let the container's seccomp profile allow pidfd_open");
}

void doctor_ptrace(struct finding *finding)
{
    pid_t pid = start_patient();
    if (pid < 0) {
        finding_set(finding, FINDING_FAIL, "cannot start a process for the test: %s", strerror(errno));
        finding_remedy(finding, "raise the limit of processes (ulimit -u, pids cgroup)");
        return;
    }
    int code = ptrace(PTRACE_SEIZE, pid, NULL, NULL) < 0 ? errno : 0;
    end_patient(pid);
    int scope = read_number("/proc/sys/kernel/yama/ptrace_scope", 0);
    if (code) {
        finding_set(finding, FINDING_FAIL,
                    "ptrace of our own child fails (%s, ptrace_scope %d): nothing can be stopped, no breakpoints, no "
                    "backtraces; following a job works",
                    strerror(code), scope);
        finding_remedy(finding, scope >= 3   ? "ptrace_scope 3 can only be lifted by booting with another value"
                                : scope == 2 ? "as root: sysctl kernel.yama.ptrace_scope=1"
                                             : "let the container's seccomp profile allow ptrace "
                                               "(docker run --cap-add SYS_PTRACE)");
    } else if (scope >= 1 && geteuid() != 0) {
        finding_set(finding, FINDING_WARN,
                    "works for jobs started by scry run; ptrace_scope %d keeps programs started otherwise from being "
                    "stopped",
                    scope);
        finding_remedy(finding, "as root: sysctl kernel.yama.ptrace_scope=0, or start jobs with scry run");
    } else {
        finding_set(finding, FINDING_OK, "works (ptrace_scope %d)", scope);
    }
}

void doctor_traced(struct finding *finding)
{
    char comm[32];
    int64_t tracer = proc_status_number(0, 0, "TracerPid");
    if (tracer < 0) {
        finding_set(finding, FINDING_FAIL, "/proc cannot be read");
        finding_remedy(finding, "mount it: mount -t proc proc /proc");
        return;
    }
    if (!tracer) {
        finding_set(finding, FINDING_OK, "nobody traces this session");
        return;
    }
    proc_comm((pid_t)tracer, 0, comm, sizeof comm);
    finding_set(finding, FINDING_WARN,
                "%s, pid %d, traces this command, and may trace what it starts; a process can have only one tracer",
                *comm ? comm : "somebody", (int)tracer);
    finding_remedy(finding, "start jobs outside of a debugger or strace");
}

void doctor_memory(struct finding *finding)
{
    static long secret = 0x5c57;
    long copy = 0;
    pid_t pid = start_patient();
    if (pid < 0) {
        finding_set(finding, FINDING_FAIL, "cannot start a process for the test: %s", strerror(errno));
        return;
    }
    struct iovec here = {&copy, sizeof copy}, there = {&secret, sizeof secret};
    ssize_t got = process_vm_readv(pid, &here, 1, &there, 1, 0);
    int code = got < 0 ? errno : 0;
    end_patient(pid);
    if (got == sizeof copy && copy == secret) {
        finding_set(finding, FINDING_OK, "memory of other processes is readable without stopping them");
        return;
    }
    finding_set(finding, FINDING_WARN, "process_vm_readv fails (%s): variables and stacks cannot be read",
                code ? strerror(code) : "wrong bytes");
    finding_remedy(finding, "let the container's seccomp profile allow process_vm_readv");
}

void doctor_perf(struct finding *finding)
{
    struct perf_event_attr attr = {
        .type = PERF_TYPE_SOFTWARE,
        .size = sizeof attr,
        .config = PERF_COUNT_SW_DUMMY,
        .disabled = 1,
        .inherit = 1,
        .task = 1,
        .exclude_kernel = 1,
        .exclude_hv = 1,
    };
    int level = read_number("/proc/sys/kernel/perf_event_paranoid", -2);
    int fd = (int)syscall(SYS_perf_event_open, &attr, 0, 0, -1, PERF_FLAG_FD_CLOEXEC);
    if (fd >= 0) {
        close(fd);
        finding_set(finding, FINDING_OK,
                    "works (perf_event_paranoid %d): every process of a job is seen, even the shortest", level);
        return;
    }
    int code = errno;
    finding_set(finding, FINDING_WARN,
                "refused (%s, perf_event_paranoid %d): processes too short to be sampled are counted but not listed, "
                "and threads' blocking and scheduling cannot be watched",
                strerror(code), level);
    if (code == ENOSYS || code == ENOENT)
        finding_remedy(finding, "use a kernel with CONFIG_PERF_EVENTS");
    else if (level > 2)
        finding_remedy(finding, "as root: sysctl kernel.perf_event_paranoid=2");
    else
        finding_remedy(finding, "let the container's seccomp profile allow perf_event_open "
                                "(docker run --cap-add PERFMON)");
}

void doctor_core(struct finding *finding)
{
    _cleanup_(freep) char *pattern = NULL;
    struct rlimit limit = {0};
    getrlimit(RLIMIT_CORE, &limit);
    if (file_read("/proc/sys/kernel/core_pattern", &pattern, NULL) < 0) {
        finding_set(finding, FINDING_WARN, "core_pattern cannot be read: crashes are reported without a core file");
        return;
    }
    pattern[strcspn(pattern, "\n")] = 0;
    if (pattern[0] == '|') {
        finding_set(finding, FINDING_OK, "goes to a program: %.200s", pattern + 1);
    } else if (limit.rlim_cur == 0) {
        finding_set(
            finding, FINDING_WARN,
            "core files are off (limit 0, pattern \"%.100s\"): a crash is reported with its process and signal, "
            "without a stack",
            pattern);
        finding_remedy(finding, "ulimit -c unlimited before the job, or scry run --crash-stack");
    } else {
        finding_set(finding, FINDING_OK, "files \"%.200s\"", pattern);
    }
}

void doctor_files(struct finding *finding)
{
    enum { NEEDED = 4096 }; /* a pidfd for each process of a large job */
    struct rlimit limit = {0};
    getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_max != RLIM_INFINITY && limit.rlim_max < NEEDED) {
        finding_set(finding, FINDING_WARN, "at most %llu open files: jobs with more processes are followed in part",
                    (unsigned long long)limit.rlim_max);
        finding_remedy(finding, "raise the hard limit to %d (limits.conf, or the service that starts the session)",
                       NEEDED);
        return;
    }
    finding_set(finding, FINDING_OK, "%llu open files, may be raised to %llu", (unsigned long long)limit.rlim_cur,
                (unsigned long long)limit.rlim_max);
}
