/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/trace/switches.h"

#include "base/data/grow.h"
#include "base/data/hash.h"
#include "base/system/file.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <uthash.h>

enum trace_off {
    TRACE_OFF_WAITING,   /* it had nothing to do until something happened */
    TRACE_OFF_PREEMPTED, /* it could have run */
    TRACE_OFF_UNKNOWN,   /* whether it had a processor is not known */
};

static void trace_switch_put(struct buf *out, uint64_t *inout_end, uint32_t tid, enum trace_off how, uint64_t begin,
                             uint64_t end);

struct switch_thread {
    uint32_t tid;
    enum { NOT_KNOWN, RUNS, WAITS, PREEMPTED } place;
    uint64_t since;
    UT_hash_handle hh;
};

void switch_log_init(struct switch_log *log, uint64_t from)
{
    *log = (struct switch_log){.from = from, .floor = from, .entries = BUF_INIT};
}

static void log_forget(struct switch_log *log, struct switch_thread *thread)
{
    HASH_DEL(log->threads, thread);
    free(thread);
}

void switch_log_done(struct switch_log *log)
{
    struct switch_thread *thread, *next;
    HASH_ITER(hh, log->threads, thread, next)
    log_forget(log, thread);
    buf_done(&log->entries);
}

static struct switch_thread *log_thread(struct switch_log *log, uint32_t tid)
{
    struct switch_thread *thread;
    HASH_FIND(hh, log->threads, &tid, sizeof tid, thread);
    if (thread)
        return thread;
    thread = calloc(1, sizeof *thread);
    if (!thread) {
        log->failed = true;
        return NULL;
    }
    *thread = (struct switch_thread){.tid = tid, .place = NOT_KNOWN, .since = log->floor};
    HASH_ADD(hh, log->threads, tid, sizeof thread->tid, thread);
    return thread;
}

static void log_put(struct switch_log *log, const struct switch_thread *thread, enum trace_off how, uint64_t end)
{
    if (end > thread->since)
        trace_switch_put(&log->entries, &log->last_end, thread->tid, how, thread->since, end);
    log->failed |= log->entries.failed;
}

static enum trace_off off_of(const struct switch_thread *thread)
{
    return thread->place == WAITS       ? TRACE_OFF_WAITING
           : thread->place == PREEMPTED ? TRACE_OFF_PREEMPTED
                                        : TRACE_OFF_UNKNOWN;
}

void switch_log_thread(struct switch_log *log, uint32_t tid, bool waits)
{
    struct switch_thread *thread = log_thread(log, tid);
    if (thread && waits)
        thread->place = WAITS;
}

void switch_log_take(struct switch_log *log, uint32_t tid, bool in, bool preempted, uint64_t time)
{
    struct switch_thread *thread = time >= log->floor ? log_thread(log, tid) : NULL;
    if (!thread)
        return;
    /* One that comes where it is, or leaves where it is not: one switch at least was not seen. */
    if (in)
        log_put(log, thread, off_of(thread), time);
    else if (thread->place == WAITS || thread->place == PREEMPTED)
        log_put(log, thread, TRACE_OFF_UNKNOWN, time);
    thread->place = in ? RUNS : preempted ? PREEMPTED : WAITS;
    thread->since = time > thread->since ? time : thread->since;
}

void switch_log_gap(struct switch_log *log, uint64_t from, uint64_t to)
{
    from = from > log->floor ? from : log->floor;
    if (to <= from)
        return;
    for (struct switch_thread *thread = log->threads; thread; thread = thread->hh.next) {
        if (thread->place != RUNS)
            log_put(log, thread, off_of(thread), from);
        thread->place = NOT_KNOWN;
        thread->since = to;
    }
    trace_switch_put(&log->entries, &log->last_end, 0, TRACE_OFF_UNKNOWN, from, to);
    log->failed |= log->entries.failed;
    log->floor = to;
}

