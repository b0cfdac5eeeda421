/* SPDX-License-Identifier: Apache-2.0 */
/* scry why: what keeps a job from going on. */
#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <omis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "base/system/clock.h"
#include "base/system/log.h"
#include "base/system/proc_file.h"
#include "cli/common/cli.h"
#include "cli/common/find.h"
#include "cli/common/pids.h"
#include "cli/why/why.h"
#include "client/client.h"
#include "job/places/blocked.h"
#include "job/places/deadlocks.h"
#include "job/places/fifos.h"
#include "job/places/place_names.h"
#include "job/places/where.h"
#include "jobdir/analysis/why.h"
#include "jobdir/layers/last.h"
#include "jobdir/layers/starter.h"
#include "jobdir/mpi/look.h"
#include "jobdir/mpi/text.h"
#include "jobdir/record/dir.h"
#include "jobdir/record/info.h"
#include "jobdir/record/parts.h"
#include "jobdir/report/report.h"
#include "jobdir/text/fields.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"

enum {
    WHERE_RANKS = 4, /* computing ranks, that others wait for, whose place is shown */
    PYTHON_RANKS = 256,
    ASKS = 3, /* at most, until the record is the one that the monitor wrote */
};

struct why {
    struct job_report report;
    struct mpi_stats_set set;
    struct mpi_why mpi;
    struct arena arena;
    struct deadlock *locks; /* of processes that are no ranks */
    size_t lock_count;
    bool has_mpi, all;
    bool at_end; /* mpi: what ranks waited for each other in when they were ended */
    bool remote; /* a mirror: its processes are elsewhere */
    const struct found_job *found;
    struct why_nodes nodes; /* that have looked at their ranks */
    uint64_t settled_ns;
    uint64_t asked_ns; /* wall clock */
    bool asked;        /* and all nodes of a job that is here were told to write what they know */
    struct err note;   /* why something is old or incomplete */
    json_t *cause;     /* why it failed: a note; NULL: it did not, or that is not known */
    json_t *last;      /* job_report_last, of a job that is over */
};

/* ---- what the ranks are in ---- */

/* Has the monitor look at the ranks and write what it sees to the job directory. *ret_ranks: how many it knows. */
static int ask_remote(struct why *why, size_t *ret_ranks, struct err *err)
{
    const struct found_job *found = why->found;
    struct err said = {0};
    *ret_ranks = 0;
    if (!client_join_job(found->url.data))
        return err_set(err, -ENOTCONN, "this is the job's last report, and may be old: %s", client_error());
    int code = why_nodes_look_there(&why->nodes, found->dir, &said);
    for (size_t i = 0; i < why->nodes.count; i++)
        *ret_ranks += why->nodes.list[i].ranks;
    why_nodes_done(&why->nodes);
    omis_finalize();
    return code < 0 ? err_set(err, code, "this is the job's last report, and may be old: %s", said.text) : 0;
}

/* The same of all nodes. The connection stays. */
static void ranks_ask(struct why *why)
{
    struct err err = {0};
    why_nodes_done(&why->nodes);
    if (!client_connected() && !client_join())
        err_set(&err, -ENOTCONN, "%s", client_error());
    else
        why->asked = why_nodes_look(&why->nodes, why->report.path, &err) >= 0 && !err.code;
    if (err.code)
        err_set(&why->note, err.code, "this is the job's last report, and may be old: %s", err.text);
}

/* Reads what was written, and waits for what is brought from nodes that share no file system. */
static int read_stats(struct why *why, struct err *err)
{
    const struct wait_policy *policy = &wait_policies[WAIT_NEWS];
    for (uint32_t waited_ms = 0;; waited_ms += policy->look_ms) {
        mpi_stats_set_done(&why->set);
        int code = mpi_stats_read(&why->set, why->report.path, err);
        if ((code < 0 && code != -ENOENT) || waited_ms >= policy->limit_ms || why_nodes_came(&why->nodes, &why->set))
            return code;
        nanosleep(&(struct timespec){.tv_nsec = (long)(policy->look_ms * WAITS_NS_PER_MS)}, NULL);
    }
}

/* When the newest of the running ranks' statistics was taken; *ret_all: as that, of all. */
static uint64_t taken_ns(const struct mpi_stats_set *set, uint64_t since_ns, bool *ret_all)
{
    uint64_t newest = 0;
    *ret_all = set->count > 0;
    for (size_t i = 0; i < set->count; i++) {
        const struct mpi_stats *stats = &set->ranks[i];
        newest = stats->taken_wall_ns > newest ? stats->taken_wall_ns : newest;
        *ret_all &= !stats->running || stats->taken_wall_ns > since_ns;
    }
    return newest;
}

