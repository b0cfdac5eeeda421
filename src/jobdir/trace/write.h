/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_JOBDIR_TRACE_WRITE_H
#define SCRY_JOBDIR_TRACE_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/data/buf.h"
#include "base/data/err.h"
#include "base/data/notes.h"
#include "shm/record.h"

/*
 * Writing the trace of one process (jobdir/trace/trace.h). Used by the monitor's loop: no JSON, no waiting but for the
 * disk; a full disk or a limit stops the writing and is reported once. Descriptors are opened for an append and kept in
 * a small cache, so a thousand threads do not need a thousand descriptors.
 */

struct trace_writer;

struct trace_identity {
    const char *node, *exe, *host, *boot_id;
    int32_t pid, ppid;
    uint64_t start_ns;         /* wall */
    uint64_t ticks_per_second; /* of the clock of the records */
    uint64_t tick_zero_ns;     /* wall time of tick 0 */
};

/* Makes JOBDIR/trace/NODE/PID-N, N the first that is free. lazy: its files come with the first packet or sync. */
int trace_writer_new(struct trace_writer **ret_writer, const char *jobdir, const struct trace_identity *identity,
                     bool lazy, struct err *err);
void trace_writer_free(struct trace_writer *writer); /* writes the last metadata */
/* The process has ended: .process is next written by trace_writer_sync, and no more by the first packet. */
void trace_writer_ending(struct trace_writer *writer);
const char *trace_writer_path(const struct trace_writer *writer);

/* Better values for the clock, as they get known. */
void trace_writer_clock(struct trace_writer *writer, uint64_t ticks_per_second, uint64_t tick_zero_ns);

/* A stream for a thread whose first packet begins at `time`; trace_writer_stream_end lets a later thread reuse its
 * file, if that begins after what is in it. */
int trace_writer_stream_new(struct trace_writer *writer, uint64_t time, uint32_t *ret_stream);
void trace_writer_stream_end(struct trace_writer *writer, uint32_t stream);

/* Appends one packet: of the head only times, tid, depth, stack and thread_serial are used; the rest, with the
 * cumulative count of discarded events of the file, is filled in here. `discarded` is new since the thread's last
 * packet. 0 or -errno (-ENOSPC, -EIO ...: the packet is not in the file; no other is written, and -EPIPE returned from
 * then on, but see trace_writer_again). */
int trace_writer_packet(struct trace_writer *writer, uint32_t stream, const struct packet_head *head,
                        const void *records, size_t size, uint64_t discarded);
/* Says that packets of the stream's thread are not in it, with `records` entries and exits: an empty packet with the
 * head given, whose number is so much higher. Readers do not know which calls ended in that time. */
int trace_writer_missing(struct trace_writer *writer, uint32_t stream, const struct packet_head *head, uint64_t packets,
                         uint64_t records);
/* Appends to .switches (jobdir/trace/switches.h), and notes the times between which it is whole. After an error
 * nothing more is written to it. 0 or -errno. */
int trace_writer_switches(struct trace_writer *writer, const struct buf *entries, uint64_t from, uint64_t until);
bool trace_writer_failed(const struct trace_writer *writer);
/* If it was for want of room that it failed, it goes on. Whether it can write. */
bool trace_writer_again(struct trace_writer *writer);

/* Later calls for the same id win. `file` may be "". */
int trace_writer_function(struct trace_writer *writer, uint32_t id, uint64_t address, const char *name,
                          const char *file, uint32_t line, uint64_t size, const char *module);
/* A file that is mapped at [start, end), addresses in it being `bias` higher, with the key of its index: readers that
 * have the index name code addresses among values that are of no traced function. Each once, also where one comes
 * after another. */
void trace_writer_module(struct trace_writer *writer, uint64_t start, uint64_t end, uint64_t bias, const char *key);
/* Where the function is called from, by its number in entries (without RECORD_PLACE). */
struct trace_place;
int trace_writer_place(struct trace_writer *writer, uint32_t number, const struct trace_place *place);
enum { CTF_LAST_LAYOUT = 1000 }; /* those with greater numbers are bytes in the metadata: their types are not used */
/* A layout in two steps, for few may be used. note: our own readers know it, by its text with references
 * (symbols/layout/layout.h). use: others do, by its whole text, before the first record that has it; above
 * CTF_LAST_LAYOUT any text does. 1: the metadata have to be written before that; 0; -errno. */
int trace_writer_layout_note(struct trace_writer *writer, uint32_t id, const char *text);
int trace_writer_layout_use(struct trace_writer *writer, uint32_t id, const char *text);
void trace_writer_set(struct trace_writer *writer, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The whole content of .counts: functions whose calls are only counted. */
int trace_writer_counts(struct trace_writer *writer, const struct buf *lines);
void trace_writer_problem(struct trace_writer *writer, const struct note *note);
void trace_writer_problem_over(struct trace_writer *writer, const struct note *note); /* it is not so any more */
void trace_put_problem(struct buf *out, const struct note *note); /* the line of .process that it becomes */

/* Writes what changed of metadata, .functions, .places, .layouts, .process. Cheap when nothing did; a large metadata
 * file is not rewritten every time, unless `all`. 0 or -errno. */
int trace_writer_sync(struct trace_writer *writer, bool all);
uint64_t trace_writer_bytes(const struct trace_writer *writer);
/* About how many bytes its names and values need on the disk when they are next written. */
uint64_t trace_writer_names(const struct trace_writer *writer);

#endif
