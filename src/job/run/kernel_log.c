/* SPDX-License-Identifier: Apache-2.0 */
#include "job/run/kernel_log.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "jobdir/text/text.h"

enum {
    PAGE = 4096,
    RECORD = 8192, /* bytes of a log record, at most */
    RECORDS_MOST = 100000,
    NAME_MOST = 15, /* of a thread */
    SEGMENTS_MOST = 64,
    CODE_LEAST = 8, /* bytes that are the same: those of a function's begin are so in many files */
};

/* The inode of the initial PID namespace (PROC_PID_INIT_INO), whose numbers the log has. */
static const uint64_t INITIAL_NAMESPACE = 0xEFFFFFFC;

/* ---- a line ---- */

static void take_name(struct logged *logged, const char *from, const char *to)
{
    snprintf(logged->name, sizeof logged->name, "%.*s", (int)(to - from), from);
}

/* "NAME[PID" up to `at`, and no more: anybody may give a process, or a file that the line names, a name that looks like another line. */
static bool take_process(struct logged *logged, const char *line, const char *at)
{
    const char *number = at;
    while (number > line && number[-1] >= '0' && number[-1] <= '9')
        number--;
    if (number == at || number == line || number[-1] != '[' || number - 1 - line > NAME_MOST)
        return false;
    take_name(logged, line, number - 1);
    logged->pid = (pid_t)strtol(number, NULL, 10);
    return true;
}

/* " in FILE[OFFSET,START+SIZE]" of newer kernels, " in FILE[START+SIZE]" of others, up to `end`; a file's name may have all of that. */
static void take_file(struct logged *logged, const char *at, const char *end)
{
    static const char in[] = " in ";
    const char *open = end;
    if (strncmp(at, in, sizeof in - 1) != 0)
        return;
    at += sizeof in - 1;
    while (open > at && *open != '[')
        open--;
    size_t len = (size_t)(open - at);
    int used = 0;
    if (open <= at || len >= sizeof logged->file)
        return;
    logged->has_offset = sscanf(open, "[%" SCNx64 ",%" SCNx64 "+%" SCNx64 "]%n", &logged->offset, &logged->start,
                                &logged->size, &used) == 3 &&
                         used;
    bool old = !logged->has_offset &&
               sscanf(open, "[%" SCNx64 "+%" SCNx64 "]%n", &logged->start, &logged->size, &used) == 2 && used;
    if ((logged->has_offset || old) && logged->ip - logged->start < logged->size)
        snprintf(logged->file, sizeof logged->file, "%.*s", (int)len, at);
}

static bool take_segfault(struct logged *logged, const char *line, const char *end)
{
    static const char fault[] = "]: segfault at ";
    int used = 0;
    const char *at = strstr(line, fault);
    if (!at || at >= end || !take_process(logged, line, at))
        return false;
    at += strlen(fault);
    logged->signo = SIGSEGV;
    logged->addressed = true;
    if (sscanf(at, "%" SCNx64 " ip %" SCNx64 " sp %" SCNx64 " error %" SCNx32 "%n", &logged->address, &logged->ip,
               &logged->sp, &logged->error, &used) != 4 ||
        !used || at + used > end)
        return false;
    take_file(logged, at + used, end);
    return true;
}

static bool take_trap(struct logged *logged, const char *line, const char *end)
{
    static const char traps[] = "traps: ";
    static const struct {
        const char *text;
        int signo;
    } rows[] = {{"] trap divide error ip:", SIGFPE},
                {"] trap invalid opcode ip:", SIGILL},
                {"] trap int3 ip:", SIGTRAP},
                {"] general protection fault ip:", SIGSEGV},
                {"] general protection ip:", SIGSEGV}};
    if (strncmp(line, traps, sizeof traps - 1) != 0)
        return false;
    line += sizeof traps - 1;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int used = 0;
        const char *at = strstr(line, rows[i].text);
        if (!at || at >= end || !take_process(logged, line, at))
            continue;
        at += strlen(rows[i].text);
        logged->signo = rows[i].signo;
        if (sscanf(at, "%" SCNx64 " sp:%" SCNx64 " error:%" SCNx32 "%n", &logged->ip, &logged->sp, &logged->error,
                   &used) != 3 ||
            !used || at + used > end)
            return false;
        take_file(logged, at + used, end);
        return true;
    }
    return false;
}

