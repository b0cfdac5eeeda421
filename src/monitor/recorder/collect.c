/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets from the areas to the disk. Full ones in the order in which they were filled, on the doorbell and on a timer;
 * those of slow threads, as far as they are written, every second or when somebody asks. A turn is bounded so that
 * requests are answered meanwhile. What is read from an area is copied first and then looked at: the program may
 * scribble there at any time.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/log.h"
#include "base/system/own_memory.h"
#include "base/system/pause.h"
#include "monitor/engine/monitor.h"
#include "monitor/recorder/agent.h"
#include "monitor/recorder/collect.h"
#include "shm/waits.h"

struct ordered {
    uint64_t order, seq;
    uint32_t index;
};

struct scratch {
    uint8_t packet[AREA_PACKET_SIZE];
    struct walk_room *room;
    struct ordered *full;
    size_t full_cap;
};

int collect_new(struct agents *agents)
{
    struct scratch *scratch = calloc(1, sizeof *scratch);
    if (scratch)
        scratch->room = walk_room_new();
    agents->scratch = scratch;
    return scratch && scratch->room ? 0 : -ENOMEM;
}

void collect_free(struct agents *agents)
{
    struct scratch *scratch = agents->scratch;
    if (!scratch)
        return;
    walk_room_free(scratch->room);
    free(scratch->full);
    free(scratch);
    agents->scratch = NULL;
}

bool collect_recording_new(struct agent *agent)
{
    return (agent->recording = calloc(1, sizeof *agent->recording)) != NULL;
}

/* ---- packets that do not come to the disk: overwritten by the flight recorder, or left out at a limit ---- */

/* Whether packets were overwritten before this one, by its number; how many records they had is known of all threads
 * together, and shared out by packets. */
static void note_missing(struct agent *agent, struct collect_thread *thread, const struct packet_head *head)
{
    const struct area *area = agent->view.area;
    uint64_t packets = 0;
    if (thread->partial && head->packet_seq > thread->partial_seq)
        packets = head->packet_seq - thread->partial_seq - thread->whole;
    else if (!thread->partial && !thread->written_to)
        packets = head->packet_seq;
    if (!packets)
        return;
    uint64_t all = atomic_load(&area->flight_overwritten) - agent->recording->overwritten_seen;
    uint64_t events = atomic_load(&area->flight_overwritten_records) - agent->recording->overwritten_events_seen;
    if (!all)
        return; /* the rest of a piece was empty */
    uint64_t part = packets < all ? (uint64_t)((unsigned __int128)events * packets / all) : events;
    agent->recording->overwritten_seen += packets < all ? packets : all;
    agent->recording->overwritten_events_seen += part;
    thread->missing_packets += packets;
    thread->missing_events += part;
}

/* A packet that is not written, and nothing of it later. */
static void note_skipped(struct agent *agent, struct collect_thread *thread, uint64_t events)
{
    agent->view.area->skipped_events = agent->recording->skipped += events;
    thread->missing_packets++;
    thread->missing_events += events;
}

/* Before the packet with this head: what is missing there. */
static int put_missing(struct agent *agent, struct collect_thread *thread, const struct packet_head *head)
{
    if (!thread->missing_packets)
        return 0;
    uint64_t before = trace_writer_bytes(agent->writer);
    int code =
        trace_writer_missing(agent->writer, thread->stream, head, thread->missing_packets, thread->missing_events);
    if (agent->job)
        agent->job->written += trace_writer_bytes(agent->writer) - before;
    if (code == 0)
        thread->missing_packets = thread->missing_events = 0;
    return code;
}

/* ---- one packet ---- */

struct collect_thread *collect_written(struct agent *agent, uint32_t serial, uint32_t tid, uint64_t to)
{
    struct collect_thread *thread;
    HASH_FIND(hh, agent->recording->threads, &serial, sizeof serial, thread);
    if (!thread) {
        thread = calloc(1, sizeof *thread);
        if (!thread)
            return NULL;
        thread->serial = serial;
        thread->tid = tid;
        HASH_ADD(hh, agent->recording->threads, serial, sizeof thread->serial, thread);
    }
    if (thread->written_to < to)
        thread->written_to = to;
    return thread;
}

