/* SPDX-License-Identifier: Apache-2.0 */
/* Headers, build-ids and index keys of ELF files (elf(5)), in files and in processes. */
#include "symbols/index/elf_identity.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/proc_file.h"

enum {
    NOTES_SIZE = 1 << 16,
    SECTIONS = 1 << 14,
    SECTION_NAMES = 1 << 20,
    SYMBOL_NAMES = 16 << 20,
    SYMBOLS_SIZE = 16 << 20,
    PAGE = 4096,
};

struct source {
    int fd;    /* -1: the process */
    pid_t pid; /* there the file begins at `start` */
    uint64_t start;
    bool has_ended; /* the process, while it was read */
};

static bool source_read(struct source *source, void *bytes, size_t len, uint64_t at)
{
    if (source->fd < 0) {
        errno = 0;
        if (proc_peek(source->pid, source->start + at, bytes, len) == len)
            return true;
        source->has_ended |= errno == ESRCH;
        return false;
    }
    for (size_t done = 0; done < len;) {
        ssize_t got =
            at + done <= INT64_MAX ? pread(source->fd, (char *)bytes + done, len - done, (off_t)(at + done)) : 0;
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        done += (size_t)got;
    }
    return true;
}

/* ---- headers ---- */
static Elf64_Phdr widen_phdr(const Elf32_Phdr *p)
{
    return (Elf64_Phdr){p->p_type,  p->p_flags,  p->p_offset, p->p_vaddr,
                        p->p_paddr, p->p_filesz, p->p_memsz,  p->p_align};
}

static bool read_header(struct source *source, Elf64_Ehdr *ret)
{
    union {
        unsigned char ident[EI_NIDENT];
        Elf64_Ehdr wide;
        Elf32_Ehdr narrow;
    } header = {0};
    if (!source_read(source, &header.ident, EI_NIDENT, 0) || memcmp(header.ident, ELFMAG, SELFMAG) != 0)
        return false;
    if (header.ident[EI_CLASS] == ELFCLASS64) {
        if (!source_read(source, &header.wide, sizeof header.wide, 0))
            return false;
        *ret = header.wide;
        return true;
    }
    const Elf32_Ehdr *n = &header.narrow;
    if (!source_read(source, &header.narrow, sizeof header.narrow, 0))
        return false;
    *ret = (Elf64_Ehdr){.e_type = n->e_type,
                        .e_machine = n->e_machine,
                        .e_version = n->e_version,
                        .e_entry = n->e_entry,
                        .e_phoff = n->e_phoff,
                        .e_shoff = n->e_shoff,
                        .e_phentsize = n->e_phentsize,
                        .e_phnum = n->e_phnum,
                        .e_shentsize = n->e_shentsize,
                        .e_shnum = n->e_shnum,
                        .e_shstrndx = n->e_shstrndx};
    memcpy(ret->e_ident, n->e_ident, EI_NIDENT);
    return true;
}

static bool read_phdrs(struct source *source, struct elf_identity *identity)
{
    const Elf64_Ehdr *h = &identity->header;
    bool wide = h->e_ident[EI_CLASS] == ELFCLASS64;
    if (h->e_phnum == 0) /* an object file */
        return true;
    if (h->e_ident[EI_DATA] != ELFDATA2LSB || h->e_phnum > ELF_PHDRS ||
        h->e_phentsize != (wide ? sizeof(Elf64_Phdr) : sizeof(Elf32_Phdr)))
        return false;
    identity->phdr_count = h->e_phnum;
    if (wide)
        return source_read(source, identity->phdrs, h->e_phnum * sizeof(Elf64_Phdr), h->e_phoff);
    Elf32_Phdr narrow[ELF_PHDRS];
    if (!source_read(source, narrow, h->e_phnum * sizeof *narrow, h->e_phoff))
        return false;
    for (size_t i = 0; i < identity->phdr_count; i++)
        identity->phdrs[i] = widen_phdr(&narrow[i]);
    return true;
}

/* ---- build-ids ---- */
static uint64_t round_up(uint64_t value, uint64_t to)
{
    return (value + to - 1) / to * to;
}

static void find_in_notes(struct elf_identity *identity, const uint8_t *notes, size_t size, size_t align)
{
    for (size_t at = 0; size - at >= sizeof(Elf64_Nhdr);) {
        Elf64_Nhdr note;
        memcpy(&note, notes + at, sizeof note);
        uint64_t name = at + sizeof note, content = round_up(name + note.n_namesz, align);
        if (content > size || note.n_descsz > size - content)
            return;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && memcmp(notes + name, "GNU", 4) == 0) {
            identity->build_id_size = note.n_descsz < ELF_BUILD_ID ? note.n_descsz : ELF_BUILD_ID;
            memcpy(identity->build_id, notes + content, identity->build_id_size);
            return;
        }
        at = round_up(content + note.n_descsz, align);
        if (at > size)
            return;
    }
}

