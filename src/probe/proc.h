/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process or thread from outside, by /proc and pidfd. Nothing here stops or disturbs it. Errors: 0 or -errno; -ESRCH
 * when it is gone, -EACCES when we may not (the kernel's EPERM, too). Thread-safe and reentrant.
 */
#ifndef SCRY_PROBE_PROC_H
#define SCRY_PROBE_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/proc_file.h"

/* The specification's scheduling states (proc_get_info). */
enum proc_state { PROC_RUNNING, PROC_SLEEPING, PROC_READY, PROC_ZOMBIE, PROC_STOPPED };

/* The line in `stat`; of a process whose first thread ended before the others, with what the liveliest one shows. */
int proc_stat_read(pid_t pid, pid_t tid, struct proc_stat *ret_stat);

/* Tells PROC_RUNNING from PROC_READY as far as Linux does (state R: running). */
enum proc_state proc_state_of(const struct proc_stat *stat);

/* The kernel's letter for the whole process whose stat (tid 0) is given: that of its liveliest thread, since the line
 * in /proc/PID/stat shows the leader's only. Costs a read per thread when the leader does not run. */
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

/* The sum over all tasks: /proc/PID/status alone has the leader's. */
int proc_switches(pid_t pid, uint64_t *ret_voluntary, uint64_t *ret_involuntary);

struct proc_io {
    uint64_t reads, writes, read_bytes, written_bytes; /* system calls; bytes that reached storage */
};
int proc_io_read(pid_t pid, struct proc_io *ret_io);

/* Appends NUL-separated lists as the kernel gives them; nothing for zombies and kernel threads. */
int proc_cmdline(pid_t pid, struct buf *ret_bytes);
int proc_environ(pid_t pid, struct buf *ret_bytes);
int proc_exe(pid_t pid, char *ret_path, size_t size); /* " (deleted)" is kept */
int proc_cwd(pid_t pid, char *ret_path, size_t size);

/* Thread ids, ascending, malloc'ed. Threads that ended but are not gone yet (zombies) are among them. */
int proc_threads(pid_t pid, pid_t **ret_tids, size_t *ret_count);

/* Whether a library may be brought into a process: 0, or -EOPNOTSUPP with the reason (other rights than the user's,
 * seccomp, shadow stacks, 32 bits, another namespace, SCRY=off, a limit of memory), or -errno. `files` (absolute names
 * up to NULL) are those that it has to see as we do. */
int proc_loadable(pid_t pid, const char *const *files, struct err *err);

/* Of a traced process, stopped at its exec: is its executable one with setuid, setgid or capabilities, of which it got
 * nothing, since it is traced? Then which one. False also if we may not look. */
bool proc_denied_privilege(pid_t pid, char *ret_path, size_t size);

/* pidfd_open, close-on-exec. */
int proc_pidfd(pid_t pid);
int proc_signal(int pidfd, int signo);
/* The wait status of a process that ended, asked of its pidfd (PIDFD_GET_INFO, Linux 6.15), also of other people's
 * children, reaped or not; -EAGAIN while it lives (or is another user's zombie), -ENOTSUP on older kernels. */
int proc_pidfd_exit_status(int pidfd, int *ret_wait_status);

/* Reads or writes another process's memory, running or not. Partial transfers are errors (-EIO, with the number of
 * bytes that could be read in *ret_done, which may be NULL). Writes go through read-only mappings (/proc/PID/mem) where
 * the kernel allows. */
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

/* The address range of a thread's stack: of the leader from [stack], of others the mapping that holds sp (0: unknown).
 */
int proc_stack_size(pid_t pid, pid_t tid, uint64_t *ret_bytes);

/* Nice value of one thread or all threads of a process. -EACCES when lowering needs a privilege: none is changed. */
int proc_set_nice(pid_t pid, pid_t tid, int nice);

#endif
