/* SPDX-License-Identifier: Apache-2.0 */
/* The monitor's side of MPI, with an interposer that does what it is told (test_fake_interposer.h). */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/system/clock.h"
#include "base/system/dirs.h"
#include "base/system/loop.h"
#include "monitor/engine/monitor.h"
#include "monitor/mpi/mpi.h"
#include "monitor/mpi/internal.h"
#include "monitor/mpi/messages.h"
#include "monitor/engine/object.h"
#include "monitor/recorder/test_area_fixture.h"
#include "monitor/mpi/test_fake_interposer.h"

static unsigned came, started;

/* ---- the monitor ---- */

static void on_change(void *ctx, struct mpi_process *process, enum mpi_change change)
{
    (void)ctx;
    assert_string_equal(mpi_process_job(process), job);
    came += change == MPI_CAME;
    started += change == MPI_STARTED;
}

static void attach(void)
{
    assert_non_null(monitor->mpi);
    mpi_on_change(monitor->mpi, on_change, NULL);
}

static int start(void **state)
{
    (void)state;
    came = started = 0;
    return fixture_start(attach);
}

static unsigned draining(unsigned *ret_living)
{
    struct agents_job_state job_state = {0};
    assert_int_equal(agents_job_state(agents, job, &job_state), 0);
    if (ret_living)
        *ret_living = job_state.living;
    return job_state.draining;
}

/* The files that stand in the job directory now. */
static size_t read_all(struct mpi_stats_set *ret_set)
{
    struct err err = {.text = ""};
    *ret_set = (struct mpi_stats_set){0};
    int code = mpi_stats_read(ret_set, job, &err);
    if (code == -ENOENT)
        return 0;
    if (code != 0)
        fail_msg("%s", err.text);
    return ret_set->count;
}

static unsigned area_files(void)
{
    return fixture_rings("mpi-");
}

static void check_counts(const struct mpi_stats *stats, uint64_t count)
{
    assert_int_equal(stats->rank, 1);
    assert_int_equal(stats->world_size, 2);
    assert_string_equal(stats->namespace, "some job");
    assert_int_equal(stats->row_count, 1);
    assert_int_equal(stats->rows[0].call, CALL_MPI_Recv);
    assert_int_equal(stats->rows[0].count, count);
    assert_int_equal(stats->rows[0].got_bytes, 100 * count);
    assert_int_equal(stats->thread_count, 1);
    const struct mpi_stats_clock *clock = &stats->threads[0].outermost;
    assert_int_equal(clock->compute_ns + clock->communicate_ns, clock->total_ns);
    assert_int_equal(clock->count, count);
}

/* It is collected, and was the only one. */
static void check_ended(uint64_t count)
{
    struct mpi_stats_set set;
    step_until(draining(NULL) == 0);
    assert_int_equal(read_all(&set), 1);
    check_counts(&set.ranks[0], count);
    assert_false(set.ranks[0].running);
    mpi_stats_set_done(&set);
}

/* A child connects, initialises MPI and calls it so often. */
static void begin_counting(const struct child *child, uint32_t count)
{
    child_tell(child, 'c', 0);
    child_tell(child, 'i', 0);
    child_tell(child, 'n', count);
}

/* ---- tests ---- */

static void test_life(void **state)
{
    struct child child = child_new(fake_interposer);
    struct mpi_stats_set set;
    unsigned living;
    (void)state;
    child_tell(&child, 'r', 0);
    assert_int_equal(came, 0);
    assert_int_equal(area_files(), 0);
    child_tell(&child, 'c', 0);
    assert_int_equal(came, 1);
    assert_int_equal(started, 0);
    assert_int_equal(draining(&living), 0);
    assert_int_equal(living, 1);
    assert_int_equal(agents_count(agents), 1);

    uint64_t before = clock_now_ns();
    child_tell(&child, 'i', 0);
    step_until(started == 1);
    assert_true(clock_now_ns() - before < 5 * (uint64_t)NS_PER_SECOND); /* its turn would be after ten */
    child_tell(&child, 'n', 1000);
    assert_int_equal(read_all(&set), 0);
    child_end(&child, 0);
    step_until(draining(NULL) == 0);
    assert_int_equal(read_all(&set), 1);
    check_counts(&set.ranks[0], 1000);
    assert_false(set.ranks[0].running);
    assert_int_equal(set.ranks[0].state, MPIA_ENDED);
    assert_int_equal(set.ranks[0].pid, child.pid);
    struct err err = {.text = ""};
    assert_int_equal(mpi_stats_read_distributions(&set.ranks[0], job, set.arena, &err), 0);
    assert_int_equal(set.ranks[0].distribution_count, 6);
    mpi_stats_set_done(&set);
    assert_int_equal(area_files(), 0);
    assert_int_equal(agents_count(agents), 0);
}

