/* SPDX-License-Identifier: Apache-2.0 */
/* What the building of an index collects, and the image made of it. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "base/data/sum.h"
#include "symbols/index/index_build.h"
#include "symbols/index/selection_glob.h"

enum { PROBLEMS_LIMIT = 2000 };

struct interned {
    UT_hash_handle hh;
    uint32_t at;
    char key[];
};

struct text {
    struct text *next;
    char bytes[];
};

static void free_interned(struct interned **table)
{
    struct interned *entry, *next;
    HASH_ITER(hh, *table, entry, next)
    {
        HASH_DEL(*table, entry);
        free(entry);
    }
}

void builder_done(struct builder *builder)
{
    free(builder->functions);
    free(builder->aliases);
    buf_done(&builder->strings);
    buf_done(&builder->problems);
    free_interned(&builder->interned);
    free_interned(&builder->paths);
    for (struct text *text = builder->texts, *next; text; text = next) {
        next = text->next;
        free(text);
    }
    *builder = (struct builder){0};
}

/* ---- collecting ---- */
struct built_function *builder_add(struct builder *builder)
{
    if (!GROW(builder->functions, builder->count, builder->room)) {
        builder->failed = true;
        return NULL;
    }
    struct built_function *function = &builder->functions[builder->count++];
    *function = (struct built_function){.linkage = ""};
    return function;
}

void builder_add_alias(struct builder *builder, uint64_t address, const char *name)
{
    if (GROW(builder->aliases, builder->alias_count, builder->alias_room))
        builder->aliases[builder->alias_count++] = (struct built_alias){address, name};
    else
        builder->failed = true;
}

static struct interned *remember(struct builder *builder, struct interned **table, const char *key, size_t len,
                                 uint32_t at)
{
    struct interned *entry = malloc(sizeof *entry + len + 1);
    if (!entry) {
        builder->failed = true;
        return NULL;
    }
    entry->at = at;
    memcpy(entry->key, key, len + 1);
    HASH_ADD(hh, *table, key[0], len, entry);
    return entry;
}

static uint32_t add_string(struct builder *builder, const char *string, size_t len)
{
    if (builder->strings.len + len + 1 > UINT32_MAX) { /* with 4 GB of names the rest has none */
        builder_problem(builder, "it has more than 4 GB of names");
        return 0;
    }
    uint32_t at = (uint32_t)builder->strings.len;
    buf_append(&builder->strings, string, len + 1);
    return at;
}

uint32_t builder_intern(struct builder *builder, const char *string)
{
    size_t len = strlen(string);
    struct interned *entry;
    if (!len)
        return 0;
    HASH_FIND(hh, builder->interned, string, len, entry);
    if (!entry)
        entry = remember(builder, &builder->interned, string, len, add_string(builder, string, len));
    return entry ? entry->at : 0;
}

/* Takes out "/./", "//" and "/x/..", by the text alone: to ask the file system could wait for a dead server. */
static void clean_path(char *path)
{
    char *to = path, *root = path;
    if (*path == '/')
        root = ++to;
    for (char *from = to; *from;) {
        size_t len = strcspn(from, "/");
        char *next = from + len + (from[len] == '/');
        bool up = len == 2 && memcmp(from, "..", 2) == 0;
        if (up && to > root && !(to - root >= 3 && memcmp(to - 3, "../", 3) == 0)) {
            do
                to--;
            while (to > root && to[-1] != '/');
        } else if (len && !(len == 1 && *from == '.') && !(up && root > path)) {
            bool slash = from[len] == '/';
            memmove(to, from, len);
            to += len;
            if (slash)
                *to++ = '/';
        }
        from = next;
    }
    *to = 0;
}

uint32_t builder_intern_path(struct builder *builder, const char *path)
{
    size_t len = strlen(path);
    struct interned *entry;
    HASH_FIND(hh, builder->paths, path, len, entry);
    if (entry)
        return entry->at;
    _cleanup_(freep) char *clean = strdup(path);
    if (!clean) {
        builder->failed = true;
        return 0;
    }
    clean_path(clean);
    entry = remember(builder, &builder->paths, path, len, builder_intern(builder, clean));
    return entry ? entry->at : 0;
}

const char *builder_text(struct builder *builder, const char *text, size_t len)
{
    struct text *copy = malloc(sizeof *copy + len + 1);
    if (!copy) {
        builder->failed = true;
        return "";
    }
    memcpy(copy->bytes, text, len);
    copy->bytes[len] = 0;
    copy->next = builder->texts;
    builder->texts = copy;
    return copy->bytes;
}

