/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ranks of MPI jobs that run already, with or without us in them: by what their launcher put into their
 * environment, and by the launcher's own table, which knows those on other nodes, too. Only /proc is read.
 */
#include <ctype.h>
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/file.h"
#include "monitor/mpi/internal.h"
#include "probe/proc.h"

enum { ANCESTORS_MOST = 64 };

/* ---- one process ---- */

/* The value of a variable in NUL-separated assignments; NULL. */
static const char *environment_value(const struct buf *environment, const char *name)
{
    size_t len = strlen(name);
    for (const char *at = environment->data, *end = at + environment->len; at && at < end; at += strlen(at) + 1)
        if (strncmp(at, name, len) == 0 && at[len] == '=')
            return at + len + 1;
    return NULL;
}

static int32_t environment_number(const struct buf *environment, const char *name)
{
    const char *text = environment_value(environment, name);
    char *end;
    long value = text && isdigit((unsigned char)*text) ? strtol(text, &end, 10) : -1;
    return value < 0 || value > INT32_MAX || *end ? -1 : (int32_t)value;
}

static enum mpi_library library_of(pid_t pid)
{
    char path[64];
    _cleanup_(freep) char *maps = NULL;
    size_t len;
    snprintf(path, sizeof path, "/proc/%d/maps", pid);
    if (file_read(path, &maps, &len) < 0)
        return 0;
    return strstr(maps, "/libmpi.so") ? MPIA_LIBRARY_OPENMPI : strstr(maps, "/libmpich.so") ? MPIA_LIBRARY_MPICH : 0;
}

/* All proxies of an MPICH job have the address of its one mpiexec on their command line. */
static bool proxy_namespace(pid_t pid, char *ret_namespace, size_t size)
{
    _cleanup_(buf_done) struct buf line = BUF_INIT;
    if (proc_cmdline(pid, &line) < 0 || !line.data)
        return false;
    for (const char *at = line.data, *end = at + line.len; at < end; at += strlen(at) + 1)
        if (strcmp(at, "--control-port") == 0 && at + strlen(at) + 1 < end) {
            snprintf(ret_namespace, size, "%s", at + strlen(at) + 1);
            return true;
        }
    return false;
}

void mpi_namespace_find(pid_t pid, char *inout_namespace, size_t size)
{
    struct proc_stat stat;
    pid_t at = pid;
    for (unsigned i = 0; i < ANCESTORS_MOST && !*inout_namespace && at > 1; i++) {
        if (proc_stat_read(at, 0, &stat) < 0)
            break;
        if (strncmp(stat.comm, "hydra_pmi_proxy", strlen("hydra_pmi_proxy")) == 0 &&
            proxy_namespace(at, inout_namespace, size))
            return;
        at = stat.ppid;
    }
}

static void set_namespace(struct mpi_found *found, const struct buf *environment)
{
    const char *namespace = environment_value(environment, "PMIX_NAMESPACE");
    const char *job = environment_value(environment, "SLURM_JOB_ID"),
               *step = environment_value(environment, "SLURM_STEP_ID");
    if (namespace)
        snprintf(found->namespace, sizeof found->namespace, "%s", namespace);
    else
        mpi_namespace_find(found->pid, found->namespace, sizeof found->namespace);
    if (!*found->namespace && job)
        snprintf(found->namespace, sizeof found->namespace, "%s.%s", job, step ? step : "");
}

bool mpi_spawner_find(pid_t pid, char *ret_namespace, size_t size, int32_t *ret_rank)
{
    _cleanup_(buf_done) struct buf environment = BUF_INIT;
    const char *port =
        proc_environ(pid, &environment) == 0 ? environment_value(&environment, "OMPI_PARENT_PORT") : NULL;
    const char *tag = port ? strrchr(port, ':') : NULL; /* NAMESPACE.RANK:TAG */
    const char *dot = tag ? memrchr(port, '.', (size_t)(tag - port)) : NULL;
    if (!dot || !isdigit((unsigned char)dot[1]))
        return false;
    snprintf(ret_namespace, size, "%.*s", (int)(dot - port), port);
    *ret_rank = (int32_t)strtol(dot + 1, NULL, 10);
    return true;
}

/* The script of a batch job, and the shell of an allocation, have the number of a task, too, and all that they start. They
 * are of no step, or of one that Slurm has for itself. */
static bool is_in_step(const struct buf *environment)
{
    enum { OWN_STEPS = 65536 }; /* the highest numbers of 32 bits */
    const char *step = environment_value(environment, "SLURM_STEP_ID");
    return step && isdigit((unsigned char)*step) && strtoull(step, NULL, 10) < UINT32_MAX - OWN_STEPS;
}

