/* SPDX-License-Identifier: Apache-2.0 */
/* When a job does not do what it should, or a node has a problem: one table. Limits are named here, and nowhere else. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/data/grow.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"
#include "site/site.h"

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
               fmax(ceil(ret->value), 1));
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

static bool stalled(const struct site_job *job, struct site_verdict *ret)
{
    ret->value = job->last_t - job->stalled_t;
    ret->of = -1;
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
    text_size(&ret->advice, (uint64_t)(ADVISED * fmax(ret->value, 1 << 20)));
    return settled(job) && job->memory_used_bytes > 0 && job->memory_asked_bytes >= MEMORY_LEAST &&
           ret->value < MEMORY_UNUSED * ret->of;
}

static bool memory_short(const struct site_job *job, struct site_verdict *ret)
{
    bool near = job->memory_asked_bytes > 0 && job->memory_used_bytes > 0 &&
                (double)job->memory_used_bytes >= MEMORY_NEAR * (double)job->memory_asked_bytes;
    put_memory(ret, job);
    if (job->oom_kills > 0)
        buf_printf(&ret->text, "; the kernel killed processes for memory, %lld times", (long long)job->oom_kills);
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
    text_seconds(&ret->text, fmax(ret->value, 0));
    buf_puts(&ret->text, " at its pace, has ");
    text_seconds(&ret->text, fmax(ret->of, 0));
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
        buf_printf(&ret->text, "%sprocesses were killed for memory, %lld times", ret->text.len ? "; " : "",
                   (long long)node->oom_kills);
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
    {"stalled", "seconds", "runs, and nothing of it, or none of its ranks, moved", .of_job = stalled},
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