static struct collect_thread *thread_get(struct agent *agent, const struct packet_head *head)
{
    struct collect_thread *thread = collect_written(agent, head->thread_serial, head->tid, 0);
    if (!thread)
        return NULL;
    if (!thread->has_stream && trace_writer_stream_new(agent->writer, head->time_begin, &thread->stream) == 0)
        thread->has_stream = true;
    return thread->has_stream ? thread : NULL;
}

static uint64_t job_bytes(const struct trace_job *job)
{
    return job->bytes_before + job->written;
}

/* From here on the last records are kept in memory, as far as the buffer goes, and written when somebody asks. They are
 * not to cost as if each were kept. */
static void keep_last(struct agent *agent)
{
    if (agent->ended || !agent->view.area)
        return;
    atomic_store(&agent->view.area->policy, AREA_FLIGHT);
    if (!atomic_load(&agent->view.area->thin))
        atomic_store(&agent->view.area->thin, AREA_THIN_TALLY);
}

void collect_limit(struct agents *agents, struct trace_job *job, struct note why)
{
    if (job->limited)
        return;
    job->limited = true;
    job->disk.looked_ns = 0; /* how much the last records may take is to be seen */
    job->disk.full = why.kind == NOTE_trace_disk_full;
    if (job->disk.full) { /* where the room does not last, as at a quota, it is tried less and less often */
        uint64_t rest_ns = waits_again_ns(++job->disk.rests, SPOOL_ROOM_NS, AGAIN_SELDOM_NS);
        job->disk.rest_until_ns = clock_now_ns() + time_hasten(rest_ns);
    }
    if (job->problem.note.kind == NOTE_trace_disk_was_full)
        job->problem.note.kind = NOTE_NONE;
    job_set_problem(job, why);
    for (struct agent *agent = agents->list; agent; agent = agent->next) {
        if (agent->job != job)
            continue;
        if (agent->writer)
            trace_writer_problem(agent->writer, &why);
        keep_last(agent);
    }
}

/* Below the limit of a job (--max-size) a quarter is kept for the last records, which are written at the end. */
static uint64_t bytes_before_limit(const struct trace_job *job)
{
    if (!job->settings.max_bytes)
        return UINT64_MAX;
    uint64_t most = job->settings.max_bytes - job->settings.max_bytes / 4, so_far = job_bytes(job);
    return so_far < most ? most - so_far : 0;
}

/* The agent can write again. What it says of the time before is true no more. */
static void go_on(struct agent *agent)
{
    struct trace_writer *writer = agent->writer;
    agent->limited = false;
    trace_writer_set(writer, "limited", "1"); /* it was */
    trace_writer_problem_over(writer, &NOTE(trace_disk_full));
    trace_writer_problem_over(writer, &NOTE(trace_disk_full, .nearly = true));
    if (agent->problem.note.kind == NOTE_trace_unwritten) {
        trace_writer_problem_over(writer, &agent->problem.note);
        agent->problem.note.kind = NOTE_NONE;
    }
    trace_writer_problem(writer, &NOTE(trace_disk_was_full));
}

/* What the buffers have kept is written, and what comes; what is between is a gap. Only the switches to and from
 * processors stay off, since they are whole up to one time. */
void collect_unlimit(struct agents *agents, struct trace_job *job)
{
    enum note_kind said = job->problem.note.kind;
    if (!job->disk.full || !job->disk.roomy || clock_now_ns() < job->disk.rest_until_ns || !bytes_before_limit(job))
        return;
    job->limited = job->disk.full = false;
    if (said == NOTE_trace_disk_full || said == NOTE_trace_unwritten)
        note_keep(&job->problem, &NOTE(trace_disk_was_full));
    for (struct agent *agent = agents->list; agent; agent = agent->next) {
        if (agent->job != job)
            continue;
        if (agent->writer && trace_writer_again(agent->writer))
            go_on(agent);
        if (!agent->ended && agent->view.area)
            agent->selection->applies_soon = true; /* the switches of its area as they are set */
    }
    collect_soon(agents);
}

/* What the program goes on to do is not written, but it is counted: as overwritten. */
static void write_failed(struct agent *agent, int code)
{
    struct note why = NOTE(trace_unwritten, .pid = (uint64_t)agent->pid, .reason = strerror(-code));
    log_warning("%s cannot be written: %s", trace_writer_path(agent->writer), strerror(-code));
    trace_writer_problem(agent->writer, &why);
    agent_set_problem(agent, why);
    agent->limited = true;
    keep_last(agent);
    if (agent->job && (code == -ENOSPC || code == -EDQUOT))
        collect_limit(agent->agents, agent->job, NOTE(trace_disk_full));
}

