/* SPDX-License-Identifier: Apache-2.0 */
#include "base/data/cleanup.h"
#include "cli/snapshot/snapshot.h"
#include "jobdir/mpi/text.h"
#include "jobdir/text/text.h"
#include "shm/mpi_area.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* What people need to see of stacks, and sets of ranks. */

enum { SET_RANGES = 8 /* shown of a set */ };

/* ---- frames ---- */

static bool starts_with_any(const char *text, const char *const *starts)
{
    for (; *starts; starts++)
        if (strncmp(text, *starts, strlen(*starts)) == 0)
            return true;
    return false;
}

static bool is_native(const struct stack_frame *frame)
{
    return strcmp(frame->language, "native") == 0;
}

/* Its files are no places that the user knows, even where their lines are known. */
bool snapshot_is_library(const struct stack_frame *frame)
{
    static const char *const folders[] = {"/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/", "[", NULL};
    return is_native(frame) &&
           (starts_with_any(frame->module, folders) || (!*frame->file && strstr(text_base(frame->module), ".so")));
}

static bool is_interpreter(const struct stack_frame *frame)
{
    static const char *const names[] = {"python", "libpython", NULL};
    return is_native(frame) && starts_with_any(text_base(frame->module), names);
}

static bool is_start(const struct stack_frame *frame)
{
    static const char *const names[] = {"_start", "__libc_start", "start_thread", "clone", "__clone", "__GI___clone",
                                        NULL};
    return is_native(frame) && starts_with_any(frame->function, names);
}

static bool is_mpi(const struct stack_frame *frame)
{
    static const char *const names[] = {"MPI_", "PMPI_", NULL};
    return is_native(frame) && starts_with_any(frame->function, names);
}

/* The C library has its functions under several names: "__GI___nanosleep"; MPI has each under two. */
static const char *plain_name(const struct stack_frame *frame)
{
    static const char *const names[] = {"libc.so", "libc-2", "libpthread", "libm.so", NULL};
    const char *name = frame->function;
    if (strncmp(name, "PMPI_", 5) == 0)
        return name + 1;
    if (!starts_with_any(text_base(frame->module), names))
        return name;
    if (strncmp(name, "__GI_", 5) == 0)
        name += 5;
    const char *plain = name + strspn(name, "_");
    plain += strncmp(plain, "libc_", 5) == 0 ? 5 : 0;
    return *plain ? plain : name;
}

/* Both are somewhere in the same program, which has no names. */
static bool is_unnamed(const struct stack_frame *one, const struct stack_frame *other)
{
    return is_native(one) && is_native(other) && !*one->function && !*other->function &&
           strcmp(one->module, other->module) == 0;
}

size_t snapshot_trim(struct stack_frame *frames, size_t count)
{
    bool python = false;
    size_t end = count, kept = count;
    for (size_t i = 0; i < count; i++)
        python |= strcmp(frames[i].language, "python") == 0;
    for (size_t i = 0; i < count && end == count; i++) /* what is outside has no names, perhaps */
        end = is_start(&frames[i]) ? i : end;
    if (!end)
        return count;
    /* outside in: what was kept last decides on what it has called */
    const struct stack_frame *outer = NULL;
    for (size_t i = end; i-- > 0;) {
        /* a library without names, such as that of mpi4py, says less than what it has called */
        if (outer && is_mpi(&frames[i]) && snapshot_is_library(outer) && !*outer->function) {
            kept++;
            outer = NULL;
        }
        bool hidden = (outer && is_unnamed(outer, &frames[i])) || (python && is_interpreter(&frames[i])) ||
                      (outer && is_mpi(outer)) ||
                      (outer && snapshot_is_library(outer) && snapshot_is_library(&frames[i]));
        if (hidden)
            continue;
        frames[--kept] = frames[i];
        frames[kept].function = plain_name(&frames[kept]);
        outer = &frames[kept];
    }
    memmove(frames, frames + kept, (count - kept) * sizeof *frames);
    return count - kept;
}

/* ---- sets ---- */

