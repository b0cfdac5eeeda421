/* SPDX-License-Identifier: Apache-2.0 */
/* The monitor's side of tracing, with an agent that is only a few lines (test_fake_agent.h). */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/data/buf.h"
#include "base/system/clock.h"
#include "jobdir/trace/profile.h"
#include "monitor/recorder/agent.h"
#include "monitor/recorder/test_area_fixture.h"
#include "monitor/recorder/test_fake_agent.h"

static unsigned came, went;

static void on_change(void *ctx, struct agent *agent, bool comes)
{
    (void)ctx;
    (void)agent;
    came += comes;
    went += !comes;
}

static void attach(void)
{
    agents_on_change(agents, on_change, NULL);
}

static int start(void **state)
{
    (void)state;
    came = went = 0;
    return fixture_start(attach);
}

static unsigned rings(void)
{
    return fixture_rings("[0-9]");
}

/* What programs may have by themselves is a small part of the limit however many there are, and what they do not have keeps
 * nobody from memory. */
static void test_promises(void **state)
{
    enum { MANY = 100, MEGABYTE = 1 << 20 };
    (void)state;
    struct child child = child_new(fake_agent);
    child_tell(&child, 'c', 0);
    struct agent *agent = agents_find(agents, child.pid);
    assert_non_null(agent);
    struct area_file *file = &agent->files[AREA_FUNCTIONS];
    uint64_t most = file->memory_promised, taken = agents->memory_taken;
    assert_int_equal(agents->memory_promised, most);
    agents->memory_limit = 1 << 30;
    agents->memory_left = 900 << 20;
    for (unsigned i = 0; i < MANY; i++) {
        agents->memory_ns = clock_now_ns(); /* it was looked at just now */
        area_file_promise(agent, file, 16 * MEGABYTE);
    }
    uint64_t limit = agents->memory_limit / 64;
    most = most > limit ? most : limit;
    assert_in_range(agents->memory_promised, 1, most);
    assert_int_equal(agents->memory_taken, taken);
    agents->memory_ns = clock_now_ns();
    assert_int_equal(area_file_reserve(agents, file, 0, MEGABYTE), 0);
    area_file_kept(agents, file, UINT64_MAX);
    assert_int_equal(agents->memory_promised, 0);
    free(agents->groups);
    agents->groups = NULL; /* of a control group that is not known */
    agents->memory_ns = clock_now_ns();
    assert_int_equal(area_file_promise(agent, file, MEGABYTE), 0);
    child_end(&child, SIGKILL);
    step_until(agents_count(agents) == 0);
}

static void test_whole_life(void **state)
{
    enum { CALLS = 100000 };
    (void)state;
    struct child child = child_new(fake_agent);
    child_tell(&child, 'c', 0);
    assert_int_equal(came, 1);
    assert_int_equal(rings(), 2); /* the area and whose it is */
    struct agent *agent = agents_find(agents, child.pid);
    assert_non_null(agent);
    assert_string_equal(agent_job(agent), job);
    for (unsigned i = 0; i < 10; i++) { /* more than the first buffer holds: the monitor has to keep up */
        child_tell(&child, 'n', CALLS / 10);
        agent_collect(agent);
    }
    struct profile_row *rows;
    size_t count;
    agent_collect(agent);
    assert_int_equal(profile_rows(agent_profile(agent), 0, &rows, &count), 0);
    assert_int_equal(count, FAKE_FUNCTIONS);
    assert_int_equal(rows[0].calls + rows[1].calls + rows[2].calls, CALLS);
    free(rows);
    child_tell(&child, 'n', 1); /* not collected before its end */
    child_end(&child, SIGKILL);
    step_until(agents_count(agents) == 0);
    assert_int_equal(went, 1);
    assert_int_equal(rings(), 0);
    char *text = babeltrace(), *process = process_file(child.pid, 0);
    assert_int_equal(occurrences(text, " entry: "), CALLS + 1);
    assert_int_equal(occurrences(text, " exit: ") + occurrences(text, " exit_of: "), CALLS + 1);
    assert_int_equal(occurrences(text, "discarded"), 0);
    assert_non_null(strstr(process, "state\texited\n"));
    assert_non_null(strstr(process, "events\t200002\n"));
    assert_non_null(strstr(process, "discarded\t0\n"));
    assert_null(strstr(process, "problem\t"));
    free(text);
    free(process);
}

