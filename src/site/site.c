/* SPDX-License-Identifier: Apache-2.0 */
#include "site/site.h"

#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "base/data/hash.h"
#include "base/data/number.h"
#include "base/system/clock.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The questions of `scry site`: one for the jobs, one for their newest minutes, one for their ranks. */

/* ---- jobs ---- */

enum kind { TEXT, WHOLE, REAL };

static const struct column {
    const char *name;
    enum kind kind;
    size_t at;
} columns[] = {
#define COLUMN(kind, name, member) \
    { \
        name, kind, offsetof(struct site_job, member) \
    }
    COLUMN(WHOLE, "job", key),
    COLUMN(TEXT, "owner", owner),
    COLUMN(TEXT, "id", id),
    COLUMN(TEXT, "name", name),
    COLUMN(TEXT, "node", node),
    COLUMN(TEXT, "state", state),
    COLUMN(TEXT, "batch_system", batch_system),
    COLUMN(TEXT, "batch_id", batch_id),
    COLUMN(TEXT, "last_warning", last_warning),
    COLUMN(REAL, "started", started),
    COLUMN(REAL, "wall_seconds", wall_seconds),
    COLUMN(REAL, "cpu_seconds", cpu_seconds),
    COLUMN(REAL, "cpus_asked", cpus_asked),
    COLUMN(REAL, "time_asked_seconds", time_asked_seconds),
    COLUMN(REAL, "progress_left_seconds", left_seconds),
    COLUMN(REAL, "progress", progress),
    COLUMN(WHOLE, "node_cpus", node_cpus),
    COLUMN(WHOLE, "node_memory_bytes", node_memory_bytes),
    COLUMN(WHOLE, "memory_used_bytes", memory_used_bytes),
    COLUMN(WHOLE, "memory_asked_bytes", memory_asked_bytes),
    COLUMN(WHOLE, "rss_bytes", rss_bytes),
    COLUMN(WHOLE, "processes", processes),
    COLUMN(WHOLE, "warnings", warnings),
    COLUMN(WHOLE, "log_errors", log_errors),
    COLUMN(WHOLE, "crashes", crashes),
    COLUMN(WHOLE, "oom_kills", oom_kills),
    COLUMN(WHOLE, "behind", behind),
    COLUMN(WHOLE, "lost", lost),
    COLUMN(WHOLE, "exit_code", exit_code),
    COLUMN(WHOLE, "signal", signal),
    COLUMN(REAL, "last_t", last_t),
    COLUMN(REAL, "stalled_t", stalled_t),
    COLUMN(TEXT, "stalled_text", stalled_text),
    COLUMN(TEXT, "cause", cause),
    COLUMN(TEXT, "cause_text", cause_text),
#undef COLUMN
};
enum { COLUMNS = sizeof columns / sizeof *columns };

/* Of job_list what the filter leaves; $1 owner, $2 node, $3 the oldest end. "" stands for all. */
#define FILTERED \
    "($1 = '' OR owner = $1) AND ($2 = '' OR node = $2)" \
    " AND (state IN ('running', 'unwatched', 'unreachable') OR coalesce(ended, heard) >= $3)"

static enum site_state kind_of(const char *state)
{
    static const struct {
        const char *state;
        enum site_state kind;
    } kinds[] = {{"running", SITE_RUNNING}, {"unwatched", SITE_AWAY}, {"unreachable", SITE_AWAY},
                 {"lost", SITE_AWAY},       {"finished", SITE_WELL},  {"failed", SITE_WRONG},
                 {"crashed", SITE_WRONG},   {"killed", SITE_WRONG}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].state, state) == 0)
            return kinds[i].kind;
    return SITE_AWAY;
}