void builder_problem(struct builder *builder, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (builder->problems.len > PROBLEMS_LIMIT || (builder->problems.len && strstr(builder->problems.data, text)))
        return;
    if (builder->problems.len)
        buf_puts(&builder->problems, "; ");
    buf_puts(&builder->problems, text);
}

void builder_debug_path(struct builder *builder, const char *directory, const char *middle, const char *name)
{
    size_t at = 0;
    while (at < INDEX_DEBUG_PATHS && *builder->debug_paths[at])
        at++;
    if (at == INDEX_DEBUG_PATHS)
        return;
    char *path = builder->debug_paths[at];
    if (snprintf(path, sizeof builder->debug_paths[at], "%s%s%s", directory, middle, name) <
        (int)sizeof builder->debug_paths[at])
        builder->debug_state[at] = index_file_state(path);
    else
        *path = 0;
}

/* ---- order ---- */
static size_t underscores(const char *name)
{
    return strspn(name, "_");
}

static bool is_clone(const char *name)
{
    return name_without_clone(span_str(name)).len < strlen(name);
}

/* By address; of those at one address the one that people mean first. */
static int compare_functions(const void *left, const void *right)
{
    const struct built_function *a = left, *b = right;
    if (a->address != b->address)
        return a->address < b->address ? -1 : 1;
    if (a->in_symtab != b->in_symtab)
        return a->in_symtab ? -1 : 1;
    if (a->global != b->global)
        return a->global ? -1 : 1;
    if (a->size != b->size)
        return a->size > b->size ? -1 : 1;
    if (is_clone(a->linkage) != is_clone(b->linkage))
        return is_clone(a->linkage) ? 1 : -1;
    bool cxx_a = strncmp(a->linkage, "_Z", 2) == 0, cxx_b = strncmp(b->linkage, "_Z", 2) == 0;
    size_t plain_a = cxx_a ? 0 : underscores(a->linkage), plain_b = cxx_b ? 0 : underscores(b->linkage);
    if (plain_a != plain_b)
        return plain_a < plain_b ? -1 : 1;
    return strcmp(a->linkage, b->linkage);
}

void builder_sort(struct builder *builder)
{
    size_t kept = 0;
    if (builder->count)
        qsort(builder->functions, builder->count, sizeof *builder->functions, compare_functions);
    for (size_t i = 0; i < builder->count; i++) {
        struct built_function *function = &builder->functions[i];
        struct built_function *before = kept ? &builder->functions[kept - 1] : NULL;
        if (!before || before->address != function->address) {
            builder->functions[kept++] = *function;
            continue;
        }
        if (strcmp(before->linkage, function->linkage) != 0)
            builder_add_alias(builder, function->address, function->linkage);
        if (!before->die) {
            before->die = function->die;
            before->die_name = function->die_name;
            before->file = function->file;
            before->line = function->line;
        }
        if (!before->size)
            before->size = function->size;
    }
    builder->count = builder->sorted = kept;
}

struct built_function *builder_find(struct builder *builder, uint64_t address)
{
    size_t low = 0, high = builder->sorted;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (builder->functions[middle].address < address)
            low = middle + 1;
        else
            high = middle;
    }
    return low < builder->sorted && builder->functions[low].address == address ? &builder->functions[low] : NULL;
}

/* ---- the image ---- */
static void put_name(struct builder *builder, struct buf *names, size_t row, uint32_t name)
{
    struct index_name entry = {index_hash(builder->strings.data + name), (uint32_t)row, name};
    if (name)
        buf_append(names, &entry, sizeof entry);
}

/* So that "solve" is found where ns::Class::solve<int> is the name. */
static void put_short(struct builder *builder, struct buf *names, size_t row, const char *name, const char *other)
{
    struct span part = name_short(span_str(name));
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    if (!part.len || (other && span_is(part, other)))
        return;
    buf_puts(&text, "::");
    buf_append(&text, part.ptr, part.len);
    buf_putc(&text, 0);
    if (text.failed)
        builder->failed = true;
    else
        put_name(builder, names, row, builder_intern(builder, text.data));
}

static int compare_names(const void *left, const void *right)
{
    const struct index_name *a = left, *b = right;
    if (a->hash != b->hash)
        return a->hash < b->hash ? -1 : 1;
    if (a->row != b->row)
        return a->row < b->row ? -1 : 1;
    return a->name < b->name ? -1 : a->name > b->name;
}

/* Long ones hardly ever come twice: to look for them takes longer than to keep them twice. */
static uint32_t put_unique(struct builder *builder, const char *string)
{
    enum { LONG = 40 };
    size_t len = strlen(string);
    return len < LONG ? builder_intern(builder, string) : add_string(builder, string, len);
}