/* The same for a job behind a broker, through it; then what was written there comes as files do. */
static void ask_there(struct why *why, const char *path)
{
    const struct wait_policy *policy = &wait_policies[WAIT_NEWS];
    struct err err = {0};
    bool all = false;
    size_t ranks;
    if (!why->found->takes_requests || !why->found->url.data || !why->found->dir[0]) {
        err_set(&why->note, -ENOTCONN, "this is what the job has published last; it takes no requests");
        return;
    }
    uint64_t before_ns = mpi_stats_read(&why->set, path, &err) >= 0 ? taken_ns(&why->set, 0, &all) : 0;
    if (ask_remote(why, &ranks, &why->note) < 0)
        return;
    for (uint32_t waited_ms = 0; ranks && waited_ms < policy->limit_ms; waited_ms += policy->look_ms) {
        mpi_stats_set_done(&why->set);
        if (mpi_stats_read(&why->set, path, &err) >= 0 && taken_ns(&why->set, before_ns, &all) > before_ns && all &&
            why->set.count >= ranks)
            return;
        nanosleep(&(struct timespec){.tv_nsec = (long)(policy->look_ms * WAITS_NS_PER_MS)}, NULL);
    }
    if (ranks && taken_ns(&why->set, before_ns, &all) <= before_ns)
        err_set(&why->note, -ETIMEDOUT,
                "this is what the job has published last: what its monitor has seen did not come in %u s",
                policy->limit_ms / 1000);
}

static bool job_runs(const struct why *why)
{
    return why->report.state == JOB_RUNNING || why->report.state == JOB_UNWATCHED;
}

static bool is_here(const struct why *why)
{
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    return !why->remote && strcmp(host, why->report.info.host) == 0;
}

/* Somebody else had it written again meanwhile. */
static bool is_overwritten(const struct why *why)
{
    for (size_t i = 0; i < why->set.count; i++) {
        const struct mpi_stats *stats = &why->set.ranks[i];
        if (stats->running && stats->rank >= 0 && !stats->looked && strcmp(stats->node, why->report.info.host) == 0)
            return true;
    }
    return false;
}

/* ---- where the ranks compute that others wait for ---- */

/* Of those on other nodes (cli/why/why.h) processes here may have the numbers. */
static bool is_near(const struct why *why, const struct mpi_why_rank *rank)
{
    return strcmp(rank->stats->node, why->report.info.host) == 0;
}

static void find_where(struct why *why, struct mpi_why_rank *rank)
{
    struct buf text = BUF_INIT;
    struct err err = {0};
    const struct mpi_stats_thread *thread = rank->shown < rank->thread_count ? rank->threads[rank->shown].thread : NULL;
    pid_t tid = thread && thread->tid > 0 ? thread->tid : rank->stats->pid;
    if (rank->where || !is_near(why, rank) || (rank->state != MPI_WHY_COMPUTES && rank->state != MPI_WHY_STARTS))
        return;
    rank->blocked = blocked_put(&text, rank->stats->pid, tid);
    if (rank->blocked) { /* and from where */
        struct deadlock_thread told = {.tid = tid};
        deadlock_threads_tell(&told, 1, rank->stats->pid);
        if (told.text.len > text.len && !told.text.failed) {
            buf_clear(&text);
            buf_append(&text, told.text.data, told.text.len);
        }
        deadlock_threads_done(&told, 1);
    } else {
        buf_puts(&text, "in ");
        if (where_computes(rank->stats->pid, tid, &text, &err) < 0) {
            buf_clear(&text);
            if (err.code != -ENODATA && !why->note.code)
                why->note = err;
        }
        if (rank->python) {
            buf_puts(&text, text.len ? ", called by " : "in ");
            buf_puts(&text, rank->python);
        }
    }
    if (text.len && !text.failed)
        rank->where = arena_dup(&why->arena, text.data, text.len);
    rank->blocked &= rank->where != NULL;
    buf_done(&text);
}

