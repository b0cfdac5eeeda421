/* SPDX-License-Identifier: Apache-2.0 */
#include "job/places/where.h"

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "job/places/sandboxed_child.h"
#include "jobdir/layers/starter.h"
#include "jobdir/mpi/waiting.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"
#include "symbols/index/lines.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Of a stack's addresses, innermost first, as lines_callers has them: the first, from the one of that number on, in a module
 * that is not left out, and in no header of the system. NULL: there is none. */
struct lines;

static json_t *where_caller(struct lines *lines, const uint64_t *frames, size_t from, size_t count,
                            bool (*left_out)(const char *module));

void python_places_read(struct python_places *ret_places, pid_t pid)
{
    struct python_program program;
    const struct python_memory memory = python_memory_of(&pid);
    *ret_places = (struct python_places){0};
    if (python_find(&program, pid) == 0)
        python_read(&ret_places->stacks, &program, &memory, 0, PYTHON_OWN_FRAME);
}

void python_places_done(struct python_places *places)
{
    python_stacks_done(&places->stacks);
}

const struct python_frame *python_places_find(const struct python_places *places, pid_t tid, bool *ret_loop)
{
    for (size_t i = 0; i < places->stacks.count; i++) {
        const struct python_thread *thread = &places->stacks.threads[i];
        if (thread->tid != tid)
            continue;
        if (ret_loop)
            *ret_loop = python_is_in_asyncio(thread);
        return python_own_frame(thread);
    }
    return NULL;
}

const char *python_places_waits(const struct python_places *places, pid_t tid)
{
    for (size_t i = 0; i < places->stacks.count; i++)
        if (places->stacks.threads[i].tid == tid)
            return python_waits_for(&places->stacks.threads[i]);
    return NULL;
}

void python_place_put(struct buf *out, const struct python_frame *frame)
{
    text_show(out, frame->function);
    buf_puts(out, " (");
    text_show(out, text_base(frame->file));
    if (frame->line >= 0)
        buf_printf(out, ":%" PRId64, frame->line);
    buf_putc(out, ')');
}

enum { RING_PAGES = 8, SAMPLES_MOST = 1024, NS_PER_MS = 1000000 };

struct samples {
    uint64_t at[SAMPLES_MOST];
    size_t count;
    pid_t pid, tid;
};

struct clock_sample {
    struct perf_event_header header;
    uint64_t ip;
};

/* All records have one size, which divides the ring's, or nearly: so bytes are read one by one where a record wraps. */
static void drain(struct samples *samples, const struct perf_event_mmap_page *page, size_t page_size)
{
    const char *data = (const char *)page + page_size;
    uint64_t size = RING_PAGES * page_size, tail = 0;
    uint64_t head = atomic_load_explicit((const _Atomic uint64_t *)&page->data_head, memory_order_acquire);
    while (tail + sizeof(struct perf_event_header) <= head && samples->count < SAMPLES_MOST) {
        struct clock_sample record = {0};
        for (size_t i = 0; i < sizeof record && tail + i < head; i++)
            ((char *)&record)[i] = data[(tail + i) % size];
        if (record.header.size < sizeof record.header)
            return;
        if (record.header.type == PERF_RECORD_SAMPLE && record.header.size >= sizeof record)
            samples->at[samples->count++] = record.ip;
        tail += record.header.size;
    }
}

/* Empty: perhaps the thread waits for a processor. */
static bool is_empty(const struct perf_event_mmap_page *page)
{
    return atomic_load_explicit((const _Atomic uint64_t *)&page->data_head, memory_order_acquire) == 0;
}

static int sample(struct samples *samples, pid_t tid, struct err *err)
{
    size_t page_size = (size_t)sysconf(_SC_PAGESIZE), size = (RING_PAGES + 1) * page_size;
    struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE,
                                   .size = sizeof attr,
                                   .config = PERF_COUNT_SW_TASK_CLOCK,
                                   .sample_period = WHERE_PERIOD_NS,
                                   .sample_type = PERF_SAMPLE_IP,
                                   .exclude_kernel = 1,
                                   .exclude_hv = 1};
    _cleanup_(closep) int fd = (int)syscall(SYS_perf_event_open, &attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
    if (fd < 0)
        return err_errno(err, -errno, "cannot sample thread %d", tid);
    struct perf_event_mmap_page *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED)
        return err_errno(err, -errno, "cannot sample thread %d", tid);
    uint64_t from = clock_now_ns(), until = from + (uint64_t)WHERE_SAMPLE_MS * NS_PER_MS;
    const uint64_t last = from + (uint64_t)WHERE_SAMPLE_MOST_MS * NS_PER_MS;
    for (uint64_t now; (now = clock_now_ns()) < until || (is_empty(page) && now < last);)
        wait_fd_until(-1, 0, now < until ? until : now + (uint64_t)WHERE_SAMPLE_MS * NS_PER_MS);
    drain(samples, page, page_size);
    munmap(page, size);
    return 0;
}

