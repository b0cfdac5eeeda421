/* SPDX-License-Identifier: Apache-2.0 */
/* What a process did not get from the file that it executes: its user, its group, or its capabilities. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>

#include <endian.h>
#include <linux/capability.h>

#include "probe/proc.h"
#include "base/system/proc_file.h"

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
