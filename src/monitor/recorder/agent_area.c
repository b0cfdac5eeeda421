/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Areas of functions (shm/area.h). The files are sparse, but what the program may touch has memory before
 * (agent_files.c). So packets are handed out as the load grows, each after its memory was had.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/system/clock.h"
#include "monitor/engine/monitor.h"
#include "monitor/recorder/agent.h"
#include "shm/waits.h"
#include "symbols/index/index.h"

enum {
    SLOTS_FEW = 8192,
    SLOTS_FORK = 2048,       /* beside those of the functions that the parent has */
    BYTES_PER_FUNCTION = 64, /* of a program's file, as a guess */
    FIRST_BYTES = 8 << 20,   /* of packets, for few processes */
    GROW_BYTES = 16 << 20,   /* at once */
    PROMISED_FEW = 4 << 20,  /* of packets that a program may have by itself, where there are many */
    FORK_BYTES = 256 << 10,  /* for a child of fork, which is often short-lived */
    FORK_BRIEF = 128 << 10,
    FORK_THREADS = 4,
    MANY_AGENTS = 32, /* from here on each begins with AREA_BUFFER_MIN */
};

struct agent_link {            /* what the program has of its area */
    uint64_t room;             /* of address space that the area may take */
    uint32_t released;         /* packets that are the program's to use, */
    uint32_t made;             /* and of these, those that have memory; it may have some for the others itself */
    uint32_t threads_reserved; /* blocks that have memory */
    bool grow_failed;
    bool starting; /* its buffer is as small as can be yet */
};

bool agent_link_new(struct agent *agent)
{
    return (agent->link = calloc(1, sizeof *agent->link)) != NULL;
}

uint32_t agent_packets(const struct agent *agent)
{
    return agent->link->released;
}

/* ---- memory for a part of the file ---- */

static int area_reserve(struct agent *agent, uint64_t from, uint64_t size)
{
    return area_file_reserve(agent->agents, &agent->files[AREA_FUNCTIONS], from, size);
}