/* What stands beside a rank to watch it. */
static bool is_scry(const char *exe)
{
    const char *name = basename(exe);
    size_t len = strlen("scry");
    return strncmp(name, "scry", len) == 0 && strchr(" -", name[len]); /* "scry (deleted)": another one was installed */
}

/* Whether its environment says that it is a rank, or below one. */
static bool process_look(pid_t pid, struct mpi_found *ret_found)
{
    static const char *const ranks[][2] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                           {"PMI_RANK", "PMI_SIZE"},
                                           {"PMIX_RANK", "PMIX_SIZE"},
                                           {"SLURM_PROCID", "SLURM_NTASKS"}}; /* the last one */
    _cleanup_(buf_done) struct buf environment = BUF_INIT;
    *ret_found = (struct mpi_found){.pid = pid, .rank = -1, .size = -1, .here = true};
    if (proc_environ(pid, &environment) < 0 || !environment.data)
        return false;
    size_t rows = sizeof ranks / sizeof *ranks - !is_in_step(&environment);
    for (size_t i = 0; i < rows && ret_found->rank < 0; i++) {
        ret_found->rank = environment_number(&environment, ranks[i][0]);
        ret_found->size = environment_number(&environment, ranks[i][1]);
    }
    if (ret_found->rank < 0)
        return false;
    if (proc_exe(pid, ret_found->exe, sizeof ret_found->exe) < 0)
        ret_found->exe[0] = 0;
    if (is_scry(ret_found->exe))
        return false;
    const char *job = environment_value(&environment, "SCRY_JOB");
    snprintf(ret_found->job, sizeof ret_found->job, "%s", job ? job : "");
    set_namespace(ret_found, &environment);
    ret_found->library = library_of(pid);
    gethostname(ret_found->host, sizeof ret_found->host - 1);
    return true;
}

/* ---- the table of a launcher ---- */

/*
 * The table that an MPI launcher keeps for debuggers ("The MPIR Process Acquisition Interface", MPI Forum 2010):
 * MPIR_proctable and MPIR_proctable_size, which are symbols of its library. They are read from its memory as it runs,
 * nothing is stopped, and no file is needed: the library's own tables say where they are (System V ABI, chapter 5;
 * .gnu.hash as in binutils).
 */

enum {
    DYNAMIC_MAX = 512,
    CHAIN_MAX = 1 << 16,
    RANKS_MAX = 1 << 20,
    TEXT_MAX = 512,
};

struct library {
    pid_t pid;
    uint64_t bias, symbols, names, hash;
};

static bool peek(pid_t pid, uint64_t addr, void *bytes, size_t len)
{
    return proc_memory_read(pid, addr, bytes, len, NULL) == 0;
}

/* What is there of a string; "" for none. */
static void peek_text(pid_t pid, uint64_t addr, char text[TEXT_MAX])
{
    size_t done = 0;
    memset(text, 0, TEXT_MAX);
    if (addr)
        proc_memory_read(pid, addr, text, TEXT_MAX - 1, &done);
    text[done < TEXT_MAX ? done : TEXT_MAX - 1] = 0;
}

static bool find_tables(struct library *library)
{
    Elf64_Ehdr header;
    Elf64_Phdr phdr;
    uint64_t dynamic = 0;
    if (!peek(library->pid, library->bias, &header, sizeof header) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
        header.e_phentsize != sizeof phdr)
        return false;
    for (unsigned i = 0; i < header.e_phnum && !dynamic; i++)
        if (peek(library->pid, library->bias + header.e_phoff + i * sizeof phdr, &phdr, sizeof phdr) &&
            phdr.p_type == PT_DYNAMIC)
            dynamic = library->bias + phdr.p_vaddr;
    for (unsigned i = 0; dynamic && i < DYNAMIC_MAX; i++) {
        Elf64_Dyn item;
        if (!peek(library->pid, dynamic + i * sizeof item, &item, sizeof item) || item.d_tag == DT_NULL)
            break;
        if (item.d_tag == DT_SYMTAB) /* addresses: the loader has added the bias */
            library->symbols = item.d_un.d_ptr;
        else if (item.d_tag == DT_STRTAB)
            library->names = item.d_un.d_ptr;
        else if (item.d_tag == DT_GNU_HASH)
            library->hash = item.d_un.d_ptr;
    }
    return library->symbols && library->names && library->hash;
}

