/* SPDX-License-Identifier: Apache-2.0 */
#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "base/system/file.h"
#include "base/system/proc_file.h"
#include "probe/proc.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

/*
 * Another process's memory without stopping it: process_vm_readv(2) first, /proc/PID/mem where that refuses a page
 * (memory that is only writable or executable) and for writes, since it passes over page protections as a debugger's
 * ptrace does.
 */

/* One address of the file /proc/PID/mem is out of off_t's range: the upper half belongs to the kernel. */
#define USER_END (UINT64_C(1) << 63)

static int open_memory(pid_t pid, int flags)
{
    char path[PROC_PATH_SIZE];
    proc_path(path, pid, 0, "mem");
    int fd = open(path, flags | O_CLOEXEC);
    return fd < 0 ? proc_errno(pid, errno) : fd;
}

/* The two directions differ in the call only. Returns bytes moved, or -errno when none were. */
static int64_t move_by_file(int fd, bool write, uint64_t addr, char *bytes, size_t len)
{
    size_t done = 0;
    int r = 0;
    while (done < len && addr + done < USER_END) {
        ssize_t moved = write ? pwrite(fd, bytes + done, len - done, (off_t)(addr + done))
                              : pread(fd, bytes + done, len - done, (off_t)(addr + done));
        if (moved < 0 && errno == EINTR)
            continue;
        if (moved <= 0) {
            /* Nothing moved without an error: the address space is gone, the process a zombie. */
            r = moved == 0 ? -ESRCH : -errno;
            break;
        }
        done += (size_t)moved;
    }
    return done ? (int64_t)done : r ? r : -EIO;
}

static int64_t move_by_call(pid_t pid, bool write, uint64_t addr, char *bytes, size_t len)
{
    size_t done = 0;
    while (done < len) {
        struct iovec local = {bytes + done, len - done};
        struct iovec remote = {(void *)(uintptr_t)(addr + done), len - done};
        ssize_t moved =
            write ? process_vm_writev(pid, &local, 1, &remote, 1, 0) : process_vm_readv(pid, &local, 1, &remote, 1, 0);
        if (moved <= 0)
            return done ? (int64_t)done : moved < 0 ? -errno : -EIO;
        done += (size_t)moved;
    }
    return (int64_t)done;
}

static int modules_finish(pid_t pid, int64_t last, size_t done, size_t len, size_t *ret_done)
{
    if (ret_done)
        *ret_done = done;
    if (done == len)
        return 0;
    if (last >= 0 || last == -EFAULT || last == -EIO || last == -EINVAL || last == -ENOSYS)
        return -EIO;
    return proc_errno(pid, (int)-last);
}

static int read_memory(pid_t pid, uint64_t addr, void *bytes, size_t len, size_t *ret_done)
{
    if (len == 0)
        return modules_finish(pid, 0, 0, 0, ret_done);
    int64_t moved = move_by_call(pid, false, addr, bytes, len);
    size_t done = moved > 0 ? (size_t)moved : 0;
    if (done == len || moved == -ESRCH || moved == -EPERM)
        return modules_finish(pid, moved, done, len, ret_done);
    _cleanup_(closep) int fd = open_memory(pid, O_RDONLY);
    if (fd < 0)
        return modules_finish(pid, fd, done, len, ret_done);
    moved = move_by_file(fd, false, addr + done, (char *)bytes + done, len - done);
    return modules_finish(pid, moved, done + (moved > 0 ? (size_t)moved : 0), len, ret_done);
}

int proc_memory_read(pid_t pid, uint64_t addr, void *bytes, size_t len, size_t *ret_done)
{
    int r = read_memory(pid, addr, bytes, len, ret_done);
    pid_t deputy = r == -ESRCH ? proc_deputy(pid) : 0;
    return deputy ? read_memory(deputy, addr, bytes, len, ret_done) : r;
}