static void check_past(void *ctx, const struct mpi_past *past)
{
    assert_true(past->status_known);
    assert_int_equal(past->status, SIGKILL);
    ++*(unsigned *)ctx;
}

static void test_killed_in_a_call(void **state)
{
    struct child child = child_new(fake_interposer);
    struct mpi_stats_set set;
    (void)state;
    begin_counting(&child, 10);
    child_tell(&child, 'e', 0);
    child_end(&child, SIGKILL);
    step_until(draining(NULL) == 0);
    assert_int_equal(read_all(&set), 1);
    check_counts(&set.ranks[0], 10);
    assert_int_equal(set.ranks[0].state, MPIA_RUNNING);
    assert_int_equal(set.ranks[0].threads[0].now.call, CALL_MPI_Recv);
    assert_int_equal(set.ranks[0].threads[0].now.peer, 0);
    assert_int_equal(set.ranks[0].threads[0].now.site.offset, FAKE_SITE - 0x400000);
    assert_true(set.ranks[0].status_known); /* in the file as in what is remembered */
    assert_int_equal(set.ranks[0].status, SIGKILL);
    unsigned pasts = 0;
    mpi_past_each(monitor->mpi, NULL, check_past, &pasts);
    assert_int_equal(pasts, 1);
    mpi_stats_set_done(&set);
}

static void test_never_initialised(void **state)
{
    struct child child = child_new(fake_interposer);
    struct mpi_stats_set set;
    (void)state;
    child_tell(&child, 'c', 0);
    child_end(&child, SIGKILL);
    step_until(draining(NULL) == 0);
    assert_int_equal(read_all(&set), 1);
    assert_int_equal(set.ranks[0].state, MPIA_LOADED);
    assert_int_equal(set.ranks[0].rank, 1); /* as its launcher said */
    assert_int_equal(set.ranks[0].row_count, 0);
    mpi_stats_set_done(&set);
}

/* It had given up when its area came: that nothing was counted says nothing of what it did. */
static void test_answered_too_late(void **state)
{
    struct child child = child_new(fake_interposer);
    struct mpi_stats_set set;
    (void)state;
    child_tell(&child, 'l', 0);
    child_end(&child, SIGKILL);
    step_until(draining(NULL) == 0);
    assert_int_equal(read_all(&set), 1);
    assert_int_equal(set.ranks[0].state, MPIA_OFF);
    assert_non_null(strstr(set.ranks[0].fault, "did not answer in time"));
    mpi_stats_set_done(&set);
}

/* Who reads the job directory on another node knows a rank from its file only. */
static void test_first_write(void **state)
{
    struct child child = child_new(fake_interposer);
    struct mpi_stats_set set = {0};
    uint64_t began_ns = clock_now_ns();
    (void)state;
    begin_counting(&child, 3);
    step_until(read_all(&set) == 1);
    assert_true(set.ranks[0].running);
    assert_in_range(clock_now_ns() - began_ns, 0, 8 * UINT64_C(1000000000)); /* its usual turn: after 10 s */
    mpi_stats_set_done(&set);
    child_end(&child, 0);
    step_until(draining(NULL) == 0);
}