static int take_job(void *ctx, const struct db_value *values, int count)
{
    struct site *site = ctx;
    struct site_job *job = arena_zalloc(&site->memory, 1, sizeof *job);
    if (!job)
        return -ENOMEM;
    for (int i = 0; i < COLUMNS && i < count; i++) {
        char *at = (char *)job + columns[i].at;
        bool none = values[i].type == DB_NULL;
        if (columns[i].kind == TEXT) {
            const char *text = none ? "" : arena_dup(&site->memory, values[i].text.ptr, values[i].text.len);
            if (!text)
                return -ENOMEM;
            memcpy(at, &text, sizeof text);
        } else if (columns[i].kind == WHOLE) {
            *(int64_t *)(void *)at = none ? -1 : (int64_t)db_number(&values[i]);
        } else {
            *(double *)(void *)at = none ? -1 : db_number(&values[i]);
        }
    }
    if (!*job->stalled_text)
        job->stalled_text = NULL;
    job->kind = kind_of(job->state);
    job->recent = (struct site_recent){0, -1, -1, -1, -1, -1, -1, -1};
    HASH_ADD(hh, site->jobs, key, sizeof job->key, job);
    return 0;
}

static int ask_jobs(struct site *site, struct db *db, const struct db_value *filter, struct err *err)
{
    _cleanup_(buf_done) struct buf sql = BUF_INIT;
    for (int i = 0; i < COLUMNS; i++)
        buf_printf(&sql, "%s%s", i ? ", " : "SELECT ", columns[i].name);
    buf_puts(&sql, " FROM job_list WHERE " FILTERED " ORDER BY started DESC, id");
    return sql.failed ? -ENOMEM : db_query(db, sql.data, filter, 3, take_job, site, err);
}

static struct site_job *job_of(struct site *site, const struct db_value *value)
{
    struct site_job *job;
    HASH_FIND(hh, site->jobs, &value->integer, sizeof value->integer, job);
    return job;
}

/* ---- minutes ---- */

static double real(const struct db_value *value)
{
    return value->type == DB_NULL ? -1 : db_number(value);
}

static int take_minutes(void *ctx, const struct db_value *values, int count)
{
    struct site_job *job = job_of(ctx, &values[0]);
    if (!job)
        return 0;
    job->recent = (struct site_recent){
        .minutes = (int64_t)real(&values[1]),
        .pressure = real(&values[3]),
        .iowait = real(&values[4]),
        .throttled = real(&values[5]),
        .load = real(&values[6]),
        .available_bytes = (int64_t)real(&values[7]),
        .swap_used_bytes = (int64_t)real(&values[8]),
        .cpus = -1,
    };
    /* between the ends of the first and the last of these minutes */
    double first = real(&values[9]), last = real(&values[10]), seconds = 60 * (last - first);
    if (last * 60 + 60 > job->last_t) /* the last one goes on yet */
        seconds -= last * 60 + 60 - job->last_t;
    if (last > first && seconds >= 30 && values[2].type != DB_NULL)
        job->recent.cpus = number_max(db_number(&values[2]) / 1e9 / seconds, 0);
    return 0;
}

static int ask_minutes(struct site *site, struct db *db, struct err *err)
{
    _cleanup_(buf_done) struct buf sql = BUF_INIT;
    buf_printf(&sql,
               "SELECT minutes.job, count(*), max(cpu_ns) - min(cpu_ns), avg(node_memory_pressure), avg(node_iowait),"
               " avg(throttled), max(node_load), min(node_available_bytes), max(node_swap_used_bytes),"
               " min(minute), max(minute) FROM jobs JOIN minutes ON minutes.job = jobs.job"
               " AND minutes.minute > CAST(jobs.last_t / 60 AS BIGINT) - %d GROUP BY minutes.job",
               SITE_RECENT_MINUTES + 1);
    return sql.failed ? -ENOMEM : db_query(db, sql.data, NULL, 0, take_minutes, site, err);
}

/* ---- ranks ---- */

static int take_rank(void *ctx, const struct db_value *values, int count)
{
    struct site_job *job = job_of(ctx, &values[0]);
    double seconds = real(&values[2]);
    if (!job)
        return 0;
    job->ranks.count++;
    job->ranks.all_seconds += seconds;
    if (seconds > job->ranks.busiest_seconds || job->ranks.count == 1) {
        job->ranks.busiest_seconds = seconds;
        job->ranks.busiest = (int64_t)real(&values[1]);
    }
    return 0;
}

