/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library begins here (scry_mpi_start), called by the agent.
 *
 * Calls are caught where they leave an object: its relocation slots of MPI_ and PMPI_ names are made to point to the
 * wrappers (wrap.h). Nothing is known before the program runs, lookup order stays as it is, and a slot is only changed
 * where it is certain what its owner would have called without us:
 *
 * - What a name leads to (`real`) is the first definition in the program's lookup order: the program's own PMPI tool,
 * or the MPI library. Of PMPI_ names it must be in the MPI library.
 * - A slot that the dynamic linker has filled is changed if it holds just that; a lazy one, which is still filled with
 *   its object's own code, if the linker would fill in just that. All others stay: those of another MPI library, of
 *   objects that bind to themselves, pointers that the program has changed.
 * - Never those of the MPI library and its plugins: what it calls itself is not the user's.
 *
 * Slots are never put back: the wrappers stay loaded to the end.
 */
#include "agent/hooks/mpi_host.h"
#include "agent/system/proc_text.h"
#include "agent/system/sys.h"
#include "mpi/count/library.h"
#include "mpi/count/self.h"
#include "mpi/message/tell.h"
#include "mpi/wrap/wrap.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

/*
 * Symbols of one object of the process, by its own hash table: no lock, no memory, no error that dlerror would give the
 * program. (A link map is no handle for dlsym unless that very object was opened.)
 */

struct symbols {
    uint64_t base;
    const char *strings;
    const Elf64_Sym *table;
    const uint32_t *gnu, *old;
    bool undefined; /* which symbols are wanted */
};

static void symbols_take(struct symbols *symbols, const struct link_map *map)
{
    *symbols = (struct symbols){.base = map->l_addr};
    /* the dynamic linker has relocated the section in place where it is writable; the vdso's is not */
#define AT(value) (const void *)((value) >= map->l_addr ? (value) : (value) + map->l_addr)
    for (const Elf64_Dyn *dynamic = map->l_ld; dynamic->d_tag != DT_NULL; dynamic++) {
        if (dynamic->d_tag == DT_STRTAB)
            symbols->strings = AT(dynamic->d_un.d_ptr);
        else if (dynamic->d_tag == DT_SYMTAB)
            symbols->table = AT(dynamic->d_un.d_ptr);
        else if (dynamic->d_tag == DT_GNU_HASH)
            symbols->gnu = AT(dynamic->d_un.d_ptr);
        else if (dynamic->d_tag == DT_HASH)
            symbols->old = AT(dynamic->d_un.d_ptr);
    }
#undef AT
}

static void *matching(const struct symbols *symbols, uint32_t number, const char *name)
{
    const Elf64_Sym *symbol = &symbols->table[number];
    unsigned type = ELF64_ST_TYPE(symbol->st_info);
    if ((symbol->st_shndx == SHN_UNDEF) != symbols->undefined || symbol->st_value == 0 ||
        (type != STT_FUNC && type != STT_OBJECT && type != STT_NOTYPE) ||
        strcmp(symbols->strings + symbol->st_name, name) != 0)
        return NULL;
    return (void *)(symbols->base + symbol->st_value);
}

static void *find_gnu(const struct symbols *symbols, const char *name)
{
    const uint32_t *table = symbols->gnu;
    uint32_t buckets = table[0], first = table[1], words = table[2], shift = table[3], hash = 5381;
    for (const char *c = name; *c; c++)
        hash = hash * 33 + (uint8_t)*c;
    const uint64_t *bloom = (const uint64_t *)(const void *)(table + 4);
    uint64_t bits = UINT64_C(1) << hash % 64 | UINT64_C(1) << (hash >> shift) % 64;
    if (!buckets || !words || (bloom[hash / 64 % words] & bits) != bits)
        return NULL;
    const uint32_t *bucket = (const uint32_t *)(const void *)(bloom + words), *chain = bucket + buckets;
    for (uint32_t at = bucket[hash % buckets]; at >= first; at++) {
        uint32_t other = chain[at - first];
        void *found = (other | 1) == (hash | 1) ? matching(symbols, at, name) : NULL;
        if (found)
            return found;
        if (other & 1)
            break;
    }
    return NULL;
}

