/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The profile of a job (jobdir/analysis/sampled.h) for its page: functions, and one tree of all processes, or of those, or of the
 * thread, that were asked for. It is read anew for each question, since it grows while the job runs. Of what is too much the least is left out: with a
 * node all that it calls.
 */
#include "base/data/cleanup.h"
#include "jobdir/analysis/sampled.h"
#include "jobdir/text/text.h"
#include "web/view/ask.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NODES_SHOWN = 4000, FUNCTIONS_SHOWN = 1000, PROCESSES_SHOWN = 500, PROGRAMS_SHOWN = 200, THREADS_SHOWN = 500 };

/* Why there are none. */
static int explain(const struct view *view, struct err *err)
{
    const struct job_info *info = &view->report.info;
    if (info->json && !info->profile_hz)
        return err_set(err, -ENODATA, "the job ran without a profile (--profile off)");
    if (view->running)
        return err_set(
            err, -ENODATA,
            "there is no sample yet: the job has just begun, has used too little processor time, or perf events are "
            "not allowed (scry doctor says so)");
    return err_set(
        err, -ENODATA,
        "no samples were taken: the job used too little processor time, or perf events are not allowed (scry "
        "doctor says so)");
}

/* ---- which processes ---- */

/* "PID", or "PART/PID", and "/TID" of a thread; tid < 0: none. */
static bool has_key(const struct sampled_process *process, int64_t tid, const char *key)
{
    char own[64];
    size_t len = strlen(process->part);
    if (tid < 0)
        snprintf(own, sizeof own, "%" PRId64, process->pid);
    else
        snprintf(own, sizeof own, "%" PRId64 "/%" PRId64, process->pid, tid);
    return strncmp(process->part, key, len) == 0 && strcmp(key + len + (len && key[len] == '/'), own) == 0;
}

static void put_key(struct buf *out, const struct sampled_process *process, int64_t tid)
{
    _cleanup_(buf_done) struct buf key = BUF_INIT;
    buf_printf(&key, "%s%s%" PRId64, process->part, *process->part ? "/" : "", process->pid);
    if (tid >= 0)
        buf_printf(&key, "/%" PRId64, tid);
    view_put_text(out, key.data ? key.data : "");
}

/* NULL: all, or there is no memory, with err. */
static bool *processes_asked(const struct sampled *sampled, const struct asked *asked, struct err *err)
{
    if (!asked->process && !asked->program)
        return NULL;
    bool *chosen = calloc(sampled->process_count + 1, sizeof *chosen);
    if (!chosen)
        err_set(err, -ENOMEM, "out of memory");
    for (size_t i = 0; chosen && i < sampled->process_count; i++)
        chosen[i] = (!asked->process || has_key(&sampled->processes[i], -1, asked->process)) &&
                    (!asked->program || strcmp(sampled->processes[i].name, asked->program) == 0);
    return chosen;
}

static int by_time(const void *a, const void *b)
{
    const struct sampled_process *left = *(const struct sampled_process *const *)a,
                                 *right = *(const struct sampled_process *const *)b;
    double x = left->seconds + left->waiting_seconds, y = right->seconds + right->waiting_seconds;
    if (x != y)
        return x > y ? -1 : 1;
    return left < right ? -1 : left > right;
}

static void put_process(struct buf *out, const struct view *view, const struct sampled *sampled,
                        const struct sampled_process *process)
{
    const struct mpi_stats *rank = job_report_sampled_rank(&view->report, process);
    buf_puts(out, "{\"key\":");
    put_key(out, process, -1);
    buf_puts(out, ",\"node\":");
    view_put_text(out, *process->part ? process->part : view->report.info.host ? view->report.info.host : "");
    buf_printf(out, ",\"pid\":%" PRId64, process->pid);
    if (rank)
        buf_printf(out, ",\"rank\":%" PRId32 ",\"world\":%" PRIu32, rank->rank,
                   view->report.mpi->world_of[rank - view->report.mpi->set.ranks]);
    else
        buf_puts(out, ",\"rank\":null,\"world\":null");
    buf_puts(out, ",\"name\":");
    view_put_text(out, process->name);
    buf_printf(out, ",\"self_ns\":%" PRId64 ",\"waiting_ns\":%" PRId64 "}", view_samples_ns(sampled, process->samples),
               view_ns(process->waiting_seconds * 1e9));
}

