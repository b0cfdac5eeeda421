/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/snapshot/snapshot.h"
#include "client/decode.h"
#include "jobdir/mpi/text.h"
#include "jobdir/text/text.h"
#include "lang/results.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* What processes have open, of all of them together. */

enum { SHOWN_FILES = 60 };

static bool has_path(const struct snapshot_file *file)
{
    return *file->path == '/';
}

/* Files by their paths, then what has none by its kind. */
static int compare_files(const struct snapshot_file *one, const struct snapshot_file *other)
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
    int order = compare_files(one, other);
    if (order || one->process == other->process)
        return order ? order : (one->fd > other->fd) - (one->fd < other->fd);
    return one->process < other->process ? -1 : 1;
}

static int add_file(struct snapshot *snapshot, uint32_t process, const struct omis_value *values, const char *error)
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
    int code = snapshot_ask_each(snapshot, "scry_proc_get_files", false, "", &snapshot->open_files, add_file, err);
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

static void put_alike_files(struct buf *out, const struct snapshot_file *files, size_t count)
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
        for (alike = 0; i + alike < snapshot->file_count && compare_files(first, &first[alike]) == 0; alike++)
            if (!alike || first[alike].process != first[alike - 1].process)
                members[holders++] = (struct stack_member){first[alike].process, 1};
        if (lines++ >= SHOWN_FILES) {
            more++;
            continue;
        }
        snapshot_put_members(out, snapshot, members, holders, numbers);
        buf_puts(out, "  ");
        put_alike_files(out, first, alike);
        buf_putc(out, '\n');
    }
    if (more)
        buf_printf(out, "... and %zu more lines: choose with --rank; --json has all\n", more);
}

/* Messages of MPI that were sent and that no receive has taken: in the queue of unexpected messages, or under way. */

enum { SHOWN_MESSAGES = 60 };

static int compare_messages(const struct snapshot_message *one, const struct snapshot_message *other)
{
    const int64_t numbers[][2] = {
        {one->rank, other->rank}, {one->tag, other->tag}, {one->comm, other->comm}, {one->bytes, other->bytes}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i][0] != numbers[i][1])
            return numbers[i][0] < numbers[i][1] ? -1 : 1;
    return strcmp(one->doubts, other->doubts);
}

static int by_sender(const void *a, const void *b)
{
    const struct snapshot_message *one = a, *other = b;
    int order = compare_messages(one, other);
    return order ? order : (one->process > other->process) - (one->process < other->process);
}

static int add_message(struct snapshot *snapshot, uint32_t process, const struct omis_value *values, const char *error)
{
    static const struct decode_field fields[] = {DECODE(struct snapshot_message, rank),
                                                 DECODE(struct snapshot_message, tag),
                                                 DECODE(struct snapshot_message, comm),
                                                 DECODE(struct snapshot_message, bytes),
                                                 DECODE(struct snapshot_message, age_ns),
                                                 DECODE(struct snapshot_message, doubts),
                                                 {0}};
    const struct omis_value *list = omis_item(values, 1);
    struct decoder decoder;
    if (error) { /* what concerns no other thing than messages */
        const char *words = strstr(error, ": ");
        snapshot->list[process].queue_note = words ? words + 2 : error;
        return 0;
    }
    decoder_init(&decoder, MPI_QUEUED, 0, fields);
    size_t count = decoder_rows(&decoder, list);
    struct snapshot_message *larger =
        reallocarray(snapshot->messages, snapshot->message_count + count + 1, sizeof *larger);
    if (!larger)
        return -ENOMEM;
    snapshot->messages = larger;
    snapshot->list[process].queue_note = omis_text(omis_item(values, 0), NULL);
    for (size_t i = 0; i < count; i++) {
        struct snapshot_message *message = &larger[snapshot->message_count++];
        *message = (struct snapshot_message){.process = process};
        decode(&decoder, list, i, message);
    }
    return 0;
}

int snapshot_ask_messages(struct snapshot *snapshot, struct err *err)
{
    int code = snapshot_ask_each(snapshot, "mpi_get_messages", true, ",1", &snapshot->unexpected, add_message, err);
    if (snapshot->message_count)
        qsort(snapshot->messages, snapshot->message_count, sizeof *snapshot->messages, by_sender);
    return code;
}

static void put_alike_messages(struct buf *out, const struct snapshot_message *messages, size_t count)
{
    const struct snapshot_message *first = messages;
    uint64_t oldest_ns = 0;
    for (size_t i = 0; i < count; i++)
        oldest_ns = messages[i].age_ns > oldest_ns ? messages[i].age_ns : oldest_ns;
    buf_puts(out, "from ");
    mpi_text_rank(out, (int32_t)first->rank);
    buf_printf(out, ", tag %" PRId64, first->tag);
    if (first->bytes >= 0) {
        buf_puts(out, ", ");
        text_size(out, (uint64_t)first->bytes);
    }
    if (first->comm > 0)
        buf_printf(out, ", communicator %" PRId64, first->comm);
    if (count > 1)
        buf_printf(out, ", %zu messages, the oldest", count);
    else
        buf_putc(out, ',');
    buf_puts(out, " sent ");
    text_ns(out, (double)oldest_ns);
    buf_puts(out, " ago");
    if (*first->doubts) {
        buf_puts(out, " (not certain: ");
        text_show(out, first->doubts);
        buf_putc(out, ')');
    }
}

