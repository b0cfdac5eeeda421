/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scry-profile PID HZ FILE: where a process and all that come from it use the processor, until its standard input is closed.
 *
 * The kernel's clock of processor time (perf_event_open(2), cpu-clock) interrupts each thread HZ times a second of its own
 * time, copies its registers and the top of its stack into a ring, and lets it go on: no signal, no stop. Children inherit
 * that. What is done with the copies happens here, outside of the job: stacks are unwound by call frame information,
 * functions named by the files' indexes, which scry-symbols makes. Samples of young processes and of Python are read at once, those of
 * others when a third of a ring may be full. Threads that stand use no processor: a few times a second it is
 * read what each waits for, and its stack, likewise without a stop. PID must not have executed its program yet: of what was
 * mapped before nothing is known.
 *
 * Where perf events are not allowed, threads are looked at by /proc 10 times a second: how long each ran, and what Python it was in,
 * for that is in memory; of other programs that run nobody can say more without stopping them.
 *
 * Writes a line to standard output when all is set up: "ready", or why nothing can be measured. FILE is written each
 * PROFILE_WRITE_NS in which there was something new, more seldom where that would take more than 0.05 % of a processor,
 * and at the end (profile/profile.h has its form).
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/file.h"
#include "base/system/loop.h"
#include "base/system/pause.h"
#include "base/system/proc_file.h"
#include "base/system/process.h"
#include "jobdir/layers/starter.h"
#include "jobdir/text/text.h"
#include "probe/perf_ring.h"
#include "profile/profile.h"
#include "shm/waits.h"
#include "symbols/index/lines.h"

enum {
    STACK_BYTES = 8192, /* of the stack; what lies deeper is read from the process while it lives */
    STACK_LEAST = 512,  /* where users may lock little memory */
    SAMPLE_HEADS = 512, /* and what else a sample has */
    RING_SAMPLES = 4,   /* that a ring has room for at least, */
    RING_PAGES = 32,    /* for each processor, for up to 50 samples a second: of 300 ms */
    RING_PAGES_MOST = 256,
    RINGS_PAGES = 8192, /* in all */
    REST_LEAST = 2,     /* samples: less is not worth it */
    FRAMES_MOST = 256,
    PYTHON_LOOKS = 5,  /* for Python in a process that has a file of that name */
    PRIORITY = 5,      /* nice(2): later than the job */
    WRITE_REST = 2000, /* times what writing the file took of a processor lie before the next */
    LOOKS_MOST = 120,  /* at threads that stand, at once, */
    LOOK_WHOLE = 4,    /* of which one that has moved counts as so many */
    LOOK_REST = 400,   /* times what they took of a processor lie before the next ones */
    TIMES_HZ = 100,    /* without events: units of time in a second, */
    TIMES_LOOKS = 60,  /* and processes that are looked at in a tick */
    QUIET_PART = 10    /* of the time that passed: so seldom it is looked at what only stands, and that is written */
};

enum { REG_BP = 6, REG_SP = 7, REG_PC = 16 };

#define CPU_LEAST 0.5 /* seconds of processor time, or of waiting */

struct record { /* of some ring, in the order of time */
    uint64_t time_ns, order;
    struct profile_python *python; /* where the thread was a moment later */
    size_t python_count;
    struct perf_event_header header[]; /* and what follows it */
};

struct sampler {
    pid_t root;
    unsigned hz;
    const char *path;
    struct loop *loop;
    struct perf_ring *rings;
    struct loop_source **ring_sources, *input; /* of a ring NULL: it is not watched, since it rests, or for good */
    bool *resting;
    size_t ring_count;
    struct loop_source *rest;       /* runs while rings rest */
    uint64_t rest_ns, attentive_ns; /* so long; until then they do not */
    struct record **records;        /* that wait until all rings are as far */
    size_t record_count, record_room;
    uint64_t order;
    bool kernel, ending;
    char refused[80];                   /* why there are no events; "": there are */
    uint64_t look_ns, pace_ns, cost_ns; /* between two looks: at least, and as they cost; of the last one */
    uint64_t ran_ns;
    unsigned ticked;
    uint64_t lost, unwound, cut;
    uint64_t start_ns, end_ns, written_ns, write_cost_ns, samples, written_samples;
    struct loop_source *ticks;
    uint64_t moved_ns, tick_ns, round_ns, waited_ns, written_waited_ns,
        idle_ns; /* round: until each thread was looked at */
    unsigned round_ticks;
    struct image_thread *next; /* which is looked at next; NULL: the first */
    struct images images;
    struct profile *profile;
    struct names *names;
};

/* ---- a stack ---- */

struct reading { /* of a thread's stack: what was copied with the sample, then the process itself */
    pid_t pid;
    uint64_t sp;
    const char *stack;
    size_t size;
    uint64_t words_at; /* the last words that were read from the process */
    uint64_t words[64];
    size_t word_count;
};

