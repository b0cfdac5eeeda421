/* SPDX-License-Identifier: Apache-2.0 */
/*
 * May the file at a path be run in the user's name? Only if nobody but the user and root can change or replace it (like
 * StrictModes of sshd).
 */
#ifndef SCRY_BASE_SYSTEM_TRUSTED_H
#define SCRY_BASE_SYSTEM_TRUSTED_H

#include <limits.h>
#include <sys/stat.h>

#include "base/data/err.h"

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
