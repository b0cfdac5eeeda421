/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a library may be brought into a process that runs, as far as that is seen from outside. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "probe/proc.h"
#include "base/system/proc_file.h"

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

static bool sees(pid_t pid, const char *path)
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
        if (!sees(pid, *files))
            return err_set(err, -EOPNOTSUPP, "nothing can be brought into process %d: it does not see the file %s", pid,
                           *files);
    return 0;
}