static void *find_old(const struct symbols *symbols, const char *name)
{
    uint32_t hash = 0;
    for (const char *c = name; *c; c++) {
        hash = (hash << 4) + (uint8_t)*c;
        hash ^= (hash >> 24) & 0xf0;
        hash &= 0x0fffffff;
    }
    const uint32_t *table = symbols->old, *bucket = table + 2, *chain = bucket + table[0];
    for (uint32_t at = table[0] ? bucket[hash % table[0]] : 0; at; at = chain[at]) {
        void *found = matching(symbols, at, name);
        if (found)
            return found;
    }
    return NULL;
}

static void *lookup(const struct link_map *map, const char *name, bool undefined)
{
    struct symbols symbols;
    symbols_take(&symbols, map);
    symbols.undefined = undefined;
    if (!symbols.strings || !symbols.table)
        return NULL;
    return symbols.gnu ? find_gnu(&symbols, name) : symbols.old ? find_old(&symbols, name) : NULL;
}

/* What the object itself defines by that name, or NULL. */
static void *lookup_in(const struct link_map *map, const char *name)
{
    return lookup(map, name, false);
}

/* What stands in it for a function of others by that name, or NULL: an entry in its procedure linkage table. */
static void *lookup_stands_for(const struct link_map *map, const char *name)
{
    return lookup(map, name, true);
}

/*
 * Walks over the objects of the process while the dynamic linker loads and unloads nothing: all of it runs as resolver
 * of an indirect function of ours (scry_mpi_locked), which dlsym calls under the linker's lock. An object that another
 * thread's dlopen has only half relocated is therefore never seen.
 */

enum { SEEN_MOST = 2048, PAGE = 4096 };

void *mpi_real[CALL_COUNT][MPI_KINDS];

static bool known[CALL_COUNT][MPI_KINDS]; /* whether it was looked for; of mpi_real */

static const struct mpi_host *host;
static struct link_map *library, *own;
static bool failed; /* a lookup of ours: it left an error that the program would be told */

static struct {
    const void *objects[SEEN_MOST]; /* their program headers, in the order of the linker's list */
    unsigned count, all;            /* all: there were */
    uint64_t loaded;                /* number of objects that had been by then */
} seen;

/* ---- where addresses belong ---- */

#if __GLIBC_PREREQ(2, 35)
extern __typeof__(_dl_find_object) _dl_find_object __attribute__((weak));
#endif

static struct link_map *object_of(const void *address)
{
#if __GLIBC_PREREQ(2, 35) /* dladdr looks at all symbols of an object */
    struct dl_find_object object;
    if (_dl_find_object && _dl_find_object((void *)(uintptr_t)address, &object) == 0)
        return object.dlfo_link_map;
#endif
    Dl_info info;
    struct link_map *map = NULL;
    return dladdr1(address, &info, (void **)&map, RTLD_DL_LINKMAP) ? map : NULL;
}

/* Where the address of a function is taken in a program that is linked at a fixed address, its entry in the program's
 * procedure linkage table stands for it, and the dynamic linker's answers are that. */
static bool is_canonical_plt(const void *address, const char *name)
{
    const struct link_map *program = library;
    while (program->l_prev)
        program = program->l_prev;
    return lookup_stands_for(program, name) == address;
}

/* The first definition by a library, in the order in which they were loaded; *ret_more: there is another. */
static void *first_definition(const char *name, bool *ret_more)
{
    struct link_map *map = library;
    void *first = NULL;
    while (map->l_prev)
        map = map->l_prev;
    for (map = map->l_next; map; map = map->l_next) {
        void *found = lookup_in(map, name);
        if (found && first) {
            *ret_more = true;
            break;
        }
        if (!first)
            first = found;
    }
    return first;
}

/* What a name leads to for every object that sees the MPI library at all; NULL: that is not certain. */
static void *definition(const char *name)
{
    bool more = false;
    void *found = host->dlsym(RTLD_DEFAULT, name);
    failed = failed || !found;
    if (found)
        return is_canonical_plt(found, name) ? first_definition(name, &more) : found;
    found = first_definition(name, &more); /* nobody sees it but who has opened it */
    return more ? NULL : found;
}

