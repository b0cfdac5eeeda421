/* SPDX-License-Identifier: Apache-2.0 */
#include "bash/shell.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shm/waits.h"

enum {
    RING = 64 << 10,
    TEXTS = 128 << 10,
    SUMS = 4096,
    ROWS = 4 * SUMS, /* a power of two */
    PROBES = 64,
    FAILURES = 5, /* of a line, as records */
    BURST = 100,  /* lines as records, */
    PATH_SIZE = 4096,
};

/* What lines and texts have in the ring: found by a hash of 64 bits, which is taken to be of nothing else. Subshells
 * share it, so a line that many of them execute has one sum. */
struct row {
    _Atomic uint64_t key;    /* 0: free */
    _Atomic uint32_t number; /* 0: not ready */
};
#define NO_ROOM UINT32_MAX

static struct script_writer *writer;
static struct script_ring *ring;
static struct row *rows;
static uint64_t allowed_ns; /* from which time on a line comes as a record */

bool tally_open(const char *directory)
{
    int error;
    struct script_open open = {.directory = directory,
                               .language = "bash",
                               .ring_size = RING,
                               .sum_count = SUMS,
                               .texts_size = TEXTS,
                               .shared = true};
    void *memory =
        mmap(NULL, ROWS * sizeof *rows, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return false;
    writer = script_writer_open(&open, &error);
    if (!writer) {
        munmap(memory, ROWS * sizeof *rows);
        return false;
    }
    ring = script_writer_ring(writer);
    rows = memory;
    return true;
}

void tally_refuse(const char *why)
{
    script_put(writer, &(struct script_event){.kind = SCRIPT_STEPPED_ASIDE,
                                              .line = -1,
                                              .duration_ns = UINT64_MAX,
                                              .texts = {[SCRIPT_MESSAGE] = {why, (uint32_t)strlen(why)}}});
    script_ring_bell(writer);
}

/* ---- places ---- */

static uint64_t hash(uint64_t key, const char *text)
{
    for (; text && *text; text++)
        key = (key ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    key = (key ^ key >> 32) * UINT64_C(0x9e3779b97f4a7c15);
    return key ? key : 1;
}

/* Its row, perhaps a new one. NULL: no room. */
static struct row *row_of(uint64_t key)
{
    for (uint32_t i = 0; i < PROBES; i++) {
        struct row *row = &rows[(key + i) & (ROWS - 1)];
        uint64_t there = atomic_load_explicit(&row->key, memory_order_relaxed);
        if (there == key || (!there && (atomic_compare_exchange_strong_explicit(
                                            &row->key, &there, key, memory_order_relaxed, memory_order_relaxed) ||
                                        there == key)))
            return row;
    }
    return NULL;
}

/* Two subshells may find it not ready, and each make one: the first is kept, and the other one is used once. */
static uint32_t fill_row(struct row *row, uint32_t number)
{
    uint32_t before = 0;
    atomic_compare_exchange_strong_explicit(&row->number, &before, number ? number : NO_ROOM, memory_order_acq_rel,
                                            memory_order_relaxed);
    return number;
}

/* 0: not ready. */
static uint32_t number_of(const struct row *row)
{
    return row ? atomic_load_explicit(&row->number, memory_order_acquire) : NO_ROOM;
}

static uint32_t keep_path(const char *file)
{
    char path[PATH_SIZE];
    if (file[0] == '/')
        return script_text_keep(writer, file, strlen(file));
    long size = syscall(SYS_getcwd, path, sizeof path); /* with the NUL */
    while (file[0] == '.' && file[1] == '/')
        file += 2 + strspn(file + 2, "/");
    size_t more = strlen(file);
    if (size <= 1 || path[0] != '/' || (size_t)size + more >= sizeof path)
        return script_text_keep(writer, file, more);
    if (size > 2)
        path[size++ - 1] = '/';
    memcpy(path + size - 1, file, more);
    return script_text_keep(writer, path, (size_t)size - 1 + more);
}

static uint32_t text_of(const char *text, bool is_path)
{
    struct row *row = text ? row_of(hash(is_path ? 0x9d : 0x5f, text)) : NULL;
    uint32_t number = number_of(row);
    if (!number)
        number = fill_row(row, is_path ? keep_path(text) : script_text_keep(writer, text, strlen(text)));
    return number == NO_ROOM ? 0 : number;
}

static uint32_t new_line(const struct tally_place *place, const char *text, uint32_t size)
{
    struct script_sum *sum = script_sum_new(writer, SCRIPT_SUM_LINE, place->file, place->function, place->line);
    if (!sum)
        return 0;
    sum->command = size ? script_text_keep(writer, text, size) : 0;
    return script_sum_number(writer, sum);
}

static struct script_sum *sum_numbered(uint32_t number)
{
    return number ? (struct script_sum *)(void *)((char *)ring + ring->sums_at) + (number - 1) : NULL;
}

bool tally_place(const char *file, const char *function, int32_t line, const char *text, uint32_t size,
                 struct tally_place *ret_place)
{
    int before = errno;
    *ret_place = (struct tally_place){.file = text_of(file, true), .function = text_of(function, false), .line = line};
    if (ret_place->file) {
        uint64_t names = (uint64_t)ret_place->file << 32 | ret_place->function;
        ret_place->key = hash(names * UINT64_C(0x9e3779b97f4a7c15) + (uint32_t)line, "l");
        struct row *row = row_of(ret_place->key);
        uint32_t number = number_of(row);
        if (!number)
            number = fill_row(row, new_line(ret_place, text, size));
        ret_place->sum = number == NO_ROOM ? NULL : sum_numbered(number);
    }
    errno = before;
    return ret_place->file != 0;
}

/* ---- records ---- */

static struct script_text kept(uint32_t at)
{
    const char *text = (const char *)ring + ring->texts_at + at;
    return at ? (struct script_text){text, (uint32_t)strlen(text)} : (struct script_text){NULL, 0};
}

/* The functions and sourced files that the shell is in, with bash's names ("source", "main"), if it is still where
 * that command was. 0: unknown, or there are none. */
static uint32_t stack_of(const struct tally_place *place, struct script_frame frames[SCRIPT_FRAMES_MOST])
{
    const char *file, *function = shell_caller("FUNCNAME", 0), *line = NULL;
    uint32_t count = 0, own = function && strcmp(function, "source") != 0 ? text_of(function, false) : 0;
    while (count < SCRIPT_FRAMES_MOST && (file = shell_caller("BASH_SOURCE", count)) != NULL) {
        uint32_t kept_file = text_of(file, true);
        if (count == 0 && (kept_file != place->file || own != place->function))
            return 0;
        function = shell_caller("FUNCNAME", count);
        line = count ? shell_caller("BASH_LINENO", count - 1) : NULL;
        frames[count] = (struct script_frame){kept(kept_file), kept(text_of(function, false)),
                                              count == 0 ? place->line
                                              : line     ? (int32_t)strtol(line, NULL, 10)
                                                         : -1};
        count++;
    }
    return count > 1 ? count : 0;
}

static void put(enum script_kind kind, const struct tally_place *place, const char *text, uint32_t size, int status,
                const char *message, uint64_t ns)
{
    struct script_frame frames[SCRIPT_FRAMES_MOST];
    int before = errno;
    uint32_t frame_count = kind == SCRIPT_FAILED ? stack_of(place, frames) : 0;
    script_put(writer, &(struct script_event){
                           .kind = kind,
                           .line = place->line,
                           .status = status,
                           .duration_ns = ns,
                           .frames = frames,
                           .frame_count = frame_count,
                           .texts = {[SCRIPT_FILE] = kept(place->file),
                                     [SCRIPT_FUNCTION] = kept(place->function),
                                     [SCRIPT_COMMAND] = {size ? text : NULL, size},
                                     [SCRIPT_MESSAGE] = {message, message ? (uint32_t)strlen(message) : 0}}});
    errno = before;
}

void tally_started(const struct tally_place *place)
{
    put(SCRIPT_STARTED, place, shell.version, (uint32_t)strlen(shell.version), 0, NULL, UINT64_MAX);
    script_ring_bell(writer);
}

void tally_now(const struct tally_place *place, const char *text, uint32_t size, uint64_t now_ns, bool put_it)
{
    if (place->sum)
        atomic_store_explicit(&ring->now, script_sum_number(writer, place->sum), memory_order_relaxed);
    if (!put_it || allowed_ns > now_ns + (uint64_t)BURST * TALLY_REFILL_NS)
        return;
    allowed_ns = (allowed_ns > now_ns ? allowed_ns : now_ns) + TALLY_REFILL_NS;
    put(SCRIPT_LINE, place, text, size, 0, NULL, UINT64_MAX);
}

void tally_ended(const struct tally_place *place, bool count, uint64_t ns)
{
    if (!place->sum)
        return;
    atomic_fetch_add_explicit(&place->sum->count, count, memory_order_relaxed);
    atomic_fetch_add_explicit(&place->sum->total_ns, ns, memory_order_relaxed);
}

void tally_failed(const struct tally_place *place, const char *text, uint32_t size, int status, const char *stages,
                  uint64_t ns)
{
    if (place->sum && atomic_fetch_add_explicit(&place->sum->failed, 1, memory_order_relaxed) < FAILURES)
        put(SCRIPT_FAILED, place, text, size, status, stages, ns);
}
