/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/jobs/ranks.h"

#include "base/data/cleanup.h"
#include "base/data/err.h"
#include "base/system/clock.h"
#include "base/system/log.h"
#include "base/system/pause.h"
#include "base/system/proc_file.h"
#include "client/client.h"
#include "client/decode.h"
#include "jobdir/mpi/text.h"
#include "jobdir/record/info.h"
#include "jobdir/report/mpi_report.h"
#include "jobdir/text/text.h"
#include "lang/value.h"
#include "lang/results.h"
#include "shm/waits.h"

#include <dirent.h>
#include <limits.h>
#include <math.h>
#include <omis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the list ---- */

void ranks_done(struct rank_list *ranks)
{
    free(ranks->list);
    arena_done(&ranks->arena);
    *ranks = (struct rank_list){0};
}

static int by_rank(const void *a, const void *b)
{
    const struct rank_now *one = a, *other = b;
    int order = strcmp(one->job, other->job);
    order = order ? order : strcmp(one->mpi_job, other->mpi_job);
    order = order ? order : (one->rank > other->rank) - (one->rank < other->rank);
    return order ? order : (one->pid > other->pid) - (one->pid < other->pid);
}

static struct rank_now *ranks_add(struct rank_list *ranks)
{
    struct rank_now *more = realloc(ranks->list, (ranks->count + 1) * sizeof *more);
    if (!more)
        return NULL;
    ranks->list = more;
    return &more[ranks->count++];
}

static void ranks_sort(struct rank_list *ranks)
{
    if (ranks->count)
        qsort(ranks->list, ranks->count, sizeof *ranks->list, by_rank);
}

const struct rank_now *ranks_of(const struct rank_list *ranks, const char *path, size_t *ret_count)
{
    size_t first = 0, count = 0;
    _cleanup_(freep) char *real = path ? realpath(path, NULL) : NULL; /* as the monitor knows it */
    while (first < ranks->count && (!real || strcmp(ranks->list[first].job, real) != 0))
        first++;
    while (first + count < ranks->count && strcmp(ranks->list[first + count].job, real) == 0)
        count++;
    *ret_count = count;
    return count ? &ranks->list[first] : NULL;
}

size_t ranks_same(const struct rank_now *list, size_t count)
{
    size_t same = 0;
    while (same < count && strcmp(list[same].mpi_job, list[0].mpi_job) == 0)
        same++;
    return same;
}

/* ---- of this node ---- */

static const char *text_copy(struct arena *arena, const char *text)
{
    const char *copied = arena_dup(arena, text, strlen(text));
    return copied ? copied : "";
}

/* The texts are somebody else's so far. */
static void own_texts(struct rank_now *rank, struct arena *arena)
{
    const char **texts[] = {&rank->job,   &rank->mpi_job, &rank->host, &rank->library, &rank->fault,
                            &rank->state, &rank->call,    &rank->text, &rank->details};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        *texts[i] = text_copy(arena, *texts[i]);
}

/* Of a rank that only does one of the two, the other may become a little less: ticks are converted at a rate that is measured
 * ever better. */
double ranks_recent(const struct rank_now *now, const struct rank_now *was)
{
    if (now->compute_ns + now->communicate_ns <= was->compute_ns + was->communicate_ns)
        return -1; /* the counts started again, or no time went by */
    uint64_t computed = now->compute_ns > was->compute_ns ? now->compute_ns - was->compute_ns : 0;
    uint64_t communicated = now->communicate_ns > was->communicate_ns ? now->communicate_ns - was->communicate_ns : 0;
    return (double)communicated / (double)(computed + communicated);
}

static void set_recent(struct rank_now *now, const struct rank_now *was)
{
    if (was)
        now->recent = ranks_recent(now, was);
}

static void find_recent(struct rank_list *ranks, const struct rank_list *before)
{
    for (size_t i = 0; i < ranks->count && before->count; i++)
        set_recent(&ranks->list[i],
                   bsearch(&ranks->list[i], before->list, before->count, sizeof *ranks->list, by_rank));
}

static void keep_elsewhere(struct rank_list *ranks, const struct rank_list *before)
{
    for (size_t i = 0; i < before->count; i++) {
        struct rank_now *rank = before->list[i].elsewhere ? ranks_add(ranks) : NULL;
        if (!rank)
            continue;
        *rank = before->list[i];
        own_texts(rank, &ranks->arena);
    }
    ranks_sort(ranks);
}

