/* SPDX-License-Identifier: Apache-2.0 */
/* The trace directory of a process, and what stands beside its packets: counts, what it cost, how it ended. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/file.h"
#include "monitor/recorder/agent.h"
#include "monitor/recorder/collect.h"
#include "monitor/recorder/agent_select.h"
#include "monitor/recorder/agent_names.h"
#include "monitor/engine/monitor.h"
#include "monitor/engine/object.h"

enum {
    DISK_RESERVE_PERCENT = 5,
    LEAST_FREE = 512 << 10,    /* also where that is less, but of a disk that has it */
    NAMES_RESERVE = 256 << 10, /* in a file, */
    LITTLE_ROOM = 64 << 20,    /* where less is left than this */
    LITTLE_STEP = 1 << 20,
    CRASH_FRAMES = 64,
    BRIEF_BYTES = 32 << 10,
};

static const char *boot_id(void)
{
    static char id[64];
    FILE *file = *id ? NULL : fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file && fgets(id, sizeof id, file))
        id[strcspn(id, "\n")] = 0;
    if (file)
        fclose(file);
    return id;
}

int collect_open(struct agent *agent, struct err *err)
{
    struct agents *agents = agent->agents;
    agent_clock_calibrate(agents);
    const char *host = agents->monitor->node ? agents->monitor->node->name : "localhost";
    const struct trace_identity identity = {.node = host,
                                            .exe = agent->exe,
                                            .host = host,
                                            .boot_id = boot_id(),
                                            .pid = agent->pid,
                                            .ppid = agent->ppid,
                                            .start_ns = clock_wall_ns(),
                                            .ticks_per_second = agents->ticks_per_second,
                                            .tick_zero_ns = agent_clock_zero_ns(agents)};
    int code = agent_names_open(agent);
    if (code == 0 && !agent->recording->profile)
        code = profile_new(&agent->recording->profile, 0);
    if (code < 0)
        return err_set(err, code, "out of memory");
    struct area *area = agent->view.area;
    area->written_bytes = area->written_events = area->writing_bytes = area->writing_events = 0;
    agent->recording->opened_ns = clock_now_ns();
    if (agent->forked) /* often it ends soon: then all its files are written once */
        agent->recording->synced_ns = agent->recording->opened_ns;
    bool lazy = agent->forked || agent->adopted; /* that of an adopted one is first noted as begun */
    code = trace_writer_new(&agent->writer, agent->job->dir, &identity, lazy, err);
    for (size_t i = 0; i < agent->mapped->count && code == 0; i++)
        agent_module_write(agent, &agent->mapped->modules[i]);
    /* the monitor before this one may have been killed before it had written where the calls came from that it wrote */
    for (uint32_t i = 0; code == 0 && agent->adopted && i < agent->view.place_end; i++)
        if (atomic_load(&agent->view.places[i].hook))
            agent_know(agent, RECORD_PLACE | i);
    if (code == 0)
        agent_switches_start(agent);
    return code;
}

static void write_crash(struct agent *agent)
{
    struct trace_writer *writer = agent->writer;
    struct area_crash crash;
    if (!atomic_load_explicit(&agent->view.area->crash.valid, memory_order_acquire))
        return;
    memcpy(&crash, &agent->view.area->crash, sizeof crash);
    trace_writer_set(writer, "crash_signal", "%d", crash.signal);
    trace_writer_set(writer, "crash_code", "%d", crash.code);
    trace_writer_set(writer, "crash_tid", "%d", crash.tid);
    trace_writer_set(writer, "crash_address", "0x%" PRIx64, crash.address);
    trace_writer_set(writer, "crash_time", "%" PRIu64, crash.time);
    trace_writer_set(writer, "crash_pc", "0x%" PRIx64, crash.regs[16]);
    struct buf stack = BUF_INIT;
    for (uint32_t i = 0; i < crash.depth && i < CRASH_FRAMES; i++) {
        buf_puts(&stack, i ? " < " : "");
        if (!agent_name_address(agent, crash.stack[i], &stack))
            buf_printf(&stack, "0x%" PRIx64, crash.stack[i]);
    }
    trace_writer_set(writer, "crash_stack", "%s", stack.data ? stack.data : "");
    buf_done(&stack);
}

