/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_CLI_SNAPSHOT_SNAPSHOT_H
#define SCRY_CLI_SNAPSHOT_SNAPSHOT_H

#include <scry/omis.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uthash.h>

#include "base/data/arena.h"
#include "base/data/buf.h"
#include "base/data/err.h"
#include "cli/common/nodes.h"

/*
 * Many stacks as one prefix tree, as STAT makes it (D. C. Arnold et al., "Stack Trace Analysis for Large Scale
 * Debugging", IPDPS 2007): frames that stacks have in common, from where the threads began inwards, are one node, which
 * has the processes whose threads are there. Pure.
 */

struct stack_variable { /* of a frame, as one thread has it; all texts are borrowed until stack_tree_done */
    const char *name, *type, *value; /* name "": value says why there are none */
};

struct stack_frame {
    const char *language; /* native, python, note */
    const char *function, *file, *module;
    unsigned line;                          /* 0: not known */
    const struct stack_variable *variables; /* no part of what tells frames apart */
    size_t variable_count;
};

struct stack_member {
    uint32_t process; /* its place in the list of all */
    uint32_t threads; /* of it */
};

struct stack_value { /* of a variable, and whose it is */
    const struct stack_variable *variable;
    const struct stack_member *members; /* in order, once each */
    size_t member_count;
    uint64_t threads;
};

struct stack_node {
    struct stack_frame frame;
    struct stack_node *parent; /* NULL: the root, which has no frame */
    struct stack_node *first, *last, *next;
    struct stack_member *members; /* once each and in order, after stack_tree_finish */
    size_t member_count, member_room;
    uint64_t threads, running; /* here or further in */
    uint64_t ended;            /* threads that have this as their innermost frame */
    struct stack_value
        *values; /* after stack_tree_finish: those of a variable next to each other, by the first process */
    size_t value_count;
    struct stack_heard *heard; /* until then */
    size_t heard_count, heard_room;
    uint32_t number; /* in the order in which nodes were made; the root is 0 */
    uint32_t frame_number;
    UT_hash_handle hh;
};

struct stack_tree {
    struct arena arena;
    struct stack_node *root;
    struct stack_node *nodes; /* hash by parent and frame; all but the root, in the order of their numbers */
    struct stack_interned *frames;
    uint32_t node_count, frame_count;
    bool failed; /* out of memory */
};

/* So many threads of each of these processes are in these frames, innermost first. The texts are copied. */
struct stack_seen {
    const uint32_t *processes;
    size_t process_count;
    const struct stack_frame *frames;
    size_t frame_count;
    uint32_t threads, running;
};

void stack_tree_init(struct stack_tree *tree);
void stack_tree_add(struct stack_tree *tree, const struct stack_seen *seen);
/* After the last: sorts members and children, these by their first process. false: it has failed. */
bool stack_tree_finish(struct stack_tree *tree);
void stack_tree_done(struct stack_tree *tree);

/* scry snapshot: where all threads of all processes of a job are, merged. ask.c asks the monitor, shown.c knows what
 * people need of it, text.c and snapshot.c print. */

struct snapshot_process {
    const char *token, *name, *host, *mpi_job; /* of the reply */
    int64_t pid, ppid;
    int64_t rank, ranks;    /* -1: no rank */
    const char *queue_note; /* why not all messages to it are known; NULL: not asked, "": they are */
    const char *problem;    /* why nothing, or not all, is known of it; "" */
    uint64_t threads;       /* that were read */
    bool wanted, answered;
    UT_hash_handle hh; /* by token */
};

struct snapshot_operation { /* of MPI, not completed */
    uint32_t process;       /* its place in the list */
    const char *call;       /* MPI_Irecv */
    const char *kind;       /* send, receive, other */
    const char *state;      /* active, inactive (persistent, not started), freed */
    int64_t peer, tag;      /* world rank; as in shm/mpi_area.h */
    int64_t comm;           /* the communicator's number in that process; 0: MPI_COMM_WORLD; -1: not known */
    int64_t bytes;
    uint64_t age_ns;
};

struct snapshot_message {           /* of MPI, that was sent and that no receive has taken */
    uint32_t process;               /* that it was sent to: its place in the list */
    int64_t rank, tag, comm, bytes; /* rank: who sent it; bytes: -1: not known */
    uint64_t age_ns;
    const char *doubts; /* "": it is certain */
};

struct snapshot_file { /* that a process has open */
    uint32_t process;  /* its place in the list */
    int64_t fd;
    const char *kind, *path, *flags; /* as scry_proc_get_files says them */
    int64_t offset, size;            /* -1: none */
};

