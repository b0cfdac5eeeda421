/* SPDX-License-Identifier: Apache-2.0 */
#include "base/system/process.h"

#include "base/data/cleanup.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* 0 or a number of errno, as all of posix_spawn's functions. */
static int add_stream(posix_spawn_file_actions_t *actions, int fd, int number)
{
    if (fd == SPAWN_SAME)
        return 0;
    if (fd == SPAWN_NULL)
        return posix_spawn_file_actions_addopen(actions, number, "/dev/null", number ? O_WRONLY : O_RDONLY, 0);
    return posix_spawn_file_actions_adddup2(actions, fd, number);
}

static int add_actions(posix_spawn_file_actions_t *actions, const struct spawn *spawn)
{
    int first = spawn->kept ? SPAWN_KEPT_FD + 1 : SPAWN_KEPT_FD;
    int code = add_stream(actions, spawn->in, STDIN_FILENO);
    if (!code)
        code = add_stream(actions, spawn->out, STDOUT_FILENO);
    if (!code)
        code = add_stream(actions, spawn->error, STDERR_FILENO);
    if (!code && spawn->kept)
        code = posix_spawn_file_actions_adddup2(actions, spawn->kept, SPAWN_KEPT_FD);
    if (!code && spawn->directory)
        code = posix_spawn_file_actions_addchdir_np(actions, spawn->directory);
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 34)
    if (!code)
        code = posix_spawn_file_actions_addclosefrom_np(actions, first);
#else
    (void)first; /* our own descriptors are all O_CLOEXEC */
#endif
    return code;
}

static void set_attributes(posix_spawnattr_t *attributes, enum spawn_group group)
{
    static const short flags[] = {
        [SPAWN_OWN_GROUP] = POSIX_SPAWN_SETPGROUP, [SPAWN_OWN_SESSION] = POSIX_SPAWN_SETSID, [SPAWN_SAME_GROUP] = 0};
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(attributes, &none);
    posix_spawnattr_setsigdefault(attributes, &all);
    posix_spawnattr_setflags(attributes, (short)(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | flags[group]));
}

int spawn_program(const struct spawn *spawn, pid_t *ret_pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int code = posix_spawn_file_actions_init(&actions);
    if (code)
        return -code;
    code = posix_spawnattr_init(&attributes);
    if (code) {
        posix_spawn_file_actions_destroy(&actions);
        return -code;
    }
    set_attributes(&attributes, spawn->group);
    code = add_actions(&actions, spawn);
    if (!code)
        code = posix_spawn(ret_pid, spawn->path, &actions, &attributes, spawn->argv,
                           spawn->environment ? spawn->environment : environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return -code;
}

bool process_signal_is_for_all(int signo)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGQUIT, SIGKILL, SIGSTOP, SIGTSTP, SIGCONT};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (signals[i] == signo)
            return true;
    return false;
}

bool process_is_scrys(const char *name)
{
    static const char *const names[] = {"scry",
                                        TRACER_PROCESS_NAME,
                                        GUARD_PROCESS_NAME,
                                        WITNESS_PROCESS_NAME,
                                        WRITER_PROCESS_NAME,
                                        OBSERVER_PROCESS_NAME,
                                        PUBLISHER_PROCESS_NAME,
                                        PROFILE_PROCESS_NAME,
                                        PARTS_PROCESS_NAME,
                                        RELAY_PROCESS_NAME,
                                        STANDBY_PROCESS_NAME,
                                        KEEPER_PROCESS_NAME,
                                        TERMINAL_PROCESS_NAME};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return strncmp(name, "scry-", strlen("scry-")) == 0;
}

/* [0] is our end. The program's is above its streams: none gets into another's way. */
static int pipe_make(int ret_ends[2], bool program_reads)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    int theirs = fcntl(ends[!program_reads], F_DUPFD_CLOEXEC, SPAWN_KEPT_FD), code = theirs < 0 ? -errno : 0;
    close(ends[!program_reads]);
    if (code < 0)
        close(ends[program_reads]);
    else
        ret_ends[0] = ends[program_reads], ret_ends[1] = theirs;
    return code;
}

int spawn_piped(const struct spawn *spawn, pid_t *ret_pid, int ret_ends[3])
{
    struct spawn with = *spawn;
    int *const streams[] = {&with.in, &with.out, &with.error}, code = 0;
    for (int number = 0; number < 3; number++) {
        int ends[2] = {-1, -1};
        ret_ends[number] = -1;
        if (*streams[number] != SPAWN_PIPE || code < 0 || (code = pipe_make(ends, number == STDIN_FILENO)) < 0)
            continue;
        ret_ends[number] = ends[0];
        *streams[number] = ends[1];
    }
    if (code == 0)
        code = spawn_program(&with, ret_pid);
    for (int number = 0; number < 3; number++) {
        if (ret_ends[number] < 0)
            continue;
        close(*streams[number]);
        if (code < 0) {
            close(ret_ends[number]);
            ret_ends[number] = -1;
        }
    }
    return code;
}

