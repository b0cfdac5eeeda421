/* SPDX-License-Identifier: Apache-2.0 */
#include "job/parts/await.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/dirs.h"
#include "base/system/process.h"

static const char NODE[] = "node ";

struct ends {
    int read, write;
};

static void close_ends(struct ends *ends)
{
    closep(&ends->read);
    closep(&ends->write);
}

static bool open_ends(struct ends *ends)
{
    int both[2];
    if (pipe2(both, O_CLOEXEC) < 0)
        return false;
    *ends = (struct ends){both[0], both[1]};
    return true;
}

const char *awaited_begin(struct awaited *awaited, char *line, size_t size)
{
    static char name[] = "scry-link", await[] = "await", *const argv[] = {name, await, NULL};
    char path[PATH_MAX];
    _cleanup_(close_ends) struct ends out = {-1, -1}, in = {-1, -1};
    struct err err = {0};
    *awaited = (struct awaited){0};
    if (dirs_libexec(name, path, sizeof path, &err) < 0 || !open_ends(&out) || !open_ends(&in))
        return NULL;
    struct spawn spawn = {
        .path = path, .argv = argv, .in = in.read, .out = out.write, .error = SPAWN_NULL, .group = SPAWN_OWN_SESSION};
    FILE *said = fdopen(out.read, "r");
    if (!said)
        return NULL;
    int said_fd = TAKE_FD(out.read); /* the stream's now */
    if (spawn_program(&spawn, &awaited->pid) < 0) {
        fclose(said);
        return NULL;
    }
    closep(&out.write); /* or its end would not be seen */
    out.write = -1;
    awaited->said = said;
    awaited->in = TAKE_FD(in.write);
    const char *value = fgets(line, (int)size, said) ? strchr(line, '=') : NULL;
    fcntl(said_fd, F_SETFL, O_NONBLOCK);
    return value ? value + 1 : NULL;
}

bool awaited_next(struct awaited *awaited, char *ret_token, size_t size)
{
    char line[300];
    while (awaited->said && fgets(line, sizeof line, awaited->said)) {
        line[strcspn(line, "\n")] = '\0';
        const char *token = line + sizeof NODE - 1;
        if (strncmp(line, NODE, sizeof NODE - 1) == 0 && (size_t)snprintf(ret_token, size, "%s", token) < size)
            return true;
    }
    if (awaited->said)
        clearerr(awaited->said); /* there is nothing yet */
    return false;
}

void awaited_end(struct awaited *awaited)
{
    if (!awaited->said)
        return;
    close(awaited->in);
    fclose(awaited->said);
    waitpid(awaited->pid, NULL, 0);
    *awaited = (struct awaited){0};
}
