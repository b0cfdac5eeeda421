/* SPDX-License-Identifier: Apache-2.0 */
#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "base/system/proc_file.h"
#include "job/places/deadlocks.h"
#include "cli/common/nodes.h"
#include "cli/common/pids.h"
#include "cli/snapshot/snapshot.h"
#include "cli/why/why.h"
#include "client/client.h"
#include "client/decode.h"
#include "job/places/blocked.h"
#include "job/places/where.h"
#include "jobdir/layers/starter.h"
#include "jobdir/record/kinds.h"
#include "jobdir/text/text.h"
#include "lang/value.h"
#include "lang/results.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <scry/omis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* ---- the chain ---- */

/* A thread has a number, too, but is no process. */
static bool is_process(pid_t pid)
{
    struct err ignored = {0};
    return proc_status_number(pid, 0, "Tgid") == pid && pid_check(pid, &ignored) == 0;
}

static bool has_pid(const pid_t *list, size_t count, pid_t pid)
{
    for (size_t i = 0; i < count; i++)
        if (list[i] == pid)
            return true;
    return false;
}

int why_processes_follow(pid_t **list, size_t *count)
{
    enum { FOLLOWED_MOST = 32 }; /* to find who has the other end of a pipe takes a look at all processes */
    size_t room = *count, most = *count + FOLLOWED_MOST;
    for (size_t at = 0; at < *count; at++) {
        struct blocked *threads;
        size_t found;
        int code = 0;
        if (blocked_read((*list)[at], &threads, &found, NULL) < 0)
            continue; /* it has ended */
        for (size_t i = 0; i < found; i++)
            for (size_t k = 0; k < threads[i].waits_count && *count < most && code == 0; k++) {
                pid_t pid = threads[i].waits_for[k];
                bool serves = threads[i].connection && !threads[i].only_these; /* an event loop, of many clients */
                if (serves || pid == getpid() || has_pid(*list, *count, pid) || !is_process(pid))
                    continue;
                if (GROW(*list, *count, room))
                    (*list)[(*count)++] = pid;
                else
                    code = -ENOMEM;
            }
        blocked_free(threads, found);
        if (code < 0)
            return code;
    }
    return 0;
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

void why_processes_beside(struct buf *out, const pid_t *pids, size_t count, size_t ended)
{
    size_t len = out->len;
    for (size_t i = 0; i < count; i++) {
        struct proc_stat stat;
        if (proc_stat_of(pids[i], 0, &stat) < 0 || out->len != len)
            continue;
        if (ended && starter_of(stat.comm) == STARTER_LAUNCHER)
            buf_printf(out, "%s%zu rank%s ended, but process %d (", ended > 1 ? "all " : "its ", ended,
                       ended > 1 ? "s have" : " has", pids[i]);
        else if (!ended && stat.state == 'T')
            buf_printf(out, "process %d (", pids[i]);
        else
            continue;
        text_show(out, stat.comm);
        if (ended)
            buf_puts(out, ") has not\n");
        else
            buf_printf(out, ") was stopped by a signal; kill -CONT %d lets it go on\n", pids[i]);
    }
}

void why_processes_computing(struct buf *out, const pid_t *pids, size_t count)
{
    struct busiest busiest = find_busiest(pids, count);
    struct proc_stat stat;
    if (!busiest.tid || proc_stat_of(busiest.pid, 0, &stat) < 0)
        return;
    buf_printf(out, "process %d (", busiest.pid);
    text_show(out, stat.comm);
    buf_puts(out, ") computes; nothing blocks it\n");
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

/* ---- having them look ---- */

/* `asked`: how people name them; NULL: only this one was asked. */
static int take_answers(struct why_nodes *nodes, const struct job_nodes *asked, struct err *err)
{
    static const struct decode_field graph_fields[] = {{"nodes", DECODE_VALUE, 0}, {0}};
    static const struct decode_field fields[] = {DECODE(struct why_looked, node),
                                                 DECODE(struct why_looked, ranks),
                                                 DECODE(struct why_looked, taken),
                                                 DECODE(struct why_looked, problem),
                                                 {"object", DECODE_TEXT, offsetof(struct why_looked, token)},
                                                 {0}};
    struct decoder graph, decoder;
    const struct omis_value *list = NULL;
    const char *why = omis_reader_first_error(nodes->reply);
    decoder_init(&graph, MPI_WAIT_GRAPH, 0, graph_fields);
    decoder_init(&decoder, MPI_GRAPH_NODE, 0, fields);
    if (why || !omis_reader_find(nodes->reply, 1))
        return err_set(err, -EIO, "%s", why ? why : "the monitor has not answered");
    decode(&graph, omis_reader_values(nodes->reply), 0, &list);
    nodes->list = calloc(decoder_rows(&decoder, list) + 1, sizeof *nodes->list);
    if (!nodes->list)
        return err_set(err, -ENOMEM, "out of memory");
    for (size_t i = 0; i < decoder_rows(&decoder, list); i++) {
        struct why_looked *looked = &nodes->list[nodes->count];
        decode(&decoder, list, i, looked);
        if (!*looked->problem) {
            nodes->count++;
            continue;
        }
        const char *name = asked ? job_nodes_name(asked, looked->token) : NULL;
        if (!asked || (name && name == job_nodes_name(asked, asked->list[0].token)))
            return err_set(err, -EIO, "%s", looked->problem);
        if (asked && !name && job_nodes_has_problem(asked, looked->node))
            continue; /* it could not be asked, and that is said */
        buf_puts(&nodes->missing, nodes->missing.len ? "; node " : "node ");
        text_show(&nodes->missing, name ? name : looked->node);
        buf_puts(&nodes->missing, " does not answer: ");
        text_show(&nodes->missing, looked->problem);
    }
    return 0;
}

static int nodes_ask(struct why_nodes *nodes, const char *jobdir, const struct job_nodes *asked, struct err *err)
{
    struct buf text = BUF_INIT;
    PUT_CALL(&text, "mpi_get_wait_graph", jobdir, 1);
    nodes->reply = omis_reader_take(client_ask(&text));
    return nodes->reply ? take_answers(nodes, asked, err) : err_set(err, -ENOMEM, "out of memory");
}

int why_nodes_look_there(struct why_nodes *nodes, const char *jobdir, struct err *err)
{
    *nodes = (struct why_nodes){0};
    return nodes_ask(nodes, jobdir, NULL, err);
}

int why_nodes_look(struct why_nodes *nodes, const char *jobdir, struct err *err)
{
    struct job_nodes asked;
    *nodes = (struct why_nodes){0};
    int code = job_nodes_attach(&asked, jobdir, err);
    if (code == 0) {
        job_nodes_put_problems(&nodes->missing, &asked);
        code = nodes_ask(nodes, jobdir, &asked, err);
    }
    job_nodes_done(&asked);
    return code;
}

bool why_nodes_came(const struct why_nodes *nodes, const struct mpi_stats_set *set)
{
    for (size_t i = 0; i < nodes->count; i++) {
        const struct why_looked *looked = &nodes->list[i];
        bool came = !looked->ranks;
        for (size_t k = 0; k < set->count && !came; k++)
            came = set->ranks[k].taken_wall_ns >= looked->taken && strcmp(set->ranks[k].node, looked->node) == 0;
        if (!came)
            return false;
    }
    return true;
}

void why_nodes_done(struct why_nodes *nodes)
{
    free(nodes->list);
    buf_done(&nodes->missing);
    omis_reader_free(nodes->reply);
    *nodes = (struct why_nodes){0};
}

/* ---- where their ranks are ---- */

static bool node_has_process(const struct stack_node *node, uint32_t process)
{
    size_t low = COUNT_BEFORE(node->member_count, i, node->members[i].process < process);
    return low < node->member_count && node->members[low].process == process;
}

static void put_place(struct buf *out, const struct stack_frame *frame)
{
    text_function(out, frame->function, frame->file);
    buf_puts(out, " (");
    text_show(out, text_base(frame->file));
    buf_printf(out, ":%u)", frame->line);
}

static const char *text_keep(struct arena *arena, const struct buf *text)
{
    return text->len && !text->failed ? arena_dup(arena, text->data, text->len) : NULL;
}

/* The way from where its first thread began to where it is. */
static void find_where(struct mpi_why_rank *rank, const struct snapshot *snapshot, uint32_t process,
                       struct arena *arena)
{
    const struct stack_node *at = snapshot->tree.root, *inner = at;
    const struct stack_frame *own = NULL, *python = NULL;
    _cleanup_(buf_done) struct buf text = BUF_INIT, line = BUF_INIT;
    while (at) {
        const struct stack_node *child = at->first;
        while (child && !node_has_process(child, process))
            child = child->next;
        at = child;
        if (!at)
            break;
        inner = at;
        bool known = *at->frame.file && at->frame.line && !snapshot_is_library(&at->frame);
        if (known && strcmp(at->frame.language, "python") == 0) {
            python = &at->frame;
            own = NULL;
        } else if (known) {
            own = &at->frame;
        }
    }
    if (python)
        put_place(&line, python);
    rank->python = text_keep(arena, &line);
    bool outside = rank->state == MPI_WHY_COMPUTES || rank->state == MPI_WHY_STARTS || rank->state == MPI_WHY_BLOCKED;
    if (!outside || rank->where || (!own && !python))
        return;
    rank->blocked = !inner->running && snapshot_is_library(&inner->frame) && *inner->frame.function;
    if (rank->blocked) {
        buf_puts(&text, "is in ");
        text_show(&text, inner->frame.function);
        buf_puts(&text, ", called by ");
    } else {
        buf_puts(&text, "in ");
    }
    if (own)
        put_place(&text, own);
    if (python) {
        buf_puts(&text, own ? ", called by " : "");
        buf_append(&text, line.data, line.len);
    }
    rank->where = text_keep(arena, &text);
    rank->blocked &= rank->where != NULL;
}

/* Stacks have no numbers of threads, and only the first thread is asked for: of another one nothing is said. */
static bool shows_first_thread(const struct mpi_why_rank *rank)
{
    const struct mpi_stats_thread *thread = rank->shown < rank->thread_count ? rank->threads[rank->shown].thread : NULL;
    return !thread || thread->tid <= 0 || thread->tid == rank->stats->pid;
}

static int compare_numbers(const void *a, const void *b)
{
    uint32_t one = *(const uint32_t *)a, other = *(const uint32_t *)b;
    return (one > other) - (one < other);
}

/* "1,3": ranks of several programs may have the same number. */
static bool put_ranks(struct buf *out, const struct mpi_why *mpi, const char *host, size_t most)
{
    _cleanup_(freep) uint32_t *numbers = calloc(mpi->count + 1, sizeof *numbers);
    size_t count = 0;
    for (size_t i = 0; numbers && i < mpi->count && count < most; i++)
        if (mpi->ranks[i].stats->running && mpi->ranks[i].stats->rank >= 0 &&
            strcmp(mpi->ranks[i].stats->node, host) != 0)
            numbers[count++] = (uint32_t)mpi->ranks[i].stats->rank;
    if (count)
        qsort(numbers, count, sizeof *numbers, compare_numbers);
    for (size_t i = 0; i < count; i++)
        buf_printf(out, "%s%" PRIu32, i ? "," : "", numbers[i]);
    return count > 0 && !out->failed;
}

void why_nodes_wheres(struct mpi_why *mpi, const char *jobdir, const char *host, size_t most, struct arena *arena)
{
    _cleanup_(buf_done) struct buf ranks = BUF_INIT;
    struct snapshot snapshot = {0};
    struct err ignored = {0}; /* then it is not known where they are */
    if (!client_connected() || !put_ranks(&ranks, mpi, host, most))
        return;
    const struct snapshot_options options = {.ranks = ranks.data, .thread = "main"};
    if (snapshot_ask(&snapshot, jobdir, true, &options, &ignored) == 0)
        for (uint32_t i = 0; i < snapshot.count; i++)
            for (size_t k = 0; k < mpi->count && snapshot.list[i].threads; k++) {
                const struct mpi_stats *stats = mpi->ranks[k].stats;
                if (stats->pid == snapshot.list[i].pid && strcmp(stats->node, snapshot.list[i].host) == 0 &&
                    strcmp(stats->node, host) != 0 && shows_first_thread(&mpi->ranks[k]))
                    find_where(&mpi->ranks[k], &snapshot, i, arena);
            }
    snapshot_done(&snapshot);
}