/* ---- what names lead to ---- */

static bool call_named(const char *name, enum call_id *ret_call, enum mpi_kind *ret_kind)
{
    *ret_kind = name[0] == 'P' ? MPI_KIND_PROFILED : MPI_KIND_PLAIN;
    *ret_call = call_find(name);
    return *ret_call != CALL_NONE && mpi_entries[*ret_call].wrapper[*ret_kind];
}

/* A tool of the program's, and not another MPI. */
static bool is_tool(const struct link_map *map)
{
    return map && !lookup_in(map, "PMPI_Init");
}

/* `name`: of the call and kind. NULL: slots of it are left alone. Under the dynamic linker's lock. */
static void *real_of(enum call_id call, enum mpi_kind kind, const char *name)
{
    if (__atomic_load_n(&known[call][kind], __ATOMIC_ACQUIRE))
        return mpi_real[call][kind];
    void *by_library = lookup_in(library, name), *found = definition(name);
    if (found != by_library &&
        (kind == MPI_KIND_PROFILED || !found || mpi_entries[call].quick || !is_tool(object_of(found))))
        /* Slots that hold just that are certain all the same. As to quick calls: the tool's own MPI_Wtime calls
         * PMPI_Wtime, which is counted, and those calls know no nesting. */
        found = by_library;
    mpi_real[call][kind] = found;
    __atomic_store_n(&known[call][kind], true, __ATOMIC_RELEASE);
    return found;
}

/* ---- objects ---- */

enum object_kind { OBJECT_OTHER, OBJECT_FORTRAN, OBJECT_LEFT_ALONE };

struct object {
    uint64_t base;
    enum object_kind kind;
    bool symbolic;
    const Elf64_Phdr *phdr;
    unsigned phnum;
    const char *strings;
    const Elf64_Sym *symbols;
    const Elf64_Rela *plt, *rest;
    size_t plt_count, rest_count, relative;
    uint64_t relro_low, relro_high;
    bool relro_open; /* was made writable for now */
    int relro_protection;
};