static bool take_killed(struct logged *logged, const char *line, const char *end)
{
    static const char cgroup[] = "Memory cgroup out of memory", all[] = "Out of memory", killed[] = ": Killed process ";
    const char *at = line;
    char *open;
    at += strncmp(at, cgroup, strlen(cgroup)) == 0 ? strlen(cgroup)
          : strncmp(at, all, strlen(all)) == 0     ? strlen(all)
                                                   : 0;
    if (at == line || strncmp(at, killed, strlen(killed)) != 0)
        return false;
    logged->signo = SIGKILL;
    logged->pid = (pid_t)strtol(at + strlen(killed), &open, 10);
    const char *close = strchr(open, ')');
    if (strncmp(open, " (", 2) != 0 || !close || close >= end)
        return false;
    take_name(logged, open + 2, close);
    return true;
}

bool logged_parse(struct logged *ret_logged, const char *line)
{
    static bool (*const takes[])(struct logged *, const char *, const char *) = {take_trap, take_segfault, take_killed};
    const char *end = line + strcspn(line, "\n");
    for (size_t i = 0; i < sizeof takes / sizeof *takes; i++) {
        *ret_logged = (struct logged){.pid = 0};
        if (takes[i](ret_logged, line, end))
            return true;
    }
    return false;
}

bool logged_parse_code(struct logged *logged, const char *line)
{
    static const char code[] = "Code: ";
    struct logged read = {.code_at = LOGGED_CODE};
    if (strncmp(line, code, sizeof code - 1) != 0)
        return false;
    for (line += sizeof code - 1; *line && *line != '\n' && read.code_count < LOGGED_CODE; line += *line == ' ') {
        unsigned byte;
        int used = 0;
        bool here = *line == '<';
        if (sscanf(line, here ? "<%2x>%n" : "%2x%n", &byte, &used) != 1 || !used)
            return false;
        if (here)
            read.code_at = read.code_count;
        read.code[read.code_count++] = (uint8_t)byte;
        line += used;
    }
    if (read.code_at >= read.code_count)
        return false;
    logged->code_count = read.code_count;
    logged->code_at = read.code_at;
    memcpy(logged->code, read.code, sizeof read.code);
    return true;
}

const char *logged_reason(const struct logged *logged)
{
    bool fetch = logged->addressed && (logged->error & LOGGED_FETCH) && logged->address == logged->ip;
    if (fetch)
        return logged->address < PAGE ? "a NULL pointer that was taken for a function" : "a jump to where no code is";
    if (logged->addressed && (logged->error & LOGGED_PRESENT) && (logged->error & LOGGED_WRITE))
        return "a write to memory that may only be read";
    if (logged->signo == SIGSEGV && !logged->addressed)
        return "probably a pointer with a value that no address has";
    return NULL;
}

/* ---- the log ---- */

static bool sees_numbers_of_log(void)
{
    struct stat info;
    return stat("/proc/self/ns/pid", &info) == 0 && info.st_ino == INITIAL_NAMESPACE;
}

/* The log's clock is not corrected as the monotonic one is: by how much they may differ after so long. */
static uint64_t log_clock_off(uint64_t up_ns)
{
    return NS_PER_SECOND / 10 + up_ns / 5000; /* 200 ppm */
}

static bool is_of_one(const struct logged *logged, const struct logged_thread *threads, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (logged->pid == threads[i].tid && (!threads[i].name || strcmp(logged->name, threads[i].name) == 0))
            return true;
    return false;
}