static void put_row(struct builder *builder, size_t i, struct buf *rows, struct buf *names, struct buf text[2])
{
    const struct built_function *function = &builder->functions[i];
    bool mangled = strncmp(function->linkage, "_Z", 2) == 0;
    const char *plain = function->linkage;
    if (!mangled && function->die_name && (!*plain || !is_clone(plain)))
        plain = function->die_name; /* "solve" of Fortran's "solve_" */
    struct buf *name = &text[0], *full = &text[1];
    readable_name(plain, name, full);
    struct index_row row = {
        .address = function->address,
        .die = function->die,
        .size = function->size > UINT32_MAX ? UINT32_MAX : (uint32_t)function->size,
        .line = function->line,
        .file = function->file,
    };
    if (name->failed || full->failed) {
        builder->failed = true;
        return;
    }
    row.name = builder_intern(builder, name->data);
    row.full = full->len == name->len ? row.name : put_unique(builder, full->data);
    row.linkage = *function->linkage && strcmp(function->linkage, name->data) != 0
                      ? put_unique(builder, function->linkage)
                      : row.name;
    buf_append(rows, &row, sizeof row);
    put_name(builder, names, i, row.name);
    if (row.linkage != row.name)
        put_name(builder, names, i, row.linkage);
    put_short(builder, names, i, name->data, NULL);
    if (row.linkage != row.name) /* of C++ it is found by itself, but for clones */
        put_short(builder, names, i, function->linkage, function->linkage);
}

static void put_aliases(struct builder *builder, struct buf *names, struct buf text[2])
{
    for (size_t i = 0; i < builder->alias_count; i++) {
        const struct built_alias *alias = &builder->aliases[i];
        const struct built_function *function = builder_find(builder, alias->address);
        if (!function || !*alias->name)
            continue;
        readable_name(alias->name, &text[0], &text[1]);
        if (text[0].failed || text[1].failed) {
            builder->failed = true;
            return;
        }
        uint32_t linkage = builder_intern(builder, alias->name), readable = builder_intern(builder, text[0].data);
        put_name(builder, names, (size_t)(function - builder->functions), linkage);
        if (readable != linkage)
            put_name(builder, names, (size_t)(function - builder->functions), readable);
    }
}

static uint64_t append_aligned(struct buf *image, const struct buf *part)
{
    static const char zeros[8];
    buf_append(image, zeros, (8 - image->len % 8) % 8);
    uint64_t at = image->len;
    buf_append(image, part->data, part->len);
    return at;
}

int builder_image(struct builder *builder, const char *key, struct buf *image)
{
    _cleanup_(buf_done) struct buf rows = BUF_INIT, names = BUF_INIT;
    struct buf text[2] = {BUF_INIT, BUF_INIT}; /* used again for each name */
    if (builder->count > UINT32_MAX / 4)
        return -E2BIG;
    if (!builder->strings.len)
        buf_append(&builder->strings, "", 1);
    for (size_t i = 0; i < builder->count; i++)
        put_row(builder, i, &rows, &names, text);
    put_aliases(builder, &names, text);
    buf_done(&text[0]);
    buf_done(&text[1]);
    struct index_header header = {
        .magic = INDEX_MAGIC,
        .version = INDEX_VERSION,
        .flags = builder->flags,
        .boot = index_boot(),
        .function_count = (uint32_t)builder->count,
        .name_count = (uint32_t)(names.len / sizeof(struct index_name)),
        .key = builder_intern(builder, key),
        .problem = builder_intern(builder, builder->problems.data ? builder->problems.data : ""),
    };
    for (size_t i = 0; i < INDEX_DEBUG_PATHS; i++) {
        header.debug_paths[i] = builder_intern(builder, builder->debug_paths[i]);
        header.debug_state[i] = builder->debug_state[i];
    }
    if (builder->failed || builder->strings.failed || builder->problems.failed || rows.failed || names.failed)
        return -ENOMEM;
    if (names.len)
        qsort(names.data, header.name_count, sizeof(struct index_name), compare_names);
    buf_clear(image);
    buf_append(image, &header, sizeof header);
    header.functions_at = append_aligned(image, &rows);
    header.names_at = append_aligned(image, &names);
    header.strings_at = append_aligned(image, &builder->strings);
    header.strings_size = builder->strings.len;
    header.file_size = image->len;
    if (image->failed)
        return -ENOMEM;
    header.sum = sum_add(0, image->data + sizeof header, image->len - sizeof header);
    memcpy(image->data, &header, sizeof header);
    return 0;
}
