/* SPDX-License-Identifier: Apache-2.0 */
/* pidfds: signals that cannot hit a reused pid, and how somebody else's child ended (pidfd_open(2), ioctl_pidfd). */
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "probe/proc.h"
#include "base/system/proc_file.h"

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
static int ask(int pidfd, struct pidfd_info_v0 *info)
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
    int r = ask(pidfd, &info);
    if (r == 0 && !(info.mask & PIDFD_INFO_EXIT_BIT)) {
        int status, zombie = zombie_status(&info, &status);
        r = ask(pidfd, &info); /* waited for meanwhile: what was read may be of another with its number */
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
