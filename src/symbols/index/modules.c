/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ELF files mapped into a process (proc(5): maps, exe, root, map_files). Where a module lies is read from the
 * program headers in the process's own memory; which file it came from is only believed where that file's headers and
 * build-id are those in memory.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "base/system/proc_file.h"
#include "symbols/index/elf_identity.h"
#include "symbols/index/index.h"

enum { MODULES = 4096, PAGE = 4096 };

struct scan {
    pid_t pid;
    char exe[PATH_MAX]; /* what /proc/PID/exe says; "" unknown */
    struct proc_maps maps;
    struct module *modules;
    size_t count, room;
};

/* ---- maps ---- */
static bool same_file(const struct proc_map *a, const struct proc_map *b)
{
    return a->inode == b->inode && a->device_major == b->device_major && a->device_minor == b->device_minor;
}

/* Whether code of the file that begins at maps[i] is mapped behind; anonymous maps (bss, guards) may lie between. */
static bool has_code(const struct scan *scan, size_t i)
{
    for (size_t j = i; j < scan->maps.count; j++) {
        const struct proc_map *map = &scan->maps.maps[j];
        if (map->inode && !same_file(map, &scan->maps.maps[i]))
            return false;
        if (map->inode && map->execute)
            return true;
    }
    return false;
}

/* ---- which file ---- */
static bool same_headers(const struct elf_identity *a, const struct elf_identity *b)
{
    return a->header.e_type == b->header.e_type && a->header.e_machine == b->header.e_machine &&
           a->header.e_entry == b->header.e_entry && a->phdr_count == b->phdr_count &&
           memcmp(a->phdrs, b->phdrs, a->phdr_count * sizeof *a->phdrs) == 0;
}

/* Is it the file that is mapped? 1, 0, or -errno: cannot be read. `certain`: by how we came to it it is. `loaded`: what
 * is in memory; without headers it is not known, and taken over from the file. */
static int try_file(const char *path, const struct proc_map *map, struct elf_identity *loaded, bool certain,
                    char ret_key[INDEX_KEY_SIZE])
{
    struct stat st;
    struct elf_identity identity;
    bool known = loaded->phdr_count;
    if (stat(path, &st) < 0) /* looked at before it is opened: to open a device may do things */
        return -errno;
    if (!S_ISREG(st.st_mode))
        return 0;
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode) || elf_identity_file(&identity, fd) < 0)
        return 0;
    if (known && !certain && !same_headers(&identity, loaded))
        return 0;
    if (known && loaded->build_id_size ? identity.build_id_size != loaded->build_id_size ||
                                             memcmp(identity.build_id, loaded->build_id, loaded->build_id_size) != 0
                                       : !certain && st.st_ino != map->inode)
        return 0;
    if (!known)
        *loaded = identity;
    elf_identity_key(&identity, fd, &st, ret_key);
    return 1;
}

static const char deleted[] = " (deleted)";

static void module_find_file(const struct scan *scan, const struct proc_map *map, struct elf_identity *loaded,
                             struct module *module)
{
    char real[PATH_MAX];
    size_t len = strlen(map->path);
    bool gone = len >= sizeof deleted && strcmp(map->path + len + 1 - sizeof deleted, deleted) == 0;
    snprintf(real, sizeof real, "%.*s", (int)(gone ? len + 1 - sizeof deleted : len), map->path);
    const char *slash = strrchr(real, '/');
    snprintf(module->name, sizeof module->name, "%.255s", slash ? slash + 1 : real);

    int refused = 0;
    for (int attempt = 0; attempt < 4; attempt++) {
        int length = 0, r;
        switch (attempt) {
        case 0: /* its file system may be another than ours */
            length = snprintf(module->path, sizeof module->path, "%s", real);
            break;
        case 1:
            length = snprintf(module->path, sizeof module->path, "/proc/%d/root%s", scan->pid, real);
            break;
        case 2:
            length = snprintf(module->path, sizeof module->path, "/proc/%d/exe", scan->pid);
            break;
        case 3: /* needs a privilege */
            length = snprintf(module->path, sizeof module->path, "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, scan->pid,
                              map->start, map->end);
            break;
        }
        if ((attempt < 2 && gone && !loaded->build_id_size) || (attempt == 2 && !module->is_program) ||
            length >= (int)sizeof module->path)
            continue;
        r = try_file(module->path, map, loaded, attempt >= 2, module->key);
        if (r == 1)
            return;
        if (r < 0 && r != -ENOENT && attempt < 2)
            refused = r;
    }
    module->path[0] = 0;
    if (refused && !gone)
        snprintf(module->problem, sizeof module->problem, "the file cannot be read: %s", strerror(-refused));
    else
        snprintf(module->problem, sizeof module->problem,
                 "the file was replaced while it ran: start the program anew to see names and values");
}