void snapshot_put_set(struct buf *out, const uint32_t *numbers, size_t count)
{
    size_t shown = 0;
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count && numbers[end] == numbers[end - 1] + 1;)
            end++;
        if (end < count && shown == SET_RANGES - 1) {
            buf_printf(out, ",...,%" PRIu32, numbers[count - 1]);
            return;
        }
        if (end == i + 2) /* two: no range */
            end--;
        buf_printf(out, "%s%" PRIu32, i ? "," : "", numbers[i]);
        if (end > i + 1)
            buf_printf(out, "-%" PRIu32, numbers[end - 1]);
        shown++;
    }
}

static bool take_number(const char **at, uint32_t *ret_number)
{
    char *end;
    if (**at < '0' || **at > '9')
        return false;
    errno = 0;
    unsigned long long number = strtoull(*at, &end, 10);
    *at = end;
    *ret_number = (uint32_t)number;
    return errno == 0 && number <= INT32_MAX;
}

int snapshot_set_has(const char *set, uint32_t number, bool *ret_has, struct err *err)
{
    const char *at = set;
    *ret_has = false;
    for (bool more = true; more; at++) {
        uint32_t low, high;
        if (!take_number(&at, &low))
            break;
        high = low;
        if (*at == '-' && (at++, !take_number(&at, &high) || high < low))
            break;
        *ret_has |= number >= low && number <= high;
        more = *at == ',';
        if (!*at)
            return 0;
    }
    return err_set(err, -EINVAL, "'%s' is no set of ranks: write numbers and ranges, such as 0-3,8", set);
}

/* Values of variables for people: what all have in common is said once. */

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

