/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the monitor's side of MPI share (mpi.c: registry, statistics to disk; life.c: from hello to end;
 * find.c: ranks from outside). What the services use needs no other file of the agents' side but their clock and memory.
 */
#ifndef SCRY_MONITOR_MPI_INTERNAL_H
#define SCRY_MONITOR_MPI_INTERNAL_H

#include "base/system/loop.h"
#include "monitor/recorder/agent.h"
#include "monitor/mpi/mpi.h"
#include "monitor/params/params.h"
#include "shm/mpi_area.h"

struct mpi_process {
    struct mpi_registry *registry;
    struct agent *agent; /* whose part this is */
    struct mpi_process *next, *previous;
    bool announced;
    struct mpi_area *head;           /* a page */
    uint32_t told_state;             /* enum mpi_state that was reported */
    uint32_t told_reports;           /* reports that the program asked for, and got */
    uint64_t looked_ns;              /* when it was looked whether there is something new */
    uint64_t taken_mark;             /* of what was taken last: mpi_process_mark, from just before */
    uint64_t written_mark;           /* of what is in the file */
    uint32_t written_state;          /* MPIA_LOADED ..., there */
    bool write_failed;               /* of one that has ended; tried again */
    bool finished;                   /* of one that has ended: all of it is written */
    int tell_wishes, message_wishes; /* mpi_process_want */
    int call_requests;               /* of tell_wishes, those that said which calls */
    uint16_t *call_wishes;           /* mpi_process_want_calls, by enum call_id; NULL: never */
    struct mpi_messages *messages;   /* monitor/mpi/messages.h; NULL: not read yet */
};

struct mpi_registry {
    struct agents *agents;
    struct mpi_process *list, *last; /* in the order in which they came */
    unsigned count;
    struct mpi_past *past;
    struct mpi_late *lates; /* late.c */
    struct loop_source *deferred, *timer, *watch;
    uint64_t watch_ns;
    bool (*watch_fn)(void *ctx);
    void *watch_ctx;
    void (*on_change)(void *ctx, struct mpi_process *process, enum mpi_change change);
    void *change_ctx;
};

/* NULL: of none, nothing is written; its directory may have been replaced by another job's. */
static inline struct trace_job *mpi_job(const struct mpi_process *process)
{
    struct trace_job *job = process->agent->job;
    return job && !job->replaced ? job : NULL;
}

static inline int mpi_process_fd(const struct mpi_process *process)
{
    return process->agent->files[AREA_MPI].fd;
}

/* mpi.c */
int mpi_registry_new(struct mpi_registry **ret_registry, struct agents *agents);
void mpi_registry_free(struct mpi_registry *registry);    /* NULL or empty */
void mpi_registry_rung(struct mpi_registry *registry);    /* the doorbell was */
struct mpi_process *mpi_process_new(struct agent *agent); /* and its part */
void mpi_process_came(struct mpi_process *process);       /* from here on it is watched */
void mpi_process_free(struct mpi_process *process);       /* with its area */
/* As in struct agents_mpi. */
void mpi_process_describe(struct agent *agent);
void mpi_process_ended(struct agent *agent);
void mpi_process_leave(struct agent *agent);
void mpi_process_off(struct agent *agent, const char *why);         /* why NULL: the monitor was too slow */
void mpi_past_free(struct mpi_registry *registry, const char *dir); /* of a job; NULL: all */

/* life.c: MPIA_METRIC_TELL, MPIA_METRIC_MESSAGES, as they are wanted */
uint32_t mpi_tell_bits(const struct mpi_process *process);
void mpi_tell_calls(const struct mpi_process *process); /* which calls are reported; before the bit is set */

/* mpi.c */

/* find.c: what distinguishes MPI jobs where the launcher set nothing; unchanged if there is something already. */
void mpi_namespace_find(pid_t pid, char *inout_namespace, size_t size);

/* The rank that has started this process by MPI_Comm_spawn, as the launcher says (Open MPI's does). */
bool mpi_spawner_find(pid_t pid, char *ret_namespace, size_t size, int32_t *ret_rank);

#endif