/* The place of a rank that is elsewhere: its own, or a new one. */
static struct rank_now *place_elsewhere(struct rank_list *ranks, const char *job, const char *host, int32_t pid)
{
    for (size_t i = 0; i < ranks->count; i++) {
        struct rank_now *rank = &ranks->list[i];
        if (rank->elsewhere && rank->pid == pid && strcmp(rank->host, host) == 0 && strcmp(rank->job, job) == 0)
            return rank;
    }
    struct rank_now *rank = ranks_add(ranks);
    if (rank)
        *rank = (struct rank_now){.recent = -1, .old_seconds = -1};
    return rank;
}

/* What a process's first thread waits for at this moment; THREAD_MAY_ACT, too, where we may not look. */
static struct thread_wait wait_of(pid_t pid)
{
    char syscall[256];
    if (proc_file_read(pid, pid, "syscall", syscall, sizeof syscall, NULL) < 0)
        return (struct thread_wait){.kind = THREAD_MAY_ACT};
    return thread_wait_of(pid, syscall);
}

/* Nothing that a program that computes does all the time, or for a moment. */
static enum waiting_for outside_of(pid_t pid)
{
    uint64_t sp, pc;
    enum waiting_for what = WAITING_NOT;
    waiting_look(pid, pid, &what, &sp, &pc);
    return what == WAITING_PIPE || what == WAITING_SOCKET || what == WAITING_TERMINAL || what == WAITING_CHILD
               ? what
               : WAITING_NOT;
}

#define NOW(member) DECODE(struct rank_now, member)
static const struct decode_field now_fields[] = {
    NOW(job),        NOW(mpi_job),        NOW(rank),  NOW(ranks),    NOW(host), NOW(pid), NOW(library),
    NOW(state),      NOW(spawned),        NOW(call),  NOW(since_ns), NOW(peer), NOW(tag), NOW(text),
    NOW(compute_ns), NOW(communicate_ns), NOW(fault), NOW(details),  {0}};

/* A part beside the job itself is in its directory: its ranks are the job's. */
static const char *whole_job(const char *job, struct arena *arena)
{
    static const char parts[] = "/parts";
    char path[PATH_MAX];
    const char *slash = strrchr(job, '/');
    size_t len = slash ? (size_t)(slash - job) : 0, tail = sizeof parts - 1;
    if (len <= tail || strncmp(slash - tail, parts, tail) != 0 ||
        snprintf(path, sizeof path, "%.*s/job.json", (int)(len - tail), job) >= (int)sizeof path ||
        access(path, F_OK) < 0)
        return job;
    const char *whole = arena_dup(arena, job, len - tail);
    return whole ? whole : job;
}

void ranks_take(struct rank_list *ranks, const struct omis_value *rows)
{
    struct rank_list fresh = {0};
    struct decoder decoder;
    decoder_init(&decoder, MPI_ACTIVITY_ROW, 0, now_fields);
    for (size_t i = 0; i < decoder_rows(&decoder, rows); i++) {
        struct rank_now *rank = ranks_add(&fresh);
        if (!rank)
            break;
        *rank = (struct rank_now){.recent = -1};
        decode(&decoder, rows, i, rank);
        own_texts(rank, &fresh.arena);
        rank->job = whole_job(rank->job, &fresh.arena);
        if (strcmp(rank->state, "computing") == 0) {
            rank->wait = wait_of(rank->pid);
            rank->outside = outside_of(rank->pid);
        }
    }
    ranks_sort(&fresh);
    find_recent(&fresh, ranks);
    keep_elsewhere(&fresh, ranks);
    fresh.asks_until_ns = ranks->asks_until_ns;
    ranks_done(ranks);
    *ranks = fresh;
}

void ranks_ask(struct rank_list *ranks)
{
    if (!client_join()) {
        if (client_timed_out())
            log_warning("%s", client_error());
        return;
    }
    struct omis_reader *reader = omis_reader_take(client_request(span_str(":mpi_get_activity(\"\")"), NULL, NULL, 0));
    while (omis_reader_next(reader))
        if (omis_count(omis_reader_values(reader)))
            ranks_take(ranks, omis_item(omis_reader_values(reader), 0));
    omis_reader_free(reader);
    omis_finalize();
}