/* Gives the program the next packets, as many as there is memory for. 0 or -errno: there was none at all. */
static int release_some(struct agent *agent, uint32_t count)
{
    const struct area_view *view = &agent->view;
    uint32_t from = agent->link->made, promised = agent->link->released - from;
    if (count > view->packet_count - from)
        count = view->packet_count - from;
    if (promised && count > promised) /* at first those that are promised */
        count = promised;
    int code = 0;
    for (; count; count /= 2) {
        uint64_t size = (uint64_t)count * view->packet_size;
        code = area_reserve(agent, view->packets_at + (uint64_t)from * view->packet_size, size);
        if (code == 0) {
            area_file_kept(agent->agents, &agent->files[AREA_FUNCTIONS], promised ? size : 0);
            break;
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        uint64_t unmade = AREA_PACKET_UNMADE; /* else the program was faster */
        atomic_compare_exchange_strong(&view->states[from + i], &unmade, AREA_PACKET_FREE);
    }
    agent->link->made += count;
    if (agent->link->released < agent->link->made)
        agent->link->released = agent->link->made;
    return count ? 0 : code;
}

/* Lets the program have packets by itself, as many as are surely harmless. */
static void promise_packets(struct agent *agent)
{
    const struct area_view *view = &agent->view;
    uint32_t most = (agent->agents->count < MANY_AGENTS ? GROW_BYTES : PROMISED_FEW) / view->packet_size;
    uint32_t more = view->packet_count - agent->link->released;
    uint64_t bytes = (uint64_t)(more < most ? more : most) * view->packet_size;
    bytes = more ? area_file_promise(agent, &agent->files[AREA_FUNCTIONS], bytes) : 0;
    agent->link->released += (uint32_t)(bytes / view->packet_size);
    atomic_store(&view->area->promised, agent->link->released);
}

/* The same, and says if there is no memory. */
static void release_packets(struct agent *agent, uint32_t count)
{
    int code = release_some(agent, count);
    if (code == 0 || agent->link->grow_failed)
        return;
    agent->link->grow_failed = true;
    bool in_memory = agent->files[AREA_FUNCTIONS].in_memory;
    uint64_t kilobytes = (uint64_t)agent->link->made * agent->view.packet_size / 1024;
    if (code == -ENOMEM)
        agent_set_problem(agent, NOTE(buffer_memory, .pid = (uint64_t)agent->pid, .kilobytes = kilobytes));
    else
        agent_set_problem(agent, NOTE(buffer_disk, .in_memory = in_memory,
                                      .directory = in_memory ? MEMORY_DIR_ROOT : agent->agents->runtime,
                                      .pid = (uint64_t)agent->pid, .kilobytes = kilobytes));
}

/* A program whose last process ended soon and recorded little begins with little: what it could have filled would take
 * longer to be had than it lives. */
static uint32_t *brief_place(const struct agent *agent, uint32_t *ret_mark)
{
    uint32_t hash = agent->forked ? 16777619 : 2166136261;
    for (const char *c = agent->exe; *c; c++)
        hash = (hash ^ (uint8_t)*c) * 16777619;
    *ret_mark = hash | 1;
    return agent->job ? &agent->job->brief[(hash >> 8) % BRIEF_PROGRAMS] : NULL;
}

static bool is_brief(const struct agent *agent)
{
    uint32_t mark;
    const uint32_t *place = brief_place(agent, &mark);
    return place && *place == mark;
}

void agent_area_learn(const struct agent *agent)
{
    uint32_t mark, *place = brief_place(agent, &mark);
    if (!place)
        return;
    if (collect_was_brief(agent))
        *place = mark;
    else if (*place == mark)
        *place = 0;
}

/* In steps, so that the first ones are of use while the others are had. */
static void release_first(struct agent *agent)
{
    uint64_t most = agent->forked ? FORK_BYTES : agent->agents->count < MANY_AGENTS ? FIRST_BYTES : AREA_BUFFER_MIN;
    uint32_t step = AREA_BUFFER_MIN / agent->view.packet_size, wanted = (uint32_t)(most / agent->view.packet_size);
    wanted = wanted < agent->view.packet_count ? wanted : agent->view.packet_count;
    while (agent->link->made < wanted && !wait_fd(agent->pidfd, POLLIN, 0))
        if (release_some(agent, wanted - agent->link->made < step ? wanted - agent->link->made : step) < 0)
            return; /* worth a word only if more is really needed */
}

static void start_over(void *ctx)
{
    struct agents *agents = ctx;
    loop_remove(agents->start_timer);
    agents->start_timer = NULL;
    for (struct agent *agent = agents->list; agent; agent = agent->next)
        if (agent->link->starting) {
            agent->link->starting = false;
            if (!agent->ended)
                release_first(agent);
        }
}

void agent_area_started(struct agent *agent)
{
    struct agents *agents = agent->agents;
    agent->link->starting = true;
    if (!agents->start_timer)
        agents->start_timer = loop_add_timer(agents->monitor->loop, AREA_START_NS, 0, start_over, agents);
    if (!agents->start_timer)
        release_first(agent);
}

void agent_area_grow(struct agent *agent)
{
    const struct area_view *view = &agent->view;
    if (agent->ended)
        return;
    uint32_t live = 0;
    while (live < view->thread_count && live < agent->link->threads_reserved &&
           atomic_load_explicit(&area_thread_at(view, live)->state, memory_order_relaxed) != AREA_THREAD_FREE)
        live++;
    if (2 * live > agent->link->threads_reserved && agent->link->threads_reserved < view->thread_count) {
        uint32_t more = agent->link->threads_reserved;
        if (more > view->thread_count - agent->link->threads_reserved)
            more = view->thread_count - agent->link->threads_reserved;
        uint64_t at =
            (uint64_t)(view->threads - view->base) + (uint64_t)agent->link->threads_reserved * AREA_THREAD_SIZE;
        if (area_reserve(agent, at, (uint64_t)more * AREA_THREAD_SIZE) == 0)
            agent->link->threads_reserved += more;
    }
    if (agent->link->made >= view->packet_count)
        return;
    if (agent->job && agent->job->limited) { /* more could not be written */
        atomic_store(&view->area->promised, 0);
        return;
    }
    if (atomic_load(&view->area->policy) == AREA_FLIGHT) { /* it keeps the last of everything it has */
        uint32_t before;
        do { /* at first those that are promised */
            before = agent->link->made;
            release_packets(agent, view->packet_count - before);
        } while (agent->link->made > before && agent->link->made < view->packet_count);
        return;
    }
    uint32_t unused = 0;
    for (uint32_t i = 0; i < agent->link->made; i++) {
        uint64_t unmade = AREA_PACKET_UNMADE; /* a thread was at it in vain when it was made */
        atomic_compare_exchange_strong(&view->states[i], &unmade, AREA_PACKET_FREE);
        unused += (atomic_load_explicit(&view->states[i], memory_order_relaxed) & 0xff) == AREA_PACKET_FREE;
    }
    if (2 * unused < agent->link->made) {
        uint32_t most = GROW_BYTES / view->packet_size;
        release_packets(agent, agent->link->made < most ? agent->link->made : most);
        promise_packets(agent);
    }
}

/* ---- making one ---- */

static uint32_t slots_for(const char *exe)
{
    struct stat st;
    uint64_t slots = stat(exe, &st) == 0 ? (uint64_t)st.st_size / BYTES_PER_FUNCTION : AREA_SLOTS;
    return slots < SLOTS_FEW ? SLOTS_FEW : slots > AREA_SLOTS ? AREA_SLOTS : (uint32_t)slots;
}

/* A child of fork calls what its parent could call: each slot more is memory to be had and given back for each child.
 */
static uint32_t slots_for_fork(const struct agent *agent, const struct agent *parent)
{
    uint64_t usual = slots_for(agent->exe), functions = 0;
    for (size_t i = 0; parent && i < parent->mapped->count; i++) {
        if (parent->mapped->indexes[i] && !parent->mapped->indexes[i]->index) /* nobody knows what is in it */
            return (uint32_t)usual;
        if (agent_module_hooked(parent, i))
            functions += index_count(parent->mapped->indexes[i]->index);
    }
    uint64_t slots = 2 * functions + SLOTS_FORK;
    return parent && slots < usual ? (uint32_t)slots : (uint32_t)usual;
}

void agent_area_check(struct agent *agent)
{
    struct stat st;
    if (agent->view.base && fstat(agent->files[AREA_FUNCTIONS].fd, &st) == 0 && (uint64_t)st.st_size < agent->view.size)
        agent_set_problem(agent, NOTE(area_cut, .pid = (uint64_t)agent->pid));
}

static int map_area(struct agent *agent, uint64_t size)
{
    void *base =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, agent->files[AREA_FUNCTIONS].fd, 0);
    if (base == MAP_FAILED)
        return -errno;
    if (area_take(&agent->view, base, size))
        return 0;
    munmap(base, size);
    agent->view = (struct area_view){0};
    return -EBADMSG;
}

