/* SPDX-License-Identifier: Apache-2.0 */
/*
 * May what lies at a path be run in the user's name? As sshd's StrictModes asks it of keys: only if nobody but the user
 * and root can change it, or put something else in its place.
 */
#ifndef SCRY_BASE_TRUSTED_H
#define SCRY_BASE_TRUSTED_H

#include <limits.h>
#include <sys/stat.h>

#include "base/err.h"

/* Goes from the root to `path`, directory by directory, each opened in the one before and looked at when it is open;
 * links are followed, and what they name is looked at likewise. Each directory, each link and the last one, a file of
 * `type` (S_IFREG, S_IFDIR), must belong to the user or root and must not be writable for group or others. A directory
 * on the way may be if it is sticky, as /tmp: nobody can rename there what is not his. Directories that the running
 * program itself lies in are not judged: who can change those can change the program.
 * *ret_path: the same without links. Only the user and root can make it mean something else from here on, so it may be
 * opened by that name. 0; -EPERM; -errno of what cannot be opened; both with err. */
int trusted_path(char ret_path[PATH_MAX], const char *path, mode_t type, struct err *err);

#endif