/* ---- on other nodes ---- */

static bool has_other_nodes(const char *path, const char *here)
{
    char dir[PATH_MAX];
    if (snprintf(dir, sizeof dir, "%s/parts", path) < (int)sizeof dir && access(dir, F_OK) == 0)
        return true;
    bool others = false;
    DIR *nodes = snprintf(dir, sizeof dir, "%s/stats", path) < (int)sizeof dir ? opendir(dir) : NULL;
    for (struct dirent *entry; nodes && !others && (entry = readdir(nodes));)
        others = entry->d_name[0] != '.' && entry->d_type != DT_REG && strcmp(entry->d_name, here) != 0;
    if (nodes)
        closedir(nodes);
    return others;
}

static const char *state_of(const struct mpi_stats *stats, const struct mpi_stats_thread *thread)
{
    if (stats->aborted)
        return "aborted";
    if (!stats->running)
        return stats->state == MPIA_RUNNING ? "died" : "ended";
    if (stats->state == MPIA_LOADED || stats->state == MPIA_OFF)
        return stats->state == MPIA_LOADED ? "starting" : "off";
    return thread && thread->now.call != CALL_NONE ? "in_call" : "computing";
}

void rank_age_look(struct rank_age *age, uint64_t taken_wall_ns, double by_clock, double most, uint64_t now_ns)
{
    double passed = age->looked_ns ? (double)(now_ns - age->looked_ns) / NS_PER_SECOND : most;
    if (age->looked_ns && age->taken_wall_ns == taken_wall_ns)
        age->seconds += passed;
    else
        age->seconds = by_clock < passed ? by_clock : passed;
    age->taken_wall_ns = taken_wall_ns;
    age->looked_ns = now_ns;
}

static void take_stats(struct rank_list *ranks, const char *job, const struct mpi_stats *stats, uint64_t now_ns,
                       double job_seconds)
{
    static const struct mpi_stats_thread none;
    const struct mpi_stats_thread *main = mpi_report_main(stats), *thread = main ? main : &none;
    const char *state = state_of(stats, main);
    bool in_call = strcmp(state, "in_call") == 0;
    struct buf text = BUF_INIT, details = BUF_INIT;
    double by_clock = now_ns > stats->taken_wall_ns ? (double)(now_ns - stats->taken_wall_ns) / NS_PER_SECOND : 0;
    struct rank_now *rank = place_elsewhere(ranks, job, stats->node, stats->pid);
    if (!rank)
        return;
    struct rank_age age = rank->age;
    rank_age_look(&age, stats->taken_wall_ns, by_clock, job_seconds, clock_now_ns());
    if (rank->told_ns && rank->old_seconds <= age.seconds) {
        rank->age = age;
        return;
    }
    if (in_call) {
        mpi_text_now(&text, stats, &thread->now);
        mpi_text_details(&details, stats, &thread->now);
    }
    *rank = (struct rank_now){
        .job = job,
        .mpi_job = stats->namespace,
        .host = stats->node,
        .library = stats->library,
        .fault = stats->fault,
        .text = text.data ? text.data : "",
        .details = details.data ? details.data : "",
        .rank = stats->rank,
        .ranks = stats->world_size,
        .pid = stats->pid,
        .spawned = stats->spawned,
        .state = state,
        .call = in_call ? mpi_text_call(thread->now.call) : "",
        .since_ns = stats->running ? thread->now.age_ns : 0,
        .peer = in_call ? thread->now.peer : MPIA_RANK_NONE,
        .tag = in_call ? thread->now.tag : MPIA_TAG_NONE,
        .compute_ns = thread->outermost.compute_ns,
        .communicate_ns = thread->outermost.communicate_ns,
        .elsewhere = true,
        .old_seconds = age.seconds,
        .age = age,
        .recent = -1,
    };
    own_texts(rank, &ranks->arena);
    buf_done(&text);
    buf_done(&details);
}

