/* SPDX-License-Identifier: Apache-2.0 */
#include "job/scripts/shell.h"

#include "base/system/proc_file.h"
#include "symbols/python/python.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { BASH_FD = 255, DASH_FD = 10, DASH_FD_LAST = 19, ARGUMENTS = 4096, FDINFO = 512 };

static const char deleted[] = " (deleted)";

/* Returns its length. */
static size_t read_link(const char *link, char *ret_path, size_t size)
{
    ssize_t len = readlink(link, ret_path, size - 1);
    len = len < 0 ? 0 : len;
    ret_path[len] = 0;
    return (size_t)len;
}

static size_t without_deleted(char *path, size_t len)
{
    size_t mark = sizeof deleted - 1;
    if (len > mark && strcmp(path + len - mark, deleted) == 0)
        path[len -= mark] = 0;
    return len;
}

static enum shell_kind kind_of(pid_t pid)
{
    char link[PROC_PATH_SIZE], program[PATH_MAX];
    proc_path(link, pid, 0, "exe");
    without_deleted(program, read_link(link, program, sizeof program));
    const char *slash = strrchr(program, '/'), *name = slash ? slash + 1 : program;
    if (strncmp(name, "bash", 4) == 0 || strcmp(name, "rbash") == 0)
        return SHELL_BASH;
    return strcmp(name, "dash") == 0 ? SHELL_DASH : SHELL_NONE;
}

enum shell_source shell_source_of(const char *args, size_t len, const char **ret_text)
{
    const char *end = args + len, *arg = args + strnlen(args, len) + 1;
    bool commands = false;
    *ret_text = NULL;
    for (; arg < end; arg += strnlen(arg, (size_t)(end - arg)) + 1) {
        bool is_long = strncmp(arg, "--", 2) == 0;
        if ((*arg != '-' && *arg != '+') || strcmp(arg, "-") == 0 || strcmp(arg, "--") == 0) {
            if (*arg == '-')
                arg += strlen(arg) + 1;
            *ret_text = arg < end ? arg : NULL;
            return commands ? SHELL_FROM_OPTION : *ret_text ? SHELL_FROM_FILE : SHELL_FROM_INPUT;
        }
        commands |= !is_long && *arg == '-' && strchr(arg, 'c');
        if (!commands && !is_long && *arg == '-' && strchr(arg, 's'))
            return SHELL_FROM_INPUT;
        if (strcmp(arg, "--rcfile") == 0 || strcmp(arg, "--init-file") == 0 ||
            (!is_long && (strchr(arg, 'o') || strchr(arg, 'O'))))
            arg += strnlen(arg, (size_t)(end - arg)) + 1; /* the next one is its value */
        if (arg >= end)
            break;
    }
    return commands ? SHELL_FROM_OPTION : SHELL_FROM_INPUT;
}

void shell_fd_path(char path[SHELL_FD_PATH], pid_t pid, int fd)
{
    snprintf(path, SHELL_FD_PATH, "/proc/%d/fd/%d", pid, fd);
}

/* Flags are as of open(2). */
static bool read_fdinfo(pid_t pid, int fd, uint64_t *ret_position, unsigned *ret_flags)
{
    char name[32], text[FDINFO];
    snprintf(name, sizeof name, "fdinfo/%d", fd);
    if (proc_file_read(pid, 0, name, text, sizeof text, &(size_t){0}) < 0)
        return false;
    const char *flags = strstr(text, "\nflags:");
    *ret_position = proc_field(text, "pos");
    *ret_flags = flags ? (unsigned)strtoul(flags + strlen("\nflags:"), NULL, 8) : 0;
    return flags != NULL;
}

bool shell_position(pid_t pid, int fd, struct stat *ret_stat, uint64_t *ret_position)
{
    char path[SHELL_FD_PATH];
    unsigned flags;
    shell_fd_path(path, pid, fd);
    return read_fdinfo(pid, fd, ret_position, &flags) && (flags & O_ACCMODE) == O_RDONLY &&
           (fd == 0 || flags & O_CLOEXEC) && stat(path, ret_stat) == 0 && S_ISREG(ret_stat->st_mode);
}

