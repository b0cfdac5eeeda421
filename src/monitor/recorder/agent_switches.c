/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clocks, and when threads had a processor by them.
 *
 * How fast the time stamp counter runs, from two looks at it and at CLOCK_MONOTONIC_RAW: one when the monitor starts,
 * one when it is needed, at least 20 ms later; the longer between them the better. And what one record costs.
 *
 * When the threads of traced processes had a processor: context switches, from rings of the kernel's
 * (probe/switches.h), become entries beside the trace. Who switches so often that this would slow it down is no
 * longer watched, and the trace says so.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#include "base/system/clock.h"
#include "jobdir/trace/switches.h"
#include "monitor/engine/monitor.h"
#include "monitor/recorder/agent.h"
#include "probe/proc.h"
#include "probe/switches.h"
#include "shm/waits.h"

/* ---- the time stamp counter ---- */

enum { TRIES = 16, COST_ROUNDS = 2000 };

uint64_t agent_clock_ticks(void)
{
    return __rdtsc();
}

/* The pair that was read with the least delay between. */
/* Both at the same moment. */
static void agent_clock_sample(clockid_t clock, uint64_t *ret_ticks, uint64_t *ret_ns)
{
    uint64_t least = UINT64_MAX;
    *ret_ticks = *ret_ns = 0;
    for (unsigned i = 0; i < TRIES; i++) {
        uint64_t before = __rdtsc(), ns = clock_ns(clock), after = __rdtsc();
        if (after - before < least) {
            least = after - before;
            *ret_ticks = before + (after - before) / 2;
            *ret_ns = ns;
        }
    }
}

void agent_clock_start(struct agents *agents)
{
    agent_clock_sample(CLOCK_MONOTONIC_RAW, &agents->first_ticks, &agents->first_ns);
}

/* What an entry or an exit costs at least: the counter read and two words stored. */
static uint64_t measure_event(void)
{
    uint64_t record[2], start = __rdtsc();
    for (unsigned i = 0; i < COST_ROUNDS; i++) {
        record[0] = __rdtsc();
        record[1] = i;
        __asm__ volatile("" : : "r"(record) : "memory");
    }
    return (__rdtsc() - start) / COST_ROUNDS + 1;
}

void agent_clock_calibrate(struct agents *agents)
{
    uint64_t ticks, ns;
    agent_clock_sample(CLOCK_MONOTONIC_RAW, &ticks, &ns);
    if (ns - agents->first_ns < AGENT_CLOCK_LEAST_NS) {
        struct timespec rest = {.tv_nsec = (long)(AGENT_CLOCK_LEAST_NS - (ns - agents->first_ns))};
        nanosleep(&rest, NULL); /* once in the life of a monitor, when an agent comes within 20 ms of its start */
        agent_clock_sample(CLOCK_MONOTONIC_RAW, &ticks, &ns);
    }
    if (ns <= agents->first_ns || ticks <= agents->first_ticks)
        return;
    agents->ticks_per_second =
        (uint64_t)((unsigned __int128)(ticks - agents->first_ticks) * NS_PER_SECOND / (ns - agents->first_ns));
    if (!agents->event_ticks)
        agents->event_ticks = measure_event();
}

uint64_t agent_clock_zero_ns(const struct agents *agents)
{
    uint64_t ticks, ns;
    agent_clock_sample(CLOCK_REALTIME, &ticks, &ns);
    return ns - (uint64_t)((unsigned __int128)ticks * NS_PER_SECOND / agents->ticks_per_second);
}

/* ---- context switches ---- */

enum {
    MOST = 1000, /* switches in a quarter of a second, for each processor that the program can use: to be watched costs
                    it about 1.2 us a switch, so this is half a percent */
    ENTRIES_BYTES = 64 << 10,   /* written when there are so many */
    THREADS_OFTEN = 64,         /* with more, what they are in is not written each second, but */
    SELDOM_PART = 10,           /* when the time has grown by a tenth */
    NS_BETWEEN_LOOKS = 1000000, /* at both clocks, for their ratio */
};

struct agent_switches {
    pid_t pid;
    struct agent *agent;
    struct switch_process *watched; /* NULL: no more */
    struct switch_log log;
    uint64_t read_until;    /* ticks; all switches before are in the log, */
    uint64_t until;         /* and all before this on disk */
    uint64_t window, count; /* switches since that time, ns */
    UT_hash_handle hh;
};

struct switch_feed {
    struct agents *agents;
    struct switch_rings *rings;
    struct loop_source *source;
    struct agent_switches *by_pid;
    uint64_t ticks, ns, ticks_before, ns_before; /* the last two looks at both clocks */
};

