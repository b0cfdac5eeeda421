/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/proc.h"

#include "base/data/cleanup.h"
#include "base/data/grow.h"

#include <dirent.h>
#include <elf.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { FLAGS_SIZE = 64 };

static bool text_starts(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

static void add_word(char flags[FLAGS_SIZE], const char *word)
{
    size_t len = strlen(flags);
    snprintf(flags + len, FLAGS_SIZE - len, "%s%s", len ? " " : "", word);
}

static void put_flags(char flags[FLAGS_SIZE], unsigned long bits)
{
    static const struct {
        unsigned long bit;
        const char *word;
    } words[] = {{O_APPEND, "append"}, {O_NONBLOCK, "nonblock"}, {O_DIRECT, "direct"}, {O_DSYNC, "sync"}};
    unsigned long access = bits & O_ACCMODE;
    flags[0] = '\0';
    if (bits & O_PATH)
        return;
    if (access != O_WRONLY)
        add_word(flags, "read");
    if (access != O_RDONLY)
        add_word(flags, "write");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (bits & words[i].bit)
            add_word(flags, words[i].word);
}

/* What the kernel's text for a file says of it; makes that its path. */
static const char *kind_of(char *text, unsigned long flags)
{
    static const char anonymous[] = "anon_inode:";
    if (text_starts(text, "socket:[") || text_starts(text, "pipe:[")) {
        const char *kind = *text == 's' ? "socket" : "pipe";
        *text = '\0';
        return kind;
    }
    if (text_starts(text, anonymous)) {
        char *name = text + strlen(anonymous);
        size_t len = strlen(name);
        bool brackets = len > 2 && name[0] == '[' && name[len - 1] == ']';
        memmove(text, name + brackets, len + 1 - brackets);
        if (brackets)
            text[len - 2] = '\0';
        return "other";
    }
    if (*text != '/')
        return "other";
    if (text_starts(text, "/memfd:"))
        return "memory";
    return flags & O_DIRECTORY ? "directory" : "file";
}

/* As the kernel knows it without asking anybody (statx(2)); a network file system may not answer. */
static void loadable_look(const char *path, struct proc_open_file *file)
{
    struct statx now;
    if (statx(AT_FDCWD, path, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, STATX_TYPE | STATX_SIZE, &now) < 0)
        return;
    if (S_ISREG(now.stx_mode))
        file->size = (int64_t)now.stx_size;
    else if (S_ISDIR(now.stx_mode))
        file->kind = "directory";
    else if (S_ISCHR(now.stx_mode) || S_ISBLK(now.stx_mode))
        file->kind = "device";
    else if (S_ISFIFO(now.stx_mode))
        file->kind = "pipe";
}

/* false: it has been closed meanwhile. */
static bool loadable_tell(pid_t pid, int fd, proc_files_fn *fn, void *ctx)
{
    char name[32], path[PROC_PATH_SIZE], info[512], text[PATH_MAX + 16], flags[FLAGS_SIZE];
    unsigned long bits = 0;
    size_t len;
    struct proc_open_file file = {.fd = fd, .path = text, .flags = flags, .offset = -1, .size = -1};
    snprintf(name, sizeof name, "fd/%d", fd);
    proc_path(path, pid, 0, name);
    ssize_t got = readlink(path, text, sizeof text - 1);
    if (got < 0)
        return false;
    text[got] = '\0';
    snprintf(name, sizeof name, "fdinfo/%d", fd);
    if (proc_file_read(pid, 0, name, info, sizeof info, &len) == 0) {
        const char *octal = strstr(info, "flags:");
        bits = octal ? strtoul(octal + 6, NULL, 8) : 0;
        file.offset = (int64_t)proc_field(info, "pos");
    }
    put_flags(flags, bits);
    file.kind = kind_of(text, bits);
    if (*text == '/')
        loadable_look(path, &file);
    if (strcmp(file.kind, "file") != 0 && strcmp(file.kind, "memory") != 0)
        file.offset = -1;
    fn(ctx, &file);
    return true;
}

ssize_t proc_files_each(pid_t pid, size_t most, proc_files_fn *fn, void *ctx, struct err *err)
{
    char path[PROC_PATH_SIZE];
    pid_t other = proc_deputy(pid), from = other ? other : pid;
    size_t count = 0;
    proc_path(path, from, 0, "fd");
    DIR *dir = opendir(path);
    if (!dir)
        return err_errno(err, proc_errno(pid, errno), "the open files of process %d", (int)pid);
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (entry->d_name[0] < '0' || entry->d_name[0] > '9')
            continue;
        if (count >= most || loadable_tell(from, (int)strtol(entry->d_name, NULL, 10), fn, ctx))
            count++;
    }
    closedir(dir);
    return (ssize_t)count;
}

