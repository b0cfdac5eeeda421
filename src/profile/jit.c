/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of code that programs make while they run. Node (--perf-basic-prof), Java (jcmd PID Compiler.perfmap), Julia and others write
 * them to /tmp/perf-PID.map, as perf(1) reads it: a line "START SIZE NAME" each, with hexadecimal numbers; PID and /tmp are those of the
 * process, which may be in a container. The file is anybody's: it counts if it belongs to the process's user or root, is a plain
 * file, and was written since the process began. It is read as it grows, when there is an address that is not in it.
 */
#include "profile/profile.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "base/system/clock.h"
#include "base/system/file.h"
#include "base/system/proc_file.h"
#include "shm/waits.h"

enum {
    CODES_MOST = 1 << 18,     /* of a process */
    BYTES_MOST = 32 << 20,    /* of the file, */
    ALL_BYTES_MOST = 1 << 27, /* and of all files together */
    NAME_MOST = 400,
    NESTING = 16, /* code that lies over older code, which nobody has said is gone */
};

struct jit_code {
    uint64_t start;
    uint32_t size, name; /* name: where in the file's text */
    uint32_t order;      /* the last one that was written is what lies there now */
};

struct jit {
    struct jit_code *codes; /* by address, then order */
    size_t count, room;
    struct buf text; /* of the file, lines ended with NUL */
    size_t parsed;
    uint64_t looked_ns;
    ino_t inode;
    bool off; /* there was too much */
};

static size_t all_bytes; /* of all of them */

void jit_free(struct jit *jit)
{
    if (!jit)
        return;
    all_bytes -= jit->text.len;
    buf_done(&jit->text);
    free(jit->codes);
    free(jit);
}

/* Since when it may have written: a second is for clocks that are set. */
static time_t began_at(pid_t pid)
{
    struct proc_stat stat;
    struct timespec boot, real;
    long ticks = sysconf(_SC_CLK_TCK);
    if (proc_stat_of(pid, 0, &stat) < 0 || clock_gettime(CLOCK_BOOTTIME, &boot) < 0 ||
        clock_gettime(CLOCK_REALTIME, &real) < 0 || ticks <= 0)
        return 0;
    return real.tv_sec - boot.tv_sec + (time_t)(stat.start_ticks / (uint64_t)ticks) - 1;
}

/* The number that the process has for itself. */
static pid_t own_number(pid_t pid)
{
    char text[4096];
    if (proc_file_read(pid, 0, "status", text, sizeof text, NULL) < 0)
        return pid;
    const char *line = strstr(text, "\nNSpid:");
    size_t len = line ? strcspn(++line, "\n") : 0;
    while (len && isdigit((unsigned char)line[len - 1]))
        len--;
    return len && line[len] != '\n' ? (pid_t)strtol(line + len, NULL, 10) : pid;
}

/* -1: there is none. */
static int map_open(pid_t pid, struct stat *ret_stat)
{
    char path[PROC_PATH_SIZE], name[32];
    struct stat process;
    proc_path(path, pid, 0, "root/tmp");
    _cleanup_(closep) int tmp = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    snprintf(name, sizeof name, "perf-%d.map", own_number(pid));
    int fd = tmp < 0 ? -1 : file_open_own(tmp, name, O_RDONLY);
    proc_path(path, pid, 0, "");
    if (fd < 0)
        return -1;
    if (fstat(fd, ret_stat) == 0 && stat(path, &process) == 0 && ret_stat->st_mtime >= began_at(pid) &&
        (ret_stat->st_uid == process.st_uid || ret_stat->st_uid == 0))
        return fd;
    close(fd);
    return -1;
}

static int by_start(const void *a, const void *b)
{
    const struct jit_code *left = a, *right = b;
    if (left->start != right->start)
        return left->start < right->start ? -1 : 1;
    return left->order < right->order ? -1 : left->order > right->order;
}

