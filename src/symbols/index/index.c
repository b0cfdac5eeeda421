/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and reading an index: maps the file and trusts nothing in it. */
#include "symbols/index/index.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "base/data/hash.h"
#include "base/system/dirs.h"
#include "symbols/index/index_format.h"

enum { NESTING = 16 }; /* symbols that lie inside a longer one, looked at from the inner ones outward */

struct index {
    const char *bytes;
    size_t size;
    struct index_header header; /* a copy: what was checked stays checked */
    const struct index_row *rows;
    const struct index_name *names;
    const char *strings;
};

uint32_t index_hash(const char *name)
{
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 16777619u;
    return hash;
}

uint64_t index_boot(void)
{
    char id[64];
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */
    _cleanup_(closep) int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? -1 : read(fd, id, sizeof id);
    for (ssize_t i = 0; i < len; i++)
        hash = (hash ^ (unsigned char)id[i]) * UINT64_C(1099511628211);
    return len > 0 ? hash : 0;
}

/* ---- where they are ---- */
int index_directory(char *ret_path, size_t size, bool make, struct err *err)
{
    int r = dirs_cache("symbols", ret_path, size, err);
    if (r == 0 && make && (r = dirs_make(ret_path, 0700)) < 0)
        err_errno(err, r, "cannot make the symbol cache %s", ret_path);
    return r;
}

int index_file_path(char *ret_path, size_t size, const char *key, bool make, struct err *err)
{
    char directory[PATH_MAX];
    if (!*key || strchr(key, '/') || strlen(key) >= INDEX_KEY_SIZE)
        return err_set(err, -EINVAL, "'%.100s' is no key of a symbol index", key);
    int r = index_directory(directory, sizeof directory, make, err);
    if (r == 0 && (size_t)snprintf(ret_path, size, "%s/%s.%d", directory, key, INDEX_VERSION) >= size)
        r = err_set(err, -ENAMETOOLONG, "the path of the symbol cache is too long: set SCRY_CACHE_DIR");
    return r;
}

/* ---- opening ---- */
static bool holds(uint64_t size, uint64_t at, uint64_t count, uint64_t each)
{
    return at % 4 == 0 && at <= size && count <= (size - at) / each;
}

static const char *string_at(const struct index *index, uint32_t at)
{
    return at < index->header.strings_size ? index->strings + at : "";
}

static bool index_check(struct index *index)
{
    struct index_header *h = &index->header;
    if (index->size < sizeof *h)
        return false;
    memcpy(h, index->bytes, sizeof *h);
    if (memcmp(h->magic, INDEX_MAGIC, sizeof h->magic) != 0 || h->version != INDEX_VERSION ||
        h->file_size != index->size || h->functions_at % 8 != 0 ||
        !holds(index->size, h->functions_at, h->function_count, sizeof *index->rows) ||
        !holds(index->size, h->names_at, h->name_count, sizeof *index->names) || h->strings_size == 0 ||
        !holds(index->size, h->strings_at, h->strings_size, 1))
        return false;
    if (!h->on_disk && (h->boot == 0 || h->boot != index_boot()) &&
        sum_add(0, index->bytes + sizeof *h, index->size - sizeof *h) != h->sum)
        return false;
    index->rows = (const void *)(index->bytes + h->functions_at);
    index->names = (const void *)(index->bytes + h->names_at);
    index->strings = index->bytes + h->strings_at;
    return index->strings[0] == 0 && index->strings[h->strings_size - 1] == 0;
}

int index_map(struct index **ret_index, int fd, const char *name, const char *key, struct err *err)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return err_errno(err, -errno, "%s", name);
    if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size < sizeof(struct index_header))
        return err_set(err, -EBADMSG, "%s is no symbol index, or was cut off: it has to be built again", name);
    struct index *index = calloc(1, sizeof *index);
    if (!index)
        return err_set(err, -ENOMEM, "out of memory for a symbol index");
    index->size = (size_t)st.st_size;
    void *bytes = mmap(NULL, index->size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED) {
        int r = err_errno(err, -errno, "cannot map the symbol index %s", name);
        free(index);
        return r;
    }
    index->bytes = bytes;
    if (!index_check(index) || (key && strcmp(string_at(index, index->header.key), key) != 0)) {
        index_close(index);
        return err_set(err, -EBADMSG, "%s is damaged, or the index of something else: it has to be built again", name);
    }
    *ret_index = index;
    return 0;
}