/* What a rank's threads wait for: those in a circle, or all if none can go on, and its own, if that is blocked. */
static void find_locked(struct why *why, struct mpi_why_rank *rank)
{
    enum { ASLEEP_MOST = 16 };
    const struct mpi_why_thread *shown = rank->shown < rank->thread_count ? &rank->threads[rank->shown] : NULL;
    size_t room = rank->circle_count + ASLEEP_MOST, own = room, count = 0;
    _cleanup_(freep) struct deadlock_thread *threads = calloc(room + 1, sizeof *threads);
    _cleanup_(freep) struct mpi_why_actor **actors = calloc(room + 1, sizeof(struct mpi_why_actor *));
    if (!threads || !actors || !is_near(why, rank))
        return;
    for (size_t i = 0; i < rank->circle_count; i++)
        actors[count++] = &rank->actors[rank->circle[i]];
    for (size_t i = 0; rank->asleep && !rank->circle_count && i < rank->actor_count && count < ASLEEP_MOST; i++)
        if (rank->actors[i].seen && rank->actors[i].seen->wait.kind != THREAD_HAS_ENDED)
            actors[count++] = &rank->actors[i];
    for (size_t i = 0; i < count; i++)
        threads[i].tid = actors[i]->seen->tid;
    if (rank->state == MPI_WHY_BLOCKED && shown)
        threads[own = count++].tid = shown->thread->tid;
    if (!count)
        return;
    deadlock_threads_tell(threads, count, rank->stats->pid);
    for (size_t i = 0; i < count; i++) {
        const struct buf *text = &threads[i].text;
        const char *where = text->len && !text->failed ? arena_dup(&why->arena, text->data, text->len) : NULL;
        if (i == own) {
            rank->where = where;
            rank->blocked = where != NULL;
        } else {
            actors[i]->where = where;
        }
    }
    deadlock_threads_done(threads, count);
}

/* Which line of a Python program called MPI. */
static void find_python(struct why *why, struct mpi_why_rank *rank)
{
    const struct mpi_why_thread *shown = rank->shown < rank->thread_count ? &rank->threads[rank->shown] : NULL;
    struct python_places places;
    struct buf text = BUF_INIT;
    if (!shown || !is_near(why, rank) || !rank->stats->running || rank->stats->pid <= 0)
        return;
    python_places_read(&places, rank->stats->pid);
    const struct python_frame *frame =
        python_places_find(&places, shown->thread->tid > 0 ? shown->thread->tid : rank->stats->pid, NULL);
    if (frame)
        python_place_put(&text, frame);
    if (text.len && !text.failed)
        rank->python = arena_dup(&why->arena, text.data, text.len);
    buf_done(&text);
    python_places_done(&places);
}

static void find_wheres(struct why *why)
{
    why_nodes_wheres(&why->mpi, why->report.path, why->report.info.host, PYTHON_RANKS, &why->arena);
    for (size_t i = 0; i < why->mpi.count && i < PYTHON_RANKS; i++)
        find_python(why, &why->mpi.ranks[i]);
    size_t asked = 0;
    for (size_t i = 0; i < why->mpi.count; i++)
        find_locked(why, &why->mpi.ranks[i]);
    for (size_t i = 0; i < why->mpi.finding_count; i++)
        for (size_t k = 0; k < why->mpi.findings[i].rank_count && asked < WHERE_RANKS; k++, asked++)
            find_where(why, &why->mpi.ranks[why->mpi.findings[i].ranks[k]]);
    for (size_t i = 0; i < why->mpi.count && asked < WHERE_RANKS; i++)
        if (why->mpi.ranks[i].state == MPI_WHY_COMPUTES && !why->mpi.ranks[i].where) {
            find_where(why, &why->mpi.ranks[i]);
            asked++;
        }
    mpi_why_found_where(&why->mpi, &why->arena);
}

/* At the end nobody can be asked where it is: but what was seen of it is known, or whether it computed. */
static void find_idle(struct why *why)
{
    const struct mpi_why_finding *late = mpi_why_waited(&why->mpi);
    struct mpi_why_rank *rank = late ? &why->mpi.ranks[late->ranks[0]] : NULL;
    _cleanup_(buf_done) struct buf stood = BUF_INIT;
    if (!rank)
        return;
    if (job_report_stood(&why->report, rank->stats, why->mpi.still_ns, &stood) && !stood.failed)
        rank->where = arena_dup(&why->arena, stood.data, stood.len);
    else if (job_report_was_idle(&why->report, rank->stats, why->mpi.still_ns))
        rank->where = "sleeps or waits";
    rank->blocked = rank->where != NULL;
    mpi_why_found_where(&why->mpi, &why->arena);
}

/* Takes the times of other nodes' ranks to this clock, and notes what is not known of them, or not as new as asked for.
 * Returns how far the times may be off each other. */
