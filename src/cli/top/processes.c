/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top/processes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobdir/text/text.h"

static int compare(const struct job_process *left, const struct job_process *right, enum top_order order)
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
    return compare(*(const struct job_process *const *)a, *(const struct job_process *const *)b,
                   *(const enum top_order *)order);
}

/* ---- the tree ---- */

struct node { /* indices into the list; SIZE_MAX: none */
    pid_t pid;
    size_t at, first, last, next;
    bool has_parent;
};

static int by_pid(const void *a, const void *b)
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
        qsort(nodes, count, sizeof *nodes, by_pid);
        memcpy(list, processes->list, count * sizeof *list);
        for (size_t i = 0; i < count; i++)
            place[nodes[i].at] = i;
        for (size_t i = 0; i < count; i++) {
            const struct node wanted = {.pid = list[i]->ppid};
            struct node *parent = bsearch(&wanted, nodes, count, sizeof *nodes, by_pid);
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
    {.type = FIELD_COUNT, FIELD_AT(struct job_process, pid), .column = {1, 0, 8, "     PID"}},
    {.type = FIELD_TEXT,
     FIELD_AT(struct job_process, node),
     FIELD_OR_NULL,
     .column = {7, 2, -12, "NODE", .none = "(here)", .when = has_nodes}},
    {.type = FIELD_SHOWN, .column = {2, 1, 1, "S", .text = put_letter}},
    {.type = FIELD_NUMBER, FIELD_AT(struct job_process, cpu_share), .column = {3, 1, 6, "CPU %", .text = put_share}},
    {.type = FIELD_BYTES, FIELD_AT(struct job_process, rss), .column = {4, 1, 8, "MEMORY"}},
    {.type = FIELD_SECONDS, FIELD_AT(struct job_process, cpu_ns), .column = {5, 1, 12, "CPU TIME"}},
    {.type = FIELD_COUNT, FIELD_AT(struct job_process, threads), .column = {6, 1, 7, "THREADS"}},
    {0}};

const struct field top_process_fields[] = {
    {.type = FIELD_PART, FIELD_AT(struct top_process, process), FIELD_POINTER, .of = process_fields},
    {.type = FIELD_SHOWN, .column = {8, 2, 0, "NAME", .text = put_name}},
    {0}};