static int write_memory(pid_t pid, uint64_t addr, const void *bytes, size_t len, size_t *ret_done)
{
    char *from = (char *)(uintptr_t)bytes; /* struct iovec has no const */
    size_t done = 0;
    if (len == 0)
        return modules_finish(pid, 0, 0, 0, ret_done);
    _cleanup_(closep) int fd = open_memory(pid, O_RDWR);
    int64_t moved = fd < 0 ? fd : move_by_file(fd, true, addr, from, len);
    done += moved > 0 ? (size_t)moved : 0;
    if (done == len || moved == -ESRCH)
        return modules_finish(pid, moved, done, len, ret_done);
    /* A kernel may refuse to write through /proc/PID/mem altogether (proc_mem.force_override, hardening). */
    moved = move_by_call(pid, true, addr + done, from + done, len - done);
    return modules_finish(pid, moved, done + (moved > 0 ? (size_t)moved : 0), len, ret_done);
}

int proc_memory_write(pid_t pid, uint64_t addr, const void *bytes, size_t len, size_t *ret_done)
{
    int r = write_memory(pid, addr, bytes, len, ret_done);
    pid_t deputy = r == -ESRCH ? proc_deputy(pid) : 0;
    return deputy ? write_memory(deputy, addr, bytes, len, ret_done) : r;
}

/*
 * Load modules of a process from outside. Where each module's segments lie is read from the program headers in the
 * process's own memory, so stripped, deleted and replaced files do not matter; the link order comes from the dynamic
 * linker's r_debug (<link.h>), when it has run already; what neither knows (a library loaded by other means) from
 * /proc/PID/maps. 64-bit programs; of 32-bit ones the mappings are reported, without bss.
 */

enum {
    PHDRS_MAX = 256,    /* of one module; real ones have about 12 */
    DYNAMIC_MAX = 1024, /* entries of a dynamic section */
    MODULES_MAX = 8192, /* a list that is longer is broken or circular */
};

struct scan {
    pid_t pid;
    struct proc_maps maps;
    uint64_t phdr, phnum, entry, interpreter, vdso; /* of the auxiliary vector; 0: absent */
    struct proc_module *modules;
    size_t count, room;
};

static bool peek(const struct scan *scan, uint64_t addr, void *bytes, size_t len)
{
    return proc_memory_read(scan->pid, addr, bytes, len, NULL) == 0;
}

static int read_auxv(struct scan *scan)
{
    char path[PROC_PATH_SIZE];
    _cleanup_(freep) char *bytes = NULL;
    size_t len = 0;
    proc_path(path, scan->pid, 0, "auxv");
    int r = file_read(path, &bytes, &len);
    pid_t deputy = r == -ESRCH || (r == 0 && len == 0) ? proc_deputy(scan->pid) : 0;
    if (deputy) {
        free(TAKE_PTR(bytes));
        proc_path(path, deputy, 0, "auxv");
        r = file_read(path, &bytes, &len);
    }
    if (r < 0)
        return proc_errno(scan->pid, -r);
    for (size_t at = 0; at + sizeof(Elf64_auxv_t) <= len; at += sizeof(Elf64_auxv_t)) {
        Elf64_auxv_t item;
        memcpy(&item, bytes + at, sizeof item);
        switch (item.a_type) {
        case AT_PHDR:
            scan->phdr = item.a_un.a_val;
            break;
        case AT_PHNUM:
            scan->phnum = item.a_un.a_val;
            break;
        case AT_BASE:
            scan->interpreter = item.a_un.a_val;
            break;
        case AT_ENTRY:
            scan->entry = item.a_un.a_val;
            break;
        case AT_SYSINFO_EHDR:
            scan->vdso = item.a_un.a_val;
            break;
        }
    }
    return 0;
}