static void put_processes(struct buf *out, const struct view *view, const struct sampled *sampled)
{
    _cleanup_(freep) const struct sampled_process **list = calloc(sampled->process_count + 1, sizeof(void *));
    size_t count = 0;
    for (size_t i = 0; list && i < sampled->process_count; i++)
        if (sampled->processes[i].samples || sampled->processes[i].waiting_seconds > 0)
            list[count++] = &sampled->processes[i];
    if (count)
        qsort(list, count, sizeof(void *), by_time);
    out->failed |= !list;
    buf_printf(out, ",\"process_count\":%zu,\"processes\":[", count);
    for (size_t i = 0; i < count && i < PROCESSES_SHOWN; i++) {
        buf_puts(out, i ? "," : "");
        put_process(out, view, sampled, list[i]);
    }
    buf_puts(out, "],\"programs\":[");
    const char *shown[PROGRAMS_SHOWN];
    for (size_t i = 0, known = 0; i < count && known < PROGRAMS_SHOWN; i++) {
        size_t at = 0;
        while (at < known && strcmp(shown[at], list[i]->name) != 0)
            at++;
        if (at < known)
            continue;
        buf_puts(out, known ? "," : "");
        view_put_text(out, list[i]->name);
        shown[known++] = list[i]->name;
    }
    buf_putc(out, ']');
}

/* ---- threads ---- */

/* Those whose functions are known. */
static void put_threads(struct buf *out, const struct sampled *sampled)
{
    size_t shown = 0;
    buf_puts(out, ",\"threads\":[");
    for (size_t i = 0; i < sampled->thread_count && shown < THREADS_SHOWN; i++) {
        const struct sampled_thread *thread = &sampled->threads[i];
        const struct sampled_process *process = &sampled->processes[thread->process];
        if (!thread->shares)
            continue;
        buf_puts(out, shown++ ? ",{\"key\":" : "{\"key\":");
        put_key(out, process, thread->tid);
        buf_puts(out, ",\"process\":");
        put_key(out, process, -1);
        buf_printf(out, ",\"tid\":%" PRId64 ",\"name\":", thread->tid);
        view_put_text(out, thread->name);
        buf_printf(out, ",\"self_ns\":%" PRId64 ",\"waiting_ns\":%" PRId64 "}",
                   view_samples_ns(sampled, thread->samples), view_ns(thread->waiting_seconds * 1e9));
    }
    buf_putc(out, ']');
}

/* From now on it is of the thread that is asked for. ret_processes: which has it. */
static int thread_choose(struct sampled *sampled, const struct asked *asked, bool **ret_processes, struct err *err)
{
    _cleanup_(freep) bool *threads = calloc(sampled->thread_count + 1, sizeof *threads);
    bool *processes = calloc(sampled->process_count + 1, sizeof *processes);
    if (!threads || !processes) {
        free(processes);
        return err_set(err, -ENOMEM, "out of memory");
    }
    for (size_t i = 0; i < sampled->thread_count; i++) {
        const struct sampled_thread *thread = &sampled->threads[i];
        threads[i] = has_key(&sampled->processes[thread->process], thread->tid, asked->thread);
        processes[thread->process] |= threads[i];
    }
    sampled_choose_threads(sampled, threads);
    *ret_processes = processes;
    return 0;
}

/* ---- the tree ---- */

struct shown {
    const struct sampled_node *node;
    double weight; /* of all: no caller has less than what it calls */
    size_t place;  /* in the answer */
};

static int by_weight(const void *a, const void *b)
{
    const struct shown *left = a, *right = b;
    if (left->weight != right->weight)
        return left->weight > right->weight ? -1 : 1;
    return left->node < right->node ? -1 : left->node > right->node;
}

static int by_node(const void *a, const void *b)
{
    const struct shown *left = a, *right = b;
    return left->node < right->node ? -1 : left->node > right->node;
}

static size_t place_of(const struct shown *list, size_t count, const struct sampled_node *node)
{
    const struct shown key = {.node = node};
    const struct shown *found = bsearch(&key, list, count, sizeof *list, by_node);
    return found ? (size_t)(found - list) : SIZE_MAX;
}

