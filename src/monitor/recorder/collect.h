/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From packets to disk: in turns over all agents (collect.c), what is in a packet (collect_walk.c), the trace
 * directory, and what a process leaves in its area at its end (collect_trace.c).
 */
#ifndef SCRY_MONITOR_RECORDER_COLLECT_H
#define SCRY_MONITOR_RECORDER_COLLECT_H

#include "jobdir/trace/profile.h"
#include "monitor/recorder/agent.h"

struct collect_thread { /* by thread_serial */
    uint32_t serial, tid, stream;
    bool has_stream;
    uint64_t discarded, last_time;
    uint64_t written_to; /* up to this time its records are in the trace of a monitor before this one; 0: none */
    uint64_t partial_seq, partial_to;         /* of the packet with that number so many bytes of records are written */
    bool partial, whole;                      /* partial: there was one; whole: it came when it was full */
    uint64_t missing_packets, missing_events; /* overwritten or left out since what was written last */
    bool lives;                               /* it has a block; only used when an area is adopted */
    UT_hash_handle hh;
};

struct agent_recording { /* of a process: what its trace has */
    struct profile *profile;
    struct collect_thread *threads;
    uint64_t events, discarded, damaged;
    uint64_t skipped; /* entries and exits of packets that did not fit below the limit */
    uint64_t overwritten_seen, overwritten_events_seen; /* by the flight recorder: of which thread is known */
    uint64_t partial_ns, synced_ns, opened_ns;
    struct area_calls *open_counted; /* of functions that are only counted, when it ended */
    bool orphans_taken;
    bool more; /* packets were left for the next turn */
};

/* collect.c */
int collect_new(struct agents *agents);
bool collect_recording_new(struct agent *agent);
void collect_free(struct agents *agents);
void collect_limit(struct agents *agents, struct trace_job *job, struct note why); /* from here on the last only, */
void collect_unlimit(struct agents *agents, struct trace_job *job); /* until there is room on the disk again */

/* Of a thread, up to this time, records are on disk already. */
struct collect_thread *collect_written(struct agent *agent, uint32_t serial, uint32_t tid, uint64_t to);

/* collect_trace.c: of a process that has ended, packets that are neither full nor current become full. `used`: so
 * many blocks of threads may be in use. */
void collect_orphans(struct agent *agent, uint32_t used);

/* Likewise: entries of calls that a thread was in at the `end`, and had not recorded (--min-time); how many. */
size_t collect_waiting(struct agent *agent, const struct area_thread *block, uint64_t end, uint64_t last_time,
                       struct packet_head *ret_head, struct buf *out);
/* collect.c: blocks from the first on that were ever used */
uint32_t collect_threads_used(const struct area_view *view);

/* collect_trace.c */
void collect_finish(struct agent *agent, bool all); /* writes .process; with all, of an ended one, closes the trace */
void collect_until(struct agent *agent);            /* notes that */
void collect_close(struct agent *agent, const char *state);
/* How much may be written until the disk is checked again; 0: nothing more. Limits the job when it is nearly full. */
uint64_t collect_disk_left(struct agents *agents, struct trace_job *job);

/* collect_walk.c */
struct walk {                /* what one packet is made into */
    struct packet_head head; /* of the piece: begin, end, depth, stack */
    const uint8_t *records;  /* in the packet, or in `own` */
    size_t size;
    size_t end;      /* bytes of the packet that are records */
    uint64_t events; /* entries and exits in the piece */
    bool damaged;    /* what comes after `end` is none */
};
struct walk_room; /* for rewriting; NULL-able only for whole packets */
struct walk_room *walk_room_new(void);
void walk_room_free(struct walk_room *room);
/* A slot; with RECORD_PLACE a place. */
typedef void walk_function_fn(void *ctx, uint32_t function);
/* Entries and exits among the records. */
uint64_t walk_calls(const struct packet_head *head, uint64_t latest, uint8_t *records, size_t size);
/* Counts the calls that begin there, from so many bytes on, with their functions: they are not written. */
void walk_unkept(const struct packet_head *head, uint64_t latest, uint8_t *records, size_t size, size_t from,
                 const struct area_view *view);
/* How many bytes of the records are not later than `time`. */
size_t walk_until(const struct packet_head *head, uint64_t latest, uint8_t *records, size_t size, uint64_t time);
/* Values with a layout that nobody knows get RECORD_NO_LAYOUT for it. */
typedef bool walk_layout_fn(void *ctx, uint32_t layout);
void walk_layouts(const struct packet_head *head, uint64_t latest, uint8_t *records, size_t size,
                  walk_layout_fn *is_known, void *ctx);
/* Looks through the `size` bytes of records of a packet, none of which is later than `latest`; the piece begins `from`
 * bytes into them. Tells the profile and, for functions not in `known`, fn. A record that is older than the one before
 * it (written in a signal's handler) is made as old. */
void walk_packet(const struct packet_head *head, uint64_t latest, uint8_t *records, size_t size, size_t from,
                 struct walk_room *room, struct profile *profile, const struct area_view *view, uint64_t *known,
                 walk_function_fn *fn, void *ctx, struct walk *ret_walk);

#endif