/* A thread that is slow is brought in by pieces: each can be read alone. */
static void test_pieces(void **state)
{
    (void)state;
    struct child child = child_new(fake_agent);
    child_tell(&child, 'c', 0);
    struct agent *agent = agents_find(agents, child.pid);
    child_tell(&child, 'e', 0);
    child_tell(&child, 'e', 1);
    agent_collect(agent);
    agent_collect(agent);
    child_tell(&child, 'x', 0);
    agent_collect(agent);
    child_tell(&child, 'e', 2);
    child_tell(&child, 'x', 0);
    child_tell(&child, 'x', 0);
    child_tell(&child, 'f', 0);
    child_end(&child, 0);
    step_until(agents_count(agents) == 0);
    char *text = babeltrace();
    size_t named = occurrences(text, " exit_of: ");
    assert_int_equal(occurrences(text, " entry: "), 3);
    assert_int_equal(occurrences(text, " exit: ") + named, 3);
    /* Entered in earlier pieces. The third is in one piece with its entry, unless COLLECT_PARTIAL_MS were over between. */
    assert_in_range(named, 2, 3);
    free(text);
}

static void test_discarded(void **state)
{
    (void)state;
    struct err err;
    assert_int_equal(agents_job_set(agents, job, "buffer", "1M", &err), 0);
    struct child child = child_new(fake_agent);
    child_tell(&child, 'c', 0);
    child_send(&child, 'n', 400000); /* nobody collects meanwhile */
    child_heard(&child, 'n');
    child_end(&child, 0);
    step_until(agents_count(agents) == 0);
    struct agents_job_state job_state;
    assert_int_equal(agents_job_state(agents, job, &job_state), 0);
    assert_true(job_state.discarded > 0);
    assert_int_equal(job_state.events + job_state.discarded, 800000);
    char *text = babeltrace(), *discarded = strstr(text, "discarded ");
    assert_non_null(discarded);
    assert_int_equal(strtoull(discarded + strlen("discarded "), NULL, 10), job_state.discarded);
    free(text);
}

/* A monitor that is started again goes on where the other was. When it brings a packet in is its own affair: an exit
 * whose entry is in a piece before names it, the others do not; each call ends once. */
static void test_restart(void **state)
{
    (void)state;
    struct child child = child_new(fake_agent);
    child_tell(&child, 'c', 0);
    child_tell(&child, 'e', 0);
    child_tell(&child, 'n', 7);
    agents_free(agents);
    char *process = process_file(child.pid, 0);
    assert_non_null(strstr(process, "state\trunning\n"));
    free(process);
    fixture_agents();
    struct agent *agent = agents_find(agents, child.pid);
    assert_non_null(agent);
    child_tell(&child, 'n', 5);
    child_tell(&child, 'e', 1);
    agent_collect(agent); /* a piece that ends between an entry and its exit */
    child_tell(&child, 'x', 0);
    child_tell(&child, 'x', 0);
    child_end(&child, 0);
    step_until(agents_count(agents) == 0);
    char *text = babeltrace();
    size_t named = occurrences(text, " exit_of: ");
    assert_int_equal(occurrences(text, " entry: "), 14);
    assert_int_equal(occurrences(text, " exit: ") + named, 14);
    assert_true(named >= 2); /* those two surely; of the others as many as a piece happened to end in */
    assert_int_equal(occurrences(text, "discarded"), 0);
    free(text);
    process = process_file(child.pid, 0);
    assert_non_null(strstr(process, "state\tcontinued\n"));
    free(process);
    process = process_file(child.pid, 1);
    assert_non_null(strstr(process, "state\texited\n"));
    free(process);
    assert_int_equal(rings(), 0);
}