static uint64_t nodes_align(struct why *why)
{
    const struct job_report *report = &why->report;
    struct buf note = BUF_INIT;
    uint64_t apart_ns = 0, wall_ns = (uint64_t)(report->info.result.wall_seconds * NS_PER_SECOND);
    uint64_t at_ns = job_runs(why) ? clock_wall_ns() : report->info.started_ns + wall_ns;
    buf_append(&note, why->nodes.missing.data, why->nodes.missing.len);
    _cleanup_(freep) struct mpi_why_part *parts = calloc(report->part_count + 1, sizeof *parts);
    for (size_t i = 0; parts && i < report->part_count; i++) {
        struct part_clock clock = {0};
        job_part_clock(report->parts[i].path, &clock);
        parts[i] = (struct mpi_why_part){.dir = report->parts[i].path,
                                         .node = text_base(report->parts[i].path),
                                         .offset_ns = clock.offset_ns,
                                         .bound_ns = job_part_clock_bound(&clock, at_ns)};
    }
    if (parts && report->part_count)
        apart_ns = mpi_why_align(&why->set, parts, report->part_count, job_runs(why) ? why->asked_ns : 0,
                                 job_runs(why) && why->asked, &note);
    if (note.len && !note.failed && !why->note.code)
        err_set(&why->note, -ENODATA, "%s", note.data);
    buf_done(&note);
    return apart_ns;
}

static int look_at_mpi(struct why *why, struct err *err)
{
    struct err unnamed = {0};
    const char *path = why->report.path;
    int code = 0;
    why->asked_ns = clock_wall_ns();
    for (int i = 0; i == 0 || (job_runs(why) && i < ASKS && code >= 0 && !why->note.code && is_overwritten(why)); i++) {
        if (job_runs(why) && !why->remote)
            ranks_ask(why);
        else if (i == 0 && job_runs(why))
            ask_there(why, path);
        code = read_stats(why, err);
    }
    if (code == -ENOENT || (code >= 0 && !why->set.count)) {
        why->note = (struct err){0};
        return 0;
    }
    if (code < 0)
        return code;
    if (code > 0)
        why->note = *err;
    code = job_report_find_ends(&why->report, &why->set);
    if (code < 0)
        return err_set(err, code, "out of memory");
    mpi_names_find(&why->set, path, MPI_NAMES_TIMEOUT_MS, &unnamed);
    why->at_end = !job_runs(why) && mpi_why_find_at_end(&why->mpi, &why->set, &why->arena);
    if (why->at_end)
        find_idle(why);
    mpi_stats_set_forget_ended(&why->set);
    struct mpi_why_options options = {.settled_ns = why->settled_ns, .apart_ns = nodes_align(why)};
    code = why->at_end ? 0 : mpi_why_find(&why->mpi, &why->set, &options, &why->arena);
    if (code < 0)
        return err_set(err, code, "out of memory");
    why->has_mpi = true;
    if (job_runs(why) && is_here(why))
        find_wheres(why);
    return 0;
}

/* As its job.json has it, or of one that was lost, from its records. */
static void find_cause(struct why *why)
{
    why->last = job_runs(why) ? NULL : job_report_last(&why->report);
    json_t *cause = why->report.info.cause, *reason = json_object_get(why->last, "reason");
    why->cause = json_incref(cause ? cause : json_is_object(reason) ? reason : NULL);
}

/* ---- the record that a job writes when none of its ranks moves any more (scry run --mpi-stall) ---- */

static const char before_place[] = ", at ";

/* As in the record: the file name without its folder, and the offset in it. */
static bool is_at(const struct mpi_stats_site *site, const char *text, size_t len)
{
    const char *name = text_base(site->module ? site->module : "");
    size_t name_len = strlen(name);
    char *end;
    if (!site->function || !*site->function || !name_len || len <= name_len + 3 || strncmp(text, name, name_len) != 0 ||
        strncmp(text + name_len, "+0x", 3) != 0)
        return false;
    return strtoull(text + name_len + 1, &end, 16) == site->offset && end == text + len;
}

static const struct mpi_stats_site *site_at(const struct mpi_stats_set *set, const char *text, size_t len)
{
    for (size_t i = 0; i < set->count; i++) {
        const struct mpi_stats *stats = &set->ranks[i];
        for (size_t k = 0; k < stats->thread_count; k++)
            if (is_at(&stats->threads[k].now.site, text, len))
                return &stats->threads[k].now.site;
        for (size_t k = 0; k < stats->site_count; k++)
            if (is_at(&stats->sites[k], text, len))
                return &stats->sites[k];
    }
    return NULL;
}