void ranks_add_elsewhere(struct rank_list *ranks, const char *path)
{
    char here[256] = "";
    struct mpi_stats_set set = {0};
    struct err err = {0};
    _cleanup_(freep) char *real = realpath(path, NULL);
    gethostname(here, sizeof here - 1);
    if (!real || !has_other_nodes(real, here) || mpi_stats_read(&set, real, &err) < 0)
        return;
    struct job_info info = {0};
    uint64_t now_ns = job_now_ns(real);
    double job_seconds = job_info_read(real, &info, &err) == 0 ? job_age_seconds(real, &info, 0) : HUGE_VAL;
    job_info_done(&info);
    ranks_age(ranks);
    for (size_t i = 0; i < set.count; i++)
        if (strcmp(set.ranks[i].node, here) != 0)
            take_stats(ranks, real, &set.ranks[i], now_ns, job_seconds);
    ranks_sort(ranks);
    mpi_stats_set_done(&set);
}

bool ranks_put_elsewhere(struct buf *request, const char *path, const struct job_nodes *nodes)
{
    _cleanup_(buf_done) struct buf list = BUF_INIT;
    size_t count = job_nodes_put(&list, nodes, 1);
    buf_puts(request, ":mpi_get_activity(");
    PUT(request, path);
    buf_printf(request, ",%s)", list.data ? list.data : "[]");
    return count && !request->failed;
}

static void take_rows(struct rank_list *ranks, const char *path, const struct omis_value *rows)
{
    struct decoder decoder;
    decoder_init(&decoder, MPI_ACTIVITY_ROW, 0, now_fields);
    for (size_t i = 0; i < decoder_rows(&decoder, rows); i++) {
        struct rank_now fresh = {.recent = -1};
        decode(&decoder, rows, i, &fresh);
        struct rank_now *rank = place_elsewhere(ranks, path, fresh.host, fresh.pid);
        if (!rank)
            return;
        set_recent(&fresh, rank->told_ns ? rank : NULL);
        fresh.job = path;
        fresh.elsewhere = true;
        fresh.told_ns = clock_now_ns();
        own_texts(&fresh, &ranks->arena);
        *rank = fresh;
    }
}

void ranks_take_elsewhere(struct rank_list *ranks, const char *path, struct omis_reader *reader,
                          const struct job_nodes *nodes, struct buf *missing)
{
    if (omis_reader_find(reader, 0) && omis_reader_error(reader)) { /* all with the same words */
        buf_puts(missing, missing->len ? "; its other nodes do not answer: " : "its other nodes do not answer: ");
        text_show(missing, omis_reader_error(reader));
    }
    for (bool more = omis_reader_find(reader, 1); more; more = omis_reader_next(reader)) {
        const char *why = omis_reader_error(reader), *name = job_nodes_name(nodes, omis_reader_object(reader, 0));
        if (!why) {
            take_rows(ranks, path, omis_item(omis_reader_values(reader), 0));
            continue;
        }
        buf_puts(missing, missing->len ? "; node " : "node ");
        text_show(missing, name ? name : "?");
        buf_puts(missing, " does not answer: ");
        text_show(missing, why);
    }
    ranks_sort(ranks);
}

void ranks_ask_elsewhere(struct rank_list *ranks, const char *path, struct buf *missing)
{
    char here[256] = "";
    struct job_nodes nodes = {0};
    struct err err = {0};
    _cleanup_(buf_done) struct buf request = BUF_INIT;
    _cleanup_(freep) char *real = realpath(path, NULL);
    gethostname(here, sizeof here - 1);
    if (!real || !has_other_nodes(real, here))
        return;
    if (!ranks->asks_until_ns)
        ranks->asks_until_ns = clock_now_ns() + time_hasten(NODES_TIMEOUT_MS * UINT64_C(1000000));
    if (clock_now_ns() > ranks->asks_until_ns) {
        buf_puts(missing, "its other nodes were not asked: those of other jobs took too long");
        return;
    }
    if (!client_join())
        return;
    if (job_nodes_attach(&nodes, real, &err) < 0)
        buf_puts(missing, err.text);
    job_nodes_put_problems(missing, &nodes);
    if (ranks_put_elsewhere(&request, real, &nodes)) {
        struct omis_reader *reader =
            omis_reader_take(client_request(span_of(request.data, request.len), NULL, NULL, 0));
        ranks_take_elsewhere(ranks, real, reader, &nodes, missing);
        omis_reader_free(reader);
    }
    job_nodes_done(&nodes);
    omis_finalize();
}