struct snapshot_options {
    bool all;           /* processes that are no ranks, too, and every frame */
    unsigned depth;     /* frames from where threads began, at most; 0: all */
    const char *ranks;  /* "0-2,7"; NULL: all */
    const char *thread; /* a pattern of names, or "main"; NULL: all */
    bool queues;        /* operations of MPI, too */
    bool files;         /* and what is open */
    bool values;        /* and arguments and locals */
};

struct snapshot {
    const char *job;               /* its id; NULL: processes that scry did not start */
    struct snapshot_process *list; /* ranks first, by their numbers; then the others by pid */
    size_t count;
    struct snapshot_process *tokens;   /* hash of those in the list */
    size_t ranks, others_left, unread; /* others_left: no ranks, which were not asked for */
    struct stack_tree tree;
    char here[64];                         /* this host, of processes that scry did not start */
    uint64_t read_ns;                      /* how long it took */
    struct snapshot_operation *operations; /* those alike next to each other */
    size_t operation_count;
    struct snapshot_message *messages; /* those alike next to each other */
    size_t message_count;
    struct snapshot_file *files; /* by kind and path, then by process */
    size_t file_count;
    bool has_queues, has_files, has_values; /* they were asked for */
    struct omis_reader *processes, *stacks, *queues, *unexpected, *open_files;
    struct job_nodes nodes;
    size_t unreached; /* nodes that could not be asked, or did not answer */
};

/* Fills in everything. `job`: as its monitor knows it; `near`: its nodes can be reached from here. 0, or -errno with err. snapshot_done in any case. */
int snapshot_ask(struct snapshot *snapshot, const char *job, bool near, const struct snapshot_options *options,
                 struct err *err);
/* The same of processes on this node, whether scry has started them or not. */
int snapshot_ask_pids(struct snapshot *snapshot, const pid_t *pids, size_t count,
                      const struct snapshot_options *options, struct err *err);
void snapshot_done(struct snapshot *snapshot);

/* Of snapshot_ask: asks the ranks for their operations of MPI, and for messages that they have not received, and all that are wanted for their open files. */
int snapshot_ask_queues(struct snapshot *snapshot, struct err *err);
int snapshot_ask_messages(struct snapshot *snapshot, struct err *err);
int snapshot_ask_files(struct snapshot *snapshot, struct err *err);
/* One request to all processes that are wanted (`ranks`: that are ranks, too), with more arguments; `add` gets what each
 * has answered, or what is wrong. -ENOENT without err: there are none. */
typedef int snapshot_add_fn(struct snapshot *snapshot, uint32_t process, const struct omis_value *values,
                            const char *error);
int snapshot_ask_each(struct snapshot *snapshot, const char *service, bool ranks, const char *more,
                      struct omis_reader **ret_reader, snapshot_add_fn *add, struct err *err);
/* What is wrong with a process, if nothing was before. */
void snapshot_note(struct snapshot *snapshot, uint32_t process, const char *problem);
/* In all but the process and the age. */
int snapshot_compare_operations(const struct snapshot_operation *one, const struct snapshot_operation *other);

/* What people need of a stack (innermost first): without what starts programs and threads, without the interpreter's
 * own functions around Python's, and of libraries only the function that was called. In place; returns how many
 * frames are left. */
size_t snapshot_trim(struct stack_frame *frames, size_t count);

bool snapshot_is_library(const struct stack_frame *frame);

/* Appends "0-2,7" of ascending numbers. Of sets with many gaps the middle is left out. */
void snapshot_put_set(struct buf *out, const uint32_t *numbers, size_t count);
/* Is it in such a set? 0, or -EINVAL with err: it is none. */
int snapshot_set_has(const char *set, uint32_t number, bool *ret_has, struct err *err);

/* Appends ranks of processes: "ranks 0-2,7 (4)". numbers: room for all of them. Returns how many of the members these
 * were: the others, which come behind them, are no ranks. */
size_t snapshot_put_ranks(struct buf *out, const struct snapshot *snapshot, const struct stack_member *members,
                          size_t count, uint32_t *numbers);
/* The same, and behind the ranks the others by their names. */
void snapshot_put_members(struct buf *out, const struct snapshot *snapshot, const struct stack_member *members,
                          size_t count, uint32_t *numbers);
void snapshot_put_messages(struct buf *out, const struct snapshot *snapshot, uint32_t *numbers,
                           struct stack_member *members);
/* Appends what the files are that processes have open, a line for each. numbers, members: room for all processes. */
void snapshot_put_files(struct buf *out, const struct snapshot *snapshot, uint32_t *numbers,
                        struct stack_member *members);

/* columns: of a line, at most. */
void snapshot_text(struct buf *out, const struct snapshot *snapshot, size_t columns);

#endif