struct shell_script shell_find(pid_t pid)
{
    struct shell_script script = {kind_of(pid), -1};
    struct stat stat;
    uint64_t position;
    char args[ARGUMENTS];
    size_t len = 0;
    if (script.kind == SHELL_NONE)
        return script;
    if (script.kind == SHELL_BASH) {
        struct rlimit files = {.rlim_cur = RLIM_INFINITY};
        int fd = BASH_FD;
        if (prlimit(pid, RLIMIT_NOFILE, NULL, &files) == 0 && files.rlim_cur <= (rlim_t)BASH_FD)
            fd = (int)files.rlim_cur - 1;
        if (shell_position(pid, fd, &stat, &position)) {
            script.fd = fd;
            return script;
        }
    }
    if (proc_file_read(pid, 0, "cmdline", args, sizeof args, &len) < 0 || len == 0)
        return script;
    enum shell_source source = shell_source_of(args, len, &(const char *){NULL});
    if (source == SHELL_FROM_INPUT && shell_position(pid, 0, &stat, &position))
        script.fd = 0;
    for (int fd = DASH_FD; source == SHELL_FROM_FILE && script.kind == SHELL_DASH && fd <= DASH_FD_LAST; fd++)
        if (script.fd < 0 && shell_position(pid, fd, &stat, &position))
            script.fd = fd;
    return script;
}

void shell_script_path(pid_t pid, int fd, const struct stat *stat, char *ret_path, size_t size)
{
    char link[SHELL_FD_PATH];
    shell_fd_path(link, pid, fd);
    size_t len = read_link(link, ret_path, size);
    if (stat->st_nlink == 0)
        without_deleted(ret_path, len);
}

enum { PAGE = 4096, LINE_BYTES = 1024 };

static uint64_t program_base(pid_t pid)
{
    char link[PROC_PATH_SIZE], path[PATH_MAX];
    proc_path(link, pid, 0, "exe");
    ssize_t len = readlink(link, path, sizeof path - 1);
    struct proc_maps maps;
    uint64_t base = 0;
    if (len < 0 || proc_maps_read(pid, &maps) < 0)
        return 0;
    path[len] = 0;
    for (size_t i = 0; i < maps.count && !base; i++)
        if (maps.maps[i].offset == 0 && strcmp(maps.maps[i].path, path) == 0)
            base = maps.maps[i].start;
    proc_maps_done(&maps);
    return base;
}

void shell_memory_find(struct shell_memory *ret_memory, pid_t pid)
{
    *ret_memory = (struct shell_memory){.known = false};
    struct python_memory memory = python_memory_of(&pid);
    struct exports exports;
    uint64_t base = program_base(pid);
    if (!base || exports_open(&exports, &memory, base) < 0)
        return;
    ret_memory->line = exports_find(&exports, "line_number_for_err_trap");
    ret_memory->depth = exports_find(&exports, "variable_context");
    ret_memory->sourced = exports_find(&exports, "sourcelevel");
    ret_memory->function = exports_find(&exports, "this_shell_function");
    ret_memory->printed = exports_find(&exports, "the_printed_command_except_trap");
    ret_memory->known =
        ret_memory->line && ret_memory->depth && ret_memory->sourced && ret_memory->function && ret_memory->printed;
}

static bool read_text(const struct python_memory *memory, uint64_t address, char ret_text[SHELL_TEXT])
{
    size_t size = SHELL_TEXT - 1, first = PAGE - address % PAGE;
    first = first < size ? first : size;
    memset(ret_text, 0, SHELL_TEXT);
    if (!address || python_get(memory, address, ret_text, first) < 0)
        return false;
    return memchr(ret_text, 0, first) || first == size ||
           python_get(memory, address + first, ret_text + first, size - first) == 0;
}

struct words {
    int32_t line, depth, sourced, unused; /* no holes: they are compared as bytes */
    uint64_t function, printed;
};