void ranks_age(struct rank_list *ranks)
{
    uint64_t now_ns = clock_now_ns();
    for (size_t i = 0; i < ranks->count; i++) {
        struct rank_now *rank = &ranks->list[i];
        uint64_t age_ns = rank->told_ns && now_ns > rank->told_ns ? now_ns - rank->told_ns : 0;
        if (rank->told_ns)
            rank->old_seconds = age_ns < RANKS_FRESH_NS ? 0 : (double)age_ns / 1e9;
    }
}

/* ---- for people ---- */

static void put_for(struct buf *out, uint64_t ns)
{
    if (ns < RANKS_SHORT_NS)
        return;
    buf_puts(out, " for ");
    text_seconds(out, (double)ns / 1e9);
}

/* What its first thread waits for outside of MPI; false: for nothing that is known. */
static bool put_wait(struct buf *out, const struct rank_now *rank)
{
    const struct thread_wait *wait = &rank->wait;
    if (wait->kind == THREAD_WAITS_OWNER && wait->tid == rank->pid)
        buf_puts(out, "waits for a mutex that it holds itself");
    else if (wait->kind == THREAD_WAITS_OWNER)
        buf_printf(out, "waits for a mutex that thread %d holds", wait->tid);
    else if (wait->kind == THREAD_WAITS_END)
        buf_printf(out, "waits for the end of thread %d", wait->tid);
    else if (wait->kind == THREAD_WAITS_OTHERS)
        thread_wait_put_others(out, wait);
    else if (rank->outside != WAITING_NOT)
        buf_printf(out, "waits for %s", waiting_text(rank->outside));
    else
        return false;
    return true;
}

/* "computing for 0.3 s", "waits for a mutex that thread 12 holds", "in MPI_Recv from rank 0, tag 7 on MPI_COMM_WORLD
 * for 3.2 s" */
static void ranks_state_text(struct buf *out, const struct rank_now *rank)
{
    static const char *const states[][2] = {
        {"computing", "computing"},           {"starting", "has not returned from MPI_Init"},
        {"ended", "has called MPI_Finalize"}, {"died", "died without MPI_Finalize"},
        {"aborted", "called MPI_Abort"},      {"off", "is not counted"}};
    if (*rank->call && strcmp(rank->state, "starting") != 0) {
        buf_printf(out, "in %s", rank->call);
        put_for(out, rank->since_ns);
        if (*rank->details) {
            buf_puts(out, ": ");
            text_show(out, rank->details);
        }
    } else if (!put_wait(out, rank)) {
        for (size_t i = 0; i < sizeof states / sizeof *states; i++)
            if (strcmp(rank->state, states[i][0]) == 0)
                buf_puts(out, states[i][1]);
        put_for(out, rank->since_ns);
    }
    if (*rank->fault) {
        buf_puts(out, ": ");
        text_show(out, rank->fault);
    }
    if (rank->elsewhere && rank->old_seconds > 0) {
        buf_puts(out, " (");
        text_seconds(out, rank->old_seconds);
        buf_puts(out, " ago)");
    }
}

static const char *word_of(const struct rank_now *rank, char *text, size_t size)
{
    static const char *const words[][2] = {{"ended", "ended"}, {"off", "not counted"}};
    if (*rank->call && strcmp(rank->state, "starting") != 0) {
        snprintf(text, size, "in %s", rank->call);
        return text;
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(rank->state, words[i][0]) == 0)
            return words[i][1];
    if (rank->wait.kind == THREAD_WAITS_OWNER || rank->wait.other)
        return "waiting for a mutex";
    if (rank->outside != WAITING_NOT && rank->wait.kind == THREAD_MAY_ACT) {
        snprintf(text, size, "waiting for %s", waiting_text(rank->outside));
        return text;
    }
    return rank->wait.kind == THREAD_WAITS_END || rank->wait.kind == THREAD_WAITS_OTHERS ? "waiting for a thread"
                                                                                         : rank->state;
}

