/* SPDX-License-Identifier: Apache-2.0 */
#include "base/system/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
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

static int add_descriptors(posix_spawn_file_actions_t *actions, const struct spawn *spawn)
{
    int first = spawn->kept ? SPAWN_KEPT_FD + 1 : SPAWN_KEPT_FD;
    int code = add_stream(actions, spawn->in, STDIN_FILENO);
    if (!code)
        code = add_stream(actions, spawn->out, STDOUT_FILENO);
    if (!code)
        code = add_stream(actions, spawn->error, STDERR_FILENO);
    if (!code && spawn->kept)
        code = posix_spawn_file_actions_adddup2(actions, spawn->kept, SPAWN_KEPT_FD);
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
    code = add_descriptors(&actions, spawn);
    if (!code)
        code = posix_spawn(ret_pid, spawn->path, &actions, &attributes, spawn->argv,
                           spawn->environment ? spawn->environment : environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return -code;
}