/* pidfds: signals that cannot hit a reused pid, and how somebody else's child ended (pidfd_open(2), ioctl_pidfd). */

/* From <linux/pidfd.h> of Linux 6.15; defined here since older headers lack them. */
struct pidfd_info_v0 {
    uint64_t mask;
    uint64_t cgroupid;
    uint32_t pid, tgid, ppid;
    uint32_t ruid, rgid, euid, egid, suid, sgid, fsuid, fsgid;
    int32_t exit_code;
};
#define PIDFD_GET_INFO_V0 _IOWR(0xFF, 11, struct pidfd_info_v0)
#define PIDFD_INFO_PID_BIT (UINT64_C(1) << 0)
#define PIDFD_INFO_CREDS_BIT (UINT64_C(1) << 1)
#define PIDFD_INFO_EXIT_BIT (UINT64_C(1) << 3)
_Static_assert(sizeof(struct pidfd_info_v0) == 64, "PIDFD_INFO_SIZE_VER0");

int proc_pidfd(pid_t pid)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0); /* always close-on-exec */
    if (fd >= 0)
        return fd;
    /* EINVAL: a thread id that leads no process */
    return errno == EINVAL ? -ESRCH : proc_errno(pid, errno);
}

int proc_signal(int pidfd, int signo)
{
    if (syscall(SYS_pidfd_send_signal, pidfd, signo, NULL, 0) == 0)
        return 0;
    return errno == EPERM ? -EACCES : -errno;
}

/* A zombie that its parent has not waited for: its line in /proc has the status, 0 for those who may not look. */
static int zombie_status(const struct pidfd_info_v0 *info, int *ret_wait_status)
{
    struct proc_stat stat;
    int r = proc_stat_read((pid_t)info->tgid, 0, &stat);
    if (r < 0 || stat.state != 'Z')
        return -EAGAIN;
    uid_t me = geteuid();
    bool mine = me == 0 || (info->ruid == me && info->euid == me && info->suid == me);
    if (stat.exit_code == 0 && !(mine && (info->mask & PIDFD_INFO_CREDS_BIT)))
        return -EAGAIN;
    *ret_wait_status = stat.exit_code;
    return 0;
}

/* 0 or -errno; info->mask says what is in it. */
static int loadable_ask(int pidfd, struct pidfd_info_v0 *info)
{
    /* ESRCH may also mean that it was waited for while the kernel looked: then the second answer has the status. */
    for (int i = 0; i < 2; i++) {
        *info = (struct pidfd_info_v0){.mask = PIDFD_INFO_PID_BIT | PIDFD_INFO_CREDS_BIT | PIDFD_INFO_EXIT_BIT};
        if (ioctl(pidfd, PIDFD_GET_INFO_V0, info) == 0)
            return 0;
        if (errno != ESRCH)
            break;
    }
    /* ENOTTY, EINVAL before 6.13; ESRCH for an ended process before 6.15 */
    return errno == ENOTTY || errno == EINVAL || errno == ESRCH ? -ENOTSUP : -errno;
}

int proc_pidfd_exit_status(int pidfd, int *ret_wait_status)
{
    struct pidfd_info_v0 info;
    int r = loadable_ask(pidfd, &info);
    if (r == 0 && !(info.mask & PIDFD_INFO_EXIT_BIT)) {
        int status, zombie = zombie_status(&info, &status);
        r = loadable_ask(pidfd, &info); /* waited for meanwhile: what was read may be of another with its number */
        if (r == 0 && !(info.mask & PIDFD_INFO_EXIT_BIT)) {
            if (zombie == 0)
                *ret_wait_status = status;
            return zombie;
        }
    }
    if (r == 0)
        *ret_wait_status = info.exit_code;
    return r;
}

/* What a process did not get from the file that it executes: its user, its group, or its capabilities. */

