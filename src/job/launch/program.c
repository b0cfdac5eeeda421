/* SPDX-License-Identifier: Apache-2.0 */
/* File formats: elf(5). Loading: ld.so(8). */
#include "job/launch/program.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "jobdir/text/text.h"
#include "symbols/index/index.h"

enum { SEGMENTS = 64, DYNAMIC_ENTRIES = 4096, STRING_LIMIT = 1024 };

struct elf {
    int fd;
    Elf64_Ehdr head;
    Elf64_Phdr segments[SEGMENTS];
    size_t count;
};

static bool read_at(int fd, void *into, size_t size, uint64_t offset)
{
    return offset <= INT64_MAX && pread(fd, into, size, (off_t)offset) == (ssize_t)size;
}

/* Reads a string of the file, cut at the end of the file. */
static bool read_string(int fd, char *into, size_t size, uint64_t offset)
{
    ssize_t got = offset <= INT64_MAX ? pread(fd, into, size - 1, (off_t)offset) : -1;
    if (got <= 0)
        return false;
    into[got] = 0;
    return true;
}

static const Elf64_Phdr *segment(const struct elf *elf, uint32_t type)
{
    for (size_t i = 0; i < elf->count; i++)
        if (elf->segments[i].p_type == type)
            return &elf->segments[i];
    return NULL;
}

static bool read_segments(struct elf *elf)
{
    elf->count = elf->head.e_phnum < SEGMENTS ? elf->head.e_phnum : SEGMENTS;
    return elf->head.e_phentsize == sizeof *elf->segments &&
           read_at(elf->fd, elf->segments, elf->count * sizeof *elf->segments, elf->head.e_phoff);
}

/* The file offset of an address. */
static bool file_offset(const struct elf *elf, uint64_t address, uint64_t *ret_offset)
{
    for (size_t i = 0; i < elf->count; i++) {
        const Elf64_Phdr *load = &elf->segments[i];
        if (load->p_type == PT_LOAD && address >= load->p_vaddr && address - load->p_vaddr < load->p_filesz) {
            *ret_offset = load->p_offset + (address - load->p_vaddr);
            return true;
        }
    }
    return false;
}

static void take_run_path(struct program *program, const char *text)
{
    char origin[PATH_MAX];
    size_t used = 0, size = sizeof program->run_path;
    snprintf(origin, sizeof origin, "%s", program->path);
    char *slash = strrchr(origin, '/');
    if (slash)
        *slash = 0;
    for (; *text && used + 1 < size; text++) {
        size_t skip = strncmp(text, "$ORIGIN", 7) == 0 ? 7 : strncmp(text, "${ORIGIN}", 9) == 0 ? 9 : 0;
        if (!skip) {
            program->run_path[used++] = *text;
            continue;
        }
        int len = snprintf(program->run_path + used, size - used, "%s", origin);
        used += len > 0 && (size_t)len < size - used ? (size_t)len : 0;
        text += skip - 1;
    }
    program->run_path[used] = 0;
}

static void look_at_libraries(struct program *program, const struct elf *elf)
{
    const Elf64_Phdr *dynamic = segment(elf, PT_DYNAMIC);
    uint64_t strings = 0, names[64], run_path = UINT64_MAX;
    size_t count = 0;
    bool found = false;
    for (uint64_t i = 0; dynamic && i < dynamic->p_filesz / sizeof(Elf64_Dyn) && i < DYNAMIC_ENTRIES; i++) {
        Elf64_Dyn entry;
        if (!read_at(elf->fd, &entry, sizeof entry, dynamic->p_offset + i * sizeof entry) || entry.d_tag == DT_NULL)
            break;
        if (entry.d_tag == DT_STRTAB)
            found = file_offset(elf, entry.d_un.d_ptr, &strings);
        else if (entry.d_tag == DT_NEEDED && count < sizeof names / sizeof *names)
            names[count++] = entry.d_un.d_val;
        else if (entry.d_tag == DT_RUNPATH || (entry.d_tag == DT_RPATH && run_path == UINT64_MAX))
            run_path = entry.d_un.d_val;
    }
    char text[STRING_LIMIT];
    for (size_t i = 0; found && i < count; i++) {
        if (!read_string(elf->fd, text, sizeof program->sanitizer, strings + names[i]))
            continue;
        if (strncmp(text, "libasan.so", 10) == 0 || strncmp(text, "libclang_rt.asan", 16) == 0)
            snprintf(program->sanitizer, sizeof program->sanitizer, "%.127s", text);
        program->gfortran |= strncmp(text, "libgfortran.so", strlen("libgfortran.so")) == 0;
    }
    if (found && run_path != UINT64_MAX && read_string(elf->fd, text, sizeof text, strings + run_path))
        take_run_path(program, text);
}

