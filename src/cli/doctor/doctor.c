/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/doctor/doctor.h"

#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "base/system/dirs.h"
#include "base/system/file.h"
#include "base/system/memory_dir.h"
#include "base/system/proc_file.h"
#include "base/system/process.h"
#include "broker/local.h"
#include "broker/url.h"
#include "cli/common/cli.h"
#include "cli/common/find.h"
#include "client/client.h"
#include "jobdir/text/text.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

/* The number in a file of /proc/sys; `missing` when there is none. */
static int read_number(const char *path, int missing)
{
    _cleanup_(freep) char *text = NULL;
    return file_read(path, &text, NULL) == 0 ? atoi(text) : missing;
}

/* Starts a child that sleeps until it is killed, and dies with this process. -1 with errno. */
static pid_t start_sleeper(void)
{
    pid_t parent = getpid(), pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (getppid() == parent)
        pause();
    _exit(0);
}

static void end_sleeper(pid_t pid)
{
    kill(pid, SIGKILL);
    child_reap(pid);
}

/* doctor/kernel.c */
static void doctor_kernel(struct finding *finding)
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

static void doctor_ptrace(struct finding *finding)
{
    pid_t pid = start_sleeper();
    if (pid < 0) {
        finding_set(finding, FINDING_FAIL, "cannot start a process for the test: %s", strerror(errno));
        finding_remedy(finding, "raise the limit of processes (ulimit -u, pids cgroup)");
        return;
    }
    int code = ptrace(PTRACE_SEIZE, pid, NULL, NULL) < 0 ? errno : 0;
    end_sleeper(pid);
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

static void doctor_traced(struct finding *finding)
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

static void doctor_memory(struct finding *finding)
{
    static long secret = 0x5c57;
    long copy = 0;
    pid_t pid = start_sleeper();
    if (pid < 0) {
        finding_set(finding, FINDING_FAIL, "cannot start a process for the test: %s", strerror(errno));
        return;
    }
    struct iovec here = {&copy, sizeof copy}, there = {&secret, sizeof secret};
    ssize_t got = process_vm_readv(pid, &here, 1, &there, 1, 0);
    int code = got < 0 ? errno : 0;
    end_sleeper(pid);
    if (got == sizeof copy && copy == secret) {
        finding_set(finding, FINDING_OK, "memory of other processes is readable without stopping them");
        return;
    }
    finding_set(finding, FINDING_WARN, "process_vm_readv fails (%s): variables and stacks cannot be read",
                code ? strerror(code) : "wrong bytes");
    finding_remedy(finding, "let the container's seccomp profile allow process_vm_readv");
}

static void doctor_perf(struct finding *finding)
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

static void doctor_core(struct finding *finding)
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

static void doctor_files(struct finding *finding)
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

/* Can a node be reached, and what is there? `scry-link look` finds out, and prints one finding a line. */

/* "STATE NAME TEXT TAB REMEDY" */
static void show_line(struct doctor_out *out, char *line)
{
    static const char *const states[] = {[FINDING_OK] = "ok", [FINDING_WARN] = "warn", [FINDING_FAIL] = "fail"};
    struct finding finding = {.state = FINDING_FAIL};
    char *state = strtok_r(line, " ", &line), *name = strtok_r(NULL, " ", &line);
    char *text = strtok_r(NULL, "\t\n", &line), *remedy = strtok_r(NULL, "\n", &line);
    if (!text)
        return;
    for (size_t i = 0; i < sizeof states / sizeof *states; i++)
        if (strcmp(state, states[i]) == 0)
            finding.state = (enum finding_state)i;
    finding_set(&finding, finding.state, "%s", text);
    finding_remedy(&finding, "%s", remedy ? remedy : "");
    doctor_say(out, name, &finding);
}

static int link_look_start(const char *name, pid_t *ret_pid, FILE **ret_output, struct err *err)
{
    char path[PATH_MAX], word[] = "look", *argv[] = {path, word, (char *)name, NULL};
    int ends[3], code = dirs_libexec("scry-link", path, sizeof path, err);
    if (code < 0)
        return code;
    const struct spawn spawn = {.path = path, .argv = argv, .in = SPAWN_NULL, .out = SPAWN_PIPE, .error = SPAWN_SAME};
    code = spawn_piped(&spawn, ret_pid, ends);
    if (code < 0)
        return err_errno(err, code, "cannot start %s", path);
    *ret_output = fdopen(ends[1], "r");
    if (*ret_output)
        return 0;
    close(ends[1]);
    return err_errno(err, -ENOMEM, "cannot start %s", path);
}

/* doctor/node.c: can another machine be reached as a node, and what is there? */
static void doctor_node(struct doctor_out *out, const char *name)
{
    struct finding finding = {0};
    struct err err;
    pid_t pid;
    int status = 0;
    char line[2048];
    _cleanup_(fclosep) FILE *output = NULL;
    if (link_look_start(name, &pid, &output, &err) < 0) {
        finding_set(&finding, FINDING_FAIL, "%s", err.text);
        doctor_say(out, "programs", &finding);
        return;
    }
    while (fgets(line, sizeof line, output))
        show_line(out, line);
    if (waitpid(pid, &status, 0) == pid && status != 0) {
        finding_set(&finding, FINDING_FAIL, "scry-link could not find out what is there");
        doctor_say(out, "programs", &finding);
    }
}

/* Can the library that traces functions be loaded into programs, and does it have its hooks? */

/* Runs in a child: a crash in there must not end the doctor. */
static _Noreturn void library_load(const char *library, int report_fd)
{
    typedef void hook(void *function, void *call_site);
    setenv("SCRY", "off", 1); /* only load it */
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    const char *problem = handle ? NULL : dlerror();
    hook *enter = handle ? (hook *)dlsym(handle, "__cyg_profile_func_enter") : NULL;
    hook *leave = handle ? (hook *)dlsym(handle, "__cyg_profile_func_exit") : NULL;
    if (enter && leave) {
        enter((void *)library_load, __builtin_return_address(0));
        leave((void *)library_load, __builtin_return_address(0));
    } else if (!problem) {
        problem = "it has no hooks: it is of another version";
    }
    if (problem)
        dprintf(report_fd, "%.300s", problem);
    _exit(problem ? 1 : 0);
}

/* An empty text, or the problem. */
static void try_to_load(const char *library, char *ret_problem, size_t size)
{
    int ends[2];
    *ret_problem = 0;
    if (pipe2(ends, O_CLOEXEC) < 0) {
        snprintf(ret_problem, size, "it cannot be tested: %s", strerror(errno));
        return;
    }
    pid_t pid = fork();
    if (pid == 0)
        library_load(library, ends[1]);
    close(ends[1]);
    ssize_t got = pid > 0 ? read(ends[0], ret_problem, size - 1) : 0;
    ret_problem[got > 0 ? got : 0] = 0;
    close(ends[0]);
    int status = pid > 0 ? child_reap(pid) : 0;
    if (pid < 0)
        snprintf(ret_problem, size, "it cannot be tested: %s", strerror(errno));
    else if (WIFSIGNALED(status))
        snprintf(ret_problem, size, "a program that loads it is killed by signal %d", WTERMSIG(status));
}

/* doctor/agent.c */
static void doctor_agent(struct finding *finding)
{
    char library[PATH_MAX], problem[400];
    struct err err;
    const char *off = getenv("SCRY");
    if (agent_library(library, sizeof library, &err) < 0) {
        finding_set(finding, FINDING_FAIL, "%s", err.text);
        return;
    }
    try_to_load(library, problem, sizeof problem);
    if (*problem) {
        finding_set(finding, FINDING_FAIL, "%.200s cannot be loaded, so no functions are traced: %.250s", library,
                    problem);
        finding_remedy(finding, "install scry again");
    } else if (off && strcasecmp(off, "off") == 0) {
        finding_set(finding, FINDING_WARN, "%.400s, but SCRY=off is set: nothing is followed or traced", library);
        finding_remedy(finding, "unset SCRY");
    } else {
        finding_set(finding, FINDING_OK, "functions can be traced: %.400s", library);
    }
}

/* Are there brokers through which jobs can be seen from elsewhere: one's own, those in the file of brokers, that of
 * SCRY_BROKER? */

static void try_to_reach(struct finding *finding, const char *word, const struct broker_url *url)
{
    char name[128];
    struct err err = {0};
    broker_url_show(url, name, sizeof name);
    if (find_reach(word, &err) == 0) {
        finding_set(finding, FINDING_OK, "SCRY_BROKER: %s answers", name);
    } else {
        finding_set(finding, FINDING_WARN, "SCRY_BROKER: %s: %s; jobs are not published as long as that is so", name,
                    err.text);
        finding_remedy(finding, "ask who runs it, or correct the URL, see scry-brokers(5)");
    }
}

/* The first line of the file that cannot be used. */
static bool check_names(struct finding *finding)
{
    _cleanup_(buf_done) struct buf names = BUF_INIT;
    struct broker_url url;
    struct err err;
    int code = broker_url_names(&names, &err);
    char *name, *rest = names.data;
    while (code == 0 && rest && (name = strtok_r(NULL, " ", &rest))) {
        char word[256];
        snprintf(word, sizeof word, "@%s", name);
        code = broker_url_parse(word, &url, &err);
    }
    if (code == 0)
        return true;
    finding_set(finding, FINDING_WARN, "%s", err.text);
    finding_remedy(finding, "correct that line, see scry-brokers(5)");
    return false;
}

/* doctor/broker.c */
static void doctor_broker(struct finding *finding)
{
    char program[PATH_MAX];
    struct broker_local found;
    struct err err;
    const char *word = getenv("SCRY_BROKER");
    struct broker_url url;
    if (word && *word) {
        if (broker_url_parse(word, &url, &err) == 0 && !url.local)
            return try_to_reach(finding, word, &url);
        if (!broker_url_is(word) || broker_url_parse(word, &url, &err) < 0) {
            finding_set(finding, FINDING_WARN, "SCRY_BROKER: %s; jobs are published nowhere", err.text);
            finding_remedy(finding, "correct the variable, see scry-brokers(5)");
            return;
        }
    }
    if (!check_names(finding))
        return;
    if (broker_local_program(program, &err) < 0) {
        finding_set(finding, FINDING_WARN,
                    "no mosquitto is installed: jobs are seen from elsewhere only through a broker that "
                    "others run, not by --broker local");
        finding_remedy(finding, "install the package mosquitto, or name a broker, see scry-brokers(5)");
    } else if (broker_local_find(&found, &err) < 0) {
        finding_set(finding, FINDING_WARN, "%s", err.text);
    } else {
        finding_set(finding, FINDING_OK, "%s; a private broker %s", program,
                    found.answers ? "runs" : "is started when --broker local needs it");
    }
}

enum {
    LEAST_PERCENT = 5,         /* recording stops when less of the disk is left */
    LEAST_BUFFERS = 256 << 20, /* bytes: four processes with the default buffer */
};

/* Checks the free space under an existing directory: sets the text, and WARN if there is little. */
static void check_space(struct finding *finding, const char *path)
{
    struct statvfs disk;
    if (statvfs(path, &disk) < 0) {
        finding_set(finding, FINDING_FAIL, "%s: %s", path, strerror(errno));
        return;
    }
    double unit = (double)disk.f_frsize / (1 << 30), free_gb = (double)disk.f_bavail * unit;
    double percent = disk.f_blocks ? 100.0 * (double)disk.f_bavail / (double)disk.f_blocks : 100.0;
    finding_set(finding, FINDING_OK, "%s, %.1f GB free (%.0f %%)", path, free_gb, percent);
    if (access(path, W_OK) < 0) {
        finding_set(finding, FINDING_FAIL, "%s cannot be written: %s", path, strerror(errno));
    } else if (percent < LEAST_PERCENT || (disk.f_files && disk.f_favail == 0)) {
        finding_set(finding, FINDING_WARN, "%s is nearly full: %.1f GB free (%.1f %%); recording stops at %d %%", path,
                    free_gb, percent, LEAST_PERCENT);
        finding_remedy(finding, "free some space there");
    }
}

/* Buffers are in the runtime directory if that is in memory, else in a folder in memory. */
static void check_buffers(struct finding *finding, const char *path)
{
    struct statvfs disk;
    struct err err;
    if (!memory_dir_is_memory(path)) {
        if (memory_dir_look(MEMORY_DIR_ROOT, &err) < 0) {
            finding_set(
                finding, FINDING_WARN,
                "%s is on a disk, and so are the buffers of traced processes: each process that starts or forks "
                "costs some 10 milliseconds more (%s)",
                path, err.text);
            finding_remedy(finding,
                           "set SCRY_RUNTIME_DIR or XDG_RUNTIME_DIR to a folder of your own in memory (tmpfs)");
        } else {
            finding_set(finding, FINDING_OK, "%s; the buffers of traced processes are in %s/scry-%u", path,
                        MEMORY_DIR_ROOT, geteuid());
        }
    } else if (statvfs(path, &disk) == 0 && disk.f_bavail * disk.f_frsize < LEAST_BUFFERS) {
        finding_set(finding, FINDING_WARN, "%s has %.0f MB free: traced processes have buffers there, up to 64 MB each",
                    path, (double)(disk.f_bavail * disk.f_frsize) / (1 << 20));
        finding_remedy(finding, "free some space there, set SCRY_RUNTIME_DIR, or use --buffer 1M");
    }
}

/* doctor/checks.c */
static void doctor_runtime(struct finding *finding)
{
    char path[PATH_MAX];
    struct err err;
    if (dirs_runtime(path, sizeof path, &err) < 0) {
        finding_set(finding, FINDING_FAIL, "%s", err.text);
        finding_remedy(finding, "set SCRY_RUNTIME_DIR to a short path of your own");
        return;
    }
    check_space(finding, path);
    if (finding->state == FINDING_OK && strncmp(text_base(path), "run-", 4) == 0 && !getenv("SCRY_RUNTIME_DIR")) {
        finding_set(finding, FINDING_WARN, "%s is used: /tmp/scry-%u is somebody else's, or was when it was needed",
                    path, geteuid());
        finding_remedy(finding,
                       "where sessions have an XDG_RUNTIME_DIR nobody can take it; else remove %s when no job runs",
                       path);
    } else if (finding->state == FINDING_OK) {
        check_buffers(finding, path);
    }
}

static void doctor_jobs(struct finding *finding)
{
    char path[PATH_MAX];
    struct err err;
    if (dirs_jobs(path, sizeof path, &err) < 0) {
        finding_set(finding, FINDING_FAIL, "%s", err.text);
        finding_remedy(finding, "set SCRY_STATE_DIR to a directory that you can write");
        return;
    }
    check_space(finding, path);
    if (finding->state != FINDING_OK && !*finding->remedy)
        finding_remedy(finding, "set SCRY_STATE_DIR to a directory that you can write");
}

static void doctor_tmp(struct finding *finding)
{
    const char *path = getenv("TMPDIR");
    check_space(finding, path && *path ? path : "/tmp");
    if (finding->state == FINDING_FAIL)
        finding_remedy(finding, "set TMPDIR to a directory that you can write");
}

static void doctor_programs(struct finding *finding)
{
    static const struct {
        const char *name, *without;
    } programs[] = {
        {"scry-monitor", "nothing works"},
        {"scry-tracer", "nothing can be stopped, no breakpoints, no backtraces"},
        {"scry-symbols", "functions have no names and values"},
        {"scry-publisher", "no job is published (--broker)"},
        {"scry-mirror", "no job at a broker is seen"},
        {"scry-record", "nothing is stored in or read from a record"},
        {"scry-site", "scry site shows nothing"},
        {"scry-serve", "scry serve shows nothing in a browser"},
        {"scry-link", "no other machine is reached"},
        {"scry-keys", "no keys can be made"},
    };
    char path[PATH_MAX], real[PATH_MAX];
    struct err err;
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        if (dirs_libexec(programs[i].name, path, sizeof path, &err) < 0) {
            finding_set(finding, FINDING_FAIL, "%s is missing: without it %s", programs[i].name, programs[i].without);
            finding_remedy(finding, "install scry again, or set SCRY_LIBEXEC to where its programs are");
            return;
        }
    *strrchr(path, '/') = '\0';
    finding_set(finding, FINDING_OK, "all in %s", realpath(path, real) ? real : path);
}

struct extension_count {
    char dirs[300];
    unsigned directories, extensions;
    struct err untrusted; /* of the last directory whose extensions are left out */
};

static void count_extensions(void *ctx, const char *dir)
{
    struct extension_count *count = ctx;
    char path[PATH_MAX];
    if (trusted_path(path, dir, S_IFDIR, &count->untrusted) < 0)
        return;
    DIR *stream = opendir(dir);
    if (!stream)
        return;
    size_t len = strlen(count->dirs);
    snprintf(count->dirs + len, sizeof count->dirs - len, "%s%s", len ? ":" : "", dir);
    count->directories++;
    const struct dirent *entry;
    while ((entry = readdir(stream))) {
        size_t name_len = strlen(entry->d_name);
        if (strncmp(entry->d_name, "scry_ext_", 9) == 0 && name_len > 12 &&
            strcmp(entry->d_name + name_len - 3, ".so") == 0)
            count->extensions++;
    }
    closedir(stream);
}

static void doctor_extensions(struct finding *finding)
{
    struct extension_count count = {0};
    dirs_extensions(count_extensions, &count);
    if (count.directories)
        finding_set(finding, FINDING_OK, "%u in %s", count.extensions, count.dirs);
    else
        finding_set(finding, FINDING_OK, "none installed (SCRY_EXT_PATH is searched first)");
    const char *own = getenv("SCRY_EXT_PATH");
    if (count.untrusted.code) {
        finding_set(finding, FINDING_WARN, "some are left out: %.300s", count.untrusted.text);
        finding_remedy(finding, "make it writable only by you, or move them");
    } else if (own && *own && !count.directories) {
        finding_set(finding, FINDING_WARN, "no directory of SCRY_EXT_PATH exists: %.300s", own);
        finding_remedy(finding, "correct SCRY_EXT_PATH");
    }
}

static void doctor_monitor(struct finding *finding)
{
    char request[] = ": version()";
    if (!client_join()) {
        const char *error = client_error(), *why = error ? error : "it cannot be reached";
        bool none = client_found_none();
        finding_set(finding, none ? FINDING_OK : FINDING_FAIL, "%s%s", why, none ? ": it is started when needed" : "");
        if (client_timed_out())
            finding_remedy(finding, "do that: it does not harm running jobs");
        return;
    }
    Omis_reply reply = omis_request(request, NULL, NULL, 0);
    bool good = reply[0]->status == OMIS_OK && reply[1] && reply[1]->obj_list && reply[1]->result;
    const char *text = good ? reply[1]->result : reply[0]->result;
    finding_set(finding, good ? FINDING_OK : FINDING_FAIL, good ? "runs: version %.300s" : "runs, but answers: %.300s",
                text ? text : "nothing");
    omis_reply_free(reply);
    omis_finalize();
}

static bool find_in_path(const char *name, char *ret_path, size_t size)
{
    const char *list = getenv("PATH");
    while (list && *list) {
        size_t len = strcspn(list, ":");
        int written = snprintf(ret_path, size, "%.*s/%s", (int)len, list, name);
        if (written > 0 && (size_t)written < size && access(ret_path, X_OK) == 0)
            return true;
        list += len + (list[len] == ':');
    }
    return false;
}

/* All there are: a node may have several, and Debian's mpirun is a link to a link to the own name of one of them. */
static void doctor_mpi(struct finding *finding)
{
    static const char *const launchers[] = {"mpirun",          "mpirun.openmpi", "mpirun.mpich", "mpiexec",
                                            "mpiexec.openmpi", "mpiexec.mpich",  "srun"};
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    char path[PATH_MAX], real[sizeof launchers / sizeof *launchers][PATH_MAX];
    size_t count = 0;
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        bool known = !find_in_path(launchers[i], path, sizeof path) || !realpath(path, real[count]);
        for (size_t k = 0; k < count && !known; k++)
            known = strcmp(real[k], real[count]) == 0;
        if (known)
            continue;
        bool linked = strcmp(real[count], path) != 0;
        buf_printf(&text, "%s%.200s%s%.200s", count ? ", " : "", path, linked ? " -> " : "", linked ? real[count] : "");
        count++;
    }
    finding_set(finding, FINDING_OK, "%s", text.data ? text.data : "no launcher in PATH (needed by MPI jobs only)");
}

