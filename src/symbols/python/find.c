/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/python/python.h"

#include "base/data/cleanup.h"
#include "base/system/proc_file.h"

#include <ctype.h>
#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>

static int read_process(void *ctx, const struct python_part *parts, size_t count)
{
    const pid_t *pid = ctx;
    struct iovec here[PYTHON_PARTS], there[PYTHON_PARTS];
    size_t size = 0;
    if (count > PYTHON_PARTS)
        return -EINVAL;
    for (size_t i = 0; i < count; i++) {
        here[i] = (struct iovec){parts[i].bytes, parts[i].size};
        there[i] = (struct iovec){(void *)(uintptr_t)parts[i].address, parts[i].size}; /* NOLINT: over there */
        size += parts[i].size;
    }
    ssize_t got = process_vm_readv(*pid, here, count, there, count, 0);
    if (got < 0 && errno != EFAULT)
        return proc_errno(*pid, errno);
    return got == (ssize_t)size ? 0 : -EFAULT;
}

struct python_memory python_memory_of(const pid_t *pid)
{
    return (struct python_memory){read_process, (void *)pid};
}

int python_get(const struct python_memory *memory, uint64_t address, void *ret_bytes, size_t size)
{
    return memory->read(memory->ctx, &(struct python_part){address, ret_bytes, size}, 1);
}

enum { HEADERS = 64, ENTRIES = 128, CHAIN_MOST = 4096, NAME_MOST = 64 };

/* The dynamic linker writes addresses over what the file has, unless the section is read-only. */
static uint64_t address_of(uint64_t value, uint64_t bias)
{
    return value < bias ? value + bias : value;
}

static int read_dynamic(struct exports *exports, uint64_t address, uint64_t *ret_hash)
{
    Elf64_Dyn entry;
    for (int i = 0; i < ENTRIES; i++) {
        int r = python_get(exports->memory, address + (uint64_t)i * sizeof entry, &entry, sizeof entry);
        if (r < 0)
            return r;
        uint64_t at = address_of(entry.d_un.d_ptr, exports->bias);
        if (entry.d_tag == DT_NULL)
            break;
        if (entry.d_tag == DT_SYMTAB)
            exports->symbols = at;
        if (entry.d_tag == DT_STRTAB)
            exports->names = at;
        if (entry.d_tag == DT_GNU_HASH)
            *ret_hash = at;
    }
    return exports->symbols && exports->names && *ret_hash ? 0 : -ENOEXEC;
}

static int find_dynamic(struct exports *exports, uint64_t base, uint64_t *ret_dynamic)
{
    Elf64_Ehdr header;
    Elf64_Phdr segments[HEADERS];
    int r = python_get(exports->memory, base, &header, sizeof header);
    if (r < 0)
        return r;
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_phentsize != sizeof *segments || header.e_phnum == 0 || header.e_phnum > HEADERS)
        return -ENOEXEC;
    r = python_get(exports->memory, base + header.e_phoff, segments, header.e_phnum * sizeof *segments);
    if (r < 0)
        return r;
    const Elf64_Phdr *dynamic = NULL, *first = NULL;
    for (size_t i = 0; i < header.e_phnum; i++) {
        if (segments[i].p_type == PT_DYNAMIC)
            dynamic = &segments[i];
        if (segments[i].p_type == PT_LOAD && !first)
            first = &segments[i];
    }
    if (!dynamic || !first)
        return -ENOEXEC;
    exports->bias = base - (first->p_vaddr - first->p_offset);
    *ret_dynamic = exports->bias + dynamic->p_vaddr;
    return 0;
}

int exports_open(struct exports *ret_exports, const struct python_memory *memory, uint64_t base)
{
    uint64_t dynamic = 0, hash = 0;
    struct {
        uint32_t buckets, first, bloom_words, bloom_shift;
    } table = {0};
    *ret_exports = (struct exports){.memory = memory};
    int r = find_dynamic(ret_exports, base, &dynamic);
    if (r == 0)
        r = read_dynamic(ret_exports, dynamic, &hash);
    if (r == 0)
        r = python_get(memory, hash, &table, sizeof table);
    if (r < 0)
        return r;
    if (table.buckets == 0)
        return -ENOEXEC;
    ret_exports->first = table.first;
    ret_exports->bucket_count = table.buckets;
    ret_exports->buckets = hash + sizeof table + (uint64_t)table.bloom_words * sizeof(uint64_t);
    ret_exports->chains = ret_exports->buckets + (uint64_t)table.buckets * sizeof(uint32_t);
    return 0;
}

static uint32_t hash_of(const char *name)
{
    uint32_t hash = 5381;
    for (; *name; name++)
        hash = hash * 33 + (unsigned char)*name;
    return hash;
}

