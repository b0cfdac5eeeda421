/* SPDX-License-Identifier: Apache-2.0 */
/* Packets of a thread that do not come to the disk: overwritten by the flight recorder, or left out at a limit. */
#include "monitor/recorder/agents_internal.h"

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
