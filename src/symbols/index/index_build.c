/* SPDX-License-Identifier: Apache-2.0 */
/* From an ELF file to its index: finds what there is (libdwfl) and says what there is not. */
#include "symbols/index/index_build.h"

#include <elfutils/libdwfl.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "symbols/index/elf_identity.h"

/* ---- separate debug information ---- */
static const char debug_root[] = "/usr/lib/debug";

/* The name in .gnu_debuglink (a section of objcopy's: name, checksum); "" if there is none. */
static void read_debuglink(Elf *elf, char *ret_name, size_t size)
{
    size_t names;
    *ret_name = 0;
    if (elf_getshdrstrndx(elf, &names) < 0)
        return;
    for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));) {
        GElf_Shdr header;
        const char *name = gelf_getshdr(scn, &header) ? elf_strptr(elf, names, header.sh_name) : NULL;
        Elf_Data *data = name && strcmp(name, ".gnu_debuglink") == 0 ? elf_getdata(scn, NULL) : NULL;
        if (data && data->d_buf && memchr(data->d_buf, 0, data->d_size) && !strchr(data->d_buf, '/') &&
            strlen(data->d_buf) < size)
            snprintf(ret_name, size, "%s", (const char *)data->d_buf);
    }
}

static void find_debug_paths(struct builder *builder, Elf *elf, const struct elf_identity *identity,
                             const char *elf_path)
{
    char real[PATH_MAX], link[NAME_MAX + 1], id[2 * ELF_BUILD_ID + 16];
    if (identity->build_id_size > 1) {
        char *to = id + sprintf(id, "/.build-id/%02x/", identity->build_id[0]);
        for (size_t i = 1; i < identity->build_id_size; i++)
            to += sprintf(to, "%02x", identity->build_id[i]);
        builder_debug_path(builder, debug_root, id, ".debug");
    }
    read_debuglink(elf, link, sizeof link);
    if (!*link || !realpath(elf_path, real))
        return;
    *(strrchr(real, '/') + 1) = 0;
    builder_debug_path(builder, real, "", link);
    builder_debug_path(builder, real, ".debug/", link);
    builder_debug_path(builder, debug_root, real, link);
}

/* A debug file is there but was not taken: it belongs to something else. */
static bool has_foreign_debug_file(struct builder *builder)
{
    bool found = false;
    for (size_t i = 0; i < INDEX_DEBUG_PATHS; i++)
        if (*builder->debug_paths[i] && access(builder->debug_paths[i], R_OK) == 0) {
            builder_problem(builder, "its debug file %s is of another build, or damaged", builder->debug_paths[i]);
            found = true;
        }
    return found;
}

static bool has_section(Elf *elf, const char *wanted)
{
    size_t names;
    if (elf_getshdrstrndx(elf, &names) < 0)
        return false;
    for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));) {
        GElf_Shdr header;
        const char *name = gelf_getshdr(scn, &header) ? elf_strptr(elf, names, header.sh_name) : NULL;
        if (name && header.sh_type != SHT_NOBITS && strcmp(name, wanted) == 0)
            return true;
    }
    return false;
}

static void tell_missing(struct builder *builder, Elf *elf, const char *reason)
{
    bool stripped = true;
    for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));) {
        GElf_Shdr header;
        if (gelf_getshdr(scn, &header) && header.sh_type == SHT_SYMTAB)
            stripped = false;
    }
    if (has_foreign_debug_file(builder))
        return;
    if (has_section(elf, ".debug_info") || has_section(elf, ".zdebug_info"))
        builder_problem(builder, "its debug information cannot be read (%s)", reason ? reason : "damaged");
    else if (stripped && !(builder->flags & INDEX_HAS_DWARF))
        builder_problem(builder,
                        "it is stripped: only the functions that it exports have names; use the file as it was "
                        "linked, or install its debug symbols");
    else
        builder_problem(builder, "it has no debug information: compile it with -g to see places and values");
}

