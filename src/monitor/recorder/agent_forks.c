/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What children of fork that have no area say (struct area_forks of shm/area.h). They say it in the area of the first process that
 * they come from, and may outlive that: then that page stays mapped until the job is over. A job may execute any number of
 * programs that fork and end, so of all jobs there are FORKS_KEPT pages at most: one that nobody has used, or else the one kept
 * longest, is counted for the last time and gives way. Of the rest of such an area no memory is left but its first pages, though its
 * file is in use: children that were not made by fork() go on with its filter until their first call.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "monitor/recorder/agents_internal.h"

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
    struct pollfd exits = {.fd = agent->pidfd, .events = POLLIN};
    if (!agent->ended || !view->area)
        return;
    bool gone = agent->gone || (agent->pidfd >= 0 && poll(&exits, 1, 0) > 0); /* else it may still write there */
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
