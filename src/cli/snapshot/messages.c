/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of MPI that were sent and that no receive has taken: in the queue of unexpected messages, or under way. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/snapshot/snapshot.h"
#include "client/decode.h"
#include "jobdir/mpi/text.h"
#include "jobdir/text/text.h"
#include "lang/results.h"

enum { SHOWN_MESSAGES = 60 };

static int compare(const struct snapshot_message *one, const struct snapshot_message *other)
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
    int order = compare(one, other);
    return order ? order : (one->process > other->process) - (one->process < other->process);
}

static int add(struct snapshot *snapshot, uint32_t process, const struct omis_value *values, const char *error)
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
    int code = snapshot_ask_each(snapshot, "mpi_get_messages", true, ",1", &snapshot->unexpected, add, err);
    if (snapshot->message_count)
        qsort(snapshot->messages, snapshot->message_count, sizeof *snapshot->messages, by_sender);
    return code;
}

static void put_alike(struct buf *out, const struct snapshot_message *messages, size_t count)
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
        for (alike = 0; i + alike < snapshot->message_count && compare(first, &first[alike]) == 0; alike++)
            if (!alike || first[alike].process != first[alike - 1].process)
                members[holders++] = (struct stack_member){first[alike].process, 1};
        if (lines++ >= SHOWN_MESSAGES) {
            more++;
            continue;
        }
        snapshot_put_ranks(out, snapshot, members, holders, numbers);
        buf_puts(out, "  ");
        put_alike(out, first, alike);
        buf_putc(out, '\n');
    }
    if (more)
        buf_printf(out, "... and %zu more lines: choose with --rank; --json has all\n", more);
    put_notes(out, snapshot, numbers, members);
}