/* ---- sums ---- */

static void count_state(struct site *site, const char *state)
{
    size_t i = 0;
    while (i < site->state_count && strcmp(site->states[i].state, state) != 0)
        i++;
    if (i == sizeof site->states / sizeof *site->states)
        return;
    site->state_count += i == site->state_count;
    site->states[i].state = state;
    site->states[i].jobs++;
}

/* A shell ends with 128 and the signal that ended its command. */
static void put_how(const struct site_job *job, char *how, size_t size)
{
    enum { OF_SHELL = 128, SIGNALS = 64 };
    char room[32];
    int64_t signo = job->signal > 0 ? job->signal : job->exit_code > OF_SHELL ? job->exit_code - OF_SHELL : 0;
    if (job->oom_kills > 0)
        snprintf(how, size, "out of memory");
    else if (signo > 0 && signo <= SIGNALS)
        snprintf(how, size, "%s", text_signal((int)signo, room, sizeof room));
    else if (job->exit_code > 0)
        snprintf(how, size, "exit status %lld", (long long)job->exit_code);
    else
        snprintf(how, size, "%s", job->state);
}

static int count_failure(struct site *site, const char *how)
{
    size_t i = 0;
    while (i < site->failure_count && strcmp(site->failures[i].how, how) != 0)
        i++;
    if (i == sizeof site->failures / sizeof *site->failures)
        return 0;
    if (i == site->failure_count &&
        !(site->failures[site->failure_count++].how = arena_dup(&site->memory, how, strlen(how))))
        return -ENOMEM;
    site->failures[i].jobs++;
    return 0;
}

static int by_failed_jobs(const void *a, const void *b)
{
    const struct site_failure *left = a, *right = b;
    return left->jobs != right->jobs ? (left->jobs < right->jobs ? 1 : -1) : strcmp(left->how, right->how);
}

#define FIND_OR_ADD(site, list, found, key_name) \
    do { \
        HASH_FIND_STR(site->list, key_name, found); \
        if (!found && (found = arena_zalloc(&site->memory, 1, sizeof *found))) { \
            found->name = key_name; \
            HASH_ADD_KEYPTR(hh, site->list, found->name, strlen(found->name), found); \
        } \
    } while (0)

/* What a reason has in common with others of its kind. */
static void put_common(struct buf *out, const char *text)
{
    enum { COMMON = 100 };
    for (const char *at = text; *at && out->len < COMMON; at++) {
        const char *end =
            (*at == '\'' || *at == '"') && (at == text || !isalnum((unsigned char)at[-1])) ? strchr(at + 1, *at) : NULL;
        if (end)
            at = end;
        else if (!isdigit((unsigned char)*at))
            buf_putc(out, *at);
    }
}

static int count_reason(struct site *site, const struct site_job *job, const char *how)
{
    _cleanup_(buf_done) struct buf common = BUF_INIT;
    struct site_reason *reason;
    buf_printf(&common, "%s ", job->cause);
    put_common(&common, *job->cause_text ? job->cause_text : how);
    const char *name = common.failed ? NULL : arena_dup(&site->memory, common.data, common.len);
    const char *text = *job->cause_text ? job->cause_text : arena_dup(&site->memory, how, strlen(how));
    if (!name || !text)
        return -ENOMEM;
    FIND_OR_ADD(site, reasons, reason, name);
    if (!reason)
        return -ENOMEM;
    if (reason->jobs < SITE_REASON_JOBS)
        reason->newest[reason->jobs] = job;
    if (reason->jobs++ == 0) { /* they come newest first */
        reason->cause = job->cause;
        reason->text = text;
        reason->owner = job->owner;
        reason->id = job->id;
    }
    return 0;
}

static void most(double *number, double value)
{
    if (value > *number)
        *number = value;
}

