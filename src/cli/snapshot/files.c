/* SPDX-License-Identifier: Apache-2.0 */
/* What processes have open, of all of them together. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/snapshot/snapshot.h"
#include "client/decode.h"
#include "jobdir/text/text.h"
#include "lang/results.h"

enum { SHOWN_FILES = 60 };

static bool has_path(const struct snapshot_file *file)
{
    return *file->path == '/';
}

/* Files by their paths, then what has none by its kind. */
static int compare(const struct snapshot_file *one, const struct snapshot_file *other)
{
    if (has_path(one) != has_path(other))
        return has_path(one) ? -1 : 1;
    int order = strcmp(one->path, other->path);
    order = order ? order : strcmp(one->kind, other->kind);
    return order || !has_path(one) ? order : strcmp(one->flags, other->flags);
}

static int by_path(const void *a, const void *b)
{
    const struct snapshot_file *one = a, *other = b;
    int order = compare(one, other);
    if (order || one->process == other->process)
        return order ? order : (one->fd > other->fd) - (one->fd < other->fd);
    return one->process < other->process ? -1 : 1;
}

static int add(struct snapshot *snapshot, uint32_t process, const struct omis_value *values, const char *error)
{
    static const struct decode_field fields[] = {DECODE(struct snapshot_file, fd),
                                                 DECODE(struct snapshot_file, kind),
                                                 DECODE(struct snapshot_file, path),
                                                 DECODE(struct snapshot_file, flags),
                                                 DECODE(struct snapshot_file, size),
                                                 DECODE(struct snapshot_file, offset),
                                                 {0}};
    const struct omis_value *list = omis_item(values, 0);
    struct decoder decoder;
    if (error) {
        snapshot_note(snapshot, process, error);
        return 0;
    }
    decoder_init(&decoder, PROC_FILE, 0, fields);
    size_t count = decoder_rows(&decoder, list);
    struct snapshot_file *larger = reallocarray(snapshot->files, snapshot->file_count + count + 1, sizeof *larger);
    if (!larger)
        return -ENOMEM;
    snapshot->files = larger;
    for (size_t i = 0; i < count; i++) {
        struct snapshot_file *file = &larger[snapshot->file_count++];
        *file = (struct snapshot_file){.process = process};
        decode(&decoder, list, i, file);
    }
    if (omis_integer(omis_item(values, 1)) > 0)
        snapshot_note(snapshot, process, "it has more than 4096 files open, of which these are some");
    return 0;
}

int snapshot_ask_files(struct snapshot *snapshot, struct err *err)
{
    int code = snapshot_ask_each(snapshot, "scry_proc_get_files", false, "", &snapshot->open_files, add, err);
    if (snapshot->file_count)
        qsort(snapshot->files, snapshot->file_count, sizeof *snapshot->files, by_path);
    return code;
}

static void put_offset(struct buf *out, int64_t offset, int64_t size)
{
    text_size(out, (uint64_t)offset);
    if (size >= 0 && offset == size && size > 0)
        buf_puts(out, ", the end");
    else if (size >= 0) {
        buf_puts(out, " of ");
        text_size(out, (uint64_t)size);
    }
}

/* Where in the file they are. */
static void put_offsets(struct buf *out, const struct snapshot_file *files, size_t count)
{
    const struct snapshot_file *least = files, *most = files;
    for (size_t i = 1; i < count; i++) {
        least = files[i].offset < least->offset ? &files[i] : least;
        most = files[i].offset > most->offset ? &files[i] : most;
    }
    if (least->offset < 0)
        return;
    if (most->size == 0 && most->offset == 0) {
        buf_puts(out, ", empty");
        return;
    }
    buf_puts(out, ", at ");
    if (least->offset != most->offset) {
        text_size(out, (uint64_t)least->offset);
        buf_puts(out, " .. ");
    }
    put_offset(out, most->offset, most->size);
}

static void put_alike(struct buf *out, const struct snapshot_file *files, size_t count)
{
    const struct snapshot_file *first = files;
    bool same_fd = true;
    if (!has_path(first)) {
        buf_printf(out, "%zu ", count);
        text_show(out, *first->path ? first->path : first->kind);
        buf_puts(out, !*first->path && count > 1 ? "s" : "");
        return;
    }
    text_show(out, first->path);
    if (*first->flags) {
        buf_puts(out, ", ");
        text_show(out, first->flags);
    }
    put_offsets(out, files, count);
    for (size_t i = 1; i < count; i++)
        same_fd &= files[i].fd == first->fd;
    if (same_fd)
        buf_printf(out, ", as %" PRId64, first->fd);
}

void snapshot_put_files(struct buf *out, const struct snapshot *snapshot, uint32_t *numbers,
                        struct stack_member *members)
{
    size_t lines = 0, more = 0;
    buf_puts(out, snapshot->file_count ? "\nopen files:\n" : "\nno file is open\n");
    for (size_t i = 0, alike; i < snapshot->file_count; i += alike) {
        const struct snapshot_file *first = &snapshot->files[i];
        size_t holders = 0;
        for (alike = 0; i + alike < snapshot->file_count && compare(first, &first[alike]) == 0; alike++)
            if (!alike || first[alike].process != first[alike - 1].process)
                members[holders++] = (struct stack_member){first[alike].process, 1};
        if (lines++ >= SHOWN_FILES) {
            more++;
            continue;
        }
        snapshot_put_members(out, snapshot, members, holders, numbers);
        buf_puts(out, "  ");
        put_alike(out, first, alike);
        buf_putc(out, '\n');
    }
    if (more)
        buf_printf(out, "... and %zu more lines: choose with --rank; --json has all\n", more);
}