/* Whether there is no room for it below the limit. What was not written counts as overwritten. */
static bool is_too_much(const struct agent *agent, size_t size)
{
    const struct trace_job *job = agent->job;
    if (!job || !job->limited)
        return false;
    uint64_t so_far = job_bytes(job), more = sizeof(struct packet_head) + size;
    return (job->settings.max_bytes && so_far + more > job->settings.max_bytes) ||
           job->written - job->disk.looked_bytes + more > job->disk.last;
}

static int put_packet(struct agent *agent, struct collect_thread *thread, const struct packet_head *head,
                      const void *records, size_t size, uint64_t lost)
{
    uint64_t before = trace_writer_bytes(agent->writer);
    int code = trace_writer_packet(agent->writer, thread->stream, head, records, size, lost);
    if (agent->job)
        agent->job->written += trace_writer_bytes(agent->writer) - before;
    if (code < 0 && code != -EPIPE)
        write_failed(agent, code);
    return code;
}

/* Writes what is new of a packet: a copy, `size` bytes of records. */
static void write_packet(struct agent *agent, const struct packet_head *head, uint64_t latest, uint8_t *records,
                         size_t size, uint64_t discarded, bool full)
{
    struct scratch *scratch = agent->agents->scratch;
    struct collect_thread *thread = thread_get(agent, head);
    if (!thread)
        return;
    size_t from = 0;
    note_missing(agent, thread, head);
    if (thread->partial && thread->partial_seq == head->packet_seq)
        from = thread->partial_to < size ? thread->partial_to : size;
    else if (thread->written_to) /* what the monitor before this one has written of it */
        from = walk_until(head, latest, records, size, thread->written_to);
    if (agent_layouts_unseen(agent))
        walk_layouts(head, latest, records, size, agent_layout_seen, agent);
    struct walk walk;
    walk_packet(head, latest, records, size, from, from ? scratch->room : NULL, agent->recording->profile, &agent->view,
                agent_known(agent), agent_name, agent, &walk);
    agent_layouts_walked(agent);
    thread->partial = true;
    thread->whole = full;
    thread->partial_seq = head->packet_seq;
    thread->partial_to = walk.end;
    if (walk.damaged && !agent->recording->damaged++)
        trace_writer_problem(agent->writer, &NOTE(area_damaged));
    uint64_t lost = discarded > thread->discarded ? discarded - thread->discarded : 0;
    if (walk.size == 0 && lost == 0)
        return;
    if (walk.size == 0)
        walk.head.time_begin = walk.head.time_end = thread->last_time ? thread->last_time : head->time_begin;
    struct area *area = agent->view.area;
    if (is_too_much(agent, walk.size + (thread->missing_packets ? 2 * sizeof *head : 0))) {
        walk_unkept(head, latest, records, walk.end, from, &agent->view);
        note_skipped(agent, thread, walk.events);
        return;
    }
    int code = put_missing(agent, thread, &walk.head);
    if (code < 0 && code != -EPIPE)
        write_failed(agent, code);
    area->writing_events = area->written_events + walk.events;
    atomic_signal_fence(memory_order_seq_cst);
    area->writing_bytes = trace_writer_bytes(agent->writer) + sizeof walk.head + walk.size;
    if (code < 0 || put_packet(agent, thread, &walk.head, walk.records, walk.size, lost) < 0) {
        note_skipped(agent, thread, walk.events);
        agent->recording->discarded += lost;
        thread->discarded += lost;
        return;
    }
    area->written_events = area->writing_events;
    atomic_signal_fence(memory_order_seq_cst);
    area->written_bytes = trace_writer_bytes(agent->writer);
    thread->discarded += lost;
    thread->last_time = walk.head.time_end;
    agent->recording->events += walk.events;
    agent->recording->discarded += lost;
}

static bool take_head(const struct agent *agent, const uint8_t *packet, struct packet_head *ret_head)
{
    memcpy(ret_head, packet, sizeof *ret_head);
    return ret_head->magic == PACKET_MAGIC && agent->writer;
}

/* Nothing of it is to be read again. */
static void packet_free(struct agent *agent, uint32_t index)
{
    const struct area_view *view = &agent->view;
    struct packet_head *head = (void *)(view->base + view->packets_at + (uint64_t)index * view->packet_size);
    head->content_size = 0;
    atomic_store_explicit(&view->states[index], AREA_PACKET_FREE, memory_order_release);
}

