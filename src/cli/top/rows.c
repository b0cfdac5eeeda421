/* SPDX-License-Identifier: Apache-2.0 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "cli/top/top.h"
#include "client/client.h"
#include "client/decode.h"
#include "jobdir/text/text.h"
#include "lang/value.h"
#include "lang/results.h"
#include "shm/waits.h"

enum { PROCESSES = 256, ROWS_ASKED = 100 }; /* for a process; more than any screen shows */

static void functions_clear(struct top_functions *functions)
{
    for (size_t i = 0; i < functions->count; i++) {
        free(functions->list[i].name);
        free(functions->list[i].file);
    }
    free(functions->list);
    functions->list = NULL;
    functions->count = 0;
    functions->self_ns = 0;
}

void top_functions_connect(struct top_functions *functions)
{
    if (functions->connected || clock_now_ns() < functions->again_ns)
        return;
    functions->connected = client_join();
    functions->asking = false;
    functions->attached_count = 0; /* another monitor knows none of them */
    functions->again_ns = clock_now_ns() + (client_timed_out() ? TOP_SLOW_NS : TOP_AGAIN_NS);
}

void top_functions_close(struct top_functions *functions)
{
    if (functions->connected)
        omis_finalize();
    functions_clear(functions);
    free(functions->attached);
    *functions = (struct top_functions){0};
}

/* ---- the answer ---- */

static int by_place(const void *a, const void *b)
{
    const struct top_function *left = a, *right = b;
    int order = strcmp(left->name, right->name);
    if (order == 0)
        order = strcmp(left->file, right->file);
    return order ? order : (left->line > right->line) - (left->line < right->line);
}

static int by_self(const void *a, const void *b)
{
    const struct top_function *left = a, *right = b;
    if (left->self_ns != right->self_ns)
        return left->self_ns < right->self_ns ? 1 : -1;
    if (left->calls != right->calls)
        return left->calls < right->calls ? 1 : -1;
    return by_place(a, b);
}

/* Takes over name and file. */
static void function_add(struct top_functions *functions, const struct top_function *function)
{
    if (function->name && function->file) {
        functions->list[functions->count++] = *function;
        functions->self_ns += function->self_ns;
        return;
    }
    free(function->name);
    free(function->file);
}

/* The same function of several processes becomes one row. */
static void functions_merge(struct top_functions *functions)
{
    size_t used = 0;
    if (!functions->count)
        return;
    if (functions->count)
        qsort(functions->list, functions->count, sizeof *functions->list, by_place);
    for (size_t i = 1; i < functions->count; i++) {
        struct top_function *into = &functions->list[used], *from = &functions->list[i];
        if (by_place(into, from) != 0) {
            functions->list[++used] = *from;
            continue;
        }
        into->calls += from->calls;
        into->total_ns += from->total_ns;
        into->self_ns += from->self_ns;
        into->min_ns = from->min_ns < into->min_ns ? from->min_ns : into->min_ns;
        into->max_ns = from->max_ns > into->max_ns ? from->max_ns : into->max_ns;
        free(from->name);
        free(from->file);
    }
    functions->count = used + 1;
    if (functions->count)
        qsort(functions->list, functions->count, sizeof *functions->list, by_self);
}

void top_functions_final(struct top_functions *functions, const struct job_functions *all)
{
    functions_clear(functions);
    size_t count = all && !all->incomplete ? HASH_COUNT(all->functions) : 0;
    functions->list = count ? calloc(count, sizeof *functions->list) : NULL;
    for (const struct job_function *each = functions->list ? all->functions : NULL; each; each = each->hh.next) {
        bool timed = each->max_ns >= each->min_ns && each->max_ns > 0;
        function_add(functions, &(struct top_function){.name = strdup(each->name),
                                                       .file = strdup(each->file),
                                                       .line = each->line,
                                                       .calls = each->calls,
                                                       .total_ns = (uint64_t)each->total_ns,
                                                       .self_ns = (uint64_t)each->self_ns,
                                                       .min_ns = timed ? (uint64_t)each->min_ns : UINT64_MAX,
                                                       .max_ns = (uint64_t)each->max_ns});
    }
    if (functions->count)
        qsort(functions->list, functions->count, sizeof *functions->list, by_self);
}