/* Puts a text like "..., at MODULE+0x1234, for 3 s" with a name in place of the address. */
static void put_stall_text(struct buf *out, const char *text, const struct mpi_stats_set *set)
{
    for (const char *place; (place = strstr(text, before_place)); text = place) {
        place += sizeof before_place - 1;
        buf_append(out, text, (size_t)(place - text));
        size_t len = strcspn(place, ",\n");
        const struct mpi_stats_site *site = site_at(set, place, len);
        if (!site)
            continue;
        mpi_text_site(out, site);
        place += len;
    }
    buf_puts(out, text);
}

/* `record` may be NULL. Addresses in it get the names that the call sites in `set` have. */
static void put_stall(struct buf *out, const json_t *record, const struct mpi_stats_set *set)
{
    _cleanup_(buf_done) struct buf named = BUF_INIT;
    if (!record)
        return;
    buf_puts(out, "its ranks last stood still ");
    text_seconds(out, member_number(record, "t"));
    buf_puts(out, " after the start: for ");
    text_seconds(out, member_number(record, "seconds"));
    buf_puts(out, " none had begun or ended an MPI call\n");
    put_stall_text(&named, member_text(record, "why"), set);
    for (const char *line = named.data ? named.data : ""; *line;) { /* what the job recorded then */
        size_t len = strcspn(line, "\n");
        if (len) {
            _cleanup_(freep) char *copy = strndup(line, len);
            buf_puts(out, "  | ");
            text_show(out, copy ? copy : "");
        }
        buf_puts(out, len ? "\n" : "  |\n");
        line += len + (line[len] == '\n');
    }
}

struct stall_row {
    double at, seconds;
    const char *text;
};

static const struct field stall_fields[] = {
    {"at", FIELD_NUMBER, FIELD_AT(struct stall_row, at), .about = "seconds after the start"},
    {"seconds", FIELD_NUMBER, FIELD_AT(struct stall_row, seconds),
     .about = "for so long none had begun or ended a call"},
    {"text", FIELD_TEXT, FIELD_AT(struct stall_row, text)},
    {0}};

static json_t *stall_record_json(const json_t *record, const struct mpi_stats_set *set)
{
    _cleanup_(buf_done) struct buf named = BUF_INIT;
    if (!record)
        return json_null();
    put_stall_text(&named, member_text(record, "why"), set);
    const struct stall_row row = {member_number(record, "t"), member_number(record, "seconds"), named.data};
    return fields_json(stall_fields, &row, NULL);
}

/* ---- for programs ---- */

struct why_row {
    const char *id, *state, *note; /* note: "": none */
    const struct mpi_why *mpi;     /* NULL: no ranks are known */
    const struct mpi_stats_set *set;
    const json_t *stall; /* its record, or NULL */
    json_t *cause;       /* or NULL */
    const struct deadlock *locks;
    size_t lock_count;
    const pid_t *processes; /* that are no ranks */
    size_t process_count;
};

static json_t *mpi_json(const void *row, const void *all)
{
    const struct mpi_why *mpi = ((const struct why_row *)row)->mpi;
    return mpi ? fields_json(mpi_why_fields, mpi, mpi) : json_null();
}

static json_t *locks_json(const void *row, const void *all)
{
    const struct why_row *why = row;
    return fields_list(deadlock_fields, why->locks, why->lock_count, sizeof *why->locks, NULL);
}

static json_t *stall_json(const void *row, const void *all)
{
    return stall_record_json(((const struct why_row *)row)->stall, ((const struct why_row *)row)->set);
}

static json_t *processes_json(const void *row, const void *all)
{
    return why_processes_json(((const struct why_row *)row)->processes, ((const struct why_row *)row)->process_count);
}

static const struct field why_fields[] = {
    {"id", FIELD_TEXT, FIELD_AT(struct why_row, id), FIELD_ZERO_IS_NULL,
     .about = "of the job; null: processes that scry did not start (*scry why PID*)"},
    {"state", FIELD_TEXT, FIELD_AT(struct why_row, state), FIELD_ZERO_IS_NULL, .about = "of the job"},
    {"cause", FIELD_OBJECT, FIELD_AT(struct why_row, cause), FIELD_OR_NULL, .of = last_reason_fields,
     .about =
         "of a job that failed the most probable reason, a [note](notes.md); null: it did not, or nothing says why"},
    {"mpi", FIELD_OBJECT, .flags = FIELD_OR_NULL, .json = mpi_json, .of = mpi_why_fields},
    {"deadlocks", FIELD_LIST, .json = locks_json, .of = deadlock_fields,
     .about = "of a running job, of processes that are no ranks: threads that wait for each other in a circle"},
    {"stall", FIELD_OBJECT, .flags = FIELD_OR_NULL, .json = stall_json, .of = stall_fields,
     .about = "when the job last recorded that its ranks stood still, and why they did then (scry run --mpi-stall)"},
    {"processes", FIELD_LIST, .json = processes_json, .of = why_process_fields,
     .about = "of a running job, those that are no ranks; of *scry why PID*, and those for which they wait"},
    {"note", FIELD_TEXT, FIELD_AT(struct why_row, note), FIELD_ZERO_IS_NULL,
     .about = "why something is not as new or as complete as it could be"},
    {0}};