/* ---- full packets ---- */

static int by_order(const void *a, const void *b)
{
    const struct ordered *one = a, *other = b;
    if (one->order != other->order)
        return one->order < other->order ? -1 : 1;
    return one->seq < other->seq ? -1 : one->seq > other->seq;
}

/* Those that were full when it began, while the process lives: of a thread that fills one more in the middle of this
 * look the packet before that one may have been passed already. Orphans (collect_trace.c) have no order of their own:
 * that of the packets of a thread is by number. */
static size_t find_full(struct agent *agent)
{
    struct scratch *scratch = agent->agents->scratch;
    const struct area_view *view = &agent->view;
    uint64_t end = agent->ended ? UINT64_MAX : atomic_load(&view->area->packet_order);
    size_t count = 0;
    for (uint32_t i = 0, packets = agent_packets(agent); i < packets; i++) {
        uint64_t word = atomic_load_explicit(&view->states[i], memory_order_acquire);
        if ((word & 0xff) != AREA_PACKET_FULL || (word >> 8 && word >> 8 >= end))
            continue;
        const struct packet_head *head =
            (const void *)(view->base + view->packets_at + (uint64_t)i * view->packet_size);
        if (count == scratch->full_cap) {
            size_t cap = scratch->full_cap ? 2 * scratch->full_cap : 256;
            struct ordered *full = realloc(scratch->full, cap * sizeof *full);
            if (!full)
                break; /* the rest in the next turn */
            scratch->full = full;
            scratch->full_cap = cap;
        }
        scratch->full[count++] = (struct ordered){word, agent->ended ? head->packet_seq : 0, i};
    }
    if (count > 1)
        qsort(scratch->full, count, sizeof *scratch->full, by_order);
    return count;
}

/* It was to be overwritten when what its thread did later was written on demand, and was not wiped any more. */
static bool is_late(const struct agent *agent, const struct collect_thread *thread, const struct packet_head *head)
{
    return agent->ended && thread && thread->partial && head->packet_seq < thread->partial_seq;
}

/* A packet that is not written after all: what is in it counts as overwritten. */
static void skip_packet(struct agent *agent, struct collect_thread *thread, const struct packet_head *head,
                        uint8_t *records, size_t size)
{
    struct scratch *scratch = agent->agents->scratch;
    uint64_t now = agent_clock_ticks();
    size_t from = 0;
    struct walk walk;
    if (is_late(agent, thread, head)) {
        uint64_t calls = walk_calls(head, now, records, size);
        note_skipped(agent, thread, calls > head->stream ? calls - head->stream : 0);
        return;
    }
    if (thread)
        note_missing(agent, thread, head);
    if (thread && thread->partial && thread->partial_seq == head->packet_seq)
        from = thread->partial_to;
    else if (thread && thread->written_to)
        from = walk_until(head, now, records, size, thread->written_to);
    walk_packet(head, now, records, size, from, from ? scratch->room : NULL, NULL, &agent->view, agent_known(agent),
                agent_name, agent, &walk);
    walk_unkept(head, now, records, walk.end, from, &agent->view);
    if (!thread)
        return;
    note_skipped(agent, thread, walk.events);
    thread->partial = thread->whole = true;
    thread->partial_seq = head->packet_seq;
    thread->partial_to = walk.end;
}

static void collect_one(struct agent *agent, const struct ordered *full, bool skip)
{
    struct scratch *scratch = agent->agents->scratch;
    const struct area_view *view = &agent->view;
    uint64_t word = full->order;
    if (!atomic_compare_exchange_strong(&view->states[full->index], &word, (word & ~UINT64_C(0xff)) | AREA_PACKET_READ))
        return; /* the flight recorder was faster */
    struct packet_head head;
    memcpy(scratch->packet, view->base + view->packets_at + (uint64_t)full->index * view->packet_size,
           view->packet_size);
    uint64_t bytes = take_head(agent, scratch->packet, &head) ? head.content_size / 8 : 0;
    if (bytes >= sizeof head && bytes <= view->packet_size) {
        uint64_t now = agent_clock_ticks(), latest = head.time_end >= head.time_begin ? head.time_end : now;
        uint8_t *records = scratch->packet + sizeof head;
        size_t size = bytes - sizeof head;
        struct collect_thread *thread = collect_written(agent, head.thread_serial, head.tid, 0);
        if (skip || is_late(agent, thread, &head))
            skip_packet(agent, thread, &head, records, size);
        else
            write_packet(agent, &head, latest < now ? latest : now, records, size, head.events_discarded, true);
    }
    /* only now: should this monitor be killed before it was written, the next one writes it */
    packet_free(agent, full->index);
}

