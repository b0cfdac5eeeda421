/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_BASE_SYSTEM_DIRS_H
#define SCRY_BASE_SYSTEM_DIRS_H

#include "base/data/err.h"

#include <limits.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>

/*
 * Where scry keeps its files (XDG). Paths are written to a caller's buffer of PATH_MAX.
 */

/* The runtime directory (sockets, areas), created with mode 0700: $SCRY_RUNTIME_DIR, else $XDG_RUNTIME_DIR/scry. If
 * that is unset or unwritable, or a socket's path in it would exceed 107 bytes: /tmp/scry-UID, whose owner and mode are
 * checked, or, where somebody else has taken that, run-HOST in dirs_state. 0 or -errno with err. */
int dirs_runtime(char *ret_path, size_t size, struct err *err);
/* Makes it again at a path from dirs_runtime, if nothing is there; what is there must be as private. Does not make the
 * folder around it. 0 or -errno with err. */
int dirs_runtime_again(const char *path, struct err *err);

/* The monitor's socket for agents: "agent.sock" in the runtime directory. 0 or -errno with err. */
int dirs_agent_socket(char *ret_path, size_t size, struct err *err);

/* The directory of job directories: $SCRY_STATE_DIR, else $XDG_STATE_HOME/scry/jobs or ~/.local/state/scry/jobs.
 * dirs_jobs makes it; dirs_jobs_find only returns the path. 0 or -errno with err. */
int dirs_jobs(char *ret_path, size_t size, struct err *err);
int dirs_jobs_find(char *ret_path, size_t size, struct err *err);

/* Settings and keys of the user: $XDG_CONFIG_HOME/scry or ~/.config/scry; and what else outlives a program:
 * $XDG_STATE_HOME/scry or ~/.local/state/scry. They are not made. 0 or -errno with err. */
int dirs_config(char *ret_path, size_t size, struct err *err);
int dirs_state(char *ret_path, size_t size, struct err *err);
/* What can be made again: NAME ("symbols", "mirrors") in $SCRY_CACHE_DIR/scry, $XDG_CACHE_HOME/scry or ~/.cache/scry. Always in a
 * `scry`: what is there is removed when it is old, so nothing of the user's may be. It is not made. 0 or -errno with err. */
int dirs_cache(const char *name, char *ret_path, size_t size, struct err *err);

/* Finds `name` among scry's own programs (scry-monitor, scry-tracer, scry-symbols): in $SCRY_LIBEXEC, else in
 * ../libexec/scry beside the running program's directory, else in that directory, else in the compiled-in place. */
int dirs_libexec(const char *name, char *ret_path, size_t size, struct err *err);

/* Extension directories searched in order: $SCRY_EXT_PATH (colon-separated), then LIBDIR/scry/ext beside the program.
 * Calls fn for each one that exists. */
void dirs_extensions(void (*fn)(void *ctx, const char *dir), void *ctx);

int dirs_make(const char *path, mode_t mode); /* mkdir -p; 0 or -errno */

/*
 * May the file at a path be run in the user's name? Only if nobody but the user and root can change or replace it (like
 * StrictModes of sshd).
 */

/* Walks from the root to `path`, and opens each directory in the one before. Links are followed and checked likewise.
 * Every directory, every link and the file of `type` (S_IFREG, S_IFDIR) must belong to the user or root, and must not
 * be writable for group or others. A sticky directory on the way, such as /tmp, may be writable: nobody can rename
 * another's files there. Directories that contain the running program are not checked: whoever can change them can
 * change the program.
 *
 * *ret_path is the path without links. From here on only the user and root can change its meaning, so it may be opened
 * by name. 0; -EPERM; -errno of what cannot be opened; both with err. */
int trusted_path(char ret_path[PATH_MAX], const char *path, mode_t type, struct err *err);

#endif
