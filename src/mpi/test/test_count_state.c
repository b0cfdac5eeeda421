/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is not about single calls: clocks and their switches, levels of MPI_Pcontrol, resets, communicators that come
 * and go, many threads, a child of fork, a pool that is used up. Runs alone.
 */
#include "mpi/test/test_count.h"

#include <pthread.h>
#include <setjmp.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mpi/count/comm.h"
#include "mpi/count/process.h"
#include "mpi/message/tell.h"
#include "shm/mpi_told.h"
#include "shm/record.h"

static double out[64], in[64];
static MPI_Comm self_comm;

static void call_once(void)
{
    W(MPI_Sendrecv)(out, 1, MPI_DOUBLE, 0, 1, in, 1, MPI_DOUBLE, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE);
}

static const struct mpi_thread *main_thread(void)
{
    return mpi_thread_at(area, 0);
}

static struct mpi_clock clock_of(bool blocking)
{
    const struct mpi_thread *thread = main_thread();
    return blocking ? mpi_clock_blocking(&thread->outermost, &thread->blocking)
                    : mpi_clock_outermost(&thread->outermost);
}

/* Both clocks make sense: they run from one moment on, to now at most, and the second one has less communication. */
static void check_clocks(const char *file, int line)
{
    struct mpi_clock outermost = clock_of(false), blocking = clock_of(true);
    bool fits = outermost.communicate <= outermost.last - outermost.first && outermost.last <= ticks_now() &&
                outermost.first >= area->init_return && blocking.first == outermost.first &&
                blocking.last <= outermost.last && blocking.communicate <= outermost.communicate &&
                blocking.communicate <= blocking.last - blocking.first && blocking.count <= outermost.count;
    if (!fits)
        count_failed(file, line, "the clocks are impossible", (long long)outermost.communicate,
                     (long long)(outermost.last - outermost.first));
}
#define CHECK_CLOCKS() check_clocks(__FILE__, __LINE__)

/* ---- switches ---- */

static void pcontrol(void)
{
    const struct mpi_outermost *clock = &main_thread()->outermost;
    count_reset();
    call_once();
    uint64_t first = clock->first, count = ROW(MPI_Sendrecv).count;
    CHECK_EQUAL(count, 1);
    CHECK_CLOCKS();
    W(MPI_Pcontrol)(0);
    CHECK_EQUAL(atomic_load(&area->pcontrol), 1);
    uint64_t last = clock->last;
    for (int i = 0; i < 100; i++)
        call_once();
    CHECK_EQUAL(ROW(MPI_Sendrecv).count, 1);
    CHECK_EQUAL(clock->last, last);
    CHECK_CLOCKS();
    /* a communicator that is made meanwhile is known afterwards */
    MPI_Comm made;
    W(MPI_Comm_dup)(MPI_COMM_SELF, &made);
    W(MPI_Comm_set_name)(made, "meanwhile");
    uint64_t before = ticks_now();
    W(MPI_Pcontrol)(1);
    CHECK_EQUAL(atomic_load(&area->pcontrol), 0);
    CHECK(clock->first >= first + (before - last)); /* that time is in neither sum */
    CHECK_CLOCKS();
    W(MPI_Sendrecv)(out, 1, MPI_DOUBLE, 0, 1, in, 1, MPI_DOUBLE, 0, 1, made, MPI_STATUS_IGNORE);
    CHECK_EQUAL(ROW(MPI_Sendrecv).count, 2);
    CHECK_EQUAL(count_peer(count_comm_number("meanwhile"), 0, CALL_NONE).sent_bytes, 8);
    CHECK_CLOCKS();
    W(MPI_Comm_free)(&made);
    uint32_t reports = atomic_load(&area->reports);
    W(MPI_Pcontrol)(3);
    CHECK_EQUAL(atomic_load(&area->reports), reports + 1);
    before = ticks_now();
    W(MPI_Pcontrol)(2);
    CHECK(atomic_load(&area->reset_at) >= before && atomic_load(&area->reset_at) <= ticks_now());
    call_once();
    CHECK_EQUAL(ROW(MPI_Sendrecv).count, 1);
    W(MPI_Pcontrol)(4711);
    CHECK_CLOCKS();
}