/* How many packets of an agent may still be written: before the limit or the next look at the disk, or, when that was
 * reached, its part of what is left. */
static size_t packets_left(const struct agent *agent)
{
    struct trace_job *job = agent->job;
    uint64_t size = agent->view.packet_size;
    if (!job)
        return SIZE_MAX;
    uint64_t room = collect_disk_left(agent->agents, job);
    if (!job->limited) {
        uint64_t before = bytes_before_limit(job), least = before < room ? before : room;
        return least / size + 1;
    }
    uint64_t left = UINT64_MAX, so_far = job_bytes(job);
    if (job->settings.max_bytes)
        left = so_far < job->settings.max_bytes ? job->settings.max_bytes - so_far : 0;
    uint64_t part = (left < room ? left : room) / (job->agents + 1);
    uint64_t threads =
        (uint64_t)HASH_COUNT(agent->recording->threads) + 1; /* each has a packet that is not full, too */
    return part / size > threads ? part / size - threads : 0;
}

static uint64_t collect_full(struct agent *agent, uint64_t budget)
{
    struct scratch *scratch = agent->agents->scratch;
    struct area *area = agent->view.area;
    size_t count = find_full(agent), most = budget / agent->view.packet_size + 1, done = 0, left = packets_left(agent);
    bool limited = agent->job && agent->job->limited;
    for (; limited && left < count - done; done++) /* the last ones are worth most */
        collect_one(agent, &scratch->full[done], true);
    most = left < most ? left : most;
    most = most > SIZE_MAX - done ? SIZE_MAX : most + done;
    /* oldest first; taken away from this end, so the program's threads find room while we write */
    for (; done < count && done < most; done++)
        collect_one(agent, &scratch->full[done], false);
    agent->recording->more = done < count;
    if (done) {
        atomic_fetch_add(&area->freed, 1);
        if (atomic_load(&area->policy) == AREA_WAIT)
            area_wake(&area->freed);
    }
    return (uint64_t)done * agent->view.packet_size;
}

/* ---- packets that are being written ---- */

/* Whether a full packet of that thread waits: it has to come first. */
static bool has_full(const struct agent *agent, uint32_t serial)
{
    const struct area_view *view = &agent->view;
    for (uint32_t i = 0, packets = agent_packets(agent); i < packets; i++) {
        struct packet_head head;
        if ((atomic_load_explicit(&view->states[i], memory_order_acquire) & 0xff) != AREA_PACKET_FULL)
            continue;
        memcpy(&head, view->base + view->packets_at + (uint64_t)i * view->packet_size, sizeof head);
        if (head.thread_serial == serial)
            return true;
    }
    return false;
}

/* Notes in the packet how much of it is about to be written, so that it is not counted as lost should the flight
 * recorder overwrite it later. false: the thread has gone on to another packet meanwhile. */
static bool claim_piece(struct agent *agent, const struct area_thread *block, uint32_t index,
                        const struct packet_head *head, size_t size)
{
    struct scratch *scratch = agent->agents->scratch;
    const struct area_view *view = &agent->view;
    struct packet_head *shared = (void *)(view->base + view->packets_at + (uint64_t)index * view->packet_size);
    uint64_t before = shared->stream;
    shared->stream = walk_calls(head, agent_clock_ticks(), scratch->packet + sizeof *head, size);
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load(&block->packet) == index && (atomic_load(&view->states[index]) & 0xff) == AREA_PACKET_TAKEN &&
        *(volatile uint64_t *)&shared->packet_seq == head->packet_seq)
        return true;
    shared->stream = before;
    return false;
}