static int fill_area(struct agent *agent, struct area *plan, bool small)
{
    int code = ftruncate(agent->files[AREA_FUNCTIONS].fd, (off_t)plan->size) < 0 ? -errno : 0;
    uint32_t threads = small ? FORK_THREADS : THREADS_RESERVED;
    agent->link->threads_reserved = plan->thread_count < threads ? plan->thread_count : threads;
    if (code == 0)
        code = area_reserve(agent, 0, plan->programs_at + AREA_PAGE);
    if (code == 0)
        code = area_reserve(agent, plan->threads_at, (uint64_t)agent->link->threads_reserved * AREA_THREAD_SIZE);
    if (code == 0)
        code = area_reserve(agent, plan->states_at, plan->packets_at - plan->states_at);
    if (code == 0 && pwrite(agent->files[AREA_FUNCTIONS].fd, plan, sizeof *plan, 0) != sizeof *plan)
        code = -errno;
    if (code == 0)
        code = map_area(agent, plan->size);
    if (code < 0)
        return code;
    for (uint32_t i = 0; i < agent->view.packet_count; i++)
        atomic_store_explicit(&agent->view.states[i], AREA_PACKET_UNMADE, memory_order_relaxed);
    uint32_t first = small ? FORK_BYTES : agent->agents->count < MANY_AGENTS ? FIRST_BYTES : AREA_BUFFER_MIN;
    if (is_brief(agent))
        first = small ? FORK_BRIEF : AREA_BUFFER_MIN;
    release_packets(agent, first / plan->packet_size);
    if (!agent->link->made)
        return -ENOSPC;
    promise_packets(agent);
    return 0;
}

