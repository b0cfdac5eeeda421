/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages of MPI processes (shm/mpi_messages.h), as the message services need them: which are in a process's queue
 * (sent to it by any rank of its MPI job, and not matched there), tags, what processes report of them, and what is to
 * be done with them at a process's next MPI call. What the processes have written is checked. If it is wrong, only they
 * are harmed.
 */
#ifndef SCRY_MONITOR_MPI_MESSAGES_H
#define SCRY_MONITOR_MPI_MESSAGES_H

#include "monitor/engine/messages.h"
#include "monitor/mpi/mpi.h"
#include "shm/mpi_messages.h"

/* ---- reading ---- */

struct mpi_queued {
    struct message_id id;
    uint32_t comm;  /* its number in the receiver */
    pid_t pid;      /* of the sender */
    pid_t tid;      /* 0: not known any more */
    uint64_t bytes; /* UINT64_MAX: not known any more */
    uint64_t ticks; /* when it was sent; 0: not known any more */
    uint64_t age_ns;
    uint32_t doubts; /* enum mpim_doubt */
    int64_t monitor_tag;
};

struct mpi_queue { /* in the order in which they were sent */
    struct mpi_queued *items;
    size_t count;
    uint32_t doubts;     /* of the process, or of all that are sent to it */
    unsigned missing;    /* ranks that are not on this node, or do not count (yet) */
    uint64_t unfollowed; /* messages that were sent over communicators that are not known, by any rank */
};

/* The process as a MPI process; NULL with err: it is none that is watched. */
struct mpi_process *mpi_process_of(struct process *process, struct err *err);
/* The queue of a process. -EOPNOTSUPP with err: it has none, or messages of it are not counted; from now on they are.
 */
int mpi_queue_snapshot(struct process *process, struct mpi_queue *ret_queue, struct arena *arena, struct err *err);
/* The same; but where messages are not counted so far, that is not begun. */
int mpi_queue_look(struct process *process, struct mpi_queue *ret_queue, struct arena *arena, struct err *err);
/* Only if there is no doubt of what is in it; else -EOPNOTSUPP with err. */
int mpi_queue_certain(struct process *process, struct mpi_queue *ret_queue, struct arena *arena, struct err *err);
/* Says in words what `doubts` mean; "" for none. */
void mpi_doubts_print(uint32_t doubts, struct buf *out);
/* 0; -EOPNOTSUPP with err if there are any. */
int mpi_doubts_check(uint32_t doubts, struct err *err);

/* The rank of the same MPI job; NULL: it is not here. */
struct mpi_process *mpi_world_rank(struct mpi_registry *registry, uint64_t world, int32_t rank);
struct process *mpi_rank_process(struct mpi_registry *registry, uint64_t world, int32_t rank);
uint64_t mpi_process_world(const struct mpi_process *process);
/* How far a message is, and what is known of it. */
enum message_state mpi_message_state(struct mpi_registry *registry, const struct message_id *id,
                                     struct mpi_queued *ret_about);
/* The thread that sent it, as a token; the undefined one if that is not known. */
void mpi_message_sender(struct mpi_registry *registry, const struct message_id *id, pid_t tid,
                        char ret_token[TOKEN_TEXT_SIZE]);
/* The number of a communicator in a process; UINT32_MAX: not there. And back; 0. */
uint32_t mpi_comm_number(struct mpi_process *process, uint64_t identity);
uint64_t mpi_comm_identity_of(struct mpi_process *process, uint32_t number);

/* ---- tags ---- */

/* 0, or -errno with err. */
int mpi_message_tag(struct mpi_registry *registry, const struct message_id *id, int64_t tag, struct err *err);

/* ---- events ---- */

/* Begins (+1) and ends (-1) to watch for what the process receives (MPIM_EVENT_TAGGED), or is sent (.._EXTENDED). 0, or
 * -errno with err. */
int mpi_messages_watch(struct mpi_process *process, uint32_t event, int change, struct err *err);
/* Whether messages of it are counted since they could be; if not at all, they are from now on. */
int mpi_messages_want(struct mpi_process *process, struct err *err);

/* ---- doing ---- */

struct mpi_message_command {
    uint32_t kind; /* enum mpim_command_kind */
    uint64_t comm; /* identity */
    int32_t peer, tag;
    uint64_t k, count;
    const uint8_t *content; /* MPIM_INSERT */
    uint64_t bytes;
    bool wants_content; /* MPIM_REMOVE */
};
struct mpi_message_result {
    int code; /* 0 or -errno */
    char text[256];
    uint64_t done, k;
    uint8_t *content; /* of what was removed, if wanted; the callback may take it (and set NULL) */
    uint64_t bytes;
};
typedef void mpi_message_done(void *ctx, struct mpi_message_result *result);
/* At the process's next MPI call; gives up if that does not come within `timeout_ns`. The callback is called from the
 * loop, exactly once, if this returns 0. */
int mpi_message_do(struct mpi_process *process, const struct mpi_message_command *command, uint64_t timeout_ns,
                   mpi_message_done *done, void *ctx, struct err *err);

/* ---- between the files of MPI ---- */

struct agents;
struct mpi_message_job;

struct mpi_messages {
    struct mpi_process *process;
    void *area; /* all of it, mapped */
    bool wanted, known;
    unsigned tagged, extended; /* requests that watch */
    uint64_t raised;           /* of mpim.raised, those that were handled */
    unsigned raising;
    struct mpi_message_job *first, *last; /* to be done; the first is put */
    uint32_t serial;
};

void mpi_message_commands_look(struct mpi_process *process, struct mpim *block);
void mpi_message_commands_end(struct mpi_process *process);
/* A monitor before this one may have been killed over a command: it is taken back, or its answer thrown away; and the
 * files of content that it left are removed, before any process is adopted. */
void mpi_message_commands_adopt(struct mpi_process *process);
void mpi_message_files_remove(struct agents *agents);

void mpi_messages_report(struct mpi_process *process); /* it may have something to report */
/* Ends what a monitor before this one wanted to hear of; threads that wait for that monitor go on. */
void mpi_messages_adopt(struct mpi_process *process);
/* MPI_Init has returned in it: its job may be watched already. */
void mpi_messages_started(struct mpi_process *process);
void mpi_messages_forget(struct mpi_process *process);
/* The block, NULL: there is none. */
struct mpim *mpi_messages_of(struct mpi_process *process);

#endif