static void take_result(struct top_functions *functions, const struct omis_value *values)
{
    struct row {
        const char *name, *file;
        uint64_t line, calls, total_ns, self_ns, min_ns;
        int64_t max_ns;
    } row;
    static const struct decode_field fields[] = {
        DECODE(struct row, name),   DECODE(struct row, file),     DECODE(struct row, line),
        DECODE(struct row, calls),  DECODE(struct row, total_ns), DECODE(struct row, self_ns),
        DECODE(struct row, min_ns), DECODE(struct row, max_ns),   {0}};
    const struct omis_value *rows = omis_item(values, 0);
    struct decoder decoder;
    decoder_init(&decoder, CT_PROFILE_ROW, 0, fields);
    size_t count = decoder_rows(&decoder, rows);
    struct top_function *more = realloc(functions->list, (functions->count + count + 1) * sizeof *functions->list);
    if (!more)
        return;
    functions->list = more;
    for (size_t i = 0; i < count; i++) {
        decode(&decoder, rows, i, &row);
        function_add(functions, &(struct top_function){.name = strdup(row.name),
                                                       .file = strdup(row.file),
                                                       .line = row.line,
                                                       .calls = row.calls,
                                                       .total_ns = row.total_ns,
                                                       .self_ns = row.self_ns,
                                                       .min_ns = row.max_ns >= 0 ? row.min_ns : UINT64_MAX,
                                                       .max_ns = row.max_ns >= 0 ? (uint64_t)row.max_ns : 0});
    }
}

static void on_functions(Omis_reply reply, void *param)
{
    struct top_functions *functions = param;
    _cleanup_(omis_reader_freep) struct omis_reader *reader = omis_reader_take(reply);
    size_t last = 0;
    functions->asking = false;
    functions_clear(functions);
    while (reply && reply[last] && reply[last + 1])
        last++;
    /* processes without an agent answer with an error, which has no values: there is nothing to show of them */
    for (int more = last && omis_reader_find(reader, last); more; more = omis_reader_next(reader))
        take_result(functions, omis_reader_values(reader));
    functions_merge(functions);
}

/* ---- the question ---- */

static int by_pid(const void *a, const void *b)
{
    pid_t left = *(const pid_t *)a, right = *(const pid_t *)b;
    return (left > right) - (left < right);
}

/* Attaches processes that are new to the monitor. That stops nothing. */
static void attach_new(struct top_functions *functions, const struct job_model *model, struct buf *text)
{
    size_t before = functions->attached_count;
    for (const struct job_process *process = model->alive; process; process = process->hh.next) {
        if (functions->attached_count >= PROCESSES)
            break;
        if (before && bsearch(&process->pid, functions->attached, before, sizeof(pid_t), by_pid))
            continue;
        pid_t *more = realloc(functions->attached, (functions->attached_count + 1) * sizeof *more);
        if (!more)
            break;
        functions->attached = more;
        functions->attached[functions->attached_count++] = process->pid;
        buf_printf(text, " proc_attach3([],%d,\"\")", process->pid);
    }
    if (functions->attached_count > before)
        qsort(functions->attached, functions->attached_count, sizeof(pid_t), by_pid);
}

/* Forgets processes that have ended. */
static void forget_ended(struct top_functions *functions, const struct job_model *model)
{
    size_t used = 0;
    for (size_t i = 0; i < functions->attached_count; i++) {
        struct job_process *process;
        HASH_FIND_INT(model->alive, &functions->attached[i], process);
        if (process)
            functions->attached[used++] = functions->attached[i];
    }
    functions->attached_count = used;
}

void top_functions_ask(struct top_functions *functions, const struct job_model *model)
{
    struct buf text = BUF_INIT;
    if (!functions->connected || functions->asking)
        return;
    buf_puts(&text, ":node_attach2(\"\")");
    forget_ended(functions, model);
    attach_new(functions, model, &text);
    buf_printf(&text, " ct_get_profile([],%d)", ROWS_ASKED);
    if (!text.failed) {
        functions->asking = true;
        client_request(span_of(text.data, text.len), on_functions, functions, 0);
    }
    buf_done(&text);
}

int top_functions_fd(const struct top_functions *functions)
{
    return functions->connected ? omis_fd() : -1;
}

