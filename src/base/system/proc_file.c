/* SPDX-License-Identifier: Apache-2.0 */
#include "base/system/proc_file.h"

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/file.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
    STAT_TEXT = 1024,   /* 52 numbers of at most 20 digits are 1092, but most are small: 350 bytes are usual */
    STATUS_TEXT = 8192, /* grows with the processor masks: 1.4 KB on small machines, 5 KB at 8192 processors */
    IO_TEXT = 512,      /* seven lines */
    FIELD_STATE = 3,    /* proc(5) counts from 1; the name in brackets is 2 */
    FIELD_EXIT_CODE = 52,
    FORKED_ONLY = 0x40,       /* of the flags, PF_FORKNOEXEC */
    KERNELS_OWN = 0x00200000, /* PF_KTHREAD */
};

void proc_path(char path[PROC_PATH_SIZE], pid_t pid, pid_t tid, const char *name)
{
    if (!pid)
        snprintf(path, PROC_PATH_SIZE, "/proc/self/%s", name);
    else if (tid)
        snprintf(path, PROC_PATH_SIZE, "/proc/%d/task/%d/%s", (int)pid, (int)tid, name);
    else
        snprintf(path, PROC_PATH_SIZE, "/proc/%d/%s", (int)pid, name);
}

int proc_errno(pid_t pid, int number)
{
    char path[PROC_PATH_SIZE];
    switch (number) {
    case EPERM:
        return -EACCES;
    case ENOENT:
        /* Gone, or it has no such file (a kernel thread has no executable). */
        proc_path(path, pid, 0, "");
        return access(path, F_OK) < 0 ? -ESRCH : -ENOENT;
    default:
        return -number;
    }
}

int proc_file_read(pid_t pid, pid_t tid, const char *name, char *ret_text, size_t size, size_t *ret_len)
{
    char path[PROC_PATH_SIZE];
    proc_path(path, pid, tid, name);
    int code = file_read_start(path, ret_text, size, ret_len);
    return code == -ENOENT && tid ? -ESRCH : code < 0 ? proc_errno(pid, -code) : 0;
}

/* What follows "Name:" at the start of a line. NULL: no such line. */
static const char *line_of(const char *text, const char *name)
{
    size_t len = strlen(name);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, len) == 0 && line[len] == ':')
            return line + len + 1;
    }
    return NULL;
}

uint64_t proc_field(const char *text, const char *name)
{
    const char *at = line_of(text, name);
    return at ? strtoull(at, NULL, 10) : 0;
}

static uint64_t ticks_to_ns(uint64_t ticks)
{
    static long ticks_per_second;
    if (!ticks_per_second)
        ticks_per_second = sysconf(_SC_CLK_TCK);
    return ticks * (uint64_t)(NS_PER_SECOND / ticks_per_second);
}

int proc_stat_parse(const char *text, struct proc_stat *ret_stat)
{
    /* The name may hold anything, ')' and blanks too: it ends at the last bracket, since numbers follow. */
    const char *open = strchr(text, '('), *close = strrchr(text, ')');
    if (!open || !close || close < open || close[1] != ' ' || !close[2])
        return -EBADMSG;
    uint64_t field[FIELD_EXIT_CODE + 1] = {0};
    const char *rest = close + 3;
    int count = FIELD_STATE;
    while (count < FIELD_EXIT_CODE && *rest == ' ') {
        char *end;
        errno = 0;
        field[count + 1] = *++rest == '-' ? (uint64_t)strtoll(rest, &end, 10) : strtoull(rest, &end, 10);
        if (end == rest)
            break;
        count++;
        rest = end;
    }
    if (count < 39)
        return -EBADMSG;
    struct proc_stat stat = {
        .pid = (pid_t)strtol(text, NULL, 10),
        .state = close[2],
        .ppid = (pid_t)field[4],
        .pgrp = (pid_t)field[5],
        .session = (pid_t)field[6],
        .never_executed = field[9] & FORKED_ONLY,
        .kernels_own = field[9] & KERNELS_OWN,
        .minor_faults = field[10],
        .major_faults = field[12],
        .user_ns = ticks_to_ns(field[14]),
        .system_ns = ticks_to_ns(field[15]),
        .children_ns = ticks_to_ns(field[16]) + ticks_to_ns(field[17]),
        .priority = (long)field[18],
        .nice = (long)field[19],
        .threads = (long)field[20],
        .start_ticks = field[22],
        .memory_bytes = field[23],
        .resident_bytes = field[24] * (uint64_t)sysconf(_SC_PAGESIZE),
        .start_stack = field[28],
        .processor = (int)field[39],
        .arg_start = field[48],
        .arg_end = field[49],
        .exit_code = (int)field[FIELD_EXIT_CODE],
    };
    size_t len = (size_t)(close - open - 1);
    if (len > sizeof stat.comm - 1)
        len = sizeof stat.comm - 1;
    memcpy(stat.comm, open + 1, len);
    *ret_stat = stat;
    return 0;
}

int proc_stat_of(pid_t pid, pid_t tid, struct proc_stat *ret_stat)
{
    char text[STAT_TEXT + 128];
    int r = proc_file_read(pid, tid, "stat", text, sizeof text, NULL);
    return r < 0 ? r : proc_stat_parse(text, ret_stat);
}

char proc_letter(pid_t pid, pid_t tid)
{
    struct proc_stat stat;
    return proc_stat_of(pid, tid, &stat) < 0 ? '\0' : stat.state;
}