/* What the other one wanted done at calls is wanted no longer, and the thread that waited for it goes on. */
static void test_restart_lets_go(void **state)
{
    (void)state;
    struct child child = child_new(fake_agent);
    child_tell(&child, 'c', 0);
    child_tell(&child, 'n', 7);
    const struct area_view *view = agent_view(agents_find(agents, child.pid));
    struct area_slot *slot = view->slots;
    while (!area_slot_live(slot))
        slot++;
    size_t index = (size_t)(slot - view->slots);
    uint32_t mode = atomic_fetch_or(&slot->mode, AREA_ACT_ENTER | AREA_ACT_EXIT);
    atomic_store(&slot->enter_list, 64);
    atomic_store(&slot->exit_list, 128);
    atomic_store(&area_thread_at(view, 0)->raise.hold, AREA_HOLD_POSTED);
    agents_free(agents);
    fixture_agents();
    view = agent_view(agents_find(agents, child.pid));
    assert_int_equal(atomic_load(&area_thread_at(view, 0)->raise.hold), AREA_HOLD_RELEASED);
    slot = &view->slots[index];
    assert_int_equal(atomic_load(&slot->enter_list), 0);
    assert_int_equal(atomic_load(&slot->exit_list), 0);
    assert_int_equal(atomic_load(&slot->mode), mode);
    child_end(&child, 0);
    step_until(agents_count(agents) == 0);
}

static void until_it_sleeps(const struct child *child)
{
    char path[64], text[8] = "";
    uint64_t end_ns = clock_now_ns() + (uint64_t)TIMEOUT_S * NS_PER_SECOND;
    snprintf(path, sizeof path, "/proc/%d/syscall", (int)child->pid);
    while (strncmp(text, "202 ", 4) != 0) { /* futex */
        assert_true(clock_now_ns() < end_ns);
        FILE *file = fopen(path, "re");
        assert_non_null(file);
        assert_true(fgets(text, sizeof text, file) || feof(file));
        fclose(file);
    }
}

/* Threads that wait look now and then themselves, so without this they would only be slow. */
static void test_wakes(void **state)
{
    (void)state;
    struct err err;
    assert_int_equal(agents_job_set(agents, job, "overflow", "wait", &err), 0);
    struct child child = child_new(fake_agent);
    child_tell(&child, 'c', 0);
    for (const char *letter = "nf"; *letter; letter++) {
        child_send(&child, *letter, 1);
        child_heard(&child, *letter); /* nobody collects meanwhile */
    }
    child_send(&child, 's', 0);
    until_it_sleeps(&child);
    struct agent *agent = agents_find(agents, child.pid);
    agent_collect(agent);
    child_heard(&child, 's');
    struct area_thread *thread = area_thread_at(agent_view(agent), 0);
    atomic_store(&thread->raise.hold, AREA_HOLD_POSTED);
    child_send(&child, 's', 1);
    until_it_sleeps(&child);
    agent_release(agent, thread);
    child_heard(&child, 's');
    child_end(&child, 0);
    step_until(agents_count(agents) == 0);
}

static void steal_wakes(int fd)
{
    struct doorbell *bell = agents->bell; /* as it was mapped before the fork */
    (void)fd;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;)
        syscall(SYS_futex, &bell->rung, FUTEX_WAIT, atomic_load(&bell->rung), NULL, NULL, 0);
}

/* Somebody else waits at the doorbell before the monitor does: a wake-up for one is his. The end comes all the same. */
static void test_ends_beside_another_waiter(void **state)
{
    (void)state;
    struct child child = child_new(fake_agent);
    child_tell(&child, 'c', 0);
    area_ring(agents->bell);
    struct pollfd rung = {.fd = agents->ring_fd, .events = POLLIN};
    assert_int_equal(poll(&rung, 1, TIMEOUT_S * 1000), 1); /* and it waits no more until the loop has come */
    struct child thief = child_new(steal_wakes);
    until_it_sleeps(&thief);
    step_until(atomic_load(&agents->bell->sleeping));
    until_it_sleeps(&thief);
    alarm(TIMEOUT_S);
    agents_free(agents);
    alarm(0);
    fixture_agents();
    child_end(&thief, SIGKILL);
    child_end(&child, 0);
    step_until(agents_count(agents) == 0);
}