json_t *why_schema(void)
{
    return fields_schema(why_fields);
}

/* ---- output ---- */

static bool is_rank(const struct why *why, pid_t pid)
{
    for (size_t i = 0; i < why->set.count; i++)
        if (why->set.ranks[i].pid == pid)
            return true;
    return false;
}

static pid_t *other_processes(const struct why *why, size_t *ret_count)
{
    pid_t *list = calloc(HASH_COUNT(why->report.model.alive) + 1, sizeof *list);
    *ret_count = 0;
    for (const struct job_process *process = why->report.model.alive; process && list; process = process->hh.next)
        if (!is_rank(why, process->pid))
            list[(*ret_count)++] = process->pid;
    return list;
}

/* Ranks that live though their launcher was killed. */
static size_t still_running(const struct mpi_stats_set *set)
{
    size_t count = 0;
    for (size_t i = 0; i < set->count; i++)
        count += set->ranks[i].running;
    return count;
}

/* Of a job that runs on: how many there are, where none of them is left; 0: one is, or not all are known. */
static size_t all_ended(const struct why *why)
{
    const struct mpi_stats_set *set = &why->set;
    bool all = why->has_mpi && job_runs(why) && set->count && !still_running(set);
    return all && set->count >= (size_t)set->ranks[0].world_size ? set->count : 0;
}

/* Explains why nothing is known about ranks although there are some. */
static void note_uncounted(struct why *why)
{
    size_t count, uses = 0;
    if (why->has_mpi || why->note.code || !job_runs(why) || !is_here(why))
        return;
    _cleanup_(freep) pid_t *list = other_processes(why, &count);
    for (size_t i = 0; list && i < count; i++)
        uses += why_processes_use_mpi(list[i]);
    if (uses)
        err_set(
            &why->note, -ENODATA,
            "%zu process%s use%s MPI, but it is not known which rank waits for which: their calls are not counted, or "
            "not yet. If the job was started with --mpi off, start it without; else see the warnings of scry report",
            uses, uses == 1 ? "" : "es", uses == 1 ? "s" : "");
}

/* What they are blocked in nobody has asked. */
static void put_elsewhere(struct buf *out, const struct why *why)
{
    size_t count = 0;
    for (size_t i = 0; i < why->report.part_count; i++) {
        if (why->report.parts[i].state != JOB_RUNNING)
            continue;
        buf_puts(out, count++ ? ", " : "\nits processes on ");
        text_show(out, text_base(why->report.parts[i].path));
    }
    if (!count)
        return;
    buf_puts(out, " are not among these: scry snapshot ");
    text_show(out, why->report.info.id);
    buf_puts(out, " says where they are\n");
}

/* How it stands with the job, and why, as far as that is one sentence. */
static void put_head(struct buf *out, const struct why *why)
{
    size_t left = job_runs(why) ? 0 : still_running(&why->set);
    const char *cause = json_string_value(json_object_get(why->cause, "text"));
    buf_puts(out, "job ");
    text_show(out, why->report.info.id);
    buf_putc(out, ' ');
    if (job_runs(why)) {
        buf_printf(out, "is %s", job_state_name(why->report.state));
    } else if (left) {
        buf_printf(out, "%s, but %zu of its ranks still run%s", job_state_name(why->report.state), left,
                   left == 1 ? "s" : "");
        if (cause) {
            buf_putc(out, '\n');
            text_label(out, "reason");
            text_show(out, cause);
        }
    } else if (cause && !job_report_is_lost(&why->report)) {
        struct job_result result = job_report_result(&why->report);
        bool failed = result.exit_code || result.signal;
        buf_printf(out, "%s: ", failed ? "failed" : job_state_name(why->report.state));
        text_show(out, cause);
    } else {
        job_report_outcome(out, &why->report);
        buf_puts(out, cause ? "; " : "");
        text_show(out, cause ? cause : "");
    }
    buf_putc(out, '\n');
}