void ranks_summary(struct buf *out, const struct rank_now *list, size_t count, bool with_library)
{
    enum { WORDS = 6 };
    struct {
        char text[64];
        size_t count;
    } words[WORDS];
    size_t used = 0, others = 0;
    for (size_t i = 0; i < count; i++) {
        char text[64];
        const char *word = word_of(&list[i], text, sizeof text);
        size_t at = 0;
        while (at < used && strcmp(words[at].text, word) != 0)
            at++;
        if (at == used && used < WORDS) {
            snprintf(words[used].text, sizeof words[used].text, "%s", word);
            words[used++].count = 0;
        }
        if (at < used)
            words[at].count++;
        else
            others++;
    }
    const char *library = list[0].library;
    buf_printf(out, "%zu %srank%s", count, list[0].spawned ? "spawned " : "", count == 1 ? "" : "s");
    if (list[0].ranks > (int32_t)count)
        buf_printf(out, " of %d", list[0].ranks);
    if (with_library && *library)
        buf_printf(out, " under %s", strcmp(library, "openmpi") == 0 ? "Open MPI" : "MPICH");
    for (size_t i = 0; i < used; i++)
        buf_printf(out, "%s %zu %s", i ? "," : ":", words[i].count, words[i].text);
    if (others)
        buf_printf(out, ", %zu in other calls", others);
}

/* The share of communication since MPI_Init; < 0: not known. */
static double ranks_share(const struct rank_now *rank)
{
    uint64_t whole = rank->compute_ns + rank->communicate_ns;
    return whole ? (double)rank->communicate_ns / (double)whole : -1;
}

static json_t *share_json(const void *row, const void *all)
{
    double share = ranks_share(row);
    return share < 0 ? json_null() : json_real(share);
}

/* ---- the table ---- */

static bool in_ps(const void *all)
{
    return ((const struct ranks_view *)all)->report != NULL;
}

static bool in_top(const void *all)
{
    return !in_ps(all);
}

static bool is_wide(const void *all)
{
    return !((const struct ranks_view *)all)->narrow;
}

static int host_width(const void *all)
{
    return ((const struct ranks_view *)all)->host_width;
}

static struct job_process *process_of(const struct rank_now *rank, const void *all)
{
    const struct job_report *report = ((const struct ranks_view *)all)->report;
    struct job_process *process = NULL;
    if (!rank->elsewhere)
        HASH_FIND_INT(report->model.alive, &rank->pid, process);
    for (size_t i = 0; !process && i < report->part_count; i++)
        if (report->parts[i].info.host && strcmp(report->parts[i].info.host, rank->host) == 0)
            HASH_FIND_INT(report->parts[i].model.alive, &rank->pid, process);
    return process;
}

static void put_letter(struct buf *out, const void *at, const void *row, const void *all)
{
    const struct job_process *process = process_of(row, all);
    buf_putc(out, process ? process->state : '-');
}

static void put_cpu(struct buf *out, const void *at, const void *row, const void *all)
{
    const struct job_process *process = process_of(row, all);
    if (process)
        buf_printf(out, "%.0f%%", 100 * process->cpu_share);
    else
        buf_putc(out, '-');
}

static void put_memory(struct buf *out, const void *at, const void *row, const void *all)
{
    const struct job_process *process = process_of(row, all);
    if (process)
        text_size(out, process->rss);
    else
        buf_putc(out, '-');
}

static void put_percent(struct buf *out, double share)
{
    if (share < 0)
        buf_putc(out, '-');
    else
        buf_printf(out, "%.1f", 100 * share);
}

static void put_share(struct buf *out, const void *at, const void *row, const void *all)
{
    put_percent(out, ranks_share(row));
}

static void put_recent(struct buf *out, const void *at, const void *row, const void *all)
{
    put_percent(out, *(const double *)at);
}

static void put_state(struct buf *out, const void *at, const void *row, const void *all)
{
    ranks_state_text(out, row);
}

int ranks_host_width(const struct rank_now *list, size_t count, size_t most)
{
    size_t width = strlen("HOST");
    for (size_t i = 0; i < count; i++)
        width = strlen(list[i].host) > width ? strlen(list[i].host) : width;
    return (int)(width < most ? width : most);
}

