/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages: calls, bytes and peers of each kind of send and receive, known in advance. Run with two ranks and more
 * (each exchanges with its neighbours in a ring), or with one.
 */
#include "mpi/test/test_count.h"

#include <string.h>

enum { TAG = 7, MANY = 100 };

static int rank, size, right, left;

static void blocking(void)
{
    char out[64] = {0}, in[64];
    MPI_Status status;
    count_reset();
    /* 3 messages of 16, 32, 48 bytes around the ring; the receives allow for more than comes */
    for (int i = 1; i <= 3; i++)
        W(MPI_Sendrecv)
    (out, 16 * i, MPI_CHAR, right, TAG, in, 64, MPI_CHAR, left, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK_EQUAL(ROW(MPI_Sendrecv).count, 3);
    CHECK_EQUAL(ROW(MPI_Sendrecv).args_bytes, 96);
    CHECK_EQUAL(ROW(MPI_Sendrecv).sent_bytes, 96);
    CHECK_EQUAL(ROW(MPI_Sendrecv).got_bytes, 96);
    CHECK_EQUAL(count_peer(0, right, CALL_NONE).sent_count, 3);
    CHECK_EQUAL(count_peer(0, right, CALL_NONE).sent_bytes, 96);
    CHECK_EQUAL(count_peer(0, left, CALL_NONE).got_count, 3);
    CHECK_EQUAL(count_peer(0, left, CALL_NONE).got_bytes, 96);
    /* wildcards: the source is the one of the status */
    W(MPI_Sendrecv)(out, 2, MPI_INT, right, TAG, in, 16, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
    CHECK_EQUAL(status.MPI_SOURCE, left);
    CHECK_EQUAL(count_peer(0, left, CALL_NONE).got_bytes, 104);
    /* nobody */
    W(MPI_Sendrecv)(out, 5, MPI_INT, MPI_PROC_NULL, TAG, in, 16, MPI_INT, MPI_PROC_NULL, TAG, MPI_COMM_WORLD, &status);
    CHECK_EQUAL(ROW(MPI_Sendrecv).sent_bytes, 104);
    CHECK_EQUAL(ROW(MPI_Sendrecv).args_bytes, 124);
    CHECK(!count_peer(0, MPIA_RANK_NULL, CALL_NONE).used);
    W(MPI_Sendrecv_replace)(out, 4, MPI_DOUBLE, right, TAG, left, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK_EQUAL(ROW(MPI_Sendrecv_replace).got_bytes, 32);
    CHECK_EQUAL(count_peer(0, left, CALL_NONE).got_bytes, 136);
    CHECK_EQUAL(count_pending(), 0);
}

static void derived(void)
{
    MPI_Datatype column;
    double matrix[8][8] = {{0}};
    count_reset();
    W(MPI_Type_vector)(8, 1, 8, MPI_DOUBLE, &column);
    W(MPI_Type_commit)(&column);
    W(MPI_Sendrecv)
    (&matrix[0][0], 1, column, right, TAG, &matrix[0][1], 1, column, left, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK_EQUAL(ROW(MPI_Sendrecv).sent_bytes, 64);
    CHECK_EQUAL(ROW(MPI_Sendrecv).got_bytes, 64);
    W(MPI_Type_free)(&column);
    /* likely the same handle again, and another size */
    W(MPI_Type_vector)(4, 1, 8, MPI_DOUBLE, &column);
    W(MPI_Type_commit)(&column);
    W(MPI_Sendrecv)
    (&matrix[0][0], 1, column, right, TAG, &matrix[0][1], 1, column, left, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK_EQUAL(ROW(MPI_Sendrecv).sent_bytes, 96);
    W(MPI_Type_free)(&column);
    struct {
        float value;
        int at;
    } pair = {0}, other;
    W(MPI_Sendrecv)
    (&pair, 1, MPI_FLOAT_INT, right, TAG, &other, 1, MPI_FLOAT_INT, left, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK_EQUAL(ROW(MPI_Sendrecv).sent_bytes, 104);
}

static void requests(void)
{
    static char out[MANY][8], in[MANY][32];
    MPI_Request request[2 * MANY];
    count_reset();
    for (int i = 0; i < MANY; i++)
        W(MPI_Irecv)(in[i], 32, MPI_CHAR, i % 2 ? MPI_ANY_SOURCE : left, i, MPI_COMM_WORLD, &request[i]);
    CHECK_EQUAL(count_pending(), MANY);
    for (int i = 0; i < MANY; i++)
        W(MPI_Isend)(out[i], 8, MPI_CHAR, right, i, MPI_COMM_WORLD, &request[MANY + i]);
    W(MPI_Waitall)(2 * MANY, request, MPI_STATUSES_IGNORE);
    for (int i = 0; i < 2 * MANY; i++)
        CHECK(request[i] == MPI_REQUEST_NULL);
    CHECK_EQUAL(count_pending(), 0);
    CHECK_EQUAL(ROW(MPI_Irecv).count, MANY);
    CHECK_EQUAL(ROW(MPI_Irecv).args_bytes, MANY * 32);
    CHECK_EQUAL(ROW(MPI_Irecv).got_bytes, MANY * 8);
    CHECK_EQUAL(ROW(MPI_Isend).sent_bytes, MANY * 8);
    CHECK_EQUAL(ROW(MPI_Waitall).count, 1);
    CHECK_EQUAL(SPAN(MPI_Irecv).count, MANY);
    CHECK_EQUAL(SPAN(MPI_Isend).count, MANY);
    CHECK(SPAN(MPI_Irecv).min > 0 && SPAN(MPI_Irecv).max >= SPAN(MPI_Irecv).min);
    CHECK(SPAN(MPI_Irecv).ticks >= ROW(MPI_Irecv).ticks);
    CHECK_EQUAL(count_peer(0, left, CALL_NONE).got_count, MANY);
    CHECK_EQUAL(count_peer(0, right, CALL_NONE).sent_count, MANY);
}

/* More at once than there is room for: their calls are counted, and how many nothing else is known of. */
static void too_many(void)
{
    enum { BEYOND = 50, ALL = MPIA_REQUESTS + BEYOND };
    static char out, in[ALL];
    static MPI_Request request[ALL];
    if (size > 1) /* it takes longer, and shows no more */
        return;
    count_reset();
    for (int i = 0; i < ALL; i++)
        W(MPI_Irecv)(&in[i], 1, MPI_CHAR, left, TAG, MPI_COMM_WORLD, &request[i]);
    uint64_t omitted = mpi_thread_at(area, 0)->requests_omitted, kept = ALL - omitted;
    CHECK(omitted >= BEYOND && kept > MPIA_REQUESTS / 4 * 3); /* some find no place near their own */
    CHECK_EQUAL(count_pending(), kept);
    for (int i = 0; i < ALL; i++)
        W(MPI_Send)(&out, 1, MPI_CHAR, right, TAG, MPI_COMM_WORLD);
    W(MPI_Waitall)(ALL, request, MPI_STATUSES_IGNORE);
    CHECK_EQUAL(count_pending(), 0);
    CHECK_EQUAL(mpi_thread_at(area, 0)->requests_omitted, omitted);
    CHECK_EQUAL(ROW(MPI_Irecv).count, ALL);
    CHECK_EQUAL(ROW(MPI_Irecv).got_bytes, kept);
    CHECK_EQUAL(SPAN(MPI_Irecv).count, kept);
    CHECK_EQUAL(count_peer(0, left, CALL_NONE).got_count, kept);
}

static void completions(void)
{
    char out[16] = {0}, in[8][16];
    MPI_Request request[8];
    MPI_Status status, statuses[8];
    int flag, index, count, indices[8];
    count_reset();
    for (int round = 0; round < 6; round++) {
        for (int i = 0; i < 4; i++) {
            W(MPI_Irecv)(in[i], 16, MPI_BYTE, left, i, MPI_COMM_WORLD, &request[i]);
            W(MPI_Isend)(out, 1 + i, MPI_BYTE, right, i, MPI_COMM_WORLD, &request[4 + i]);
        }
        switch (round) {
        case 0:
            for (int i = 0; i < 8; i++)
                W(MPI_Wait)(&request[i], i % 2 ? &status : MPI_STATUS_IGNORE);
            break;
        case 1:
            for (int i = 0; i < 8; i++)
                for (flag = 0; !flag;)
                    W(MPI_Test)(&request[i], &flag, MPI_STATUS_IGNORE);
            break;
        case 2:
            for (int i = 0; i < 8; i++)
                W(MPI_Waitany)(8, request, &index, MPI_STATUS_IGNORE);
            W(MPI_Waitany)(8, request, &index, MPI_STATUS_IGNORE);
            CHECK_EQUAL(index, MPI_UNDEFINED);
            break;
        case 3:
            for (int done = 0; done < 8; done += count)
                W(MPI_Waitsome)(8, request, &count, indices, done % 3 ? statuses : MPI_STATUSES_IGNORE);
            break;
        case 4:
            for (flag = 0; !flag;)
                W(MPI_Testall)(8, request, &flag, MPI_STATUSES_IGNORE);
            break;
        default:
            for (int done = 0; done < 4; done += flag)
                W(MPI_Testany)(8, request, &index, &flag, &status);
            for (int done = 0; done < 4; done += count)
                W(MPI_Testsome)(8, request, &count, indices, statuses);
        }
        CHECK_EQUAL(count_pending(), 0);
        CHECK_EQUAL(ROW(MPI_Irecv).got_bytes, 10 * (round + 1));
        CHECK_EQUAL(SPAN(MPI_Irecv).count, 4 * (round + 1));
        CHECK_EQUAL(SPAN(MPI_Isend).count, 4 * (round + 1));
    }
    CHECK_EQUAL(count_peer(0, left, CALL_NONE).got_bytes, 60);
    CHECK_EQUAL(count_peer(0, right, CALL_NONE).sent_bytes, 60);
}

static void persistent(void)
{
    int out[4] = {0}, in[4];
    MPI_Request request[2];
    count_reset();
    W(MPI_Send_init)(out, 4, MPI_INT, right, TAG, MPI_COMM_WORLD, &request[0]);
    W(MPI_Recv_init)(in, 4, MPI_INT, left, TAG, MPI_COMM_WORLD, &request[1]);
    CHECK_EQUAL(count_pending(), 0);
    CHECK_EQUAL(count_peer(0, right, CALL_NONE).sent_count, 0);
    for (int i = 0; i < 5; i++) {
        if (i % 2)
            W(MPI_Startall)(2, request);
        else {
            W(MPI_Start)(&request[1]);
            CHECK_EQUAL(count_pending(), 1);
            W(MPI_Start)(&request[0]);
        }
        CHECK_EQUAL(count_pending(), 2);
        W(MPI_Waitall)(2, request, MPI_STATUSES_IGNORE);
        W(MPI_Waitall)(2, request, MPI_STATUSES_IGNORE); /* inactive now: returns at once */
        CHECK_EQUAL(count_pending(), 0);
    }
    W(MPI_Request_free)(&request[0]);
    W(MPI_Request_free)(&request[1]);
    CHECK_EQUAL(count_peer(0, right, CALL_NONE).sent_bytes, 80);
    CHECK_EQUAL(count_peer(0, left, CALL_NONE).got_bytes, 80);
    CHECK_EQUAL(SPAN(MPI_Send_init).count, 5);
    CHECK_EQUAL(SPAN(MPI_Recv_init).count, 5);
    CHECK_EQUAL(ROW(MPI_Start).sent_bytes + ROW(MPI_Startall).sent_bytes, 80);
    CHECK_EQUAL(ROW(MPI_Start).got_bytes + ROW(MPI_Startall).got_bytes, 80);
    CHECK_EQUAL(ROW(MPI_Startall).got_bytes, 32); /* twice */
    CHECK_EQUAL(ROW(MPI_Send_init).sent_bytes + ROW(MPI_Recv_init).got_bytes, 0);
}

static void probed(void)
{
    int out = 1, in, flag;
    MPI_Message message;
    MPI_Status status;
    MPI_Request request, sends[2];
    count_reset();
    W(MPI_Isend)(&out, 1, MPI_INT, right, TAG, MPI_COMM_WORLD, &sends[0]);
    W(MPI_Isend)(&out, 1, MPI_INT, right, TAG + 1, MPI_COMM_WORLD, &sends[1]);
    W(MPI_Probe)(left, TAG, MPI_COMM_WORLD, &status);
    CHECK_EQUAL(count_peer(0, left, CALL_NONE).got_count, 0);
    W(MPI_Mprobe)(MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
    W(MPI_Mrecv)(&in, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
    CHECK_EQUAL(count_peer(0, left, CALL_NONE).got_bytes, 4);
    CHECK_EQUAL(ROW(MPI_Mrecv).got_bytes, 4);
    for (flag = 0; !flag;)
        W(MPI_Improbe)(left, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &message, &status);
    W(MPI_Imrecv)(&in, 1, MPI_INT, &message, &request);
    W(MPI_Wait)(&request, MPI_STATUS_IGNORE);
    CHECK_EQUAL(count_peer(0, left, CALL_NONE).got_count, 2);
    W(MPI_Waitall)(2, sends, MPI_STATUSES_IGNORE);
    W(MPI_Mprobe)(MPI_PROC_NULL, TAG, MPI_COMM_WORLD, &message, &status);
    W(MPI_Mrecv)(&in, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
    CHECK_EQUAL(count_peer(0, left, CALL_NONE).got_count, 2);
    CHECK_EQUAL(count_pending(), 0);
}

static void cancelled(void)
{
    static int in; /* what arrives for a request that was given up arrives later */
    int out = 1, flag = 0;
    MPI_Request request;
    MPI_Status status;
    count_reset();
    W(MPI_Irecv)(&in, 1, MPI_INT, left, 4711, MPI_COMM_WORLD, &request);
    CHECK_EQUAL(count_pending(), 1);
    W(MPI_Cancel)(&request);
    W(MPI_Wait)(&request, &status);
    W(MPI_Test_cancelled)(&status, &flag);
    CHECK(flag);
    CHECK_EQUAL(count_pending(), 0);
    CHECK_EQUAL(count_peer(0, left, CALL_NONE).got_count, 0);
    /* given up: complete when it comes to it */
    W(MPI_Irecv)(&in, 1, MPI_INT, left, TAG, MPI_COMM_WORLD, &request);
    W(MPI_Request_free)(&request);
    W(MPI_Send)(&out, 1, MPI_INT, right, TAG, MPI_COMM_WORLD);
    CHECK_EQUAL(count_pending(), 0);
    CHECK_EQUAL(ROW(MPI_Request_free).count, 1);
    CHECK_EQUAL(mpi_thread_at(area, 0)->receives_freed, 1);
    CHECK_EQUAL(count_peer(0, left, CALL_NONE).got_count, 0);
    /* given up when it is known to be complete: it has got what it got, once */
    W(MPI_Irecv)(&in, 1, MPI_INT, left, TAG + 1, MPI_COMM_WORLD, &request);
    W(MPI_Send)(&out, 1, MPI_INT, right, TAG + 1, MPI_COMM_WORLD);
    for (flag = 0; !flag;)
        W(MPI_Request_get_status)(request, &flag, MPI_STATUS_IGNORE);
    W(MPI_Request_get_status)(request, &flag, &status);
    CHECK_EQUAL(count_pending(), 0);
    W(MPI_Request_free)(&request);
    CHECK_EQUAL(mpi_thread_at(area, 0)->receives_freed, 1);
    CHECK_EQUAL(count_peer(0, left, CALL_NONE).got_bytes, 4);
    CHECK_EQUAL(ROW(MPI_Irecv).got_bytes, 4);
    /* errors count as such, and move nothing */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    uint64_t errors = mpi_thread_at(area, 0)->errors;
    CHECK(W(MPI_Send)(&out, 1, MPI_INT, size + 5, TAG, MPI_COMM_WORLD) != MPI_SUCCESS);
    CHECK_EQUAL(mpi_thread_at(area, 0)->errors, errors + 1);
    CHECK_EQUAL(ROW(MPI_Send).count, 3);
    CHECK_EQUAL(ROW(MPI_Send).sent_bytes, 8);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

static void distributions(void)
{
    char out[4096] = {0}, in[4096];
    uint64_t total;
    count_reset();
    for (int i = 0; i < 10; i++)
        W(MPI_Sendrecv)
    (out, 1 << i, MPI_CHAR, right, TAG, in, 4096, MPI_CHAR, left, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    struct mpi_row row = ROW(MPI_Sendrecv);
    CHECK_EQUAL(count_histogram(row.ticks_at, &total), 10);
    CHECK_EQUAL(total, row.ticks);
    CHECK_EQUAL(count_histogram(row.bytes_at, &total), 10);
    CHECK_EQUAL(total, 1023);
    const struct mpi_histogram *sizes = mpi_pool_at(area, row.bytes_at, sizeof *sizes);
    for (int i = 0; i < 10; i++)
        CHECK_EQUAL(sizes->buckets[mpi_bucket(1u << i, sizes->bits)], 1);
    const struct mpi_thread *thread = mpi_thread_at(area, 0);
    CHECK_EQUAL(count_histogram(thread->outermost.compute_at, &total), thread->outermost.count);
    CHECK_EQUAL(total, mpi_clock_outermost(&thread->outermost).compute);
    CHECK_EQUAL(count_rows(false), thread->outermost.communicate);
}

int main(int argc, char **argv)
{
    count_start();
    W(MPI_Init)(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    right = (rank + 1) % size;
    left = (rank + size - 1) % size;
    CHECK_EQUAL(area->rank, rank);
    CHECK_EQUAL(area->world_size, size);
    void (*const parts[])(void) = {blocking,   derived, requests,  too_many,     completions,
                                   persistent, probed,  cancelled, distributions};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        parts[i]();
        MPI_Barrier(MPI_COMM_WORLD);
    }
    W(MPI_Finalize)();
    const struct mpi_thread *main_thread = mpi_thread_at(area, 0);
    CHECK(main_thread->is_main);
    CHECK_EQUAL(atomic_load(&area->state), MPIA_ENDED);
    struct mpi_clock outermost = mpi_clock_outermost(&main_thread->outermost);
    struct mpi_clock blocking = mpi_clock_blocking(&main_thread->outermost, &main_thread->blocking);
    CHECK_EQUAL(outermost.communicate, count_rows(false));
    CHECK_EQUAL(blocking.communicate, count_rows(true));
    CHECK(outermost.first > area->init_return); /* counts were reset since */
    CHECK_EQUAL(outermost.last, area->finalize_enter);
    CHECK_EQUAL(blocking.last, area->finalize_enter);
    CHECK_EQUAL(outermost.compute + outermost.communicate, area->finalize_enter - outermost.first);
    CHECK(outermost.count > 0 && blocking.count <= outermost.count);
    return count_end();
}
