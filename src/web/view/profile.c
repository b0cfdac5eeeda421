/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of each process, as the report adds them up. Nanoseconds are integers, of which those of all processes
 * together are what the report says: each is cut so that no part of one is lost or added.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/data/cleanup.h"
#include "jobdir/text/text.h"
#include "web/view/ask.h"

static int by_rank(const void *a, const void *b)
{
    const struct job_traced *left = *(const struct job_traced *const *)a, *right = *(const struct job_traced *const *)b;
    if ((left->who.rank < 0) != (right->who.rank < 0))
        return left->who.rank < 0 ? 1 : -1;
    if (left->who.rank >= 0 && left->who.program != right->who.program)
        return left->who.program < right->who.program ? -1 : 1;
    if (left->who.rank >= 0 && left->who.rank != right->who.rank)
        return left->who.rank < right->who.rank ? -1 : 1;
    return left->index < right->index ? -1 : left->index > right->index;
}

static void put_process(struct buf *out, const struct job_traced *process, size_t number)
{
    buf_printf(out, "%s{\"process\":%zu,\"node\":", number ? "," : "", number);
    char node[256];
    snprintf(node, sizeof node, "%.*s", (int)(text_base(process->key) - process->key - 1), process->key);
    view_put_text(out, node);
    buf_printf(out, ",\"pid\":%d", (int)process->pid);
    if (process->who.rank >= 0)
        buf_printf(out, ",\"rank\":%" PRId32 ",\"world\":%" PRIu32, process->who.rank, process->who.program - 1);
    else
        buf_puts(out, ",\"rank\":null,\"world\":null");
    buf_puts(out, ",\"name\":");
    view_put_text(out, text_base(process->exe));
    buf_putc(out, '}');
}

/* Each the difference of two sums without their fractions, so that all add up to what the report says, `all`. */
static void put_times(struct buf *out, const struct job_functions *functions, const struct job_function *function,
                      const struct job_traced *const *processes, size_t count, const char *name, size_t at, double all)
{
    double sum = 0;
    int64_t before = 0;
    buf_printf(out, ",\"%s\":[", name);
    for (size_t i = 0; i < count; i++) {
        const struct job_function_process *cell = job_functions_of(functions, function, processes[i]);
        sum += cell ? *(const double *)((const char *)cell + at) : 0;
        int64_t now = view_ns(i + 1 < count ? sum : all);
        buf_printf(out, "%s%" PRId64, i ? "," : "", now - before);
        before = now;
    }
    buf_putc(out, ']');
}

static void put_function(struct buf *out, const struct job_functions *functions, const struct job_function *function,
                         const struct job_traced *const *processes, size_t count)
{
    buf_puts(out, "{\"name\":");
    view_put_text(out, function->name);
    buf_puts(out, ",\"file\":");
    view_put_text(out, function->file);
    buf_printf(out, ",\"line\":%" PRIu32 ",\"calls\":[", function->line);
    for (size_t i = 0; i < count; i++) {
        const struct job_function_process *cell = job_functions_of(functions, function, processes[i]);
        buf_printf(out, "%s%" PRIu64, i ? "," : "", cell ? cell->calls : 0);
    }
    buf_putc(out, ']');
    put_times(out, functions, function, processes, count, "total_ns", offsetof(struct job_function_process, total_ns),
              function->total_ns);
    put_times(out, functions, function, processes, count, "self_ns", offsetof(struct job_function_process, self_ns),
              function->self_ns);
    buf_putc(out, '}');
}

const struct job_traced **profile_processes(const struct view *view, size_t *ret_count)
{
    const struct job_functions *functions = view->report.functions;
    size_t count = HASH_COUNT(functions->traced), used = 0;
    const struct job_traced **processes = calloc(count + 1, sizeof(struct job_traced *));
    for (const struct job_traced *each = functions->traced; processes && each; each = each->hh.next)
        processes[used++] = each;
    if (processes)
        qsort(processes, count, sizeof(struct job_traced *), by_rank);
    *ret_count = count;
    return processes;
}

int answer_profile(struct view *view, const struct asked *asked, struct buf *out, struct err *err)
{
    (void)asked;
    const struct job_functions *functions = view->report.functions;
    size_t count;
    _cleanup_(freep) const struct job_traced **processes = profile_processes(view, &count);
    if (!processes)
        return err_set(err, -ENOMEM, "out of memory");
    buf_puts(out, "{\"processes\":[");
    for (size_t i = 0; i < count; i++)
        put_process(out, processes[i], i);
    buf_puts(out, "],\"functions\":[");
    for (const struct job_function *each = functions->functions; each; each = each->hh.next) {
        buf_puts(out, each == functions->functions ? "" : ",");
        put_function(out, functions, each, processes, count);
    }
    _cleanup_(freep) char *python = view->python ? json_dumps(view->python, JSON_COMPACT) : NULL;
    buf_printf(out, "],\"python_functions\":%s", python ? python : "[]");
    buf_printf(out, ",\"incomplete\":%s,\"notes\":", functions->incomplete ? "true" : "false");
    view_put_notes(out, view);
    buf_putc(out, '}');
    return 0;
}
