/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a node without scry is given: the programs of a node monitor, the libraries that it loads into processes, and the
 * extensions, as they are installed here, in one archive (ustar, POSIX.1-2017 pax). There it lies as after an installation:
 * libexec/scry, LIBDIR/scry, lib/scry/ext.
 */
#ifndef SCRY_LINK_NODE_PARCEL_H
#define SCRY_LINK_NODE_PARCEL_H

#include <limits.h>
#include <sys/types.h>

#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "base/data/err.h"

enum { PARCEL_FILES = 32, PARCEL_NAME_SIZE = 100, PARCEL_ID_SIZE = 64 };

struct parcel_file {
    char name[PARCEL_NAME_SIZE]; /* there, below the parcel's directory */
    char path[PATH_MAX];
    off_t size;
};

struct parcel {
    char id[PARCEL_ID_SIZE]; /* the version, and a hash of names, sizes and times: of another build it is another one */
    size_t count;
    struct parcel_file files[PARCEL_FILES];
};

/* Finds the files, and reads none. 0; -ENOENT with err: a program is missing here. The caller frees it. */
int parcel_find(struct parcel **ret_parcel, struct err *err);
void parcel_free(struct parcel *parcel);
DEFINE_FREEP(parcel, parcel_free)

/* Appends the archive. 0; -errno with err: a file cannot be read, or has changed. */
int parcel_pack(const struct parcel *parcel, struct buf *out, struct err *err);

#endif