static void test_live(void **state)
{
    struct child child = child_new(fake_interposer);
    struct mpi_stats stats;
    struct arena arena = ARENA_INIT;
    struct err err = {.text = ""};
    struct mpi_stats_set set;
    (void)state;
    begin_counting(&child, 7);
    struct mpi_process *process = mpi_process_find(monitor->mpi, child.pid);
    assert_non_null(process);
    assert_int_equal(mpi_process_snapshot(process, &stats, &arena, &err), 0);
    check_counts(&stats, 7);
    assert_true(stats.running);
    assert_int_equal(mpi_process_record(process, &stats, &err), 0);
    bool in_call;
    assert_int_equal(process->written_mark, mpi_process_mark(process, &in_call)); /* its turn does not write it again */
    assert_int_equal(mpi_process_flush(process, &err), 0);
    assert_int_equal(read_all(&set), 1);
    check_counts(&set.ranks[0], 7);
    assert_true(set.ranks[0].running);
    mpi_stats_set_done(&set);

    child_tell(&child, 'n', 3);
    child_tell(&child, 'p', 0); /* the program asks */
    do {
        loop_step(loop, 1000000);
        assert_int_equal(read_all(&set), 1);
        stats = set.ranks[0];
        bool there = stats.rows[0].count == 10;
        mpi_stats_set_done(&set);
        if (there)
            break;
    } while (true);
    mpi_process_reset(process);
    child_tell(&child, 'z', 1);
    arena_done(&arena);
    child_end(&child, 0);
}

static ino_t file_of(pid_t pid)
{
    char path[PATH_MAX + 64];
    struct stat st;
    const struct mpi_process *process = monitor->mpi->list;
    assert_non_null(process);
    snprintf(path, sizeof path, "%s/stats/%s/%d-%d.json", job, monitor->node->name, (int)pid,
             process->agent->rank.incarnation);
    assert_int_equal(stat(path, &st), 0);
    return st.st_ino;
}

/* Whoever asks for the files has those of one that has ended, which are not written again. */
static void test_flush_at_the_end(void **state)
{
    struct child child = child_new(fake_interposer);
    struct mpi_stats_set set;
    struct err err = {.text = ""};
    (void)state;
    begin_counting(&child, 4);
    kill(child.pid, SIGKILL);
    waitpid(child.pid, NULL, 0);
    assert_int_equal(draining(NULL), 1);
    assert_int_equal(mpi_job_flush(monitor->mpi, job, false, &err), 0);
    assert_int_equal(read_all(&set), 1);
    assert_false(set.ranks[0].running);
    mpi_stats_set_done(&set);
    ino_t file = file_of(child.pid);
    assert_int_equal(mpi_job_flush(monitor->mpi, job, true, &err), 0);
    assert_int_equal(file_of(child.pid), file);
    check_ended(4);
}

static void test_settings(void **state)
{
    struct child child = child_new(fake_interposer);
    struct err err = {.text = ""};
    (void)state;
    assert_int_equal(agents_job_set(agents, job, "mpi-resolution", "64", &err), 0);
    child_tell(&child, 'c', 0);
    child_tell(&child, 'o', 6 << 1 | 1);
    assert_int_equal(agents_job_set(agents, job, "mpi", "off", &err), 0);
    assert_int_equal(agents_job_set(agents, job, "mpi-resolution", "1", &err), 0);
    child_tell(&child, 'o', 0);
    assert_int_equal(agents_job_set(agents, job, "mpi", "stats", &err), 0);
    assert_int_equal(agents_job_set(agents, job, "mpi-metrics", "clocks,peers", &err), 0);
    assert_int_equal(agents_job_set(agents, job, "mpi-distributions", "MPI_Recv,mpi_send", &err), 0);
    child_tell(&child, 'o', 1);
    child_tell(&child, 'd', MPIA_METRIC_CLOCKS | MPIA_METRIC_PEERS);

    static const char *const wrong[][2] = {{"mpi", "yes"},
                                           {"mpi-resolution", "3"},
                                           {"mpi-resolution", "128"},
                                           {"mpi-metrics", "clocks,nothing"},
                                           {"mpi-metrics", ""},
                                           {"mpi-distributions", "MPI_Nothing"},
                                           {"mpi-distributions", ""}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(agents_job_set(agents, job, wrong[i][0], wrong[i][1], &err), -EINVAL);
        assert_int_equal(strncmp(err.text, "expected ", 9), 0); /* whose key it is, says who gave it */
    }
    struct buf text = BUF_INIT;
    assert_int_equal(agents_job_settings(agents, job, &text), 0);
    assert_non_null(strstr(text.data, "\"mpi\",\"stats\",\"mpi-metrics\",\"clocks,peers\",\"mpi-resolution\",\"1\","
                                      "\"mpi-distributions\",\"MPI_Recv,mpi_send\""));
    buf_done(&text);
    child_end(&child, SIGKILL);
}

