/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/index/index_build.h"

#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "base/data/buf.h"
#include "base/data/hash.h"
#include "base/system/file.h"
#include "symbols/index/lines.h"
#include "symbols/index/names.h"
#include "symbols/index/elf_identity.h"

#include <elfutils/libdwfl.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uthash.h>

/* ---- indexes in the cache ---- */

static int to_disk(int fd)
{
    static const uint32_t yes = 1;
    if (fdatasync(fd) < 0 || pwrite(fd, &yes, sizeof yes, offsetof(struct index_header, on_disk)) != sizeof yes)
        return errno ? -errno : -EIO;
    return 0;
}

void index_settle(const char *key)
{
    char path[PATH_MAX];
    if (index_file_path(path, sizeof path, key, false, NULL) < 0)
        return;
    _cleanup_(closep) int fd = file_open_own(AT_FDCWD, path, O_RDWR);
    if (fd >= 0)
        to_disk(fd);
}

static bool index_file_is_good(const char *path)
{
    char key[INDEX_KEY_SIZE + 16];
    struct index *index = NULL;
    snprintf(key, sizeof key, "%s", strrchr(path, '/') + 1);
    *strrchr(key, '.') = '\0'; /* index_file_path() has put its version there */
    int code = index_open_key(&index, key, NULL);
    index_close(index);
    return code == 0;
}

int index_store(const struct buf *image, const char *key, struct err *err)
{
    char path[PATH_MAX];
    const struct iovec whole = {image->data, image->len};
    int r = index_file_path(path, sizeof path, key, true, err);
    return r < 0 ? r
                 : cache_file_write(path, &whole, 1, CACHE_MOST_BYTES, index_boot() == 0 ? to_disk : NULL,
                                    index_file_is_good, err);
}

/* ---- readable names of functions ---- */

enum { NAME_LIMIT = 1 << 16 }; /* longer mangled names stay as they are */

/* <cxxabi.h> is for C++ only */
char *__cxa_demangle(const char *mangled, char *buffer, size_t *length, int *status);

static bool ends_with(struct span text, const char *end)
{
    size_t len = strlen(end);
    return text.len >= len && memcmp(text.ptr + text.len - len, end, len) == 0;
}

/* Without the qualifiers behind the parameters. */
static struct span drop_qualifiers(struct span text)
{
    static const char *const words[] = {" const", " volatile", " &", " &&", " noexcept"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (ends_with(text, words[i])) {
            text.len -= strlen(words[i]);
            i = (size_t)-1;
        }
    return text;
}

/* Where the parameters begin, the text ending in their ')'; the text's length if it does not. */
static size_t parameters_at(struct span text)
{
    int depth = 0;
    if (!ends_with(text, ")"))
        return text.len;
    for (size_t i = text.len; i-- > 0;) {
        depth += (text.ptr[i] == ')') - (text.ptr[i] == '(');
        if (depth == 0)
            return i;
    }
    return text.len;
}

/* Templates have their result in front: where the name begins. Blanks in brackets and after "operator" are its own, and
 * so are those of the qualifiers of a function that it is local to. */
static size_t name_at(struct span text)
{
    static const char *const inside[] = {"const", "volatile", "&", "&&"};
    size_t begin = 0;
    int depth = 0;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (depth == 0 && c == 'o' && name_operator_end(text, i) > i)
            break;
        if (c == '<' || c == '(' || c == '{' || c == '[')
            depth++;
        else if ((c == '>' || c == ')' || c == '}' || c == ']') && depth > 0 &&
                 !(c == '>' && i > 0 && text.ptr[i - 1] == '-'))
            depth--;
        if (c != ' ' || depth != 0)
            continue;
        bool own = false;
        for (size_t j = 0; j < sizeof inside / sizeof *inside && !own; j++) {
            size_t len = strlen(inside[j]);
            own = text.len - i - 1 > len && memcmp(text.ptr + i + 1, inside[j], len) == 0 &&
                  (text.ptr[i + 1 + len] == ':' || text.ptr[i + 1 + len] == ' ') && i > 0 && text.ptr[i - 1] == ')';
        }
        if (!own)
            begin = i + 1;
    }
    return begin;
}