/* What the node is now: as its jobs that run see it. Of others only what was counted. */
static int add_node(struct site *site, const struct site_job *job)
{
    struct site_node *node;
    FIND_OR_ADD(site, nodes, node, job->node);
    if (!node)
        return -ENOMEM;
    if (node->jobs++ == 0) {
        node->cpus = node->memory_bytes = node->available_bytes = node->swap_used_bytes = -1;
        node->load = node->pressure = node->iowait = -1;
    }
    node->running += job->kind == SITE_RUNNING;
    node->away += job->kind == SITE_AWAY;
    node->wrong += job->kind == SITE_WRONG;
    node->crashes += job->crashes;
    if (job->memory_asked_bytes <= 0) /* else it was killed at its own limit, as it should be: the node has enough */
        node->oom_kills += job->oom_kills;
    if (job->node_cpus > node->cpus)
        node->cpus = job->node_cpus;
    if (job->node_memory_bytes > node->memory_bytes)
        node->memory_bytes = job->node_memory_bytes;
    if (job->kind != SITE_RUNNING)
        return 0;
    node->reserved += number_max(job->cpus_asked, 0);
    most(&node->load, job->recent.load);
    most(&node->pressure, job->recent.pressure);
    most(&node->iowait, job->recent.iowait);
    if (job->recent.swap_used_bytes > node->swap_used_bytes)
        node->swap_used_bytes = job->recent.swap_used_bytes;
    if (job->recent.available_bytes >= 0 &&
        (node->available_bytes < 0 || job->recent.available_bytes < node->available_bytes))
        node->available_bytes = job->recent.available_bytes;
    return 0;
}

static int add_user(struct site *site, const struct site_job *job)
{
    struct site_user *user;
    FIND_OR_ADD(site, users, user, job->owner);
    if (!user)
        return -ENOMEM;
    user->jobs++;
    user->running += job->kind == SITE_RUNNING;
    user->away += job->kind == SITE_AWAY;
    user->wrong += job->kind == SITE_WRONG;
    user->cpu_seconds += job->cpu_seconds;
    if (job->cpus_asked > 0) {
        user->reserved_seconds += job->cpus_asked * number_max(job->wall_seconds, 0);
        user->reserved_cpu_seconds += job->cpu_seconds;
    }
    return 0;
}

static int by_name(const struct site_node *a, const struct site_node *b)
{
    return strverscmp(a->name, b->name); /* n2 before n10 */
}

static int by_cpu(const struct site_user *a, const struct site_user *b)
{
    return a->cpu_seconds != b->cpu_seconds ? (a->cpu_seconds < b->cpu_seconds ? 1 : -1) : strcmp(a->name, b->name);
}

static int by_reason_jobs(const struct site_reason *a, const struct site_reason *b)
{
    return a->jobs != b->jobs ? (a->jobs < b->jobs ? 1 : -1) : strcmp(a->name, b->name);
}

static int by_jobs(const void *a, const void *b)
{
    const struct site_count *left = a, *right = b;
    return left->jobs != right->jobs ? (left->jobs < right->jobs ? 1 : -1) : strcmp(left->state, right->state);
}

static int sum_up(struct site *site)
{
    int code = 0;
    for (const struct site_job *job = site->jobs; job && code == 0; job = job->hh.next) {
        char how[64];
        count_state(site, job->state);
        put_how(job, how, sizeof how);
        code = job->kind == SITE_WRONG ? count_failure(site, how) : 0;
        if (code == 0 && (job->kind == SITE_WRONG || *job->cause))
            code = count_reason(site, job, how);
        if (code == 0)
            code = add_node(site, job);
        if (code == 0)
            code = add_user(site, job);
    }
    if (code == 0)
        code = site_judge(site);
    for (size_t i = 0; i < site->problem_count && code == 0; i++) {
        struct site_user *user = NULL;
        if (site->problems[i].job)
            HASH_FIND_STR(site->users, site->problems[i].job->owner, user);
        if (user)
            user->problems++;
    }
    HASH_SORT(site->nodes, by_name);
    HASH_SORT(site->users, by_cpu);
    HASH_SORT(site->reasons, by_reason_jobs);
    qsort(site->states, site->state_count, sizeof *site->states, by_jobs);
    qsort(site->failures, site->failure_count, sizeof *site->failures, by_failed_jobs);
    return code;
}