/* ---- building ---- */
static void read_module(struct builder *builder, Dwfl_Module *module, const struct elf_identity *identity,
                        const char *elf_path)
{
    GElf_Addr elf_bias;
    Dwarf_Addr dwarf_bias = 0;
    Elf *elf = dwfl_module_getelf(module, &elf_bias);
    if (!elf) {
        builder_problem(builder, "it cannot be read (%s)", dwfl_errmsg(-1));
        return;
    }
    build_symbols(builder, module);
    Dwarf *dwarf = dwfl_module_getdwarf(module, &dwarf_bias);
    const char *reason = dwarf ? NULL : dwfl_errmsg(-1);
    if (dwarf) {
        build_dwarf(builder, dwarf, dwarf_bias, elf_path);
    } else {
        find_debug_paths(builder, elf, identity, elf_path);
        tell_missing(builder, elf, reason);
    }
}

/* In a container the debug files may be the container's. */
static char *debuginfo_path(const char *elf_path)
{
    char *path;
    int pid, len = 0;
    if (sscanf(elf_path, "/proc/%d/root%n", &pid, &len) == 1 && len > 0)
        return asprintf(&path, ":.debug:%s:/proc/%d/root%s", debug_root, pid, debug_root) < 0 ? NULL : path;
    return asprintf(&path, ":.debug:%s", debug_root) < 0 ? NULL : path;
}

struct opened {
    char *debuginfo_path;
    Dwfl_Callbacks callbacks;
    Dwfl *dwfl;
};

static void opened_done(struct opened *opened)
{
    dwfl_end(opened->dwfl);
    free(opened->debuginfo_path);
}

/* Strings of the builder are borrowed from *opened. */
static int build(struct builder *builder, struct opened *opened, int fd, const struct elf_identity *identity,
                 const char *elf_path)
{
    opened->debuginfo_path = debuginfo_path(elf_path);
    opened->callbacks = (Dwfl_Callbacks){
        .find_elf = dwfl_build_id_find_elf, /* never called: the file is given */
        .find_debuginfo = dwfl_standard_find_debuginfo,
        .section_address = dwfl_offline_section_address,
        .debuginfo_path = &opened->debuginfo_path,
    };
    unsetenv("DEBUGINFOD_URLS"); /* nothing is fetched from the network */
    opened->dwfl = opened->debuginfo_path ? dwfl_begin(&opened->callbacks) : NULL;
    int own = opened->dwfl ? fcntl(fd, F_DUPFD_CLOEXEC, 3) : -1; /* libdwfl closes it */
    if (own < 0)
        return -ENOMEM;
    Dwfl_Module *module = dwfl_report_elf(opened->dwfl, elf_path, elf_path, own, 0, true);
    const char *reason = module ? NULL : dwfl_errmsg(-1);
    if (!module)
        close(own);
    dwfl_report_end(opened->dwfl, NULL, NULL);
    if (module)
        read_module(builder, module, identity, elf_path);
    else
        builder_problem(builder, "it cannot be read (%s)", reason ? reason : "damaged");
    return 0;
}

int index_build(const char *elf_path, struct buf *image, char ret_key[INDEX_KEY_SIZE], struct err *err)
{
    struct stat st;
    struct elf_identity identity;
    _cleanup_(closep) int fd = open(elf_path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_errno(err, -errno, "%s", elf_path);
    if (!S_ISREG(st.st_mode) || elf_identity_file(&identity, fd) < 0)
        return err_set(err, -ENOEXEC, "%s is no program or library (not an ELF file, or damaged)", elf_path);
    elf_identity_key(&identity, fd, &st, ret_key);
    _cleanup_(opened_done) struct opened opened = {0};
    _cleanup_(builder_done) struct builder builder = {0};
    buf_append(&builder.strings, "", 1);
    int r = build(&builder, &opened, fd, &identity, elf_path);
    if (r == 0)
        r = builder_image(&builder, ret_key, image);
    if (r < 0)
        return err_set(err, r, "%s: %s", elf_path,
                       r == -E2BIG ? "too many functions for a symbol index" : "out of memory for its symbols");
    return 0;
}