void top_functions_handle(struct top_functions *functions)
{
    if (!functions->connected)
        return;
    omis_handler();
    if (!client_connected()) { /* keep the last list */
        omis_finalize();
        functions->connected = functions->asking = false;
    }
}

bool top_functions_wait(struct top_functions *functions, const unsigned *also_asking, int timeout_ms)
{
    uint64_t until = clock_now_ns() + (uint64_t)timeout_ms * 1000000;
    while (functions->connected && (functions->asking || *also_asking)) {
        if (clock_now_ns() >= until)
            return false;
        wait_fd_until(top_functions_fd(functions), POLLIN, until);
        top_functions_handle(functions);
    }
    return true;
}

static int compare_processes(const struct job_process *left, const struct job_process *right, enum top_order order)
{
    int names = 0;
    switch (order) {
    case TOP_BY_CPU:
        if (left->cpu_share != right->cpu_share)
            return left->cpu_share < right->cpu_share ? 1 : -1;
        break;
    case TOP_BY_MEMORY:
        if (left->rss != right->rss)
            return left->rss < right->rss ? 1 : -1;
        break;
    case TOP_BY_NAME:
        names = strcmp(left->name, right->name);
        break;
    default:
        break;
    }
    if (names)
        return names;
    if (order != TOP_BY_PID && order != TOP_BY_NAME && order != TOP_BY_MEMORY && left->cpu_ns != right->cpu_ns)
        return left->cpu_ns < right->cpu_ns ? 1 : -1;
    return left->pid - right->pid;
}

static int by_order(const void *a, const void *b, void *order)
{
    return compare_processes(*(const struct job_process *const *)a, *(const struct job_process *const *)b,
                             *(const enum top_order *)order);
}

/* ---- the tree ---- */

struct node { /* indices into the list; SIZE_MAX: none */
    pid_t pid;
    size_t at, first, last, next;
    bool has_parent;
};

static int by_node_pid(const void *a, const void *b)
{
    return ((const struct node *)a)->pid - ((const struct node *)b)->pid;
}

static void put_below(struct top_processes *processes, const struct job_process **list, const struct node *nodes,
                      const size_t *place, size_t index, unsigned depth)
{
    enum { DEPTH_MAX = 64 };
    for (size_t i = index; i != SIZE_MAX; i = nodes[place[i]].next) {
        processes->depths[processes->count] = depth;
        processes->list[processes->count++] = list[i];
        if (depth < DEPTH_MAX)
            put_below(processes, list, nodes, place, nodes[place[i]].first, depth + 1);
    }
}

/* Puts each process after its parent, siblings in the order of the list: of those from `first` on, which are on one
 * node. */
static void make_tree(struct top_processes *all, size_t first)
{
    struct top_processes part = {all->list + first, all->depths + first, all->count - first}, *processes = &part;
    size_t count = processes->count;
    struct node *nodes = calloc(count + 1, sizeof *nodes);
    size_t *place = calloc(count + 1, sizeof *place); /* by index in the list */
    const struct job_process **list = calloc(count + 1, sizeof *list);
    for (size_t i = 0; nodes && i < count; i++)
        nodes[i] = (struct node){processes->list[i]->pid, i, SIZE_MAX, SIZE_MAX, SIZE_MAX, false};
    if (nodes && place && list && count) {
        qsort(nodes, count, sizeof *nodes, by_node_pid);
        memcpy(list, processes->list, count * sizeof *list);
        for (size_t i = 0; i < count; i++)
            place[nodes[i].at] = i;
        for (size_t i = 0; i < count; i++) {
            const struct node wanted = {.pid = list[i]->ppid};
            struct node *parent = bsearch(&wanted, nodes, count, sizeof *nodes, by_node_pid);
            if (!parent || parent->at == i)
                continue;
            nodes[place[i]].has_parent = true;
            if (parent->first == SIZE_MAX)
                parent->first = i;
            else
                nodes[place[parent->last]].next = i;
            parent->last = i;
        }
        processes->count = 0;
        for (size_t i = 0; i < count; i++)
            if (!nodes[place[i]].has_parent) {
                processes->list[processes->count] = list[i];
                processes->depths[processes->count++] = 0;
                put_below(processes, list, nodes, place, nodes[place[i]].first, 1);
            }
    }
    free(nodes);
    free(place);
    free(list);
}