static int add_module(struct scan *scan, const struct proc_module *module, const char *path)
{
    if (scan->count >= MODULES_MAX)
        return -E2BIG;
    if (!GROW(scan->modules, scan->count, scan->room))
        return -ENOMEM;
    char *copy = strdup(path);
    if (!copy)
        return -ENOMEM;
    scan->modules[scan->count] = *module;
    scan->modules[scan->count++].path = copy;
    return 0;
}

static bool module_known(const struct scan *scan, uint64_t addr)
{
    for (size_t i = 0; i < scan->count; i++) {
        const struct proc_module *m = &scan->modules[i];
        if (addr - m->code_start < m->code_len || addr - m->data_start < m->data_len + m->bss_len)
            return true;
    }
    return false;
}

static void module_widen(uint64_t *start, uint64_t *len, uint64_t from, uint64_t to)
{
    uint64_t end = *len ? *start + *len : to;
    if (!*len || from < *start)
        *start = from;
    *len = (to > end ? to : end) - *start;
}

/* Code is what is executable, data what is writable; bss is the end of the last writable segment that no file backs. */
static void lay_out(struct proc_module *module, const Elf64_Phdr *phdrs, size_t count, uint64_t bias)
{
    *module = (struct proc_module){.bias = bias};
    for (size_t i = 0; i < count; i++) {
        const Elf64_Phdr *ph = &phdrs[i];
        if (ph->p_type != PT_LOAD)
            continue;
        uint64_t start = bias + ph->p_vaddr;
        if (ph->p_flags & PF_X)
            module_widen(&module->code_start, &module->code_len, start, start + ph->p_filesz);
        if (ph->p_flags & PF_W) {
            if (ph->p_filesz)
                module_widen(&module->data_start, &module->data_len, start, start + ph->p_filesz);
            if (ph->p_memsz > ph->p_filesz) {
                module->bss_start = start + ph->p_filesz;
                module->bss_len = ph->p_memsz - ph->p_filesz;
            }
        }
    }
}

/* Reads the headers of the module whose ELF header is mapped at base. Returns their number, 0 if there is none. */
static size_t read_headers(const struct scan *scan, uint64_t base, Elf64_Ehdr *ehdr, Elf64_Phdr phdrs[PHDRS_MAX])
{
    if (!peek(scan, base, ehdr, sizeof *ehdr) || memcmp(ehdr->e_ident, ELFMAG, SELFMAG) != 0 ||
        ehdr->e_ident[EI_CLASS] != ELFCLASS64 || ehdr->e_phentsize != sizeof *phdrs || ehdr->e_phnum == 0 ||
        ehdr->e_phnum > PHDRS_MAX || ehdr->e_phoff > UINT32_MAX)
        return 0;
    return peek(scan, base + ehdr->e_phoff, phdrs, ehdr->e_phnum * sizeof *phdrs) ? ehdr->e_phnum : 0;
}

static uint64_t bias_of(uint64_t base, const Elf64_Phdr *phdrs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (phdrs[i].p_type == PT_LOAD)
            return base - (phdrs[i].p_vaddr - phdrs[i].p_offset);
    return base;
}

static uint64_t page_start(uint64_t at)
{
    return at & ~((uint64_t)sysconf(_SC_PAGESIZE) - 1);
}

/* Whether `map` is a part of the file that is loaded with its beginning at base. */
static bool belongs_to(const struct scan *scan, const struct proc_map *map, uint64_t base)
{
    Elf64_Ehdr ehdr;
    Elf64_Phdr phdrs[PHDRS_MAX];
    size_t count = read_headers(scan, base, &ehdr, phdrs);
    uint64_t bias = bias_of(base, phdrs, count);
    for (size_t i = 0; i < count; i++) {
        const Elf64_Phdr *ph = &phdrs[i];
        uint64_t start = page_start(bias + ph->p_vaddr);
        if (ph->p_type == PT_LOAD && map->start >= start && map->start < bias + ph->p_vaddr + ph->p_filesz &&
            map->offset == page_start(ph->p_offset) + (map->start - start))
            return true;
    }
    return false;
}

