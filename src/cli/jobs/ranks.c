/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/jobs/ranks.h"

#include <dirent.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <omis.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/data/err.h"
#include "base/system/log.h"
#include "base/system/pause.h"
#include "base/system/proc_file.h"
#include "cli/common/cli.h"
#include "client/client.h"
#include "client/decode.h"
#include "jobdir/record/info.h"
#include "jobdir/report/mpi_report.h"
#include "jobdir/mpi/text.h"
#include "jobdir/mpi/thread_wait.h"
#include "jobdir/text/text.h"
#include "lang/put.h"
#include "lang/results.h"
#include "shm/waits.h"

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

static struct rank_now *add(struct rank_list *ranks)
{
    struct rank_now *more = realloc(ranks->list, (ranks->count + 1) * sizeof *more);
    if (!more)
        return NULL;
    ranks->list = more;
    return &more[ranks->count++];
}

static void sort(struct rank_list *ranks)
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

static const char *copy(struct arena *arena, const char *text)
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
        *texts[i] = copy(arena, *texts[i]);
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
        struct rank_now *rank = before->list[i].elsewhere ? add(ranks) : NULL;
        if (!rank)
            continue;
        *rank = before->list[i];
        own_texts(rank, &ranks->arena);
    }
    sort(ranks);
}

/* The place of a rank that is elsewhere: its own, or a new one. */
static struct rank_now *place_elsewhere(struct rank_list *ranks, const char *job, const char *host, int32_t pid)
{
    for (size_t i = 0; i < ranks->count; i++) {
        struct rank_now *rank = &ranks->list[i];
        if (rank->elsewhere && rank->pid == pid && strcmp(rank->host, host) == 0 && strcmp(rank->job, job) == 0)
            return rank;
    }
    struct rank_now *rank = add(ranks);
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
        struct rank_now *rank = add(&fresh);
        if (!rank)
            break;
        *rank = (struct rank_now){.recent = -1};
        decode(&decoder, rows, i, rank);
        own_texts(rank, &fresh.arena);
        rank->job = whole_job(rank->job, &fresh.arena);
        if (strcmp(rank->state, "computing") == 0)
            rank->wait = wait_of(rank->pid);
    }
    sort(&fresh);
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
    sort(ranks);
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
    sort(ranks);
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
        ranks->asks_until_ns = clock_now_ns() + time_hasten(NODES_PATIENCE_MS * UINT64_C(1000000));
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