/* Calls that are told, as the interposer sees it. */
static unsigned told(const struct mpi_process *process)
{
    const struct mpi_area *head = mpi_process_head(process);
    unsigned count = 0;
    if (atomic_load(&head->metrics) & MPIA_METRIC_TELL)
        for (uint32_t call = 1; call < CALL_COUNT; call++)
            count += !(atomic_load(&head->untold[call / 64]) >> call % 64 & 1);
    return count;
}

enum { POKES = 400000 };

static void *poke(void *metrics)
{
    for (int i = 0; i < POKES; i++)
        atomic_fetch_add((_Atomic uint32_t *)metrics, MPIA_METRIC_POKE);
    return NULL;
}

/* A thread of the program that has opened a library, and wants its calls to go the long way, is not overwritten. */
static void test_poked_meanwhile(void **state)
{
    struct child child = child_new(fake_interposer);
    uint32_t wishes = 0;
    pthread_t other;
    (void)state;
    child_tell(&child, 'c', 0);
    struct mpi_process *process = mpi_process_find(monitor->mpi, child.pid);
    _Atomic uint32_t *metrics = (_Atomic uint32_t *)&mpi_process_head(process)->metrics;
    uint32_t before = atomic_load(metrics);
    assert_int_equal(pthread_create(&other, NULL, poke, (void *)metrics), 0);
    while (atomic_load(metrics) - before < (POKES / 2) * (uint32_t)MPIA_METRIC_POKE && wishes < 2 * POKES)
        mpi_process_want(process, MPIA_METRIC_TELL, wishes++ % 2 ? -1 : 1);
    pthread_join(other, NULL);
    assert_in_range((atomic_load(metrics) - before) / MPIA_METRIC_POKE, POKES, POKES + wishes);
    child_end(&child, SIGKILL);
}

static void test_who_wants_calls(void **state)
{
    struct child child = child_new(fake_interposer);
    uint64_t sends[MPI_CALL_WORDS] = {0}, both[MPI_CALL_WORDS] = {0};
    struct err err = {.text = ""};
    (void)state;
    sends[CALL_MPI_Send / 64] |= UINT64_C(1) << CALL_MPI_Send % 64;
    both[CALL_MPI_Send / 64] |= UINT64_C(1) << CALL_MPI_Send % 64;
    both[CALL_MPI_Barrier / 64] |= UINT64_C(1) << CALL_MPI_Barrier % 64;
    child_tell(&child, 'c', 0);
    struct mpi_process *process = mpi_process_find(monitor->mpi, child.pid);
    assert_non_null(process);
    assert_int_equal(told(process), 0);
    assert_int_equal(mpi_process_want_calls(process, sends, 1), 0);
    assert_int_equal(told(process), 1);
    assert_int_equal(mpi_process_want_calls(process, both, 1), 0);
    assert_int_equal(told(process), 2);
    mpi_process_want(process, MPIA_METRIC_TELL, 1); /* somebody who wants all */
    assert_int_equal(told(process), CALL_COUNT - 1);
    mpi_process_want(process, MPIA_METRIC_TELL, -1);
    assert_int_equal(told(process), 2);
    assert_int_equal(mpi_process_want_calls(process, both, -1), 0);
    assert_int_equal(told(process), 1);
    assert_int_equal(agents_job_set(agents, job, "mpi", "trace", &err), 0);
    while (told(process) != CALL_COUNT - 1)
        loop_step(loop, 1000000);
    assert_true(atomic_load(&mpi_process_head(process)->metrics) & MPIA_METRIC_RECORD);
    assert_int_equal(agents_job_set(agents, job, "mpi", "stats", &err), 0);
    while (told(process) != 1)
        loop_step(loop, 1000000);
    assert_false(atomic_load(&mpi_process_head(process)->metrics) & MPIA_METRIC_RECORD);
    assert_int_equal(mpi_process_want_calls(process, sends, -1), 0);
    assert_int_equal(told(process), 0);
    child_end(&child, SIGKILL);
}