/* [parent, function, self_ns, total_ns, own waiting, waiting]; of a program its name in place of the function. `places`: of functions
 * in the answer. */
static void put_nodes(struct buf *out, const struct sampled *sampled, const struct sampled_node *nodes,
                      const struct shown *list, size_t count, const size_t *places)
{
    buf_puts(out, ",\"nodes\":[");
    for (size_t i = 0; i < count; i++) {
        const struct sampled_node *node = list[i].node;
        size_t parent = node->parent < 0 ? SIZE_MAX : place_of(list, count, &nodes[node->parent]);
        buf_printf(out, "%s[%" PRId64 ",", i ? "," : "", parent == SIZE_MAX ? -1 : (int64_t)parent);
        if (node->function == SAMPLED_PROGRAM)
            view_put_text(out, sampled->processes[node->process].name);
        else
            buf_printf(out, "%zu", places[node->function]);
        buf_printf(out, ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 "]", view_samples_ns(sampled, node->self),
                   view_samples_ns(sampled, node->total), view_ns(node->own_seconds * 1e9),
                   view_ns(node->seconds * 1e9));
    }
    buf_putc(out, ']');
}

static void put_function(struct buf *out, const struct sampled *sampled, const struct sampled_function *function)
{
    bool first = true;
    buf_puts(out, "{\"name\":");
    view_put_text(out, function->name);
    buf_puts(out, ",\"module\":");
    view_put_text(out, function->module);
    buf_puts(out, ",\"file\":");
    view_put_text(out, function->file);
    buf_printf(out, ",\"line\":%" PRIu32 ",\"language\":", function->line);
    view_put_text(out, function->language);
    buf_printf(out,
               ",\"self_ns\":%" PRId64 ",\"total_ns\":%" PRId64 ",\"waiting_ns\":%" PRId64 ",\"processes\":%" PRIu64
               ",\"waits\":{",
               view_samples_ns(sampled, function->self), view_samples_ns(sampled, function->total),
               view_ns(function->waiting_seconds * 1e9), function->processes);
    for (int what = 1; what < WAITING_KINDS; what++)
        if (function->waits[what] > 0) {
            buf_printf(out, "%s\"%s\":%" PRId64, first ? "" : ",", waiting_word((enum waiting_for)what),
                       view_ns(function->waits[what] * 1e9));
            first = false;
        }
    buf_puts(out, "}}");
}

/* Those that are in the tree, and those with most samples. */
static void put_functions(struct buf *out, const struct sampled *sampled, size_t *places)
{
    size_t shown = 0;
    buf_puts(out, ",\"functions\":[");
    for (size_t i = 0; i < sampled->count; i++) {
        const struct sampled_function *function = &sampled->functions[i];
        if (!places[i] && (shown >= FUNCTIONS_SHOWN || !(function->self || function->waiting_seconds > 0)))
            continue;
        places[i] = shown;
        buf_puts(out, shown++ ? "," : "");
        put_function(out, sampled, function);
    }
    buf_putc(out, ']');
}

static int put_tree(struct buf *out, const struct sampled *sampled, const bool *chosen, struct err *err)
{
    size_t count;
    _cleanup_(freep) struct sampled_node *nodes = NULL;
    _cleanup_(freep) size_t *places = calloc(sampled->count + 1, sizeof *places);
    if (!places || sampled_merge(sampled, chosen, false, &nodes, &count) < 0)
        return err_set(err, -ENOMEM, "out of memory");
    _cleanup_(freep) struct shown *list = calloc(count + 1, sizeof *list);
    if (!list)
        return err_set(err, -ENOMEM, "out of memory");
    for (size_t i = 0; i < count; i++) {
        double processor = sampled->samples ? (double)nodes[i].total / (double)sampled->samples : 0;
        double waiting = sampled->waiting_seconds > 0 ? nodes[i].seconds / sampled->waiting_seconds : 0;
        list[i] = (struct shown){&nodes[i], processor > waiting ? processor : waiting, 0};
    }
    qsort(list, count, sizeof *list, by_weight);
    size_t shown = count < NODES_SHOWN ? count : NODES_SHOWN;
    qsort(list, shown, sizeof *list, by_node);
    for (size_t i = 0; i < shown; i++)
        if (list[i].node->function != SAMPLED_PROGRAM)
            places[list[i].node->function] = 1;
    put_functions(out, sampled, places);
    put_nodes(out, sampled, nodes, list, shown, places);
    buf_printf(out, ",\"left_out\":%zu", count - shown);
    return 0;
}