static void clocks_sample(struct switch_feed *feed)
{
    uint64_t ticks, ns;
    agent_clock_sample(CLOCK_MONOTONIC, &ticks, &ns);
    if (ns - feed->ns >= NS_BETWEEN_LOOKS) {
        feed->ticks_before = feed->ticks;
        feed->ns_before = feed->ns;
        feed->ticks = ticks;
        feed->ns = ns;
    }
}

/* By the line through both looks: NTP changes how fast CLOCK_MONOTONIC goes, but not much in between. */
static uint64_t ticks_at(const struct switch_feed *feed, uint64_t ns)
{
    __int128 span = feed->ns - feed->ns_before, ticks = feed->ticks - feed->ticks_before;
    return (uint64_t)((__int128)feed->ticks + ((__int128)ns - feed->ns) * ticks / span);
}

/* ---- reading ---- */

static void record_take(void *ctx, const struct switched *switched)
{
    struct switch_feed *feed = ctx;
    const struct switch_record *record = &switched->record;
    uint64_t time = ticks_at(feed, record->time_ns);
    struct agent_switches *switches;
    if (!record->pid) {
        for (switches = feed->by_pid; switches; switches = switches->hh.next)
            switch_log_gap(&switches->log, ticks_at(feed, switched->lost_ns), time);
        return;
    }
    HASH_FIND(hh, feed->by_pid, &record->pid, sizeof record->pid, switches);
    if (!switches || !switches->watched)
        return;
    switch_log_take(&switches->log, (uint32_t)record->tid, record->in, record->preempted, time);
    if (record->time_ns - switches->window >= NS_PER_SECOND / 4) {
        switches->window = record->time_ns;
        switches->count = 0;
    }
    switches->count += !record->in;
}

static bool thread_lives(void *ctx, uint32_t tid)
{
    const struct agent_switches *switches = ctx;
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%u", (int)switches->pid, tid);
    return switches->agent->ended || access(path, F_OK) == 0;
}

/* Puts on disk what is known. `whole`: also what threads are in just now, and so all until now. */
static int switches_put(struct agent_switches *switches, bool whole)
{
    struct agent *agent = switches->agent;
    struct switch_log *log = &switches->log;
    if (whole)
        switch_log_until(log, switches->until = switches->read_until, thread_lives, switches);
    uint64_t size = log->entries.len;
    int code = log->failed ? -ENOMEM : trace_writer_switches(agent->writer, &log->entries, log->from, switches->until);
    log->entries.len = 0;
    if (code == 0 && agent->job)
        agent->job->written += size;
    return code;
}

/* Nothing is known from here on. */
static void switches_stop(struct agent_switches *switches, const char *why)
{
    switch_process_close(switches->watched);
    switches->watched = NULL;
    trace_writer_set(switches->agent->writer, "switches_missing", "%s", why);
}

static void switches_check(struct agent_switches *switches, const struct switch_rings *rings)
{
    int code = 0;
    size_t threads = switch_log_threads(&switches->log), processors = switch_rings_count(rings);
    uint64_t most = MOST * (threads < processors ? threads : processors);
    if (switches->watched && switches->count > most) {
        switches_put(switches, true);
        switches_stop(switches, "the program switches so often that watching it would slow it down");
    } else if (switches->watched && switches->log.entries.len >= ENTRIES_BYTES &&
               (code = switches_put(switches, false)) < 0) {
        switches_stop(switches, strerror(-code));
    }
}

static void read_feed(struct switch_feed *feed)
{
    clocks_sample(feed);
    uint64_t until = ticks_at(feed, switch_rings_read(feed->rings, record_take, feed));
    for (struct agent_switches *switches = feed->by_pid; switches; switches = switches->hh.next) {
        if (switches->watched)
            switches->read_until = until;
        switches_check(switches, feed->rings);
    }
}

static void feed_readable(void *ctx, int fd, uint32_t events)
{
    (void)fd;
    (void)events;
    read_feed(ctx);
}

/* ---- watching ---- */

void agents_switches_free(struct agents *agents)
{
    struct switch_feed *feed = agents->switches;
    agents->switches = NULL;
    if (!feed)
        return;
    loop_remove(feed->source);
    switch_rings_close(feed->rings);
    free(feed);
}