static void switched_off(void)
{
    count_reset();
    call_once();
    atomic_store(&area->on, 0);
    for (int i = 0; i < 10; i++)
        call_once();
    CHECK_EQUAL(ROW(MPI_Sendrecv).count, 1);
    CHECK_CLOCKS();
    atomic_store(&area->on, 1);
    call_once();
    CHECK_EQUAL(ROW(MPI_Sendrecv).count, 2);
    CHECK_CLOCKS();
    /* parts of it */
    count_reset();
    atomic_store(&area->metrics, MPIA_METRIC_PEERS);
    call_once();
    CHECK_EQUAL(ROW(MPI_Sendrecv).count, 1);
    CHECK_EQUAL(count_peer(UINT32_MAX, 0, CALL_NONE).sent_count, 1);
    CHECK_EQUAL(main_thread()->outermost.count, 0);
    atomic_store(&area->metrics, MPIA_METRIC_CLOCKS);
    call_once();
    CHECK_EQUAL(count_peer(UINT32_MAX, 0, CALL_NONE).sent_count, 1);
    CHECK_EQUAL(main_thread()->outermost.count, 1);
    CHECK_CLOCKS();
    atomic_store(&area->metrics, MPIA_METRIC_ALL);
    call_once();
    CHECK_EQUAL(count_peer(UINT32_MAX, 0, CALL_NONE).sent_count, 2);
    CHECK_CLOCKS();
    /* another resolution, from the next reset on */
    uint64_t total;
    atomic_store(&area->bits, 6);
    count_reset();
    call_once();
    const struct mpi_histogram *histogram = mpi_pool_at(area, ROW(MPI_Sendrecv).ticks_at, sizeof *histogram);
    CHECK_EQUAL(histogram->bits, 6);
    CHECK_EQUAL(count_histogram(ROW(MPI_Sendrecv).ticks_at, &total), 1);
    /* distributions of chosen calls only */
    atomic_store(&area->selected[CALL_MPI_Sendrecv / 64], 0);
    for (int i = 0; i < 2; i++) /* as two dlopens do */
        self_opens();
    call_once();
    CHECK_EQUAL(count_histogram(ROW(MPI_Sendrecv).ticks_at, &total), 1);
    atomic_store(&area->selected[CALL_MPI_Sendrecv / 64], UINT64_MAX);
    atomic_store(&area->bits, MPIA_BITS_DEFAULT);
    count_reset();
    call_once();
    CHECK_CLOCKS();
}

/* ---- both clocks, against what they say after each call, added up as they are defined ---- */

enum { MOST_BUCKETS = (MPIA_OCTAVES + 1) << MPIA_BITS_MOST };

static struct reference {
    struct mpi_clock clock;
    uint64_t computations[MOST_BUCKETS], communications[MOST_BUCKETS];
} references[2]; /* all calls, those that block */

static void extremes(uint64_t *least, uint64_t *most, uint64_t value)
{
    uint64_t at_least_one = value ? value : 1;
    *least = *least && *least < at_least_one ? *least : at_least_one;
    *most = *most > value ? *most : value;
}

static void refer(struct reference *to, uint64_t enter, uint64_t leave)
{
    uint64_t computed = enter - to->clock.last, communicated = leave - enter;
    to->clock.compute += computed;
    to->clock.communicate += communicated;
    to->clock.count++;
    to->clock.last = leave;
    extremes(&to->clock.compute_min, &to->clock.compute_max, computed);
    extremes(&to->clock.communicate_min, &to->clock.communicate_max, communicated);
    to->computations[mpi_bucket(computed, MPIA_BITS_DEFAULT)]++;
    to->communications[mpi_bucket(communicated, MPIA_BITS_DEFAULT)]++;
}

/* One more call, of whether it blocks, has been made. */
static void observe(bool blocks)
{
    static uint64_t before;
    struct mpi_clock now = clock_of(false);
    if (!references[0].clock.count)
        before = 0;
    uint64_t enter = now.last - (now.communicate - before);
    before = now.communicate;
    refer(&references[0], enter, now.last);
    if (blocks)
        refer(&references[1], enter, now.last);
}

static void add_buckets(uint64_t *buckets, uint32_t at)
{
    const struct mpi_histogram *histogram = at ? mpi_pool_at(area, at, sizeof *histogram) : NULL;
    for (uint32_t i = 0; histogram && i < histogram->bucket_count; i++)
        buckets[i] += histogram->buckets[i];
}

static void check_reference(bool blocking)
{
    static uint64_t computations[MOST_BUCKETS], communications[MOST_BUCKETS];
    const struct mpi_thread *thread = main_thread();
    struct mpi_clock clock = clock_of(blocking);
    const struct reference *expected = &references[blocking];
    memset(computations, 0, sizeof computations);
    memset(communications, 0, sizeof communications);
    add_buckets(computations, thread->outermost.compute_at);
    add_buckets(communications, blocking ? thread->blocking.communicate_at : thread->outermost.communicate_at);
    if (blocking)
        add_buckets(computations, thread->blocking.compute_at);
    for (uint32_t call = 1; call < CALL_COUNT; call++)
        if (!mpi_call_is_untimed(call) && (!blocking || call_infos[call].blocking))
            add_buckets(communications, thread->rows[call].ticks_at);
    CHECK(memcmp(&clock, &expected->clock, sizeof clock) == 0);
    CHECK_EQUAL(clock.compute, expected->clock.compute);
    CHECK_EQUAL(clock.compute_max, expected->clock.compute_max);
    CHECK(memcmp(computations, expected->computations, sizeof computations) == 0);
    CHECK(memcmp(communications, expected->communications, sizeof communications) == 0);
}