/* `bias`: of a process, from the file's addresses to its own less source->start */
static void read_build_id(struct source *source, struct elf_identity *identity, uint64_t bias)
{
    for (size_t i = 0; i < identity->phdr_count && !identity->build_id_size; i++) {
        const Elf64_Phdr *p = &identity->phdrs[i];
        if (p->p_type != PT_NOTE || p->p_filesz == 0 || p->p_filesz > NOTES_SIZE)
            continue;
        _cleanup_(freep) uint8_t *notes = malloc(p->p_filesz);
        if (notes &&
            source_read(source, notes, p->p_filesz, source->fd < 0 ? bias + p->p_vaddr - source->start : p->p_offset))
            find_in_notes(identity, notes, p->p_filesz, p->p_align == 8 ? 8 : 4);
    }
}

int elf_identity_file(struct elf_identity *ret_identity, int fd)
{
    struct source source = {.fd = fd};
    *ret_identity = (struct elf_identity){0};
    if (!read_header(&source, &ret_identity->header))
        return -ENOEXEC;
    if (!read_phdrs(&source, ret_identity))
        return -EBADMSG;
    read_build_id(&source, ret_identity, 0);
    return 0;
}

bool elf_identity_bias(const struct elf_identity *identity, uint64_t start, uint64_t *ret_bias)
{
    for (size_t i = 0; i < identity->phdr_count; i++) {
        const Elf64_Phdr *p = &identity->phdrs[i];
        if (p->p_type == PT_LOAD && p->p_offset / PAGE == 0) {
            *ret_bias = start - p->p_vaddr / PAGE * PAGE;
            return true;
        }
    }
    return false;
}

static int read_process(struct source *source, struct elf_identity *identity)
{
    char magic[SELFMAG];
    uint64_t bias;
    if (!source_read(source, magic, sizeof magic, 0))
        return errno == EPERM || errno == EACCES || errno == ENOSYS ? -EACCES : -ENOEXEC;
    if (!read_header(source, &identity->header))
        return -ENOEXEC;
    if (!read_phdrs(source, identity) || !elf_identity_bias(identity, source->start, &bias))
        return -EBADMSG;
    read_build_id(source, identity, bias);
    return 0;
}

int elf_identity_process(struct elf_identity *ret_identity, pid_t pid, uint64_t start)
{
    struct source source = {.fd = -1, .pid = pid, .start = start};
    *ret_identity = (struct elf_identity){0};
    int code = read_process(&source, ret_identity);
    return source.has_ended ? -ESRCH : code;
}

bool elf_identity_span(const struct elf_identity *identity, uint64_t *ret_low, uint64_t *ret_high)
{
    uint64_t low = UINT64_MAX, high = 0;
    for (size_t i = 0; i < identity->phdr_count; i++) {
        const Elf64_Phdr *p = &identity->phdrs[i];
        if (p->p_type != PT_LOAD || p->p_memsz == 0 || p->p_vaddr + p->p_memsz < p->p_vaddr)
            continue;
        low = p->p_vaddr < low ? p->p_vaddr : low;
        high = p->p_vaddr + p->p_memsz > high ? p->p_vaddr + p->p_memsz : high;
    }
    *ret_low = low;
    *ret_high = high;
    return low < high;
}

/* ---- sections: read like headers before, missing ones are just not there ---- */

/* All of them, malloc'ed; NULL: there are none. */
static Elf64_Shdr *read_sections(const struct elf_identity *identity, struct source *source)
{
    const Elf64_Ehdr *h = &identity->header;
    if (h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_shentsize != sizeof(Elf64_Shdr) || h->e_shnum > SECTIONS ||
        h->e_shstrndx >= h->e_shnum)
        return NULL;
    Elf64_Shdr *sections = calloc(h->e_shnum, sizeof *sections);
    if (sections && source_read(source, sections, h->e_shnum * sizeof *sections, h->e_shoff))
        return sections;
    free(sections);
    return NULL;
}

/* A section of strings, malloc'ed, the last one ended; NULL: it is empty or larger than `limit`. */
static char *read_strings(struct source *source, const Elf64_Shdr *section, size_t limit)
{
    char *text = section->sh_size && section->sh_size <= limit ? malloc(section->sh_size) : NULL;
    if (text && source_read(source, text, section->sh_size, section->sh_offset)) {
        text[section->sh_size - 1] = 0;
        return text;
    }
    free(text);
    return NULL;
}

