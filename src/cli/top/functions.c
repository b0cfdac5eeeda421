/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top/functions.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/buf.h"
#include "base/system/clock.h"
#include "base/data/cleanup.h"
#include "cli/common/cli.h"
#include "client/client.h"
#include "client/decode.h"
#include "jobdir/text/text.h"
#include "lang/results.h"
#include "shm/waits.h"

enum { PROCESSES = 256, ROWS_ASKED = 100 }; /* for a process; more than any screen shows */

static void clear(struct top_functions *functions)
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
    clear(functions);
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
static void add(struct top_functions *functions, const struct top_function *function)
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
static void merge(struct top_functions *functions)
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
    clear(functions);
    size_t count = all && !all->incomplete ? HASH_COUNT(all->functions) : 0;
    functions->list = count ? calloc(count, sizeof *functions->list) : NULL;
    for (const struct job_function *each = functions->list ? all->functions : NULL; each; each = each->hh.next) {
        bool timed = each->max_ns >= each->min_ns && each->max_ns > 0;
        add(functions, &(struct top_function){.name = strdup(each->name),
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
        add(functions, &(struct top_function){.name = strdup(row.name),
                                              .file = strdup(row.file),
                                              .line = row.line,
                                              .calls = row.calls,
                                              .total_ns = row.total_ns,
                                              .self_ns = row.self_ns,
                                              .min_ns = row.max_ns >= 0 ? row.min_ns : UINT64_MAX,
                                              .max_ns = row.max_ns >= 0 ? (uint64_t)row.max_ns : 0});
    }
}

static void on_reply(Omis_reply reply, void *param)
{
    struct top_functions *functions = param;
    _cleanup_(omis_reader_freep) struct omis_reader *reader = omis_reader_take(reply);
    size_t last = 0;
    functions->asking = false;
    clear(functions);
    while (reply && reply[last] && reply[last + 1])
        last++;
    /* processes without an agent answer with an error, which has no values: there is nothing to show of them */
    for (int more = last && omis_reader_find(reader, last); more; more = omis_reader_next(reader))
        take_result(functions, omis_reader_values(reader));
    merge(functions);
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
        client_request(span_of(text.data, text.len), on_reply, functions, 0);
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
        uint64_t now = clock_now_ns();
        if (now >= until)
            return false;
        struct pollfd input = {.fd = top_functions_fd(functions), .events = POLLIN};
        poll(&input, 1, (int)((until - now) / 1000000) + 1);
        top_functions_handle(functions);
    }
    return true;
}