/* Appends what the variables of a function are: "n = 320 (all); rank: 0, 1, 2". */
static void snapshot_put_values(struct buf *out, const struct snapshot *snapshot, const struct stack_node *node,
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

/* The tree for people: a line for each place where stacks part, with what they have in common up to there. */

enum { SHOWN_PIDS = 3, SHOWN_LINES = 100, SHOWN_UNREAD = 5 };

struct printer {
    struct buf *out;
    const struct snapshot *snapshot;
    uint32_t *numbers;            /* room for all processes */
    struct stack_member *members; /* the same */
    size_t lines, left_out;
};

/* ---- who ---- */

/* Ranks of one MPI program are next to each other. */
size_t snapshot_put_ranks(struct buf *out, const struct snapshot *snapshot, const struct stack_member *members,
                          size_t count, uint32_t *numbers)
{
    size_t at = 0;
    while (at < count && snapshot->list[members[at].process].rank >= 0) {
        const char *job = snapshot->list[members[at].process].mpi_job;
        size_t taken = 0;
        for (const struct snapshot_process *process;
             at < count && (process = &snapshot->list[members[at].process])->rank >= 0 &&
             strcmp(process->mpi_job, job) == 0;
             at++)
            numbers[taken++] = (uint32_t)process->rank;
        buf_puts(out, at > taken ? ", " : "");
        buf_puts(out, taken == 1 ? "rank " : "ranks ");
        snapshot_put_set(out, numbers, taken);
        if (taken > 1)
            buf_printf(out, " (%zu)", taken);
    }
    return at;
}

static size_t put_ranks(struct printer *printer, const struct stack_node *node)
{
    return snapshot_put_ranks(printer->out, printer->snapshot, node->members, node->member_count, printer->numbers);
}

void snapshot_put_members(struct buf *out, const struct snapshot *snapshot, const struct stack_member *members,
                          size_t all, uint32_t *numbers)
{
    size_t from = snapshot_put_ranks(out, snapshot, members, all, numbers), count = all - from;
    if (!count)
        return;
    const char *name = snapshot->list[members[from].process].name;
    bool same = true;
    for (size_t i = from; i < all; i++)
        same &= strcmp(snapshot->list[members[i].process].name, name) == 0;
    buf_puts(out, from ? ", " : "");
    if (same)
        text_show(out, name);
    if (count > SHOWN_PIDS) {
        buf_printf(out, "%s(%zu processes)", same ? " " : "", count);
        return;
    }
    for (size_t i = from; i < all; i++) {
        const struct snapshot_process *process = &snapshot->list[members[i].process];
        buf_puts(out, i > from ? ", " : same ? " " : "");
        if (!same) {
            text_show(out, process->name);
            buf_putc(out, ' ');
        }
        buf_printf(out, "%" PRId64, process->pid);
    }
}

static void put_threads(struct printer *printer, const struct stack_node *node)
{
    bool even = true;
    for (size_t i = 1; i < node->member_count; i++)
        even &= node->members[i].threads == node->members[0].threads;
    if (node->threads == node->member_count)
        return;
    if (even)
        buf_printf(printer->out, " x %" PRIu32 " threads", node->members[0].threads);
    else
        buf_printf(printer->out, " (%" PRIu64 " threads)", node->threads);
}

/* Of all processes of the line above only the threads are said. */
static void put_who(struct printer *printer, const struct stack_node *node)
{
    const struct stack_node *parent = node->parent;
    if (parent && parent->parent && node->member_count == parent->member_count && node->threads < parent->threads) {
        bool each = node->member_count > 1 && node->threads == node->member_count;
        buf_printf(printer->out, "%" PRIu64 " thread%s%s", each ? 1 : node->threads,
                   each || node->threads == 1 ? "" : "s", each ? " of each" : "");
        return;
    }
    snapshot_put_members(printer->out, printer->snapshot, node->members, node->member_count, printer->numbers);
    put_threads(printer, node);
}

/* ---- where ---- */

static void put_frame(struct buf *out, const struct stack_frame *frame)
{
    if (strcmp(frame->language, "note") == 0) {
        buf_putc(out, '(');
        text_show(out, frame->function);
        buf_putc(out, ')');
        return;
    }
    bool library = snapshot_is_library(frame);
    if (*frame->function)
        text_function(out, frame->function, frame->file);
    else
        text_show(out, *frame->module ? text_base(frame->module) : "?");
    if (!*frame->file || library)
        return;
    buf_puts(out, " (");
    text_show(out, text_base(frame->file));
    if (frame->line)
        buf_printf(out, ":%u", frame->line);
    buf_putc(out, ')');
}

static void put_running(struct buf *out, const struct stack_node *node)
{
    if (node->first || !node->running)
        return;
    if (node->running == node->threads)
        buf_puts(out, node->threads == 1 ? ", runs" : ", run");
    else
        buf_printf(out, ", %" PRIu64 " of %" PRIu64 " run", node->running, node->threads);
}

static bool goes_on(const struct stack_node *node)
{
    return node->first && node->first == node->last && !node->ended;
}

static bool is_same(const struct stack_frame *one, const struct stack_frame *other)
{
    return one->line == other->line && strcmp(one->function, other->function) == 0 &&
           strcmp(one->file, other->file) == 0 && (*one->file || strcmp(one->module, other->module) == 0);
}

/* What all of them have in common from here on; returns its end. A function that calls itself is said once. */
static const struct stack_node *put_chain(struct buf *out, const struct stack_node *node)
{
    for (bool first = true;; first = false) {
        unsigned times = 1;
        buf_puts(out, first ? "" : " > ");
        put_frame(out, &node->frame);
        for (; goes_on(node) && is_same(&node->frame, &node->first->frame); times++)
            node = node->first;
        if (times > 1)
            buf_printf(out, " x %u", times);
        if (!goes_on(node))
            return node;
        node = node->first;
    }
}

/* Of the functions from `node` on to the last of its line. */
static void put_values_of_node(struct printer *printer, const struct stack_node *node, const struct stack_node *last,
                               unsigned level)
{
    for (;; node = node->first) {
        if (node->value_count) {
            buf_printf(printer->out, "%*s", (int)(2 * level + 4), "");
            text_function(printer->out, node->frame.function, node->frame.file);
            buf_puts(printer->out, ": ");
            snapshot_put_values(printer->out, printer->snapshot, node, printer->numbers);
            buf_putc(printer->out, '\n');
        }
        if (node == last)
            return;
    }
}

static void put_branch(struct printer *printer, const struct stack_node *node, unsigned level)
{
    struct buf *out = printer->out;
    const struct stack_node *first = node;
    if (printer->lines++ >= SHOWN_LINES) {
        printer->left_out++;
        return;
    }
    buf_printf(out, "%*s", (int)(2 * level), "");
    put_who(printer, node);
    buf_puts(out, "  ");
    node = put_chain(out, node);
    put_running(out, node);
    buf_putc(out, '\n');
    put_values_of_node(printer, first, node, level);
    if (node->ended && node->first)
        buf_printf(out, "%*s%" PRIu64 " thread%s  here\n", (int)(2 * level + 2), "", node->ended,
                   node->ended == 1 ? "" : "s");
    for (const struct stack_node *child = node->first; child; child = child->next)
        put_branch(printer, child, level + 1);
}

/* ---- the whole ---- */

static void put_head(struct buf *out, const struct snapshot *snapshot)
{
    size_t asked = 0;
    for (size_t i = 0; i < snapshot->count; i++)
        asked += snapshot->list[i].wanted;
    if (snapshot->job) {
        buf_puts(out, "job ");
        text_show(out, snapshot->job);
        buf_puts(out, ": ");
    }
    buf_printf(out, "%" PRIu64 " thread%s of ", snapshot->tree.root->threads,
               snapshot->tree.root->threads == 1 ? "" : "s");
    if (snapshot->ranks && snapshot->ranks + snapshot->others_left >= asked && snapshot->list[0].rank >= 0 &&
        asked <= snapshot->ranks)
        buf_printf(out, "%zu rank%s", asked, asked == 1 ? "" : "s");
    else
        buf_printf(out, "%zu process%s", asked, asked == 1 ? "" : "es");
    if (job_nodes_has_others(&snapshot->nodes))
        buf_printf(out, " on %zu of %zu nodes", snapshot->nodes.count - snapshot->unreached, snapshot->nodes.count);
    buf_puts(out, ", read in ");
    text_ns(out, (double)snapshot->read_ns);
    buf_puts(out, "; nothing was stopped\n\n");
}

/* ---- queues ---- */

static void put_operation(struct buf *out, const struct snapshot_operation *operation)
{
    buf_puts(out, "  ");
    text_show(out, operation->call);
    if (operation->peer != MPIA_RANK_NONE) {
        buf_puts(out, strcmp(operation->kind, "send") == 0 ? " to " : " from ");
        mpi_text_rank(out, (int32_t)operation->peer);
    }
    if (operation->tag >= 0)
        buf_printf(out, ", tag %" PRId64, operation->tag);
    else if (operation->tag == MPIA_TAG_ANY)
        buf_puts(out, ", any tag");
    buf_puts(out, ", ");
    text_size(out, operation->bytes < 0 ? 0 : (uint64_t)operation->bytes);
    if (operation->comm > 0)
        buf_printf(out, ", communicator %" PRId64, operation->comm);
    if (strcmp(operation->state, "inactive") == 0)
        buf_puts(out, ", not started");
    else if (strcmp(operation->state, "active") != 0)
        buf_puts(out, ", freed");
}

/* So many from the first on that are alike: a line with all their ranks. */
static void put_alike(struct printer *printer, const struct snapshot_operation *first, size_t count)
{
    struct stack_node who = {.members = printer->members};
    uint64_t oldest_ns = 0;
    for (size_t i = 0; i < count; i++) {
        oldest_ns = first[i].age_ns > oldest_ns ? first[i].age_ns : oldest_ns;
        if (!i || first[i].process != first[i - 1].process)
            who.members[who.member_count++] = (struct stack_member){.process = first[i].process};
    }
    put_ranks(printer, &who);
    put_operation(printer->out, first);
    if (count > who.member_count)
        buf_printf(printer->out, ", %zu requests", count);
    buf_puts(printer->out, count > 1 ? ", the oldest begun " : ", begun ");
    text_ns(printer->out, (double)oldest_ns);
    buf_puts(printer->out, " ago\n");
}

static void put_queues(struct printer *printer)
{
    const struct snapshot *snapshot = printer->snapshot;
    size_t lines = 0, more = 0;
    if (!snapshot->has_queues)
        return;
    buf_puts(printer->out, snapshot->operation_count ? "\nrequests of MPI that are not completed:\n"
                                                     : "\nno request of MPI is begun and not completed\n");
    for (size_t i = 0, alike; i < snapshot->operation_count; i += alike) {
        const struct snapshot_operation *first = &snapshot->operations[i];
        for (alike = 1; i + alike < snapshot->operation_count; alike++)
            if (snapshot_compare_operations(first, &first[alike]) != 0)
                break;
        if (lines++ < SHOWN_LINES)
            put_alike(printer, first, alike);
        else
            more++;
    }
    if (more)
        buf_printf(printer->out, "... and %zu more lines: choose with --rank; --json has all\n", more);
}

/* Processes of which nothing is known, or not all. */
static void put_problems(struct printer *printer, size_t above)
{
    const struct snapshot *snapshot = printer->snapshot;
    size_t shown = 0, more = 0;
    for (size_t i = 0; i < snapshot->count; i++) {
        const struct snapshot_process *process = &snapshot->list[i];
        if (!process->wanted || !*process->problem)
            continue;
        if (shown++ >= SHOWN_UNREAD) {
            more++;
            continue;
        }
        buf_puts(printer->out, shown == 1 && !above ? "\nnote: " : "note: ");
        if (process->rank >= 0)
            buf_printf(printer->out, "rank %" PRId64 " (process %" PRId64 " on ", process->rank, process->pid);
        else
            buf_printf(printer->out, "process %" PRId64 " (", process->pid);
        text_show(printer->out, process->rank >= 0 ? process->host : process->name);
        buf_puts(printer->out, "): ");
        text_show(printer->out, process->problem);
        buf_putc(printer->out, '\n');
    }
    if (more)
        buf_printf(printer->out, "... and %zu more (--json lists them)\n", more);
}

/* Nodes without an answer: what their ranks do is not known. Returns how many lines. */
static size_t put_unreached(struct buf *out, const struct snapshot *snapshot)
{
    size_t shown = 0;
    for (size_t i = 0; i < snapshot->nodes.count; i++) {
        const struct job_node *node = &snapshot->nodes.list[i];
        if (!*node->problem || shown++ >= SHOWN_UNREAD)
            continue;
        buf_puts(out, shown == 1 ? "\nnote: node " : "note: node ");
        text_show(out, *node->name ? node->name : "this one");
        buf_puts(out, " is missing: ");
        text_show(out, node->problem);
        buf_putc(out, '\n');
    }
    if (shown > SHOWN_UNREAD)
        buf_printf(out, "... and %zu more nodes (--json lists them)\n", shown - SHOWN_UNREAD);
    return shown;
}

void snapshot_text(struct buf *out, const struct snapshot *snapshot, size_t columns)
{
    _cleanup_(freep) uint32_t *numbers = calloc(snapshot->count + 1, sizeof *numbers);
    _cleanup_(freep) struct stack_member *members = calloc(snapshot->count + 1, sizeof *members);
    struct printer printer = {.out = out, .snapshot = snapshot, .numbers = numbers, .members = members};
    out->failed |= !numbers || !members;
    if (out->failed)
        return;
    put_head(out, snapshot);
    for (int library = 0; library <= 1; library++) /* threads that libraries have begun come last */
        for (const struct stack_node *node = snapshot->tree.root->first; node; node = node->next)
            if (snapshot_is_library(&node->frame) == library)
                put_branch(&printer, node, 0);
    if (printer.left_out)
        buf_printf(out, "... and %zu more lines: choose with --rank, --thread or --depth; --json has all\n",
                   printer.left_out);
    put_queues(&printer);
    if (snapshot->has_queues)
        snapshot_put_messages(out, snapshot, numbers, members);
    if (snapshot->has_files)
        snapshot_put_files(out, snapshot, numbers, members);
    put_problems(&printer, put_unreached(out, snapshot));
    if (snapshot->others_left)
        buf_printf(out, "\n%zu more process%s no rank%s (--all shows %s, and every frame)\n", snapshot->others_left,
                   snapshot->others_left == 1 ? " is" : "es are", snapshot->others_left == 1 ? "" : "s",
                   snapshot->others_left == 1 ? "it" : "them");
    text_wrap(out, 0, columns);
}