/* The runtime directory is emptied, or goes: programs that are there go on, others come. */
static void test_runtime_removed(void **state)
{
    static const char *const commands[] = {
        "rm -rf \"$(readlink -f rings)\" rings agent.sock",
        "mkdir -m 700 '%1$s.new' && mv job '%1$s.new' && mv '%1$s' '%1$s.former' && mv '%1$s.new' '%1$s'"};
    char command[512];
    struct err err = {0};
    (void)state;
    for (unsigned moved = 0; moved < 2; moved++) {
        struct child before = child_new(fake_agent), after;
        child_tell(&before, 'c', 0);
        int length = snprintf(command, sizeof command, "cd '%s' && ", dir);
        snprintf(command + length, sizeof command - (size_t)length, commands[moved], dir);
        assert_int_equal(system(command), 0);
        if (agents_again(agents, moved, &err) < 0)
            fail_msg("%s", err.text);
        after = child_new(fake_agent);
        child_tell(&after, 'c', 0);
        assert_int_equal(agents_count(agents), 2);
        assert_int_equal(rings(), 2);
        child_tell(&before, 'n', 10);
        child_tell(&after, 'n', 10);
        child_end(&before, 0);
        child_end(&after, 0);
        step_until(agents_count(agents) == 0);
        assert_int_equal(rings(), 0);
        struct agents_job_state job_state;
        assert_int_equal(agents_job_state(agents, job, &job_state), 0);
        const struct note *last = &job_state.notes[job_state.note_count - 1];
        assert_int_equal(last->kind, NOTE_socket_removed);
        assert_non_null(strstr(last->socket_removed.socket, "agent.sock"));
    }
    snprintf(command, sizeof command, "rm -r '%s.former'", dir);
    assert_int_equal(system(command), 0);
}

/* What was set is in force until all is told again, and then all of it at once. */
static void test_restart_keeps_settings(void **state)
{
    (void)state;
    struct err err;
    assert_int_equal(agents_job_set(agents, job, "overflow", "wait", &err), 0);
    struct child child = child_new(fake_agent);
    child_tell(&child, 'c', 0);
    agents_free(agents);
    fixture_agents();
    struct agent *agent = agents_find(agents, child.pid);
    assert_non_null(agent);
    const struct area *area = agent_view(agent)->area;
    loop_step(loop, 0);
    assert_int_equal(atomic_load(&area->policy), AREA_WAIT);
    assert_int_equal(agents_job_set(agents, job, "max-depth", "7", &err), 0);
    assert_int_equal(atomic_load(&area->policy), AREA_WAIT);
    assert_int_equal(agents_job_set(agents, job, "overflow", "flight", &err), 0);
    step_until(atomic_load(&area->max_depth) == 7);
    assert_int_equal(atomic_load(&area->policy), AREA_FLIGHT);
    child_end(&child, 0);
    step_until(agents_count(agents) == 0);
}

/* One that died while nobody looked is collected, too. */
static void test_restart_after_death(void **state)
{
    (void)state;
    struct child child = child_new(fake_agent);
    child_tell(&child, 'c', 0);
    agents_free(agents);
    child_send(&child, 'n', 11);
    child_heard(&child, 'n');
    child_end(&child, 0);
    fixture_agents();
    step_until(agents_count(agents) == 0);
    char *text = babeltrace();
    assert_int_equal(occurrences(text, " entry: "), 11);
    free(text);
    assert_int_equal(rings(), 0);
}

