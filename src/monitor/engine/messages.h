/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Message queues and messages as objects (specification 8.1.4). Each process that has messages sent to it has one
 * queue. A message in a queue, or on its way, is named by what both its ends count (struct message_id) and gets its
 * token when a tool first asks for it; what was created, or taken out of a queue, is held here with its content.
 */
#ifndef SCRY_MONITOR_ENGINE_MESSAGES_H
#define SCRY_MONITOR_ENGINE_MESSAGES_H

#include "base/data/arena.h"
#include "monitor/engine/object.h"
#include "monitor/engine/process.h"

struct message_id {
    uint64_t world; /* a MPI job: its ranks are those below */
    uint64_t comm;  /* identity of the communicator (shm/mpi_area.h) */
    uint64_t k;     /* the sequence number in its channel; 0: it is in no queue */
    int32_t from, to, tag;
    uint32_t zero;
};

struct message_queue {
    struct scry_object object;
    struct process *process;
};

struct message {
    struct scry_object object;
    struct message_id id; /* of one that is held: where it came from, or shall go */
    bool held;
    bool addressed;   /* id but for k is known */
    uint8_t *content; /* of one that is held; malloc'ed */
    uint64_t bytes;
    int64_t monitor_tag; /* of one that is held */
    bool is_listed;
    UT_hash_handle hh; /* of monitor->messages, by id, if it is not held */
};

/* How far a message is. */
enum message_state {
    MESSAGE_IS_UNKNOWN, /* its sender or its receiver is not here */
    MESSAGE_IS_TO_COME, /* not sent yet */
    MESSAGE_IS_QUEUED,
    MESSAGE_IS_MATCHED, /* by a receive that is posted; it may be complete */
    MESSAGE_IS_RECEIVED,
};

/* Who sees the messages of processes: monitor->message_source, NULL while nobody does. */
struct message_source {
    bool (*has_queue)(const struct process *process);
    struct process *(*rank)(struct monitor *monitor, uint64_t world, int32_t rank); /* NULL: it is not here */
    enum message_state (*state)(struct monitor *monitor, const struct message_id *id);
    /* What is in the queue of the process, the oldest first, from the arena. 0; -errno with err: it is not certain. */
    int (*queued)(struct process *process, struct message_id **ret_ids, size_t *ret_count, struct arena *arena,
                  struct err *err);
};

/* As the source says; without one: no process has a queue, and none is a rank. */
bool message_has_queue(const struct process *process);
struct process *message_rank(struct monitor *monitor, uint64_t world, int32_t rank);

/* The queue of a process, made when it is first asked for. NULL: out of memory. */
struct message_queue *message_queue_of(struct process *process);
/* The process has ended. */
void message_queue_end(struct process *process);

/* The message with this name, which has k; NULL: out of memory. */
struct message *message_named(struct monitor *monitor, const struct message_id *id);
/* A new one that is held, owned by the tool; NULL: out of memory. */
struct message *message_new(struct monitor *monitor, struct tool *tool);
/* Held from now on by the tool, with this content (taken over), or in the queue under this name. */
void message_hold(struct message *message, struct tool *tool, uint8_t *content_take, uint64_t bytes);
void message_queued(struct message *message, const struct message_id *id);
void message_end(struct message *message);
/* Forgets those that are in queues no more; done by message_named now and then, when there are very many. */
void messages_sweep(struct monitor *monitor);

#endif