static bool read_word(void *ctx, uint64_t address, uint64_t *ret_word)
{
    struct reading *reading = ctx;
    uint64_t at = address - reading->sp;
    if (at < reading->size && reading->size - at >= sizeof *ret_word) {
        memcpy(ret_word, reading->stack + at, sizeof *ret_word);
        return true;
    }
    if (at >= UINT64_C(1) << 32 || address % sizeof *ret_word)
        return false; /* not in the stack */
    at = (address - reading->words_at) / sizeof *ret_word;
    if (address < reading->words_at || at >= reading->word_count) {
        reading->words_at = address;
        reading->word_count =
            proc_peek(reading->pid, address, reading->words, sizeof reading->words) / sizeof *ret_word;
        at = 0;
    }
    if (at >= reading->word_count)
        return false;
    *ret_word = reading->words[at];
    return true;
}

/* Code without call frame information: where its frame is if it keeps one in %rbp; the innermost function may not have made
 * it yet, or makes none. */
static bool step_without(const struct image_process *process, struct lines_registers *registers,
                         struct reading *reading, bool innermost)
{
    uint64_t bp = registers->known >> REG_BP & 1 ? registers->values[REG_BP] : 0, sp = registers->values[REG_SP];
    uint64_t frame[2];
    if (bp >= sp && bp - sp < UINT64_C(1) << 20 && read_word(reading, bp, &frame[0]) &&
        read_word(reading, bp + sizeof *frame, &frame[1]) && image_find(process, frame[1]) && frame[0] > bp)
        sp = bp + sizeof frame;
    else if (innermost && read_word(reading, sp, &frame[1]) && image_find(process, frame[1]))
        frame[0] = bp, sp += sizeof *frame;
    else
        return false;
    registers->values[REG_BP] = frame[0];
    registers->values[REG_SP] = sp;
    registers->values[REG_PC] = frame[1];
    registers->known = 1U << REG_BP | 1U << REG_SP | 1U << REG_PC;
    return true;
}

/* The agent, if that is memory with its stubs for patched functions (struct area_patches): it begins with the address of its hook. */
static const struct image_mapping *stubs_agent(const struct image_process *process, const struct image_mapping *mapping,
                                               const struct reading *reading)
{
    uint64_t hook;
    bool read = proc_peek(reading->pid, mapping->start, &hook, sizeof hook) == sizeof hook;
    const struct image_mapping *agent = read ? image_find(process, hook) : NULL;
    return agent && profile_is_scrys(&(struct profile_frame){.file = agent->file}) ? agent : NULL;
}

/* *ret_whole: out to where the thread began. */
static size_t unwind(struct profile *profile, struct image_process *process, struct lines_registers *registers,
                     struct reading *reading, struct profile_frame *ret_frames, bool *ret_whole)
{
    size_t count = 0;
    bool interrupted = true; /* the program counter is where it is, and not where a call returns to */
    *ret_whole = false;
    while (count < FRAMES_MOST) {
        uint64_t pc = registers->values[REG_PC] - !interrupted, sp = registers->values[REG_SP], bias;
        const struct image_mapping *mapping = image_find(process, pc);
        struct profile_frame *frame = &ret_frames[count++];
        *frame = (struct profile_frame){.file = mapping ? mapping->file : NULL, .address = pc};
        enum cfi_step step = CFI_UNKNOWN;
        if (mapping && image_address(process, mapping, pc, &frame->address, &bias))
            step = cfi_step(mapping->file->cfi, frame->address, bias, registers, read_word, reading, &interrupted);
        else
            interrupted = false;
        if (step == CFI_UNKNOWN && mapping && jit_is_in(mapping->file)) {
            const struct image_mapping *agent = stubs_agent(process, mapping, reading);
            if (agent) /* it is scry's, and left out */
                frame->file = agent->file;
            else
                frame->code = jit_find(profile, process, pc);
        }
        *ret_whole = step == CFI_OUTERMOST;
        if (*ret_whole || (step == CFI_UNKNOWN && !step_without(process, registers, reading, count == 1)))
            break;
        if (step == CFI_UNKNOWN)
            interrupted = false;
        if (registers->values[REG_SP] <= sp && count > 1)
            break; /* stacks grow downwards: it would go round in a circle */
    }
    return count;
}

struct sample_head {
    struct perf_event_header header;
    uint64_t ip;
    uint32_t pid, tid;
    uint64_t time_ns;
};