static void collect_partial(struct agent *agent, struct area_thread *block)
{
    struct scratch *scratch = agent->agents->scratch;
    const struct area_view *view = &agent->view;
    uint32_t index = atomic_load_explicit(&block->packet, memory_order_acquire);
    uint64_t cursor = atomic_load_explicit(&block->cursor, memory_order_acquire);
    uint64_t pending = atomic_load_explicit(&block->pending, memory_order_acquire);
    if (index >= agent_packets(agent))
        return;
    uint64_t at = view->packets_at + (uint64_t)index * view->packet_size;
    /* a hook is under way: its record may not be whole */
    if (pending > 1 && pending >= at && pending < cursor)
        cursor = pending;
    if ((atomic_load(&view->states[index]) & 0xff) != AREA_PACKET_TAKEN || cursor < at + sizeof(struct packet_head) ||
        cursor > at + view->packet_size)
        return;
    struct packet_head head;
    memcpy(scratch->packet, view->base + at, cursor - at);
    if (!take_head(agent, scratch->packet, &head))
        return;
    atomic_thread_fence(memory_order_acquire);
    if (atomic_load(&block->packet) != index || (atomic_load(&view->states[index]) & 0xff) != AREA_PACKET_TAKEN ||
        ((const struct packet_head *)(const void *)(view->base + at))->packet_seq != head.packet_seq ||
        has_full(agent, head.thread_serial))
        return; /* it went on: the packet comes as a whole */
    struct collect_thread *thread = thread_get(agent, &head);
    if (!thread)
        return;
    uint64_t discarded = atomic_load(&block->discarded);
    if (thread->partial && thread->partial_seq == head.packet_seq && thread->partial_to + sizeof head >= cursor - at &&
        discarded <= thread->discarded)
        return; /* nothing new */
    if (!claim_piece(agent, block, index, &head, cursor - at - sizeof head))
        return;
    write_packet(agent, &head, agent_clock_ticks(), scratch->packet + sizeof head, cursor - at - sizeof head, discarded,
                 false);
    block->written_to = thread->last_time;
    block->written_discarded = thread->discarded;
}

/* What it had begun and not recorded yet, because it was not long enough (--min-time), it was in when it ended. */
static void put_waiting(struct agent *agent, const struct area_thread *block)
{
    _cleanup_(buf_done) struct buf records = BUF_INIT;
    struct packet_head head;
    struct collect_thread *thread = collect_written(agent, block->serial, block->tid, 0);
    size_t calls = thread ? collect_waiting(agent, block, agent_until(agent), thread->last_time, &head, &records) : 0;
    if (!calls || records.failed || is_too_much(agent, records.len) || !thread_get(agent, &head) ||
        put_packet(agent, thread, &head, records.data, records.len, 0) < 0)
        return;
    thread->last_time = head.time_end;
    agent->recording->events += calls;
}

static void end_thread(struct agent *agent, struct area_thread *block)
{
    struct collect_thread *thread;
    uint32_t serial = block->serial;
    uint64_t discarded = atomic_load(&block->discarded);
    HASH_FIND(hh, agent->recording->threads, &serial, sizeof serial, thread);
    /* it never had a packet that was written here: all it did is missing */
    if (discarded > (thread ? thread->discarded : 0) && (!thread || !thread->has_stream)) {
        struct packet_head head = {.time_begin = agent_clock_ticks(), .tid = block->tid, .thread_serial = serial};
        thread = thread_get(agent, &head);
        if (thread)
            thread->last_time = head.time_begin;
    }
    if (!thread)
        return;
    int code;
    bool missing = thread->missing_packets && !is_too_much(agent, sizeof(struct packet_head));
    uint64_t lost = discarded > thread->discarded ? discarded - thread->discarded : 0;
    if ((lost || missing) && thread->has_stream) { /* after its last record */
        struct packet_head head = {.time_begin = thread->last_time,
                                   .time_end = thread->last_time,
                                   .tid = thread->tid,
                                   .thread_serial = serial};
        if (missing && (code = put_missing(agent, thread, &head)) < 0 && code != -EPIPE)
            write_failed(agent, code);
        if (lost)
            put_packet(agent, thread, &head, NULL, 0, lost);
        agent->recording->discarded += lost;
    }
    bool lived = agent->ended && atomic_load(&block->state) == AREA_THREAD_LIVE; /* as long as the process */
    if (agent->recording->profile && !lived)
        profile_thread_ended(agent->recording->profile, serial, thread->last_time);
    if (thread->has_stream && !lived) /* where another thread follows in a file, the calls of the one before are over */
        trace_writer_stream_end(agent->writer, thread->stream);
    HASH_DELETE(hh, agent->recording->threads, thread);
    free(thread);
}

