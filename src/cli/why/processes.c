/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/why/why.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "base/system/proc_file.h"
#include "job/places/deadlocks.h"
#include "job/places/blocked.h"
#include "job/places/where.h"
#include "jobdir/record/kinds.h"
#include "jobdir/text/text.h"

enum { SHOWN_PROCESSES = 40, SHOWN_THREADS = 16, SHOWN_COLUMNS = 120 };

static int by_pid(const void *a, const void *b)
{
    pid_t left = *(const pid_t *)a, right = *(const pid_t *)b;
    return left < right ? -1 : left > right;
}

static void put_text(struct buf *out, const struct blocked *thread)
{
    buf_puts(out, thread->text.data ? thread->text.data : "?");
    buf_putc(out, '\n');
}

static bool blocked_alike(const struct blocked *one, const struct blocked *other)
{
    return one->text.data && other->text.data && strcmp(one->text.data, other->text.data) == 0;
}

/* Threads of a pool that wait for the same thing share one line. */
static void put_threads(struct buf *out, const struct blocked *threads, size_t count)
{
    size_t shown = 0;
    for (size_t i = 0; i < count; i++) {
        size_t others = 0;
        bool before = false;
        for (size_t k = 0; k < count; k++) {
            before |= k < i && blocked_alike(&threads[i], &threads[k]);
            others += k > i && blocked_alike(&threads[i], &threads[k]);
        }
        if (before)
            continue;
        if (shown++ == SHOWN_THREADS) {
            buf_puts(out, "    ... (--json lists all threads)\n");
            return;
        }
        buf_printf(out, "    thread %d (", threads[i].tid);
        text_show(out, threads[i].name);
        buf_putc(out, ')');
        if (others)
            buf_printf(out, " and %zu more", others);
        buf_puts(out, ": ");
        put_text(out, &threads[i]);
    }
}

/* Of the threads that run, the one that has run longest: to sample a place takes a moment, so no other one is asked. */
struct busiest {
    pid_t pid, tid;
    uint64_t ran_ns;
};

static void look_at_threads(struct busiest *busiest, pid_t pid)
{
    char path[PROC_PATH_SIZE];
    proc_path(path, pid, 0, "task");
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        struct proc_stat stat;
        pid_t tid = (pid_t)atoi(entry->d_name);
        if (tid <= 0 || proc_stat_of(pid, tid, &stat) < 0 || stat.state != 'R')
            continue;
        uint64_t ran_ns = stat.user_ns + stat.system_ns;
        if (!busiest->tid || ran_ns > busiest->ran_ns)
            *busiest = (struct busiest){pid, tid, ran_ns};
    }
    if (dir)
        closedir(dir);
}

static struct busiest find_busiest(const pid_t *pids, size_t count)
{
    struct busiest busiest = {0};
    for (size_t i = 0; i < count; i++)
        look_at_threads(&busiest, pids[i]);
    return busiest;
}

/* As blocked_read, with the place of the busiest one: of Python it is there already. */
static int read_threads(pid_t pid, const struct busiest *busiest, struct blocked **ret_threads, size_t *ret_count)
{
    int code = blocked_read(pid, ret_threads, ret_count, NULL);
    for (size_t i = 0; code == 0 && pid == busiest->pid && i < *ret_count; i++) {
        struct blocked *thread = &(*ret_threads)[i];
        _cleanup_(buf_done) struct buf place = BUF_INIT;
        if (thread->tid != busiest->tid || *thread->syscall || thread->python_file ||
            where_computes(pid, thread->tid, &place, NULL) < 0 || place.failed)
            continue;
        buf_printf(&thread->text, ", in %s", place.data);
    }
    return code;
}

/* Where the script of a shell is; of Python that is said already. */
static void put_script(struct buf *out, const char *before, pid_t pid, const struct layers *layers)
{
    const struct layer_place *place = layers ? layers_place(layers, pid) : NULL;
    struct script_line_record row;
    if (!place || !place->line || place->over > 0)
        return;
    record_read(place->line, RECORD_script_line, &row);
    if (!row.at.file || row.at.line < 0 || (row.at.language && strcmp(row.at.language, "python") == 0))
        return;
    buf_printf(out, "%sat ", before);
    text_show(out, text_base(row.at.file));
    buf_printf(out, ":%lld", (long long)row.at.line);
    if (!row.at.command)
        return;
    _cleanup_(buf_done) struct buf command = BUF_INIT;
    buf_append(&command, row.at.command, text_fit(row.at.command, strcspn(row.at.command, "\n"), SHOWN_COLUMNS));
    buf_puts(out, ": ");
    text_show(out, command.data ? command.data : "");
}

static void put_process(struct buf *out, pid_t pid, const struct busiest *busiest, const struct layers *layers)
{
    struct blocked *threads;
    size_t count;
    if (read_threads(pid, busiest, &threads, &count) < 0)
        return; /* it has just ended */
    const struct blocked *first = &threads[0];
    buf_printf(out, "  process %d (", pid);
    text_show(out, first->name);
    buf_puts(out, count == 1 ? "): " : ")\n");
    if (count == 1) {
        buf_puts(out, first->text.data ? first->text.data : "?");
        put_script(out, ", ", pid, layers);
        buf_putc(out, '\n');
    } else {
        put_threads(out, threads, count);
    }
    blocked_free(threads, count);
}