/*
 * The mapping that holds the beginning of the file that `map` is a part of. Linkers that save space on disk (lld, mold) have
 * code and data begin in the file's first page, too. Then each of these mappings looks like the beginning: it is the first.
 */
static const struct proc_map *file_start(const struct scan *scan, const struct proc_map *map)
{
    const struct proc_map *first = NULL;
    for (const struct proc_map *m = map;; m--) {
        bool same =
            m->inode == map->inode && m->device_major == map->device_major && m->device_minor == map->device_minor;
        if (same && m->offset == 0 && belongs_to(scan, map, m->start))
            first = m;
        /* no inode: bss or a guard between two parts */
        if ((!same && m->inode != 0) || m == scan->maps.maps)
            return first;
    }
}

/* Adds the module whose ELF header lies at base, unless it is none or known already. */
static int add_at(struct scan *scan, uint64_t base, const char *path)
{
    Elf64_Ehdr ehdr;
    Elf64_Phdr phdrs[PHDRS_MAX];
    size_t count = read_headers(scan, base, &ehdr, phdrs);
    if (count == 0)
        return 0;
    struct proc_module module;
    lay_out(&module, phdrs, count, bias_of(base, phdrs, count));
    if (module_known(scan, module.code_len ? module.code_start : module.data_start))
        return 0;
    return add_module(scan, &module, path);
}

/* The main program, by the auxiliary vector, so also before its dynamic linker ran. Fills its phdrs. */
static int add_main(struct scan *scan, Elf64_Phdr phdrs[PHDRS_MAX], size_t *ret_count, uint64_t *ret_bias)
{
    *ret_count = 0;
    if (!scan->phdr || !scan->phnum || scan->phnum > PHDRS_MAX ||
        !peek(scan, scan->phdr, phdrs, scan->phnum * sizeof *phdrs))
        return 0;
    uint64_t bias = 0;
    bool found = false;
    for (size_t i = 0; i < scan->phnum && !found; i++)
        if ((found = phdrs[i].p_type == PT_PHDR))
            bias = scan->phdr - phdrs[i].p_vaddr;
    const struct proc_map *map = proc_maps_find(&scan->maps, scan->phdr);
    if (!found && map) {
        /* Static programs often lack PT_PHDR: the entry point, as loaded and as linked, tells the same. */
        Elf64_Ehdr ehdr;
        if (peek(scan, map->start, &ehdr, sizeof ehdr) && memcmp(ehdr.e_ident, ELFMAG, SELFMAG) == 0)
            bias = scan->entry - ehdr.e_entry;
    }
    char path[PATH_MAX];
    if (proc_exe(scan->pid, path, sizeof path) < 0)
        path[0] = 0;
    struct proc_module module;
    lay_out(&module, phdrs, scan->phnum, bias);
    *ret_count = scan->phnum;
    *ret_bias = bias;
    return add_module(scan, &module, path[0] ? path : map ? map->path : "");
}

/* The address of the first link_map, 0 for programs without a dynamic linker and before it ran. */
static uint64_t first_link_map(const struct scan *scan, const Elf64_Phdr *phdrs, size_t count, uint64_t bias)
{
    for (size_t i = 0; i < count; i++) {
        if (phdrs[i].p_type != PT_DYNAMIC)
            continue;
        uint64_t at = bias + phdrs[i].p_vaddr;
        Elf64_Dyn item;
        for (size_t n = 0; n < DYNAMIC_MAX && peek(scan, at, &item, sizeof item); n++, at += sizeof item) {
            if (item.d_tag == DT_NULL)
                break;
            struct {
                int32_t version, pad;
                uint64_t map;
            } debug;
            if (item.d_tag == DT_DEBUG)
                return item.d_un.d_ptr && peek(scan, item.d_un.d_ptr, &debug, sizeof debug) ? debug.map : 0;
        }
    }
    return 0;
}