bool logged_find(struct logged *ret_logged, const struct logged_thread *threads, size_t count, uint64_t since_ns,
                 uint64_t until_ns)
{
    uint64_t off_ns = log_clock_off(clock_now_ns());
    char record[RECORD];
    bool found = false, coded = false;
    _cleanup_(closep) int fd = sees_numbers_of_log() ? open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC) : -1;
    for (int i = 0; fd >= 0 && i < RECORDS_MOST; i++) { /* a record each; EPIPE: some were overwritten meanwhile */
        ssize_t got = read(fd, record, sizeof record - 1);
        unsigned long long since_us;
        struct logged logged;
        if (got < 0 && errno == EPIPE)
            continue;
        if (got <= 0)
            break;
        record[got] = '\0';
        const char *text = strchr(record, ';');
        if (!text || sscanf(record, "%*u,%*u,%llu", &since_us) != 1)
            continue;
        uint64_t time_ns = since_us * 1000;
        text++;
        if (found && !coded && logged_parse_code(ret_logged, text)) {
            coded = true; /* others may have come between: then it is that of no file */
        } else if (time_ns + off_ns >= since_ns && (time_ns < off_ns || time_ns - off_ns <= until_ns) &&
                   logged_parse(&logged, text) && is_of_one(&logged, threads, count)) {
            *ret_logged = logged;
            found = true;
            coded = logged.signo != SIGSEGV || !logged.addressed;
        }
    }
    return found;
}

/* ---- the file ---- */

static uint64_t page_of(uint64_t address)
{
    return address & ~(uint64_t)(PAGE - 1);
}

/* Whether it is mapped from this segment, and what is added to addresses then. */
static bool is_in_segment(const struct logged *logged, const Elf64_Ehdr *header, const Elf64_Phdr *segment,
                          uint64_t *ret_bias)
{
    uint64_t low = page_of(segment->p_vaddr), high = page_of(segment->p_vaddr + segment->p_filesz + PAGE - 1), address;
    if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X))
        return false;
    if (logged->has_offset) {
        address = logged->offset - segment->p_offset + segment->p_vaddr;
        *ret_bias = logged->ip - address;
    } else {
        *ret_bias = logged->start - low;
        address = logged->ip - *ret_bias;
        if (high - low != logged->size)
            return false;
    }
    return address - segment->p_vaddr < segment->p_filesz && *ret_bias % PAGE == 0 &&
           (header->e_type == ET_DYN || (header->e_type == ET_EXEC && *ret_bias == 0));
}

/* The log's code that lies in the segment, and how much of it is that of the file. */
static bool has_code(const struct logged *logged, const Elf64_Phdr *segment, uint64_t bias, int fd)
{
    uint64_t first = logged->ip - logged->code_at - bias - segment->p_vaddr; /* in the segment, or before it */
    size_t same = 0;
    for (size_t i = 0; i < logged->code_count; i++) {
        uint8_t byte;
        if (first + i >= segment->p_filesz)
            continue;
        if (pread(fd, &byte, 1, (off_t)(segment->p_offset + first + i)) != 1 || byte != logged->code[i])
            return false;
        same++;
    }
    return same >= CODE_LEAST;
}

bool logged_is_of(const struct logged *logged, const char *path, uint64_t unchanged_ns, uint64_t *ret_bias,
                  uint8_t ret_instruction[LOGGED_INSTRUCTION])
{
    Elf64_Ehdr header;
    Elf64_Phdr segment;
    struct stat st;
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || !*logged->file || strcmp(text_base(path), logged->file) != 0 || fstat(fd, &st) < 0 ||
        !S_ISREG(st.st_mode) || pread(fd, &header, sizeof header, 0) != sizeof header ||
        memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_phentsize != sizeof segment)
        return false;
    uint64_t changed_ns = (uint64_t)st.st_ctim.tv_sec * NS_PER_SECOND + (uint64_t)st.st_ctim.tv_nsec;
    for (unsigned i = 0; i < header.e_phnum && i < SEGMENTS_MOST; i++) {
        off_t at = (off_t)(header.e_phoff + (uint64_t)i * sizeof segment);
        if (pread(fd, &segment, sizeof segment, at) != sizeof segment)
            return false;
        if (!is_in_segment(logged, &header, &segment, ret_bias))
            continue;
        if (logged->code_count ? !has_code(logged, &segment, *ret_bias, fd) : changed_ns >= unchanged_ns)
            return false;
        memset(ret_instruction, 0, LOGGED_INSTRUCTION);
        at = (off_t)(logged->ip - *ret_bias - segment.p_vaddr + segment.p_offset);
        return pread(fd, ret_instruction, LOGGED_INSTRUCTION, at) > 0;
    }
    return false;
}
