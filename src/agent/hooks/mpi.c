/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hooks/mpi.h"

#include "agent/hooks/agent.h"
#include "agent/hooks/connect.h"
#include "agent/system/large.h"
#include "agent/hooks/mpi_host.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <unistd.h>

enum { OPENMPI = 1, MPICH }; /* enum mpi_library of shm/mpi_area.h */
enum { DIR_SHORT = 256, DIR_LONG = 4096 };
enum { ROOM = 10 << 20 }; /* that the interposer takes: its area of 8 MB, itself, and what it notes of threads */

enum state { STATE_OFF, STATE_LOOKING, STATE_LOADING, STATE_LOADED };
static _Atomic uint32_t state;
static const struct mpi_guest *guest;

/* Mostly it takes no page more than there is anyway. */
static char short_dir[DIR_SHORT];
static char long_dir[DIR_LONG] AGENT_LARGE;

/* ---- is there an MPI library? ---- */

struct found {
    const char *name;
    uint64_t dynamic;
    uint32_t library;
    unsigned count;
};

static bool starts(const char *text, const char *start)
{
    while (*start)
        if (*text++ != *start++)
            return false;
    return true;
}

static bool equal(const char *one, const char *other)
{
    return starts(one, other) && starts(other, one);
}

static const char *object_soname(uint64_t base, const Elf64_Dyn *dynamic)
{
    const char *strings = NULL;
    uint64_t soname = 0;
    for (; dynamic->d_tag != DT_NULL; dynamic++) {
        uint64_t value = dynamic->d_un.d_ptr;
        if (dynamic->d_tag == DT_STRTAB)
            strings = (const char *)(value >= base ? value : value + base);
        else if (dynamic->d_tag == DT_SONAME)
            soname = value;
    }
    return strings && soname ? strings + soname : "";
}

/* A library may have been opened by another name: what it calls itself counts. */
static uint32_t library_named(const char *soname)
{
    if (equal(soname, "libmpi.so.40"))
        return OPENMPI;
    if (equal(soname, "libmpich.so.12") || equal(soname, "libmpi.so.12"))
        return MPICH;
    return 0;
}

static int look_at(struct dl_phdr_info *info, size_t size, void *ctx)
{
    struct found *found = ctx;
    const char *name = info->dlpi_name;
    for (const char *at = name; *at; at++)
        if (*at == '/')
            name = at + 1;
    if (!starts(name, "libmpi"))
        return 0;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_DYNAMIC)
            continue;
        uint64_t dynamic = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        uint32_t library = library_named(object_soname(info->dlpi_addr, (const Elf64_Dyn *)dynamic));
        if (library && found->count++ == 0) {
            found->name = info->dlpi_name;
            found->dynamic = dynamic;
            found->library = library;
        }
    }
    return 0;
}

bool agent_mpi_found(void)
{
    struct found found = {.count = 0};
    dl_iterate_phdr(look_at, &found);
    return found.count > 0;
}

/* ---- the interposer ---- */

static size_t append(char *path, size_t size, size_t at, const char *text)
{
    size_t length = raw_length(text, size);
    if (at + length + 1 > size)
        return size;
    raw_copy(path + at, text, length);
    path[at + length] = '\0';
    return at + length;
}

/* SCRY_MPI_DIR, or where the agent lies. */
static bool interposer_path(char *path, size_t size, uint32_t library)
{
    const char *dir = long_dir[0] ? long_dir : short_dir;
    size_t at = 0;
    if (*dir) {
        at = append(path, size, 0, dir);
    } else {
        Dl_info info;
        if (!dladdr(&state, &info) || !info.dli_fname || append(path, size, 0, info.dli_fname) >= size)
            return false;
        for (size_t i = 0; path[i]; i++)
            if (path[i] == '/')
                at = i;
        path[at] = '\0';
    }
    if (at < size)
        at = append(path, size, at, library == OPENMPI ? "/libscry-mpi-openmpi.so" : "/libscry-mpi-mpich.so");
    return at < size && sys_call4(SYS_faccessat, AT_FDCWD, (long)path, R_OK, 0) == 0;
}

