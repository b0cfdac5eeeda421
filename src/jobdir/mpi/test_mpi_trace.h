/* SPDX-License-Identifier: Apache-2.0 */
/* For tests: traces of the ranks of an MPI program, made record by record. Times are nanoseconds of the host. */
#ifndef SCRY_JOBDIR_MPI_TEST_MPI_TRACE_H
#define SCRY_JOBDIR_MPI_TEST_MPI_TRACE_H

#include "jobdir/trace/test_trace.h"
#include "shm/mpi_area.h"
#include "shm/mpi_told.h"

enum { MADE_WORLD = 1, MADE_FUNCTIONS = 24 };

/* Function ids are their place here, from 1 on. */
static const uint32_t made_calls[MADE_FUNCTIONS] = {
    CALL_MPI_Init,      CALL_MPI_Send,     CALL_MPI_Recv,           CALL_MPI_Isend,     CALL_MPI_Irecv,
    CALL_MPI_Waitall,   CALL_MPI_Wait,     CALL_MPI_Barrier,        CALL_MPI_Allreduce, CALL_MPI_Bcast,
    CALL_MPI_Ibarrier,  CALL_MPI_Finalize, CALL_MPI_Probe,          CALL_MPI_Mprobe,    CALL_MPI_Mrecv,
    CALL_MPI_Issend,    CALL_MPI_Waitsome, CALL_MPI_Test,           CALL_MPI_Reduce,    CALL_MPI_Comm_dup,
    CALL_MPI_Win_fence, CALL_MPI_Win_lock, CALL_MPI_File_write_all, CALL_MPI_File_open};

struct made_rank {
    struct made made;
    char dir[256];
    int32_t rank;
    uint64_t order;
};

static inline uint32_t made_function(uint32_t call)
{
    for (uint32_t i = 0; i < MADE_FUNCTIONS; i++)
        if (made_calls[i] == call)
            return i + 1;
    abort();
}

/* Rank `rank` of program `world` on a node, whose trace begins at `time`. */
static inline void made_rank_begin(struct made_rank *rank, const char *root, const char *node, int32_t number,
                                   const char *world, uint64_t time)
{
    char text[1024];
    static int pid = 1000;
    *rank = (struct made_rank){.rank = number};
    snprintf(rank->dir, sizeof rank->dir, "%.60s/trace", root);
    mkdir(rank->dir, 0700);
    snprintf(rank->dir, sizeof rank->dir, "%.60s/trace/%.40s", root, node);
    mkdir(rank->dir, 0700);
    snprintf(rank->dir, sizeof rank->dir, "%.60s/trace/%.40s/%d-0", root, node, ++pid);
    mkdir(rank->dir, 0700);
    int len = snprintf(text, sizeof text,
                       "version\t1\npid\t%d\nexe\t/bin/solver\nhost\t%s\nboot_id\tboot of %s\nstart_ns\t%llu\n"
                       "ticks_per_second\t1000000000\nclock_offset_ns\t0\nstate\texited\nmpi_rank\t%d\nmpi_world\t%s\n",
                       pid, node, node, (unsigned long long)time, number, world);
    made_file(rank->dir, ".process", text, (size_t)len);
    struct buf functions = BUF_INIT;
    for (uint32_t i = 0; i < MADE_FUNCTIONS; i++)
        buf_printf(&functions, "%u\t0x%llx\t%s\t\t0\t0\tlibmpi.so.40\n", i + 1,
                   (unsigned long long)mpi_function(made_calls[i]), call_infos[made_calls[i]].name);
    made_file(rank->dir, ".functions", functions.data, functions.len);
    buf_done(&functions);
    made_text(rank->dir, ".layouts", "1\targs(peer:i4,site:u8)\n");
    made_begin(&rank->made, (uint32_t)pid, time);
}

static inline void made_rank_end(struct made_rank *rank)
{
    made_end(&rank->made);
    made_stream(&rank->made, rank->dir, "stream-0000");
    made_done(&rank->made);
}

static inline void made_message(struct made_rank *rank, uint64_t time, enum message_kind kind, uint32_t call,
                                uint64_t comm, int32_t peer, int32_t tag, uint64_t bytes, uint64_t order)
{
    const struct record_message message = {(uint8_t)kind, call, comm, peer, tag, bytes, order};
    made_record(&rank->made, RECORD_MESSAGE, time);
    buf_append(&rank->made.records, &message, sizeof message);
}

/* A call without messages. */
static inline void made_call(struct made_rank *rank, uint32_t call, uint64_t begin, uint64_t end)
{
    made_enter(&rank->made, begin, made_function(call));
    made_exit(&rank->made, end);
}

static inline void made_send(struct made_rank *rank, uint32_t call, uint64_t begin, uint64_t end, int32_t to,
                             int32_t tag, uint64_t bytes)
{
    made_enter(&rank->made, begin, made_function(call));
    made_message(rank, begin + 1, MESSAGE_SENT, call, MADE_WORLD, to, tag, bytes, ++rank->order);
    made_exit(&rank->made, end);
}

static inline void made_receive(struct made_rank *rank, uint64_t begin, uint64_t end, int32_t from, int32_t tag,
                                uint64_t bytes)
{
    made_enter(&rank->made, begin, made_function(CALL_MPI_Recv));
    made_message(rank, end - 1, MESSAGE_RECEIVED, CALL_MPI_Recv, MADE_WORLD, from, tag, bytes, ++rank->order);
    made_exit(&rank->made, end);
}

static inline void made_all(struct made_rank *rank, uint32_t call, uint64_t begin, uint64_t end, uint64_t comm,
                            int32_t root, uint64_t number)
{
    made_enter(&rank->made, begin, made_function(call));
    made_message(rank, begin + 1, MESSAGE_COLLECTIVE, call, comm, root, MPIA_TAG_NONE, 8, number);
    made_exit(&rank->made, end);
}

/* From here on the packets say that so many records before them are missing. */
static inline void made_lose(struct made_rank *rank, uint64_t count, uint64_t time)
{
    uint32_t tid = rank->made.head.tid;
    made_end(&rank->made);
    rank->made.head.events_discarded += count;
    made_begin(&rank->made, tid, time);
}

#endif
