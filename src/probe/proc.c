/* SPDX-License-Identifier: Apache-2.0 */
/* A process or thread from outside: /proc/PID/stat, status, io, cmdline, environ, task (proc(5)). */
#include "base/data/grow.h"
#include "probe/proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/proc_file.h"

enum {
    STATUS_TEXT = 8192, /* grows with the processor masks: 1.4 KB on small machines, 5 KB at 8192 processors */
    IO_TEXT = 512,      /* seven lines */
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

int proc_io_read(pid_t pid, struct proc_io *ret_io)
{
    char text[IO_TEXT];
    int r = proc_file_read(pid, 0, "io", text, sizeof text, NULL);
    if (r < 0)
        return r;
    *ret_io = (struct proc_io){
        .reads = proc_field(text, "syscr"),
        .writes = proc_field(text, "syscw"),
        .read_bytes = proc_field(text, "read_bytes"),
        .written_bytes = proc_field(text, "write_bytes"),
    };
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