static void start_references(void)
{
    count_reset();
    memset(references, 0, sizeof references);
    int flag;
    W(MPI_Iprobe)(0, 7, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
    for (int i = 0; i < 2; i++)
        references[i].clock.first = references[i].clock.last = clock_of(false).first;
    observe(false);
}

static void exchange(int i)
{
    MPI_Request request;
    for (int k = 0; k < i % 7; k++) {
        call_once();
        observe(true);
    }
    W(MPI_Irecv)(in, 1 + i % 3, MPI_DOUBLE, 0, 1, MPI_COMM_SELF, &request);
    observe(false);
    W(MPI_Send)(out, 1 + i % 3, MPI_DOUBLE, 0, 1, MPI_COMM_SELF);
    observe(true);
    W(MPI_Wait)(&request, MPI_STATUS_IGNORE);
    observe(true);
}

/* A non-blocking call is computation by the definition of blocking ones. */
static void both_clocks(void)
{
    start_references();
    for (int i = 0; i < 3000; i++)
        exchange(i);
    for (int i = 0; i < 2; i++)
        check_reference(i);
    CHECK(clock_of(true).compute > clock_of(false).compute);
    /* a call without a distribution of its own; the switch is seen when something else is */
    atomic_store(&area->selected[CALL_MPI_Sendrecv / 64], ~(UINT64_C(1) << CALL_MPI_Sendrecv % 64));
    atomic_fetch_add(&area->metrics, MPIA_METRIC_POKE);
    for (int i = 0; i < 50; i++)
        exchange(i);
    atomic_store(&area->selected[CALL_MPI_Sendrecv / 64], UINT64_MAX);
    atomic_fetch_add(&area->metrics, MPIA_METRIC_POKE);
    for (int i = 0; i < 50; i++)
        exchange(i);
    for (int i = 0; i < 2; i++)
        check_reference(i);
    CHECK_CLOCKS();
}

/* Calls with distributions, but without clocks, are no part of those of the clocks. */
static void without_clocks(void)
{
    uint64_t count = 0, total;
    count_reset();
    atomic_store(&area->metrics, MPIA_METRIC_ALL & ~(uint32_t)MPIA_METRIC_CLOCKS);
    for (int i = 0; i < 10; i++)
        call_once();
    CHECK_EQUAL(ROW(MPI_Sendrecv).count, 10);
    CHECK_EQUAL(count_histogram(ROW(MPI_Sendrecv).ticks_at, &total), 10);
    count += count_histogram(ROW(MPI_Sendrecv).ticks_at, &total);
    uint64_t ticks = total;
    count += count_histogram(main_thread()->outermost.communicate_at, &total);
    CHECK_EQUAL(count, 0);
    CHECK_EQUAL(ticks + total, 0);
    atomic_store(&area->metrics, MPIA_METRIC_ALL);
    call_once();
    CHECK_EQUAL(main_thread()->outermost.count, 1);
    CHECK_CLOCKS();
}

/* ---- polls that do without a time stamp ---- */

static void spin(uint64_t ticks)
{
    for (uint64_t since = ticks_now(); ticks_now() - since < ticks;)
        ;
}

static void poll_all(MPI_Request *requests, int count)
{
    int flag, index, indices[3];
    MPI_Status statuses[3];
    W(MPI_Iprobe)(0, 9, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
    CHECK(!flag);
    W(MPI_Test)(&requests[0], &flag, MPI_STATUS_IGNORE);
    CHECK(!flag);
    W(MPI_Testany)(count, requests, &index, &flag, MPI_STATUS_IGNORE);
    CHECK(!flag);
    W(MPI_Testsome)(count, requests, &index, indices, statuses);
    CHECK_EQUAL(index, 0);
}

static __attribute__((noinline)) void poll_once(void)
{
    int flag;
    W(MPI_Iprobe)(0, 9, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
}

static void check_polled(uint32_t call, uint64_t count)
{
    uint64_t total;
    struct mpi_row row = count_row(call);
    CHECK_EQUAL(row.count, count);
    CHECK_EQUAL(count_histogram(row.ticks_at, &total), count);
    CHECK_EQUAL(total, row.ticks);
    CHECK(row.min * count <= row.ticks && row.ticks <= row.max * count);
}

/* All are counted; between two time stamps it is the clocks that are exact. */
static void polls(void)
{
    enum { ROUNDS = 20000, SELDOM = 1500, SELDOM_TICKS = 1 << 16 };
    MPI_Request requests[3];
    int flag = 0;
    uint64_t total;
    count_reset();
    for (int i = 0; i < 3; i++)
        W(MPI_Irecv)(&in[i], 1, MPI_DOUBLE, 0, 20 + i, MPI_COMM_SELF, &requests[i]);
    for (int i = 0; i < ROUNDS; i++)
        poll_all(requests, 3);
    const struct mpi_thread *thread = main_thread();
    CHECK(thread->polls_untimed > ROUNDS / 2);
    /* one that brings something */
    for (int i = 0; i < ROUNDS; i++) {
        W(MPI_Test)(&requests[0], &flag, MPI_STATUS_IGNORE);
        if (i % 100 == 99) {
            W(MPI_Send)(out, 1, MPI_DOUBLE, 0, 20, MPI_COMM_SELF);
            while (!flag)
                W(MPI_Test)(&requests[0], &flag, MPI_STATUS_IGNORE);
            W(MPI_Irecv)(in, 1, MPI_DOUBLE, 0, 20, MPI_COMM_SELF, &requests[0]);
        }
    }
    CHECK_EQUAL(SPAN(MPI_Irecv).count, ROUNDS / 100);
    CHECK_EQUAL(ROW(MPI_Irecv).got_bytes, ROUNDS / 100 * sizeof(double));
    CHECK_EQUAL(count_pending(), 3);
    CHECK_CLOCKS();
    check_polled(CALL_MPI_Iprobe, ROUNDS);
    check_polled(CALL_MPI_Testany, ROUNDS);
    check_polled(CALL_MPI_Testsome, ROUNDS);
    check_polled(CALL_MPI_Test, ROW(MPI_Test).count);
    CHECK(ROW(MPI_Test).count >= 2 * ROUNDS + ROUNDS / 100);
    for (int blocking = 0; blocking < 2; blocking++) {
        struct mpi_clock clock = clock_of(blocking);
        uint64_t count = count_histogram(thread->outermost.compute_at, &total);
        uint64_t computed = total;
        count += blocking ? count_histogram(thread->blocking.compute_at, &total) : 0;
        CHECK_EQUAL(count, clock.count);
        CHECK_EQUAL(computed + (blocking ? total : 0), clock.compute);
    }
    /* those that come seldom all of a sudden are timed, too */
    for (int i = 0; i < 2 * ROUNDS; i++)
        poll_once();
    spin(SELDOM_TICKS * 16);
    poll_once();
    uint64_t before = thread->polls_untimed;
    for (int i = 0; i < 4; i++) {
        spin(SELDOM_TICKS * 16);
        poll_once();
    }
    call_once();
    CHECK_EQUAL(thread->polls_untimed, before);
    /* those that come seldom are timed */
    uint64_t untimed = thread->polls_untimed;
    for (int i = 0; i < SELDOM; i++) {
        W(MPI_Iprobe)(0, 9, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
        spin(SELDOM_TICKS);
    }
    call_once();
    CHECK_EQUAL(thread->polls_untimed, untimed);
    for (int i = 0; i < 3; i++) {
        W(MPI_Cancel)(&requests[i]);
        W(MPI_Wait)(&requests[i], MPI_STATUS_IGNORE);
    }
}

enum { LONG_TICKS = 1 << 21 };

static int query_long(void *state, MPI_Status *status)
{
    spin(LONG_TICKS);
    return MPI_Status_set_elements(status, MPI_BYTE, 0);
}

static int query_nothing(void *state)
{
    return MPI_SUCCESS;
}

static int cancel_nothing(void *state, int complete)
{
    return MPI_SUCCESS;
}

/* How many computations were at least as long. */
static uint64_t computations_of(uint64_t ticks)
{
    const struct mpi_histogram *histogram = pool_at(main_thread()->outermost.compute_at);
    uint64_t count = 0;
    for (uint32_t i = mpi_bucket(ticks, histogram->bits); i < histogram->bucket_count; i++)
        count += histogram->buckets[i];
    return count;
}

/* From more places than have polls at a time. */
static void polls_of_many_places(void)
{
    enum { ROUNDS = 20000, PLACES = 6 };
    int flag;
#define POLL() W(MPI_Iprobe)(0, 9, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE)
    count_reset();
    for (int i = 0; i < ROUNDS; i++) {
        POLL();
        POLL();
        POLL();
        POLL();
        POLL();
        POLL();
    }
#undef POLL
    call_once();
    check_polled(CALL_MPI_Iprobe, ROUNDS * PLACES);
    CHECK_CLOCKS(); /* how many were untimed depends on where the linker has put them: two may share a struct self_place */
}

/* What a poll takes that brings something is its own, and what the program computed before is the program's. */
static void polls_that_bring(void)
{
    enum { ROUNDS = 64, POLLS = 1500 };
    uint64_t untimed = 0;
    count_reset();
    call_once();
    struct mpi_clock before = clock_of(false);
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Request request;
        int flag = 0;
        MPI_Grequest_start(query_long, query_nothing, cancel_nothing, NULL, &request);
        for (int k = i ? POLLS / 10 : POLLS; k >= 0; k--) { /* the last one, from the same place, brings something */
            if (k == 0) {
                MPI_Grequest_complete(request);
                if (i % 2) /* then it is timed: it comes seldom */
                    spin(2 * LONG_TICKS);
                untimed += mpi_tls.polling != NULL;
            }
            W(MPI_Test)(&request, &flag, MPI_STATUS_IGNORE);
        }
        CHECK(flag);
    }
    call_once();
    CHECK(untimed > ROUNDS / 2);
    /* each time once, not in pieces before polls */
    CHECK(computations_of(LONG_TICKS) >= ROUNDS / 2);
    CHECK(ROW(MPI_Test).ticks >= UINT64_C(1) * ROUNDS * LONG_TICKS);
    /* less by what the polls in vain before were estimated too long */
    CHECK(clock_of(false).compute - before.compute >= UINT64_C(1) * ROUNDS * LONG_TICKS / 8 * 7);
    CHECK_CLOCKS();
}

/* ---- calls that are reported, in part recorded ---- */

static struct {
    uint64_t calls, messages, begun;
} heard;

static bool hear(bool on)
{
    return on;
}

static void hear_messages(const struct mpi_messages *messages)
{
    for (uint32_t i = 0; i < messages->count; i++) {
        heard.messages++;
        heard.begun += messages->list[i].kind == MESSAGE_BEGIN;
    }
}

static void hear_call(uint32_t call, uint64_t site, struct mpi_told *told, const struct mpi_messages *messages)
{
    heard.calls++;
    hear_messages(messages);
}

static uint64_t hear_begin(uint32_t call, uint64_t site, struct mpi_told *told, const struct mpi_messages *messages)
{
    hear_call(call, site, told, messages);
    return 0;
}

/* A request that only wants to hear of calls does not take it for recording: when that begins, it is said what was sent and
 * received before; and when it ends, it is known that something is missing. */
static void recorded(void)
{
    static const struct mpi_host host = {
        .tell = hear, .call_begins = hear_begin, .call_ends = hear_call, .messages = hear_messages};
    const uint32_t tells = MPIA_METRIC_ALL | MPIA_METRIC_TELL;
    tell_start(&host);
    for (int i = 0; i < 2; i++) {
        memset(&heard, 0, sizeof heard);
        atomic_store(&area->metrics, tells);
        call_once();
        call_once();
        CHECK_EQUAL(heard.calls, 4);
        CHECK_EQUAL(heard.begun, 0);
        CHECK_EQUAL(atomic_load(&area->unrecorded), 1);
        atomic_store(&area->metrics, tells | MPIA_METRIC_RECORD);
        call_once();
        call_once();
        CHECK_EQUAL(heard.begun, 1);
        CHECK(heard.messages >= 5);
        CHECK_EQUAL(atomic_load(&area->unrecorded), 0);
    }
    atomic_store(&area->metrics, MPIA_METRIC_ALL);
    call_once();
    CHECK_EQUAL(atomic_load(&area->unrecorded), 1);
}

/* ---- where calls come from ---- */

static void sites(void)
{
    count_reset();
    for (int i = 0; i < 5; i++)
        W(MPI_Barrier)(MPI_COMM_SELF);
    for (int i = 0; i < 7; i++)
        W(MPI_Barrier)(MPI_COMM_SELF);
    const struct mpi_thread *thread = main_thread();
    const struct mpi_site *rows = mpi_pool_at(area, thread->sites_at, (thread->sites_mask + 1) * sizeof *rows);
    uint64_t counts[8], found = 0;
    for (uint32_t i = 0; i <= thread->sites_mask && found < 8; i++)
        if (rows[i].address && rows[i].call == CALL_MPI_Barrier && rows[i].count) {
            counts[found++] = rows[i].count;
            CHECK(rows[i].module < atomic_load(&area->module_count));
            const struct mpi_module *module = mpi_module_at(area, rows[i].module);
            CHECK(rows[i].address >= module->base && rows[i].address < module->end);
            CHECK(strstr(module->path, "test_count_state") != NULL);
        }
    CHECK_EQUAL(found, 2);
    CHECK_EQUAL(counts[0] + counts[1], 12);
    CHECK_EQUAL(counts[0] * counts[1], 35);
}

/* All that is said of a call is said of its site: in the first calls, and in those after them that are short. */
static void site_numbers(void)
{
    count_reset();
    for (int i = 0; i < 10; i++)
        call_once();
    const struct mpi_thread *thread = main_thread();
    const struct mpi_site *rows = mpi_pool_at(area, thread->sites_at, (thread->sites_mask + 1) * sizeof *rows);
    uint64_t count = 0, ticks = 0, bytes = 0;
    for (uint32_t i = 0; i <= thread->sites_mask; i++)
        if (rows[i].address && rows[i].call == CALL_MPI_Sendrecv) {
            count += rows[i].count;
            ticks += rows[i].ticks;
            bytes += rows[i].args_bytes;
        }
    const struct mpi_row row = ROW(MPI_Sendrecv);
    CHECK(row.args_bytes > 0);
    CHECK_EQUAL(count, row.count);
    CHECK_EQUAL(ticks, row.ticks);
    CHECK_EQUAL(bytes, row.args_bytes);
}

/* ---- types ---- */

/* In each library the size of a predefined type is found in a way of its own. */
static void types(void)
{
    static char bytes[3 * 32];
    const MPI_Datatype list[] = {MPI_CHAR,   MPI_SHORT,       MPI_INT,
                                 MPI_DOUBLE, MPI_LONG_DOUBLE, MPI_C_DOUBLE_COMPLEX,
                                 MPI_2INT,   MPI_DOUBLE_INT,  MPI_C_LONG_DOUBLE_COMPLEX};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        int size;
        count_reset();
        MPI_Type_size(list[i], &size);
        W(MPI_Bcast)(bytes, 3, list[i], 0, MPI_COMM_SELF);
        CHECK_EQUAL(ROW(MPI_Bcast).args_bytes, 3 * size);
    }
}

/* ---- communicators ---- */

static void communicators(void)
{
    MPI_Comm made, split;
    uint32_t number = atomic_load(&area->comm_count);
    W(MPI_Comm_dup)(MPI_COMM_WORLD, &made);
    const struct mpi_comm *shown = mpi_comm_at(area, number);
    CHECK_EQUAL(shown->kind, MPIA_COMM_INTRA);
    CHECK_EQUAL(shown->parent, 0);
    CHECK_EQUAL(shown->size, 1);
    CHECK_EQUAL(shown->ranks_at, 0);
    CHECK_EQUAL(shown->call, CALL_MPI_Comm_dup);
    uint32_t ordinal = shown->ordinal;
    W(MPI_Comm_split)(MPI_COMM_WORLD, MPI_UNDEFINED, 0, &split); /* counts, though we get none */
    CHECK(split == MPI_COMM_NULL);
    W(MPI_Comm_split)(MPI_COMM_WORLD, 0, 0, &split);
    CHECK_EQUAL(mpi_comm_at(area, number + 1)->ordinal, ordinal + 2);
    W(MPI_Comm_free)(&split);
    W(MPI_Comm_free)(&made);
    CHECK(shown->ended);
    /* a handle that comes again is another communicator */
    for (int i = 0; i < 100; i++) {
        W(MPI_Comm_dup)(MPI_COMM_WORLD, &made);
        W(MPI_Barrier)(made);
        CHECK_EQUAL(main_thread()->now.comm, number + 2 + (uint32_t)i);
        CHECK_EQUAL(main_thread()->now.ordinal, 1);
        W(MPI_Comm_free)(&made);
    }
    /* one that was made out of sight is noted when it is used */
    MPI_Comm_dup(MPI_COMM_WORLD, &made);
    number = atomic_load(&area->comm_count);
    W(MPI_Send)(out, 1, MPI_DOUBLE, MPI_PROC_NULL, 1, made);
    CHECK_EQUAL(atomic_load(&area->comm_count), number + 1);
    CHECK_EQUAL(mpi_comm_at(area, number)->parent, UINT32_MAX);
    W(MPI_Comm_free)(&made);
    MPI_Request request;
    W(MPI_Comm_idup)(MPI_COMM_WORLD, &made, &request);
    W(MPI_Wait)(&request, MPI_STATUS_IGNORE);
    W(MPI_Barrier)(made);
    CHECK_EQUAL(main_thread()->now.comm, number + 1);
    W(MPI_Comm_free)(&made);
}

static void too_many(void)
{
    MPI_Comm made;
    for (int i = 0; i < MPIA_COMMS; i++) {
        W(MPI_Comm_dup)(MPI_COMM_WORLD, &made);
        W(MPI_Comm_free)(&made);
    }
    CHECK_EQUAL(atomic_load(&area->comm_count), MPIA_COMMS);
    CHECK(strcmp(mpi_comm_at(area, MPIA_COMMS - 1)->name, "(others)") == 0);
    W(MPI_Comm_dup)(MPI_COMM_WORLD, &made);
    count_reset();
    W(MPI_Sendrecv)(out, 1, MPI_DOUBLE, 0, 1, in, 1, MPI_DOUBLE, 0, 1, made, MPI_STATUS_IGNORE);
    CHECK_EQUAL(count_peer(MPIA_COMMS - 1, 0, CALL_NONE).sent_count, 1);
    W(MPI_Comm_free)(&made);
}

/* ---- one-sided, files ---- */

static void windows(void)
{
    MPI_Win window;
    double *base;
    count_reset();
    W(MPI_Win_allocate)(64, 1, MPI_INFO_NULL, MPI_COMM_SELF, &base, &window);
    W(MPI_Win_set_name)(window, "window");
    W(MPI_Win_fence)(0, window);
    W(MPI_Put)(out, 2, MPI_DOUBLE, 0, 0, 2, MPI_DOUBLE, window);
    W(MPI_Get)(in, 3, MPI_DOUBLE, 0, 0, 3, MPI_DOUBLE, window);
    W(MPI_Win_fence)(0, window);
    W(MPI_Accumulate)(out, 1, MPI_DOUBLE, 0, 0, 1, MPI_DOUBLE, MPI_SUM, window);
    W(MPI_Win_fence)(0, window);
    W(MPI_Get)(in, 3, MPI_DOUBLE, MPI_PROC_NULL, 0, 3, MPI_DOUBLE, window);
    W(MPI_Win_fence)(0, window);
    uint32_t number = count_comm_number("window");
    CHECK_EQUAL(mpi_comm_at(area, number)->kind, MPIA_COMM_WINDOW);
    CHECK_EQUAL(count_peer(number, 0, CALL_MPI_Put).sent_bytes, 16);
    CHECK_EQUAL(count_peer(number, 0, CALL_MPI_Get).got_bytes, 24);
    CHECK_EQUAL(count_peer(number, 0, CALL_MPI_Accumulate).sent_bytes, 8);
    CHECK_EQUAL(ROW(MPI_Get).count, 2);
    CHECK_EQUAL(ROW(MPI_Get).got_bytes, 24);
    W(MPI_Win_free)(&window);
    CHECK(mpi_comm_at(area, number)->ended);
}

static void files(void)
{
    char path[] = "/tmp/test_count_state.XXXXXX";
    MPI_File file;
    MPI_Request request;
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    close(fd);
    count_reset();
    W(MPI_File_open)(MPI_COMM_SELF, path, MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file);
    uint32_t number = count_comm_number(path);
    CHECK(number != UINT32_MAX);
    W(MPI_File_write_at)(file, 0, out, 4, MPI_DOUBLE, MPI_STATUS_IGNORE);
    CHECK_EQUAL(main_thread()->now.offset, 0);
    W(MPI_File_read_at)(file, 16, in, 10, MPI_DOUBLE, MPI_STATUS_IGNORE); /* only 2 are there */
    CHECK_EQUAL(main_thread()->now.offset, 16);
    CHECK(main_thread()->now.flags == (MPIA_NOW_FILE | MPIA_NOW_OFFSET));
    CHECK_EQUAL(ROW(MPI_File_write_at).sent_bytes, 32);
    CHECK_EQUAL(ROW(MPI_File_read_at).args_bytes, 80);
    CHECK_EQUAL(ROW(MPI_File_read_at).got_bytes, 16);
    CHECK_EQUAL(count_peer(number, MPIA_RANK_NONE, CALL_MPI_File_read_at).got_bytes, 16);
    W(MPI_File_iread_at)(file, 8, in, 2, MPI_DOUBLE, &request);
    W(MPI_Wait)(&request, MPI_STATUS_IGNORE);
    CHECK_EQUAL(ROW(MPI_File_iread_at).got_bytes, 16);
    CHECK_EQUAL(SPAN(MPI_File_iread_at).count, 1);
    W(MPI_File_write_all_begin)(file, out, 1, MPI_DOUBLE);
    W(MPI_File_write_all_end)(file, out, MPI_STATUS_IGNORE);
    CHECK_EQUAL(ROW(MPI_File_write_all_begin).args_bytes, 8);
    CHECK_EQUAL(ROW(MPI_File_write_all_end).sent_bytes, 8);
    W(MPI_File_close)(&file);
    CHECK(mpi_comm_at(area, number)->ended);
    unlink(path);
}

/* ---- threads ---- */

enum { THREADS = 3 * MPIA_THREADS, CALLS = 200 };

static pthread_barrier_t together;

static void *calls(void *wait)
{
    MPI_Request request[2];
    int there;
    if (wait) {
        /* the one that clears the shared block is through with it before another counts there: see self_reset */
        W(MPI_Iprobe)(0, 6, MPI_COMM_SELF, &there, MPI_STATUS_IGNORE);
        pthread_barrier_wait(&together);
    }
    for (int i = 0; i < CALLS; i++) {
        W(MPI_Irecv)(in, 0, MPI_DOUBLE, 0, 5, MPI_COMM_SELF, &request[0]);
        W(MPI_Isend)(out, 0, MPI_DOUBLE, 0, 5, MPI_COMM_SELF, &request[1]);
        W(MPI_Waitall)(2, request, MPI_STATUSES_IGNORE);
    }
    if (wait)
        pthread_barrier_wait(&together); /* nobody's block is free before all are done */
    return NULL;
}

static void threads(void)
{
    pthread_t thread[THREADS];
    if (area->thread_level != 3)
        return;
    count_reset();
    call_once();
    pthread_barrier_init(&together, NULL, THREADS);
    for (long i = 0; i < THREADS; i++)
        CHECK_EQUAL(pthread_create(&thread[i], NULL, calls, &together), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    CHECK_EQUAL(atomic_load(&mpi_thread_at(area, MPIA_THREADS - 1)->state), MPIA_THREAD_SHARED);
    CHECK_EQUAL(ROW(MPI_Isend).count, THREADS * CALLS);
    CHECK_EQUAL(ROW(MPI_Waitall).count, THREADS * CALLS);
    CHECK_EQUAL(SPAN(MPI_Irecv).count, THREADS * CALLS);
    CHECK_EQUAL(SPAN(MPI_Isend).count, THREADS * CALLS);
    CHECK_EQUAL(count_pending(), 0);
    uint64_t omitted = mpi_thread_at(area, MPIA_THREADS - 1)->peers_omitted;
    struct mpi_peer peer = count_peer(UINT32_MAX, 0, CALL_NONE);
    CHECK_EQUAL(peer.sent_count + peer.got_count + omitted, 2ull * THREADS * CALLS + 2);
    /* blocks of threads that have ended are taken again, with what was counted in them */
    for (int i = 0; i < 3 * MPIA_THREADS; i++) {
        pthread_create(&thread[0], NULL, calls, NULL);
        pthread_join(thread[0], NULL);
    }
    CHECK_EQUAL(ROW(MPI_Isend).count, (THREADS + 3 * MPIA_THREADS) * CALLS);
    for (uint32_t i = 0; i < MPIA_THREADS - 1; i++) {
        const struct mpi_outermost *clock = &mpi_thread_at(area, i)->outermost;
        CHECK(clock->communicate <= clock->last - clock->first);
    }
}

/* ---- a child, a way out, and the end of memory ---- */

static void child(void)
{
    count_reset();
    call_once();
    pid_t pid = fork();
    if (pid == 0) { /* calls MPI (which is an error, but a local call works): nothing may happen to us */
        int flag;
        W(MPI_Initialized)(&flag);
        W(MPI_Comm_test_inter)(MPI_COMM_SELF, &flag);
        W(MPI_Pcontrol)(3);
        _exit(flag ? 1 : 0);
    }
    int status;
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK_EQUAL(ROW(MPI_Comm_test_inter).count, 0);
    CHECK_EQUAL(ROW(MPI_Sendrecv).count, 1);
}

#ifdef OPEN_MPI /* MPICH keeps a lock then */
static jmp_buf way_out;

static void leave(MPI_Comm *comm, int *code, ...)
{
    longjmp(way_out, 1);
}

/* An error handler that does not return: the next call is an outermost one again. */
static void jumped(void)
{
    MPI_Errhandler handler;
    MPI_Comm_create_errhandler(leave, &handler);
    MPI_Comm_set_errhandler(self_comm, handler);
    count_reset();
    if (setjmp(way_out) == 0)
        W(MPI_Send)(out, 1, MPI_DOUBLE, 7, 1, self_comm);
    call_once();
    W(MPI_Barrier)(MPI_COMM_SELF);
    call_once();
    CHECK_EQUAL(ROW(MPI_Sendrecv).count, 2);
    CHECK_EQUAL(ROW(MPI_Barrier).count, 1);
    CHECK_CLOCKS();
    MPI_Errhandler_free(&handler);
}
#else
static void jumped(void)
{
}
#endif

static void memory_used_up(void)
{
    static const uint32_t calls_new[] = {CALL_MPI_Reduce};
    uint64_t total;
    while (pool_take(64))
        ;
    CHECK(atomic_load(&area->pool_refused) > 0);
    count_reset();
    W(MPI_Reduce)(out, in, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_SELF);
    W(MPI_Reduce)(out, in, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_SELF);
    CHECK_EQUAL(count_row(calls_new[0]).count, 2);
    CHECK_EQUAL(count_histogram(count_row(calls_new[0]).ticks_at, &total), 0);
    CHECK_CLOCKS();
}

int main(int argc, char **argv)
{
    int provided;
    count_start();
    setenv("OMPI_MCA_mpi_yield_when_idle", "0", 1); /* or each poll is a system call */
    W(MPI_Init_thread)(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    CHECK_EQUAL(ROW(MPI_Init_thread).count, 1);
    CHECK(area->init_return > area->init_enter && area->init_enter > 0);
    CHECK(main_thread()->is_main && main_thread()->outermost.first == area->init_return);
    MPI_Comm_dup(MPI_COMM_SELF, &self_comm);
    void (*const parts[])(void) = {recorded,
                                   pcontrol,
                                   switched_off,
                                   both_clocks,
                                   without_clocks,
                                   polls,
                                   polls_that_bring,
                                   polls_of_many_places,
                                   sites,
                                   site_numbers,
                                   types,
                                   communicators,
                                   windows,
                                   files,
                                   threads,
                                   child,
                                   jumped,
                                   too_many,
                                   memory_used_up};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        parts[i]();
    uint64_t before = ticks_now();
    W(MPI_Finalize)();
    CHECK_CLOCKS();
    CHECK(area->finalize_enter >= before && area->finalize_return > area->finalize_enter);
    CHECK_EQUAL(main_thread()->outermost.last, area->finalize_enter);
    return count_end();
}