/* scry doctor: what works on this machine, what does not, why, and what to do. */

static const struct {
    const char *name;
    void (*run)(struct finding *finding);
} checks[] = {
    {"kernel", doctor_kernel},
    {"ptrace", doctor_ptrace},
    {"session", doctor_traced},
    {"memory", doctor_memory},
    {"perf", doctor_perf},
    {"core", doctor_core},
    {"limits", doctor_files},
    {"runtime", doctor_runtime},
    {"jobs", doctor_jobs},
    {"tmp", doctor_tmp},
    {"programs", doctor_programs},
    {"agent", doctor_agent},
    {"extensions", doctor_extensions},
    {"monitor", doctor_monitor},
    {"mpi", doctor_mpi},
    {"broker", doctor_broker},
};

enum { CHECK_COUNT = sizeof checks / sizeof *checks };

static const struct {
    const char *word, *color;
} states[] = {
    [FINDING_OK] = {"ok", "\033[32m"},
    [FINDING_WARN] = {"warn", "\033[33m"},
    [FINDING_FAIL] = {"fail", "\033[31m"},
};

void finding_set(struct finding *finding, enum finding_state state, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    finding->state = state;
    vsnprintf(finding->text, sizeof finding->text, format, args);
    va_end(args);
}

void finding_remedy(struct finding *finding, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(finding->remedy, sizeof finding->remedy, format, args);
    va_end(args);
}