static unsigned long long number_of(const char *status, const char *format)
{
    unsigned long long number = 0;
    const char *line = strstr(status, format);
    if (line)
        sscanf(line + strcspn(line, ":"), strncmp(format, "\nCap", 4) == 0 ? ": %llx" : ": %*u %llu", &number);
    return number;
}

static bool wants_capabilities(const char *path, const char *status)
{
    struct vfs_ns_cap_data file = {0};
    if (getxattr(path, "security.capability", &file, sizeof file) < (ssize_t)XATTR_CAPS_SZ_2)
        return false;
    uint64_t permitted = le32toh(file.data[0].permitted) | (uint64_t)le32toh(file.data[1].permitted) << 32;
    return permitted & number_of(status, "\nCapBnd:") & ~number_of(status, "\nCapPrm:");
}

bool proc_denied_privilege(pid_t pid, char *ret_path, size_t size)
{
    char exe[PROC_PATH_SIZE], status[8192];
    struct stat file;
    struct statvfs mounted;
    proc_path(exe, pid, 0, "exe");
    if (stat(exe, &file) < 0 || proc_file_read(pid, 0, "status", status, sizeof status, NULL) < 0)
        return false;
    bool denied =
        (file.st_mode & S_ISUID && file.st_uid != number_of(status, "\nUid:")) ||
        ((file.st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) && file.st_gid != number_of(status, "\nGid:")) ||
        wants_capabilities(exe, status);
    /* where nobody gets anything, it is not for the tracing */
    return denied && !strstr(status, "\nNoNewPrivs:\t1") && statvfs(exe, &mounted) == 0 &&
           !(mounted.f_flag & ST_NOSUID) && proc_exe(pid, ret_path, size) == 0;
}

/* Whether a library may be brought into a process that runs, as far as that is seen from outside. */

enum { ROOM_BYTES = 64 << 20 };

static bool same_namespace(pid_t pid, const char *name)
{
    char path[PROC_PATH_SIZE], own[PROC_PATH_SIZE];
    struct stat one, other;
    proc_path(path, pid, 0, name);
    proc_path(own, getpid(), 0, name);
    return stat(path, &one) == 0 && stat(own, &other) == 0 && one.st_ino == other.st_ino && one.st_dev == other.st_dev;
}

static bool is_64_bit(pid_t pid)
{
    char path[PROC_PATH_SIZE];
    unsigned char head[EI_NIDENT];
    proc_path(path, pid, 0, "exe");
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd >= 0 && read(fd, head, sizeof head) == (ssize_t)sizeof head && head[EI_CLASS] == ELFCLASS64;
}

static bool has_variable(pid_t pid, const char *wanted)
{
    struct buf environ_bytes = BUF_INIT;
    bool found = false;
    if (proc_environ(pid, &environ_bytes) == 0)
        for (size_t at = 0; !found && at < environ_bytes.len;) {
            const char *entry = environ_bytes.data + at;
            size_t len = strnlen(entry, environ_bytes.len - at);
            found = len >= strlen(wanted) && memcmp(entry, wanted, strlen(wanted)) == 0;
            at += len + 1;
        }
    buf_done(&environ_bytes);
    return found;
}

/* Real, effective, saved and file system's: all the same, and ours. */
static bool has_our_rights(const char *status)
{
    unsigned long id[4];
    const char *uid = strstr(status, "\nUid:"), *gid = strstr(status, "\nGid:");
    if (!uid || sscanf(uid, " Uid: %lu %lu %lu %lu", &id[0], &id[1], &id[2], &id[3]) != 4 || id[0] != geteuid() ||
        id[1] != id[0] || id[2] != id[0] || id[3] != id[0])
        return false;
    return gid && sscanf(gid, " Gid: %lu %lu %lu %lu", &id[0], &id[1], &id[2], &id[3]) == 4 && id[1] == id[0] &&
           id[2] == id[0];
}

/* Its file gave it rights: the dynamic linker is in secure mode, and searches other places. */
static bool is_secure(pid_t pid)
{
    Elf64_auxv_t items[64];
    size_t len = 0;
    if (proc_file_read(pid, 0, "auxv", (char *)items, sizeof items, &len) < 0)
        return true;
    for (size_t i = 0; i < len / sizeof *items; i++)
        if (items[i].a_type == AT_SECURE)
            return items[i].a_un.a_val != 0;
    return false;
}

