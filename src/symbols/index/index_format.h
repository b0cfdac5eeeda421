/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside symbols: the index file. Header, functions by address, names by hash, strings; in the machine's own byte order
 * (another's is foreign by its version). It is written to a temporary file and renamed, never changed. The reader
 * checks offsets and counts when it opens, and each string's place when it hands it out, so opening costs the same
 * whatever the size.
 */
#ifndef SCRY_SYMBOLS_INDEX_INDEX_FORMAT_H
#define SCRY_SYMBOLS_INDEX_INDEX_FORMAT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/data/err.h"
#include "symbols/index/index.h"

#define INDEX_MAGIC "scryindx"
enum { INDEX_VERSION = 7, INDEX_DEBUG_PATHS = 8 };

struct index_header {
    char magic[8];
    uint32_t version, flags;
    uint64_t file_size;
    uint64_t functions_at, names_at, strings_at, strings_size;
    uint32_t function_count, name_count;
    uint32_t key, problem; /* strings */
    /* where separate debug information would lie that was not there, or was of no use: if it comes, or is changed, the
     * index is built again */
    uint32_t debug_paths[INDEX_DEBUG_PATHS]; /* strings; 0: none */
    uint64_t debug_state[INDEX_DEBUG_PATHS]; /* index_file_state() of what was there; 0: nothing */
    /* Hundreds of megabytes take seconds to the disk. Until they are known to be there, only who has the boot in which
     * they were written takes them as they are; another one, also another node with the same file system, adds up the
     * sum. */
    uint64_t boot; /* index_boot() then */
    uint64_t sum;  /* of all behind the header */
    uint32_t on_disk, reserved;
};

struct index_row {
    uint64_t address, die;
    uint32_t size, line;
    uint32_t name, full, linkage, file; /* strings: offsets from strings_at, NUL-terminated; 0 is "" */
};

/* Names and linkage names; and behind "::" what name_short() makes of them. Sorted by hash, then row. */
struct index_name {
    uint32_t hash, row, name;
};

uint32_t index_hash(const char *name);
/* Tells the boots of this machine, and machines, apart; 0: not known. */
uint64_t index_boot(void);

/* The cache directory; `make` creates it, 0700. 0 or -errno. */
int index_directory(char *ret_path, size_t size, bool make, struct err *err);
int index_file_path(char *ret_path, size_t size, const char *key, bool make, struct err *err);

/* Takes an index from an open file. key NULL: any. -EBADMSG. */
int index_map(struct index **ret_index, int fd, const char *name, const char *key, struct err *err);

/* A number that changes with a file: when its status was changed, and which file it is; 0: it is not there. */
uint64_t index_file_state(const char *path);

#endif
