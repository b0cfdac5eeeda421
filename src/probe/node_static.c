/* SPDX-License-Identifier: Apache-2.0 */
/* Facts of a node that do not change while it runs. Beside each, where it comes from. */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/file.h"
#include "probe/node_internal.h"

static bool read_text(char *ret_text, size_t size, const char *format, va_list args)
{
    char path[PATH_MAX];
    if (vsnprintf(path, sizeof path, format, args) >= (int)sizeof path)
        return false;
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t len = read(fd, ret_text, size - 1);
    if (len < 0)
        return false;
    while (len > 0 && ret_text[len - 1] == '\n')
        len--;
    ret_text[len] = 0;
    return true;
}

bool node_read_text(char *ret_text, size_t size, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    bool read = read_text(ret_text, size, format, args);
    va_end(args);
    return read;
}

int64_t node_read_number(const char *format, ...)
{
    char text[NODE_FILE], *end;
    va_list args;
    va_start(args, format);
    bool read = read_text(text, sizeof text, format, args);
    va_end(args);
    if (!read)
        return -1;
    int64_t number = strtoll(text, &end, 10);
    return end == text || number < 0 ? -1 : number;
}

bool node_next_range(const char **at, long *ret_first, long *ret_last)
{
    char *end;
    long first = strtol(*at, &end, 10), last = first;
    if (end == *at)
        return false;
    if (*end == '-')
        last = strtol(end + 1, &end, 10);
    *at = *end == ',' ? end + 1 : end;
    *ret_first = first;
    *ret_last = last;
    return true;
}

int64_t node_find_number(const char *text, const char *name)
{
    size_t len = strlen(name);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, len) == 0 && (line[len] == ' ' || line[len] == ':'))
            return strtoll(line + len + 1, NULL, 10);
    }
    return -1;
}

/* Processors installed, which may be more than are online: the highest of "0-3,8" + 1 would count holes, so add up. */
static int64_t count_processors(void)
{
    char text[4096];
    int64_t count = 0;
    if (!node_read_text(text, sizeof text, "/sys/devices/system/cpu/present"))
        return sysconf(_SC_NPROCESSORS_CONF);
    const char *at = text;
    for (long first, last; node_next_range(&at, &first, &last);)
        count += last - first + 1;
    return count > 0 ? count : sysconf(_SC_NPROCESSORS_CONF);
}

/* The vendor's frequency; the highest one where only that is known; in a virtual machine what it says of itself. */
static int64_t processor_mhz(void)
{
    int64_t khz = node_read_number("/sys/devices/system/cpu/cpu0/cpufreq/base_frequency");
    if (khz < 0)
        khz = node_read_number("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq");
    if (khz > 0)
        return khz / 1000;
    char text[4096]; /* the first processor's lines */
    if (!node_read_text(text, sizeof text, "/proc/cpuinfo"))
        return -1;
    const char *line = strstr(text, "cpu MHz");
    const char *colon = line ? strchr(line, ':') : NULL;
    double mhz = colon ? strtod(colon + 1, NULL) : 0;
    return mhz > 0 ? (int64_t)(mhz + 0.5) : -1;
}

static int64_t max_processes(void)
{
    int64_t ids = node_read_number("/proc/sys/kernel/pid_max");
    int64_t tasks = node_read_number("/proc/sys/kernel/threads-max");
    return ids < 0 || (tasks >= 0 && tasks < ids) ? tasks : ids;
}

static int compare_names(const void *a, const void *b)
{
    return strverscmp(a, b);
}

/*
 * Local disks are block devices with hardware (a `device` link) behind them: no loop, RAM, mapped or RAID devices,
 * which would count the same bytes again; no optical drives, no empty card readers, no hidden paths of multipath NVMe.
 */
static void read_disks(struct node_facts *facts)
{
    DIR *dir = opendir("/sys/block");
    if (!dir)
        return;
    uint64_t sectors = 0; /* of 512 bytes, whatever the device's own are */
    facts->disk_count = 0;
    const struct dirent *entry;
    while ((entry = readdir(dir)) && facts->disk_count < NODE_DISKS) {
        const char *name = entry->d_name;
        char path[PATH_MAX];
        snprintf(path, sizeof path, "/sys/block/%s/device", name);
        if (name[0] == '.' || strlen(name) >= sizeof facts->disks[0] || access(path, F_OK) < 0 ||
            strncmp(name, "sr", 2) == 0 || strncmp(name, "fd", 2) == 0 ||
            node_read_number("/sys/block/%s/hidden", name) == 1)
            continue;
        int64_t size = node_read_number("/sys/block/%s/size", name);
        if (size <= 0)
            continue;
        sectors += (uint64_t)size;
        snprintf(facts->disks[facts->disk_count++], sizeof facts->disks[0], "%.31s", name);
    }
    closedir(dir);
    qsort(facts->disks, facts->disk_count, sizeof facts->disks[0], compare_names);
    facts->disk_pages = (int64_t)(sectors * 512 / (uint64_t)facts->page_size);
}

void node_facts_read(struct node_facts *ret_facts)
{
    struct node_facts *facts = ret_facts;
    memset(facts, 0, sizeof *facts);
    uname(&facts->system);
    _cleanup_(freep) char *stat = NULL;
    facts->boot_time = file_read("/proc/stat", &stat, NULL) == 0 ? node_find_number(stat, "btime") : -1;
    facts->cpus = count_processors();
    facts->max_processes = max_processes();
    facts->cpu_mhz = processor_mhz();
    facts->page_size = sysconf(_SC_PAGESIZE);

    /* Memory that the kernel can use: a little less than is plugged in. */
    char text[4096] = "";
    node_read_text(text, sizeof text, "/proc/meminfo");
    int64_t total_kb = node_find_number(text, "MemTotal"), swap_kb = node_find_number(text, "SwapTotal");
    facts->pages = total_kb < 0 ? -1 : total_kb * 1024 / facts->page_size;
    facts->swap_pages = swap_kb < 0 ? -1 : swap_kb * 1024 / facts->page_size;

    read_disks(facts);
    struct statvfs tmp;
    facts->tmp_pages =
        statvfs("/tmp", &tmp) == 0 ? (int64_t)((uint64_t)tmp.f_blocks * tmp.f_frsize / (uint64_t)facts->page_size) : -1;
    node_links_read(facts);
}