static bool has_room(pid_t pid, const char *status)
{
    char limits[4096];
    unsigned long long most;
    if (proc_file_read(pid, 0, "limits", limits, sizeof limits, NULL) < 0)
        return false;
    const char *line = strstr(limits, "Max address space");
    if (!line || sscanf(line, "Max address space %llu", &most) != 1)
        return true; /* unlimited */
    return most >= proc_field(status, "VmSize") * 1024 + ROOM_BYTES;
}

static bool process_sees(pid_t pid, const char *path)
{
    char there[PATH_MAX + PROC_PATH_SIZE], root[PROC_PATH_SIZE];
    struct stat one, other;
    proc_path(root, pid, 0, "root");
    snprintf(there, sizeof there, "%s%s", root, path);
    return stat(path, &one) == 0 && stat(there, &other) == 0 && one.st_ino == other.st_ino &&
           one.st_dev == other.st_dev;
}

int proc_loadable(pid_t pid, const char *const *files, struct err *err)
{
    char status[8192];
    int code = proc_file_read(pid, 0, "status", status, sizeof status, NULL);
    if (code < 0)
        return err_errno(err, code, "process %d", pid);
    const char *why = NULL;
    if (!has_our_rights(status) || is_secure(pid))
        why = "it does not run with just its user's rights, or another user's";
    else if (proc_field(status, "Seccomp") != 0)
        why = "it restricts its system calls (seccomp)";
    else if (strstr(status, "x86_Thread_features:") && strstr(strstr(status, "x86_Thread_features:"), "shstk"))
        why = "it has shadow stacks";
    else if (!is_64_bit(pid))
        why = "it is no 64-bit program";
    else if (!same_namespace(pid, "ns/pid") || !same_namespace(pid, "ns/user"))
        why = "it is in a container (another PID or user namespace)";
    else if (has_variable(pid, "SCRY=off"))
        why = "SCRY=off is set in its environment";
    else if (has_variable(pid, "SCRY_AGENT_SOCKET="))
        why = "it was started in a job, whose library it has, or removed";
    else if (!has_room(pid, status))
        why = "its address space is limited (ulimit -v), and what is left may be its own need";
    if (why)
        return err_set(err, -EOPNOTSUPP, "nothing can be brought into process %d: %s", pid, why);
    for (; *files; files++)
        if (!process_sees(pid, *files))
            return err_set(err, -EOPNOTSUPP, "nothing can be brought into process %d: it does not see the file %s", pid,
                           *files);
    return 0;
}

/* A process or thread from outside: /proc/PID/stat, status, io, cmdline, environ, task (proc(5)). */

enum {
    STATUS_TEXT = 8192, /* grows with the processor masks: 1.4 KB on small machines, 5 KB at 8192 processors */
    LIST_CHUNK = 4096,  /* arguments and environments */
};

int proc_stat_read(pid_t pid, pid_t tid, struct proc_stat *ret_stat)
{
    int r = proc_stat_of(pid, tid, ret_stat);
    /* A leader that ended before its threads looks like a zombie, yet the process lives. */
    if (r < 0 || tid || ret_stat->state != 'Z' || ret_stat->threads <= 1)
        return r;
    struct proc_stat other;
    pid_t deputy = proc_deputy(pid);
    if (deputy && proc_stat_of(pid, deputy, &other) == 0) {
        ret_stat->memory_bytes = other.memory_bytes;
        ret_stat->resident_bytes = other.resident_bytes;
        ret_stat->start_stack = other.start_stack;
    }
    ret_stat->state = proc_process_state(ret_stat);
    return 0;
}

enum proc_state proc_state_of(const struct proc_stat *stat)
{
    switch (stat->state) {
    case 'R':
        return PROC_RUNNING;
    case 'Z':
    case 'X':
        return PROC_ZOMBIE;
    case 'T':
    case 't':
        return PROC_STOPPED;
    default: /* S, D, I (idle kernel thread), P (parked) */
        return PROC_SLEEPING;
    }
}