static void test_limit(void **state)
{
    (void)state;
    struct err err;
    assert_int_equal(agents_job_set(agents, job, "max-size", "256K", &err), 0);
    assert_int_equal(agents_job_set(agents, job, "trace", "all", &err), 0);
    struct child child = child_new(fake_agent);
    child_tell(&child, 'c', 0);
    struct agent *agent = agents_find(agents, child.pid);
    assert_int_equal(atomic_load(&agent_view(agent)->area->thin), AREA_THIN_NOT);
    for (unsigned i = 0; i < 10; i++)
        child_tell(&child, 'n', 5000);
    agent_collect(agent);
    assert_int_equal(atomic_load(&agent_view(agent)->area->policy), AREA_FLIGHT);
    assert_int_equal(atomic_load(&agent_view(agent)->area->thin),
                     AREA_THIN_TALLY); /* what is not kept is to cost little */
    struct agents_job_state job_state;
    assert_int_equal(agents_job_state(agents, job, &job_state), 0);
    assert_int_equal(job_state.problems[0].kind, NOTE_trace_full);
    struct child later = child_new(fake_agent); /* and so are those that begin then */
    child_tell(&later, 'c', 0);
    assert_int_equal(atomic_load(&agent_view(agents_find(agents, later.pid))->area->thin), AREA_THIN_TALLY);
    child_end(&later, 0);
    child_end(&child, 0);
    step_until(agents_count(agents) == 0);
}

/* What the monitor is told of the disk. */
static uint64_t disk_free = UINT64_C(1) << 30;

int statvfs(const char *path, struct statvfs *ret_fs)
{
    (void)path;
    *ret_fs = (struct statvfs){.f_blocks = (1 << 30) / 4096, .f_frsize = 4096, .f_bavail = disk_free / 4096};
    return 0;
}

static uint32_t policy_after(struct agent *agent, uint64_t free_bytes)
{
    disk_free = free_bytes;
    agent->job->disk.looked_ns = agent->job->disk.rest_until_ns = 0;
    agent_collect(agent);
    loop_step(loop, 0);
    return atomic_load(&agent_view(agent)->area->policy);
}

/* The trace goes on when there is room again, and says so; but not at a limit that was asked for. */
static void test_disk_full_for_a_while(void **state)
{
    struct agents_job_state job_state;
    struct err err;
    (void)state;
    struct child child = child_new(fake_agent);
    child_tell(&child, 'c', 0);
    struct agent *agent = agents_find(agents, child.pid);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(policy_after(agent, 0), AREA_FLIGHT);
        child_tell(&child, 'n', 500);
        assert_int_equal(policy_after(agent, 60 << 20), AREA_FLIGHT); /* hardly more than what is kept free */
        assert_int_equal(agents_job_state(agents, job, &job_state), 0);
        assert_int_equal(job_state.problems[0].kind, NOTE_trace_disk_full);
        assert_int_equal(job_state.events, 1500 * i);
        assert_int_equal(policy_after(agent, 1 << 30), AREA_DROP);
        child_tell(&child, 'n', 250);
        agent_collect(agent);
        assert_int_equal(agents_job_state(agents, job, &job_state), 0);
        assert_int_equal(job_state.problems[0].kind, NOTE_trace_disk_was_full);
        assert_int_equal(job_state.events, 1500 * (i + 1));
    }
    assert_int_equal(policy_after(agent, 0), AREA_FLIGHT);
    assert_int_equal(agents_job_set(agents, job, "max-size", "1K", &err), 0);
    assert_int_equal(policy_after(agent, 1 << 30), AREA_FLIGHT);
    child_end(&child, 0);
    step_until(agents_count(agents) == 0);
    char *text = process_file(child.pid, 0);
    assert_int_equal(occurrences(text, "trace_disk_was_full"), 1);
    assert_int_equal(occurrences(text, "trace_disk_full"), 1); /* the last time */
    assert_int_equal(occurrences(text, "limited\t1"), 1);
    free(text);
}

static void add_shown(void *ctx, const char *key, const char *value)
{
    buf_printf(ctx, "%s=%s ", key, value);
}

/* In a note of a kind; 0: there is none. */
static uint64_t noted(enum note_kind kind)
{
    struct agents_job_state job_state;
    assert_int_equal(agents_job_state(agents, job, &job_state), 0);
    for (unsigned i = 0; i < job_state.note_count; i++)
        if (job_state.notes[i].kind == kind)
            return kind == NOTE_left_alone ? job_state.notes[i].left_alone.processes
                                           : job_state.notes[i].unreached.processes;
    return 0;
}