int proc_io_read(pid_t pid, struct proc_io *ret_io)
{
    char text[IO_TEXT];
    int r = proc_file_read(pid, 0, "io", text, sizeof text, NULL);
    if (r < 0)
        return r;
    *ret_io = (struct proc_io){
        .reads = proc_field(text, "syscr"),
        .writes = proc_field(text, "syscw"),
        .called_read = proc_field(text, "rchar"),
        .called_wrote = proc_field(text, "wchar"),
        .read_bytes = proc_field(text, "read_bytes"),
        .written_bytes = proc_field(text, "write_bytes"),
    };
    return 0;
}

int64_t proc_status_number(pid_t pid, pid_t tid, const char *name)
{
    char text[STATUS_TEXT];
    return proc_file_read(pid, tid, "status", text, sizeof text, NULL) < 0 || !line_of(text, name)
               ? -1
               : (int64_t)proc_field(text, name);
}

void proc_comm(pid_t pid, pid_t tid, char *ret_comm, size_t size)
{
    if (proc_file_read(pid, tid, "comm", ret_comm, size, NULL) < 0)
        ret_comm[0] = 0;
    ret_comm[strcspn(ret_comm, "\n")] = 0;
}

size_t proc_peek(pid_t pid, uint64_t address, void *ret_bytes, size_t size)
{
    enum { PAGE = 4096 };
    size_t to_page = PAGE - address % PAGE,
           first = size < to_page ? size : to_page; /* the next page may be unreadable */
    struct iovec here = {ret_bytes, size};
    struct iovec there[] = {{(void *)(uintptr_t)address, first},                   /* NOLINT: an address over there */
                            {(void *)(uintptr_t)(address + first), size - first}}; /* NOLINT */
    ssize_t got = process_vm_readv(pid, &here, 1, there, size > first ? 2 : 1, 0);
    return got > 0 ? (size_t)got : 0;
}

pid_t proc_deputy(pid_t pid)
{
    char path[PROC_PATH_SIZE];
    pid_t found = 0;
    if (proc_letter(pid, pid) != 'Z')
        return 0;
    proc_path(path, pid, 0, "task");
    DIR *dir = opendir(path);
    for (const struct dirent *entry; dir && !found && (entry = readdir(dir));) {
        pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
        char letter = tid > 0 && tid != pid ? proc_letter(pid, tid) : 0;
        found = letter && !strchr("ZX", letter) ? tid : 0;
    }
    if (dir)
        closedir(dir);
    return found;
}

/* The kernel writes a newline in a path as \012 and nothing else escaped. */
static void unescape_path(char *path)
{
    char *to = path;
    for (const char *from = path; *from;) {
        if (strncmp(from, "\\012", 4) == 0) {
            *to++ = '\n';
            from += 4;
        } else {
            *to++ = *from++;
        }
    }
    *to = 0;
}

static bool parse_map(char *line, struct proc_map *map)
{
    char perms[5] = "";
    unsigned long long start, end, offset, inode;
    unsigned int major, minor;
    int at = 0;
    if (sscanf(line, "%llx-%llx %4s %llx %x:%x %llu%n", &start, &end, perms, &offset, &major, &minor, &inode, &at) < 7)
        return false;
    char *path = line + at;
    path += strspn(path, " ");
    unescape_path(path);
    *map = (struct proc_map){.start = start,
                             .end = end,
                             .offset = offset,
                             .inode = inode,
                             .device_major = major,
                             .device_minor = minor,
                             .read = perms[0] == 'r',
                             .write = perms[1] == 'w',
                             .execute = perms[2] == 'x',
                             .private = perms[3] == 'p',
                             .path = path};
    return true;
}

static int read_maps(pid_t pid, char **ret_text, size_t *ret_len)
{
    char path[PROC_PATH_SIZE];
    proc_path(path, pid, 0, "maps");
    int r = file_read(path, ret_text, ret_len);
    return r < 0 ? proc_errno(pid, -r) : 0;
}

int proc_maps_read(pid_t pid, struct proc_maps *ret_maps)
{
    _cleanup_(freep) char *text = NULL;
    size_t len = 0;
    int r = read_maps(pid, &text, &len);
    pid_t deputy = r == -ESRCH || (r == 0 && len == 0) ? proc_deputy(pid) : 0;
    if (deputy) {
        free(TAKE_PTR(text));
        r = read_maps(deputy, &text, &len);
    }
    if (r < 0)
        return r;
    size_t lines = 1;
    for (const char *c = text; *c; c++)
        lines += *c == '\n';
    struct proc_map *maps = calloc(lines, sizeof *maps);
    if (!maps)
        return -ENOMEM;
    size_t count = 0;
    char *rest = text, *line;
    while ((line = strsep(&rest, "\n")))
        if (parse_map(line, &maps[count]))
            count++;
    *ret_maps = (struct proc_maps){.count = count, .maps = maps, .text = TAKE_PTR(text)};
    return 0;
}

void proc_maps_done(struct proc_maps *maps)
{
    free(maps->maps);
    free(maps->text);
    *maps = (struct proc_maps){0};
}

const struct proc_map *proc_maps_find(const struct proc_maps *maps, uint64_t addr)
{
    size_t low = 0, high = maps->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (addr >= maps->maps[middle].end)
            low = middle + 1;
        else
            high = middle;
    }
    return low < maps->count && addr >= maps->maps[low].start ? &maps->maps[low] : NULL;
}

struct field { /* nptl_db's */
    uint32_t bits, count, offset;
};

uint32_t pthread_field(const char *name)
{
    struct field field = {0};
    const void *found = dlsym(RTLD_DEFAULT, name);
    if (found)
        memcpy(&field, found, sizeof field);
    return field.offset < PTHREAD_DESCRIPTOR_MOST - sizeof(uint64_t) ? field.offset : 0;
}
