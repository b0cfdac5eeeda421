/* SPDX-License-Identifier: Apache-2.0 */
#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "base/system/file.h"
#include "base/system/log.h"
#include "jobdir/trace/trace.h"
#include "monitor/recorder/agents_internal.h"
#include "shm/record.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * The trace that another monitor wrote of an area which is adopted now. It was killed, perhaps in the middle of a
 * packet: what of one is not there as a whole is cut off, for it is still in the area, and comes into the next trace.
 * Records of a thread are in the order of time, so the last time on disk says which ones are not to be written again.
 */

struct trace_sums {
    uint64_t bytes, discarded;
};

/* Hops from packet to packet. */
static void read_stream(struct agent *agent, int fd, struct trace_sums *sums)
{
    struct stat st;
    struct packet_head head;
    uint64_t at = 0, told = 0, number = 0;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return;
    uint64_t size = (uint64_t)st.st_size;
    while (size - at >= sizeof head && pread(fd, &head, sizeof head, (off_t)at) == (ssize_t)sizeof head) {
        uint64_t bytes = head.packet_size / 8;
        if (head.magic != PACKET_MAGIC || bytes < sizeof head || bytes > size - at)
            break;
        struct collect_thread *thread = collect_written(agent, head.thread_serial, head.tid, head.time_end);
        uint64_t more = head.events_discarded > told ? head.events_discarded - told : 0;
        told += more;
        if (head.packet_seq > number) /* where packets are missing it says how much was in those: overwritten */
            more = 0;
        number = head.packet_seq + 1;
        if (thread)
            thread->discarded += more;
        sums->discarded += more;
        at += bytes;
    }
    if (at < size && ftruncate(fd, (off_t)at) < 0)
        agent_set_problem(agent, NOTE(trace_uncut, .pid = (uint64_t)agent->pid, .reason = strerror(errno)));
    sums->bytes += at;
}

static void read_streams(struct agent *agent, const char *trace, struct trace_sums *sums)
{
    DIR *dir = opendir(trace);
    if (!dir)
        return;
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (strncmp(entry->d_name, "stream-", strlen("stream-")) != 0)
            continue;
        int fd = file_open_own(dirfd(dir), entry->d_name, O_RDWR);
        if (fd < 0)
            continue;
        read_stream(agent, fd, sums);
        close(fd);
    }
    closedir(dir);
}

/* Its .process: what is known now. Counts that the area goes on with are told in the next trace, for the whole. */
static void put_line(struct buf *out, const struct agent *agent, const char *line, const struct trace_sums *sums)
{
    static const char *const goes_on[] = {
        "overwritten",   "flight_overwritten", "functions_omitted", "threads_omitted", "waits_ran_out",
        "waits_dropped", "too_deep",           "counted",           "thinned",         "tallied"};
    const struct area *area = agent->view.area;
    size_t key = strcspn(line, "\t");
    if (strcmp(line, "state\trunning") == 0) {
        buf_puts(out, "state\tcontinued\n");
        trace_put_problem(out, &NOTE(trace_continued));
        return;
    }
    if (strncmp(line, "events\t", 7) == 0) {
        /* the packet that was being written is there, or it is not */
        bool last = area->writing_bytes > area->written_bytes && sums->bytes >= area->writing_bytes;
        buf_printf(out, "events\t%" PRIu64 "\n", last ? area->writing_events : area->written_events);
        return;
    }
    if (strncmp(line, "discarded\t", 10) == 0) {
        buf_printf(out, "discarded\t%" PRIu64 "\n", sums->discarded);
        return;
    }
    if (strncmp(line, "bytes\t", 6) == 0) {
        buf_printf(out, "bytes\t%" PRIu64 "\n", sums->bytes);
        return;
    }
    for (size_t i = 0; i < sizeof goes_on / sizeof *goes_on; i++)
        if (strlen(goes_on[i]) == key && strncmp(line, goes_on[i], key) == 0) {
            buf_printf(out, "%s\t0\n", goes_on[i]);
            return;
        }
    buf_printf(out, "%s\n", line);
}

static void adopt_layouts(struct agent *agent, const char *path)
{
    struct err err = {0};
    struct trace *trace = NULL;
    if (*path && trace_open(&trace, path, NULL, NULL, &err) < 0)
        log_warning("the trace of pid %d before this: %s", agent->pid, err.text);
    agent_layouts_adopt(agent, trace);
    trace_close(trace);
}