void top_processes_choose(struct top_processes *ret_processes, const struct job_report *report,
                          const struct top_choice *choice)
{
    size_t count = 0;
    enum top_order order = choice->order;
    for (size_t i = 0; i <= report->part_count; i++)
        count += HASH_COUNT(job_report_model(report, i)->alive);
    struct top_processes chosen = {calloc(count + 1, sizeof *chosen.list), calloc(count + 1, sizeof *chosen.depths), 0};
    bool room = chosen.list && chosen.depths;
    for (size_t i = 0; i <= report->part_count && room; i++) {
        size_t first = chosen.count;
        for (const struct job_process *each = job_report_model(report, i)->alive; each; each = each->hh.next)
            if (top_choice_has(choice, each->name))
                chosen.list[chosen.count++] = each;
        bool last = i == report->part_count, together = !choice->tree; /* a tree is of one node */
        size_t from = together ? 0 : first;
        if (chosen.count > from && (last || !together))
            qsort_r(chosen.list + from, chosen.count - from, sizeof *chosen.list, by_order, &order);
        if (choice->tree)
            make_tree(&chosen, first);
    }
    *ret_processes = chosen;
}

void top_processes_done(struct top_processes *processes)
{
    free(processes->list);
    free(processes->depths);
}

static void put_letter(struct buf *out, const void *at, const void *row, const void *all)
{
    buf_putc(out, ((const struct job_process *)row)->state);
}

static void put_share(struct buf *out, const void *at, const void *row, const void *all)
{
    buf_printf(out, "%.1f", 100 * *(const double *)at);
}

static void put_name(struct buf *out, const void *at, const void *row, const void *all)
{
    const struct top_process *of = row;
    buf_printf(out, "%*s", (int)(2 * of->depth), "");
    text_show(out, of->process->name);
}

static bool has_nodes(const void *all)
{
    return all && ((const struct job_report *)all)->part_count;
}

static const struct field process_fields[] = {
    {.type = FIELD_COUNT, FIELD_AT(struct job_process, pid), .column = FIELD_COLUMN(1, 0, 8, "     PID")},
    {.type = FIELD_TEXT,
     FIELD_AT(struct job_process, node),
     FIELD_OR_NULL,
     .column = FIELD_COLUMN(7, 2, -12, "NODE", .none = "(here)", .when = has_nodes)},
    {.type = FIELD_SHOWN, .column = FIELD_COLUMN(2, 1, 1, "S", .text = put_letter)},
    {.type = FIELD_NUMBER,
     FIELD_AT(struct job_process, cpu_share),
     .column = FIELD_COLUMN(3, 1, 6, "CPU %", .text = put_share)},
    {.type = FIELD_BYTES, FIELD_AT(struct job_process, rss), .column = FIELD_COLUMN(4, 1, 8, "MEMORY")},
    {.type = FIELD_SECONDS, FIELD_AT(struct job_process, cpu_ns), .column = FIELD_COLUMN(5, 1, 12, "CPU TIME")},
    {.type = FIELD_COUNT, FIELD_AT(struct job_process, threads), .column = FIELD_COLUMN(6, 1, 7, "THREADS")},
    {0}};

const struct field top_process_fields[] = {
    {.type = FIELD_PART, FIELD_AT(struct top_process, process), FIELD_POINTER, .of = process_fields},
    {.type = FIELD_SHOWN, .column = FIELD_COLUMN(8, 2, 0, "NAME", .text = put_name)},
    {0}};

enum { READ_AGAIN = 10 };
enum { ASKING_HERE = 1, ASKING_OTHERS = 2, ASKING_NODES = 4 };

/* Other nodes write seldom, so it is read seldom. */
static void add_elsewhere(struct top_ranks *ranks)
{
    uint64_t now = clock_now_ns();
    if (ranks->read_ns && now - ranks->read_ns < READ_AGAIN * (uint64_t)TOP_RANKS_NS)
        return;
    ranks->read_ns = now;
    ranks_add_elsewhere(&ranks->known, ranks->path);
}

