/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trace directory of a process, and what stands beside its packets: counts, what it cost, how it ended; the room on its
 * disk; and what a process leaves in its area when it ends.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/file.h"
#include "monitor/engine/monitor.h"
#include "monitor/engine/object.h"
#include "monitor/recorder/agent.h"
#include "monitor/recorder/collect.h"
#include "shm/record.h"

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
    agent_patching_tell(agent);
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

/* ---- what a process leaves when it ends ---- */

/*
 * What a process leaves when it ends. Calls that are open and of which there is no record: functions that are only
 * counted, and calls that wait to become long enough (--min-time). They lie beside the blocks of their threads
 * (shm/area.h), where a process that is killed leaves them; those too deep for that are not known. Read as the program
 * may scribble over it at any time.
 */

/* A thread's open calls at this moment, the outermost first. */
static uint32_t frames_of(const struct agent *agent, const struct area_thread *block, uint64_t now,
                          struct agent_frame ret_frames[AREA_FRAMES])
{
    struct agent_frame *shared = area_frames_of(block);
    if (atomic_load(&block->state) != AREA_THREAD_LIVE)
        return 0;
    uint32_t depth = block->stack_id ? atomic_load(&block->own_depth) : atomic_load(&block->depth), count = 0;
    depth = depth < AREA_FRAMES ? depth : AREA_FRAMES;
    memcpy(ret_frames, shared, depth * sizeof *shared);
    atomic_thread_fence(memory_order_acquire);
    while (count < depth && ret_frames[count].slot <= agent->view.slot_mask && ret_frames[count].time &&
           ret_frames[count].time <= now &&
           (agent->ended || memcmp(&ret_frames[count], &shared[count], sizeof *shared) == 0))
        count++;
    return count;
}

struct area_calls *agent_open_counted(const struct agent *agent, uint64_t now)
{
    const struct area_view *view = &agent->view;
    struct area_calls *open = calloc((size_t)view->slot_mask + 1, sizeof *open);
    struct agent_frame frames[AREA_FRAMES];
    uint32_t used = open ? collect_threads_used(view) : 0;
    for (uint32_t i = 0; i < used; i++) {
        uint32_t count = frames_of(agent, area_thread_at(view, i), now, frames);
        for (uint32_t k = 0; k < count; k++)
            if (frames[k].flags & FRAME_COUNT) {
                open[frames[k].slot].calls++;
                open[frames[k].slot].ticks += now - frames[k].time;
            }
    }
    return open;
}

struct area_calls *agent_counted(const struct agent *agent)
{
    const struct area_view *view = &agent->view;
    struct area_calls *sums = calloc((size_t)view->slot_mask + 1, sizeof *sums);
    if (sums)
        area_counts_sum(view, collect_threads_used(view), sums);
    return sums;
}

static void put_entry(struct buf *out, const struct agent_frame *frame, uint32_t word, uint64_t *time)
{
    uint64_t at = frame->time > *time ? frame->time : *time;
    if ((at - *time) >> RECORD_TIME_BITS) {
        buf_put_u32(out, RECORD_EXTENDED);
        buf_put_u32(out, RECORD_ENTRY);
        buf_put_u64(out, at);
    } else {
        buf_put_u32(out, (uint32_t)(at << 5) | RECORD_ENTRY);
    }
    buf_put_u32(out, word);
    *time = at;
}

size_t collect_waiting(struct agent *agent, const struct area_thread *block, uint64_t end, uint64_t last_time,
                       struct packet_head *ret_head, struct buf *out)
{
    struct agent_frame frames[AREA_FRAMES];
    uint64_t least = atomic_load(&agent->view.area->min_ticks), time = 0;
    uint32_t count = frames_of(agent, block, end, frames);
    size_t found = 0;
    *ret_head = (struct packet_head){.tid = block->tid, .thread_serial = block->serial};
    for (uint32_t i = 0; i < count; i++) {
        bool waits = (frames[i].flags & (FRAME_WAITING | FRAME_RECORDED)) == FRAME_WAITING;
        if (!waits || end - frames[i].time < least) {
            ret_head->depth += !found && frames[i].flags & FRAME_RECORDED;
            continue;
        }
        if (!found++)
            time = ret_head->time_begin = frames[i].time > last_time ? frames[i].time : last_time;
        const struct area_place *place =
            area_place_find(&agent->view, frames[i].callsite, frames[i].site, frames[i].slot);
        uint32_t word = place ? RECORD_PLACE | (uint32_t)(place - agent->view.places) : frames[i].slot;
        put_entry(out, &frames[i], word, &time);
        agent_know(agent, word);
    }
    ret_head->time_end = time;
    return found;
}

/* ---- packets that it left ---- */

/*
 * Of a process that was killed: packets that a thread had just filled and not given away yet, or that one had taken to
 * overwrite, and not wiped yet. They are written with the full ones, those of a thread in the order of their numbers:
 * time goes on in a stream, and the number is what counts the packets of a thread, from its first to its last, whatever
 * monitor there is. The order of the full ones, which is that of all threads together, is only put beside it.
 */
static const struct packet_head *head_at(const struct area_view *view, uint32_t index)
{
    return (const void *)(view->base + view->packets_at + (uint64_t)index * view->packet_size);
}

/* Whether a thread was writing it: that comes last, as far as it was written. */
static bool is_current(const struct area_view *view, uint32_t index, uint32_t used)
{
    for (uint32_t i = 0; i < used; i++) {
        const struct area_thread *block = area_thread_at(view, i);
        if (atomic_load(&block->state) != AREA_THREAD_FREE && atomic_load(&block->packet) == index)
            return true;
    }
    return false;
}

/* The newest of its thread comes behind all. Others share the order of the full one that came before them, where their
 * number decides: who overwrites takes the oldest that it sees, but older ones may have become full meanwhile. */
static uint64_t order_of(const struct agent *agent, const struct packet_head *head, uint64_t *last)
{
    uint64_t before = 0;
    bool newest = true;
    for (uint32_t i = 0, packets = agent_packets(agent); i < packets; i++) {
        uint64_t word = atomic_load(&agent->view.states[i]), state = word & 0xff;
        if (state != AREA_PACKET_FULL && state != AREA_PACKET_TAKEN)
            continue;
        const struct packet_head *other = head_at(&agent->view, i);
        if (other->thread_serial != head->thread_serial)
            continue;
        if (other->packet_seq > head->packet_seq)
            newest = false;
        else if (state == AREA_PACKET_FULL && word >> 8 > before)
            before = word >> 8;
    }
    return newest ? ++*last : before;
}

void collect_orphans(struct agent *agent, uint32_t used)
{
    const struct area_view *view = &agent->view;
    uint64_t last = atomic_load(&view->area->packet_order);
    for (uint32_t i = 0, packets = agent_packets(agent); i < packets; i++) {
        const struct packet_head *head = head_at(view, i);
        if ((atomic_load(&view->states[i]) & 0xff) == AREA_PACKET_TAKEN && head->magic == PACKET_MAGIC &&
            head->content_size / 8 > sizeof *head && !is_current(view, i, used))
            atomic_store(&view->states[i], order_of(agent, head, &last) << 8 | AREA_PACKET_FULL);
    }
}