void split_demangled(const char *demangled, struct buf *ret_name, struct buf *ret_full)
{
    struct span all = span_str(demangled), text = drop_qualifiers(all);
    size_t end = parameters_at(text);
    size_t begin = end < text.len ? name_at(span_of(text.ptr, end)) : 0;
    if (begin >= end) { /* the result is a pointer to a function, or it is no function */
        begin = 0;
        end = all.len;
    }
    buf_clear(ret_name);
    buf_clear(ret_full);
    buf_append(ret_name, all.ptr + begin, end - begin);
    buf_append(ret_full, all.ptr + begin, all.len - begin);
}

/* Nobody writes "text[abi:cxx11](int)": removes the tag, in place. */
static void drop_tags(char *text)
{
    static const char mark[] = "[abi:";
    for (char *at = strstr(text, mark); at; at = strstr(at, mark)) {
        const char *end = strchr(at, ']');
        if (!end)
            return;
        memmove(at, end + 1, strlen(end + 1) + 1);
    }
}

void readable_name(const char *linkage, struct buf *ret_name, struct buf *ret_full)
{
    static char *room; /* of the demangler, used again and again */
    static size_t room_size;
    size_t len = strlen(linkage);
    buf_clear(ret_name);
    buf_clear(ret_full);
    const bool rust = rust_name_put(ret_name, linkage);
    if (!rust && strncmp(linkage, "_Z", 2) == 0 && len < NAME_LIMIT) {
        char mangled[NAME_LIMIT];
        int status = -1;
        struct span plain = name_without_clone(span_of(linkage, len));
        memcpy(mangled, linkage, plain.len);
        mangled[plain.len] = 0;
        char *text = __cxa_demangle(mangled, room, &room_size, &status);
        if (text && status == 0) {
            room = text;
            drop_tags(text);
            struct buf tidy = BUF_INIT;
            cxx_name_put(&tidy, text);
            split_demangled(tidy.failed ? text : tidy.data, ret_name, ret_full);
            buf_done(&tidy);
            buf_append(ret_name, linkage + plain.len, len - plain.len);
            buf_append(ret_full, linkage + plain.len, len - plain.len);
            return;
        }
    }
    if (!rust && !fortran_name_put(ret_name, linkage))
        buf_append(ret_name, linkage, len);
    buf_append(ret_full, ret_name->data ? ret_name->data : "", ret_name->len);
}

/* ---- what is collected ---- */

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

static void builder_done(struct builder *builder)
{
    free(builder->functions);
    free(builder->aliases);
    buf_done(&builder->strings);
    buf_done(&builder->problems);
    HASH_FREE_ALL(builder->interned);
    HASH_FREE_ALL(builder->paths);
    for (struct text *text = builder->texts, *next; text; text = next) {
        next = text->next;
        free(text);
    }
    *builder = (struct builder){0};
}

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

static struct interned *interned_add(struct builder *builder, struct interned **table, const char *key, size_t len,
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

/* Offset of a string in the index; equal ones share it. */
static uint32_t builder_intern(struct builder *builder, const char *string)
{
    size_t len = strlen(string);
    struct interned *entry;
    if (!len)
        return 0;
    HASH_FIND(hh, builder->interned, string, len, entry);
    if (!entry)
        entry = interned_add(builder, &builder->interned, string, len, add_string(builder, string, len));
    return entry ? entry->at : 0;
}

void path_clean(char *path)
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
    path_clean(clean);
    entry = interned_add(builder, &builder->paths, path, len, builder_intern(builder, clean));
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
        if (strcmp(before->linkage, function->linkage) != 0) {
            if (GROW(builder->aliases, builder->alias_count, builder->alias_room))
                builder->aliases[builder->alias_count++] = (struct built_alias){function->address, function->linkage};
            else
                builder->failed = true;
        }
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
    size_t low = COUNT_BEFORE(builder->sorted, i, builder->functions[i].address < address);
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

/* The image of all that was collected. 0, -ENOMEM, -E2BIG. */
static int builder_image(struct builder *builder, const char *key, struct buf *image)
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

/* ---- separate debug information ---- */

static Elf_Scn *section_named(Elf *elf, const char *wanted, GElf_Shdr *ret_header)
{
    size_t names;
    if (elf_getshdrstrndx(elf, &names) < 0)
        return NULL;
    for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));) {
        const char *name = gelf_getshdr(scn, ret_header) ? elf_strptr(elf, names, ret_header->sh_name) : NULL;
        if (name && strcmp(name, wanted) == 0)
            return scn;
    }
    return NULL;
}