/* With a limit of address space it is left to MPI, which needs much of it later: a job that runs without us runs. */
static bool has_room(void)
{
    if (agent_address_room() / AREA_ROOM_PART_MPI >= ROOM)
        return true;
    agent_say(CONNECT_START, AGENT_MPI_NO_ROOM);
    return false;
}

static void load(const struct found *found)
{
    static char path[DIR_LONG] AGENT_LARGE;
    static struct mpi_host host AGENT_LARGE;
    if (!interposer_path(path, sizeof path, found->library) || !has_room())
        return;
    __typeof__(&dlopen) next_dlopen = (__typeof__(&dlopen))agent_next("dlopen");
    __typeof__(&dlsym) next_dlsym = agent_dlsym();
    void *handle = next_dlopen ? next_dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    mpi_start_function *start = handle ? (mpi_start_function *)next_dlsym(handle, "scry_mpi_start") : NULL;
    if (!start) {
        dlerror(); /* not for the program */
        return;
    }
    host.version = MPI_HOST_VERSION;
    host.library = found->library;
    host.library_name = found->name;
    host.library_address = found->dynamic;
    host.why_not = found->count > 1 ? "there are two MPI libraries in the process" : NULL;
    host.late = connect_settings.late;
    host.dlsym = next_dlsym;
    host.connect = agent_connect_mpi;
    host.tell = agent_mpi_tell;
    host.call_begins = agent_mpi_begins;
    host.call_ends = agent_mpi_ends;
    host.acts = mpi_short_acts;
    host.call_acts = agent_mpi_acts;
    host.messages = agent_mpi_messages;
    host.lasts = timeout_runs;
    guest = start(&host);
}

void agent_mpi_detect(void)
{
    uint32_t now = atomic_load(&state);
    if (now == STATE_LOADED) {
        guest->look();
        return;
    }
    struct found found = {.count = 0};
    if (now != STATE_LOOKING)
        return;
    dl_iterate_phdr(look_at, &found);
    if (found.count && atomic_compare_exchange_strong(&state, &now, STATE_LOADING)) {
        load(&found);
        atomic_store(&state, guest ? STATE_LOADED : STATE_OFF);
    }
}

void agent_mpi_opens(void)
{
    if (atomic_load_explicit(&state, memory_order_acquire) == STATE_LOADED)
        guest->opens();
}

void agent_mpi_seal(const char *why)
{
    uint32_t now = atomic_load(&state);
    if (now == STATE_LOOKING || (now == STATE_LOADED && guest->seal(why)))
        atomic_compare_exchange_strong(&state, &now, STATE_OFF);
}

void agent_mpi_start(const char *mode, const char *dir, bool can_load)
{
    if (mode && equal(mode, "off"))
        return;
    size_t length = dir ? raw_length(dir, DIR_LONG) : 0;
    if (length && length < DIR_LONG)
        raw_copy(length < DIR_SHORT ? short_dir : long_dir, dir, length + 1);
    atomic_store(&state, STATE_LOOKING);
    if (can_load)
        agent_mpi_detect();
}

enum late_result agent_mpi_late(const char *dir)
{
    if (atomic_load(&state) == STATE_OFF && !agent_mpi_found())
        return LATE_NO_MPI;
    if (atomic_load(&state) != STATE_LOADED)
        agent_mpi_start(NULL, dir, true);
    return atomic_load(&state) == STATE_LOADED ? LATE_DONE : LATE_NOT_TAKEN;
}

/* ---- dlsym ---- */

bool agent_mpi_asks(const char *name)
{
    return atomic_load_explicit(&state, memory_order_acquire) == STATE_LOADED && name &&
           (starts(name, "MPI_") || starts(name, "PMPI_"));
}

void *agent_mpi_symbol(const char *name, void *found)
{
    return guest->symbol(name, found);
}