static bool starts(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

static enum object_kind kind_of(const struct dl_phdr_info *info)
{
    static const char *const fortran[] = {"libmpi_mpifh", "libmpi_usempi", "libmpichfort", "libmpifort"};
    static const char *const parts[] = {"mca_",     "libmca_", "libopen-",  "libompi",       "libpmix",    "libpmi2",
                                        "libprrte", "libmpl.", "liboshmem", "libscry-agent", "libmpi_java"};
    const char *slash = strrchr(info->dlpi_name, '/');
    const char *name = slash ? slash + 1 : info->dlpi_name;
    for (unsigned i = 0; i < sizeof fortran / sizeof fortran[0]; i++)
        if (starts(name, fortran[i]))
            return OBJECT_FORTRAN;
    for (unsigned i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (starts(name, parts[i]))
            return OBJECT_LEFT_ALONE;
    return OBJECT_OTHER;
}

static void take_dynamic(struct object *object, const Elf64_Dyn *dynamic)
{
    /* the dynamic linker has relocated the section in place where it is writable; the vdso's is not */
#define AT(value) (const void *)((value) >= object->base ? (value) : (value) + object->base)
    for (; dynamic->d_tag != DT_NULL; dynamic++) {
        switch (dynamic->d_tag) {
        case DT_STRTAB:
            object->strings = AT(dynamic->d_un.d_ptr);
            break;
        case DT_SYMTAB:
            object->symbols = AT(dynamic->d_un.d_ptr);
            break;
        case DT_JMPREL:
            object->plt = AT(dynamic->d_un.d_ptr);
            break;
        case DT_PLTRELSZ:
            object->plt_count = dynamic->d_un.d_val / sizeof(Elf64_Rela);
            break;
        case DT_RELA:
            object->rest = AT(dynamic->d_un.d_ptr);
            break;
        case DT_RELASZ:
            object->rest_count = dynamic->d_un.d_val / sizeof(Elf64_Rela);
            break;
        case DT_RELACOUNT:
            object->relative = dynamic->d_un.d_val;
            break;
        case DT_SYMBOLIC:
            object->symbolic = true;
            break;
        case DT_FLAGS:
            object->symbolic = object->symbolic || (dynamic->d_un.d_val & DF_SYMBOLIC);
            break;
        default:
            break;
        }
    }
#undef AT
}

static bool object_take(struct object *object, const struct dl_phdr_info *info)
{
    const Elf64_Dyn *dynamic = NULL;
    *object = (struct object){.base = info->dlpi_addr, .phdr = info->dlpi_phdr, .phnum = info->dlpi_phnum};
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const Elf64_Phdr *phdr = &info->dlpi_phdr[i];
        if (phdr->p_type == PT_DYNAMIC)
            dynamic = (const Elf64_Dyn *)(info->dlpi_addr + phdr->p_vaddr);
        if (phdr->p_type == PT_GNU_RELRO) {
            object->relro_low = (info->dlpi_addr + phdr->p_vaddr) & -(uint64_t)PAGE;
            object->relro_high = (info->dlpi_addr + phdr->p_vaddr + phdr->p_memsz) & -(uint64_t)PAGE;
        }
    }
    if (!dynamic || (uint64_t)dynamic == (uint64_t)library->l_ld || (uint64_t)dynamic == (uint64_t)own->l_ld)
        return false;
    object->kind = kind_of(info);
    if (object->kind == OBJECT_LEFT_ALONE)
        return false;
    take_dynamic(object, dynamic);
    return object->strings && object->symbols;
}

/* The flags (PF_...) of the part of the object that an address is in. */
static uint32_t flags_at(const struct object *object, uint64_t address)
{
    for (unsigned i = 0; i < object->phnum; i++) {
        const Elf64_Phdr *phdr = &object->phdr[i];
        if (phdr->p_type == PT_LOAD && address - object->base - phdr->p_vaddr < phdr->p_memsz)
            return phdr->p_flags;
    }
    return 0;
}

/* ---- changing slots ---- */

static int protection_at(uint64_t address)
{
    char buffer[4096];
    uint64_t low, high;
    return proc_text_mapping(address, buffer, sizeof buffer, &low, &high);
}

static bool protect(const struct object *object, int protection)
{
    return sys_call4(SYS_mprotect, (long)object->relro_low, (long)(object->relro_high - object->relro_low), protection,
                     0) == 0;
}

/* Pages that are read-only once the object is relocated are opened with its first slot there, for the time of the walk.
 */
static bool make_writable(struct object *object, uint64_t address)
{
    if (address < object->relro_low || address >= object->relro_high)
        return flags_at(object, address) & PF_W;
    if (object->relro_open)
        return true;
    object->relro_protection = protection_at(object->relro_low);
    if (object->relro_protection < 0)
        return false;
    if (!(object->relro_protection & PROT_WRITE) && !protect(object, object->relro_protection | PROT_WRITE))
        return false;
    object->relro_open = true;
    return true;
}

static void close_again(struct object *object)
{
    if (object->relro_open && !(object->relro_protection & PROT_WRITE))
        protect(object, object->relro_protection);
}

static void change(struct object *object, uint64_t address, void *to)
{
    if (make_writable(object, address))
        __atomic_store_n((void **)address, to, __ATOMIC_RELEASE);
}

/* ---- one slot ---- */

struct slot {
    uint64_t address;
    uint64_t type;
    const Elf64_Sym *symbol;
    const char *name;
};

/* Still waits for its first call. */
static bool is_lazy(const struct object *object, const struct slot *slot, uint64_t value)
{
    if (slot->type != R_X86_64_JUMP_SLOT || !(flags_at(object, value) & PF_X))
        return false;
    return slot->symbol->st_shndx == SHN_UNDEF || (value != object->base + slot->symbol->st_value && !object->symbolic);
}

static void look_at_call(struct object *object, const struct slot *slot)
{
    enum call_id call;
    enum mpi_kind kind;
    if (!call_named(slot->name, &call, &kind))
        return;
    void *value = *(void **)slot->address, *real = real_of(call, kind, slot->name);
    if (real && (value == real || (is_lazy(object, slot, (uint64_t)value) && definition(slot->name) == real)))
        change(object, slot->address, mpi_entries[call].wrapper[kind]);
}

static bool in_fortran_library(const void *address)
{
    struct link_map *map = object_of(address);
    struct dl_phdr_info info = {.dlpi_name = map ? map->l_name : ""};
    return map && (map == library || kind_of(&info) == OBJECT_FORTRAN);
}

static void look_at_fortran(struct object *object, const struct slot *slot)
{
    void *value = *(void **)slot->address;
    if (is_lazy(object, slot, (uint64_t)value))
        value = definition(slot->name);
    void *stub = value && in_fortran_library(value) ? fortran_stub(slot->name, value) : NULL;
    if (stub)
        change(object, slot->address, stub);
}

static void look_at(struct object *object, const Elf64_Rela *relocation)
{
    struct slot slot = {.type = ELF64_R_TYPE(relocation->r_info)};
    if (slot.type != R_X86_64_JUMP_SLOT && slot.type != R_X86_64_GLOB_DAT &&
        (slot.type != R_X86_64_64 || relocation->r_addend != 0))
        return;
    slot.symbol = &object->symbols[ELF64_R_SYM(relocation->r_info)];
    slot.name = object->strings + slot.symbol->st_name;
    slot.address = object->base + relocation->r_offset;
    char first = slot.name[0] | 0x20;
    if ((first != 'm' && first != 'p') || slot.address % sizeof(void *) != 0)
        return;
    if (starts(slot.name, "MPI_") || starts(slot.name, "PMPI_"))
        look_at_call(object, &slot);
    if (object->kind == OBJECT_OTHER && fortran_is_name(slot.name))
        look_at_fortran(object, &slot);
}

/* ---- all of them ---- */

/* The library whose calls of C names were made for Fortran: its slots are redirected like all others. */
static void note_fortran(const struct object *object, const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    if (mpi_fortran.size || starts(name, "libmpi_usempi"))
        return;
    uint64_t low = UINT64_MAX, high = 0;
    for (unsigned i = 0; i < object->phnum; i++) {
        const Elf64_Phdr *phdr = &object->phdr[i];
        if (phdr->p_type != PT_LOAD || !(phdr->p_flags & PF_X))
            continue;
        low = phdr->p_vaddr < low ? phdr->p_vaddr : low;
        high = phdr->p_vaddr + phdr->p_memsz > high ? phdr->p_vaddr + phdr->p_memsz : high;
    }
    if (low < high) {
        mpi_fortran.low = object->base + low;
        __atomic_store_n(&mpi_fortran.size, high - low, __ATOMIC_RELEASE);
    }
}

/* The linker appends to its list what it loads. If something was unloaded, only that of the list is sure to be as it was which stands
 * before where the first one of those loaded since may be: another one may lie in the same place. */
struct walk {
    unsigned all;
    uint64_t loaded;
    unsigned at, sure;            /* in the list */
    unsigned seen, seen_at, kept; /* of seen.objects: how many there were, the next of them, how many there are */
};

static int count_object(struct dl_phdr_info *info, size_t size, void *ctx)
{
    struct walk *walk = ctx;
    walk->all++;
    walk->loaded = info->dlpi_adds;
    return 0;
}

static bool was_seen(struct walk *walk, const struct dl_phdr_info *info)
{
    if (walk->at++ >= walk->sure)
        return false;
    for (unsigned i = walk->seen_at; i < walk->seen; i++)
        if (seen.objects[i] == info->dlpi_phdr) {
            walk->seen_at = i + 1;
            return true;
        }
    return false;
}

static int visit(struct dl_phdr_info *info, size_t size, void *ctx)
{
    struct walk *walk = ctx;
    struct object object;
    if (!was_seen(walk, info) && object_take(&object, info)) {
        if (object.kind == OBJECT_FORTRAN)
            note_fortran(&object, info->dlpi_name);
        for (size_t i = 0; object.plt && i < object.plt_count; i++)
            look_at(&object, &object.plt[i]);
        for (size_t i = object.relative; object.rest && i < object.rest_count; i++)
            look_at(&object, &object.rest[i]);
        close_again(&object);
    }
    if (walk->kept < SEEN_MOST)
        seen.objects[walk->kept++] = info->dlpi_phdr;
    return 0;
}

static void visit_new(void)
{
    struct walk walk = {.seen = seen.count};
    dl_iterate_phdr(count_object, &walk);
    const uint64_t loaded = walk.loaded - seen.loaded;
    const bool unloaded = walk.all != seen.all + loaded;
    if (!loaded && !unloaded)
        return;
    walk.sure = !unloaded ? walk.all : walk.all > loaded ? walk.all - (unsigned)loaded : 0;
    dl_iterate_phdr(visit, &walk);
    seen.count = walk.kept;
    seen.all = walk.all;
    seen.loaded = walk.loaded;
}

/* ---- under the dynamic linker's lock ---- */

/* What a thread wants done there. Others who look at our symbols want nothing. */
static _Thread_local struct {
    enum { TASK_NONE, TASK_WALK, TASK_REAL } task;
    enum call_id call;
    enum mpi_kind kind;
    const char *name;
} wanted __attribute__((tls_model("initial-exec")));

static void nothing(void)
{
}

__attribute__((used)) static void (*resolve(void))(void)
{
    if (wanted.task == TASK_WALK)
        visit_new();
    else if (wanted.task == TASK_REAL)
        real_of(wanted.call, wanted.kind, wanted.name);
    return nothing;
}

/* Never called: looking it up runs resolve(). */
__attribute__((ifunc("resolve"), visibility("default"))) void scry_mpi_locked(void);

static void run_locked(void)
{
    int kept = errno;
    failed = false;
    host->dlsym(own, "scry_mpi_locked");
    wanted.task = TASK_NONE;
    if (failed)
        dlerror();
    errno = kept;
}

/* Changes the slots of all objects that were loaded since. */
static void bind_look(void)
{
    wanted.task = TASK_WALK;
    run_locked();
}

/* The wrapper for what dlsym found, or `found` itself. */
static void *bind_symbol(const char *name, void *found)
{
    enum call_id call;
    enum mpi_kind kind;
    if (!found || !call_named(name, &call, &kind))
        return found;
    if (!__atomic_load_n(&known[call][kind], __ATOMIC_ACQUIRE)) {
        wanted.task = TASK_REAL;
        wanted.call = call;
        wanted.kind = kind;
        wanted.name = name;
        run_locked();
    }
    return found == mpi_real[call][kind] ? mpi_entries[call].wrapper[kind] : found;
}

/* `from` must outlive it. NULL, or why it is not certain which MPI the program calls. */
static const char *bind_start(const struct mpi_host *from)
{
    host = from;
    library = object_of((const void *)host->library_address);
    own = object_of((const void *)mpi_real);
    if (!library || !own)
        return "the MPI library is not known to the dynamic linker";
    void *init = definition("PMPI_Init");
    if (!init || object_of(init) != library)
        return "the program calls another MPI than the library that is loaded";
    return NULL;
}

/* As dlsym (`handle` is not used): PMPI_ names in the MPI library, others in the program's lookup order. */
static void *bind_find(void *handle, const char *name)
{
    return starts(name, "PMPI_") ? lookup_in(library, name) : definition(name);
}

/* ---- the start ---- */

__attribute__((visibility("default"))) const struct mpi_guest *scry_mpi_start(const struct mpi_host *from)
{
    static const struct mpi_guest guest = {
        .look = bind_look, .symbol = bind_symbol, .opens = self_opens, .seal = self_seal};
    static struct mpi_host copy;
    if (from->version != MPI_HOST_VERSION)
        return NULL;
    copy = *from;
    if (!copy.why_not)
        copy.why_not = bind_start(&copy);
    if (!copy.why_not && !mpi_library_start(NULL, bind_find))
        copy.why_not = "the MPI library lacks a function of MPI 3.1";
    tell_start(&copy);
    self_look = bind_look;
    if (!mpi_connect(&copy) || copy.why_not)
        return NULL;
    if (copy.late)
        self_note_running();
    bind_look();
    return &guest;
}
