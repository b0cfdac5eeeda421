/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of mirrors share. */
#ifndef SCRY_JOBDIR_RECORD_MIRROR_INTERNAL_H
#define SCRY_JOBDIR_RECORD_MIRROR_INTERNAL_H

#include <stdbool.h>

#include "base/data/err.h"

/* Locks the mirror in an existing directory, and marks it as used. The lock ends when *ret_fd is closed. 0,
 * -EWOULDBLOCK, -errno. */
int mirror_lock(const char *path, int *ret_fd, struct err *err);
/* Removes mirrors that nobody used for 30 days. Looks for some once an hour. */
void mirrors_remove_unused(void);

/* Whether a directory, named without links, lies where mirrors are kept. */
bool mirror_is_kept(const char *real_path);

#endif