void agent_counts(const struct agent *agent, struct agent_counts *ret_counts)
{
    const struct agents *agents = agent->agents;
    uint64_t made = agent->recording->events + agent->recording->discarded + agent->recording->skipped;
    if (agent->view.area) /* what was overwritten had to be written first */
        made += atomic_load(&agent->view.area->flight_overwritten_records);
    uint64_t ticks = made * agents->event_ticks, unplaced = 0;
    if (agent->view.area)
        unplaced = atomic_load(&agent->view.area->unplaced);
    for (uint32_t i = 0; agent->view.area && i < agent->view.thread_count; i++) {
        const struct area_thread *thread = area_thread_at(&agent->view, i);
        if (atomic_load(&thread->state) == AREA_THREAD_FREE && !thread->serial)
            break; /* from here on never used: they have no memory, and shall not get any */
        ticks += atomic_load_explicit(&thread->values_ticks, memory_order_relaxed);
    }
    *ret_counts =
        (struct agent_counts){.events = agent->recording->events,
                              .discarded = agent->recording->discarded + unplaced,
                              .bytes = agent->writer ? trace_writer_bytes(agent->writer) : 0,
                              .cost_ns = (uint64_t)((unsigned __int128)ticks * NS_PER_SECOND /
                                                    (agents->ticks_per_second ? agents->ticks_per_second : 1))};
}

static void write_counts(struct agent *agent)
{
    struct trace_writer *writer = agent->writer;
    struct area *area = agent->view.area;
    struct agent_counts counts;
    agent_counts(agent, &counts);
    if (agent->mpi)
        agent->agents->mpi->describe(agent);
    trace_writer_set(writer, "events", "%" PRIu64, counts.events);
    if (agent->limited || (agent->job && agent->job->limited))
        trace_writer_set(writer, "limited", "1");
    trace_writer_set(writer, "discarded", "%" PRIu64, counts.discarded);
    trace_writer_set(writer, "bytes", "%" PRIu64, counts.bytes);
    trace_writer_set(writer, "cost_ns", "%" PRIu64, counts.cost_ns);
    trace_writer_set(writer, "functions_omitted", "%" PRIu64, atomic_load(&area->functions_omitted));
    trace_writer_set(writer, "threads_omitted", "%" PRIu64, atomic_load(&area->threads_omitted));
    trace_writer_set(writer, "waits_ran_out", "%" PRIu64, atomic_load(&area->waits_ran_out));
    trace_writer_set(writer, "waits_dropped", "%" PRIu64, atomic_load(&area->waits_dropped));
    trace_writer_set(writer, "too_deep", "%" PRIu64, atomic_load(&area->too_deep));
    trace_writer_set(writer, "overwritten", "%" PRIu64,
                     atomic_load(&area->flight_overwritten_records) + agent->recording->skipped);
    trace_writer_set(writer, "flight_overwritten", "%" PRIu64, atomic_load(&area->flight_overwritten));
    if (agent->selection->longest_min_ns)
        trace_writer_set(writer, "min_time", "%" PRIu64, agent->selection->longest_min_ns);
    if (agent->selection->least_min_ns < agent->selection->longest_min_ns)
        trace_writer_set(writer, "min_time_least", "%" PRIu64, agent->selection->least_min_ns);
    if (agent->selection->least_max_depth)
        trace_writer_set(writer, "max_depth", "%u", agent->selection->least_max_depth);
    char fault[sizeof area->fault + 1];
    memcpy(fault, area->fault, sizeof area->fault);
    fault[sizeof area->fault] = 0;
    if (atomic_load(&area->agent_state) == AREA_OFF)
        agent_set_problem(agent, NOTE(agent_off, .pid = (uint64_t)agent->pid, .reason = fault));
    else if (*fault)
        agent_set_problem(agent,
                          NOTE(agent_fault, .pid = (uint64_t)agent->pid, .program = agent->exe, .reason = fault));
    if (agent->problem.note.kind)
        trace_writer_problem(writer, &agent->problem.note);
}