static bool read_words(const struct shell_memory *at, const struct python_memory *memory, struct words *ret_words)
{
    memset(ret_words, 0, sizeof *ret_words);
    const struct python_part parts[] = {
        {at->line, &ret_words->line, sizeof ret_words->line},
        {at->depth, &ret_words->depth, sizeof ret_words->depth},
        {at->sourced, &ret_words->sourced, sizeof ret_words->sourced},
        {at->function, &ret_words->function, sizeof ret_words->function},
        {at->printed, &ret_words->printed, sizeof ret_words->printed},
    };
    return memory->read(memory->ctx, parts, sizeof parts / sizeof *parts) == 0;
}

static bool read_now(const struct python_memory *memory, const struct words *words, struct shell_now *ret_now)
{
    uint64_t name;
    if (words->line <= 0 || words->depth < 0 || words->sourced < 0 ||
        !read_text(memory, words->printed, ret_now->command))
        return false;
    ret_now->function[0] = 0;
    if (words->depth && (!words->function || python_get(memory, words->function, &name, sizeof name) < 0 ||
                         !read_text(memory, name, ret_now->function)))
        return false;
    ret_now->line = (uint32_t)words->line;
    ret_now->depth = (uint32_t)words->depth;
    ret_now->sourced = (uint32_t)words->sourced;
    return true;
}

int shell_memory_read(const struct shell_memory *at, pid_t pid, struct shell_now *ret_now)
{
    struct python_memory memory = python_memory_of(&pid);
    struct words words, again;
    if (!at->known)
        return -EAGAIN;
    if (!read_words(at, &memory, &words))
        return -ESRCH;
    bool whole = read_now(&memory, &words, ret_now);
    if (!read_words(at, &memory, &again))
        return -ESRCH;
    return whole && memcmp(&words, &again, sizeof words) == 0 ? 0 : -EAGAIN;
}

/* With one blank for any blanks, and without line ends that a backslash removes. Returns the length. */
static size_t squeeze(char *out, size_t size, const char *from, size_t len)
{
    size_t used = 0;
    for (size_t i = 0; i < len && used < size - 1; i++) {
        if (from[i] == '\\' && i + 1 < len && from[i + 1] == '\n') {
            i++;
            continue;
        }
        bool blank = from[i] == ' ' || from[i] == '\t';
        if (!blank || (used && out[used - 1] != ' '))
            out[used++] = blank ? ' ' : from[i];
    }
    out[used] = 0;
    return used;
}

/* Can a command begin here in the line? */
static bool may_begin(const char *line, const char *at)
{
    static const char *const before[] = {"then", "do", "else", "elif", "if", "while", "until", "time"};
    const char *end = at;
    while (end > line && end[-1] == ' ')
        end--;
    if (end == line || strchr(";|&({`!)", end[-1]))
        return true;
    const char *word = end;
    while (word > line && word[-1] != ' ')
        word--;
    size_t len = (size_t)(end - word);
    for (size_t i = 0; end < at && i < sizeof before / sizeof *before; i++)
        if (strlen(before[i]) == len && memcmp(word, before[i], len) == 0)
            return true;
    return end < at && memchr(word, '=', len); /* a variable for the command */
}

bool shell_now_fits(const struct shell_now *now, const struct script_source *text)
{
    char wanted[SHELL_TEXT], there[LINE_BYTES];
    if (now->line == 0 || now->line > text->line_count)
        return false;
    /* bash prints redirections in its own way */
    size_t len = squeeze(wanted, sizeof wanted, now->command, strcspn(now->command, "<>&\n"));
    bool cut = now->command[strcspn(now->command, "<>&\n")] != 0;
    while (len && ((cut && wanted[len - 1] >= '0' && wanted[len - 1] <= '9') || wanted[len - 1] == ' '))
        wanted[--len] = 0;
    size_t start = text->lines[now->line - 1], rest = text->len - start;
    squeeze(there, sizeof there, text->text + start, rest < sizeof there ? rest : sizeof there);
    size_t line = strcspn(there, "\n");
    for (const char *at = there; len && (at = strstr(at, wanted)) && at <= there + line; at++)
        if (may_begin(there, at) && strchr(" ;|&)}`\n<>0123456789", at[len]))
            return true;
    return false;
}