static void test_restart(void **state)
{
    struct child lives = child_new(fake_interposer), dies = child_new(fake_interposer);
    struct mpi_stats_set set;
    unsigned living;
    (void)state;
    child_tell(&lives, 'c', 0);
    child_tell(&lives, 'i', 0);
    begin_counting(&dies, 5);
    agents_free(agents);
    assert_null(monitor->mpi);
    assert_int_equal(read_all(&set), 2); /* of both as far as they were */
    mpi_stats_set_done(&set);
    child_send(&lives, 'n', 20); /* while there is no monitor */
    kill(dies.pid, SIGKILL);
    waitpid(dies.pid, NULL, 0);
    fixture_agents();
    step_until(draining(&living) == 0);
    assert_int_equal(living, 1);
    assert_int_equal(read_all(&set), 2);
    mpi_stats_set_done(&set);
    char done;
    assert_int_equal(read(lives.fd, &done, 1), 1);
    child_end(&lives, 0);
    step_until(draining(NULL) == 0);
    assert_int_equal(read_all(&set), 2);
    for (size_t i = 0; i < 2; i++)
        check_counts(&set.ranks[i], set.ranks[i].pid == lives.pid ? 20 : 5);
    mpi_stats_set_done(&set);
    assert_int_equal(area_files(), 0);
    close(dies.fd);
}

static void test_exec(void **state)
{
    struct child child = child_new(fake_interposer);
    struct mpi_stats_set set;
    (void)state;
    begin_counting(&child, 4);
    child_tell(&child, 'c', 0); /* another image of the process says hello */
    check_ended(4);
    child_tell(&child, 'i', 0);
    child_tell(&child, 'n', 6);
    child_end(&child, 0);
    step_until(draining(NULL) == 0);
    assert_int_equal(read_all(&set), 2);
    check_counts(&set.ranks[0], 4);
    check_counts(&set.ranks[1], 6);
    mpi_stats_set_done(&set);
}

/* It says hello as an agent, because it executed a program that has no MPI in it. */
static void test_exec_of_other_program(void **state)
{
    struct child child = child_new(fake_interposer);
    (void)state;
    begin_counting(&child, 4);
    child_tell(&child, 'a', 0); /* the same program: a library with hooks was loaded */
    assert_non_null(mpi_process_find(monitor->mpi, child.pid));
    child_tell(&child, 'a', 1);
    step_until(!mpi_process_find(monitor->mpi, child.pid));
    check_ended(4);
    child_end(&child, SIGKILL);
}

/* Its functions are traced, too: one process, in any order, with one monitor or two. */
static void test_with_functions(void **state)
{
    struct child before = child_new(fake_interposer), behind = child_new(fake_interposer);
    struct mpi_stats_set set;
    unsigned living;
    (void)state;
    child_tell(&before, 'f', 0);
    assert_null(mpi_process_find(monitor->mpi, before.pid));
    child_tell(&before, 'c', 0);
    begin_counting(&behind, 3);
    assert_null(agents_find(agents, behind.pid));
    child_tell(&behind, 'f', 0);
    for (unsigned monitors = 0; monitors < 2; monitors++) {
        assert_int_equal(agents_count(agents), 2);
        assert_non_null(mpi_process_find(monitor->mpi, before.pid));
        assert_non_null(mpi_process_find(monitor->mpi, behind.pid));
        assert_non_null(agents_find(agents, before.pid));
        assert_non_null(agents_find(agents, behind.pid));
        draining(&living);
        assert_int_equal(living, 2);
        agents_free(agents);
        fixture_agents();
    }
    child_end(&before, SIGKILL);
    child_end(&behind, 0);
    step_until(draining(&living) == 0 && living == 0);
    step_until(agents_count(agents) == 0);
    assert_int_equal(read_all(&set), 2);
    for (size_t i = 0; i < 2; i++)
        if (set.ranks[i].pid == behind.pid)
            check_counts(&set.ranks[i], 3);
    mpi_stats_set_done(&set);
    assert_int_equal(fixture_rings("[m0-9]"), 0);
}