uint64_t exports_find(const struct exports *exports, const char *name)
{
    const uint32_t wanted = hash_of(name);
    const size_t size = strlen(name) + 1;
    uint32_t index, hash;
    if (size > NAME_MOST ||
        python_get(exports->memory, exports->buckets + wanted % exports->bucket_count * sizeof index, &index,
                   sizeof index) < 0)
        return 0;
    for (uint32_t i = index; i >= exports->first && i && i - index < CHAIN_MOST; i++) {
        Elf64_Sym symbol;
        char found[NAME_MOST];
        if (python_get(exports->memory, exports->chains + (uint64_t)(i - exports->first) * sizeof hash, &hash,
                       sizeof hash) < 0)
            return 0;
        if ((hash | 1) == (wanted | 1) &&
            python_get(exports->memory, exports->symbols + (uint64_t)i * sizeof symbol, &symbol, sizeof symbol) == 0 &&
            symbol.st_shndx != SHN_UNDEF && symbol.st_value &&
            python_get(exports->memory, exports->names + symbol.st_name, found, size) == 0 &&
            memcmp(found, name, size) == 0)
            return exports->bias + symbol.st_value;
        if (hash & 1)
            break;
    }
    return 0;
}

static bool is_of_library(const char *file)
{
    for (const char *at = file; (at = strstr(at, "/python3.")) != NULL; at++) {
        bool lib =
            (at - file >= 4 && memcmp(at - 4, "/lib", 4) == 0) || (at - file >= 6 && memcmp(at - 6, "/lib64", 6) == 0);
        if (lib && isdigit((unsigned char)at[strlen("/python3.")]))
            return true;
    }
    return false;
}

bool python_is_own_code(const char *file)
{
    /* "<frozen runpy>", "<string>", "<__array_function__ internals>" of NumPy: code that is made */
    static const char input[] = "<stdin>", cell[] = "<ipython-input";
    bool made = *file == '<' && strcmp(file, input) != 0 && strncmp(file, cell, strlen(cell)) != 0;
    return !made && !strstr(file, "/site-packages/") && !strstr(file, "/dist-packages/") && !is_of_library(file);
}

const struct python_frame *python_own_frame(const struct python_thread *thread)
{
    for (size_t i = 0; i < thread->count; i++)
        if (python_is_own_code(thread->frames[i].file))
            return &thread->frames[i];
    for (size_t i = 0; i < thread->count; i++)
        if (strcmp(thread->frames[i].file, "<string>") == 0) /* python -c; a thread that it has started */
            return &thread->frames[i];
    return thread->count ? &thread->frames[0] : NULL;
}

static bool ends_with(const char *text, const char *end)
{
    size_t len = strlen(text), end_len = strlen(end);
    return len >= end_len && strcmp(text + len - end_len, end) == 0;
}

/* Without the class: "get" of "Queue.get". */
static const char *method_of(const struct python_frame *frame)
{
    const char *dot = strrchr(frame->function, '.');
    return dot ? dot + 1 : frame->function;
}

/* The thread that writes what was put into a queue of multiprocessing to its pipe; and at the end of its process the one that waits
 * for that thread. */
static bool feeds_queue(const struct python_thread *thread)
{
    for (size_t i = 1; i < thread->count; i++) {
        const struct python_frame *frame = &thread->frames[i];
        if (!ends_with(frame->file, "/multiprocessing/queues.py"))
            continue;
        bool feeds = strcmp(method_of(frame), "_feed") == 0;
        if (strcmp(method_of(frame), "_finalize_join") == 0 ||
            (feeds && ends_with(frame[-1].file, "/multiprocessing/connection.py")))
            return true;
    }
    return false;
}

const char *python_waits_for(const struct python_thread *thread)
{
    static const struct {
        const char *file, *function; /* NULL: any */
        const char *what;
    } waits[] = {
        {"/multiprocessing/queues.py", "get", "an item in a queue of multiprocessing"},
        {"/multiprocessing/queues.py", "put", "room in a queue of multiprocessing"},
        {"/multiprocessing/queues.py", "join", "the queue's items to be done (task_done)"},
        {"/multiprocessing/synchronize.py", "wait_for", "a condition of multiprocessing"},
        {"/multiprocessing/synchronize.py", "wait", "an event or a condition of multiprocessing"},
        {"/multiprocessing/synchronize.py", NULL, "a lock of multiprocessing"},
        {"/multiprocessing/connection.py", NULL, "a message from a connection of multiprocessing"},
        {"/multiprocessing/managers.py", NULL, "the answer of a manager of multiprocessing"},
        {"/multiprocessing/pool.py", NULL, "the workers of a pool of multiprocessing"},
        {"/concurrent/futures/_base.py", NULL, "the result of a future"},
        {"/concurrent/futures/process.py", NULL, "the workers of a pool of processes"},
        {"/concurrent/futures/thread.py", NULL, "the workers of a pool of threads"},
        {"/queue.py", "get", "an item in a queue"},
        {"/queue.py", "put", "room in a queue"},
        {"/queue.py", "join", "the queue's items to be done (task_done)"},
        {"/threading.py", "join", "the end of a thread"},
        {"/threading.py", "acquire", "a semaphore or a lock of threading"},
        {"/threading.py", "__enter__", "a semaphore or a lock of threading"},
        {"/threading.py", "wait", "an event, a condition or a barrier of threading"},
        {"/threading.py", "wait_for", "a condition of threading"},
    };
    if (feeds_queue(thread))
        return "somebody to read what it has put into a queue of multiprocessing";
    const struct python_frame *own = python_own_frame(thread);
    if (!own || own == thread->frames)
        return NULL;
    const char *function = method_of(&own[-1]);
    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++)
        if (ends_with(own[-1].file, waits[i].file) && (!waits[i].function || strcmp(function, waits[i].function) == 0))
            return waits[i].what;
    return NULL;
}