/* It says itself when it exits, executes another program or crashes; else it was killed just before that was seen. */
uint64_t agent_until(const struct agent *agent)
{
    const struct area *area = agent->view.area;
    uint64_t until = agent->ended ? agent->ended_ticks : agent_clock_ticks(), said = 0;
    if (agent->ended && area)
        said = atomic_load(&area->crash.valid) ? area->crash.time : atomic_load(&area->left);
    return said && (said < until || !until) ? said : until;
}

void collect_until(struct agent *agent)
{
    uint64_t until = agent_until(agent);
    if (until)
        trace_writer_set(agent->writer, "until", "%" PRIu64, until);
}

/* Functions that are only counted: there is no record of them. And those of which some calls were left out. */
static void write_calls(struct agent *agent)
{
    const struct area_view *view = &agent->view;
    struct buf lines = BUF_INIT;
    uint64_t counted = 0, all_thinned = 0;
    _cleanup_(freep) struct area_calls *now =
        agent->selection->counts && !agent->ended ? agent_open_counted(agent, agent_clock_ticks()) : NULL;
    const struct area_calls *open = agent->ended ? agent->recording->open_counted : now;
    _cleanup_(freep) struct area_calls *sums = agent_counted(agent);
    if (!sums)
        return;
    for (uint32_t slot = 0; slot <= view->slot_mask; slot++) {
        uint64_t calls = sums[slot].calls;
        uint64_t thinned = sums[slot].thinned;
        if (!calls && !thinned)
            continue;
        bool counts = atomic_load_explicit(&view->slots[slot].mode, memory_order_relaxed) & AREA_COUNT;
        uint64_t ticks = sums[slot].ticks;
        uint64_t unkept = counts || ticks ? 0 : calls;
        counted += calls - unkept;
        all_thinned += thinned;
        agent_know(agent, slot);
        buf_printf(&lines, "%" PRIu32 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "%s\n", slot,
                   calls - unkept, ticks + (open ? open[slot].ticks : 0), thinned, open ? open[slot].calls : 0, unkept,
                   sums[slot].at_least ? "\t1" : "");
    }
    if (lines.len && trace_writer_counts(agent->writer, &lines) == 0) {
        trace_writer_set(agent->writer, "counted", "%" PRIu64, counted);
        trace_writer_set(agent->writer, "thinned", "%" PRIu64, all_thinned);
        if (!agent->selection->rated) /* nobody asked for that */
            trace_writer_set(agent->writer, "tallied", "%" PRIu64, all_thinned);
    }
    buf_done(&lines);
}

bool collect_was_brief(const struct agent *agent)
{
    const struct agent_recording *recording = agent->recording;
    return agent->writer && !recording->discarded && agent->ended_ns - recording->opened_ns < AREA_BRIEF_NS &&
           trace_writer_bytes(agent->writer) < BRIEF_BYTES;
}

/* ---- the room on the disk ---- */

/* What the files beside the packets may still need, twice: the new ones are there before the old ones go. */
static uint64_t bytes_of_names(const struct agents *agents, const struct trace_job *job)
{
    uint64_t bytes = 0;
    for (const struct agent *agent = agents->list; agent; agent = agent->next)
        if (agent->job == job && agent->writer)
            bytes += trace_writer_names(agent->writer);
    return bytes;
}

/* Where there is not much room, others may take it all between two looks: some of it is taken for the names now. */
static void keep_reserve(struct trace_job *job, uint64_t size)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/.reserve", job->dir) >= (int)sizeof path)
        return;
    int fd = file_open_own(AT_FDCWD, path, O_WRONLY | O_CREAT | O_EXCL);
    if (fd < 0)
        return;
    unlink(path);
    if (posix_fallocate(fd, 0, (off_t)(size < NAMES_RESERVE ? size : NAMES_RESERVE)) == 0)
        job->disk.reserve = fd;
    else
        close(fd);
}

void collect_release_reserve(struct trace_job *job)
{
    if (job->disk.reserve >= 0)
        close(job->disk.reserve);
    job->disk.reserve = -1;
}