static int feed_open(struct agents *agents, struct err *err)
{
    struct switch_feed *feed = calloc(1, sizeof *feed);
    if (!feed)
        return err_set(err, -ENOMEM, "out of memory");
    feed->agents = agents;
    agents->switches = feed;
    agent_clock_sample(CLOCK_MONOTONIC, &feed->ticks, &feed->ns);
    feed->ns_before = feed->ns - NS_PER_SECOND;
    feed->ticks_before = feed->ticks - agents->ticks_per_second;
    int code = switch_rings_open(&feed->rings, err);
    if (code == 0) {
        feed->source = loop_add_fd(agents->monitor->loop, switch_rings_fd(feed->rings), EPOLLIN, feed_readable, feed);
        code = feed->source ? 0 : err_set(err, -ENOMEM, "out of memory");
    }
    if (code < 0)
        agents_switches_free(agents);
    return code;
}

/* What its threads are in: if that changed since they are watched, a switch tells. */
static void note_threads(struct agent_switches *switches)
{
    pid_t *tids = NULL;
    size_t count = 0;
    if (proc_threads(switches->pid, &tids, &count) < 0)
        return;
    for (size_t i = 0; i < count; i++) {
        struct proc_stat stat;
        bool known = proc_stat_read(switches->pid, tids[i], &stat) == 0;
        switch_log_thread(&switches->log, (uint32_t)tids[i], known && (stat.state == 'S' || stat.state == 'D'));
    }
    free(tids);
}

static const char *not_wanted(const struct agent *agent)
{
    const struct trace_job *job = agent->job;
    if (job->settings.count_only)
        return "calls are only counted (--count-only)";
    if (job->settings.policy == AREA_FLIGHT)
        return "a flight recorder keeps the last records only (--overflow flight)";
    return job->limited ? "the trace reached its limit" : NULL;
}

void agent_switches_write(struct agent *agent, bool all)
{
    struct agent_switches *switches = agent->switches;
    if (!switches || !switches->watched)
        return;
    struct switch_feed *feed = agent->agents->switches;
    read_feed(feed);
    uint64_t since = switches->read_until - switches->until, whole = switches->read_until - switches->log.from;
    if (!switches->watched ||
        (!all && switch_log_threads(&switches->log) > THREADS_OFTEN && since < whole / SELDOM_PART))
        return;
    if (agent->job->limited) {
        switches_put(switches, true);
        switches_stop(switches, "the trace reached its limit");
    } else if (!switch_rings_whole(feed->rings)) {
        switches_stop(switches, "a processor was added to the machine");
    } else {
        int code = switches_put(switches, true);
        if (code < 0)
            switches_stop(switches, strerror(-code));
    }
}

/* The rings stay. */
static void watching_end(struct agent_switches *switches)
{
    struct agent *agent = switches->agent;
    agent_switches_write(agent, true);
    HASH_DEL(agent->agents->switches->by_pid, switches);
    agent->switches = NULL;
    switch_process_close(switches->watched);
    switch_log_done(&switches->log);
    free(switches);
}

void agent_switches_start(struct agent *agent)
{
    struct agents *agents = agent->agents;
    struct err err = {.text = ""};
    if (agent->ended || agent->switches || !agent->writer || !agent->job)
        return;
    const char *why = not_wanted(agent);
    struct agent_switches *switches = why ? NULL : calloc(1, sizeof *switches), *earlier;
    if (!switches) {
        trace_writer_set(agent->writer, "switches_missing", "%s", why ? why : "out of memory");
        return;
    }
    int code = agents->switches ? 0 : feed_open(agents, &err);
    if (code == 0)
        code = switch_process_open(&switches->watched, agents->switches->rings, agent->pid, &err);
    if (code < 0) {
        trace_writer_set(agent->writer, "switches_missing", "%s", err.text);
        if (code == -ESRCH)
            trace_writer_set(agent->writer, "switches_gone", "1");
        free(switches);
        return;
    }
    struct switch_feed *feed = agents->switches;
    switches->agent = agent;
    switches->pid = agent->pid;
    switches->until = switches->read_until = agent_clock_ticks();
    switch_log_init(&switches->log, switches->until);
    note_threads(switches);
    HASH_FIND(hh, feed->by_pid, &switches->pid, sizeof switches->pid, earlier);
    if (earlier) /* it executed this program */
        watching_end(earlier);
    HASH_ADD(hh, feed->by_pid, pid, sizeof switches->pid, switches);
    agent->switches = switches;
}

void agent_switches_end(struct agent *agent)
{
    struct agents *agents = agent->agents;
    if (!agent->switches)
        return;
    watching_end(agent->switches);
    if (!agents->switches->by_pid)
        agents_switches_free(agents);
}