/* The page as a child of fork has it, which outlives the process. *ret_fd: the file. */
static struct area_forks *forks_of(const struct child *child, int *ret_fd)
{
    struct agent *agent = agents_find(agents, child->pid);
    assert_non_null(agent);
    atomic_store(&agent->view.area->forked, 1);
    *ret_fd = dup(agent->files[AREA_FUNCTIONS].fd);
    void *at = mmap(NULL, AREA_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, *ret_fd, AREA_PAGE);
    assert_true(at != MAP_FAILED);
    return at;
}

/* What children of fork that are not traced say is heard, also after the process that they come from. */
static void test_forks(void **state)
{
    (void)state;
    int fd, other_fd;
    struct stat before, after;
    struct child child = child_new(fake_agent);
    child_tell(&child, 'c', 0);
    struct area_forks *forks = forks_of(&child, &fd);
    assert_int_equal(noted(NOTE_left_alone), 0);
    atomic_store(&forks->left_alone, 3);
    assert_int_equal(noted(NOTE_left_alone), 3);
    assert_int_equal(noted(NOTE_unreached), 0);
    assert_int_equal(fstat(fd, &before), 0);
    child_end(&child, 0);
    step_until(agents_count(agents) == 0);
    atomic_fetch_add(&forks->left_alone, 4);
    atomic_fetch_add(&forks->unreached, 5);
    assert_int_equal(noted(NOTE_left_alone), 7);
    assert_int_equal(noted(NOTE_unreached), 5);
    assert_int_equal(fstat(fd, &after), 0);
    assert_true(after.st_blocks < before.st_blocks / 8); /* the rest of it takes no memory any more */
    /* a program may write any numbers */
    atomic_store(&forks->left_alone, INT32_MAX);
    child = child_new(fake_agent);
    child_tell(&child, 'c', 0);
    struct area_forks *other = forks_of(&child, &other_fd);
    atomic_store(&other->left_alone, INT32_MAX);
    assert_true(noted(NOTE_left_alone) == 2 * (uint64_t)INT32_MAX);
    /* the page kept longest gives way, and is counted for the last time */
    agents->forks_count = FORKS_KEPT;
    child_end(&child, 0);
    step_until(agents_count(agents) == 0);
    assert_int_equal(atomic_load(&forks->left_alone), INT32_MAX | AREA_FORKS_CLOSED);
    assert_int_equal(atomic_load(&other->left_alone), INT32_MAX);
    atomic_store(&forks->left_alone, 0);
    assert_true(noted(NOTE_left_alone) == 2 * (uint64_t)INT32_MAX);
    munmap(forks, AREA_PAGE);
    munmap(other, AREA_PAGE);
    close(fd);
    close(other_fd);
}