void collect_adopted(struct agent *agent, const char *trace)
{
    char path[PATH_MAX], *text;
    size_t len;
    struct trace_sums sums = {0};
    agent->skipped = agent->view.area->skipped_events;
    agent->overwritten_seen = atomic_load(&agent->view.area->flight_overwritten);
    agent->overwritten_events_seen = atomic_load(&agent->view.area->flight_overwritten_records);
    adopt_layouts(agent, trace);
    if (!*trace || snprintf(path, sizeof path, "%s/.process", trace) >= (int)sizeof path ||
        file_read(path, &text, &len) < 0)
        return;
    read_streams(agent, trace, &sums);
    if (strstr(text, "\nstate\tcontinued\n")) { /* told already, by a monitor that was killed before it went on */
        free(text);
        return;
    }
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = 0;
        put_line(&out, agent, line, &sums);
    }
    bool counted = strncmp(text, "events\t", 7) == 0 || (out.data && strstr(out.data, "\nevents\t"));
    if (!counted) { /* killed before it came to that */
        put_line(&out, agent, "events\t", &sums);
        put_line(&out, agent, "discarded\t", &sums);
        put_line(&out, agent, "bytes\t", &sums);
        buf_puts(&out, "overwritten\t0\nwaits_ran_out\t0\nwaits_dropped\t0\n");
    }
    free(text);
    if (!out.failed && out.data)
        file_replace(path, out.data, out.len, 0600);
}

void collect_adopted_begun(const char *trace)
{
    DIR *dir = opendir(trace);
    bool used = false;
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        used |= strncmp(entry->d_name, "stream-", strlen("stream-")) == 0;
    if (dir && !used) {
        rewinddir(dir);
        for (struct dirent *entry; (entry = readdir(dir));)
            unlinkat(dirfd(dir), entry->d_name, 0);
        rmdir(trace);
    }
    if (dir)
        closedir(dir);
}

/* Packets of a thread that do not come to the disk: overwritten by the flight recorder, or left out at a limit. */

/* Whether packets were overwritten before this one, by its number; how many records they had is known of all threads
 * together, and shared out by packets. */
void collect_note_missing(struct agent *agent, struct collect_thread *thread, const struct packet_head *head)
{
    const struct area *area = agent->view.area;
    uint64_t packets = 0;
    if (thread->partial && head->packet_seq > thread->partial_seq)
        packets = head->packet_seq - thread->partial_seq - thread->whole;
    else if (!thread->partial && !thread->written_to)
        packets = head->packet_seq;
    if (!packets)
        return;
    uint64_t all = atomic_load(&area->flight_overwritten) - agent->overwritten_seen;
    uint64_t events = atomic_load(&area->flight_overwritten_records) - agent->overwritten_events_seen;
    if (!all)
        return; /* the rest of a piece was empty */
    uint64_t part = packets < all ? (uint64_t)((unsigned __int128)events * packets / all) : events;
    agent->overwritten_seen += packets < all ? packets : all;
    agent->overwritten_events_seen += part;
    thread->missing_packets += packets;
    thread->missing_events += part;
}

/* A packet that is not written, and nothing of it later. */
void collect_note_skipped(struct agent *agent, struct collect_thread *thread, uint64_t events)
{
    agent->view.area->skipped_events = agent->skipped += events;
    thread->missing_packets++;
    thread->missing_events += events;
}

/* Before the packet with this head: what is missing there. */
int collect_put_missing(struct agent *agent, struct collect_thread *thread, const struct packet_head *head)
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

/* ---- packets ---- */

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
    for (uint32_t i = 0; i < agent->released; i++) {
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
    for (uint32_t i = 0; i < agent->released; i++) {
        const struct packet_head *head = head_at(view, i);
        if ((atomic_load(&view->states[i]) & 0xff) == AREA_PACKET_TAKEN && head->magic == PACKET_MAGIC &&
            head->content_size / 8 > sizeof *head && !is_current(view, i, used))
            atomic_store(&view->states[i], order_of(agent, head, &last) << 8 | AREA_PACKET_FULL);
    }
}