int site_ask(struct site *ret_site, struct db *db, const struct site_filter *filter, struct err *err)
{
    uint64_t began_ns = clock_now_ns();
    *ret_site = (struct site){.filter = *filter, .time = (double)clock_wall_ns() / NS_PER_SECOND};
    snprintf(ret_site->record, sizeof ret_site->record, "%s", db->name);
    struct db_value values[] = {db_string(filter->owner ? filter->owner : ""),
                                db_string(filter->node ? filter->node : ""),
                                db_real(ret_site->time - filter->since_seconds)};
    int code = ask_jobs(ret_site, db, values, err);
    if (code == 0)
        code = ask_minutes(ret_site, db, err);
    if (code == 0)
        code = db_query(db, "SELECT job, rank, compute_seconds FROM ranks", NULL, 0, take_rank, ret_site, err);
    if (code == 0)
        code = sum_up(ret_site);
    ret_site->seconds = (double)(clock_now_ns() - began_ns) / NS_PER_SECOND;
    return code == -ENOMEM && err && !err->code ? err_set(err, code, "out of memory") : code;
}

void site_done(struct site *site)
{
    HASH_CLEAR(hh, site->jobs);
    HASH_CLEAR(hh, site->nodes);
    HASH_CLEAR(hh, site->users);
    HASH_CLEAR(hh, site->reasons);
    free(site->problems);
    arena_done(&site->memory);
    *site = (struct site){0};
}

/* When a job does not do what it should, or a node has a problem: one table. Limits are named here, and nowhere else. */

static const double IDLE = 0.05, UNUSED = 0.5, PRESSED = 0.2, WAITING = 0.3, THROTTLED = 0.25, SWAPPED = 0.05;
static const double MEMORY_UNUSED = 0.25, MEMORY_NEAR = 0.95, ADVISED = 1.25, ALONE = 0.25, OVERTIME = 1.1;
static const double NODE_LOADED = 1.5, NODE_FREE = 0.05;
static const int64_t MEMORY_LEAST = (int64_t)1 << 30, CRASHES = 3;

/* ---- jobs ---- */

static bool runs(const struct site_job *job)
{
    return job->kind == SITE_RUNNING;
}

static bool settled(const struct site_job *job)
{
    return job->wall_seconds >= SITE_SETTLED_SECONDS;
}

/* Of a batch system that gave no number it has one at least. */
static double reserved(const struct site_job *job)
{
    return job->cpus_asked > 0 ? job->cpus_asked : *job->batch_system ? 1 : -1;
}

static void put_cpus(struct buf *out, double used, double of)
{
    buf_printf(out, used < 0.1 ? "%.2f of %g" : "%.1f of %g", used, of);
}

static bool idles(const struct site_job *job)
{
    return runs(job) && settled(job) && reserved(job) > 0 && job->recent.minutes >= SITE_RECENT_MINUTES / 3 &&
           job->recent.cpus >= 0 && job->recent.cpus < IDLE * reserved(job);
}

static bool idle(const struct site_job *job, struct site_verdict *ret)
{
    ret->value = job->recent.cpus;
    ret->of = reserved(job);
    put_cpus(&ret->text, ret->value, ret->of);
    buf_printf(&ret->text, " reserved processors used in the last %lld minutes", (long long)job->recent.minutes);
    buf_puts(&ret->advice, "see what it waits for (scry why), and end it if it is forgotten");
    return idles(job);
}

static bool unused(const struct site_job *job, struct site_verdict *ret)
{
    ret->value = job->wall_seconds > 0 ? job->cpu_seconds / job->wall_seconds : -1;
    ret->of = job->cpus_asked;
    put_cpus(&ret->text, ret->value, ret->of);
    buf_puts(&ret->text, " reserved processors used since its start");
    buf_printf(&ret->advice, "ask for %g, or let it use them: number of threads, of ranks, binding to processors",
               number_max(ceil(ret->value), 1));
    return settled(job) && ret->of >= 2 && ret->value < UNUSED * ret->of && !idles(job);
}

