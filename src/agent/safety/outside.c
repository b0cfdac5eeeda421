/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads /proc. The descriptor that this takes is moved out of the way at once, to a number that no program counts on,
 * and closed after the reading: a child that reads for us would leave no descriptor at all, but it would be one more
 * process in the user's job, which is the greater disturbance.
 */
#include <asm/unistd.h>
#include <fcntl.h>
#include <stdatomic.h>

#include "agent/system/large.h"
#include "agent/system/proc_text.h"
#include "agent/safety/read.h"
#include "agent/system/sys.h"

enum { HIGH_FD = 500, LINE_SIZE = 512 };

static _Atomic uint32_t busy;
static struct outside result AGENT_LARGE;

struct lines { /* a file by lines; longer ones are cut */
    int fd;
    unsigned begin, end;
    char buffer[4096];
};

static bool line_next(struct lines *lines, char line[LINE_SIZE])
{
    unsigned length = 0;
    for (;;) {
        if (lines->begin == lines->end) {
            long got = sys_call4(__NR_read, lines->fd, (long)lines->buffer, sizeof lines->buffer, 0);
            if (got <= 0)
                break;
            lines->begin = 0;
            lines->end = (unsigned)got;
        }
        char c = lines->buffer[lines->begin++];
        if (c == '\n') {
            line[length] = 0;
            return true;
        }
        if (length < LINE_SIZE - 1)
            line[length++] = c;
    }
    line[length] = 0;
    return length > 0;
}

static bool starts_with(const char *text, const char *prefix)
{
    while (*prefix)
        if (*text++ != *prefix++)
            return false;
    return true;
}

/* What is mapped there is no plain memory: reading it may do something, or hang. */
static bool device_path(const char *path)
{
    if (starts_with(path, "/dev/"))
        return !starts_with(path, "/dev/shm/") && !starts_with(path, "/dev/zero") &&
               !starts_with(path, "/dev/hugepages/");
    return starts_with(path, "/sys/") || starts_with(path, "anon_inode:") || starts_with(path, "/dmabuf") ||
           starts_with(path, "socket:") || starts_with(path, "[vvar");
}

/* 7f12a000-7f12b000 rw-s 00000000 00:05 1234    /dev/thing */
static void look_at_mapping(const char *line)
{
    uint64_t start = proc_text_number(&line, 16);
    if (*line++ != '-')
        return;
    uint64_t end = proc_text_number(&line, 16);
    for (int field = 0; field < 4; field++) {
        while (*line == ' ')
            line++;
        while (*line && *line != ' ')
            line++;
    }
    while (*line == ' ')
        line++;
    if (!device_path(line))
        return;
    if (result.device_count < DEVICES_MAX) {
        result.devices[result.device_count][0] = start;
        result.devices[result.device_count][1] = end;
    }
    if (result.device_count <= DEVICES_MAX)
        result.device_count++;
}

static void stat_line(const char *line)
{
    if (result.state)
        return;
    const char *ticks = proc_text_stat(line, 22);
    result.state = *proc_text_stat(line, 3);
    result.ticks = proc_text_number(&ticks, 10);
}

static void each_line(const char *name, void (*fn)(const char *line))
{
    static struct lines lines AGENT_LARGE; /* one at a time: `busy` */
    static char line[LINE_SIZE] AGENT_LARGE;
    char path[PROC_TEXT_PATH];
    proc_text_path(path, result.pid, name);
    lines.begin = lines.end = 0;
    lines.fd = (int)sys_call4(__NR_open, (long)path, O_RDONLY | O_CLOEXEC, 0, 0);
    if (lines.fd < 0)
        return;
    long high = sys_call4(__NR_fcntl, lines.fd, F_DUPFD_CLOEXEC, HIGH_FD, 0);
    if (high >= 0) { /* else the limit on descriptors is low: it stays where it is */
        sys_call2(__NR_close, lines.fd, 0);
        lines.fd = (int)high;
    }
    while (line_next(&lines, line))
        fn(line);
    sys_call2(__NR_close, lines.fd, 0);
}

static void status_line(const char *line)
{
    if (starts_with(line, "TracerPid:")) {
        for (line += 10; *line == ' ' || *line == '\t';)
            line++;
        result.tracer = (pid_t)proc_text_number(&line, 10);
    }
}

const struct outside *outside_read(pid_t pid, unsigned what)
{
    uint32_t free = 0;
    if (!atomic_compare_exchange_strong(&busy, &free, 1))
        return NULL;
    result.pid = pid;
    result.tracer = -1;
    result.ticks = 0;
    result.state = 0;
    result.device_count = 0;
    if (what & OUTSIDE_TRACER)
        each_line("status", status_line);
    if (what & OUTSIDE_DEVICES)
        each_line("maps", look_at_mapping);
    if (what & OUTSIDE_STAT)
        each_line("stat", stat_line);
    return &result;
}

void outside_release(void)
{
    atomic_store(&busy, 0);
}
