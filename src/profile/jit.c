/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of code that programs make while they run. Node (--perf-basic-prof), Java (jcmd PID Compiler.perfmap), Julia and others write
 * them to /tmp/perf-PID.map, as perf(1) reads it: a line "START SIZE NAME" each, with hexadecimal numbers; PID and /tmp are those of the
 * process, which may be in a container. The file is anybody's: it counts if it belongs to the process's user or root, is a plain
 * file, and was written since the process began. It is read as it grows, when there is an address that is not in it.
 *
 * Java writes it at its end, too (-XX:+DumpPerfMapAtExit). Who asks for that gets a function for each piece of code, and these their
 * names then.
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
#include "probe/proc.h"
#include "shm/waits.h"

enum {
    CODES_MOST = 1 << 18,     /* of a process */
    BYTES_MOST = 32 << 20,    /* of the file, */
    ALL_BYTES_MOST = 1 << 27, /* and of all files together */
    NAME_MOST = 400,
    NESTING = 16, /* code that lies over older code, which nobody has said is gone */
    LATE_MOST = 1 << 12,
    LATE_PIECE = 64, /* less code than that has no function of its own */
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
    struct {
        bool known, wanted;
        int tmp; /* where the map will be, when the process is gone; -1 */
        struct jit_late {
            uint64_t piece, address;
            struct profile_code *code;
            UT_hash_handle hh;
        } * codes;
    } late;
    pid_t number; /* that the process has for itself */
    uid_t uid;
    time_t began;
};

static size_t all_bytes; /* of all of them */

static struct jit *jit_new(void)
{
    struct jit *jit = calloc(1, sizeof *jit);
    if (jit)
        jit->late.tmp = -1;
    return jit;
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

static int tmp_open(pid_t pid)
{
    char path[PROC_PATH_SIZE];
    proc_path(path, pid, 0, "root/tmp");
    return open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* What is to be known of the process when it is gone. */
static void late_look(struct jit *jit, pid_t pid)
{
    static const char words[] = "+DumpPerfMapAtExit";
    _cleanup_(buf_done) struct buf said = BUF_INIT; /* to it: arguments, environment */
    proc_cmdline(pid, &said);
    proc_environ(pid, &said);
    jit->late.known = true;
    jit->late.wanted = said.len && memmem(said.data, said.len, words, sizeof words - 1);
    jit->late.tmp = jit->late.wanted ? tmp_open(pid) : -1;
}

/* -1: there is none. */
static int map_open(struct jit *jit, pid_t pid, struct stat *ret_stat)
{
    char path[PROC_PATH_SIZE], name[32];
    struct stat process;
    _cleanup_(closep) int own = jit->late.tmp < 0 ? tmp_open(pid) : -1;
    const int tmp = jit->late.tmp < 0 ? own : jit->late.tmp;
    proc_path(path, pid, 0, "");
    if (!jit->began && stat(path, &process) == 0) {
        jit->number = own_number(pid);
        jit->uid = process.st_uid;
        jit->began = began_at(pid);
    }
    snprintf(name, sizeof name, "perf-%d.map", jit->number);
    int fd = tmp < 0 || !jit->began ? -1 : file_open_own(tmp, name, O_RDONLY);
    if (fd < 0)
        return -1;
    if (fstat(fd, ret_stat) == 0 && ret_stat->st_mtime >= jit->began &&
        (ret_stat->st_uid == jit->uid || ret_stat->st_uid == 0))
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
    _cleanup_(closep) int fd = map_open(jit, pid, &st);
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

/* What a name in the map says; `buffers` are the texts'. */
static struct profile_function function_named(const char *text, char buffers[2][NAME_MOST])
{
    struct profile_function is = {.function = buffers[0], .file = buffers[1], .language = "javascript"};
    if (!jit_name_split(text, buffers[0], buffers[1], NAME_MOST, &is.line)) {
        snprintf(buffers[0], NAME_MOST, "%s", text);
        is.file = "";
        is.language = "jit";
    }
    return is;
}

/* One that has its name later. NULL: there is none. */
static const struct profile_code *late_code(struct profile *profile, struct jit *jit, pid_t pid, uint64_t address,
                                            const struct profile_function *until)
{
    if (!jit->late.known)
        late_look(jit, pid);
    if (!jit->late.wanted || jit->off)
        return NULL;
    struct jit_late *late;
    const uint64_t piece = address / LATE_PIECE;
    HASH_FIND(hh, jit->late.codes, &piece, sizeof piece, late);
    if (late || HASH_COUNT(jit->late.codes) >= LATE_MOST || !(late = calloc(1, sizeof *late)))
        return late ? late->code : NULL;
    *late = (struct jit_late){.piece = piece, .address = address, .code = profile_code_apart(profile, until)};
    HASH_ADD(hh, jit->late.codes, piece, sizeof late->piece, late);
    return late->code;
}

const struct profile_code *jit_find(struct profile *profile, struct image_process *process, uint64_t address)
{
    struct jit *jit = process->jit ? process->jit : (process->jit = jit_new());
    const struct jit_code *code = jit ? code_at(jit, address) : NULL;
    const uint64_t now = clock_now_ns();
    char buffers[2][NAME_MOST];
    if (jit && !code && !jit->off && now - jit->looked_ns >= PROFILE_MAP_NS) {
        jit->looked_ns = now;
        map_read(jit, process->pid);
        code = code_at(jit, address);
    }
    if (code) {
        const struct profile_function is = function_named(jit->text.data + code->name, buffers);
        return profile_code(profile, &is);
    }
    snprintf(buffers[0], NAME_MOST, "[JIT of %s]", process->name);
    const struct profile_function is = {.function = buffers[0], .file = "", .language = "jit"};
    const struct profile_code *late = jit ? late_code(profile, jit, process->pid, address, &is) : NULL;
    return late ? late : profile_code(profile, &is);
}

void jit_free(struct jit *jit)
{
    char buffers[2][NAME_MOST];
    struct jit_late *late, *next;
    if (!jit)
        return;
    if (jit->late.codes)
        map_read(jit, 0); /* the process may be gone */
    HASH_ITER(hh, jit->late.codes, late, next)
    {
        const struct jit_code *code = late->code ? code_at(jit, late->address) : NULL;
        if (code) {
            const struct profile_function is = function_named(jit->text.data + code->name, buffers);
            profile_code_name(late->code, &is);
        }
        HASH_DEL(jit->late.codes, late);
        free(late);
    }
    all_bytes -= jit->text.len;
    buf_done(&jit->text);
    free(jit->codes);
    closep(&jit->late.tmp);
    free(jit);
}

bool jit_is_in(const struct image_file *file)
{
    return !file->cfi &&
           (*file->path != '/' || strncmp(file->path, "//anon", 6) == 0 || strncmp(file->path, "/memfd:", 7) == 0) &&
           strcmp(file->path, "[vsyscall]") != 0 && strcmp(file->path, "[uprobes]") != 0;
}