static int add_linked(struct scan *scan, uint64_t at)
{
    int r = 0;
    for (size_t n = 0; at && n < MODULES_MAX && r == 0; n++) {
        struct {
            uint64_t addr, name, dynamic, next, previous;
        } link;
        if (!peek(scan, at, &link, sizeof link))
            break;
        /* By the dynamic section, which lies inside the module even where l_addr is 0. The vdso comes last. */
        const struct proc_map *map = proc_maps_find(&scan->maps, link.dynamic);
        const struct proc_map *start = map && map->inode ? file_start(scan, map) : NULL;
        if (start && !module_known(scan, link.dynamic))
            r = add_at(scan, start->start, start->path);
        at = link.next;
    }
    return r;
}

/* Executable files in memory that the kernel did not report: before the dynamic linker ran, other link namespaces. */
static int add_mapped(struct scan *scan)
{
    int r = 0;
    for (size_t i = 0; i < scan->maps.count && r == 0; i++) {
        const struct proc_map *map = &scan->maps.maps[i];
        if (!map->execute || !map->inode || module_known(scan, map->start))
            continue;
        const struct proc_map *start = file_start(scan, map);
        if (start)
            r = add_at(scan, start->start, start->path);
    }
    return r;
}

/* Without readable 64-bit headers: the mappings of each file. */
static int add_foreign(struct scan *scan)
{
    char exe[PATH_MAX];
    if (proc_exe(scan->pid, exe, sizeof exe) < 0)
        exe[0] = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < scan->maps.count; i++) {
            const struct proc_map *map = &scan->maps.maps[i];
            if (!map->inode || !map->execute || module_known(scan, map->start) ||
                (strcmp(map->path, exe) == 0) != (pass == 0))
                continue;
            struct proc_module module = {0};
            for (size_t k = 0; k < scan->maps.count; k++) {
                const struct proc_map *part = &scan->maps.maps[k];
                if (part->inode != map->inode || strcmp(part->path, map->path) != 0)
                    continue;
                if (part->execute)
                    module_widen(&module.code_start, &module.code_len, part->start, part->end);
                else if (part->write)
                    module_widen(&module.data_start, &module.data_len, part->start, part->end);
            }
            int r = add_module(scan, &module, map->path);
            if (r < 0)
                return r;
        }
    }
    return 0;
}

static int modules_collect(struct scan *scan)
{
    Elf64_Phdr phdrs[PHDRS_MAX];
    size_t phnum;
    uint64_t bias;
    int r = read_auxv(scan);
    if (r == 0)
        r = add_main(scan, phdrs, &phnum, &bias);
    if (r == 0 && scan->count == 0)
        return add_foreign(scan);
    if (r == 0)
        r = add_linked(scan, first_link_map(scan, phdrs, phnum, bias));
    if (r == 0 && scan->interpreter) {
        const struct proc_map *map = proc_maps_find(&scan->maps, scan->interpreter);
        if (map && map->inode)
            r = add_at(scan, scan->interpreter, map->path);
    }
    if (r == 0)
        r = add_mapped(scan);
    if (r == 0 && scan->vdso)
        r = add_at(scan, scan->vdso, "[vdso]");
    return r;
}

int proc_modules(pid_t pid, struct proc_module **ret_modules, size_t *ret_count)
{
    struct scan scan = {.pid = pid};
    int r = proc_maps_read(pid, &scan.maps);
    if (r < 0)
        return r;
    r = scan.maps.count ? modules_collect(&scan) : -ESRCH; /* zombies and kernel threads have no memory */
    if (r == 0 && scan.count == 0)
        r = -ENOEXEC;
    proc_maps_done(&scan.maps);
    if (r < 0) {
        proc_modules_free(scan.modules, scan.count);
        return r;
    }
    *ret_modules = scan.modules;
    *ret_count = scan.count;
    return 0;
}

void proc_modules_free(struct proc_module *modules, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(modules[i].path);
    free(modules);
}