void why_processes_awaited(struct buf *out, const pid_t *pids, size_t count, const struct layers *layers)
{
    pid_t pid;
    struct proc_stat stat;
    enum awaited awaited = awaited_put(out, pids, count, &pid);
    if (awaited == AWAITED_NOTHING)
        return;
    if (awaited == AWAITED_STOPPED)
        buf_printf(out, "; kill -CONT %d lets it go on", pid);
    buf_puts(out, awaited == AWAITED_TERMINAL ? "; somebody has to type something\n" : "\n");
    size_t len = out->len;
    put_script(out, "  ", pid, layers);
    for (size_t i = 0; i < count && out->len == len && proc_stat_of(pid, 0, &stat) == 0; i++)
        if (pids[i] == stat.ppid)
            put_script(out, "  ", stat.ppid, layers);
    buf_puts(out, out->len > len ? "\n" : "");
}

void why_processes_text(struct buf *out, const pid_t *pids, size_t count, const struct layers *layers)
{
    _cleanup_(freep) pid_t *list = malloc((count + 1) * sizeof *list);
    if (!list || !count)
        return;
    memcpy(list, pids, count * sizeof *list);
    qsort(list, count, sizeof *list, by_pid);
    struct busiest busiest = find_busiest(list, count);
    buf_puts(out, "\nProcesses\n");
    for (size_t i = 0; i < count && i < SHOWN_PROCESSES; i++)
        put_process(out, list[i], &busiest, layers);
    if (count > SHOWN_PROCESSES)
        buf_printf(out, "  ... and %zu more (--json lists them)\n", count - SHOWN_PROCESSES);
}

static json_t *state_json(const void *row, const void *all)
{
    return json_stringn(&((const struct blocked *)row)->state, 1);
}

static json_t *thread_text_json(const void *row, const void *all)
{
    const struct buf *text = &((const struct blocked *)row)->text;
    return text_json(text->data ? text->data : "");
}

static json_t *waits_json(const void *row, const void *all)
{
    const struct blocked *thread = row;
    json_t *list = json_array();
    for (size_t i = 0; i < thread->waits_count; i++)
        json_array_append_new(list, json_integer(thread->waits_for[i]));
    return list;
}

static const struct field python_fields[] = {
    {"function", FIELD_TEXT, FIELD_AT(struct blocked, python_function)},
    {"file", FIELD_TEXT, FIELD_AT(struct blocked, python_file)},
    {"line", FIELD_INTEGER, FIELD_AT(struct blocked, python_line), FIELD_NEGATIVE_IS_NULL},
    {0}};

static json_t *python_json(const void *row, const void *all)
{
    const struct blocked *thread = row;
    return thread->python_file ? fields_json(python_fields, thread, NULL) : json_null();
}

static const struct field thread_fields[] = {
    {"tid", FIELD_INTEGER, FIELD_AT(struct blocked, tid)},
    {"name", FIELD_TEXT, FIELD_AT(struct blocked, name)},
    {"state", FIELD_TEXT, .json = state_json, .about = "the kernel's letter"},
    {"syscall", FIELD_TEXT, FIELD_AT(struct blocked, syscall), FIELD_ZERO_IS_NULL},
    {"fd", FIELD_INTEGER, FIELD_AT(struct blocked, fd), FIELD_NEGATIVE_IS_NULL},
    {"text", FIELD_TEXT, .json = thread_text_json},
    {"waits_for", FIELD_LIST, .json = waits_json, .of = fields_integers, .about = "processes, or threads of this one"},
    {"python", FIELD_OBJECT, .flags = FIELD_OR_NULL, .json = python_json, .of = python_fields,
     .about = "where in a Python program, in its own code if possible"},
    {0}};

struct process_row {
    pid_t pid;
    const char *name;
    struct blocked *threads;
    size_t count;
};

static json_t *threads_json(const void *row, const void *all)
{
    const struct process_row *process = row;
    return fields_list(thread_fields, process->threads, process->count, sizeof *process->threads, NULL);
}

const struct field why_process_fields[] = {{"pid", FIELD_INTEGER, FIELD_AT(struct process_row, pid)},
                                           {"name", FIELD_TEXT, FIELD_AT(struct process_row, name)},
                                           {"threads", FIELD_LIST, .json = threads_json, .of = thread_fields},
                                           {0}};

json_t *why_processes_json(const pid_t *pids, size_t count)
{
    json_t *list = json_array();
    struct busiest busiest = find_busiest(pids, count);
    for (size_t i = 0; i < count; i++) {
        struct process_row row = {.pid = pids[i]};
        if (read_threads(pids[i], &busiest, &row.threads, &row.count) < 0)
            continue;
        row.name = row.threads[0].name;
        json_array_append_new(list, fields_json(why_process_fields, &row, NULL));
        blocked_free(row.threads, row.count);
    }
    return list;
}

bool why_processes_use_mpi(pid_t pid)
{
    char path[64], line[PATH_MAX + 128];
    bool found = false;
    snprintf(path, sizeof path, "/proc/%d/maps", pid);
    FILE *file = fopen(path, "re");
    while (file && !found && fgets(line, sizeof line, file))
        found = strstr(line, "/libmpi.so") || strstr(line, "/libmpich.so");
    if (file)
        fclose(file);
    return found;
}