struct making {
    const struct agent *parent;
    bool again; /* there was no room in memory for it */
};

static int area_fill(struct agent *agent, void *ctx)
{
    struct making *making = ctx;
    struct agents *agents = agent->agents;
    struct area_file *file = &agent->files[AREA_FUNCTIONS];
    uint64_t buffer = agent->job ? agent->job->settings.buffer_bytes : AREA_BUFFER_MIN;
    uint32_t slots = agent->forked ? slots_for_fork(agent, making->parent) : slots_for(agent->exe);
    struct area plan;
    int code = -ENOSPC;
    if (making->again) {
        agent->link->released = agent->link->made = 0;
        agent->link->grow_failed = false;
        agent->problem.note.kind = NOTE_NONE;
    }
    making->again = true;
    for (unsigned attempt = 0; attempt < 2 && (code == -ENOSPC || code == -ENOMEM); attempt++) {
        agent_area_unmap(agent);
        area_file_give_back(agents, file);
        area_plan(&plan, attempt ? AREA_BUFFER_MIN : buffer, attempt ? 1024 : slots,
                  attempt ? THREADS_RESERVED : AREA_THREADS);
        if (plan.size > agent->link->room)
            area_plan_within(&plan, agent->link->room);
        if (file->in_memory && !memory_dir_has_room(&agents->memory, plan.size))
            return -ENOSPC; /* on disk it can grow */
        plan.pid = agent->pid;
        plan.serial = file->serial;
        plan.bell = agents->bell->id;
        if (attempt && ftruncate(file->fd, 0) < 0) /* gives back what was had so far */
            break;
        code = fill_area(agent, &plan, agent->forked);
    }
    return code;
}

int agent_area_make(struct agent *agent, const struct agent *parent, uint64_t room, struct err *err)
{
    struct agents *agents = agent->agents;
    struct making making = {.parent = parent};
    agent->link->room = room;
    int code = area_file_make(agent, AREA_FUNCTIONS, area_fill, &making);
    if (code < 0) { /* it may ask again */
        agent_area_unmap(agent);
        agent->link->released = agent->link->made = 0;
    }
    if (code == -ENOMEM)
        return err_set(err, code, "the limit of memory leaves no room for the trace buffer of pid %d", agent->pid);
    if (code < 0)
        return err_errno(err, code, "no room for the trace buffer of pid %d in %s: free some, or set XDG_RUNTIME_DIR",
                         agent->pid, agents->spill ? agents->spill : agents->rings);
    return 0;
}

void agent_area_unmap(struct agent *agent)
{
    if (agent->view.base)
        munmap(agent->view.base, agent->view.size);
    agent->view = (struct area_view){0};
}

/* ---- one of a monitor before this one ---- */

int agent_area_adopt(struct agent *agent, uint64_t size)
{
    int code = map_area(agent, size);
    if (code < 0)
        return code;
    const struct area_view *view = &agent->view;
    uint32_t promised = atomic_load(&view->area->promised);
    agent->link->released = promised < view->packet_count ? promised : view->packet_count;
    agent->link->made = view->packet_count;
    for (uint32_t i = 0; i < view->packet_count; i++) {
        uint64_t word = atomic_load(&view->states[i]), state = word & 0xff;
        if (state == AREA_PACKET_READ) /* it was at it when it ended */
            atomic_store(&view->states[i], (word & ~UINT64_C(0xff)) | AREA_PACKET_FULL);
        if (state == AREA_PACKET_UNMADE && agent->link->made > i)
            agent->link->made = i;
        if (state != AREA_PACKET_UNMADE && agent->link->released <= i)
            agent->link->released = i + 1;
    }
    if (agent->link->released > agent->link->made)
        area_file_promised(agent->agents, &agent->files[AREA_FUNCTIONS],
                           (uint64_t)(agent->link->released - agent->link->made) * view->packet_size);
    agent->link->threads_reserved = THREADS_RESERVED;
    agent_demands_adopt(agent);
    agent->adopted = true;
    agent->as_left = agent->job && atomic_load(&agent->view.area->go);
    return 0;
}

/* ---- children of fork that have no area ---- */

