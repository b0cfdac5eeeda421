/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/client/helper_process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

#include "base/dirs.h"

static int make_pipes(int in[2], int out[2], struct err *err)
{
    if (pipe2(in, O_CLOEXEC) < 0)
        return err_errno(err, -errno, "cannot make a pipe");
    if (pipe2(out, O_CLOEXEC) == 0)
        return 0;
    int code = err_errno(err, -errno, "cannot make a pipe");
    close(in[0]);
    close(in[1]);
    return code;
}

int helper_process_start(struct helper_process *ret_process, char *const argv[], struct err *err)
{
    char path[PATH_MAX];
    int in[2], out[2];
    int code = dirs_libexec("scry-symbols", path, sizeof path, err);
    if (code < 0 || (code = make_pipes(in, out, err)) < 0)
        return code;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    pid_t pid;
    code = -posix_spawn(&pid, path, &actions, &attributes, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    close(in[0]);
    close(out[1]);
    if (code < 0) {
        close(in[1]);
        close(out[0]);
        return err_errno(err, code, "cannot start %s", path);
    }
    fcntl(in[1], F_SETFL, O_NONBLOCK);
    fcntl(out[0], F_SETFL, O_NONBLOCK);
    *ret_process = (struct helper_process){pid, in[1], out[0]};
    return 0;
}