char proc_process_state(const struct proc_stat *stat)
{
    /* The liveliest wins; the kernel's line for the process shows its leader only. */
    static const char order[] = "RDSITtZX";
    if (stat->threads <= 1 || stat->state == 'R')
        return stat->state;
    _cleanup_(freep) pid_t *tids = NULL;
    size_t count;
    if (proc_threads(stat->pid, &tids, &count) < 0)
        return stat->state;
    const char *best = strchr(order, stat->state);
    for (size_t i = 0; i < count && best != order; i++) {
        struct proc_stat thread;
        if (tids[i] == stat->pid || proc_stat_of(stat->pid, tids[i], &thread) < 0)
            continue;
        const char *rank = strchr(order, thread.state);
        if (rank && (!best || rank < best))
            best = rank;
    }
    return best ? *best : stat->state;
}

static int read_status(pid_t pid, pid_t tid, struct proc_status *ret_status)
{
    char text[STATUS_TEXT];
    int r = proc_file_read(pid, tid, "status", text, sizeof text, NULL);
    if (r < 0)
        return r;
    /* Only the first line holds foreign text (the name), and the kernel escapes newlines in it. */
    *ret_status = (struct proc_status){
        .uid = (uid_t)proc_field(text, "Uid"),
        .gid = (gid_t)proc_field(text, "Gid"),
        .tracer = (pid_t)proc_field(text, "TracerPid"),
        .peak_resident_bytes = proc_field(text, "VmHWM") * 1024,
        .swap_bytes = proc_field(text, "VmSwap") * 1024,
        .voluntary_switches = proc_field(text, "voluntary_ctxt_switches"),
        .involuntary_switches = proc_field(text, "nonvoluntary_ctxt_switches"),
    };
    return 0;
}

int proc_status_read(pid_t pid, pid_t tid, struct proc_status *ret_status)
{
    struct proc_status other;
    int r = read_status(pid, tid, ret_status);
    pid_t deputy = r == 0 && !tid && !ret_status->peak_resident_bytes ? proc_deputy(pid) : 0;
    if (deputy && read_status(pid, deputy, &other) == 0) {
        ret_status->peak_resident_bytes = other.peak_resident_bytes;
        ret_status->swap_bytes = other.swap_bytes;
    }
    return r;
}

int proc_switches(pid_t pid, uint64_t *ret_voluntary, uint64_t *ret_involuntary)
{
    _cleanup_(freep) pid_t *tids = NULL;
    size_t count;
    int r = proc_threads(pid, &tids, &count);
    if (r < 0)
        return r;
    uint64_t voluntary = 0, involuntary = 0;
    for (size_t i = 0; i < count; i++) {
        struct proc_status status;
        r = proc_status_read(pid, tids[i], &status);
        if (r == -ESRCH)
            continue; /* ended since */
        if (r < 0)
            return r;
        voluntary += status.voluntary_switches;
        involuntary += status.involuntary_switches;
    }
    *ret_voluntary = voluntary;
    *ret_involuntary = involuntary;
    return 0;
}

static int append_file(pid_t pid, const char *name, struct buf *buf)
{
    char path[PROC_PATH_SIZE];
    proc_path(path, pid, 0, name);
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return proc_errno(pid, errno);
    for (;;) {
        char *to = buf_reserve(buf, LIST_CHUNK);
        if (!to)
            return -ENOMEM;
        ssize_t got = read(fd, to, LIST_CHUNK);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return proc_errno(pid, errno);
        buf->len += (size_t)got;
        buf->data[buf->len] = 0;
        if (got == 0)
            return 0;
    }
}

static int append_list(pid_t pid, const char *name, struct buf *buf)
{
    size_t before = buf->len;
    int r = append_file(pid, name, buf);
    pid_t deputy = r == -ESRCH || (r == 0 && buf->len == before) ? proc_deputy(pid) : 0;
    return deputy ? append_file(deputy, name, buf) : r;
}

int proc_cmdline(pid_t pid, struct buf *ret_bytes)
{
    return append_list(pid, "cmdline", ret_bytes);
}

int proc_environ(pid_t pid, struct buf *ret_bytes)
{
    return append_list(pid, "environ", ret_bytes);
}

static int read_link(pid_t pid, const char *name, char *ret_path, size_t size)
{
    char path[PROC_PATH_SIZE];
    proc_path(path, pid, 0, name);
    ssize_t len = readlink(path, ret_path, size);
    if (len < 0) {
        int r = proc_errno(pid, errno);
        pid_t deputy = r == -ENOENT || r == -ESRCH ? proc_deputy(pid) : 0;
        return deputy ? read_link(deputy, name, ret_path, size) : r;
    }
    if ((size_t)len >= size)
        return -ENAMETOOLONG;
    ret_path[len] = 0;
    return 0;
}

