/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What scry-symbols compiled for a request (symbols/client/helper.h), in memory and, in the same form, in the cache:
 * files beside the indexes, each of one ELF file, by its key, and one request. Plain code, no elfutils, safe on any
 * bytes.
 */
#ifndef SCRY_SYMBOLS_CLIENT_COMPILED_H
#define SCRY_SYMBOLS_CLIENT_COMPILED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/data/buf.h"
#include "base/data/err.h"
#include "symbols/client/helper_client.h"

#define COMPILED_ALL UINT64_MAX

struct compiled_item {
    uint32_t kind; /* enum helper_answer_kind: a layout, a site, params, a block */
    uint32_t site; /* enum helper_site */
    uint32_t id, size;
    uint64_t address;
    /* behind it: of a layout its text with its NUL, of the others the program, or the block */
};

/* Appends such an answer. */
void compiled_add(struct buf *items, const struct helper_answer *answer);
/* The next one, and what is behind it; *at is 0 at first. false: no more; *at is less than items->len if what comes
 * there is none. */
bool compiled_next(const struct buf *items, size_t *at, struct compiled_item *ret_item, const void **ret_bytes);

/* Of the file with that key (index_key()) and a request that is the same wherever that is mapped. -ENOENT; -EBADMSG:
 * damaged, of another version, or of another request: to be compiled again. */
int compiled_load(struct buf *ret_items, uint64_t *ret_functions, const char *key, const char *request,
                  struct err *err);
/* functions: of so many, in the order of the request, it is all there; or COMPILED_ALL. 0 or -errno. */
int compiled_store(const struct buf *items, uint64_t functions, const char *key, const char *request, struct err *err);
/* Takes the bytes of such a file apart. */
int compiled_read(struct buf *ret_items, uint64_t *ret_functions, const void *file, size_t size, const char *request,
                  struct err *err);

#endif