static void take_sample(struct sampler *sampler, const struct record *record)
{
    const struct perf_event_header *header = record->header;
    const struct sample_head *head = (const void *)header;
    struct profile_frame frames[FRAMES_MOST];
    struct lines_registers registers = {.known = (1U << LINES_REGISTERS) - 1};
    bool whole = false;
    size_t count = 0;
    if (header->size < sizeof *head)
        return;
    struct image_process *process = image_process_of(&sampler->images, (pid_t)head->pid);
    if (!process || (process->pid == sampler->root && !*process->name && !process->count))
        return; /* scry's own, before it executes the program */
    struct reading reading = {.pid = process->pid};
    if (sample_decode(head + 1, header->size - sizeof *head, registers.values, &reading.stack, &reading.size)) {
        reading.sp = registers.values[REG_SP];
        count = unwind(sampler->profile, process, &registers, &reading, frames, &whole);
    }
    if (reading.word_count) /* the deeper part of its stack was read, as it is now */
        sampler->attentive_ns = record->time_ns + PROFILE_STEADY_NS;
    sampler->samples++;
    sampler->unwound += whole;
    sampler->cut += count == FRAMES_MOST;
    const struct profile_sample sample = {
        .time_ns = record->time_ns,
        .thread = image_thread_of(&sampler->images, (pid_t)head->tid),
        .frames = frames,
        .count = count,
        .whole = whole,
        .in_kernel = (header->misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_KERNEL,
        .python = record->python,
        .python_count = record->python_count,
    };
    profile_add(sampler->profile, process, &sample);
}

/* ---- the rings ---- */

/* Is it Python? It may take a while until that is set up. */
static struct python_sampler *python_of(struct image_process *process)
{
    struct python_program program;
    if (!process->has_python || process->python || process->looks >= PYTHON_LOOKS)
        return process->python;
    process->looks++;
    if (python_find(&program, process->pid) == 0)
        process->python = python_sampler_new(&program);
    return process->python;
}

/* Where a thread is in it. NULL: nowhere, or there is no memory. The caller frees it. */
static struct profile_python *python_take(struct sampler *sampler, struct image_process *process, pid_t tid,
                                          size_t *ret_count)
{
    struct python_sample_frame frames[FRAMES_MOST];
    struct python_sampler *python = python_of(process);
    size_t count = python ? python_sample(python, tid, frames, FRAMES_MOST) : 0;
    struct profile_python *list = count ? calloc(count, sizeof *list) : NULL;
    *ret_count = 0;
    for (size_t i = 0; list && i < count; i++) {
        const struct python_code *from = frames[i].code;
        const struct profile_code *code = profile_code(
            sampler->profile, &(struct profile_function){.function = from->function,
                                                         .file = from->file,
                                                         .language = "python",
                                                         .line = from->line > 0 ? (uint32_t)from->line : 0});
        if (code)
            list[(*ret_count)++] = (struct profile_python){code, frames[i].entry};
    }
    return list;
}

/* It is no matter when its samples are read: of others memory is read, too, while it is as it was then. */
static bool is_steady(struct image_process *process, uint64_t now_ns)
{
    if (process && !process->sampled_ns)
        process->sampled_ns = now_ns;
    return process && now_ns - process->sampled_ns >= PROFILE_STEADY_NS &&
           (!process->has_python || (!process->python && process->looks >= PYTHON_LOOKS));
}

static void record_free(struct record *record)
{
    free(record->python);
    free(record);
}

static bool record_keep(struct sampler *sampler, const struct perf_event_header *header)
{
    struct perf_record_id id;
    if (header->type == PERF_RECORD_SAMPLE && header->size >= sizeof(struct sample_head))
        id.time_ns = ((const struct sample_head *)(const void *)header)->time_ns;
    else if (!perf_record_id(header, &id))
        return false;
    if (sampler->record_count == sampler->record_room) {
        size_t room = sampler->record_room ? 2 * sampler->record_room : 64;
        struct record **records = realloc(sampler->records, room * sizeof *records);
        if (!records)
            return false;
        sampler->records = records;
        sampler->record_room = room;
    }
    struct record *record = malloc(sizeof *record + header->size);
    if (!record)
        return false;
    *record = (struct record){.time_ns = id.time_ns, .order = sampler->order++};
    memcpy(record->header, header, header->size);
    if (header->type == PERF_RECORD_SAMPLE) { /* now, so that this is as near to the sample as can be */
        const struct sample_head *head = (const void *)header;
        struct image_process *process;
        pid_t pid = (pid_t)head->pid;
        HASH_FIND_INT(sampler->images.processes, &pid, process);
        if (process)
            record->python = python_take(sampler, process, (pid_t)head->tid, &record->python_count);
        if (!is_steady(process, id.time_ns))
            sampler->attentive_ns = id.time_ns + PROFILE_STEADY_NS;
    }
    sampler->records[sampler->record_count++] = record;
    return true;
}

static int by_time(const void *a, const void *b)
{
    const struct record *left = *(struct record *const *)a, *right = *(struct record *const *)b;
    if (left->time_ns != right->time_ns)
        return left->time_ns < right->time_ns ? -1 : 1;
    return left->order < right->order ? -1 : 1;
}

static void record_apply(struct sampler *sampler, const struct record *record)
{
    if (record->header->type == PERF_RECORD_SAMPLE)
        take_sample(sampler, record);
    else
        images_apply(&sampler->images, record->header);
}

/* What is earlier than the look at the first ring is in all of them, but for records that are just being written. */
static void rings_read(struct sampler *sampler)
{
    uint64_t until = sampler->ending ? UINT64_MAX : clock_now_ns() - PROFILE_ORDER_NS;
    for (size_t i = 0; i < sampler->ring_count; i++) {
        struct perf_ring *ring = &sampler->rings[i];
        const struct perf_event_header *header;
        uint64_t dropped = 0;
        perf_ring_begin(ring);
        while ((header = perf_ring_next(ring, &dropped))) {
            if (header->type == PERF_RECORD_LOST && header->size >= sizeof *header + 16)
                sampler->lost += ((const uint64_t *)(const void *)(header + 1))[1];
            else if (!record_keep(sampler, header))
                sampler->lost++;
        }
        perf_ring_end(ring);
        sampler->lost += dropped != 0;
    }
    if (sampler->record_count)
        qsort(sampler->records, sampler->record_count, sizeof *sampler->records, by_time);
    size_t done = 0;
    for (; done < sampler->record_count && sampler->records[done]->time_ns <= until; done++) {
        record_apply(sampler, sampler->records[done]);
        record_free(sampler->records[done]);
    }
    sampler->record_count -= done;
    if (done)
        memmove(sampler->records, sampler->records + done, sampler->record_count * sizeof *sampler->records);
}

static void tick_after(struct sampler *sampler, uint64_t ns)
{
    if (ns != sampler->tick_ns)
        loop_set_timer(sampler->ticks, ns, ns);
    sampler->tick_ns = ns;
}

static void rings_look(struct sampler *sampler)
{
    rings_read(sampler);
    sampler->moved_ns = clock_now_ns();
    tick_after(sampler, sampler->pace_ns);
}

static void on_ring(void *ctx, int fd, uint32_t events);

/* The loop would ask for ever about one that nobody is left for. */
static void ring_forget(struct sampler *sampler, size_t i)
{
    loop_remove(sampler->ring_sources[i]);
    sampler->ring_sources[i] = NULL;
}

/* While there is something in them each time, nobody is woken for a sample. */
static void on_rested(void *ctx)
{
    struct sampler *sampler = ctx;
    const uint64_t order = sampler->order;
    rings_look(sampler);
    if (sampler->order != order && sampler->attentive_ns <= sampler->moved_ns)
        return;
    loop_remove(sampler->rest);
    sampler->rest = NULL;
    for (size_t i = 0; i < sampler->ring_count; i++)
        if (sampler->resting[i])
            sampler->ring_sources[i] = loop_add_fd(sampler->loop, sampler->rings[i].fd, EPOLLIN, on_ring, sampler);
    memset(sampler->resting, 0, sampler->ring_count * sizeof *sampler->resting);
}

static void on_ring(void *ctx, int fd, uint32_t events)
{
    struct sampler *sampler = ctx;
    size_t i = 0;
    while (i + 1 < sampler->ring_count && sampler->rings[i].fd != fd)
        i++;
    rings_look(sampler);
    if (!(events & EPOLLIN)) {
        ring_forget(sampler, i);
    } else if (sampler->rest_ns && sampler->attentive_ns <= sampler->moved_ns) {
        if (!sampler->rest)
            sampler->rest = loop_add_timer(sampler->loop, sampler->rest_ns, sampler->rest_ns, on_rested, sampler);
        sampler->resting[i] = sampler->rest != NULL;
        if (sampler->rest)
            ring_forget(sampler, i);
    }
}

/* Threads are looked at instead, if it is because of what is allowed. */
static int refused(struct sampler *sampler, int code, struct err *err)
{
    char level[16] = "";
    perf_explain(err, code, "the profile");
    if (code != -EACCES && code != -EPERM && code != -ENOSYS && code != -ENOENT)
        return code;
    file_read_start("/proc/sys/kernel/perf_event_paranoid", level, sizeof level, NULL);
    if (code == -ENOSYS || code == -ENOENT)
        snprintf(sampler->refused, sizeof sampler->refused, "this kernel has none");
    else if (atoi(level) >= 3)
        snprintf(sampler->refused, sizeof sampler->refused, "kernel.perf_event_paranoid is %d", atoi(level));
    else
        snprintf(sampler->refused, sizeof sampler->refused, "perf_event_open is forbidden");
    for (size_t i = 0; i < sampler->ring_count; i++)
        perf_ring_close(&sampler->rings[i]);
    sampler->ring_count = 0;
    sampler->hz = TIMES_HZ;
    sampler->kernel = true;
    sampler->look_ns = PROFILE_TIMES_NS;
    *err = (struct err){0};
    return 0;
}

/* One event for each processor, since children inherit only such; it is on a processor that the kernel writes. */
static int rings_open(struct sampler *sampler, struct err *err)
{
    _cleanup_(freep) int *cpus = calloc(PERF_CPUS, sizeof *cpus);
    size_t count = cpus ? perf_processors(cpus, PERF_CPUS) : 0, pages = RING_PAGES;
    struct perf_event_attr attr = perf_attr(PERF_COUNT_SW_CPU_CLOCK, 0);
    attr.watermark = 0;
    attr.wakeup_events = 1; /* each sample, but while the ring rests */
    attr.sample_period = NS_PER_SECOND / sampler->hz;
    attr.sample_type |= PERF_SAMPLE_IP | PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
    attr.sample_regs_user = SAMPLE_REGISTERS;
    attr.sample_stack_user = STACK_BYTES;
    attr.inherit = attr.mmap = attr.mmap2 = attr.comm = attr.comm_exec = attr.task = 1;
    attr.exclude_kernel = 0;
    sampler->kernel = true;
    sampler->rings = calloc(count ? count : 1, sizeof *sampler->rings);
    sampler->ring_sources = calloc(count ? count : 1, sizeof *sampler->ring_sources);
    sampler->resting = calloc(count ? count : 1, sizeof *sampler->resting);
    if (!cpus || !sampler->rings || !sampler->ring_sources || !sampler->resting)
        return err_set(err, -ENOMEM, "out of memory");
    for (unsigned hz = 50; hz < sampler->hz && pages < RING_PAGES_MOST && 2 * pages * count <= RINGS_PAGES; hz *= 2)
        pages *= 2;
    for (size_t i = 0; i < count; i++) {
        struct perf_ring *ring = &sampler->rings[sampler->ring_count];
        int code = perf_ring_open(ring, &attr, sampler->root, cpus[i], pages);
        if (code == -EACCES && sampler->kernel && !sampler->ring_count) { /* perf_event_paranoid 2 */
            attr.exclude_kernel = 1;
            sampler->kernel = false;
            code = perf_ring_open(ring, &attr, sampler->root, cpus[i], pages);
        }
        if (code == -ENODEV)
            continue; /* went offline since we looked */
        if (code == 0 && ring->size < RING_SAMPLES * STACK_BYTES && attr.sample_stack_user == STACK_BYTES) {
            size_t part = ring->size / RING_SAMPLES / 2 & ~(size_t)7; /* what users may lock is used up by others */
            attr.sample_stack_user = (uint32_t)(part > STACK_LEAST ? part : STACK_LEAST);
            perf_ring_close(ring);
            code = perf_ring_open(ring, &attr, sampler->root, cpus[i], pages);
        }
        if (code < 0)
            return refused(sampler, code, err);
        uint64_t third_ns = ring->size / 3 / (attr.sample_stack_user + SAMPLE_HEADS) * attr.sample_period;
        if (!sampler->ring_count || third_ns < sampler->rest_ns)
            sampler->rest_ns = third_ns > REST_LEAST * attr.sample_period ? third_ns : 0;
        sampler->ring_count++;
        struct loop_source **source = &sampler->ring_sources[sampler->ring_count - 1];
        *source = loop_add_fd(sampler->loop, ring->fd, EPOLLIN, on_ring, sampler);
        if (!*source)
            return err_set(err, -ENOMEM, "out of memory");
    }
    return sampler->ring_count ? 0 : err_set(err, -ENODEV, "no processor is online");
}

/* ---- threads that stand ---- */

/* What is a thread's own business: it takes turns between running and waiting, or is the first one of its process; not one of a
 * pool that stands, nor who waits for what others do, of which it is seen what they do. */
static bool waiting_counts(const struct image_thread *thread, const struct image_process *process,
                           enum waiting_for what, bool moved)
{
    if (starter_of(process->name) == STARTER_DAEMON) /* MPI_Init starts one beside a program that nobody has launched */
        return false;
    switch (what) {
    case WAITING_NOT:
    case WAITING_CHILD:
    case WAITING_THREAD:
        return false;
    case WAITING_EVENTS:
    case WAITING_SIGNAL:
        if (starter_of(process->name) ==
            STARTER_DAEMON) /* MPI_Init starts one beside a program that nobody has launched */
            return false;
        return !process->children && (moved || thread->tid == process->pid);
    case WAITING_CONDITION:
    case WAITING_SLEEP:
        return moved || thread->tid == process->pid;
    default:
        return true;
    }
}

/* It waits for work that seldom comes, while the first thread of its process computes: such threads collect garbage, or compile. */
static bool is_aside(const struct sampler *sampler, const struct image_thread *thread)
{
    enum { LITTLE = 50 }; /* so many times as much */
    struct image_thread *first;
    HASH_FIND_INT(sampler->images.threads, &thread->pid, first);
    return first && first != thread && !first->stack && thread->ran_ns * LITTLE < first->ran_ns &&
           (thread->what == WAITING_CONDITION || thread->what == WAITING_SLEEP || thread->what == WAITING_EVENTS ||
            thread->what == WAITING_SIGNAL);
}

/* A thread that scry has made in the process; or one of the process that waits for scry: the innermost that is no library of the system
 * is scry's. */
static bool is_for_scry(const struct profile_frame *frames, size_t count, bool whole)
{
    size_t inner = 0, outer = count;
    while (inner < count && frames[inner].file && !profile_is_scrys(&frames[inner]) &&
           module_is_on_the_way(frames[inner].file->path))
        inner++;
    while (outer && frames[outer - 1].file && !profile_is_scrys(&frames[outer - 1]) &&
           module_is_on_the_way(frames[outer - 1].file->path))
        outer--;
    return (inner < count && profile_is_scrys(&frames[inner])) ||
           (whole && outer && profile_is_scrys(&frames[outer - 1]));
}

/* What it has waited is put into the profile. */
static void thread_settle(struct sampler *sampler, struct image_thread *thread)
{
    if (thread->stack && thread->waited_ns)
        profile_add_waiting(sampler->profile, thread->stack, thread->what, thread->waited_ns);
    thread->waited_ns = 0;
}

static void thread_forget(struct sampler *sampler, struct image_thread *thread)
{
    thread_settle(sampler, thread);
    free(thread->stack);
    thread->stack = NULL;
    thread->what = WAITING_NOT;
}

/* Where there are no records of it. */
static void thread_name_look(struct image_thread *thread)
{
    char name[sizeof thread->name] = "";
    proc_comm(thread->pid, thread->tid, name, sizeof name);
    if (*name)
        memcpy(thread->name, name, sizeof name);
}

/* Only its program counter and its stack are known, which is enough for the way out of libraries: it ends at the first frame
 * that needs more. */
static void thread_place(struct sampler *sampler, struct image_thread *thread, struct image_process *process,
                         bool moved)
{
    struct profile_frame frames[FRAMES_MOST];
    struct lines_registers registers = {.known = 1U << REG_SP | 1U << REG_PC};
    struct reading reading = {.pid = process->pid};
    bool whole = false;
    if (!waiting_look(process->pid, thread->tid, &thread->what, &registers.values[REG_SP], &registers.values[REG_PC])) {
        thread->ended = true;
        return;
    }
    if (thread->what == WAITING_NOT)
        return;
    if (*sampler->refused) {
        image_look_again(&sampler->images, process, registers.values[REG_PC]);
        thread_name_look(thread);
    }
    reading.sp = registers.values[REG_SP];
    size_t count = reading.sp ? unwind(sampler->profile, process, &registers, &reading, frames, &whole) : 0,
           python_count;
    thread->counts = waiting_counts(thread, process, thread->what, moved) && !is_aside(sampler, thread) &&
                     !is_for_scry(frames, count, whole);
    struct profile_python *python = python_take(sampler, process, thread->tid, &python_count);
    thread->stack = profile_keep(sampler->profile, process,
                                 &(struct profile_sample){.thread = thread,
                                                          .frames = frames,
                                                          .count = count,
                                                          .whole = whole,
                                                          .python = python,
                                                          .python_count = python_count});
    free(python);
}

static void thread_waited(struct sampler *sampler, struct image_thread *thread, uint64_t ns)
{
    if (!thread->stack)
        return;
    if (!thread->counts) {
        sampler->idle_ns += ns;
        return;
    }
    thread->waited_ns += ns;
    sampler->waited_ns += ns;
}

/* Where there are no events: it has run for so long. Which function of Python it is in can be read; the rest is its program's, and
 * in that its own if it has another name. */
static void thread_ran(struct sampler *sampler, struct image_thread *thread, struct image_process *process, uint64_t ns)
{
    const uint64_t unit_ns = NS_PER_SECOND / sampler->hz;
    struct profile_frame frames[2];
    size_t count = 0, python_count;
    sampler->ran_ns += ns;
    thread->rest_ns += ns;
    if (thread->rest_ns < unit_ns)
        return;
    struct profile_python *python = python_take(sampler, process, thread->tid, &python_count);
    thread_name_look(thread);
    if (thread->tid == process->pid &&
        *thread->name) /* it may just have executed something, which is seen with the next look */
        memcpy(process->name, thread->name, sizeof process->name);
    struct profile_function is = {.function = thread->name, .file = "", .language = "thread"};
    if (*thread->name && strcmp(thread->name, process->name) != 0)
        frames[count++] = (struct profile_frame){.code = profile_code(sampler->profile, &is)};
    is = (struct profile_function){.function = process->name, .file = "", .language = "process"};
    frames[count++] = (struct profile_frame){.code = profile_code(sampler->profile, &is)};
    const struct profile_sample sample = {.time_ns = clock_now_ns(),
                                          .thread = thread,
                                          .frames = frames,
                                          .count = count,
                                          .python = python,
                                          .python_count = python_count,
                                          .weight = (unsigned)(thread->rest_ns / unit_ns)};
    thread->rest_ns %= unit_ns;
    sampler->samples += sample.weight;
    profile_add(sampler->profile, process, &sample);
    free(python);
}

/* Whether it has moved. One that has not been on a processor since the last look stands where it stood. */
static bool thread_look(struct sampler *sampler, struct image_thread *thread, struct image_process *process)
{
    char text[96];
    unsigned long long ran_ns = 0, turns = 0;
    uint64_t now = clock_now_ns(), span = now > thread->looked_ns ? now - thread->looked_ns : 0;
    int code = proc_file_read(process->pid, thread->tid, "schedstat", text, sizeof text, NULL);
    thread->ended = code == -ESRCH;
    if (thread->ended)
        return false;
    bool timed = code == 0 && sscanf(text, "%llu %*u %llu", &ran_ns, &turns) == 2;
    if (timed && *sampler->refused && ran_ns > thread->ran_ns)
        thread_ran(sampler, thread, process, ran_ns - thread->ran_ns);
    bool moved = !timed || !thread->seen || ran_ns != thread->ran_ns || turns != thread->turns;
    thread->ran_ns = ran_ns;
    thread->turns = turns;
    thread->looked_ns = now;
    if (moved) { /* where it stands now is known for this look; of a longer time it stood where it was seen before */
        uint64_t rest = thread->seen && span > sampler->round_ns ? span - sampler->round_ns : 0;
        thread_waited(sampler, thread, rest);
        thread_forget(sampler, thread);
        thread_place(sampler, thread, process, thread->stood);
        thread->seen = true;
        thread->stood |= thread->stack != NULL;
        span -= rest;
    } else if (thread->stack) {
        thread->counts = thread->counts && waiting_counts(thread, process, thread->what, false);
    }
    thread_waited(sampler, thread, span);
    return moved;
}

static void threads_gone(struct sampler *sampler)
{
    for (struct image_thread *gone; (gone = sampler->images.gone) != NULL; free(gone)) {
        sampler->images.gone = gone->next;
        thread_forget(sampler, gone);
    }
}

/* Some of them: the next ones the next time. Whether one has moved. */
static bool threads_look(struct sampler *sampler)
{
    struct image_thread *thread = sampler->next ? sampler->next : sampler->images.threads, *next;
    bool moved = false;
    threads_gone(sampler);
    sampler->round_ticks++;
    for (unsigned looks = 0; thread && looks < LOOKS_MOST; thread = next) {
        struct image_process *process;
        next = thread->hh.next;
        HASH_FIND_INT(sampler->images.processes, &thread->pid, process);
        if (!thread->ended && process && process->count) { /* else nothing is known of its memory yet */
            bool its = thread_look(sampler, thread, process);
            looks += its ? LOOK_WHOLE : 1;
            moved |= its;
        }
        if (thread->ended || !process) {
            if (*sampler->refused)
                image_thread_tell_end(&sampler->images, thread);
            thread_forget(sampler, thread);
            HASH_DEL(sampler->images.threads, thread);
            free(thread);
        }
    }
    sampler->next = thread;
    if (!thread) {
        sampler->round_ns = sampler->round_ticks * sampler->pace_ns;
        sampler->round_ticks = 0;
    }
    return moved || thread;
}

static void threads_settle_all(struct sampler *sampler)
{
    threads_gone(sampler);
    for (struct image_thread *thread = sampler->images.threads; thread; thread = thread->hh.next)
        thread_settle(sampler, thread);
}

/* ---- the file ---- */

static double cost_seconds(void)
{
    double seconds = 0;
    for (int who = RUSAGE_CHILDREN; who <= RUSAGE_SELF; who++) {
        struct rusage usage;
        if (getrusage(who, &usage) == 0)
            seconds += (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
    }
    return seconds;
}

/* Of all threads there are and were: the events count, too. */
static double cpu_seconds(const struct sampler *sampler)
{
    uint64_t sum_ns = sampler->ran_ns, count_ns;
    for (size_t i = 0; i < sampler->ring_count; i++)
        sum_ns += read(sampler->rings[i].fd, &count_ns, sizeof count_ns) == sizeof count_ns ? count_ns : 0;
    return (double)sum_ns / NS_PER_SECOND;
}

static uint64_t own_cpu_ns(void)
{
    struct timespec now = {0};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

static double waited_seconds(const struct sampler *sampler)
{
    return (double)sampler->waited_ns / NS_PER_SECOND;
}

static bool is_worth_a_file(const struct sampler *sampler)
{
    return sampler->samples || cpu_seconds(sampler) >= CPU_LEAST || waited_seconds(sampler) >= CPU_LEAST;
}

static void write_profile(struct sampler *sampler)
{
    double cpu = cpu_seconds(sampler), waited = waited_seconds(sampler);
    uint64_t began_ns = own_cpu_ns();
    json_t *object =
        json_pack("{s:i, s:i, s:b, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f}", "version", 1, "hz", (int)sampler->hz,
                  "kernel", sampler->kernel, "lost", (json_int_t)sampler->lost, "whole", (json_int_t)sampler->unwound,
                  "cut", (json_int_t)sampler->cut, "seconds",
                  (double)(clock_now_ns() - sampler->start_ns) / NS_PER_SECOND, "cpu_seconds", cpu, "cost_seconds",
                  cost_seconds(), "waiting_seconds", waited, "idle_seconds", (double)sampler->idle_ns / NS_PER_SECOND);
    if (object && *sampler->refused)
        json_object_set_new(object, "refused", json_string(sampler->refused));
    if (object)
        profile_put(sampler->profile, object);
    char *text = object ? json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(6)) : NULL;
    if (text)
        file_replace_soon(sampler->path, text, strlen(text), 0600);
    free(text);
    json_decref(object);
    sampler->written_ns = clock_now_ns();
    sampler->write_cost_ns = own_cpu_ns() - began_ns;
    sampler->written_samples = sampler->samples;
    sampler->written_waited_ns = sampler->waited_ns;
}

/* Of two looks the cheaper one counts: what is done once, as finding a Python, costs much. */
static void pace_set(struct sampler *sampler, uint64_t cost_ns)
{
    const uint64_t least_ns = cost_ns < sampler->cost_ns ? cost_ns : sampler->cost_ns, rest_ns = LOOK_REST * least_ns;
    sampler->cost_ns = cost_ns;
    sampler->pace_ns = rest_ns < sampler->look_ns       ? sampler->look_ns
                       : rest_ns < PROFILE_LOOK_MOST_NS ? rest_ns
                                                        : PROFILE_LOOK_MOST_NS;
}

/* While nothing moves it is looked less and less often. */
static void on_tick(void *ctx)
{
    struct sampler *sampler = ctx;
    const uint64_t order = sampler->order, now = clock_now_ns(), passed = now - sampler->written_ns;
    const uint64_t most_ns = PROFILE_LOOK_MOST_NS;
    if (*sampler->refused && sampler->ticked++ % (1 + HASH_COUNT(sampler->images.processes) / TIMES_LOOKS) == 0)
        images_look(&sampler->images, sampler->root);
    rings_read(sampler);
    const uint64_t began_ns = own_cpu_ns();
    bool quiet = !threads_look(sampler) && sampler->order == order;
    pace_set(sampler, own_cpu_ns() - began_ns);
    if (now - sampler->start_ns >=
        PROFILE_ASK_NS) /* scry-symbols takes memory: of a short job it is asked at the end */
        names_ask(sampler->names, false);
    const uint64_t rest_ns = WRITE_REST * sampler->write_cost_ns, least_ns = time_hasten(PROFILE_WRITE_NS);
    if (passed > (rest_ns > least_ns ? rest_ns : least_ns) &&
        (sampler->samples != sampler->written_samples ||
         (sampler->waited_ns != sampler->written_waited_ns && passed > (now - sampler->start_ns) / QUIET_PART))) {
        threads_settle_all(sampler);
        profile_fold(sampler->profile, FOLD_NEW);
        if (is_worth_a_file(sampler))
            write_profile(sampler);
    }
    sampler->moved_ns = quiet ? sampler->moved_ns : now;
    const uint64_t ns = (now - sampler->moved_ns) / QUIET_PART;
    tick_after(sampler, ns < sampler->pace_ns ? sampler->pace_ns : ns < most_ns ? ns : most_ns);
}

static void on_input(void *ctx, int fd, uint32_t events)
{
    struct sampler *sampler = ctx;
    char bytes[64];
    (void)events;
    ssize_t len = read(fd, bytes, sizeof bytes);
    if (len == 0 || (len < 0 && errno != EAGAIN && errno != EINTR))
        loop_stop(sampler->loop);
}

static int run(struct sampler *sampler, struct err *err)
{
    int code = loop_new(&sampler->loop);
    if (code < 0)
        return err_errno(err, code, "cannot start");
    sampler->profile = profile_new();
    if (sampler->profile)
        sampler->names = names_new(sampler->loop, &sampler->images, sampler->profile);
    if (!sampler->names || !(sampler->input = loop_add_fd(sampler->loop, STDIN_FILENO, EPOLLIN, on_input, sampler)) ||
        !(sampler->ticks = loop_add_timer(sampler->loop, PROFILE_LOOK_NS, PROFILE_LOOK_NS, on_tick, sampler)))
        return err_set(err, -ENOMEM, "out of memory");
    sampler->look_ns = PROFILE_LOOK_NS;
    code = rings_open(sampler, err);
    if (code < 0)
        return code;
    sampler->round_ns = sampler->pace_ns = sampler->look_ns;
    tick_after(sampler, sampler->pace_ns);
    sampler->start_ns = sampler->written_ns = sampler->moved_ns = clock_now_ns();
    puts("ready");
    fclose(stdout);
    loop_run(sampler->loop);
    loop_remove(sampler->input);
    for (size_t i = 0; i < sampler->ring_count; i++) {
        ioctl(sampler->rings[i].fd, PERF_EVENT_IOC_DISABLE, 0);
        ring_forget(sampler, i);
    }
    sampler->ending = true;
    rings_read(sampler);
    if (*sampler->refused)
        threads_look(sampler);
    threads_settle_all(sampler);
    if (!is_worth_a_file(sampler))
        return 0;
    for (struct image_process *process = sampler->images.processes; process; process = process->hh.next) {
        jit_free(process->jit);
        process->jit = NULL;
    }
    const uint64_t until = clock_now_ns() + PROFILE_NAMES_NS;
    names_ask(sampler->names, true);
    for (uint64_t now; names_busy(sampler->names) && (now = clock_now_ns()) < until;)
        loop_step(sampler->loop, (int64_t)(until - now));
    profile_fold(sampler->profile, FOLD_ALL);
    write_profile(sampler);
    return 0;
}

int main(int argc, char **argv)
{
    struct sampler sampler = {.root = argc == 4 ? atoi(argv[1]) : 0, .hz = argc == 4 ? (unsigned)atoi(argv[2]) : 0};
    struct err err = {0};
    if (sampler.root <= 0 || !sampler.hz) {
        fprintf(stderr, "usage: scry-profile PID HZ FILE (scry run --profile starts it)\n");
        return 2;
    }
    sampler.path = argv[3];
    prctl(PR_SET_NAME, PROFILE_PROCESS_NAME);
    setpriority(PRIO_PROCESS, 0, PRIORITY);
    signal(SIGPIPE, SIG_IGN);
    if (run(&sampler, &err) < 0)
        puts(err.text);
    names_free(sampler.names);
    return err.text[0] ? 1 : 0;
}