int proc_exe(pid_t pid, char *ret_path, size_t size)
{
    return read_link(pid, "exe", ret_path, size);
}

int proc_cwd(pid_t pid, char *ret_path, size_t size)
{
    return read_link(pid, "cwd", ret_path, size);
}

static int compare_tids(const void *a, const void *b)
{
    pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;
    return (x > y) - (x < y);
}

int proc_threads(pid_t pid, pid_t **ret_tids, size_t *ret_count)
{
    char path[PROC_PATH_SIZE];
    proc_path(path, pid, 0, "task");
    DIR *dir = opendir(path);
    if (!dir)
        return proc_errno(pid, errno);
    _cleanup_(freep) pid_t *tids = NULL;
    size_t count = 0, room = 0;
    const struct dirent *entry;
    int r = 0;
    while (r == 0 && (errno = 0, entry = readdir(dir))) {
        pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (tid <= 0)
            continue;
        if (GROW(tids, count, room))
            tids[count++] = tid;
        else
            r = -ENOMEM;
    }
    if (r == 0 && errno)
        r = proc_errno(pid, errno);
    closedir(dir);
    if (r == 0 && count == 0)
        r = -ESRCH;
    if (r < 0)
        return r;
    qsort(tids, count, sizeof *tids, compare_tids);
    *ret_tids = TAKE_PTR(tids);
    *ret_count = count;
    return 0;
}

/* The sp of a thread that waits in the kernel; 0 while it runs, since nothing is stopped to find out. */
static uint64_t stack_pointer(pid_t pid, pid_t tid)
{
    char text[256];
    if (proc_file_read(pid, tid, "syscall", text, sizeof text, NULL) < 0)
        return 0;
    /* "running", "-1 SP PC" when blocked outside a system call, or "NR ARG0 ... ARG5 SP PC" */
    char *last = strrchr(text, ' ');
    if (!last)
        return 0;
    *last = 0;
    char *sp = strrchr(text, ' ');
    return sp ? strtoull(sp + 1, NULL, 16) : 0;
}

int proc_stack_size(pid_t pid, pid_t tid, uint64_t *ret_bytes)
{
    struct proc_maps maps;
    int r = proc_maps_read(pid, &maps);
    if (r < 0)
        return r;
    const struct proc_map *found = NULL;
    if (tid && tid != pid) {
        uint64_t sp = stack_pointer(pid, tid);
        found = sp ? proc_maps_find(&maps, sp) : NULL;
    } else {
        for (size_t i = 0; i < maps.count && !found; i++)
            if (strcmp(maps.maps[i].path, "[stack]") == 0)
                found = &maps.maps[i];
    }
    *ret_bytes = found ? found->end - found->start : 0;
    proc_maps_done(&maps);
    return 0;
}

/* First of all the one whose nice value is the largest: where that may be set, the others' may be, too. */
static void nicest_first(pid_t *tids, size_t count)
{
    size_t nicest = 0;
    int most = -100;
    for (size_t i = 0; i < count; i++) {
        errno = 0;
        int nice = getpriority(PRIO_PROCESS, (id_t)tids[i]);
        if (errno == 0 && nice > most) {
            most = nice;
            nicest = i;
        }
    }
    pid_t first = tids[nicest];
    tids[nicest] = tids[0];
    tids[0] = first;
}

int proc_set_nice(pid_t pid, pid_t tid, int nice)
{
    if (tid)
        return setpriority(PRIO_PROCESS, (id_t)tid, nice) < 0 ? proc_errno(pid, errno) : 0;
    /* Nice is per thread on Linux. A thread born while we walk inherits its creator's value, old or new: walk until
     * the set of threads stays the same. */
    size_t before = 0;
    for (int round = 0; round < 8; round++) {
        _cleanup_(freep) pid_t *tids = NULL;
        size_t count;
        int r = proc_threads(pid, &tids, &count);
        if (r < 0)
            return r;
        nicest_first(tids, count); /* all or nothing */
        for (size_t i = 0; i < count; i++)
            if (setpriority(PRIO_PROCESS, (id_t)tids[i], nice) < 0 && errno != ESRCH)
                return proc_errno(pid, errno);
        if (count == before)
            return 0;
        before = count;
    }
    return 0;
}
