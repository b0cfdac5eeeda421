/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What children of fork that have no area say (struct area_forks of shm/area.h). They say it in the area of the first process that
 * they come from, and may outlive that: then that page stays mapped until the job is over. A job may execute any number of
 * programs that fork and end, so of all jobs there are FORKS_KEPT pages at most: the one kept longest is counted for the last time
 * when it gives way. Of the rest of such an area no memory is left, though its file is in use.
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
    counts->left_alone += atomic_load(&forks->left_alone);
    counts->unreached += atomic_load(&forks->unreached);
}

/* Counts it for the last time: a child that found it open was counted; see fork_is_left_alone() of the agent. */
static void forks_close(struct trace_job *job, struct area_forks *forks)
{
    atomic_store(&forks->closed, 1);
    forks_add(&job->forks, forks);
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
    struct forks_page *page = malloc(sizeof *page), **oldest = &agents->forks;
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
        while ((*oldest)->next)
            oldest = &(*oldest)->next;
        forks_close((*oldest)->job, (*oldest)->forks);
        page_free(agents, oldest);
    }
    return true;
}

void agent_forks_end(struct agent *agent)
{
    const struct area_view *view = &agent->view;
    struct pollfd exits = {.fd = agent->pidfd, .events = POLLIN};
    if (!agent->ended || !view->area)
        return;
    /* that of a child is not used: it has the page of its first ancestor */
    bool others = !agent->forked && atomic_load(&view->area->forked);
    if (agent->job && !(others && page_keep(agent)))
        forks_close(agent->job, view->forks);
    if (agent->pidfd >= 0 && poll(&exits, 1, 0) > 0) /* else it lives on, and may still write there */
        fallocate(agent->files[AREA_FUNCTIONS].fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  view->filter - view->base, (off_t)(view->size - (uint64_t)(view->filter - view->base)));
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