static bool thrashing(const struct site_job *job, struct site_verdict *ret)
{
    const struct site_recent *now = &job->recent;
    bool pressed = now->pressure >= PRESSED;
    bool swaps = now->iowait >= WAITING && job->node_memory_bytes > 0 &&
                 (double)now->swap_used_bytes >= SWAPPED * (double)job->node_memory_bytes;
    ret->value = pressed ? now->pressure : now->iowait;
    ret->of = pressed ? PRESSED : WAITING;
    buf_printf(&ret->text,
               pressed ? "its node waited for memory %.0f %% of the time"
                       : "its node waited for the disk %.0f %% of the time, with swap in use",
               100 * ret->value);
    if (job->rss_bytes > 0) {
        buf_puts(&ret->text, "; the job has ");
        text_size(&ret->text, (uint64_t)job->rss_bytes);
    }
    buf_puts(&ret->advice, "ask for more memory, or run fewer processes on a node");
    return job->kind != SITE_AWAY && now->minutes >= 2 && (pressed || swaps);
}

static bool throttled(const struct site_job *job, struct site_verdict *ret)
{
    ret->value = job->recent.throttled;
    ret->of = THROTTLED;
    buf_printf(&ret->text, "kept from the processors %.0f %% of the time: it has more threads than processors",
               100 * ret->value);
    buf_puts(&ret->advice, "start as many threads as it has processors (OMP_NUM_THREADS), or ask for more");
    return runs(job) && job->recent.minutes >= 2 && ret->value >= THROTTLED;
}

/* Of one that was ended, its reason says whether it went on in between. */
static bool stalled(const struct site_job *job, struct site_verdict *ret)
{
    static const char *const causes[] = {"cause_standstill", "cause_stuck", "cause_mpi_stall", "cause_mpi_late"};
    bool until_end = false;
    for (size_t i = 0; i < sizeof causes / sizeof *causes; i++)
        until_end |= job->kind == SITE_WRONG && strcmp(job->cause, causes[i]) == 0;
    ret->value = job->last_t - job->stalled_t;
    ret->of = -1;
    if (until_end) {
        ret->value = job->stalled_t >= 0 ? ret->value : 0;
        buf_puts(&ret->text, job->cause_text);
        buf_puts(&ret->advice, "scry report says where it stood");
        return true;
    }
    text_seconds(&ret->text, ret->value);
    buf_printf(&ret->text, " ago: %s", job->stalled_text ? job->stalled_text : "nothing of it moved");
    buf_puts(&ret->advice, "scry why says who waits for whom");
    return runs(job) && job->stalled_t >= 0 &&
           (ret->value < 60.0 * SITE_RECENT_MINUTES || (job->recent.cpus >= 0 && job->recent.cpus < IDLE));
}

static void put_memory(struct site_verdict *ret, const struct site_job *job)
{
    ret->value = (double)job->memory_used_bytes;
    ret->of = (double)job->memory_asked_bytes;
    text_size(&ret->text, job->memory_used_bytes > 0 ? (uint64_t)job->memory_used_bytes : 0);
    if (job->memory_asked_bytes > 0) {
        buf_puts(&ret->text, " of ");
        text_size(&ret->text, (uint64_t)job->memory_asked_bytes);
        buf_puts(&ret->text, " reserved");
    }
    buf_puts(&ret->text, " memory used at most");
}

static bool memory_unused(const struct site_job *job, struct site_verdict *ret)
{
    put_memory(ret, job);
    buf_puts(&ret->advice, "ask for ");
    text_size(&ret->advice, (uint64_t)(ADVISED * number_max(ret->value, 1 << 20)));
    return settled(job) && job->memory_used_bytes > 0 && job->memory_asked_bytes >= MEMORY_LEAST &&
           ret->value < MEMORY_UNUSED * ret->of;
}

