/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the monitor's side of MPI share (mpi.c: registry; mpi/files.c: statistics, to disk; mpi/area.c: the
 * shared memory; mpi/hello.c: handshake, jobs; mpi_settings.c: what is counted; mpi/find.c, mpi/table.c: ranks from
 * outside). What the services use needs no other file of the agents' side but their clock and memory.
 */
#ifndef SCRY_MONITOR_MPI_INTERNAL_H
#define SCRY_MONITOR_MPI_INTERNAL_H

#include <sys/socket.h>
#include <uthash.h>

#include "base/loop.h"
#include "monitor/recorder/agents_internal.h"
#include "monitor/mpi/mpi.h"
#include "monitor/recorder/mpi_settings.h"
#include "shm/mpi_area.h"

enum { MPI_LIMIT = 16384 /* processes at once */ };

struct mpi_process {
    struct mpi_registry *registry;
    struct trace_job *job; /* NULL: of none, nothing is written */
    struct mpi_process *next, *previous;
    UT_hash_handle hh; /* living ones, by pid */
    pid_t pid;
    uint64_t start_ticks, serial;
    char *exe, *path;
    int pidfd, fd;
    struct mpi_area *head; /* a page */
    struct loop_source *exit_source;
    int32_t incarnation;          /* N of its files; -1: not chosen yet */
    int32_t hint_rank, hint_size; /* as the launcher said; -1: did not */
    bool ended, announced;
    uint64_t end_ticks;              /* 0: when it ended is not known */
    uint64_t memory_taken;           /* of the file, bytes */
    uint32_t told_state;             /* enum mpi_state that was told */
    uint32_t told_reports;           /* reports that the program asked for, and got */
    uint64_t looked_ns;              /* when it was looked whether there is something new */
    uint64_t written_mark;           /* of what is in the file */
    bool write_failed;               /* of one that has ended; tried again */
    bool finished;                   /* of one that has ended: all of it is written */
    int tell_wishes, message_wishes; /* mpi_process_want */
    int call_requests;               /* of tell_wishes, those that said which calls */
    uint16_t *call_wishes;           /* mpi_process_want_calls, by enum call_id; NULL: never */
    struct mpi_messages *messages;   /* mpi_messages.h; NULL: nobody has looked at them */
};

struct mpi_registry {
    struct agents *agents;
    struct mpi_process *by_pid, *list, *last;
    unsigned count;
    struct mpi_past *past;
    struct mpi_late *lates; /* mpi/late.c */
    struct loop_source *deferred, *timer, *watch;
    uint64_t watch_ns;
    bool (*watch_fn)(void *ctx);
    void *watch_ctx;
    void (*on_change)(void *ctx, struct mpi_process *process, enum mpi_change change);
    void *change_ctx;
    void (*job_free)(struct agents *agents, struct trace_job *job); /* its last process is gone */
    void (*known)(const struct mpi_process *process);               /* its rank is; may be called again */
};

/* mpi.c */
int mpi_registry_new(struct mpi_registry **ret_registry, struct agents *agents);
void mpi_registry_free(struct mpi_registry *registry); /* living ones keep their areas, for the next monitor */
void mpi_registry_rung(struct mpi_registry *registry); /* the doorbell was */
struct mpi_process *mpi_process_new(struct mpi_registry *registry, pid_t pid, const char *exe);
void mpi_process_came(struct mpi_process *process); /* from here on it is watched */
void mpi_process_ended(struct mpi_process *process);
void mpi_process_free(struct mpi_process *process);
void mpi_past_free(struct mpi_registry *registry, const char *dir); /* of a job; NULL: all */

/* mpi_tell.c: MPIA_METRIC_TELL, MPIA_METRIC_MESSAGES, as they are wanted */
uint32_t mpi_tell_bits(const struct mpi_process *process);
void mpi_tell_calls(const struct mpi_process *process); /* which calls are told; before the bit is set */

/* mpi/files.c */
int mpi_process_write(struct mpi_process *process, bool distributions, struct err *err);

/* mpi/area.c */
int mpi_area_make(struct mpi_process *process, const struct mpi_hello *hello, struct err *err);
void mpi_area_note(const struct mpi_process *process); /* whose it is, for a monitor that is started later */
void mpi_area_remove(struct mpi_process *process);
bool mpi_same_exe(const struct mpi_process *process, const char *exe);
void mpi_area_close(struct mpi_process *process);
/* Those of a monitor before this one: calls fn with what is known of each, its area mapped; -1 removes it. */
void mpi_area_adopt_all(struct mpi_registry *registry, int (*fn)(struct mpi_process *process, const char *job));

/* mpi/find.c: what tells MPI jobs apart where the launcher set nothing: unchanged if there already is something. */
void mpi_namespace_find(pid_t pid, char *inout_namespace, size_t size);

/* The rank that has started this process by MPI_Comm_spawn, as the launcher says (Open MPI's does). */
bool mpi_spawner_find(pid_t pid, char *ret_namespace, size_t size, int32_t *ret_rank);

/* mpi/table.c: the table of a launcher; NULL-able strings. */
int mpi_table_read(pid_t launcher, void (*fn)(void *ctx, int rank, int pid, const char *host, const char *exe),
                   void *ctx, size_t *ret_size);

#endif