static void program_refuse(struct program *program, const char *obstacle, const char *remedy)
{
    program->obstacle = obstacle;
    program->remedy = remedy;
}

static void look_at_elf(struct program *program, struct elf *elf)
{
    const unsigned char *ident = elf->head.e_ident;
    char interpreter[PATH_MAX] = "";
    if (ident[EI_CLASS] != ELFCLASS64 || ident[EI_DATA] != ELFDATA2LSB || elf->head.e_machine != EM_X86_64) {
        program_refuse(program, "it is not a 64-bit x86-64 program", "build it for x86-64");
        return;
    }
    if (!read_segments(elf))
        return;
    const Elf64_Phdr *loader = segment(elf, PT_INTERP);
    if (!loader && strncmp(strrchr(program->path, '/') + 1, "ld-", 3) == 0)
        return; /* the loader itself, to which a program is given */
    if (!loader) {
        program_refuse(program, "it is statically linked", "link it dynamically (without -static, -static-pie)");
        return;
    }
    read_string(elf->fd, interpreter, sizeof interpreter, loader->p_offset);
    if (strstr(interpreter, "ld-musl"))
        program_refuse(program, "it uses another C library (musl)", "build it with the GNU C library");
    else
        look_at_libraries(program, elf);
}

static void look_at_file(struct program *program)
{
    struct elf elf = {.fd = open(program->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
    _cleanup_(closep) int fd = elf.fd;
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return;
    program->is_elf = read_at(fd, &elf.head, sizeof elf.head, 0) && memcmp(elf.head.e_ident, ELFMAG, SELFMAG) == 0;
    if (!program->is_elf)
        return;
    bool other_user = (st.st_mode & S_ISUID) && st.st_uid != getuid();
    bool other_group = (st.st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) && st.st_gid != getgid();
    if (other_user || other_group || (geteuid() != 0 && fgetxattr(fd, "security.capability", NULL, 0) > 0))
        program_refuse(program, "it runs with privileges that you do not have (setuid, setgid or file capabilities)",
                       "trace a copy without them");
    else
        look_at_elf(program, &elf);
}

static bool is_file(const char *path, int mode)
{
    struct stat st;
    return access(path, mode) == 0 && stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* In PATH the first that can be accessed so: X_OK, as execvp takes it, or F_OK. */
static bool find_command(const char *command, int mode, char ret_path[PATH_MAX])
{
    if (strchr(command, '/'))
        return snprintf(ret_path, PATH_MAX, "%s", command) < PATH_MAX;
    const char *list = getenv("PATH");
    for (const char *at = list ? list : "/bin:/usr/bin", *end;; at = end + 1) {
        end = strchrnul(at, ':'); /* an empty entry is the working directory */
        int len = snprintf(ret_path, PATH_MAX, "%.*s%s%s", (int)(end - at), at, end > at ? "/" : "./", command);
        if (len < PATH_MAX && is_file(ret_path, mode))
            return true;
        if (!*end)
            return false;
    }
}

void program_look(struct program *ret_program, const char *command)
{
    char path[PATH_MAX];
    *ret_program = (struct program){0};
    if (find_command(command, X_OK, path) && realpath(path, ret_program->path))
        look_at_file(ret_program);
}

/* ---- why it cannot be started ---- */

/* The interpreter that its first line names, or the loader of an ELF file; "": none is named. *ret_crlf: a carriage return belongs to
 * its name, since lines end as on Windows. */
static void read_interpreter(const char *path, char ret_interpreter[PATH_MAX], bool *ret_crlf)
{
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct elf elf = {.fd = fd};
    char line[PATH_MAX];
    *ret_interpreter = '\0';
    *ret_crlf = false;
    if (fd < 0 || !read_string(fd, line, sizeof line, 0))
        return;
    if (strncmp(line, "#!", 2) == 0) {
        line[strcspn(line, "\n")] = '\0';
        const char *name = line + 2 + strspn(line + 2, " \t");
        int len = (int)strcspn(name, " \t");
        *ret_crlf = len && name[len - 1] == '\r';
        snprintf(ret_interpreter, PATH_MAX, "%.*s", len - *ret_crlf, name);
    } else if (read_at(fd, &elf.head, sizeof elf.head, 0) && memcmp(elf.head.e_ident, ELFMAG, SELFMAG) == 0 &&
               elf.head.e_ident[EI_CLASS] == ELFCLASS64 && read_segments(&elf)) {
        const Elf64_Phdr *loader = segment(&elf, PT_INTERP);
        if (loader)
            read_string(fd, ret_interpreter, PATH_MAX, loader->p_offset);
    }
}

static void put_interpreter(struct buf *out, const char *path, const char *interpreter, bool crlf)
{
    if (crlf) {
        buf_puts(out, ": its first line ends with a carriage return (CRLF, as Windows ends lines): sed -i 's/\\r$//' ");
        text_show(out, path);
    } else {
        buf_puts(out, ": its interpreter ");
        text_show(out, interpreter);
        buf_puts(out, " is not there");
    }
}

bool program_explain_interpreter(struct buf *out, const char *name, const char *path)
{
    char interpreter[PATH_MAX];
    bool crlf = false;
    if (!is_file(path, X_OK))
        return false;
    read_interpreter(path, interpreter, &crlf);
    if (!*interpreter || (!crlf && access(interpreter, F_OK) == 0))
        return false;
    text_show(out, name);
    put_interpreter(out, path, interpreter, crlf);
    return true;
}

void program_explain(struct buf *out, const char *command, int code)
{
    char path[PATH_MAX], interpreter[PATH_MAX] = "";
    struct stat st;
    struct statvfs system;
    bool crlf = false;
    bool found = (find_command(command, X_OK, path) || find_command(command, F_OK, path)) && stat(path, &st) == 0;
    if (*command)
        text_show(out, command);
    else
        buf_puts(out, "''");
    if (found && S_ISREG(st.st_mode) && (code == -ENOENT || code == -EACCES))
        read_interpreter(path, interpreter, &crlf);
    if (code == -ENOENT && !found) {
        buf_printf(out, ": there is no such %s", strchr(command, '/') ? "file" : "command");
    } else if (code == -ENOENT && (crlf || *interpreter)) {
        put_interpreter(out, path, interpreter, crlf);
    } else if (code == -EACCES && found && S_ISDIR(st.st_mode)) {
        buf_puts(out, " is a directory");
    } else if (code == -EACCES && found && access(path, X_OK) < 0 && statvfs(path, &system) == 0 &&
               (system.f_flag & ST_NOEXEC)) {
        buf_puts(out, " may not be executed: its file system is mounted with noexec");
    } else if (code == -EACCES && found && access(path, X_OK) < 0) {
        buf_puts(out, " may not be executed: chmod +x ");
        text_show(out, path);
    } else if (code == -EACCES && *interpreter && access(interpreter, X_OK) < 0) {
        buf_puts(out, ": its interpreter ");
        text_show(out, interpreter);
        buf_puts(out, " may not be executed");
    } else {
        buf_printf(out, " could not be started: %s", strerror(-code));
    }
}

void program_symbols(struct program_symbols *ret_symbols, const char *path)
{
    char key[INDEX_KEY_SIZE];
    *ret_symbols = (struct program_symbols){.hooks = elf_calls_hooks(path), .own_hooks = elf_has_own_hooks(path)};
    if (index_key(path, key, NULL) < 0)
        return;
    char richest = key[strlen(key) - 1]; /* of a file with a build-id: d, s or 0 */
    ret_symbols->debug = key[0] == 'f' || richest == 'd';
    ret_symbols->names = ret_symbols->debug || richest == 's';
}

/* In one of the directories of a list with colons. */
static bool find_in(const char *list, const char *name, char *ret_path, int size)
{
    for (const char *at = list, *end; at; at = *end ? end + 1 : NULL) {
        end = strchrnul(at, ':');
        int len = snprintf(ret_path, (size_t)size, "%.*s/%s", (int)(end - at), at, name);
        if (end > at && len < size && access(ret_path, R_OK) == 0)
            return true;
    }
    return false;
}

void program_library(const struct program *program, const char *name, char *ret_path, int size)
{
    static const char standard[] = "/lib/x86_64-linux-gnu:/usr/lib/x86_64-linux-gnu:/lib64:/usr/lib64:/usr/local/lib64:"
                                   "/usr/local/lib:/lib:/usr/lib";
    const char *own = getenv("LD_LIBRARY_PATH");
    if (!find_in(own, name, ret_path, size) && !find_in(program->run_path, name, ret_path, size) &&
        !find_in(standard, name, ret_path, size))
        snprintf(ret_path, (size_t)size, "%s", name);
}