static bool memory_short(const struct site_job *job, struct site_verdict *ret)
{
    bool near = job->memory_asked_bytes > 0 && job->memory_used_bytes > 0 &&
                (double)job->memory_used_bytes >= MEMORY_NEAR * (double)job->memory_asked_bytes;
    put_memory(ret, job);
    if (job->oom_kills > 0)
        buf_printf(&ret->text, "; the kernel killed %lld process%s for lack of memory", (long long)job->oom_kills,
                   job->oom_kills == 1 ? "" : "es");
    buf_puts(&ret->advice, "ask for more memory; scry report says which process needs it");
    return job->oom_kills > 0 || near;
}

static bool one_rank(const struct site_job *job, struct site_verdict *ret)
{
    const struct site_ranks *ranks = &job->ranks;
    double others = ranks->count > 1 ? (ranks->all_seconds - ranks->busiest_seconds) / (double)(ranks->count - 1) : 0;
    ret->value = ranks->busiest_seconds;
    ret->of = others;
    buf_printf(&ret->text, "rank %lld of %lld computed ", (long long)ranks->busiest, (long long)ranks->count);
    text_seconds(&ret->text, ret->value);
    buf_puts(&ret->text, ", the others ");
    text_seconds(&ret->text, others);
    buf_puts(&ret->text, " on average");
    buf_puts(&ret->advice, "share its work out, or ask for fewer ranks; scry report shows where the others wait");
    return ranks->count > 1 && settled(job) && ranks->busiest_seconds >= 60 && others < ALONE * ranks->busiest_seconds;
}

static bool overtime(const struct site_job *job, struct site_verdict *ret)
{
    ret->value = job->wall_seconds + job->left_seconds;
    ret->of = job->time_asked_seconds;
    buf_puts(&ret->text, "needs ");
    text_seconds(&ret->text, number_max(ret->value, 0));
    buf_puts(&ret->text, " at its pace, has ");
    text_seconds(&ret->text, number_max(ret->of, 0));
    buf_puts(&ret->advice, "ask for more time while it runs, or let it write a checkpoint before");
    return runs(job) && settled(job) && job->left_seconds >= 0 && ret->of > 0 && ret->value > OVERTIME * ret->of;
}

/* ---- nodes ---- */

static bool node_away(const struct site_node *node, struct site_verdict *ret)
{
    ret->value = (double)node->away;
    ret->of = (double)node->jobs;
    buf_printf(&ret->text, "%lld of %lld jobs are lost, unreachable or unwatched", (long long)node->away,
               (long long)node->jobs);
    buf_puts(&ret->advice, "see whether it lives, and its network");
    return node->away > 0;
}

static bool node_memory(const struct site_node *node, struct site_verdict *ret)
{
    bool low = node->memory_bytes > 0 && node->available_bytes >= 0 &&
               (double)node->available_bytes < NODE_FREE * (double)node->memory_bytes;
    ret->value = (double)node->available_bytes;
    ret->of = (double)node->memory_bytes;
    if (node->available_bytes >= 0) {
        text_size(&ret->text, (uint64_t)node->available_bytes);
        buf_puts(&ret->text, " of memory was available at the least");
    }
    if (node->pressure >= PRESSED)
        buf_printf(&ret->text, "%stasks waited for memory %.0f %% of the time", ret->text.len ? "; " : "",
                   100 * node->pressure);
    if (node->oom_kills > 0)
        buf_printf(&ret->text, "%s%lld process%s killed for lack of memory", ret->text.len ? "; " : "",
                   (long long)node->oom_kills, node->oom_kills == 1 ? " was" : "es were");
    buf_puts(&ret->advice, "limit the memory of jobs (control groups), or place fewer there");
    return low || node->pressure >= PRESSED || node->oom_kills > 0;
}