static void print_text(const char *name, const struct finding *finding, bool color)
{
    printf("%s%-4s%s  %-10s  %s\n", color ? states[finding->state].color : "", states[finding->state].word,
           color ? "\033[0m" : "", name, finding->text);
    if (*finding->remedy)
        printf("%18s-> %s\n", "", finding->remedy);
    fflush(stdout);
}

/* Text that may not be UTF-8 (a path) is shown with the offending bytes replaced. */
static json_t *json_text(const char *text)
{
    json_t *string = json_string(text);
    if (string)
        return string;
    char ascii[sizeof((struct finding *)0)->text];
    snprintf(ascii, sizeof ascii, "%s", text);
    for (char *at = ascii; *at; at++)
        if ((unsigned char)*at >= 0x80)
            *at = '?';
    return json_string(ascii);
}

void doctor_say(struct doctor_out *out, const char *name, const struct finding *finding)
{
    out->counts[finding->state]++;
    if (out->list)
        json_array_append_new(out->list,
                              json_pack("{s:s, s:s, s:o, s:o}", "name", name, "state", states[finding->state].word,
                                        "text", json_text(finding->text), "remedy", json_text(finding->remedy)));
    else
        print_text(name, finding, out->color);
}

/* `what` was asked for by `name`: "job", "node". */
static void print_json(const struct doctor_out *out, const char *what, const char *name)
{
    json_t *root = json_pack("{s:s, s:i, s:i, s:O}", "version", SCRY_VERSION, "failed", out->counts[FINDING_FAIL],
                             "warnings", out->counts[FINDING_WARN], "checks", out->list);
    if (name)
        json_object_set_new(root, what, json_text(name));
    text_print_json(root, JSON_INDENT(2));
    json_decref(root);
}

static void check_machine(struct doctor_out *out)
{
    for (size_t i = 0; i < CHECK_COUNT; i++) {
        struct finding finding = {0};
        checks[i].run(&finding);
        doctor_say(out, checks[i].name, &finding);
    }
}

int cmd_doctor(const struct options *options)
{
    const char *job = options_text(options, "job"), *node = options_text(options, "node");
    if (job && node)
        return cli_usage_error(options, "--job and --node at the same time");
    struct doctor_out out = {.color = text_has_colours(STDOUT_FILENO),
                             .list = options_on(options, "json") ? json_array() : NULL};
    int code = 0;
    if (job)
        code = doctor_job(&out, job);
    else if (node)
        doctor_node(&out, node);
    else
        check_machine(&out);
    if (out.list && code == 0)
        print_json(&out, job ? "job" : "node", job ? job : node);
    json_decref(out.list);
    return code ? code : out.counts[FINDING_FAIL] ? EXIT_ERRORS : 0;
}
