/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts another program (posix_spawn) with signals as a fresh process has them: none is blocked, none is ignored. It gets
 * no descriptors but those named here.
 */
#ifndef SCRY_BASE_SPAWN_H
#define SCRY_BASE_SPAWN_H

#include <sys/types.h>

enum { SPAWN_NULL = -1, SPAWN_SAME = -2 }; /* instead of a descriptor: /dev/null; the caller's own of that number */
enum { SPAWN_KEPT_FD = 3 };                /* the number that `kept` has in the program */

enum spawn_group {
    SPAWN_SAME_GROUP,
    SPAWN_OWN_GROUP,   /* Ctrl-C is not for it */
    SPAWN_OWN_SESSION, /* nor does the terminal end it */
};

struct spawn {
    const char *path;
    char *const *argv;
    char *const *environment; /* NULL: the caller's */
    int in, out, error;       /* from 3 on, unless two of them cannot get into each other's way */
    int kept;                 /* 0: none */
    enum spawn_group group;
};

/* 0 or -errno: the program could not be executed, for example. Whoever calls waits for *ret_pid. In threads, too. */
int spawn_program(const struct spawn *spawn, pid_t *ret_pid);

#endif
