/* SPDX-License-Identifier: Apache-2.0 */
/* What the writer of a trace knows of it: trace/write.c fills it, trace/write_files.c makes files of it. */
#ifndef SCRY_JOBDIR_TRACE_WRITE_INTERNAL_H
#define SCRY_JOBDIR_TRACE_WRITE_INTERNAL_H

#include <uthash.h>

#include "base/data/buf.h"
#include "jobdir/trace/ctf_metadata.h"
#include "jobdir/trace/write.h"

struct stream {
    int fd; /* -1: closed for now */
    bool busy;
    uint64_t bytes, time_end, packets, discarded;
    uint64_t used; /* when last, for the cache of descriptors */
};

struct function {
    uint32_t id; /* with RECORD_PLACE, a place */
    char *name;
    uint32_t of; /* a place's: its function, whose name it has; name NULL */
    UT_hash_handle hh;
};

struct layout_type {
    uint32_t id;
    enum ctf_role role;
    char *tsdl;
};

struct value {
    char *key, *text;
};

struct trace_writer {
    struct trace_identity identity;
    char *strings[4]; /* that identity points to */
    char *path;
    uint8_t uuid[16];
    struct stream *streams;
    uint32_t stream_count, open_files;
    size_t stream_cap;
    uint64_t uses, bytes;
    struct function *functions; /* hash by id, in the order in which they came */
    struct layout_type *layouts;
    size_t layout_count, layout_cap;
    struct value *values; /* problems among them */
    size_t value_count, value_cap;
    struct buf new_functions, new_places, new_layouts, new_modules; /* lines not yet in the files */
    uint64_t switches_bytes;
    bool switches_failed;
    bool metadata_stale, process_stale, ending;
    int failed; /* -errno: no packet is written any more */
    uint64_t metadata_bytes, metadata_ns;
};

/* A field of a line: tabs, newlines and backslashes are escaped. */
void trace_write_field(struct buf *out, const char *text);

#endif