static void test_settings(void **state)
{
    (void)state;
    struct trace_settings settings;
    struct err err;
    assert_int_equal(trace_settings_init(&settings), 0);
    assert_int_equal(trace_settings_set(&settings, "min-time", "1.5ms", &err), 0);
    assert_int_equal(settings.min_ns, 1500000);
    assert_int_equal(trace_settings_set(&settings, "min-time", "5", &err), -EINVAL);
    assert_int_equal(trace_settings_set(&settings, "buffer", "2M", &err), 0);
    assert_int_equal(settings.buffer_bytes, 2 << 20);
    assert_int_equal(trace_settings_set(&settings, "buffer", "2", &err), -EINVAL);
    assert_non_null(strstr(err.text, "1M"));
    assert_int_equal(trace_settings_set(&settings, "depth", "17", &err), -EINVAL);
    assert_int_equal(trace_settings_values(&settings), 1024);
    assert_int_equal(trace_settings_set(&settings, "array-items", "1000", &err), 0);
    assert_int_equal(settings.array_items, 1000);
    assert_int_equal(trace_settings_set(&settings, "array-items", "1001", &err), -EINVAL);
    assert_int_equal(trace_settings_set(&settings, "string-bytes", "3000", &err), 0);
    assert_int_equal(trace_settings_set(&settings, "string-bytes", "3001", &err), -EINVAL);
    assert_int_equal(trace_settings_values(&settings), 4000);
    assert_int_equal(trace_settings_set(&settings, "overflow", "flight", &err), 0);
    assert_int_equal(settings.policy, AREA_FLIGHT);
    assert_int_equal(trace_settings_set(&settings, "read-by", "victim", &err), 0);
    assert_int_equal(settings.reader, AREA_READ_VICTIM);
    assert_int_equal(trace_settings_set(&settings, "on", "no", &err), 0);
    assert_false(settings.on);
    assert_int_equal(trace_settings_set(&settings, "trace", "off", &err), 0);
    assert_true(settings.off);
    assert_int_equal(trace_settings_set(&settings, "trace", "fn:solve*", &err), 0);
    assert_false(settings.off);
    assert_string_equal(settings.selection, "fn:solve*");
    struct buf shown = BUF_INIT;
    trace_settings_each(&settings, add_shown, &shown);
    assert_non_null(strstr(shown.data, "trace=fn:solve* "));
    assert_non_null(strstr(shown.data, "min-time=1500us "));
    assert_non_null(strstr(shown.data, "buffer=2M "));
    buf_done(&shown);
    assert_int_equal(trace_settings_set(&settings, "sample", "1", &err), -ENOENT);
    assert_int_equal(trace_settings_set(&settings, "mpi", "trace", &err), 0);
    assert_int_equal(trace_settings_set(&settings, "loaded", "functions", &err), 0);
    assert_int_equal(trace_settings_set(&settings, "mpi", "stats", &err), -EINVAL);
    assert_non_null(strstr(err.text, "started with --mpi off"));
    assert_int_equal(trace_settings_set(&settings, "mpi", "off", &err), 0);
    assert_int_equal(trace_settings_set(&settings, "trace", "fn:solve*", &err), 0);
    assert_int_equal(trace_settings_set(&settings, "loaded", "nothing", &err), 0);
    assert_int_equal(trace_settings_set(&settings, "trace", "fn:solve*", &err), -EINVAL);
    trace_settings_done(&settings);
    struct buf text = BUF_INIT;
    assert_int_equal(agents_job_settings(agents, job, &text), 0);
    assert_non_null(strstr(text.data, "\"overflow\",\"drop\""));
    buf_done(&text);
}

/* ---- the packets of a thread come to the disk in their order, wherever they lie and whatever becomes of the process ---- */

static struct child child_with(const char *overflow)
{
    struct err err;
    assert_int_equal(agents_job_set(agents, job, "overflow", overflow, &err), 0);
    struct child child = child_new(fake_agent);
    child_tell(&child, 'c', 0);
    return child;
}

/* Packets of one call each, where they lie. */
static void child_packets(const struct child *child, const uint32_t *indexes, uint32_t count)
{
    static const char letters[] = "iexf";
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t numbers[] = {indexes[i], 0, 0, 0};
        for (unsigned k = 0; letters[k]; k++) { /* nobody collects meanwhile */
            child_send(child, letters[k], numbers[k]);
            child_heard(child, letters[k]);
        }
    }
}

/* It is killed: so many calls are there, and so many of entries and exits are said to be overwritten. Readers refuse a
 * stream with packets in another order, for the times in a packet are read from its begin on. */
static void check_packets(struct child *child, size_t calls, unsigned overwritten)
{
    char line[64];
    child_end(child, SIGKILL);
    step_until(agents_count(agents) == 0);
    char *text = babeltrace(), *process = process_file(child->pid, 0);
    assert_int_equal(occurrences(text, " entry: "), calls);
    assert_int_equal(occurrences(text, " exit: "), calls);
    snprintf(line, sizeof line, "\noverwritten\t%u\n", overwritten);
    assert_non_null(strstr(process, line));
    free(text);
    free(process);
}

/* Killed while others are about to overwrite two of its packets. */
static void test_two_being_overwritten(void **state)
{
    (void)state;
    struct child child = child_with("flight");
    child_packets(&child, (const uint32_t[]){3, 2, 1}, 3);
    child_tell(&child, 'o', 0);
    child_tell(&child, 'o', 1);
    check_packets(&child, 3, 0);
}