static void on_ranks(Omis_reply reply, void *param)
{
    struct top_ranks *ranks = param;
    ranks->asking &= ~ASKING_HERE;
    *ranks->refused = 0;
    struct omis_reader *reader = omis_reader_take(reply);
    while (omis_reader_next(reader))
        if (omis_count(omis_reader_values(reader)))
            ranks_take(&ranks->known, omis_item(omis_reader_values(reader), 0));
        else if (omis_reader_status(reader) >= OMIS_FIRST_ERROR)
            snprintf(ranks->refused, sizeof ranks->refused, "%s", omis_reader_text(reader));
    omis_reader_free(reader);
    add_elsewhere(ranks);
}

static void on_others(Omis_reply reply, void *param)
{
    struct top_ranks *ranks = param;
    struct omis_reader *reader = omis_reader_take(reply);
    ranks->asking &= ~ASKING_OTHERS;
    buf_clear(&ranks->silent);
    ranks_take_elsewhere(&ranks->known, ranks->path, reader, &ranks->nodes, &ranks->silent);
    omis_reader_free(reader);
}

static void ask_others(struct top_ranks *ranks)
{
    struct buf text = BUF_INIT;
    if (ranks_put_elsewhere(&text, ranks->path, &ranks->nodes)) {
        ranks->asking |= ASKING_OTHERS;
        client_request(span_of(text.data, text.len), on_others, ranks, 0);
    }
    buf_done(&text);
}

static void on_attached(Omis_reply reply, void *param)
{
    struct top_ranks *ranks = param;
    struct err err;
    ranks->asking &= ~ASKING_NODES;
    job_nodes_done(&ranks->nodes);
    buf_clear(&ranks->missing);
    if (job_nodes_answer(&ranks->nodes, reply, &err) < 0)
        buf_puts(&ranks->missing, err.text);
    job_nodes_put_problems(&ranks->missing, &ranks->nodes);
    ask_others(ranks);
}

/* It may take a login: meanwhile what is known is shown. */
static void nodes_attach(struct top_ranks *ranks)
{
    struct buf text = BUF_INIT;
    struct err err;
    if (job_nodes_request(&text, ranks->path, &err) == 0) {
        ranks->asking |= ASKING_NODES;
        client_request(span_of(text.data, text.len), on_attached, ranks, 0);
    }
    buf_done(&text);
}

static void ask_here(struct top_ranks *ranks)
{
    struct buf text = BUF_INIT;
    buf_puts(&text, ":mpi_get_activity(");
    PUT(&text, ranks->path);
    if (job_nodes_has_others(&ranks->nodes)) /* else all are meant */
        buf_printf(&text, ",[%s]", ranks->nodes.list[0].token);
    buf_putc(&text, ')');
    if (!text.failed) {
        ranks->asking |= ASKING_HERE;
        client_request(span_of(text.data, text.len), on_ranks, ranks, 0);
    }
    buf_done(&text);
}

void top_ranks_ask(struct top_ranks *ranks, bool connected, size_t parts)
{
    if (!connected) {
        ranks->asking = 0;
        ranks->parts = 0; /* another monitor has not attached them */
        job_nodes_done(&ranks->nodes);
        add_elsewhere(ranks);
        return;
    }
    if (ranks->asking & ASKING_NODES) /* a request now would mean those, too */
        return;
    if (!(ranks->asking & ASKING_HERE))
        ask_here(ranks);
    if (ranks->asking & ASKING_OTHERS)
        return;
    if (parts != ranks->parts) {
        ranks->parts = parts;
        nodes_attach(ranks);
    } else if (parts) {
        ask_others(ranks);
    }
}

void top_ranks_close(struct top_ranks *ranks)
{
    ranks_done(&ranks->known);
    job_nodes_done(&ranks->nodes);
    buf_done(&ranks->missing);
    buf_done(&ranks->silent);
}

/* ---- the table ---- */

struct ranks_view top_ranks_view(const struct top_ranks *ranks, bool narrow)
{
    enum { MOST = 24 };
    return (struct ranks_view){.narrow = narrow,
                               .host_width = ranks_host_width(ranks->known.list, ranks->known.count, MOST)};
}

void top_ranks_summary(struct buf *line, const struct top_ranks *ranks)
{
    for (size_t at = 0, same; at < ranks->known.count; at += same) {
        same = ranks_same(&ranks->known.list[at], ranks->known.count - at);
        buf_puts(line, at ? "; " : "  ");
        ranks_summary(line, &ranks->known.list[at], same, false);
    }
}
