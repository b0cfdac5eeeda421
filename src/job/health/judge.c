/* SPDX-License-Identifier: Apache-2.0 */
#include "job/health/judge.h"

#include "base/system/clock.h"
#include "shm/waits.h"

#include <stdlib.h>
#include <unistd.h>

/* Programs that only wait for something wake up now and then: that is no work. */
#define IDLE_SHARE 0.005

static const char *what_moved(const struct stall *stall, const struct look *look, const struct process_motion *motion,
                              int64_t output_bytes)
{
    double passed_ns = (double)(look->now_ns - stall->moved_ns);
    double worked_ns = (double)(motion->cpu_ns - stall->seen.cpu_ns);
    if (motion->changes != stall->seen.changes)
        return motion->ended ? "ended" : "began";
    if (output_bytes != stall->output_bytes)
        return "wrote output";
    if (motion->bytes != stall->seen.bytes)
        return "read or wrote";
    if (worked_ns > (double)STALL_IDLE_NS && worked_ns > IDLE_SHARE * passed_ns)
        return "computed";
    return NULL;
}

void stall_look(struct stall *stall, const struct look *look, const struct process_motion *motion, int64_t output_bytes,
                double after_seconds)
{
    const char *what = what_moved(stall, look, motion, output_bytes);
    bool stopped = motion->stopped; /* somebody has done so, and knows */
    if (!stall->moved_ns || what || stopped) {
        stall->moved_ns = look->now_ns;
        stall->said = false;
        stall->last = what ? what : stall->last;
        stall->seen = *motion;
        stall->output_bytes = output_bytes;
        return;
    }
    double seconds = (double)(look->now_ns - stall->moved_ns) / NS_PER_SECOND;
    if (stall->said || after_seconds <= 0 || seconds < after_seconds)
        return;
    stall->said = true;
    char where[STUCK_WHERE + 16] = "";
    if (stall->where && *stall->where)
        snprintf(where, sizeof where, "; it %s", stall->where);
    if (!look->quiet)
        look->say(look->ctx,
                  NOTE(stands_still, .seconds = seconds, .pid = (uint64_t)stall->seen.pid, .program = stall->seen.name,
                       .last = stall->last ? stall->last : "began", .where = where));
}

#define MB (1024.0 * 1024)

/* What is warned of. */
#define MEMORY_LOW 0.03 /* of the node's is available */
#define MEMORY_FINE 0.06
#define GROUP_LOW 0.05 /* of the limit is left */
#define GROUP_FINE 0.1
#define SOON_SHARE 0.15 /* less than that is left, and it is used up within these seconds */
#define TASKS_NEAR 0.9
#define TASKS_FAR 0.8
#define PRESSURE_HIGH 0.1 /* of the time all tasks wait for memory */
#define PRESSURE_LOW 0.03
#define THROTTLED_HIGH 0.25 /* of the periods */
#define THROTTLED_LOW 0.1
#define BUSY 0.95        /* of the processors are */
#define TAKEN_LEAST 0.01 /* of a processor: what computes less does not lack it, whatever it waits to wake up */
#define TAKEN_HIGH 0.25  /* of the processors others have; and of the time that the job could compute it has none */
#define TAKEN_LOW 0.1
#define SWAPPING_HIGH (4 * MB) /* a second, in and out */
#define SWAPPING_LOW (1 * MB)

/* ---- memory ---- */

static bool is_soon(double seconds, double share)
{
    return seconds >= 0 && seconds < JUDGE_SOON_SECONDS && share < SOON_SHARE;
}

static void judge_memory(struct judge *judge, const struct look *look, const struct node_state *node)
{
    double total = (double)node->memory_total, left = (double)node->memory_available;
    if (total <= 0 || left < 0)
        return;
    double share = left / total;
    trend_add(&judge->memory, look->now_ns, left);
    double seconds = trend_left_seconds(&judge->memory);
    if (alarm_rings(&judge->low, look, share<MEMORY_LOW, share> MEMORY_FINE, total / (left + 1)))
        look->say(look->ctx, NOTE(memory_low, .available_mb = left / MB, .total_mb = total / MB));
    else if (alarm_rings(&judge->filling, look, is_soon(seconds, share), share > SOON_SHARE, 1))
        look->say(look->ctx,
                  NOTE(memory_filling, .available_mb = left / MB, .total_mb = total / MB, .left_seconds = seconds));
}