/* Blocks are used from the first on: one that never was ends the look, so that the others get no memory. */
uint32_t collect_threads_used(const struct area_view *view)
{
    uint32_t used = 0;
    while (used < view->thread_count) {
        const struct area_thread *block = area_thread_at(view, used);
        if (atomic_load_explicit(&block->state, memory_order_acquire) == AREA_THREAD_FREE && !block->serial)
            break;
        used++;
    }
    return used;
}

static void collect_threads(struct agent *agent, bool partial, const bool *ended, uint32_t used)
{
    const struct area_view *view = &agent->view;
    for (uint32_t i = 0; i < used; i++) {
        struct area_thread *block = area_thread_at(view, i);
        uint32_t state = atomic_load_explicit(&block->state, memory_order_acquire);
        if (state == AREA_THREAD_FREE)
            continue;
        if (partial || ended[i])
            collect_partial(agent, block);
        if (ended[i] && (agent->ended || state == AREA_THREAD_ENDED)) {
            if (state == AREA_THREAD_LIVE)
                put_waiting(agent, block);
            end_thread(agent, block);
            area_counts_move(view, block);
            atomic_store_explicit(&block->state, AREA_THREAD_FREE, memory_order_release);
        }
    }
}

/* Of an adopted area: what the monitors before this one have written of a thread, by its blocks and by their trace. */
static void take_positions(struct agent *agent)
{
    const struct area_view *view = &agent->view;
    uint32_t used = collect_threads_used(view);
    for (uint32_t i = 0; i < used; i++) {
        struct area_thread *block = area_thread_at(view, i);
        if (atomic_load(&block->state) == AREA_THREAD_FREE)
            continue;
        struct collect_thread *thread = collect_written(agent, block->serial, block->tid, block->written_to);
        if (!thread)
            return;
        if (thread->discarded < block->written_discarded)
            thread->discarded = block->written_discarded;
        block->written_to = thread->written_to;
        block->written_discarded = thread->discarded;
        thread->lives = true;
    }
    struct collect_thread *thread, *next;
    HASH_ITER(hh, agent->recording->threads, thread, next)
    {
        if (thread->lives)
            continue;
        HASH_DELETE(hh, agent->recording->threads, thread); /* all of it is on disk */
        free(thread);
    }
}

uint64_t collect_agent(struct agent *agent, uint64_t budget, bool partial, bool flight)
{
    const struct area_view *view = &agent->view;
    agent->recording->more = false;
    if (!view->area || !agent->writer)
        return 0;
    if (agent->adopted) {
        agent->adopted = false;
        take_positions(agent);
    }
    if (agent->job)
        collect_disk_left(agent->agents, agent->job);
    bool keeps = !agent->ended && !flight && atomic_load(&view->area->policy) == AREA_FLIGHT;
    /* threads that were at their end before we looked for their packets: those then are all */
    uint32_t used = collect_threads_used(view);
    bool *ended = calloc(used + 1, sizeof *ended);
    if (!ended)
        return 0;
    for (uint32_t i = 0; i < used; i++)
        ended[i] = agent->ended ||
                   atomic_load_explicit(&area_thread_at(view, i)->state, memory_order_acquire) == AREA_THREAD_ENDED;
    if (agent->ended && !agent->recording->orphans_taken) {
        agent->recording->orphans_taken = true;
        if (agent->selection->counts)
            agent->recording->open_counted = agent_open_counted(agent, agent_until(agent));
        collect_orphans(agent, used);
    }
    agent_area_grow(agent); /* before room is made: now it shows whether there was too little */
    uint64_t bytes = keeps ? 0 : collect_full(agent, budget);
    if (!agent->recording->more && !keeps)
        collect_threads(agent, partial, ended, used);
    free(ended);
    struct trace_job *job = agent->job;
    if (bytes && job && !job->limited && !bytes_before_limit(job))
        collect_limit(agent->agents, job, NOTE(trace_full));
    return bytes;
}

/* ---- turns over all agents, by a timer that slows down while there is nothing, before the loop next waits, or because
 * somebody asks ---- */

enum { NS_PER_MS = 1000000 };

/* What is still to be written of a process that has ended may need the symbols of its modules: names that are numbers
 * so far, those of functions that were only counted, and where it crashed. Calls of MPI have their names. */
