/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Another process's memory without stopping it: process_vm_readv(2) first, /proc/PID/mem where that refuses a page
 * (memory that is only writable or executable) and for writes, since it passes over page protections as a debugger's
 * ptrace does.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "probe/proc.h"
#include "base/system/proc_file.h"

/* One address of the file /proc/PID/mem is out of off_t's range: the upper half belongs to the kernel. */
#define USER_END (UINT64_C(1) << 63)

static int open_memory(pid_t pid, int flags)
{
    char path[PROC_PATH_SIZE];
    proc_path(path, pid, 0, "mem");
    int fd = open(path, flags | O_CLOEXEC);
    return fd < 0 ? proc_errno(pid, errno) : fd;
}

/* The two directions differ in the call only. Returns bytes moved, or -errno when none were. */
static int64_t move_by_file(int fd, bool write, uint64_t addr, char *bytes, size_t len)
{
    size_t done = 0;
    int r = 0;
    while (done < len && addr + done < USER_END) {
        ssize_t moved = write ? pwrite(fd, bytes + done, len - done, (off_t)(addr + done))
                              : pread(fd, bytes + done, len - done, (off_t)(addr + done));
        if (moved < 0 && errno == EINTR)
            continue;
        if (moved <= 0) {
            /* Nothing moved without an error: the address space is gone, the process a zombie. */
            r = moved == 0 ? -ESRCH : -errno;
            break;
        }
        done += (size_t)moved;
    }
    return done ? (int64_t)done : r ? r : -EIO;
}

static int64_t move_by_call(pid_t pid, bool write, uint64_t addr, char *bytes, size_t len)
{
    size_t done = 0;
    while (done < len) {
        struct iovec local = {bytes + done, len - done};
        struct iovec remote = {(void *)(uintptr_t)(addr + done), len - done};
        ssize_t moved =
            write ? process_vm_writev(pid, &local, 1, &remote, 1, 0) : process_vm_readv(pid, &local, 1, &remote, 1, 0);
        if (moved <= 0)
            return done ? (int64_t)done : moved < 0 ? -errno : -EIO;
        done += (size_t)moved;
    }
    return (int64_t)done;
}

static int finish(pid_t pid, int64_t last, size_t done, size_t len, size_t *ret_done)
{
    if (ret_done)
        *ret_done = done;
    if (done == len)
        return 0;
    if (last >= 0 || last == -EFAULT || last == -EIO || last == -EINVAL || last == -ENOSYS)
        return -EIO;
    return proc_errno(pid, (int)-last);
}

static int read_memory(pid_t pid, uint64_t addr, void *bytes, size_t len, size_t *ret_done)
{
    if (len == 0)
        return finish(pid, 0, 0, 0, ret_done);
    int64_t moved = move_by_call(pid, false, addr, bytes, len);
    size_t done = moved > 0 ? (size_t)moved : 0;
    if (done == len || moved == -ESRCH || moved == -EPERM)
        return finish(pid, moved, done, len, ret_done);
    _cleanup_(closep) int fd = open_memory(pid, O_RDONLY);
    if (fd < 0)
        return finish(pid, fd, done, len, ret_done);
    moved = move_by_file(fd, false, addr + done, (char *)bytes + done, len - done);
    return finish(pid, moved, done + (moved > 0 ? (size_t)moved : 0), len, ret_done);
}

int proc_memory_read(pid_t pid, uint64_t addr, void *bytes, size_t len, size_t *ret_done)
{
    int r = read_memory(pid, addr, bytes, len, ret_done);
    pid_t deputy = r == -ESRCH ? proc_deputy(pid) : 0;
    return deputy ? read_memory(deputy, addr, bytes, len, ret_done) : r;
}

static int write_memory(pid_t pid, uint64_t addr, const void *bytes, size_t len, size_t *ret_done)
{
    char *from = (char *)(uintptr_t)bytes; /* struct iovec has no const */
    size_t done = 0;
    if (len == 0)
        return finish(pid, 0, 0, 0, ret_done);
    _cleanup_(closep) int fd = open_memory(pid, O_RDWR);
    int64_t moved = fd < 0 ? fd : move_by_file(fd, true, addr, from, len);
    done += moved > 0 ? (size_t)moved : 0;
    if (done == len || moved == -ESRCH)
        return finish(pid, moved, done, len, ret_done);
    /* A kernel may refuse to write through /proc/PID/mem altogether (proc_mem.force_override, hardening). */
    moved = move_by_call(pid, true, addr + done, from + done, len - done);
    return finish(pid, moved, done + (moved > 0 ? (size_t)moved : 0), len, ret_done);
}

int proc_memory_write(pid_t pid, uint64_t addr, const void *bytes, size_t len, size_t *ret_done)
{
    int r = write_memory(pid, addr, bytes, len, ret_done);
    pid_t deputy = r == -ESRCH ? proc_deputy(pid) : 0;
    return deputy ? write_memory(deputy, addr, bytes, len, ret_done) : r;
}