static uint32_t hash_of(const char *name)
{
    uint32_t hash = 5381;
    for (; *name; name++)
        hash = hash * 33 + (unsigned char)*name;
    return hash;
}

static bool is_symbol(const struct library *library, uint32_t index, const char *name, uint64_t *ret_address)
{
    Elf64_Sym symbol;
    char text[TEXT_MAX];
    if (!peek(library->pid, library->symbols + (uint64_t)index * sizeof symbol, &symbol, sizeof symbol) ||
        symbol.st_shndx == SHN_UNDEF)
        return false;
    peek_text(library->pid, library->names + symbol.st_name, text);
    *ret_address = library->bias + symbol.st_value;
    return strcmp(text, name) == 0;
}

static bool find_symbol(const struct library *library, const char *name, uint64_t *ret_address)
{
    struct {
        uint32_t buckets, first, bloom, shift;
    } head;
    uint32_t index, entry, hash = hash_of(name);
    if (!peek(library->pid, library->hash, &head, sizeof head) || !head.buckets)
        return false;
    uint64_t buckets = library->hash + sizeof head + (uint64_t)head.bloom * 8;
    uint64_t chain = buckets + (uint64_t)head.buckets * 4;
    if (!peek(library->pid, buckets + (uint64_t)(hash % head.buckets) * 4, &index, sizeof index) || index < head.first)
        return false;
    for (unsigned i = 0; i < CHAIN_MAX; i++, index++) {
        if (!peek(library->pid, chain + (uint64_t)(index - head.first) * 4, &entry, sizeof entry))
            return false;
        if ((entry | 1) == (hash | 1) && is_symbol(library, index, name, ret_address))
            return true;
        if (entry & 1)
            return false;
    }
    return false;
}