/* ---- modules ---- */
static uint64_t mapped_end(const struct scan *scan, const struct proc_map *map)
{
    uint64_t end = map->end;
    for (const struct proc_map *m = map; m < scan->maps.maps + scan->maps.count && (!m->inode || same_file(m, map));
         m++)
        if (m->inode)
            end = m->end;
    return end;
}

/* A module that begins at this map, if one does. *ret_end: behind it. */
static int scan_add_module(struct scan *scan, const struct proc_map *map, uint64_t *ret_end)
{
    char place[PATH_MAX];
    struct stat st;
    struct elf_identity loaded;
    uint64_t low, high;
    /* reading a device's memory may do things */
    if (strncmp(map->path, "/dev/", 5) == 0 && strncmp(map->path, "/dev/shm/", 9) != 0 &&
        ((size_t)snprintf(place, sizeof place, "/proc/%d/root%s", scan->pid, map->path) >= sizeof place ||
         stat(place, &st) < 0 || !S_ISREG(st.st_mode)))
        return 0;
    int r = elf_identity_process(&loaded, scan->pid, map->start);
    if (r == -ESRCH)
        return r; /* it has ended meanwhile: libraries that cannot be seen were not closed */
    if (r < 0 && r != -EACCES)
        return 0;
    if (!GROW(scan->modules, scan->count, scan->room))
        return -ENOMEM;
    struct module *module = &scan->modules[scan->count++];
    memset(module, 0, sizeof *module);
    module->is_program = scan->exe[0] && strcmp(scan->exe, map->path) == 0;
    if (r < 0)
        loaded.phdr_count = 0;
    else
        elf_identity_id(&loaded, module->loaded);
    module_find_file(scan, map, &loaded, module);
    if (loaded.phdr_count && elf_identity_bias(&loaded, map->start, &module->bias) &&
        elf_identity_span(&loaded, &low, &high)) {
        module->start = module->bias + low;
        module->end = module->bias + high;
    } else if (r < 0) { /* known by its mappings only */
        module->bias = module->start = map->start;
        module->end = mapped_end(scan, map);
    } else {
        scan->count--;
        return 0;
    }
    *ret_end = (module->end + PAGE - 1) / PAGE * PAGE;
    if (module->is_program)
        scan->exe[0] = 0; /* only once */
    if (loaded.header.e_ident[EI_CLASS] != ELFCLASS64 && !module->problem[0])
        snprintf(module->problem, sizeof module->problem, "a 32-bit program: only 64-bit ones can be traced");
    return 0;
}

/* Where the path says nothing (bind mounts, file systems with odd names) the inode does. */
static void scan_find_program(struct scan *scan)
{
    char path[64];
    struct stat exe, st;
    snprintf(path, sizeof path, "/proc/%d/exe", scan->pid);
    if (!scan->exe[0] || stat(path, &exe) < 0)
        return;
    for (size_t i = 0; i < scan->count; i++)
        if (scan->modules[i].path[0] && stat(scan->modules[i].path, &st) == 0 && st.st_ino == exe.st_ino &&
            st.st_dev == exe.st_dev) {
            scan->modules[i].is_program = true;
            return;
        }
}

static int scan_read(struct scan *scan, struct err *err)
{
    char path[64];
    int r = proc_maps_read(scan->pid, &scan->maps);
    if (r < 0)
        return err_errno(err, r, "what process %d has loaded", scan->pid);
    snprintf(path, sizeof path, "/proc/%d/exe", scan->pid);
    ssize_t len = readlink(path, scan->exe, sizeof scan->exe - 1);
    scan->exe[len < 0 ? 0 : len] = 0;
    uint64_t end = 0;
    for (size_t i = 0; i < scan->maps.count && scan->count < MODULES; i++) {
        const struct proc_map *map = &scan->maps.maps[i];
        if (map->offset != 0 || map->inode == 0 || map->path[0] != '/' || map->start < end || !has_code(scan, i))
            continue;
        r = scan_add_module(scan, map, &end);
        if (r < 0)
            return err_errno(err, r, "what process %d has loaded", scan->pid);
    }
    scan_find_program(scan);
    return 0;
}

int modules_read(pid_t pid, struct module **ret_modules, size_t *ret_count, struct err *err)
{
    struct scan scan = {.pid = pid};
    int r = scan_read(&scan, err);
    proc_maps_done(&scan.maps);
    if (r < 0) {
        free(scan.modules);
        return r;
    }
    *ret_modules = scan.modules;
    *ret_count = scan.count;
    return 0;
}

bool module_is_agent(const struct module *module)
{
    return strcmp(module->name, "libscry-agent.so") == 0;
}

const struct module *module_find(const struct module *modules, size_t count, uint64_t address)
{
    size_t low = COUNT_BEFORE(count, i, modules[i].start <= address);
    return low && address < modules[low - 1].end ? &modules[low - 1] : NULL;
}