/* Whether a table of symbols has this one, defined there or not. */
static bool has_symbol(struct source *source, const Elf64_Shdr *symbols, const Elf64_Shdr *strings, const char *name,
                       bool defined)
{
    _cleanup_(freep) char *text = read_strings(source, strings, SYMBOL_NAMES);
    Elf64_Sym some[128];
    for (uint64_t at = 0; text && at + sizeof *some <= symbols->sh_size && at < SYMBOLS_SIZE;) {
        uint64_t left = symbols->sh_size - at;
        size_t count = (size_t)(left < sizeof some ? left : sizeof some) / sizeof *some;
        if (!source_read(source, some, count * sizeof *some, symbols->sh_offset + at))
            return false;
        for (size_t i = 0; i < count; i++)
            if ((some[i].st_shndx != SHN_UNDEF) == defined && some[i].st_name < strings->sh_size &&
                strcmp(text + some[i].st_name, name) == 0)
                return true;
        at += count * sizeof *some;
    }
    return false;
}

static bool has_function(const char *path, const char *name, uint32_t section_type, bool defined)
{
    struct elf_identity identity;
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct source source = {.fd = fd};
    if (fd < 0 || elf_identity_file(&identity, fd) < 0)
        return false;
    _cleanup_(freep) Elf64_Shdr *sections = read_sections(&identity, &source);
    for (size_t i = 0; sections && i < identity.header.e_shnum; i++)
        if (sections[i].sh_type == section_type && sections[i].sh_link < identity.header.e_shnum &&
            has_symbol(&source, &sections[i], &sections[sections[i].sh_link], name, defined))
            return true;
    return false;
}

bool elf_has_own_hooks(const char *path)
{
    return has_function(path, "__cyg_profile_func_enter", SHT_SYMTAB, true);
}

bool elf_calls_hooks(const char *path)
{
    return has_function(path, "__cyg_profile_func_enter", SHT_DYNSYM, false);
}

bool elf_has_own_mpi(const char *path)
{
    return has_function(path, "MPI_Init", SHT_SYMTAB, true);
}

/* ---- keys ---- */
/* d: has debug information; s: a symbol table; 0: neither. */
static char file_richness(const struct elf_identity *identity, int fd)
{
    struct source source = {.fd = fd};
    const Elf64_Ehdr *h = &identity->header;
    _cleanup_(freep) Elf64_Shdr *sections = read_sections(identity, &source);
    if (!sections)
        return '0';
    const Elf64_Shdr *names = &sections[h->e_shstrndx];
    _cleanup_(freep) char *text = read_strings(&source, names, SECTION_NAMES);
    if (!text)
        return '0';
    char rich = '0';
    for (size_t i = 1; i < h->e_shnum; i++) {
        const char *name = sections[i].sh_name < names->sh_size ? text + sections[i].sh_name : "";
        if (sections[i].sh_type == SHT_SYMTAB && rich == '0')
            rich = 's';
        if (strcmp(name, ".debug_info") == 0 || strcmp(name, ".zdebug_info") == 0)
            rich = 'd';
    }
    return rich;
}

void elf_identity_id(const struct elf_identity *identity, char ret_id[INDEX_KEY_SIZE])
{
    *ret_id = 0;
    for (size_t i = 0; i < identity->build_id_size; i++)
        snprintf(ret_id + 2 * i, 3, "%02x", identity->build_id[i]);
}

void elf_identity_key(const struct elf_identity *identity, int fd, const struct stat *st, char ret_key[INDEX_KEY_SIZE])
{
    if (!identity->build_id_size) {
        snprintf(ret_key, INDEX_KEY_SIZE, "f%" PRIx64 "-%" PRIx64 "-%" PRIx64 "-%" PRIx64 ".%lx", (uint64_t)st->st_dev,
                 (uint64_t)st->st_ino, (uint64_t)st->st_size, (uint64_t)st->st_ctim.tv_sec, st->st_ctim.tv_nsec);
        return;
    }
    elf_identity_id(identity, ret_key);
    size_t len = strlen(ret_key);
    snprintf(ret_key + len, INDEX_KEY_SIZE - len, "-%c", file_richness(identity, fd));
}

int index_key(const char *elf_path, char ret_key[INDEX_KEY_SIZE], struct err *err)
{
    struct stat st;
    struct elf_identity identity;
    _cleanup_(closep) int fd = open(elf_path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_errno(err, -errno, "%s", elf_path);
    if (!S_ISREG(st.st_mode))
        return err_set(err, -ENOEXEC, "%s is no program or library: not a regular file", elf_path);
    int r = elf_identity_file(&identity, fd);
    if (r == -EBADMSG)
        return err_set(err, -ENOEXEC, "%s is damaged, or a program of another kind of machine", elf_path);
    if (r < 0)
        return err_set(err, -ENOEXEC, "%s is no program or library (not an ELF file)", elf_path);
    elf_identity_key(&identity, fd, &st, ret_key);
    return 0;
}