/* It has no room for the area of functions: it is counted all the same. */
static void test_functions_refused(void **state)
{
    struct child child = child_new(fake_interposer);
    (void)state;
    begin_counting(&child, 4);
    child_tell(&child, 'f', 0);
    child_tell(&child, 'f', 0); /* it did not take that one */
    assert_non_null(mpi_process_find(monitor->mpi, child.pid));
    step_until(agents_count(agents) == 1);
    assert_non_null(agents_find(agents, child.pid));
    child_tell(&child, 'y', 0);
    step_until(!agents_find(agents, child.pid));
    assert_non_null(mpi_process_find(monitor->mpi, child.pid));
    child_tell(&child, 'n', 5);
    child_end(&child, 0);
    check_ended(9);
}

/* It says why its calls are not counted. */
static void test_no_files(void **state)
{
    struct child child = child_new(fake_interposer);
    struct mpi_stats_set set;
    (void)state;
    child_tell(&child, 'l', 0);
    child_tell(&child, 'x', 0);
    step_until(atomic_load(&mpi_process_head(mpi_process_find(monitor->mpi, child.pid))->state) == MPIA_OFF);
    child_end(&child, SIGKILL);
    step_until(draining(NULL) == 0);
    assert_int_equal(read_all(&set), 1);
    assert_int_equal(set.ranks[0].state, MPIA_OFF);
    assert_non_null(strstr(set.ranks[0].fault, "open files"));
    mpi_stats_set_done(&set);
}

/* As in a job whose limit is nearly reached: it runs on without statistics, and that is said. */
static void test_no_memory(void **state)
{
    struct child child = child_new(fake_interposer);
    struct agents_job_state job_state = {0};
    (void)state;
    agents->memory_taken = UINT64_MAX / 2;
    child_tell(&child, 'm', 0);
    assert_int_equal(came, 0);
    assert_int_equal(area_files(), 0);
    assert_int_equal(agents_job_state(agents, job, &job_state), 0);
    assert_non_null(strstr(job_state.problems[0].nothing_recorded.reason, "limit of memory"));
    assert_int_equal(agents->memory_taken, UINT64_MAX / 2);
    child_end(&child, SIGKILL);
}

static void test_garbage(void **state)
{
    struct child child = child_new(fake_interposer);
    struct mpi_stats stats;
    struct arena arena = ARENA_INIT;
    struct err err = {.text = ""};
    (void)state;
    begin_counting(&child, 100);
    child_tell(&child, 'g', 0);
    struct mpi_process *process = mpi_process_find(monitor->mpi, child.pid);
    assert_int_equal(mpi_process_snapshot(process, &stats, &arena, &err), 0);
    arena_done(&arena);
    child_end(&child, SIGKILL);
    step_until(draining(NULL) == 0);
    struct mpi_stats_set set;
    assert_int_equal(read_all(&set), 1); /* what was written can be read */
    mpi_stats_set_done(&set);
}

static void test_no_room_on_disk(void **state)
{
    struct child child = child_new(fake_interposer);
    struct agents_job_state job_state = {0};
    char path[256];
    (void)state;
    begin_counting(&child, 100);
    snprintf(path, sizeof path, "%s/stats", job);
    int fd = open(path, O_CREAT | O_WRONLY, 0600); /* a file where the folder should be */
    assert_true(fd >= 0);
    close(fd);
    child_end(&child, 0);
    step_until(draining(NULL) == 0);
    assert_int_equal(agents_job_state(agents, job, &job_state), 0);
    assert_int_equal(job_state.problems[0].kind, NOTE_mpi_unwritten);
    assert_non_null(strstr(job_state.problems[0].mpi_unwritten.reason, path));
}