bool python_is_in_asyncio(const struct python_thread *thread)
{
    static const char function[] = "_run_once", file[] = "/asyncio/base_events.py";
    for (size_t i = 0; i < thread->count; i++) {
        const struct python_frame *frame = &thread->frames[i];
        size_t len = strlen(frame->function), path = strlen(frame->file);
        if (python_is_own_code(frame->file))
            return false; /* a task */
        if (len >= sizeof function - 1 && strcmp(frame->function + len - (sizeof function - 1), function) == 0 &&
            path >= sizeof file - 1 && strcmp(frame->file + path - (sizeof file - 1), file) == 0)
            return true;
    }
    return false;
}

enum { VERSION_3_9 = 0x03090000, VERSION_3_10 = 0x030a0000, VERSION_3_11 = 0x030b0000 };

void python_version(char text[PYTHON_VERSION_SIZE], uint32_t version)
{
    if (version & 0xffff)
        snprintf(text, PYTHON_VERSION_SIZE, "%u.%u.%u", version >> 24, version >> 16 & 255, version >> 8 & 255);
    else
        snprintf(text, PYTHON_VERSION_SIZE, "%u.%u", version >> 24, version >> 16 & 255);
}

/* Before 3.11 it does not say it in a variable. What each version was the first to have does. */
static uint32_t version_of(const struct exports *exports)
{
    uint64_t version = 0, at = exports_find(exports, "Py_Version");
    if (at)
        return python_get(exports->memory, at, &version, sizeof version) == 0 && version >= VERSION_3_11
                   ? (uint32_t)version
                   : 0;
    if (exports_find(exports, "PyIter_Send"))
        return VERSION_3_10;
    return exports_find(exports, "PyFrame_GetBack") && exports_find(exports, "PyObject_GC_IsTracked") ? VERSION_3_9 : 0;
}

/* A program that is no position-independent one may have its own copy of a library's variable. */
static uint64_t program_variable(const struct exports *program, const struct exports *library, const char *name)
{
    uint64_t at = program->bucket_count ? exports_find(program, name) : 0;
    return at ? at : exports_find(library, name);
}

static int program_set(struct python_program *ret_program, const struct exports *main, const struct exports *exports)
{
    ret_program->runtime = exports_find(exports, "_PyRuntime");
    if (!ret_program->runtime)
        return -ENOENT;
    ret_program->version = version_of(exports);
    ret_program->code_type = program_variable(main, exports, "PyCode_Type");
    ret_program->text_type = program_variable(main, exports, "PyUnicode_Type");
    ret_program->bytes_type = program_variable(main, exports, "PyBytes_Type");
    int r = python_layout_find(&ret_program->layout, ret_program->version, exports->memory, ret_program->runtime);
    if (ret_program->layout.objects)
        ret_program->frame_type = program_variable(main, exports, "PyFrame_Type");
    if (r == 0 && (!ret_program->code_type || !ret_program->text_type || !ret_program->bytes_type ||
                   (ret_program->layout.objects && !ret_program->frame_type)))
        return -ENOTSUP;
    return r;
}

/* Not the extensions, "_ctypes.cpython-311-x86_64-linux-gnu.so". */
static bool may_be_python(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    return strncmp(name, "libpython", strlen("libpython")) == 0 || strncmp(name, "python", strlen("python")) == 0;
}

int python_find(struct python_program *ret_program, pid_t pid)
{
    struct python_memory memory = python_memory_of(&pid);
    _cleanup_(proc_maps_done) struct proc_maps maps = {0};
    struct exports program = {0}, library = {0};
    char exe[PATH_MAX] = "", link[PROC_PATH_SIZE];
    *ret_program = (struct python_program){.pid = pid};
    int r = proc_maps_read(pid, &maps);
    if (r < 0)
        return r;
    proc_path(link, pid, 0, "exe");
    ssize_t len = readlink(link, exe, sizeof exe - 1);
    exe[len > 0 ? len : 0] = 0;
    int result = -ENOENT;
    for (size_t i = 0; i < maps.count && result == -ENOENT; i++) {
        const struct proc_map *map = &maps.maps[i];
        const bool main = *exe && strcmp(map->path, exe) == 0 && !program.bucket_count;
        if (map->offset || !map->read || (!main && !may_be_python(map->path)))
            continue;
        r = exports_open(main ? &program : &library, &memory, map->start);
        if (r == -ESRCH || r == -EACCES)
            return r;
        if (r == 0)
            result = program_set(ret_program, &program, main ? &program : &library);
    }
    return result;
}