static void judge_group_memory(struct judge *judge, const struct look *look, const struct cgroup_state *group)
{
    /* below a part of the limit it is not asked what is needed, and then all is well */
    double limit = (double)group->memory_limit, needed = group->memory_needed < 0 ? 0 : (double)group->memory_needed;
    if (limit <= 0 || group->memory < 0)
        return;
    double left = limit > needed ? limit - needed : 0, share = left / limit;
    trend_add(&judge->group_memory, look->now_ns, left);
    double seconds = trend_left_seconds(&judge->group_memory);
    if (alarm_rings(&judge->group_low, look, share<GROUP_LOW, share> GROUP_FINE, limit / (left + limit / 1000)))
        look->say(look->ctx, NOTE(group_memory_low, .used_mb = needed / MB, .limit_mb = limit / MB));
    else if (alarm_rings(&judge->group_filling, look, is_soon(seconds, share), share > SOON_SHARE, 1))
        look->say(look->ctx,
                  NOTE(group_memory_filling, .used_mb = needed / MB, .limit_mb = limit / MB, .left_seconds = seconds));
}

static void judge_killed(struct judge *judge, const struct look *look, const struct node_state *node,
                         const struct cgroup_state *group)
{
    bool own = group->oom_kills >= 0;
    int64_t count = own ? group->oom_kills : node->count[NODE_OOM_KILLS],
            *before = own ? &judge->oom_group : &judge->oom_node;
    if (count < 0 || count - *before <= judge->oom_said)
        return;
    judge->oom_said = count - *before;
    if (!look->quiet)
        look->say(look->ctx, own ? NOTE(out_of_memory, .processes = (uint64_t)judge->oom_said, .own_group = true)
                                 : NOTE(node_out_of_memory, .processes = (uint64_t)judge->oom_said));
}

/* ---- over some seconds ---- */

/* Of the periods since the window began, of those in which its group was kept from the processors; 0: or it is not known. */
static double throttled_share(const struct judge *judge, const struct cgroup_state *group)
{
    int64_t periods = group->periods - judge->group_window.periods;
    int64_t kept = group->throttled_periods - judge->group_window.throttled_periods;
    bool known = judge->group_window.periods >= 0 && periods > 0 && kept >= 0;
    return known ? (double)kept / (double)periods : 0;
}

/* The job is not alone: its processes are ready to run, and others have the processors. Who is kept waiting by a limit of
 * its own, on processors to which it is bound (by taskset, by mpirun) and which it has itself, is not told that it is others. */
static void judge_taken(struct judge *judge, const struct look *look, const struct node_state *node,
                        const struct process_motion *motion, bool limited)
{
    double seconds = (double)(look->now_ns - judge->window_ns) / NS_PER_SECOND;
    double cpus = node_rate(&judge->window, node, NODE_CPU_TOTAL) / (double)sysconf(_SC_CLK_TCK);
    double busy = node_cpu_share(&judge->window, node, NODE_CPU_BUSY);
    double spent = (double)(motion->spent_ns - judge->motion_window.spent_ns) / NS_PER_SECOND;
    double waited = (double)(motion->waited_ns - judge->motion_window.waited_ns) / NS_PER_SECOND;
    double others = cpus * busy - spent / seconds, share = waited > 0 ? waited / (waited + spent) : 0;
    double its = judge->lacking && judge->lacking < cpus ? judge->lacking : cpus, taken = its * busy - spent / seconds;
    bool known = cpus > 0 && busy >= 0 && motion->whole && !limited;
    bool bad = known && busy >= BUSY && others >= TAKEN_HIGH * cpus && taken >= TAKEN_HIGH * its &&
               share >= TAKEN_HIGH && waited >= TAKEN_HIGH * seconds && spent >= TAKEN_LEAST * seconds;
    if (alarm_rings(&judge->taken, look, bad, known && (share < TAKEN_LOW || taken < TAKEN_LOW * its), share))
        look->say(look->ctx, NOTE(processors_taken, .percent = 100 * share, .seconds = seconds, .others = others,
                                  .cpus = cpus, .brief = look->now_ns < judge->window_ns + JUDGE_WINDOW_NS));
}

