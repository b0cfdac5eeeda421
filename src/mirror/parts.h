/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small files of the job directory, which come in parts (doc/reference/broker.md, "file"), in any order and more than once.
 * A file is written when all of its parts are there. Sizes have limits: what others send must not fill the memory.
 */
#ifndef SCRY_MIRROR_PARTS_H
#define SCRY_MIRROR_PARTS_H

#include <stdint.h>

#include "base/data/buf.h"
#include "base/data/span.h"
#include "jobdir/record/mirror.h"

struct parts_file;
struct parts {
    struct parts_file *files; /* hash by path */
    uint64_t held_bytes;      /* of files that are not whole */
};

/* Of a message `file`. 0: taken, or known already; -EBADMSG, -EINVAL (its name), -EFBIG, and errors of the disk. */
int parts_take(struct parts *parts, struct mirror *mirror, struct span payload);
void parts_done(struct parts *parts);

#endif
