/* SPDX-License-Identifier: Apache-2.0 */
/* The writer of a script's ring: it runs inside the interpreter, in any thread and any signal handler. */
#include "shm/script_ring.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, LIMIT_FILE_SIZE = 1 /* RLIMIT_FSIZE */, BLOCK = 4096 };

/* In a page of its own, which is all zero in a child made by fork; so is the memory of a ring that is not shared. */
struct script_writer {
    struct script_ring *ring;
    uint32_t size;
    int32_t pid; /* -1: ask the kernel each time */
    int32_t opened_by;
    bool wiped; /* the kernel does that (since 4.14) */
    char path[SCRIPT_PATH];
};
_Static_assert(sizeof(struct script_writer) <= PAGE, "a writer is a page");

static uint64_t now_ns(clockid_t clock)
{
    struct timespec now = {0};
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static int32_t own_pid(void)
{
    return (int32_t)syscall(SYS_getpid);
}

/* ---- opening ---- */

static bool append(char path[SCRIPT_PATH], size_t *at, const char *text)
{
    size_t size = strlen(text);
    if (*at + size + 1 > SCRIPT_PATH)
        return false;
    memcpy(path + *at, text, size + 1);
    *at += size;
    return true;
}

static bool append_number(char path[SCRIPT_PATH], size_t *at, uint64_t number)
{
    char digits[24];
    size_t from = sizeof digits - 1;
    digits[from] = 0;
    do
        digits[--from] = (char)('0' + number % 10);
    while (number /= 10);
    return append(path, at, ".") && append(path, at, digits + from);
}

static bool file_name(char path[SCRIPT_PATH], const char *directory, const char *kind, int32_t pid, uint64_t serial)
{
    size_t at = 0;
    return append(path, &at, directory) && append(path, &at, "/") && append(path, &at, kind) &&
           append_number(path, &at, (uint64_t)pid) && append_number(path, &at, serial);
}

/* A file beyond the limit would cost the program a SIGXFSZ. */
static bool within_limit(uint64_t size)
{
    uint64_t limit[2] = {0};
    return syscall(SYS_prlimit64, 0, LIMIT_FILE_SIZE, NULL, limit) == 0 && limit[0] >= size;
}

/* All blocks, so that no write to the memory finds a full disk. Returns 0 or an errno. */
static int take_room(int fd, uint32_t size)
{
    static const char zeros[BLOCK];
    if (syscall(SYS_fallocate, fd, 0, (long)0, (long)size) == 0)
        return 0;
    if (errno != EOPNOTSUPP)
        return errno;
    for (uint32_t at = 0; at < size; at += BLOCK)
        if (syscall(SYS_pwrite64, fd, zeros, (long)BLOCK, (long)at) != BLOCK)
            return errno ? errno : ENOSPC;
    return 0;
}

static int make_file(const char *path, uint32_t size, void **ret_memory)
{
    if (!within_limit(size))
        return EFBIG;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return errno;
    int code = take_room(fd, size);
    void *memory = code ? MAP_FAILED : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (!code && memory == MAP_FAILED)
        code = errno;
    syscall(SYS_close, fd);
    if (code)
        syscall(SYS_unlinkat, AT_FDCWD, path, 0);
    else
        *ret_memory = memory;
    return code;
}

/* 0: not known. What a program executes has its stack elsewhere. */
static uint64_t stack_start(void)
{
    enum { FIELD = 28, AFTER_NAME = 2 };
    char text[1024];
    uint64_t start = 0;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/stat", O_RDONLY | O_CLOEXEC, 0);
    long size = fd < 0 ? 0 : syscall(SYS_read, fd, text, (long)sizeof text);
    if (fd >= 0)
        syscall(SYS_close, fd);
    long at = size > 0 ? size - 1 : 0;
    while (at > 0 && text[at] != ')') /* the name may hold anything */
        at--;
    for (int field = AFTER_NAME; at > 0 && at < size && field < FIELD; at++)
        field += text[at] == ' ';
    for (; at > 0 && at < size && text[at] >= '0' && text[at] <= '9'; at++)
        start = start * 10 + (uint64_t)(text[at] - '0');
    return start;
}

/* "pid:[4026531836]" */
static uint32_t pid_namespace(void)
{
    char text[64];
    uint32_t number = 0;
    long size = syscall(SYS_readlinkat, AT_FDCWD, "/proc/self/ns/pid", text, (long)sizeof text);
    for (long i = 0; i < size; i++)
        if (text[i] >= '0' && text[i] <= '9')
            number = number * 10 + (uint32_t)(text[i] - '0');
    return number;
}

static void fill_head(struct script_ring *ring, const struct script_open *open, int32_t pid, uint64_t born_ns)
{
    uint32_t sums_at = PAGE + open->ring_size;
    uint32_t texts_at = sums_at + open->sum_count * (uint32_t)sizeof(struct script_sum);
    ring->magic = SCRIPT_RING_MAGIC;
    ring->version = SCRIPT_RING_VERSION;
    ring->pid = pid;
    ring->ring_at = PAGE;
    ring->ring_size = open->ring_size;
    ring->sums_at = sums_at;
    ring->sum_count = open->sum_count;
    ring->texts_at = texts_at;
    ring->texts_size = open->texts_size;
    ring->size = texts_at + open->texts_size;
    ring->in_ticks = open->in_ticks;
    ring->born_ns = born_ns;
    ring->stack = stack_start();
    ring->pid_namespace = pid_namespace();
    memcpy(ring->language, open->language, strlen(open->language) + 1);
    atomic_store_explicit(&ring->texts_used, 1, memory_order_relaxed); /* 0 is none */
}

static bool makes_sense(const struct script_open *open)
{
    uint32_t size = open->ring_size;
    return size >= SCRIPT_RING_LEAST && size <= SCRIPT_RING_MOST && !(size & (size - 1)) &&
           open->sum_count <= SCRIPT_SUMS_MOST && open->texts_size <= SCRIPT_TEXTS_MOST &&
           strlen(open->language) < SCRIPT_LANGUAGE;
}

static int open_at(struct script_writer *writer, const struct script_open *open)
{
    char path[SCRIPT_PATH];
    uint64_t born_ns = now_ns(CLOCK_BOOTTIME);
    uint32_t size = PAGE + open->ring_size + open->sum_count * (uint32_t)sizeof(struct script_sum) + open->texts_size;
    void *memory = NULL;
    writer->opened_by = own_pid();
    if (!file_name(path, open->directory, SCRIPT_RING_NEW, writer->opened_by, born_ns) ||
        !file_name(writer->path, open->directory, open->language, writer->opened_by, born_ns))
        return ENAMETOOLONG;
    int code = make_file(path, size, &memory);
    if (code)
        return code;
    fill_head(memory, open, writer->opened_by, born_ns);
    if (syscall(SYS_rename, path, writer->path) < 0) {
        code = errno;
        syscall(SYS_unlinkat, AT_FDCWD, path, 0);
        munmap(memory, size);
        return code;
    }
    if (!open->shared)
        madvise(memory, size, MADV_DONTFORK);
    writer->wiped = !open->shared && madvise(writer, PAGE, MADV_WIPEONFORK) == 0;
    writer->pid = writer->wiped ? writer->opened_by : -1;
    if (!open->shared && !writer->wiped)
        madvise(memory, size, MADV_DOFORK); /* an old kernel: children see by their pid that it is not theirs */
    writer->size = size;
    writer->ring = memory;
    if (open->shared)
        writer->opened_by = 0;
    return 0;
}

struct script_writer *script_writer_open(const struct script_open *open, int *ret_error)
{
    int before = errno;
    void *page = MAP_FAILED;
    *ret_error = EINVAL;
    if (makes_sense(open)) {
        page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        *ret_error = page == MAP_FAILED ? errno : open_at(page, open);
        if (*ret_error && page != MAP_FAILED)
            munmap(page, PAGE);
    }
    errno = before;
    return *ret_error ? NULL : page;
}

bool script_writer_mine(const struct script_writer *writer)
{
    if (!writer->ring)
        return false;
    return writer->wiped || !writer->opened_by || writer->opened_by == own_pid();
}

void script_writer_close(struct script_writer *writer)
{
    int before = errno;
    struct script_ring *ring = writer->ring;
    uint32_t size = writer->size;
    munmap(writer, PAGE);
    if (ring)
        munmap(ring, size);
    errno = before;
}

struct script_ring *script_writer_ring(const struct script_writer *writer)
{
    return writer->ring;
}

/* ---- records ---- */

static uint16_t text_size(const struct script_text *text, uint32_t most)
{
    return (uint16_t)(!text->bytes ? 0 : text->size < most ? text->size : most);
}

/* How many of the frames fit into a record, and the size of that. */
static uint32_t measure(const struct script_event *record, uint32_t *ret_frames)
{
    uint32_t size = sizeof(struct script_stored), frames = 0;
    for (unsigned i = 0; i < SCRIPT_TEXTS; i++)
        size += text_size(&record->texts[i], SCRIPT_TEXT_MOST);
    for (; frames < record->frame_count && frames < SCRIPT_FRAMES_MOST; frames++) {
        const struct script_frame *frame = &record->frames[frames];
        uint32_t more = (uint32_t)sizeof(struct script_stored_frame) + text_size(&frame->file, SCRIPT_NAME_MOST) +
                        text_size(&frame->function, SCRIPT_NAME_MOST);
        if (size + more > SCRIPT_RECORD_MOST - 8)
            break;
        size += more;
    }
    *ret_frames = frames;
    return (size + 7) & ~7u;
}

static struct script_stored *reserve(struct script_ring *ring, uint32_t ring_size, uint32_t size, int32_t pid)
{
    char *memory = (char *)ring + ring->ring_at;
    uint64_t at = atomic_load_explicit(&ring->reserved, memory_order_relaxed), end;
    uint32_t offset, pad;
    do {
        uint64_t taken = atomic_load_explicit(&ring->taken, memory_order_acquire);
        offset = (uint32_t)(at & (ring_size - 1));
        pad = ring_size - offset < size ? ring_size - offset : 0;
        end = at + pad + size;
        if (end - taken > ring_size)
            return NULL;
    } while (
        !atomic_compare_exchange_weak_explicit(&ring->reserved, &at, end, memory_order_acq_rel, memory_order_relaxed));
    struct script_stored *stored = (void *)(memory + (pad ? 0 : offset));
    atomic_store_explicit(&stored->word, script_word(size, SCRIPT_OPEN, pid), memory_order_release);
    if (pad)
        atomic_store_explicit((_Atomic uint64_t *)(void *)(memory + offset), script_word(pad, SCRIPT_PAD, pid),
                              memory_order_release);
    return stored;
}

static char *add(char *to, const struct script_text *text, uint16_t size)
{
    if (size)
        memcpy(to, text->bytes, size);
    return to + size;
}

static void fill(struct script_stored *stored, const struct script_event *record, uint32_t frames)
{
    char *to = stored->bytes;
    stored->time_ns = record->time_ns ? record->time_ns : now_ns(CLOCK_MONOTONIC);
    stored->duration_ns = record->duration_ns;
    stored->count = record->count;
    stored->kind = record->kind;
    stored->tid = record->tid;
    stored->line = record->line;
    stored->status = record->status;
    stored->cut = frames < record->frame_count ? 1u << SCRIPT_TEXTS : 0;
    stored->frame_count = (uint16_t)frames;
    stored->none_bits = 0;
    for (unsigned i = 0; i < SCRIPT_TEXTS; i++) {
        const struct script_text *text = &record->texts[i];
        uint16_t size = stored->text_sizes[i] = text_size(text, SCRIPT_TEXT_MOST);
        stored->none_bits |= (uint16_t)(text->bytes ? 0 : 1u << i);
        stored->cut |= text->bytes && text->size > size ? 1u << i : 0;
        to = add(to, text, size);
    }
    for (uint32_t i = 0; i < frames; i++) {
        const struct script_frame *frame = &record->frames[i];
        uint16_t file = text_size(&frame->file, SCRIPT_NAME_MOST);
        uint16_t function = text_size(&frame->function, SCRIPT_NAME_MOST);
        struct script_stored_frame head = {.line = frame->line,
                                           .file = frame->file.bytes ? file : UINT16_MAX,
                                           .function = frame->function.bytes ? function : UINT16_MAX};
        memcpy(to, &head, sizeof head);
        to = add(add(to + sizeof head, &frame->file, file), &frame->function, function);
    }
}

bool script_put(struct script_writer *writer, const struct script_event *record)
{
    if (!writer || !script_writer_mine(writer))
        return false;
    struct script_ring *ring = writer->ring;
    uint32_t frames, ring_size = ring->ring_size, size = measure(record, &frames);
    int32_t pid = writer->pid >= 0 ? writer->pid : own_pid();
    struct script_stored *stored = reserve(ring, ring_size, size, pid);
    if (!stored) {
        atomic_fetch_add_explicit(&ring->dropped, 1, memory_order_relaxed);
        return false;
    }
    fill(stored, record, frames);
    atomic_store_explicit(&stored->word, script_word(size, SCRIPT_WHOLE, pid), memory_order_release);
    uint64_t used = atomic_load_explicit(&ring->reserved, memory_order_relaxed) -
                    atomic_load_explicit(&ring->taken, memory_order_relaxed);
    if (used > ring_size / 2)
        script_ring_bell(writer);
    return true;
}

/* A change of its times is what inotify sees of a file that is written in memory. */
void script_ring_bell(struct script_writer *writer)
{
    if (!writer || !writer->ring)
        return;
    int before = errno;
    if (!atomic_load_explicit(&writer->ring->belled, memory_order_relaxed) &&
        !atomic_exchange_explicit(&writer->ring->belled, 1, memory_order_relaxed))
        syscall(SYS_utimensat, AT_FDCWD, writer->path, NULL, 0);
    errno = before;
}

/* ---- sums ---- */

uint32_t script_text_keep(struct script_writer *writer, const char *bytes, size_t size)
{
    if (!writer || !script_writer_mine(writer))
        return 0;
    struct script_ring *ring = writer->ring;
    uint32_t used = atomic_load_explicit(&ring->texts_used, memory_order_relaxed), end;
    size = size < SCRIPT_NAME_MOST - 1 ? size : SCRIPT_NAME_MOST - 1;
    do {
        end = used + (uint32_t)size + 1;
        if (end > ring->texts_size) {
            atomic_fetch_add_explicit(&ring->sums_dropped, 1, memory_order_relaxed);
            return 0;
        }
    } while (!atomic_compare_exchange_weak_explicit(&ring->texts_used, &used, end, memory_order_relaxed,
                                                    memory_order_relaxed));
    char *to = (char *)ring + ring->texts_at + used;
    memcpy(to, bytes, size);
    to[size] = 0;
    return used;
}

struct script_sum *script_sum_new(struct script_writer *writer, enum script_sum_kind kind, uint32_t file,
                                  uint32_t function, int32_t line)
{
    if (!writer || !script_writer_mine(writer))
        return NULL;
    struct script_ring *ring = writer->ring;
    uint32_t used = atomic_load_explicit(&ring->sums_used, memory_order_relaxed);
    do {
        if (used >= ring->sum_count) {
            atomic_fetch_add_explicit(&ring->sums_dropped, 1, memory_order_relaxed);
            return NULL;
        }
    } while (!atomic_compare_exchange_weak_explicit(&ring->sums_used, &used, used + 1, memory_order_relaxed,
                                                    memory_order_relaxed));
    struct script_sum *sum = (struct script_sum *)(void *)((char *)ring + ring->sums_at) + used;
    sum->file = file;
    sum->function = function;
    sum->line = line;
    atomic_store_explicit(&sum->kind, (uint32_t)kind, memory_order_release);
    return sum;
}

uint32_t script_sum_number(const struct script_writer *writer, const struct script_sum *sum)
{
    const char *sums = (const char *)writer->ring + writer->ring->sums_at;
    return 1 + (uint32_t)((size_t)((const char *)sum - sums) / sizeof *sum);
}