const struct field ranks_fields[] = {
    {"rank", FIELD_INTEGER, FIELD_AT(struct rank_now, rank), .about = "in its MPI_COMM_WORLD",
     .column = FIELD_COLUMN(1, 0, 4, "RANK")},
    {"size", FIELD_INTEGER, FIELD_AT(struct rank_now, ranks), .about = "of its MPI_COMM_WORLD; -1: not known yet"},
    {"mpi_job", FIELD_TEXT, FIELD_AT(struct rank_now, mpi_job),
     .about = "the launcher's name of the MPI program; one job can have several"},
    {"host", FIELD_TEXT, FIELD_AT(struct rank_now, host),
     .column = FIELD_COLUMN(2, 2, .fit = host_width, .heading = "HOST", .when = is_wide)},
    {"pid", FIELD_COUNT, FIELD_AT(struct rank_now, pid), .column = FIELD_COLUMN(3, 1, 8, "PID", .when = is_wide)},
    {"library", FIELD_CHOICE, FIELD_AT(struct rank_now, library), .choices = "openmpi|mpich|"},
    {"spawned", FIELD_BOOL, FIELD_AT(struct rank_now, spawned), .about = "it was started by MPI_Comm_spawn"},
    {"state", FIELD_CHOICE, FIELD_AT(struct rank_now, state),
     .choices = "starting|computing|in_call|ended|died|aborted|off",
     .about = "starting: MPI_Init has not returned; ended: MPI_Finalize was called; died: without it; off: not counted "
              "at the moment, see fault"},
    {"call", FIELD_TEXT, FIELD_AT(struct rank_now, call), FIELD_ZERO_IS_NULL, .about = "the MPI call that it is in"},
    {"doing", FIELD_TEXT, FIELD_AT(struct rank_now, text), FIELD_ZERO_IS_NULL,
     .about = "the call for people, with its peer, size and communicator"},
    {"since_seconds", FIELD_SECONDS, FIELD_AT(struct rank_now, since_ns), FIELD_FROM_ZERO,
     .about = "for how long it computes, or is in the call"},
    {"peer", FIELD_INTEGER, FIELD_AT(struct rank_now, peer), FIELD_NEGATIVE_IS_NULL,
     .about = "destination, source, root or target of the call, as a rank of MPI_COMM_WORLD; null: none, or any"},
    {"tag", FIELD_INTEGER, FIELD_AT(struct rank_now, tag), FIELD_NEGATIVE_IS_NULL},
    {"mpi_share", FIELD_NUMBER, .flags = FIELD_OR_NULL, .json = share_json,
     .about = "of the time since MPI_Init, in MPI calls: 0 to 1",
     .column = FIELD_COLUMN(7, 1, 5, "MPI %", .when = in_top, .text = put_share)},
    {"recent_mpi_share", FIELD_NUMBER, FIELD_AT(struct rank_now, recent), FIELD_NEGATIVE_IS_NULL,
     .about = "of the time between the last two looks; null where it is looked at once",
     .column = FIELD_COLUMN(8, 2, 5, "NOW %", .when = in_top, .text = put_recent)},
    {"fault", FIELD_TEXT, FIELD_AT(struct rank_now, fault), FIELD_ZERO_IS_NULL, .about = "why it is not counted"},
    {"old_seconds", FIELD_SECONDS, FIELD_AT(struct rank_now, old_seconds), FIELD_FROM_ZERO,
     .about = "how long ago this was so; 0: now. Ranks of a node that does not answer are shown as they last said"},
    {.type = FIELD_SHOWN, .column = FIELD_COLUMN(4, 1, 1, "S", .when = in_ps, .text = put_letter)},
    {.type = FIELD_SHOWN, .column = FIELD_COLUMN(5, 1, 6, "CPU", .when = in_ps, .text = put_cpu)},
    {.type = FIELD_SHOWN, .column = FIELD_COLUMN(6, 1, 8, "MEMORY", .when = in_ps, .text = put_memory)},
    {.type = FIELD_SHOWN, .column = FIELD_COLUMN(9, 2, 0, "STATE", .when = in_ps, .text = put_state)},
    {.type = FIELD_SHOWN, .column = FIELD_COLUMN(9, 2, 0, .when = in_top, .text = put_state)},
    {0}};

json_t *ranks_json(const struct rank_now *list, size_t count)
{
    return fields_list(ranks_fields, list, count, sizeof *list, NULL);
}