/* What is kept free is for others, for names, and for how it ended; half of it may go to the last records. */
static void disk_check(const struct agents *agents, struct trace_job *job)
{
    struct job_disk *disk = &job->disk;
    struct statvfs fs;
    disk->looked_ns = clock_now_ns();
    disk->looked_bytes = job->written;
    disk->step = disk->last = UINT64_MAX;
    disk->roomy = false;
    if (statvfs(job->dir, &fs) < 0 || fs.f_blocks == 0)
        return;
    uint64_t size = (uint64_t)fs.f_blocks * fs.f_frsize;
    if (disk->reserve < 0 && !job->limited && fs.f_bavail < LITTLE_ROOM / fs.f_frsize) {
        keep_reserve(job, size / 8);
        if (statvfs(job->dir, &fs) < 0)
            return;
    }
    uint64_t free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
    uint64_t names = bytes_of_names(agents, job), kept = size / 100 * DISK_RESERVE_PERCENT;
    if (kept < LEAST_FREE + names)
        kept = LEAST_FREE + names < size / 4 ? LEAST_FREE + names : size / 4;
    uint64_t left = free_bytes > kept ? free_bytes - kept : 0, kept_last = names > kept / 2 ? names : kept / 2;
    disk->step = left > LITTLE_STEP ? left / 4 : left;
    disk->last = free_bytes > kept_last ? free_bytes - kept_last : 0;
    disk->roomy = left > kept / 2; /* else it would be full again at once */
}

uint64_t collect_disk_left(struct agents *agents, struct trace_job *job)
{
    struct job_disk *disk = &job->disk;
    uint64_t written = job->written - disk->looked_bytes;
    if (!disk->looked_ns || (!job->limited && written >= disk->step) ||
        clock_now_ns() - disk->looked_ns >= NS_PER_SECOND) {
        disk_check(agents, job);
        written = 0;
    }
    collect_unlimit(agents, job);
    if (disk->step == 0 && !job->limited) {
        collect_limit(agents, job, NOTE(trace_disk_full, .nearly = true));
        disk_check(agents, job);
    }
    uint64_t most = job->limited ? disk->last : disk->step;
    return most > written ? most - written : 0;
}

void collect_finish(struct agent *agent, bool all)
{
    uint64_t now = clock_now_ns();
    if (!agent->writer || !agent->view.area || (!all && now - agent->recording->synced_ns < NS_PER_SECOND))
        return;
    agent->recording->synced_ns = now;
    write_counts(agent);
    agent_switches_write(agent, all);
    if (agent->selection->counts || agent->selection->rated || agent->recording->skipped ||
        atomic_load(&agent->view.area->flight_overwritten) || atomic_load(&agent->view.area->tallies))
        write_calls(agent);
    write_crash(agent);
    if (agent->job)
        collect_disk_left(agent->agents, agent->job);
    if (all && agent->job && trace_writer_failed(agent->writer))
        collect_release_reserve(agent->job);
    int code = trace_writer_sync(agent->writer, all);
    if ((code == -ENOSPC || code == -EDQUOT) && agent->job && agent->job->disk.reserve >= 0) {
        collect_release_reserve(agent->job);
        code = trace_writer_sync(agent->writer, all);
    }
    if (code < 0 && !trace_writer_failed(agent->writer))
        agent_set_problem(agent, NOTE(names_unwritten, .pid = (uint64_t)agent->pid, .reason = strerror(-code)));
}

void collect_close(struct agent *agent, const char *state)
{
    struct agents *agents = agent->agents;
    if (!agent->writer)
        return;
    if (clock_now_ns() - agent->recording->opened_ns >= NS_PER_SECOND) { /* else what it has is as good */
        agent_clock_calibrate(agents);
        trace_writer_clock(agent->writer, agents->ticks_per_second, agent_clock_zero_ns(agents));
    }
    trace_writer_set(agent->writer, "end", "%" PRIu64, clock_wall_ns());
    collect_until(agent);
    bool crashed = agent->view.area && atomic_load(&agent->view.area->crash.valid);
    trace_writer_set(agent->writer, "state", "%s", crashed && strcmp(state, "exited") == 0 ? "crashed" : state);
    agent_switches_end(agent);
    collect_finish(agent, true);
    if (agent->job) {
        agent->job->events += agent->recording->events;
        agent->job->discarded += agent->recording->discarded;
    }
    trace_writer_free(agent->writer);
    agent->writer = NULL;
}