static bool has_content(Elf *elf, const char *name)
{
    GElf_Shdr header;
    return section_named(elf, name, &header) && header.sh_type != SHT_NOBITS;
}

/* The name in .gnu_debuglink (a section of objcopy's: name, checksum); "" if there is none. */
static void read_debuglink(Elf *elf, char *ret_name, size_t size)
{
    GElf_Shdr header;
    Elf_Scn *scn = section_named(elf, ".gnu_debuglink", &header);
    Elf_Data *data = scn ? elf_getdata(scn, NULL) : NULL;
    bool good = data && data->d_buf && memchr(data->d_buf, 0, data->d_size) && !strchr(data->d_buf, '/');
    snprintf(ret_name, size, "%s", good && strlen(data->d_buf) < size ? (const char *)data->d_buf : "");
}

static void find_debug_paths(struct builder *builder, Elf *elf, const struct elf_identity *identity,
                             const char *elf_path)
{
    char real[PATH_MAX], link[NAME_MAX + 1], id[2 * ELF_BUILD_ID + 16];
    if (identity->build_id_size > 1) {
        char *to = id + sprintf(id, "/.build-id/%02x/", identity->build_id[0]);
        for (size_t i = 1; i < identity->build_id_size; i++)
            to += sprintf(to, "%02x", identity->build_id[i]);
        builder_debug_path(builder, DEBUG_ROOT, id, ".debug");
    }
    read_debuglink(elf, link, sizeof link);
    if (!*link || !realpath(elf_path, real))
        return;
    *(strrchr(real, '/') + 1) = 0;
    builder_debug_path(builder, real, "", link);
    builder_debug_path(builder, real, ".debug/", link);
    builder_debug_path(builder, DEBUG_ROOT, real, link);
}

/* A debug file is there but was not taken: it belongs to something else. */
static bool has_foreign_debug_file(struct builder *builder)
{
    bool found = false;
    for (size_t i = 0; i < INDEX_DEBUG_PATHS; i++)
        if (*builder->debug_paths[i] && access(builder->debug_paths[i], R_OK) == 0) {
            builder_problem(builder, "its debug file %s is of another build, or damaged", builder->debug_paths[i]);
            found = true;
        }
    return found;
}

static void builder_say_missing(struct builder *builder, Elf *elf, const char *reason)
{
    bool stripped = true;
    for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));) {
        GElf_Shdr header;
        if (gelf_getshdr(scn, &header) && header.sh_type == SHT_SYMTAB)
            stripped = false;
    }
    if (has_foreign_debug_file(builder))
        return;
    if (has_content(elf, ".debug_info") || has_content(elf, ".zdebug_info"))
        builder_problem(builder, "its debug information cannot be read (%s)", reason ? reason : "damaged");
    else if (stripped && !(builder->flags & INDEX_HAS_DWARF))
        builder_problem(builder,
                        "it is stripped: only the functions that it exports have names; use the file as it was "
                        "linked, or install its debug symbols");
    else
        builder_problem(builder, "it has no debug information: compile it with -g to see places and values");
}