static bool is_launcher_library(const char *path)
{
    static const char *const names[] = {"libopen-rte.so", "libprrte.so", "libmpir.so"};
    const char *name = basename(path);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(name, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

static int find_library(pid_t pid, struct library *ret_library)
{
    struct proc_module *modules;
    size_t count;
    int code = proc_modules(pid, &modules, &count);
    if (code < 0)
        return code;
    code = -ENOENT;
    for (size_t i = 0; i < count && code == -ENOENT; i++) {
        *ret_library = (struct library){.pid = pid, .bias = modules[i].bias};
        if (is_launcher_library(modules[i].path) && find_tables(ret_library))
            code = 0;
    }
    proc_modules_free(modules, count);
    return code;
}

static int table_read(pid_t launcher, void (*fn)(void *ctx, int rank, int pid, const char *host, const char *exe),
                      void *ctx, size_t *ret_size)
{
    struct library library;
    struct {
        uint64_t host, exe;
        int32_t pid, padding;
    } row;
    uint64_t table_at, size_at, table = 0;
    int32_t size = 0;
    *ret_size = 0;
    int code = find_library(launcher, &library);
    if (code < 0)
        return code;
    if (!find_symbol(&library, "MPIR_proctable", &table_at) ||
        !find_symbol(&library, "MPIR_proctable_size", &size_at) || !peek(launcher, table_at, &table, sizeof table) ||
        !peek(launcher, size_at, &size, sizeof size))
        return -ENOENT;
    if (!table || size <= 0 || size > RANKS_MAX) /* not filled yet */
        return 0;
    char host[TEXT_MAX], exe[TEXT_MAX];
    for (int rank = 0; rank < size; rank++) {
        if (!peek(launcher, table + (uint64_t)rank * sizeof row, &row, sizeof row) || row.pid <= 0)
            return -EBADMSG;
        peek_text(launcher, row.host, host);
        peek_text(launcher, row.exe, exe);
        fn(ctx, rank, row.pid, host, exe);
    }
    *ret_size = (size_t)size;
    return 0;
}

/* ---- all of them ---- */

struct finding {
    struct mpi_found *list;
    size_t count, room;
    size_t known;        /* found in /proc, before the tables */
    char namespace[128]; /* of the table that is read, as its ranks here have it */
    bool failed;
    char host[256]; /* this one */
};

static void found_add(struct finding *finding, const struct mpi_found *found)
{
    if (finding->count == finding->room) {
        size_t room = finding->room ? 2 * finding->room : 16;
        struct mpi_found *grown = realloc(finding->list, room * sizeof *grown);
        if (!grown) {
            finding->failed = true;
            return;
        }
        finding->list = grown;
        finding->room = room;
    }
    finding->list[finding->count++] = *found;
}

static bool is_launcher(const char *comm)
{
    static const char *const names[] = {"mpirun", "mpiexec",        "orterun",         "prterun",
                                        "prun",   "mpirun.openmpi", "mpiexec.openmpi", "orted"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(comm, names[i], 15) == 0)
            return true;
    return false;
}

/* A rank of a launcher's table: known already from its environment, or on another node. */
static void found_add_row(void *ctx, int rank, int pid, const char *host, const char *exe)
{
    struct finding *finding = ctx;
    bool here = strcmp(host, finding->host) == 0 || strcmp(host, "localhost") == 0;
    struct mpi_found found = {.pid = pid, .rank = rank, .size = -1, .here = here};
    for (size_t i = 0; here && i < finding->known; i++)
        if (finding->list[i].pid == pid) {
            memcpy(finding->namespace, finding->list[i].namespace, sizeof finding->namespace);
            return;
        }
    snprintf(found.host, sizeof found.host, "%s", host);
    snprintf(found.exe, sizeof found.exe, "%s", exe);
    if (here)
        found.library = library_of(pid);
    found_add(finding, &found);
}

/* The shells and helpers of a rank have its environment, too: of those with one rank the one that has the library
 * counts; where none has it yet, the innermost. */
static int by_likelihood(const void *a, const void *b)
{
    const struct mpi_found *one = a, *other = b;
    int order = strcmp(one->namespace, other->namespace);
    if (order == 0)
        order = one->rank < other->rank ? -1 : one->rank > other->rank;
    if (order == 0)
        order = (other->library != 0) - (one->library != 0);
    return order ? order : other->pid < one->pid ? -1 : other->pid > one->pid;
}

static void keep_likeliest(struct finding *finding)
{
    size_t kept = 0;
    if (finding->count)
        qsort(finding->list, finding->count, sizeof *finding->list, by_likelihood);
    for (size_t i = 0; i < finding->count; i++) {
        const struct mpi_found *one = &finding->list[i], *last = kept ? &finding->list[kept - 1] : NULL;
        bool same = last && last->rank == one->rank && strcmp(last->namespace, one->namespace) == 0;
        /* without a launcher's name for it a rank may be of another job: processes with the library are all kept */
        if (same && (!one->library || *one->namespace))
            continue;
        finding->list[kept++] = *one;
    }
    finding->count = kept;
}

static void read_tables(struct finding *finding, const pid_t *launchers, size_t count, char *note, size_t note_size)
{
    for (size_t i = 0; i < count; i++) {
        size_t size, from = finding->count;
        finding->namespace[0] = 0;
        int code = table_read(launchers[i], found_add_row, finding, &size);
        for (size_t k = from; k < finding->count; k++) { /* what all its ranks share */
            finding->list[k].size = (int32_t)size;
            memcpy(finding->list[k].namespace, finding->namespace, sizeof finding->namespace);
        }
        if (code == -EACCES && note_size && !*note)
            snprintf(note, note_size,
                     "the table of ranks of the launcher, pid %d, may not be read (see ptrace_scope in `scry doctor`): "
                     "ranks on other nodes are missing",
                     launchers[i]);
    }
}

int mpi_find_ranks(struct mpi_found **ret_found, size_t *ret_count, char *note, size_t note_size)
{
    struct finding finding = {0};
    struct stat st;
    pid_t launchers[256];
    size_t launcher_count = 0;
    if (note_size)
        *note = 0;
    gethostname(finding.host, sizeof finding.host - 1);
    DIR *dir = opendir("/proc");
    if (!dir)
        return -errno;
    for (struct dirent *entry; (entry = readdir(dir));) {
        struct mpi_found found;
        struct proc_stat stat;
        pid_t pid = isdigit((unsigned char)entry->d_name[0]) ? (pid_t)atoi(entry->d_name) : 0;
        if (pid <= 0 || fstatat(dirfd(dir), entry->d_name, &st, 0) < 0 || st.st_uid != geteuid())
            continue;
        if (proc_stat_read(pid, 0, &stat) < 0 || stat.state == 'Z')
            continue;
        if (is_launcher(stat.comm) && launcher_count < sizeof launchers / sizeof *launchers)
            launchers[launcher_count++] = pid;
        else if (process_look(pid, &found))
            found_add(&finding, &found);
    }
    closedir(dir);
    keep_likeliest(&finding);
    finding.known = finding.count;
    read_tables(&finding, launchers, launcher_count, note, note_size);
    if (finding.failed) {
        free(finding.list);
        return -ENOMEM;
    }
    *ret_found = finding.list;
    *ret_count = finding.count;
    return 0;
}