/* ---- over time ---- */

enum { SPANS_SHOWN = 400 };

/* What the chosen processes have come to in each span, as long as the longest of the files. */
static void put_spans(struct buf *out, const struct sampled *sampled, const bool *chosen)
{
    double width = 0;
    size_t count = 0;
    _cleanup_(freep) double *times = calloc(2 * SPANS_SHOWN, sizeof *times);
    for (size_t i = 0; i < sampled->cell_count; i++) {
        double own = sampled->cells[i].to - sampled->cells[i].from;
        width = own > width ? own : width;
    }
    for (size_t i = 0; times && i < sampled->cell_count; i++) {
        const struct sampled_cell *cell = &sampled->cells[i];
        double at = (cell->from + cell->to) / 2 / width;
        if ((chosen && !chosen[sampled->nodes[cell->node].process]) || !(at >= 0 && at < SPANS_SHOWN))
            continue;
        times[2 * (size_t)at] += (double)cell->samples / sampled->hz;
        times[2 * (size_t)at + 1] += cell->seconds;
        count = (size_t)at + 1 > count ? (size_t)at + 1 : count;
    }
    out->failed |= !times;
    buf_printf(out, ",\"span_ns\":%" PRId64 ",\"spans\":[", view_ns(width * 1e9));
    for (size_t i = 0; i < count; i++)
        buf_printf(out, "%s[%" PRId64 ",%" PRId64 "]", i ? "," : "", view_ns(times[2 * i] * 1e9),
                   view_ns(times[2 * i + 1] * 1e9));
    buf_putc(out, ']');
}

int answer_samples(struct view *view, const struct asked *asked, struct buf *out, struct err *err)
{
    struct sampled *sampled;
    bool in_window = asked->has_from || asked->has_to;
    if (asked->thread && (in_window || asked->process || asked->program))
        return err_set(err, -EINVAL,
                       "a thread is known by itself, and of all the time: leave out process, program, from and to");
    int code = sampled_read(&sampled, view->job, true);
    if (code == -ENOENT)
        return explain(view, err);
    if (code < 0)
        return err_set(err, code, "out of memory");
    for (size_t i = 0; i < view->report.part_count; i++)
        sampled_shift(sampled, text_base(view->report.parts[i].path), view->report.parts[i].shift);
    _cleanup_(freep) bool *chosen = NULL;
    const struct sampled_window window = {asked->has_from ? (double)asked->from / 1e9 : -INFINITY,
                                          asked->has_to ? (double)asked->to / 1e9 : INFINITY};
    buf_puts(out, "{\"refused\":");
    view_put_text(out, sampled->refused);
    buf_printf(out, ",\"hz\":%u,\"kernel\":%s,\"lost\":%" PRIu64 ",\"cpu_ns\":%" PRId64, sampled->hz,
               sampled->kernel ? "true" : "false", sampled->lost, view_ns(sampled->cpu_seconds * 1e9));
    put_processes(out, view, sampled);
    put_threads(out, sampled);
    if (asked->thread)
        thread_choose(sampled, asked, &chosen, err);
    else
        chosen = processes_asked(sampled, asked, err);
    put_spans(out, sampled, chosen);
    if ((chosen || in_window) && sampled_choose(sampled, chosen, in_window ? &window : NULL) < 0)
        err_set(err, -ENOMEM, "out of memory");
    buf_printf(out, ",\"samples\":%" PRIu64 ",\"self_ns\":%" PRId64 ",\"waiting_ns\":%" PRId64, sampled->samples,
               view_ns(sampled->seconds * 1e9), view_ns(sampled->waiting_seconds * 1e9));
    if (!err->code)
        put_tree(out, sampled, chosen, err);
    buf_putc(out, '}');
    sampled_free(sampled);
    return err->code;
}