/* Of those that begin at the same address the last one stays. */
static void codes_sort(struct jit *jit)
{
    size_t kept = 0;
    if (jit->count)
        qsort(jit->codes, jit->count, sizeof *jit->codes, by_start);
    for (size_t i = 0; i < jit->count; i++)
        if (i + 1 == jit->count || jit->codes[i + 1].start != jit->codes[i].start)
            jit->codes[kept++] = jit->codes[i];
    jit->count = kept;
}

static void line_take(struct jit *jit, char *line, uint32_t order)
{
    char *end;
    errno = 0;
    unsigned long long start = isxdigit((unsigned char)*line) ? strtoull(line, &end, 16) : 0;
    if (!start || errno || *end != ' ' || !isxdigit((unsigned char)end[1]))
        return;
    unsigned long long size = strtoull(end + 1, &end, 16);
    if (errno || *end != ' ' || !end[1] || !size || size > UINT32_MAX)
        return;
    jit->off |= jit->count >= CODES_MOST;
    if (!jit->off && GROW(jit->codes, jit->count, jit->room))
        jit->codes[jit->count++] =
            (struct jit_code){start, (uint32_t)size, (uint32_t)(end + 1 - jit->text.data), order};
}

/* Whole lines; what is behind the last one is read again. */
static void lines_take(struct jit *jit)
{
    char *newline;
    const size_t before = jit->count;
    uint32_t order = (uint32_t)jit->parsed; /* where a line begins says when it was written */
    while (!jit->off && (newline = memchr(jit->text.data + jit->parsed, '\n', jit->text.len - jit->parsed))) {
        char *line = jit->text.data + jit->parsed;
        *newline = '\0';
        jit->parsed = (size_t)(newline + 1 - jit->text.data);
        line_take(jit, line, order);
        order = (uint32_t)jit->parsed;
    }
    if (jit->count != before) /* an address that no line has is looked for again and again */
        codes_sort(jit);
}

/* What was read last is still there: Java writes all of it anew, others go on. */
static bool map_goes_on(const struct jit *jit, int fd)
{
    char bytes[256];
    size_t len = jit->text.len < sizeof bytes ? jit->text.len : sizeof bytes;
    const char *last = len ? jit->text.data + jit->text.len - len : NULL;
    if (pread(fd, bytes, len, (off_t)(jit->text.len - len)) != (ssize_t)len)
        return false;
    for (size_t i = 0; i < len; i++)
        if (bytes[i] != (last[i] ? last[i] : '\n'))
            return false;
    return true;
}

static void map_read(struct jit *jit, pid_t pid)
{
    struct stat st;
    _cleanup_(closep) int fd = map_open(pid, &st);
    if (fd < 0)
        return;
    if (st.st_ino != jit->inode || !map_goes_on(jit, fd)) {
        all_bytes -= jit->text.len;
        buf_clear(&jit->text);
        jit->count = jit->parsed = 0;
        jit->inode = st.st_ino;
    }
    for (ssize_t got = 1; got > 0 && !jit->off;) {
        char bytes[16384];
        got = pread(fd, bytes, sizeof bytes, (off_t)jit->text.len);
        if (got <= 0)
            break;
        jit->off = jit->text.len + (size_t)got > BYTES_MOST || all_bytes + (size_t)got > ALL_BYTES_MOST;
        if (!jit->off) {
            buf_append(&jit->text, bytes, (size_t)got);
            all_bytes += (size_t)got;
            jit->off = jit->text.failed;
        }
    }
    if (jit->text.len && !jit->text.failed)
        lines_take(jit);
}

static const struct jit_code *code_at(const struct jit *jit, uint64_t address)
{
    const struct jit_code *found = NULL;
    size_t behind = COUNT_BEFORE(jit->count, i, jit->codes[i].start <= address);
    for (size_t i = behind; i > 0 && behind - i < NESTING; i--) {
        const struct jit_code *code = &jit->codes[i - 1];
        if (address - code->start < code->size && (!found || code->order > found->order))
            found = code;
    }
    return found;
}