static void judge_window(struct judge *judge, const struct look *look, const struct node_state *node,
                         const struct cgroup_state *group, const struct process_motion *motion)
{
    double waited = node_waited_share(&judge->window, node, NODE_WAITED_MEMORY_FULL);
    double page = (double)sysconf(_SC_PAGESIZE), seconds = (double)(look->now_ns - judge->window_ns) / NS_PER_SECOND;
    double in = node_rate(&judge->window, node, NODE_SWAPPED_IN) * page;
    double out = node_rate(&judge->window, node, NODE_SWAPPED_OUT) * page;
    double both = in < out ? in : out;
    double throttled = throttled_share(judge, group);

    if (alarm_rings(&judge->pressure, look, waited > PRESSURE_HIGH, waited < PRESSURE_LOW, waited))
        look->say(look->ctx, NOTE(memory_pressure, .percent = 100 * waited, .seconds = seconds));
    if (alarm_rings(&judge->swapping, look, both > SWAPPING_HIGH, both < SWAPPING_LOW, both))
        look->say(look->ctx, NOTE(swapping, .in_mb = in / MB, .out_mb = out / MB));
    if (alarm_rings(&judge->throttled, look, throttled > THROTTLED_HIGH, throttled < THROTTLED_LOW, throttled))
        look->say(look->ctx, NOTE(throttled, .percent = 100 * throttled, .cpus = group->cpus_limit));
    judge_taken(judge, look, node, motion, throttled > THROTTLED_LOW);
}

static void judge_tasks(struct judge *judge, const struct look *look, const struct cgroup_state *group)
{
    double share = group->tasks_limit > 0 ? (double)group->tasks / (double)group->tasks_limit : 0;
    if (alarm_rings(&judge->tasks, look, share >= TASKS_NEAR, share < TASKS_FAR, share))
        look->say(look->ctx, NOTE(group_tasks, .tasks = (uint64_t)group->tasks, .limit = (uint64_t)group->tasks_limit));
}

void judge_look(struct judge *judge, const struct look *look, const struct node_state *node,
                const struct cgroup_state *group, const struct process_motion *motion)
{
    if (!judge->window_ns) {
        judge->oom_node = node->count[NODE_OOM_KILLS];
        judge->oom_group = group->oom_kills;
    }
    judge_memory(judge, look, node);
    judge_group_memory(judge, look, group);
    judge_killed(judge, look, node, group);
    judge_tasks(judge, look, group);
    judge->lacking = motion->lacking > judge->lacking ? motion->lacking : judge->lacking;
    if (judge->window_ns && look->now_ns < judge->window_ns + JUDGE_WINDOW_NS)
        return;
    if (judge->window_ns)
        judge_window(judge, look, node, group, motion);
    judge->window = *node;
    judge->group_window = *group;
    judge->motion_window = *motion;
    judge->lacking = 0;
    judge->window_ns = look->now_ns;
}

void judge_end(struct judge *judge, const struct look *look, const struct node_state *node,
               const struct cgroup_state *group, const struct process_motion *motion)
{
    if (look->now_ns >= judge->window_ns + JUDGE_LEAST_NS)
        judge_taken(judge, look, node, motion, throttled_share(judge, group) > THROTTLED_LOW);
}

void judge_group_changed(struct judge *judge, const struct cgroup_state *group)
{
    judge->oom_group = group->oom_kills;
    judge->oom_said = 0;
    judge->group_window = *group;
    judge->group_memory = (struct trend){0};
    judge->group_low = judge->group_filling = judge->tasks = judge->throttled = (struct alarm){0};
}

/* ---- clocks ---- */

void judge_clocks_read(struct judge_clocks *ret_clocks)
{
    uint64_t before = clock_now_ns(), realtime = clock_wall_ns(), boottime = clock_ns(CLOCK_BOOTTIME),
             after = clock_now_ns();
    uint64_t now = before + (after - before) / 2;
    *ret_clocks = (struct judge_clocks){(int64_t)(realtime - now), (int64_t)(boottime - now)};
}

void judge_clocks_look(struct judge *judge, const struct look *look, const struct judge_clocks *clocks)
{
    int64_t slept = clocks->boottime_ns - judge->suspended_ns;
    int64_t jumped = clocks->realtime_ns - judge->clock_ns - slept;
    bool first = !judge->has_clocks;
    judge->has_clocks = true;
    judge->clock_ns = clocks->realtime_ns;
    judge->suspended_ns = clocks->boottime_ns;
    if (first || look->quiet)
        return;
    if (slept > JUDGE_JUMP_NS)
        look->say(look->ctx, NOTE(suspended, .seconds = (double)slept / NS_PER_SECOND));
    if (llabs(jumped) > JUDGE_JUMP_NS)
        look->say(look->ctx, NOTE(clock_jumped, .seconds = (double)llabs(jumped) / NS_PER_SECOND, .back = jumped < 0));
}
