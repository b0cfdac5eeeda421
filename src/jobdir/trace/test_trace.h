/* SPDX-License-Identifier: Apache-2.0 */
/* For tests: traces made record by record. Times are ticks of a nanosecond. */
#ifndef SCRY_JOBDIR_TRACE_TEST_TRACE_H
#define SCRY_JOBDIR_TRACE_TEST_TRACE_H

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/data/buf.h"
#include "shm/record.h"

struct made {
    struct buf bytes, records; /* the stream so far; the packet that is being made */
    struct packet_head head;
    uint64_t time;
};

static inline void made_begin(struct made *made, uint32_t tid, uint64_t time)
{
    made->head = (struct packet_head){.magic = PACKET_MAGIC,
                                      .time_begin = time,
                                      .tid = tid,
                                      .thread_serial = tid,
                                      .events_discarded = made->head.events_discarded,
                                      .depth = UINT32_MAX};
    made->time = time;
    made->records.len = 0;
}

static inline void made_record(struct made *made, uint32_t id, uint64_t time)
{
    if (time - made->time >= 1u << RECORD_TIME_BITS) {
        buf_put_u32(&made->records, RECORD_EXTENDED);
        buf_put_u32(&made->records, id);
        buf_put_u64(&made->records, time);
    } else {
        buf_put_u32(&made->records, (uint32_t)(time << 5) | id);
    }
    made->time = time;
}

static inline void made_enter(struct made *made, uint64_t time, uint32_t function)
{
    made_record(made, RECORD_ENTRY, time);
    buf_put_u32(&made->records, function);
}

static inline void made_values(struct made *made, uint32_t layout, int32_t value)
{
    const uint16_t size = sizeof value;
    buf_put_u32(&made->records, layout);
    buf_append(&made->records, &size, sizeof size);
    buf_append(&made->records, &value, sizeof value);
}

static inline void made_enter_with(struct made *made, uint64_t time, uint32_t function, uint32_t layout, int32_t value)
{
    made_record(made, RECORD_ENTRY_VALUES, time);
    buf_put_u32(&made->records, function);
    made_values(made, layout, value);
}

static inline void made_exit(struct made *made, uint64_t time)
{
    made_record(made, RECORD_EXIT, time);
}

/* A whole call that calls nothing. */
static inline void made_leaf(struct made *made, uint64_t begin, uint64_t end, uint32_t function)
{
    made_enter(made, begin, function);
    made_exit(made, end);
}

static inline void made_exit_of(struct made *made, uint64_t time, uint32_t function, uint64_t entry)
{
    made_record(made, RECORD_EXIT_OF, time);
    buf_put_u32(&made->records, function);
    buf_put_u64(&made->records, entry);
}

/* Local i = value, result value + 1: layout 2. */
static inline void made_exit_with(struct made *made, uint64_t time, uint32_t function, uint64_t entry, uint32_t layout,
                                  int32_t value)
{
    const uint16_t size = 2 * sizeof value;
    const int32_t values[2] = {value, value + 1};
    made_record(made, RECORD_EXIT_VALUES, time);
    buf_put_u32(&made->records, function);
    buf_put_u64(&made->records, entry);
    buf_put_u32(&made->records, layout);
    buf_append(&made->records, &size, sizeof size);
    buf_append(&made->records, values, sizeof values);
}

static inline void made_count(struct made *made, uint64_t time, uint32_t id, uint32_t count)
{
    made_record(made, id, time);
    buf_put_u32(&made->records, count);
}

/* What follows happens on this stack, where so many calls are open. */
static inline void made_stack(struct made *made, uint64_t time, uint32_t stack, uint32_t depth)
{
    made_record(made, RECORD_STACK, time);
    buf_put_u32(&made->records, stack);
    buf_put_u32(&made->records, depth);
}

static inline void made_end(struct made *made)
{
    made->head.time_end = made->time;
    made->head.content_size = made->head.packet_size = 8 * (sizeof made->head + made->records.len);
    buf_append(&made->bytes, &made->head, sizeof made->head);
    buf_append(&made->bytes, made->records.data, made->records.len);
}

static inline void made_file(const char *dir, const char *name, const void *bytes, size_t len)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "w");
    if (!file || (len && fwrite(bytes, 1, len, file) != len) || fclose(file) != 0) {
        perror(path);
        abort();
    }
}

static inline void made_text(const char *dir, const char *name, const char *text)
{
    made_file(dir, name, text, strlen(text));
}

/* What .process says of a process on the node "node"; `more`: the lines behind. */
static inline void made_process(const char *dir, int pid, const char *more)
{
    char text[500];
    snprintf(text, sizeof text, "version\t1\npid\t%d\nnode\tnode\nticks_per_second\t1000000000\n%s", pid, more);
    made_text(dir, ".process", text);
}

static inline void made_stream(struct made *made, const char *dir, const char *name)
{
    made_file(dir, name, made->bytes.data, made->bytes.len);
}

static inline void made_done(struct made *made)
{
    buf_done(&made->bytes);
    buf_done(&made->records);
}

/* JOB/trace/node/PID-0 with functions main (1), solve (2), step (3) and norm (4); layouts 1 (args), 2 (locals, result)
 * and 3 (caller), each of an int. ret_dir has room for 256 bytes. */
static inline void made_trace(const char *job, int pid, char *ret_dir)
{
    char text[512];
    snprintf(ret_dir, 256, "%.100s/trace", job);
    mkdir(ret_dir, 0700);
    snprintf(ret_dir, 256, "%.100s/trace/node", job);
    mkdir(ret_dir, 0700);
    snprintf(ret_dir, 256, "%.100s/trace/node/%d-0", job, pid);
    mkdir(ret_dir, 0700);
    int len = snprintf(text, sizeof text,
                       "version\t1\npid\t%d\nppid\t1\nexe\t/bin/solver\nhost\tnode\nstart_ns\t%d\n"
                       "ticks_per_second\t1000000000\nclock_offset_ns\t1000\nstate\texited\nevents\t40\ndiscarded\t7\n"
                       "bytes\t80\ncost_ns\t1500000\n",
                       pid, pid);
    made_file(ret_dir, ".process", text, (size_t)len);
    static const char functions[] = "1\t0x1000\tmain\t/src/main.c\t10\t256\t/bin/solver\n"
                                    "2\t0x1100\tsolve\t/src/solve.c\t20\t64\t/bin/solver\n"
                                    "3\t0x1200\tstep\t/src/solve.c\t40\t64\t/bin/solver\n"
                                    "4\t0x1300\tnorm\t\t0\t0\t/lib/libnorm.so\n";
    static const char layouts[] = "1\targs(n:i4)\n2\tlocals(i:i4) result(:i4)\n3\tcaller\"before\"(k:i4)\n";
    made_file(ret_dir, ".functions", functions, sizeof functions - 1);
    made_file(ret_dir, ".layouts", layouts, sizeof layouts - 1);
}

/* A directory of the test's own, with a trace of process 100 in `dir`. */
static inline void made_root(char root[64], char dir[256])
{
    snprintf(root, 64, "/tmp/scry-trace-XXXXXX");
    if (!mkdtemp(root))
        abort();
    made_trace(root, 100, dir);
}

static inline void made_root_remove(const char *root)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    if (system(command) != 0)
        abort();
}

#endif
