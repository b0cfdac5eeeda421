/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_PROBE_PROC_H
#define SCRY_PROBE_PROC_H

#include "base/data/buf.h"
#include "base/data/err.h"
#include "base/system/proc_file.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * A process or thread seen from outside, by /proc and pidfd. Nothing here stops or disturbs it. 0 or -errno: -ESRCH if
 * it is gone, -EACCES if not permitted (also for the kernel's EPERM). Thread-safe and reentrant.
 */

/* The specification's scheduling states (proc_get_info). */
enum proc_state { PROC_RUNNING, PROC_SLEEPING, PROC_READY, PROC_ZOMBIE, PROC_STOPPED };

/* The line in `stat`. If the first thread of a process has ended before the others: with the state of the liveliest
 * one. */
int proc_stat_read(pid_t pid, pid_t tid, struct proc_stat *ret_stat);

/* Distinguishes PROC_RUNNING and PROC_READY as far as Linux does (state R: running). */
enum proc_state proc_state_of(const struct proc_stat *stat);

/* The kernel's letter for the whole process of this stat (tid 0): that of its liveliest thread, since /proc/PID/stat
 * shows only the leader's. Costs a read for each thread if the leader does not run. */
char proc_process_state(const struct proc_stat *stat);

/* /proc/PID/status. */
struct proc_status {
    uid_t uid;
    gid_t gid;
    pid_t tracer;
    uint64_t peak_resident_bytes, swap_bytes;
    uint64_t voluntary_switches, involuntary_switches; /* of this task only */
};
int proc_status_read(pid_t pid, pid_t tid, struct proc_status *ret_status);

/* The sum over all tasks: /proc/PID/status has only the leader's. */
int proc_switches(pid_t pid, uint64_t *ret_voluntary, uint64_t *ret_involuntary);

/* Appends NUL-separated lists from the kernel; nothing for zombies and kernel threads. */
int proc_cmdline(pid_t pid, struct buf *ret_bytes);
int proc_environ(pid_t pid, struct buf *ret_bytes);
int proc_exe(pid_t pid, char *ret_path, size_t size); /* " (deleted)" is kept */
int proc_cwd(pid_t pid, char *ret_path, size_t size);

/* Thread ids, ascending, malloc'ed, with zombies. */
int proc_threads(pid_t pid, pid_t **ret_tids, size_t *ret_count);

/* Whether a library may be brought into a process: 0, or -EOPNOTSUPP with the reason (other rights than the user's,
 * seccomp, shadow stacks, 32 bits, another namespace, SCRY=off, a limit of memory), or -errno. `files` (absolute names
 * up to NULL) are those that it has to see as we do. */
int proc_loadable(pid_t pid, const char *const *files, struct err *err);

/* For a traced process, stopped at its exec: is its executable setuid, setgid or has it capabilities, which it did not
 * get because it is traced? Then which one. False also if we may not look. */
bool proc_denied_privilege(pid_t pid, char *ret_path, size_t size);

/* pidfd_open, close-on-exec. */
int proc_pidfd(pid_t pid);
int proc_signal(int pidfd, int signo);
/* The wait status of an ended process, from its pidfd (PIDFD_GET_INFO, Linux 6.15); also of other processes' children,
 * reaped or not. -EAGAIN while it lives (or is another user's zombie), -ENOTSUP on older kernels. */
int proc_pidfd_exit_status(int pidfd, int *ret_wait_status);

/* Reads or writes another process's memory, running or not. Partial transfers are errors (-EIO, with the number of
 * readable bytes in *ret_done, which may be NULL). Writes go through read-only mappings (/proc/PID/mem) if the kernel
 * allows it. */
int proc_memory_read(pid_t pid, uint64_t addr, void *bytes, size_t len, size_t *ret_done);
int proc_memory_write(pid_t pid, uint64_t addr, const void *bytes, size_t len, size_t *ret_done);

/* Load modules: the main program first, then libraries in link order, then the vdso. From maps, auxv and r_debug. */
struct proc_module {
    char *path;
    uint64_t code_start, code_len, data_start, data_len, bss_start, bss_len;
    uint64_t bias; /* added to the file's addresses */
};
int proc_modules(pid_t pid, struct proc_module **ret_modules, size_t *ret_count);
void proc_modules_free(struct proc_module *modules, size_t count);

/* The address range of a thread's stack: for the leader [stack], for others the mapping that contains sp (0: unknown).
 */
int proc_stack_size(pid_t pid, pid_t tid, uint64_t *ret_bytes);

/* Sets the nice value of one thread or all threads of a process. -EACCES: lowering needs a privilege; none is changed.
 */
int proc_set_nice(pid_t pid, pid_t tid, int nice);

/* Which files a process has open, as /proc/PID/fd and fdinfo say (proc(5)). No file system is asked: one that does not
 * answer holds up nobody. */

struct proc_open_file {
    int fd;
    const char *path;  /* of others than files: what the kernel calls them (eventpoll), or "" (pipe, socket) */
    const char *kind;  /* file, directory, device, pipe, socket, memory, other */
    int64_t offset;    /* -1: none, or not known */
    int64_t size;      /* bytes, as last known here; -1: none, or not known */
    const char *flags; /* words: read, write, append, nonblock, direct, sync */
};

/* Tells of each, ascending by number, `most` at the most. Returns how many there were (more than `most`: not all were
 * told), or -errno with err. What is borrowed is so for the call. */
typedef void proc_files_fn(void *ctx, const struct proc_open_file *file);
ssize_t proc_files_each(pid_t pid, size_t most, proc_files_fn *fn, void *ctx, struct err *err);

#endif