int index_open_file(struct index **ret_index, const char *path, const char *key, struct err *err)
{
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return err_errno(err, -errno, "the symbol index %s", path);
    return index_map(ret_index, fd, path, key, err);
}

uint64_t index_file_state(const char *path)
{
    struct stat st;
    if (stat(path, &st) < 0)
        return 0;
    /* a clock of the kernel's ticks: within one of them, another file has another number */
    return ((uint64_t)st.st_ctim.tv_sec * 1000000000 + (uint64_t)st.st_ctim.tv_nsec) ^ (uint64_t)st.st_ino << 40;
}

/* Debug information came after an index had to be built without. */
static bool is_outdated(const struct index *index)
{
    for (size_t i = 0; i < INDEX_DEBUG_PATHS; i++) {
        const char *path = string_at(index, index->header.debug_paths[i]);
        uint64_t state = *path ? index_file_state(path) : 0;
        if (state && state != index->header.debug_state[i])
            return true;
    }
    return false;
}

int index_open_key(struct index **ret_index, const char *key, struct err *err)
{
    char path[PATH_MAX];
    struct index *index;
    int r = index_file_path(path, sizeof path, key, false, err);
    if (r == 0)
        r = index_open_file(&index, path, key, err);
    if (r < 0)
        return r;
    if (is_outdated(index)) {
        index_close(index);
        return err_set(err, -ENOENT, "the symbol index %s was built without the debug information there is now", path);
    }
    *ret_index = index;
    return 0;
}

int index_open(struct index **ret_index, const char *elf_path, struct err *err)
{
    char key[INDEX_KEY_SIZE];
    int r = index_key(elf_path, key, err);
    return r < 0 ? r : index_open_key(ret_index, key, err);
}

void index_close(struct index *index)
{
    if (!index)
        return;
    munmap((void *)index->bytes, index->size);
    free(index);
}

/* ---- reading ---- */
unsigned index_flags(const struct index *index)
{
    return index->header.flags;
}

const char *index_problem(const struct index *index)
{
    return string_at(index, index->header.problem);
}

size_t index_count(const struct index *index)
{
    return index->header.function_count;
}

void index_at(const struct index *index, size_t i, struct index_function *ret_function)
{
    if (i >= index->header.function_count) {
        *ret_function = (struct index_function){.name = "", .full = "", .linkage = "", .file = ""};
        return;
    }
    struct index_row row = index->rows[i];
    *ret_function = (struct index_function){
        .address = row.address,
        .size = row.size,
        .name = string_at(index, row.name),
        .full = string_at(index, row.full),
        .linkage = string_at(index, row.linkage),
        .file = string_at(index, row.file),
        .line = row.line,
        .die = row.die,
    };
}

bool index_find(const struct index *index, uint64_t address, struct index_function *ret_function)
{

    size_t low = COUNT_BEFORE(index->header.function_count, i, index->rows[i].address <= address);
    for (size_t i = low; i > 0 && low - i < NESTING; i--)
        if (address - index->rows[i - 1].address < index->rows[i - 1].size) {
            index_at(index, i - 1, ret_function);
            return true;
        }
    return false;
}

bool index_next_named(const struct index *index, const char *name, size_t *cursor, size_t *ret_i)
{
    uint32_t hash = index_hash(name);
    size_t at = *cursor ? *cursor : COUNT_BEFORE(index->header.name_count, i, index->names[i].hash < hash);
    uint32_t last = *cursor ? index->names[at - 1].row : UINT32_MAX;
    for (; at < index->header.name_count && index->names[at].hash == hash; at++) {
        struct index_name entry = index->names[at];
        if (entry.row == last || entry.row >= index->header.function_count ||
            strcmp(string_at(index, entry.name), name) != 0)
            continue;
        *cursor = at + 1;
        *ret_i = entry.row;
        return true;
    }
    return false;
}

size_t index_find_name(const struct index *index, const char *name, struct index_function *ret_first)
{
    size_t cursor = 0, i, found = 0;
    while (index_next_named(index, name, &cursor, &i))
        if (found++ == 0)
            index_at(index, i, ret_first);
    return found;
}