/* ---- what is to be done with messages at a process's next MPI call, which may not come; there is no process ---- */

enum { SOON_NS = 1000000 };
static const uint64_t LATER_NS = UINT64_C(60000000000);

static void on_done(void *ctx, struct mpi_message_result *result)
{
    *(int *)ctx = result->code;
}

/* The next one is put when the time of the one before it is over. */
static void test_one_behind_the_other(void **state)
{
    struct monitor bare = {.busy = 1};
    struct agents bare_agents = {.monitor = &bare};
    struct agent agent = {.pid = 4711};
    struct mpi_registry registry = {.agents = &bare_agents};
    struct mpi_area head = {.messages_at = MPIA_POOL_AT};
    struct mpi_messages *messages = calloc(1, sizeof *messages);
    struct mpi_process process = {.registry = &registry, .agent = &agent, .head = &head, .messages = messages};
    struct mpi_message_command command = {.kind = MPIM_CLEAR};
    int first = 0, second = 0;
    messages->process = &process;
    messages->wanted = true;
    messages->area = mmap(NULL, MPIA_AREA_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(messages->area, MAP_FAILED);
    ((struct mpim *)(void *)((char *)messages->area + MPIA_POOL_AT))->size = sizeof(struct mpim);
    struct mpim *block = mpi_messages_of(&process);
    assert_non_null(block);
    assert_int_equal(loop_new(&bare.loop), 0);
    command.tag = 1;
    assert_int_equal(mpi_message_do(&process, &command, SOON_NS, on_done, &first, NULL), 0);
    command.tag = 2;
    assert_int_equal(mpi_message_do(&process, &command, LATER_NS, on_done, &second, NULL), 0);
    assert_int_equal(block->command.tag, 1);
    while (!first)
        loop_step(bare.loop, (int64_t)LATER_NS);
    assert_int_equal(first, -ETIMEDOUT);
    assert_int_equal(block->command.state, MPIM_COMMAND_PUT);
    assert_int_equal(block->command.tag, 2);
    block->command.state = MPIM_COMMAND_DONE;
    second = 1;
    mpi_message_commands_look(&process, block);
    assert_int_equal(second, 0);
    mpi_messages_forget(&process);
    loop_free(bare.loop);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_life, start, fixture_stop),
        cmocka_unit_test_setup_teardown(test_killed_in_a_call, start, fixture_stop),
        cmocka_unit_test_setup_teardown(test_never_initialised, start, fixture_stop),
        cmocka_unit_test_setup_teardown(test_answered_too_late, start, fixture_stop),
        cmocka_unit_test_setup_teardown(test_first_write, start, fixture_stop),
        cmocka_unit_test_setup_teardown(test_live, start, fixture_stop),
        cmocka_unit_test_setup_teardown(test_flush_at_the_end, start, fixture_stop),
        cmocka_unit_test_setup_teardown(test_settings, start, fixture_stop),
        cmocka_unit_test_setup_teardown(test_poked_meanwhile, start, fixture_stop),
        cmocka_unit_test_setup_teardown(test_who_wants_calls, start, fixture_stop),
        cmocka_unit_test_setup_teardown(test_restart, start, fixture_stop),
        cmocka_unit_test_setup_teardown(test_exec, start, fixture_stop),
        cmocka_unit_test_setup_teardown(test_exec_of_other_program, start, fixture_stop),
        cmocka_unit_test_setup_teardown(test_with_functions, start, fixture_stop),
        cmocka_unit_test_setup_teardown(test_functions_refused, start, fixture_stop),
        cmocka_unit_test_setup_teardown(test_no_files, start, fixture_stop),
        cmocka_unit_test_setup_teardown(test_no_memory, start, fixture_stop),
        cmocka_unit_test_setup_teardown(test_garbage, start, fixture_stop),
        cmocka_unit_test_setup_teardown(test_no_room_on_disk, start, fixture_stop),
        cmocka_unit_test(test_one_behind_the_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
