/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small files of the job directory, which come in parts (doc/reference/broker.md, "file"), in any order and more than once.
 * A file is handed on when all of its parts are there. Sizes have limits: what others send must not fill the memory.
 */
#ifndef SCRY_BROKER_PARTS_H
#define SCRY_BROKER_PARTS_H

#include <stdint.h>

#include "base/data/buf.h"

struct parts_file;
struct parts {
    struct parts_file *files; /* hash by path */
    uint64_t held_bytes;      /* of files that are not whole */
    /* The same of all jobs of a process that follows many, which has a limit, too; NULL: none. */
    uint64_t *shared_bytes;
};

/* A whole file. Not 0: it is not taken, and the same may come again. */
typedef int parts_whole_fn(void *ctx, const char *path, int64_t version, struct span bytes);

/* Of a message `file`. 0: taken, or known already; -EBADMSG, -EFBIG, -ENOMEM, and what `whole` returned. */
int parts_take(struct parts *parts, struct span payload, parts_whole_fn *whole, void *ctx);
void parts_done(struct parts *parts);

#endif