/* Takes ":12" off its end. */
static bool number_off(struct span *inout_text, uint32_t *ret_number)
{
    size_t len = inout_text->len;
    uint64_t number = 0, unit = 1;
    while (len && isdigit((unsigned char)inout_text->ptr[len - 1]) && unit < UINT32_MAX) {
        number += unit * (uint64_t)(inout_text->ptr[--len] - '0');
        unit *= 10;
    }
    if (len == inout_text->len || !len || inout_text->ptr[len - 1] != ':' || number > UINT32_MAX)
        return false;
    inout_text->len = len - 1;
    *ret_number = (uint32_t)number;
    return true;
}

bool jit_name_split(const char *text, char *ret_function, char *ret_file, size_t size, uint32_t *ret_line)
{
    static const char *const kinds[] = {"JS:", "LazyCompile:", "Function:", "Eval:", "Script:"};
    static const char tiers[] = "~^+*='";
    struct span rest = {NULL, 0};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strncmp(text, kinds[i], strlen(kinds[i])) == 0)
            rest = span_str(text + strlen(kinds[i]));
    if (!rest.ptr)
        return false;
    while (rest.len && strchr(tiers, *rest.ptr)) /* by which of its compilers */
        rest = span_of(rest.ptr + 1, rest.len - 1);
    *ret_line = 0;
    if (number_off(&rest, ret_line)) /* most have a column behind it */
        number_off(&rest, ret_line);
    const char *blank = memchr(rest.ptr, ' ', rest.len);
    size_t name = blank ? (size_t)(blank - rest.ptr) : rest.len;
    const char *file = blank ? blank + 1 : "";
    size_t file_len = blank ? rest.len - name - 1 : 0;
    static const char scheme[] = "file://";
    if (file_len >= sizeof scheme && strncmp(file, scheme, sizeof scheme - 1) == 0) {
        file += sizeof scheme - 1;
        file_len -= sizeof scheme - 1;
    }
    snprintf(ret_function, size, "%.*s", name ? (int)name : (int)strlen("(anonymous)"),
             name ? rest.ptr : "(anonymous)");
    snprintf(ret_file, size, "%.*s", (int)file_len, file);
    return true;
}

static const struct profile_code *code_named(struct profile *profile, const char *text)
{
    char function[NAME_MOST], file[NAME_MOST];
    struct profile_function is = {.function = function, .file = file, .language = "javascript"};
    if (!jit_name_split(text, function, file, NAME_MOST, &is.line)) {
        snprintf(function, sizeof function, "%s", text);
        is.file = "";
        is.language = "jit";
    }
    return profile_code(profile, &is);
}

const struct profile_code *jit_find(struct profile *profile, struct image_process *process, uint64_t address)
{
    struct jit *jit = process->jit ? process->jit : (process->jit = calloc(1, sizeof *jit));
    const struct jit_code *code = jit ? code_at(jit, address) : NULL;
    const uint64_t now = clock_now_ns();
    if (jit && !code && !jit->off && now - jit->looked_ns >= PROFILE_MAP_NS) {
        jit->looked_ns = now;
        map_read(jit, process->pid);
        code = code_at(jit, address);
    }
    if (code)
        return code_named(profile, jit->text.data + code->name);
    char name[64];
    snprintf(name, sizeof name, "[JIT of %s]", process->name);
    return profile_code(profile, &(struct profile_function){.function = name, .file = "", .language = "jit"});
}

bool jit_is_in(const struct image_file *file)
{
    return !file->cfi &&
           (*file->path != '/' || strncmp(file->path, "//anon", 6) == 0 || strncmp(file->path, "/memfd:", 7) == 0) &&
           strcmp(file->path, "[vsyscall]") != 0 && strcmp(file->path, "[uprobes]") != 0;
}
