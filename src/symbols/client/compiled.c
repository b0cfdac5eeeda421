/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/client/compiled.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/data/sum.h"
#include "base/system/file.h"
#include "symbols/index/index_format.h"

#define COMPILED_MAGIC "scrycapt"
enum { COMPILED_VERSION = 11, COMPILED_LIMIT = 64 << 20 };

struct compiled_head { /* then the request, and the items */
    char magic[8];
    char scry[24]; /* what another version compiles may be better */
    uint64_t version;
    uint64_t functions;
    uint64_t request_size, items_size;
    uint64_t sum; /* of both: a crash of the machine may leave any part unwritten */
};

/* ---- items ---- */

void compiled_add(struct buf *items, const struct helper_answer *answer)
{
    bool layout = answer->kind == HELPER_LAYOUT;
    size_t size = layout ? strlen(answer->text) + 1 : answer->code_size;
    struct compiled_item item = {.kind = (uint32_t)answer->kind,
                                 .site = (uint32_t)answer->site,
                                 .id = answer->id,
                                 .size = (uint32_t)size,
                                 .address = answer->address};
    buf_append(items, &item, sizeof item);
    buf_append(items, layout ? (const void *)answer->text : answer->code, size);
}

bool compiled_next(const struct buf *items, size_t *at, struct compiled_item *ret_item, const void **ret_bytes)
{
    struct compiled_item item;
    if (items->len - *at < sizeof item)
        return false;
    memcpy(&item, items->data + *at, sizeof item);
    const char *bytes = items->data + *at + sizeof item;
    bool layout = item.kind == HELPER_LAYOUT;
    bool program = item.kind == HELPER_SITE || item.kind == HELPER_PARAMS;
    if ((!layout && !program && item.kind != HELPER_BLOCK) || item.site > HELPER_UNWIND ||
        item.size > items->len - *at - sizeof item ||
        (layout && (!item.size || memchr(bytes, 0, item.size) != bytes + item.size - 1)))
        return false;
    *at += sizeof item + item.size;
    *ret_item = item;
    *ret_bytes = bytes;
    return true;
}

/* ---- files ---- */

static int file_path(char *ret_path, size_t size, const char *key, const char *request, bool make, struct err *err)
{
    char directory[PATH_MAX];
    if (!*key || strchr(key, '/') || strlen(key) >= INDEX_KEY_SIZE)
        return err_set(err, -EINVAL, "'%.100s' is no key of a symbol index", key);
    int r = index_directory(directory, sizeof directory, make, err);
    if (r == 0 && (size_t)snprintf(ret_path, size, "%s/%s-%016" PRIx64 ".captures", directory, key,
                                   sum_add(0, request, strlen(request))) >= size)
        r = err_set(err, -ENAMETOOLONG, "the path of the symbol cache is too long: set SCRY_CACHE_DIR");
    return r;
}

static struct compiled_head head_of(const struct buf *items, uint64_t functions, const char *request)
{
    struct compiled_head head = {.magic = COMPILED_MAGIC,
                                 .version = COMPILED_VERSION,
                                 .functions = functions,
                                 .request_size = strlen(request),
                                 .items_size = items->len};
    snprintf(head.scry, sizeof head.scry, "%s", SCRY_VERSION);
    head.sum = sum_add(sum_add(functions, request, head.request_size), items->data, items->len);
    return head;
}

int compiled_read(struct buf *ret_items, uint64_t *ret_functions, const void *file, size_t size, const char *request,
                  struct err *err)
{
    struct compiled_head head, right;
    struct compiled_item item;
    const void *bytes;
    size_t request_size = strlen(request), at = 0;
    bool good = size >= sizeof head && size - sizeof head >= request_size &&
                memcmp((const char *)file + sizeof head, request, request_size) == 0;
    if (good) {
        memcpy(&head, file, sizeof head);
        /* as the caller's: nothing is copied before it is known to be whole */
        struct buf items = {.data = (char *)(uintptr_t)file + sizeof head + request_size,
                            .len = size - sizeof head - request_size};
        right = head_of(&items, head.functions, request);
        good = memcmp(&head, &right, sizeof head) == 0;
        while (good && at < items.len)
            good = compiled_next(&items, &at, &item, &bytes);
        if (good)
            buf_append(ret_items, items.data, items.len);
        *ret_functions = head.functions;
    }
    if (ret_items->failed)
        return err_set(err, -ENOMEM, "out of memory");
    return good ? 0 : err_set(err, -EBADMSG, "damaged, or of another version: it has to be compiled again");
}

int compiled_load(struct buf *ret_items, uint64_t *ret_functions, const char *key, const char *request, struct err *err)
{
    char path[PATH_MAX];
    struct stat st;
    int r = file_path(path, sizeof path, key, request, false, err);
    if (r < 0)
        return r;
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_errno(err, -errno, "%s", path);
    _cleanup_(buf_done) struct buf file = BUF_INIT;
    size_t size = S_ISREG(st.st_mode) && st.st_size <= COMPILED_LIMIT ? (size_t)st.st_size : 0;
    char *to = buf_reserve(&file, size + 1);
    if (!to)
        return err_set(err, -ENOMEM, "out of memory");
    ssize_t got = 1;
    while (file.len < size && (got = read(fd, to + file.len, size - file.len)) > 0)
        file.len += (size_t)got;
    return compiled_read(ret_items, ret_functions, file.data, file.len, request, err);
}

int compiled_store(const struct buf *items, uint64_t functions, const char *key, const char *request, struct err *err)
{
    char path[PATH_MAX];
    struct compiled_head head = head_of(items, functions, request);
    const struct iovec parts[] = {
        {&head, sizeof head}, {(void *)(uintptr_t)request, head.request_size}, {items->data, items->len}};
    if (head.request_size + items->len > COMPILED_LIMIT - sizeof head)
        return err_set(err, -E2BIG, "too much for the symbol cache");
    int r = file_path(path, sizeof path, key, request, true, err);
    return r < 0 ? r : cache_file_write(path, parts, sizeof parts / sizeof *parts, CACHE_MOST_BYTES, NULL, NULL, err);
}