static bool node_overloaded(const struct site_node *node, struct site_verdict *ret)
{
    ret->value = node->load;
    ret->of = (double)node->cpus;
    buf_printf(&ret->text, "load %.1f with %lld processors", node->load, (long long)node->cpus);
    buf_puts(&ret->advice, "see which jobs have more threads than they asked for, and bind them");
    return node->running > 0 && node->cpus > 0 && node->load > NODE_LOADED * (double)node->cpus;
}

static bool node_disk(const struct site_node *node, struct site_verdict *ret)
{
    ret->value = node->iowait;
    ret->of = WAITING;
    buf_printf(&ret->text, "processors waited for the disk %.0f %% of the time", 100 * node->iowait);
    buf_puts(&ret->advice, "see its disks and file servers, and what its jobs read and write");
    return node->iowait >= WAITING;
}

static bool node_crashes(const struct site_node *node, struct site_verdict *ret)
{
    ret->value = (double)node->crashes;
    ret->of = (double)node->jobs;
    buf_printf(&ret->text, "%lld crashes in %lld jobs", (long long)node->crashes, (long long)node->jobs);
    buf_puts(&ret->advice,
             "if they are jobs of several users: see the kernel's messages, the memory and the libraries");
    return node->crashes >= CRASHES && 2 * node->crashes >= node->jobs;
}

/* ---- the table ---- */

/* clang-format off */
const struct site_rule site_rules[] = {
    {"idle", "processors", "reserves processors, and uses less than 5 % of them", .of_job = idle},
    {"stalled", "seconds", "nothing of it, or none of its ranks, moved, while it runs or until it was ended", .of_job = stalled},
    {"thrashing", "share", "its node waits for memory, or swaps", .of_job = thrashing},
    {"one_rank", "seconds", "one rank computes, four times as much as the others on average", .of_job = one_rank},
    {"memory_short", "bytes", "used more than 95 % of the memory that it asked for, or was killed for it", .of_job = memory_short},
    {"memory_unused", "bytes", "used less than 25 % of the memory that it asked for", .of_job = memory_unused},
    {"unused", "processors", "uses less than half of the processors that it asked for", .of_job = unused},
    {"throttled", "share", "is kept from the processors by its limit", .of_job = throttled},
    {"overtime", "seconds", "will not be done in the time that it asked for", .of_job = overtime},
    {"away", "jobs", "jobs there are lost, unreachable or unwatched", .of_node = node_away},
    {"memory", "bytes", "its memory is nearly used up", .of_node = node_memory},
    {"overloaded", "load", "more runs there than it has processors", .of_node = node_overloaded},
    {"disk", "share", "its processors wait for disks", .of_node = node_disk},
    {"crashes", "crashes", "programs crash there", .of_node = node_crashes},
    {0},
};
/* clang-format on */

static int note(struct site *site, const struct site_rule *rule, const struct site_job *job,
                const struct site_node *node)
{
    struct site_verdict verdict = {0};
    bool holds = job ? rule->of_job(job, &verdict) : rule->of_node(node, &verdict);
    int code = verdict.text.failed || verdict.advice.failed ? -ENOMEM : 0;
    if (holds && code == 0 && !GROW(site->problems, site->problem_count, site->problem_room))
        code = -ENOMEM;
    if (holds && code == 0)
        site->problems[site->problem_count++] =
            (struct site_problem){rule,
                                  job,
                                  job ? job->node : node->name,
                                  verdict.value,
                                  verdict.of,
                                  arena_printf(&site->memory, "%s", verdict.text.data ? verdict.text.data : ""),
                                  arena_printf(&site->memory, "%s", verdict.advice.data ? verdict.advice.data : "")};
    buf_done(&verdict.text);
    buf_done(&verdict.advice);
    return code;
}

int site_judge(struct site *site)
{
    int code = 0;
    for (const struct site_rule *rule = site_rules; rule->name; rule++) {
        for (struct site_job *job = rule->of_job ? site->jobs : NULL; job && code == 0; job = job->hh.next)
            code = note(site, rule, job, NULL);
        for (struct site_node *node = rule->of_node ? site->nodes : NULL; node && code == 0; node = node->hh.next)
            code = note(site, rule, NULL, node);
    }
    return code;
}