/* Of a job that failed and of which it is not known why: what there is, what is missing, and what would have recorded it. */
static void put_unknown(struct buf *out, const struct why *why)
{
    static const char *const missing[] = {"recording_stopped", "disk_hangs", "job_json", "lost", "gap"};
    const char *unknown = json_string_value(json_object_get(why->last, "unknown"));
    struct job_result result = job_report_result(&why->report);
    size_t index;
    json_t *warning;
    if ((why->cause && note_json_kind(why->cause) != NOTE_cause_unknown) || (!result.exit_code && !result.signal))
        return;
    if (!why->cause && unknown) {
        text_label(out, "reason");
        buf_printf(out, "not known: %s\n", unknown);
    }
    json_array_foreach(job_report_warnings(&why->report), index, warning)
    {
        const char *kind = json_string_value(json_object_get(warning, "kind"));
        for (size_t i = 0; kind && i < sizeof missing / sizeof *missing; i++)
            if (strcmp(kind, missing[i]) == 0) {
                const char *text = json_string_value(json_object_get(warning, "text"));
                text_label(out, "warning");
                text_show(out, text ? text : "?");
                buf_putc(out, '\n');
            }
    }
}

/* Of a program that does not compute: it may wait for what they owe. */
static void put_lost_workers(struct buf *out, const struct why *why)
{
    static const double IDLE_SHARE = 0.1;
    const struct job_model *model = &why->report.model;
    if (!job_runs(why) || why->has_mpi || model->cpu_share >= IDLE_SHARE)
        return;
    if (workers_put_lost(out, model, model->last_seconds, true))
        buf_puts(out, why->lock_count ? "\n" : ", and may wait for what that owes\n");
    _cleanup_(buf_done) struct buf said = BUF_INIT;
    if (why->lock_count && workers_put_exception(&said, model, -1)) {
        buf_puts(out, "before, it said: ");
        text_show(out, said.data);
        buf_putc(out, '\n');
    }
}

static void put_text(struct buf *out, const struct why *why)
{
    put_head(out, why);
    if (why->cause && json_is_object(json_object_get(why->last, "reason"))) /* else job.json knows more */
        last_unknown_text(out, why->last);
    last_said_text(out, why->last);
    if (!job_runs(why) && !still_running(&why->set))
        put_unknown(out, why);
    if (!why->cause) /* that says how they ended, if they did not end well */
        mpi_ends_text(out, &why->set, "");
    if (!job_runs(why) && !why->at_end)
        put_stall(out, why->report.model.stall, &why->set);
    size_t count;
    _cleanup_(freep) pid_t *list = job_runs(why) && is_here(why) ? other_processes(why, &count) : NULL;
    size_t ended = all_ended(why);
    if (list && why->has_mpi)
        why_processes_beside(out, list, count, ended);
    size_t before = out->len;
    bool others = !why->has_mpi || ended; /* it is they that matter */
    if (list && others && !why->lock_count)
        fifos_text(out, list, count);
    if (list && others && !why->lock_count && out->len == before)
        why_processes_awaited(out, list, count, &why->report.model.layers);
    deadlocks_text(out, why->locks, why->lock_count);
    put_lost_workers(out, why);
    if (why->has_mpi && (why->lock_count || ended))
        buf_putc(out, '\n');
    if (why->at_end)
        buf_puts(out, "what its ranks were in at the end:\n");
    if (why->has_mpi)
        mpi_why_text(out, &why->mpi);
    if (job_runs(why) && (others || why->all)) {
        if (is_here(why)) {
            why_processes_text(out, list, list ? count : 0, &why->report.model.layers);
            put_elsewhere(out, why);
        } else {
            buf_puts(out, "its processes are on ");
            text_show(out, why->report.info.host);
            buf_puts(out, ": run scry why there to see what they are blocked in\n");
        }
    }
    if (why->note.code) {
        buf_puts(out, "\nnote: ");
        text_show(out, why->note.text);
        buf_putc(out, '\n');
    }
}

static void find_locks(struct why *why)
{
    size_t count;
    _cleanup_(freep) pid_t *list = job_runs(why) && is_here(why) ? other_processes(why, &count) : NULL;
    if (list)
        why->lock_count = deadlocks_find(&why->locks, list, count);
}