/*
 * What children of fork that have no area say (struct area_forks of shm/area.h). They say it in the area of the first process that
 * they come from, and may outlive that: then that page stays mapped until the job is over. A job may execute any number of
 * programs that fork and end, so of all jobs there are FORKS_KEPT pages at most: one that nobody has used, or else the one kept
 * longest, is counted for the last time and gives way. Of the rest of such an area no memory is left but its first pages, though its
 * file is in use: children that were not made by fork() go on with its filter until their first call.
 */

struct forks_page {
    struct trace_job *job;
    struct area_forks *forks;
    struct forks_page *next; /* that was kept before */
};

static void forks_add(struct forks_counts *counts, const struct area_forks *forks)
{
    counts->left_alone += atomic_load(&forks->left_alone) & ~AREA_FORKS_CLOSED;
    counts->unreached += atomic_load(&forks->unreached);
}

/* Counts it for the last time: who comes later finds it closed. */
static void forks_close(struct trace_job *job, struct area_forks *forks)
{
    job->forks.left_alone += atomic_fetch_or(&forks->left_alone, AREA_FORKS_CLOSED) & ~AREA_FORKS_CLOSED;
    job->forks.unreached += atomic_load(&forks->unreached);
}

static bool is_unused(const struct area_forks *forks)
{
    return !atomic_load(&forks->paid_ms) && !atomic_load(&forks->left_alone) && !atomic_load(&forks->unreached);
}

/* Of those that nobody has used, or else of all: the one kept longest. */
static struct forks_page **page_to_give(struct forks_page **first)
{
    struct forks_page **oldest = first, **unused = NULL;
    for (struct forks_page **place = &(*first)->next; *place; place = &(*place)->next) { /* not the one just kept */
        oldest = place;
        unused = is_unused((*place)->forks) ? place : unused;
    }
    return unused ? unused : oldest;
}

static void page_free(struct agents *agents, struct forks_page **place)
{
    struct forks_page *page = *place;
    munmap(page->forks, AREA_PAGE);
    *place = page->next;
    agents->forks_count--;
    free(page);
}

static bool page_keep(struct agent *agent)
{
    struct agents *agents = agent->agents;
    struct forks_page *page = malloc(sizeof *page), **given;
    void *at = page ? mmap(NULL, AREA_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, agent->files[AREA_FUNCTIONS].fd,
                           (uint8_t *)agent->view.forks - agent->view.base)
                    : MAP_FAILED;
    if (at == MAP_FAILED) {
        free(page);
        return false;
    }
    *page = (struct forks_page){.job = agent->job, .forks = at, .next = agents->forks};
    agents->forks = page;
    if (++agents->forks_count > FORKS_KEPT) {
        given = page_to_give(&agents->forks);
        forks_close((*given)->job, (*given)->forks);
        page_free(agents, given);
    }
    return true;
}

void agent_forks_end(struct agent *agent)
{
    const struct area_view *view = &agent->view;
    if (!agent->ended || !view->area)
        return;
    bool gone =
        agent->gone || (agent->pidfd >= 0 && wait_fd(agent->pidfd, POLLIN, 0)); /* else it may still write there */
    /* that of a child is not used: it has the page of its first ancestor */
    bool others = gone && !agent->forked && atomic_load(&view->area->forked);
    if (agent->job && !(others && page_keep(agent)))
        forks_close(agent->job, view->forks);
    off_t from = (uint8_t *)view->slots - view->base;
    if (gone)
        fallocate(agent->files[AREA_FUNCTIONS].fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, from,
                  (off_t)view->size - from);
}

struct forks_counts agents_forks_count(const struct agents *agents, const struct trace_job *job)
{
    struct forks_counts counts = job->forks;
    for (const struct agent *agent = agents->list; agent; agent = agent->next)
        if (agent->job == job && agent->view.area)
            forks_add(&counts, agent->view.forks);
    for (const struct forks_page *page = agents->forks; page; page = page->next)
        if (page->job == job)
            forks_add(&counts, page->forks);
    return counts;
}

void agents_forks_free(struct agents *agents, const struct trace_job *job)
{
    for (struct forks_page **place = &agents->forks; *place;)
        if ((*place)->job == job)
            page_free(agents, place);
        else
            place = &(*place)->next;
}