/* Killed while its last packet was not yet given away, and others were about to overwrite those before. */
static void test_none_left_full(void **state)
{
    (void)state;
    struct child child = child_with("flight");
    child_packets(&child, (const uint32_t[]){1, 3, 2}, 3);
    for (uint32_t i = 0; i < 3; i++)
        child_tell(&child, 'o', i);
    check_packets(&child, 3, 0);
}

/* Who overwrites has looked at the packet before that one while it was not full. */
static void test_not_the_oldest_overwritten(void **state)
{
    (void)state;
    struct child child = child_with("flight");
    child_packets(&child, (const uint32_t[]){5, 4, 3, 2, 1}, 5);
    child_tell(&child, 'o', 2);
    child_tell(&child, 'o', 3);
    check_packets(&child, 5, 0);
}

/* What came after it was written meanwhile: it is overwritten, as it was to be. */
static void test_flushed_while_overwritten(void **state)
{
    (void)state;
    struct err err;
    struct child child = child_with("flight");
    child_packets(&child, (const uint32_t[]){3, 2, 1}, 3);
    child_tell(&child, 'o', 1);
    assert_int_equal(agent_flush(agents_find(agents, child.pid), &err), 0);
    check_packets(&child, 2, 2);
}

/* One that becomes full, and the one before it, after the monitor has looked at the place of that one. */
static void test_filled_during_inspection(void **state)
{
    (void)state;
    struct child child = child_with("drop");
    struct agent *agent = agents_find(agents, child.pid);
    const struct area_view *view = agent_view(agent);
    child_packets(&child, (const uint32_t[]){3, 2, 1}, 3);
    uint64_t second = atomic_load(&view->states[2]);
    assert_int_equal(second & 0xff, AREA_PACKET_FULL);
    atomic_store(&view->states[2], AREA_PACKET_TAKEN);
    atomic_fetch_sub(&view->area->packet_order, 2);
    agent_collect(agent);
    assert_int_equal(atomic_load(&view->states[3]) & 0xff, AREA_PACKET_FREE);
    assert_int_equal(atomic_load(&view->states[1]) & 0xff, AREA_PACKET_FULL);
    atomic_store(&view->states[2], second);
    atomic_fetch_add(&view->area->packet_order, 2);
    agent_collect(agent);
    check_packets(&child, 3, 0);
}

/* What was called last is wanted at once, while a packet before it waits to be written. */
static void test_flushed_before_its_turn(void **state)
{
    (void)state;
    struct err err;
    struct child child = child_with("drop");
    struct agent *agent = agents_find(agents, child.pid);
    const struct area_view *view = agent_view(agent);
    child_packets(&child, (const uint32_t[]){3, 2}, 2);
    for (const char *letter = "ex"; *letter; letter++) {
        child_send(&child, *letter, 0);
        child_heard(&child, *letter);
    }
    atomic_fetch_sub(&view->area->packet_order, 1); /* the second one has become full after the look */
    assert_int_equal(agent_flush(agent, &err), 0);
    assert_int_equal(atomic_load(&view->states[2]) & 0xff, AREA_PACKET_FULL);
    atomic_fetch_add(&view->area->packet_order, 1);
    check_packets(&child, 3, 0);
}

int main(void)
{
#define ROW(name) cmocka_unit_test_setup_teardown(name, start, fixture_stop)
    const struct CMUnitTest tests[] = {
        ROW(test_promises),
        ROW(test_whole_life),
        ROW(test_pieces),
        ROW(test_discarded),
        ROW(test_restart),
        ROW(test_restart_lets_go),
        ROW(test_wakes),
        ROW(test_ends_beside_another_waiter),
        ROW(test_runtime_removed),
        ROW(test_restart_keeps_settings),
        ROW(test_restart_after_death),
        ROW(test_limit),
        ROW(test_disk_full_for_a_while),
        ROW(test_forks),
        ROW(test_settings),
        ROW(test_two_being_overwritten),
        ROW(test_none_left_full),
        ROW(test_not_the_oldest_overwritten),
        ROW(test_flushed_while_overwritten),
        ROW(test_filled_during_inspection),
        ROW(test_flushed_before_its_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