/* The ranks of which not all is known, for each reason. */
static void put_notes(struct buf *out, const struct snapshot *snapshot, uint32_t *numbers, struct stack_member *members)
{
    for (size_t i = 0; i < snapshot->count; i++) {
        const char *note = snapshot->list[i].queue_note;
        size_t count = 0, before = 0;
        for (; note && *note && before < i; before++)
            if (snapshot->list[before].queue_note && strcmp(snapshot->list[before].queue_note, note) == 0)
                break;
        if (!note || !*note || before < i)
            continue;
        for (size_t k = i; k < snapshot->count; k++)
            if (snapshot->list[k].queue_note && strcmp(snapshot->list[k].queue_note, note) == 0)
                members[count++] = (struct stack_member){(uint32_t)k, 1};
        buf_puts(out, "note: not all messages to ");
        snapshot_put_ranks(out, snapshot, members, count, numbers);
        buf_puts(out, " are known: ");
        text_show(out, note);
        buf_putc(out, '\n');
    }
}

void snapshot_put_messages(struct buf *out, const struct snapshot *snapshot, uint32_t *numbers,
                           struct stack_member *members)
{
    size_t lines = 0, more = 0;
    buf_puts(out, snapshot->message_count ? "\nmessages of MPI that no receive has taken:\n"
                                          : "\nno message of MPI is known that no receive has taken\n");
    for (size_t i = 0, alike; i < snapshot->message_count; i += alike) {
        const struct snapshot_message *first = &snapshot->messages[i];
        size_t holders = 0;
        for (alike = 0; i + alike < snapshot->message_count && compare_messages(first, &first[alike]) == 0; alike++)
            if (!alike || first[alike].process != first[alike - 1].process)
                members[holders++] = (struct stack_member){first[alike].process, 1};
        if (lines++ >= SHOWN_MESSAGES) {
            more++;
            continue;
        }
        snapshot_put_ranks(out, snapshot, members, holders, numbers);
        buf_puts(out, "  ");
        put_alike_messages(out, first, alike);
        buf_putc(out, '\n');
    }
    if (more)
        buf_printf(out, "... and %zu more lines: choose with --rank; --json has all\n", more);
    put_notes(out, snapshot, numbers, members);
}

/* The requests of MPI that are not completed: sends, receives and others that ranks have begun and wait for, or will. */

static int compare_numbers(int64_t one, int64_t other)
{
    return (one > other) - (one < other);
}

int snapshot_compare_operations(const struct snapshot_operation *one, const struct snapshot_operation *other)
{
    int order = strcmp(one->kind, other->kind);
    order = order ? order : strcmp(one->call, other->call);
    order = order ? order : strcmp(one->state, other->state);
    order = order ? order : compare_numbers(one->peer, other->peer);
    order = order ? order : compare_numbers(one->tag, other->tag);
    order = order ? order : compare_numbers(one->comm, other->comm);
    return order ? order : compare_numbers(one->bytes, other->bytes);
}

static int by_kind(const void *a, const void *b)
{
    const struct snapshot_operation *one = a, *other = b;
    int order = snapshot_compare_operations(one, other);
    return order ? order : compare_numbers(one->process, other->process);
}

static int add_operation(struct snapshot *snapshot, uint32_t process, const struct omis_value *values,
                         const char *error)
{
    const struct omis_value *list = omis_item(values, 0);
    static const struct decode_field fields[] = {DECODE(struct snapshot_operation, call),
                                                 DECODE(struct snapshot_operation, kind),
                                                 DECODE(struct snapshot_operation, state),
                                                 DECODE(struct snapshot_operation, peer),
                                                 DECODE(struct snapshot_operation, tag),
                                                 DECODE(struct snapshot_operation, comm),
                                                 DECODE(struct snapshot_operation, bytes),
                                                 DECODE(struct snapshot_operation, age_ns),
                                                 {0}};
    struct decoder decoder;
    if (error) {
        snapshot_note(snapshot, process, error);
        return 0;
    }
    decoder_init(&decoder, MPI_OPERATION, 0, fields);
    size_t count = decoder_rows(&decoder, list);
    struct snapshot_operation *larger =
        reallocarray(snapshot->operations, snapshot->operation_count + count + 1, sizeof *larger);
    if (!larger)
        return -ENOMEM;
    snapshot->operations = larger;
    for (size_t i = 0; i < count; i++) {
        struct snapshot_operation *operation = &larger[snapshot->operation_count++];
        *operation = (struct snapshot_operation){.process = process};
        decode(&decoder, list, i, operation);
    }
    return 0;
}

int snapshot_ask_queues(struct snapshot *snapshot, struct err *err)
{
    int code = snapshot_ask_each(snapshot, "mpi_get_pending", true, "", &snapshot->queues, add_operation, err);
    if (code == -ENOENT)
        return err_set(err, code, "the job has no ranks of MPI, so no queues");
    if (snapshot->operation_count)
        qsort(snapshot->operations, snapshot->operation_count, sizeof *snapshot->operations, by_kind);
    return code;
}