static json_t *why_json(const struct why *why)
{
    size_t count;
    _cleanup_(freep) pid_t *list = other_processes(why, &count);
    const struct why_row row = {.id = why->report.info.id,
                                .state = job_state_name(why->report.state),
                                .note = why->note.code ? why->note.text : "",
                                .mpi = why->has_mpi ? &why->mpi : NULL,
                                .set = &why->set,
                                .stall = why->report.model.stall,
                                .cause = why->cause,
                                .locks = why->locks,
                                .lock_count = why->lock_count,
                                .processes = list,
                                .process_count = job_runs(why) && list && is_here(why) ? count : 0};
    return fields_json(why_fields, &row, NULL);
}

static int why_show(const struct why *why, bool json)
{
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    if (json) {
        text_put_json(&out, why_json(why));
    } else {
        put_text(&out, why);
        text_wrap(&out, 0, text_columns(STDOUT_FILENO));
    }
    if (out.failed) {
        log_error("out of memory");
        return EXIT_ERRORS;
    }
    fwrite(out.data, 1, out.len, stdout);
    bool stuck = mpi_why_is_stuck(&why->mpi) && (!why->at_end || still_running(&why->set));
    return why->lock_count || stuck ? EXIT_STUCK : 0;
}

static int why_job(const char *job, struct why *why, bool json)
{
    struct found_job found;
    struct err err = {0};
    int status = EXIT_ERRORS, code = find_job(&found, job, &err);
    why->remote = found.remote;
    why->found = &found;
    _cleanup_(freep) char *real = code == 0 ? realpath(found.path, NULL) : NULL; /* as the monitor knows it */
    if (code == 0)
        code = job_report_load(&why->report, real ? real : found.path, &err);
    if (code == 0)
        code = look_at_mpi(why, &err);
    if (code < 0) {
        cli_log_error(&err);
    } else {
        note_uncounted(why);
        find_locks(why);
        find_cause(why);
        status = why_show(why, json);
    }
    deadlocks_free(why->locks, why->lock_count);
    if (client_connected())
        omis_finalize();
    why_nodes_done(&why->nodes);
    mpi_stats_set_done(&why->set);
    arena_done(&why->arena);
    json_decref(why->cause);
    json_decref(why->last);
    job_report_done(&why->report);
    find_close(&found);
    return status;
}

/* ---- processes that scry did not start ---- */

static void put_pids(struct buf *out, const struct why *why, const pid_t *pids, size_t count)
{
    if (!why->lock_count)
        fifos_text(out, pids, count);
    if (!why->lock_count && !out->len)
        why_processes_awaited(out, pids, count, NULL);
    deadlocks_text(out, why->locks, why->lock_count);
    if (!out->len)
        why_processes_computing(out, pids, count);
    why_processes_text(out, pids, count, NULL);
    if (why->note.code) {
        buf_puts(out, "\nnote: ");
        text_show(out, why->note.text);
        buf_putc(out, '\n');
    }
}

static int why_pids(const struct options *options)
{
    _cleanup_(freep) pid_t *list = NULL;
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    struct why why = {0};
    size_t count;
    int status = pids_take(options, &list, &count);
    if (!count)
        return status;
    if (why_processes_follow(&list, &count) < 0)
        log_error("out of memory");
    for (size_t i = 0; i < count && !why.note.code; i++)
        if (why_processes_use_mpi(list[i]))
            err_set(&why.note, -ENODATA,
                    "process %d uses MPI; which rank waits for which is known of jobs of scry run only", (int)list[i]);
    why.lock_count = deadlocks_find(&why.locks, list, count);
    if (options_on(options, "json")) {
        const struct why_row row = {.note = why.note.code ? why.note.text : "",
                                    .locks = why.locks,
                                    .lock_count = why.lock_count,
                                    .processes = list,
                                    .process_count = count};
        text_put_json(&out, fields_json(why_fields, &row, NULL));
    } else {
        put_pids(&out, &why, list, count);
        text_wrap(&out, 0, text_columns(STDOUT_FILENO));
    }
    if (!out.failed) {
        fwrite(out.data, 1, out.len, stdout);
    } else {
        log_error("out of memory");
        status = EXIT_ERRORS;
    }
    if (why.lock_count)
        status = EXIT_STUCK;
    deadlocks_free(why.locks, why.lock_count);
    return status;
}

int cmd_why(const struct options *options)
{
    if (pids_are_meant(options))
        return why_pids(options);
    struct why what = {.all = options_on(options, "all"), .settled_ns = options_number(options, "settled") * 1000000};
    return why_job(options->words[0], &what, options_on(options, "json"));
}