static int by_address(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return left < right ? -1 : left > right;
}

struct place {
    char *function, *file, *module;
    unsigned line;
    uint64_t offset;
    size_t count;
};

static bool same(const struct place *place, const struct line_frame *frame, const char *module)
{
    return frame && frame->function ? place->function && strcmp(place->function, frame->function) == 0
                                    : !place->function && module && place->module && strcmp(place->module, module) == 0;
}

bool where_put(struct buf *out, const json_t *place)
{
    const char *function = json_string_value(json_object_get(place, "function"));
    const char *file = json_string_value(json_object_get(place, "file"));
    const char *module = json_string_value(json_object_get(place, "module"));
    if (!module && !function)
        return false;
    text_show(out, function ? function : text_base(module));
    if (file) {
        buf_puts(out, " (");
        text_show(out, text_base(file));
        buf_printf(out, ":%d)", (int)json_integer_value(json_object_get(place, "line")));
    } else if (function && module) {
        buf_puts(out, " (");
        text_show(out, text_base(module));
        buf_putc(out, ')');
    }
    const json_t *inside = json_object_get(place, "inside");
    if (inside) {
        buf_puts(out, ", in ");
        where_put(out, inside);
    }
    return true;
}

/* scry's own part of a call is no place of the program. */
static bool is_ours(const char *module)
{
    return strncmp(text_base(module), "libscry-", 8) == 0;
}

/* The library that the kernel puts into each process. */
static bool is_vdso(const char *module)
{
    return strncmp(module, "[vdso", 5) == 0;
}

/* A library of the system, which the program has called. */
static bool is_system(const char *module)
{
    static const char *const folders[] = {"/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/", NULL};
    return is_ours(module) || is_vdso(module) || text_begins_with_one(module, folders);
}

/* Who in the program itself called what the thread is in now; NULL: nobody is found, or it is elsewhere already. */
static json_t *caller_of(struct lines *lines, pid_t tid)
{
    enum { FRAMES_MOST = 64 };
    uint64_t frames[FRAMES_MOST];
    struct sample *sample = calloc(1, sizeof *sample);
    json_t *place = NULL;
    if (!sample)
        return NULL;
    sample->tid = tid;
    samples_take(sample, 1);
    if (sample->code == 0) {
        const struct lines_thread thread = {.sp = sample->registers[7],
                                            .pc = sample->registers[16],
                                            .registers = sample->registers,
                                            .stack = sample->stack,
                                            .stack_size = sample->stack_size};
        size_t count = lines_unwind(lines, &thread, frames, NULL, FRAMES_MOST, NULL);
        place = where_caller(lines, frames, 0, count, is_system);
    }
    free(sample);
    return place;
}

/* In the vdso only what programs call has a name: the parts that it calls count for that. */
static size_t place_named(const struct place *places, size_t used, size_t best)
{
    size_t named = best;
    for (size_t i = 0; i < used && !places[best].function && is_vdso(places[best].module); i++)
        if (places[i].function && is_vdso(places[i].module) && (named == best || places[i].count > places[named].count))
            named = i;
    return named;
}

/* In the child: the function with the most samples, and the first of its lines that was seen. */
static json_t *name_samples(const void *ctx)
{
    const struct samples *samples = ctx;
    struct lines *lines;
    struct place places[64];
    size_t used = 0, best = 0;
    if (lines_open_process(&lines, samples->pid, NULL) < 0)
        return NULL;
    for (size_t i = 0; i < samples->count; i++) {
        struct line_location where = {0};
        if (lines_find(lines, samples->at[i], &where) < 0)
            continue;
        if (!where.module || is_ours(where.module)) {
            line_location_done(&where);
            continue;
        }
        const struct line_frame *frame = where.count ? &where.frames[where.count - 1] : NULL; /* not an inlined one */
        size_t at = 0;
        while (at < used && !same(&places[at], frame, where.module))
            at++;
        if (at == used && used < sizeof places / sizeof *places)
            places[used++] = (struct place){.function = frame && frame->function ? strdup(frame->function) : NULL,
                                            .file = frame && frame->file ? strdup(frame->file) : NULL,
                                            .line = frame ? frame->line : 0,
                                            .module = strdup(where.module)};
        if (at < used && ++places[at].count > places[best].count)
            best = at;
        line_location_done(&where);
    }
    if (!used)
        return NULL;
    best = place_named(places, used, best);
    json_t *json = json_pack("{s:o, s:i}", "module", text_json(places[best].module), "line", (int)places[best].line);
    if (places[best].function)
        json_object_set_new(json, "function", text_json(places[best].function));
    if (places[best].file)
        json_object_set_new(json, "file", text_json(places[best].file));
    json_t *caller = is_system(places[best].module) ? caller_of(lines, samples->tid) : NULL;
    if (!caller)
        return json;
    json_object_set_new(caller, "inside", json);
    return caller;
}

