/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trace that another monitor wrote of an area which is adopted now. It was killed, perhaps in the middle of a
 * packet: what of one is not there as a whole is cut off, for it is still in the area, and comes into the next trace.
 * Records of a thread are in the order of time, so the last time on disk says which ones are not to be written again.
 */
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

#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "base/system/file.h"
#include "base/system/log.h"
#include "jobdir/trace/trace.h"
#include "monitor/recorder/agents_internal.h"

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
