/* SPDX-License-Identifier: Apache-2.0 */
/* Values of variables for people: what all have in common is said once. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "cli/snapshot/snapshot.h"
#include "jobdir/text/text.h"

enum { SHOWN_VALUES = 8, SHOWN_BYTES = 100, ADDRESS_DIGITS = 5 };

static const char not_available[] = "<not available>", optimised_out[] = "<optimised out>";

/* The value with "0x..." for each address in it, which differ in processes that do the same. */
static void put_plain(struct buf *out, const char *value)
{
    while (*value) {
        size_t digits = strncmp(value, "0x", 2) == 0 ? strspn(value + 2, "0123456789abcdef") : 0;
        if (digits >= ADDRESS_DIGITS) {
            buf_puts(out, "0x...");
            value += 2 + digits;
        } else {
            buf_putc(out, *value++);
        }
    }
    buf_putc(out, '\0');
}

static bool differ_in_addresses(const struct stack_value *values, size_t count, struct buf *first)
{
    _cleanup_(buf_done) struct buf other = BUF_INIT;
    put_plain(first, values[0].variable->value);
    for (size_t i = 1; i < count && !first->failed; i++) {
        buf_clear(&other);
        put_plain(&other, values[i].variable->value);
        if (other.failed || strcmp(first->data, other.data) != 0)
            return false;
    }
    return !first->failed;
}

static void put_value(struct buf *out, const char *value)
{
    char cut[SHOWN_BYTES + 1];
    size_t len = strlen(value), end = SHOWN_BYTES;
    if (len <= SHOWN_BYTES) {
        text_show(out, value);
        return;
    }
    while (end && ((unsigned char)value[end] & 0xc0) == 0x80) /* not in a character */
        end--;
    memcpy(cut, value, end);
    cut[end] = '\0';
    text_show(out, cut);
    buf_puts(out, "...");
}

static bool number_of(const char *value, double *ret_number)
{
    char *end;
    *ret_number = strtod(value, &end);
    return end != value && !*end;
}

/* "12 .. 96" of numbers. false: not all are. */
static bool put_range(struct buf *out, const struct stack_value *values, size_t count)
{
    double number, least = 0, most = 0;
    size_t low = 0, high = 0;
    for (size_t i = 0; i < count; i++) {
        if (!number_of(values[i].variable->value, &number))
            return false;
        if (i == 0 || number < least)
            low = i, least = number;
        if (i == 0 || number > most)
            high = i, most = number;
    }
    put_value(out, values[low].variable->value);
    buf_puts(out, " .. ");
    put_value(out, values[high].variable->value);
    return true;
}

static void put_holders(struct buf *out, const struct snapshot *snapshot, const struct stack_value *value,
                        uint32_t *numbers)
{
    buf_puts(out, " (");
    size_t ranks = snapshot_put_ranks(out, snapshot, value->members, value->member_count, numbers);
    if (ranks < value->member_count || value->threads > value->member_count)
        buf_printf(out, "%s%" PRIu64 " thread%s", ranks ? ", " : "", value->threads, value->threads == 1 ? "" : "s");
    buf_putc(out, ')');
}

/* Of a variable that has several values. */
static void put_values(struct buf *out, const struct snapshot *snapshot, const struct stack_value *values, size_t count,
                       uint32_t *numbers)
{
    bool each = true; /* thread has its own */
    for (size_t i = 0; i < count; i++)
        each &= values[i].threads == 1;
    if (count > SHOWN_VALUES && put_range(out, values, count)) {
        buf_printf(out, " (%zu values)", count);
        return;
    }
    for (size_t i = 0; i < count && i < SHOWN_VALUES; i++) {
        buf_puts(out, i ? ", " : "");
        put_value(out, values[i].variable->value);
        if (!each)
            put_holders(out, snapshot, &values[i], numbers);
    }
    if (count > SHOWN_VALUES)
        buf_printf(out, ", ... (%zu values)", count);
}

static void put_variable(struct buf *out, const struct snapshot *snapshot, const struct stack_node *node,
                         const struct stack_value *values, size_t count, uint32_t *numbers)
{
    _cleanup_(buf_done) struct buf plain = BUF_INIT;
    uint64_t threads = 0;
    for (size_t i = 0; i < count; i++)
        threads += values[i].threads;
    bool same = count == 1 || differ_in_addresses(values, count, &plain);
    if (!*values->variable->name) {
        buf_putc(out, '(');
        put_value(out, values->variable->value);
        buf_putc(out, ')');
        return;
    }
    text_show(out, values->variable->name);
    buf_puts(out, same ? " = " : ": ");
    if (same)
        put_value(out, count == 1 ? values->variable->value : plain.data);
    else
        put_values(out, snapshot, values, count, numbers);
    if (threads < node->threads)
        buf_printf(out, " (%" PRIu64 " of %" PRIu64 " threads)", threads, node->threads);
    else if (same && threads > 1)
        buf_puts(out, " (all)");
}

/* The variables of which nobody has a value, for this reason. */
static void put_missing(struct buf *out, const struct stack_node *node, const char *reason, const char *name,
                        bool *inout_first)
{
    bool first = true;
    for (size_t i = 0, end; i < node->value_count; i = end) {
        const struct stack_variable *variable = node->values[i].variable;
        for (end = i + 1; end < node->value_count && strcmp(node->values[end].variable->name, variable->name) == 0;)
            end++;
        if (end > i + 1 || strcmp(variable->value, reason) != 0)
            continue;
        if (first)
            buf_printf(out, "%s%s: ", *inout_first ? "" : "; ", name);
        else
            buf_puts(out, ", ");
        text_show(out, variable->name);
        first = *inout_first = false;
    }
}

void snapshot_put_values(struct buf *out, const struct snapshot *snapshot, const struct stack_node *node,
                         uint32_t *numbers)
{
    bool first = true;
    for (size_t i = 0, end; i < node->value_count; i = end) {
        const struct stack_variable *variable = node->values[i].variable;
        for (end = i + 1; end < node->value_count && strcmp(node->values[end].variable->name, variable->name) == 0;)
            end++;
        if (end == i + 1 &&
            (strcmp(variable->value, not_available) == 0 || strcmp(variable->value, optimised_out) == 0))
            continue;
        buf_puts(out, first ? "" : "; ");
        put_variable(out, snapshot, node, &node->values[i], end - i, numbers);
        first = false;
    }
    put_missing(out, node, not_available, "not available", &first);
    put_missing(out, node, optimised_out, "optimised out", &first);
}