int where_computes(pid_t pid, pid_t tid, struct buf *out, struct err *err)
{
    struct samples *samples = calloc(1, sizeof *samples);
    if (!samples)
        return err_set(err, -ENOMEM, "out of memory");
    samples->pid = pid;
    samples->tid = tid;
    int code = sample(samples, tid, err);
    json_t *place = NULL;
    if (code == 0 && samples->count) {
        qsort(samples->at, samples->count, sizeof *samples->at, by_address);
        place = sandboxed_child_run(name_samples, samples, WHERE_TIMEOUT_MS);
    }
    free(samples);
    if (code < 0)
        return code;
    bool known = where_put(out, place);
    json_decref(place);
    return known ? 0 : err_set(err, -ENODATA, "the place of thread %d is not known", tid);
}

/* Where blocked threads came from. */

enum { FRAMES_MOST = 32 };

struct asked {
    pid_t pid;
    const pid_t *tids;
    size_t count;
};

static bool starts_with_any(const char *text, const char *const *starts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strncmp(text, starts[i], strlen(starts[i])) == 0)
            return true;
    return false;
}

/* And shells, whose functions are not those of the script. */
static bool is_on_the_way(const char *module)
{
    return module_is_on_the_way(module) || starter_is_shell(text_base(module), NULL);
}

/* The standard library's templates. */
static bool is_header(const char *file)
{
    static const char *const folders[] = {"/usr/include/", "/usr/lib/gcc/", "/usr/local/include/c++/"};
    return file && starts_with_any(file, folders, sizeof folders / sizeof *folders);
}

static json_t *place_of(const struct line_location *where)
{
    for (size_t i = 0; i < where->count; i++) {
        const struct line_frame *frame = &where->frames[i];
        if (is_header(frame->file))
            continue;
        json_t *place = json_pack("{s:o, s:i}", "module", text_json(where->module), "line", (int)frame->line);
        if (frame->function)
            json_object_set_new(place, "function", text_json(frame->function));
        if (frame->file)
            json_object_set_new(place, "file", text_json(frame->file));
        return place;
    }
    return NULL;
}

static json_t *where_caller(struct lines *lines, const uint64_t *frames, size_t from, size_t count,
                            bool (*left_out)(const char *module))
{
    for (size_t i = from; i < count; i++) {
        struct line_location where;
        if (lines_find(lines, frames[i] - (i > 0), &where) < 0)
            break;
        json_t *place = where.module && !left_out(where.module) ? place_of(&where) : NULL;
        line_location_done(&where);
        if (place)
            return place;
    }
    return NULL;
}

static json_t *thread_json(struct lines *lines, pid_t pid, pid_t tid)
{
    char path[64], text[256] = "";
    unsigned long long sp = 0, pc = 0;
    uint64_t frames[FRAMES_MOST];
    snprintf(path, sizeof path, "/proc/%d/task/%d/syscall", pid, tid);
    FILE *file = fopen(path, "re");
    if (file) {
        if (!fgets(text, sizeof text, file))
            text[0] = '\0';
        fclose(file);
    }
    if (sscanf(text, "%*s 0x%*x 0x%*x 0x%*x 0x%*x 0x%*x 0x%*x 0x%llx 0x%llx", &sp, &pc) != 2)
        return json_null();
    size_t count = lines_callers(lines, sp, pc, frames, FRAMES_MOST);
    json_t *place = where_caller(lines, frames, 1, count, is_on_the_way);
    return place ? place : json_null();
}

static json_t *look_at_all(const void *ctx)
{
    const struct asked *asked = ctx;
    struct lines *lines;
    if (lines_open_process(&lines, asked->pid, NULL) < 0)
        return NULL;
    json_t *list = json_array();
    for (size_t i = 0; i < asked->count; i++)
        json_array_append_new(list, thread_json(lines, asked->pid, asked->tids[i]));
    return list;
}

json_t *where_blocked(pid_t pid, const pid_t *tids, size_t count)
{
    struct asked asked = {pid, tids, count};
    return sandboxed_child_run(look_at_all, &asked, WHERE_TIMEOUT_MS);
}