static bool needs_names(const struct agent *agent)
{
    const struct area *area = agent->view.area;
    return agent_names_lack(agent) || agent->selection->counts || agent->selection->rated ||
           agent->recording->skipped ||
           (area &&
            (atomic_load(&area->crash.valid) || atomic_load(&area->flight_overwritten) || atomic_load(&area->tallies)));
}

static bool collect_done(struct agent *agent)
{
    /* names are worth a little waiting for: the process was too short for its index to be built */
    return agent->ended && !agent->drained && !agent->recording->more &&
           (!needs_names(agent) || agent_indexes_ready(agent) ||
            clock_now_ns() - agent->ended_ns > wait_policies[WAIT_MAIN].limit_ms * WAITS_NS_PER_MS);
}

static uint64_t collect_turn(struct agents *agents)
{
    uint64_t now = clock_now_ns(), done = 0, records = 0;
    unsigned left = 0;
    agents->collecting++;
    for (struct agent *agent = agents->list, *next; agent; agent = next) {
        next = agent->next;
        bool partial = agent->ended || now - agent->recording->partial_ns >= (uint64_t)COLLECT_PARTIAL_MS * NS_PER_MS;
        uint64_t events = agent->recording->events;
        if (agent->selection->applies_soon) {
            agent->selection->applies_soon = false;
            agent_apply(agent);
        }
        if (partial)
            agent->recording->partial_ns = now;
        if (done < COLLECT_BUDGET)
            done += collect_agent(agent, COLLECT_BUDGET - done, partial, false);
        else
            agent->recording->more = true;
        records += agent->recording->events - events;
        done += agent->recording->events != events;
        agent_modules_changed(agent);
        left += agent->recording->more;
        if (!agent->recording->more)
            collect_finish(agent, false);
    }
    agents->collecting--;
    log_debug("collect processes=%u records=%llu bytes=%llu left=%u us=%llu", agents->count,
              (unsigned long long)records, (unsigned long long)done, left,
              (unsigned long long)(clock_now_ns() - now) / 1000);
    bool cut = agents->faults != map_guard_faults();
    agents->faults = map_guard_faults();
    for (struct agent *agent = agents->list, *next; agent; agent = next) {
        next = agent->next;
        if (cut)
            agent_area_check(agent);
        if (collect_done(agent))
            agent_drained(agent);
    }
    if (left)
        collect_soon(agents);
    return done;
}

static void on_timer(void *ctx)
{
    struct agents *agents = ctx;
    uint64_t done = collect_turn(agents);
    if (!agents->list) {
        loop_remove(agents->timer);
        agents->timer = NULL;
        return;
    }
    uint64_t shortest = (uint64_t)COLLECT_MIN_MS * NS_PER_MS, longest = (uint64_t)COLLECT_MAX_MS * NS_PER_MS;
    agents->timer_ns = done ? shortest : 2 * agents->timer_ns > longest ? longest : 2 * agents->timer_ns;
    loop_set_timer(agents->timer, agents->timer_ns, 0);
}

static void on_deferred(void *ctx)
{
    struct agents *agents = ctx;
    agents->deferred = NULL;
    collect_turn(agents);
    if (!agents->timer && agents->list) {
        agents->timer_ns = (uint64_t)COLLECT_MIN_MS * NS_PER_MS;
        agents->timer = loop_add_timer(agents->monitor->loop, agents->timer_ns, 0, on_timer, agents);
    }
}

void collect_soon(struct agents *agents)
{
    if (!agents->deferred)
        agents->deferred = loop_add_deferred(agents->monitor->loop, on_deferred, agents);
}

void agent_collect(struct agent *agent)
{
    agent->agents->collecting++;
    do
        collect_agent(agent, UINT64_MAX, true, false);
    while (agent->recording->more);
    agent->agents->collecting--;
}

int agent_flush(struct agent *agent, struct err *err)
{
    if (!agent->writer)
        return err_set(err, -ENOENT, "nothing is recorded of pid %d", agent->pid);
    agent->agents->collecting++;
    collect_agent(agent, UINT64_MAX, true, true);
    collect_until(agent);
    collect_finish(agent, true);
    agent->agents->collecting--;
    if (!trace_writer_failed(agent->writer))
        return 0;
    struct buf text = BUF_INIT;
    note_text(&text, &agent->problem.note);
    err_set(err, -EIO, "%s", text.data ? text.data : "");
    buf_done(&text);
    return -EIO;
}