void switch_log_until(struct switch_log *log, uint64_t time, switch_lives_fn *lives, void *ctx)
{
    struct switch_thread *thread, *next;
    HASH_ITER(hh, log->threads, thread, next)
    {
        if (thread->place == RUNS)
            continue;
        if (thread->place != NOT_KNOWN && !lives(ctx, thread->tid)) {
            log_forget(log, thread);
            continue;
        }
        log_put(log, thread, off_of(thread), time);
        thread->since = time > thread->since ? time : thread->since;
    }
}

size_t switch_log_threads(const struct switch_log *log)
{
    return HASH_COUNT(log->threads);
}

/* Entries are read so far ahead that what is a little out of order is there in time: some milliseconds. */
enum { AHEAD_TICKS = 1 << 24 };

struct off {
    uint64_t begin, end;
    enum trace_off how;
};

struct off_thread {
    uint32_t tid;
    uint64_t time; /* asked about up to here */
    struct profile_spent spent;
    struct off *list; /* that were read and are not over by then */
    size_t count, room;
    UT_hash_handle hh;
};

struct trace_switches {
    FILE *file;
    uint64_t from, until; /* of the file */
    uint64_t last_end;    /* of the entry read last, */
    uint64_t reached;     /* and where that stands */
    struct off_thread *threads;
    struct off_thread nobody; /* all of them: gaps */
    uint64_t time, unknown;   /* asked about up to here; so much of it not known of anybody */
};

/* ---- writing ---- */

static void put_number(struct buf *out, uint64_t number)
{
    for (; number >= 0x80; number >>= 7)
        buf_putc(out, (char)(number | 0x80));
    buf_putc(out, (char)number);
}

/* Appends an entry; *inout_end: 0 at the beginning. */
static void trace_switch_put(struct buf *out, uint64_t *inout_end, uint32_t tid, enum trace_off how, uint64_t begin,
                             uint64_t end)
{
    int64_t step = (int64_t)(end - *inout_end);
    put_number(out, (uint64_t)tid << 2 | how);
    put_number(out, (uint64_t)step << 1 ^ (uint64_t)(step >> 63));
    put_number(out, end > begin ? end - begin : 0);
    *inout_end = end;
}

/* ---- reading ---- */

int trace_switches_new(struct trace_switches **ret_switches)
{
    *ret_switches = calloc(1, sizeof **ret_switches);
    return *ret_switches ? 0 : -ENOMEM;
}

static void close_file(struct trace_switches *switches)
{
    if (switches->file)
        fclose(switches->file);
    switches->file = NULL;
}

void trace_switches_free(struct trace_switches *switches)
{
    if (!switches)
        return;
    HASH_FREE_ALL(switches->threads, free(each->list));
    free(switches->nobody.list);
    close_file(switches);
    free(switches);
}

