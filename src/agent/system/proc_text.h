/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's files about processes in /proc, for code inside the target: only system calls, no allocation,
 * async-signal-safe, errno unchanged. (Outside there is base/system/proc_file.h.) A file takes the lowest free
 * descriptor for a moment; outside_read (agent/safety/read.h) avoids that.
 */
#ifndef SCRY_AGENT_SYSTEM_PROC_TEXT_H
#define SCRY_AGENT_SYSTEM_PROC_TEXT_H

#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/types.h>

#include "agent/system/sys.h"

enum { PROC_TEXT_PATH = 64 };

/* "/proc/PID/NAME"; pid 0: the caller's. The name has at most 20 characters. */
static inline void proc_text_path(char path[PROC_TEXT_PATH], pid_t pid, const char *name)
{
    char digits[16];
    int count = 0, at = 0;
    for (const char *p = pid ? "/proc/" : "/proc/self"; *p; p++)
        path[at++] = *p;
    for (unsigned n = (unsigned)pid; n; n /= 10)
        digits[count++] = (char)('0' + n % 10);
    while (count)
        path[at++] = digits[--count];
    for (path[at++] = '/'; *name; name++)
        path[at++] = *name;
    path[at] = '\0';
}

/* The beginning of it, ended by a NUL; "": it cannot be read. */
static inline void proc_text_read(pid_t pid, const char *name, char *ret_text, size_t size)
{
    char path[PROC_TEXT_PATH];
    proc_text_path(path, pid, name);
    long fd = sys_call4(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0);
    long got = fd < 0 ? fd : sys_call4(SYS_read, fd, (long)ret_text, (long)(size - 1), 0);
    if (fd >= 0)
        sys_call2(SYS_close, fd, 0);
    ret_text[got < 0 ? 0 : got] = '\0';
}

/* Moves behind it. */
static inline uint64_t proc_text_number(const char **text, unsigned base)
{
    uint64_t value = 0;
    for (;; (*text)++) {
        unsigned digit = (unsigned)(**text - '0');
        if (digit > 9)
            digit = (unsigned)(**text - 'a') <= 5 ? (unsigned)(**text - 'a') + 10 : 99;
        if (digit >= base)
            return value;
        value = value * base + digit;
    }
}

/* A field of the line in `stat`, by its number in proc(5), from the third on: the second is in parentheses and may hold
 * anything, they included. "": there is none. */
static inline const char *proc_text_stat(const char *line, int field)
{
    const char *at = "";
    for (const char *p = line; *p; p++)
        if (*p == ')')
            at = p;
    for (int i = 2; i < field && *at; i++) {
        while (*at && *at != ' ')
            at++;
        at += *at == ' ';
    }
    return at;
}

/* What `maps` of the caller says of an address: PROT_... bits, and from where to where that is; -1: nothing is there.
 * `buffer` to read it in, of any size. */
static inline int proc_text_mapping(uint64_t address, char *buffer, size_t size, uint64_t *ret_low, uint64_t *ret_high)
{
    long fd = sys_call4(SYS_openat, AT_FDCWD, (long)"/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
    int protection = -1, bits = 0;
    uint64_t low = 0, high = 0;
    enum { LOW, HIGH, BITS, REST } at = LOW;
    for (long got; fd >= 0 && protection < 0 && (got = sys_call4(SYS_read, fd, (long)buffer, (long)size, 0)) > 0;) {
        for (long i = 0; i < got && protection < 0; i++) {
            char c = buffer[i];
            unsigned digit = c >= '0' && c <= '9' ? (unsigned)(c - '0') : (unsigned)(c - 'a' + 10);
            if (c == '\n') {
                at = LOW;
                low = high = 0;
            } else if (at == LOW && c == '-') {
                at = HIGH;
            } else if (at == LOW) {
                low = low << 4 | digit;
            } else if (at == HIGH && c == ' ') {
                at = BITS;
                bits = 0;
            } else if (at == HIGH) {
                high = high << 4 | digit;
            } else if (at == BITS && c == ' ') {
                at = REST;
                if (address >= low && address < high)
                    protection = bits;
            } else if (at == BITS) {
                bits |= c == 'r' ? PROT_READ : c == 'w' ? PROT_WRITE : c == 'x' ? PROT_EXEC : 0;
            }
        }
    }
    if (fd >= 0)
        sys_call2(SYS_close, fd, 0);
    *ret_low = low;
    *ret_high = high;
    return protection;
}

#endif