/* ---- building ---- */
static void read_module(struct builder *builder, Dwfl_Module *module, const struct elf_identity *identity,
                        const char *elf_path)
{
    GElf_Addr elf_bias;
    Dwarf_Addr dwarf_bias = 0;
    Elf *elf = dwfl_module_getelf(module, &elf_bias);
    if (!elf) {
        builder_problem(builder, "it cannot be read (%s)", dwfl_errmsg(-1));
        return;
    }
    build_symbols(builder, module);
    Dwarf *dwarf = dwfl_module_getdwarf(module, &dwarf_bias);
    const char *reason = dwarf ? NULL : dwfl_errmsg(-1);
    if (dwarf) {
        build_dwarf(builder, dwarf, dwarf_bias, elf_path);
    } else {
        find_debug_paths(builder, elf, identity, elf_path);
        builder_say_missing(builder, elf, reason);
    }
}

/* In a container the debug files may be the container's. */
static char *debuginfo_path(const char *elf_path)
{
    char *path;
    int pid, len = 0;
    if (sscanf(elf_path, "/proc/%d/root%n", &pid, &len) == 1 && len > 0)
        return asprintf(&path, ":.debug:%s:/proc/%d/root%s", DEBUG_ROOT, pid, DEBUG_ROOT) < 0 ? NULL : path;
    return asprintf(&path, ":.debug:%s", DEBUG_ROOT) < 0 ? NULL : path;
}

struct opened {
    char *debuginfo_path;
    Dwfl_Callbacks callbacks;
    Dwfl *dwfl;
};

static void opened_done(struct opened *opened)
{
    dwfl_end(opened->dwfl);
    free(opened->debuginfo_path);
}

/* Strings of the builder are borrowed from *opened. */
static int builder_read(struct builder *builder, struct opened *opened, int fd, const struct elf_identity *identity,
                        const char *elf_path)
{
    opened->debuginfo_path = debuginfo_path(elf_path);
    opened->callbacks = (Dwfl_Callbacks){
        .find_elf = dwfl_build_id_find_elf, /* never called: the file is given */
        .find_debuginfo = debuginfo_find,
        .section_address = dwfl_offline_section_address,
        .debuginfo_path = &opened->debuginfo_path,
    };
    unsetenv("DEBUGINFOD_URLS"); /* nothing is fetched from the network */
    opened->dwfl = opened->debuginfo_path ? dwfl_begin(&opened->callbacks) : NULL;
    int own = opened->dwfl ? fcntl(fd, F_DUPFD_CLOEXEC, 3) : -1; /* libdwfl closes it */
    if (own < 0)
        return -ENOMEM;
    Dwfl_Module *module = dwfl_report_elf(opened->dwfl, elf_path, elf_path, own, 0, true);
    const char *reason = module ? NULL : dwfl_errmsg(-1);
    if (!module)
        close(own);
    dwfl_report_end(opened->dwfl, NULL, NULL);
    if (module)
        read_module(builder, module, identity, elf_path);
    else
        builder_problem(builder, "it cannot be read (%s)", reason ? reason : "damaged");
    return 0;
}

int index_build(const char *elf_path, struct buf *image, char ret_key[INDEX_KEY_SIZE], struct err *err)
{
    struct stat st;
    struct elf_identity identity;
    _cleanup_(closep) int fd = open(elf_path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_errno(err, -errno, "%s", elf_path);
    if (!S_ISREG(st.st_mode) || elf_identity_file(&identity, fd) < 0)
        return err_set(err, -ENOEXEC, "%s is no program or library (not an ELF file, or damaged)", elf_path);
    elf_identity_key(&identity, fd, &st, ret_key);
    _cleanup_(opened_done) struct opened opened = {0};
    _cleanup_(builder_done) struct builder builder = {0};
    buf_append(&builder.strings, "", 1);
    int r = builder_read(&builder, &opened, fd, &identity, elf_path);
    if (r == 0)
        r = builder_image(&builder, ret_key, image);
    if (r < 0)
        return err_set(err, r, "%s: %s", elf_path,
                       r == -E2BIG ? "too many functions for a symbol index" : "out of memory for its symbols");
    return 0;
}