static bool get_number(FILE *file, uint64_t *ret_number)
{
    int byte;
    *ret_number = 0;
    for (unsigned shift = 0; shift < 64 && (byte = getc_unlocked(file)) != EOF; shift += 7) {
        *ret_number |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

static bool add_off(struct off_thread *thread, const struct off *off)
{
    if (!GROW(thread->list, thread->count, thread->room))
        return false;
    thread->list[thread->count++] = *off;
    return true;
}

/* Counts what was spent up to that time. */
static void off_thread_spend(struct off_thread *thread, uint64_t time)
{
    size_t over = 0;
    if (time < thread->time)
        return;
    for (; over < thread->count && thread->list[over].begin < time; over++) {
        const struct off *off = &thread->list[over];
        uint64_t begin = off->begin > thread->time ? off->begin : thread->time;
        uint64_t end = off->end < time ? off->end : time, span = end > begin ? end - begin : 0;
        if (off->how == TRACE_OFF_WAITING)
            thread->spent.waiting += span;
        else if (off->how == TRACE_OFF_PREEMPTED)
            thread->spent.preempted += span;
        else
            thread->spent.unknown += span;
        if (off->end > time)
            break;
    }
    thread->count -= over;
    if (over && thread->count)
        memmove(thread->list, thread->list + over, thread->count * sizeof *thread->list);
    thread->time = time;
}

static struct off_thread *off_thread_of(struct trace_switches *switches, uint32_t tid)
{
    struct off_thread *thread;
    HASH_FIND(hh, switches->threads, &tid, sizeof tid, thread);
    if (!thread && (thread = calloc(1, sizeof *thread))) {
        thread->tid = tid;
        HASH_ADD(hh, switches->threads, tid, sizeof thread->tid, thread);
    }
    return thread;
}

/* From here on the file says nothing. */
static void switches_end_at(struct trace_switches *switches, uint64_t time)
{
    switches->until = time < switches->until ? time : switches->until;
    close_file(switches);
}

/* Reads up to that time, and a little further. */
static void switches_read_to(struct trace_switches *switches, uint64_t time)
{
    while (switches->file && switches->reached < time + AHEAD_TICKS) {
        uint64_t whose, step, length;
        if (!get_number(switches->file, &whose) || !get_number(switches->file, &step) ||
            !get_number(switches->file, &length)) {
            close_file(switches); /* as far as `until` that is all */
            return;
        }
        uint64_t end = switches->last_end + (step >> 1 ^ -(step & 1));
        struct off off = {end > length ? end - length : 0, end, (enum trace_off)(whose & 3)};
        uint32_t tid = (uint32_t)(whose >> 2);
        struct off_thread *thread = tid ? off_thread_of(switches, tid) : &switches->nobody;
        switches->last_end = end;
        switches->reached = tid ? end : off.begin;
        if (off.end > switches->until)
            off.end = switches->until;
        /* of threads that are not asked about no list grows */
        if (thread && tid && thread->count > 16)
            off_thread_spend(thread, switches->time);
        /* nothing is written of no time: these are no entries, but a hole in the file, which may be as large as a disk */
        if (!thread || !length || (off.end > off.begin && !add_off(thread, &off)))
            switches_end_at(switches, off.begin);
    }
}

/* So much of the time is not known of anybody. */
static void switches_count_unknown(struct trace_switches *switches, uint64_t time)
{
    if (time <= switches->time)
        return;
    uint64_t before = switches->time;
    if (before < switches->from)
        switches->unknown += (time < switches->from ? time : switches->from) - before;
    if (time > switches->until)
        switches->unknown += time - (before > switches->until ? before : switches->until);
    off_thread_spend(&switches->nobody, time);
    switches->time = time;
}

void trace_switches_go_on(struct trace_switches *switches, const char *directory, uint64_t from, uint64_t until,
                          uint64_t bytes)
{
    char path[PATH_MAX];
    struct off_thread *thread;
    switches_read_to(switches, UINT64_MAX - AHEAD_TICKS);
    for (thread = switches->threads; thread; thread = thread->hh.next)
        if (thread->count)
            off_thread_spend(thread, thread->list[thread->count - 1].end);
    close_file(switches);
    snprintf(path, sizeof path, "%s/.switches", directory);
    switches->file = from && until >= from ? file_open_plain(path) : NULL;
    struct stat st;
    if (switches->file && (fstat(fileno(switches->file), &st) < 0 || (uint64_t)st.st_size < bytes))
        close_file(switches);
    switches->from = switches->file ? from : UINT64_MAX;
    switches->until = switches->file ? until : UINT64_MAX;
    switches->last_end = switches->reached = 0;
}

void trace_switches_spent(struct trace_switches *switches, uint32_t tid, uint64_t time, struct profile_spent *ret_spent)
{
    switches_read_to(switches, time);
    switches_count_unknown(switches, time);
    struct off_thread *thread = off_thread_of(switches, tid);
    *ret_spent = (struct profile_spent){0};
    if (thread) {
        off_thread_spend(thread, time);
        *ret_spent = thread->spent;
    }
    ret_spent->unknown += switches->unknown + switches->nobody.spent.unknown;
}