int spawn_detached(const struct spawn *spawn, int nice_by)
{
    pid_t child = fork(), program;
    if (child < 0)
        return -errno;
    if (child == 0) {
        struct spawn with = *spawn;
        with.group = SPAWN_OWN_SESSION;
        with.directory = "/";
        umask(077);
        if (nice_by && nice(nice_by) == -1)
            errno = 0; /* then without */
        _exit(-spawn_program(&with, &program));
    }
    int status = child_reap(child);
    return WIFEXITED(status) ? -WEXITSTATUS(status) : -EIO;
}

int child_reap(pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return status;
}

const char *user_name(uid_t uid, char *ret_name, size_t size)
{
    const struct passwd *entry = getpwuid(uid);
    if (entry && *entry->pw_name)
        snprintf(ret_name, size, "%s", entry->pw_name);
    else
        snprintf(ret_name, size, "%u", (unsigned)uid);
    return ret_name;
}

static bool try_library(char *ret_path, int size, const char *dir, const char *below)
{
    char path[PATH_MAX + 128], real[PATH_MAX];
    snprintf(path, sizeof path, "%s%s/%s", dir, below, AGENT_LIBRARY);
    return realpath(path, real) && access(real, R_OK) == 0 && snprintf(ret_path, (size_t)size, "%s", real) < size;
}

/* The loader would complain in every process of the job, and go on without it. */
static bool is_library(const char *path)
{
    Elf64_Ehdr header;
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    return fd >= 0 && read(fd, &header, sizeof header) == sizeof header &&
           memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_ident[EI_CLASS] == ELFCLASS64 &&
           header.e_type == ET_DYN;
}

int agent_library(char *ret_path, int size, struct err *err)
{
    static const char *const beside[] = {"/../" SCRY_LIBDIR_NAME "/scry", "/../lib/scry",
                                         "/../../" SCRY_LIBDIR_NAME "/scry" /* from libexec */,
                                         "/../agent" /* as built */};
    const char *own = getenv("SCRY_AGENT_LIB");
    char here[PATH_MAX], real[PATH_MAX];
    if (own && *own) {
        if (!realpath(own, real) || access(real, R_OK) < 0)
            return err_set(err, -ENOENT, "SCRY_AGENT_LIB is %s, which cannot be read: correct it", own);
        if (!is_library(real))
            return err_set(err, -EINVAL, "SCRY_AGENT_LIB is %s, which is no shared library: correct it", own);
        return snprintf(ret_path, (size_t)size, "%s", real) < size ? 0
                                                                   : err_set(err, -ENAMETOOLONG, "%s: too long", own);
    }
    ssize_t len = readlink("/proc/self/exe", here, sizeof here - 1);
    here[len < 0 ? 0 : len] = 0;
    char *slash = strrchr(here, '/');
    if (slash)
        *slash = 0;
    for (size_t i = 0; slash && i < sizeof beside / sizeof *beside; i++)
        if (try_library(ret_path, size, here, beside[i]))
            return 0;
    if (try_library(ret_path, size, SCRY_LIBDIR "/scry", ""))
        return 0;
    return err_set(
        err, -ENOENT,
        "no functions are traced, because the library %s is missing: install scry again, or set SCRY_AGENT_LIB",
        AGENT_LIBRARY);
}

static bool has_mpi(const char *dir)
{
    static const char *const names[] = {"libscry-mpi-openmpi.so", "libscry-mpi-mpich.so"};
    char path[PATH_MAX + 64];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (snprintf(path, sizeof path, "%s/%s", dir, names[i]) < PATH_MAX && access(path, R_OK) == 0)
            return true;
    return false;
}

/* A machine may have them for one MPI only. */
void agent_library_mpi(char ret_dir[PATH_MAX], const char *library)
{
    const char *own = getenv("SCRY_MPI_DIR"), *slash = strrchr(library, '/');
    char beside[PATH_MAX], built[PATH_MAX + 16];
    snprintf(beside, sizeof beside, "%.*s", slash ? (int)(slash - library) : 0, library);
    snprintf(built, sizeof built, "%s/../mpi", beside);
    const char *const dirs[] = {own ? own : "", beside, built};
    for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++)
        if (*dirs[i] && has_mpi(dirs[i]) && realpath(dirs[i], ret_dir))
            return;
    ret_dir[0] = 0;
}
