/* SPDX-License-Identifier: Apache-2.0 */
/* The observer as a process of its own: what it is told and sends, and that scry run neither waits for it nor falls
 * with it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/system/clock.h"
#include "job/observe/observer.h"

enum { FLOOD = 200000, LINE = 100 };

struct fixture {
    struct recorder recorder;
    struct run_options options;
    struct observer_link link;
    json_t *seen; /* all records */
};

static atomic_bool *flooded; /* shared with the observer: all of it was said */

/* ---- a source that does what its options say ---- */

struct state {
    struct observer *observer;
};

static void say(struct observer *observer, const char *what, const char *name)
{
    observe_put(observer, RECORD(log_file, .file = what, .state = "watched", .reason = name));
}

static void *start(struct observer *observer, struct err *err)
{
    if (strcmp(observer->options->name, "refuses") == 0) {
        err_set(err, -ENOENT, "there is none");
        return NULL;
    }
    struct state *state = calloc(1, sizeof *state);
    state->observer = observer;
    say(observer, observer->restarted ? "started again" : "started", observer->cwd);
    return state;
}

static void process(void *data, const struct observed_process *process)
{
    say(((struct state *)data)->observer, "process", process->name);
}

static void process_ended(void *data, const struct observed_process *process)
{
    say(((struct state *)data)->observer, "ended", process->name);
}

static void tick(void *data)
{
    struct state *state = data;
    if (*flooded || strcmp(state->observer->options->name, "floods") != 0)
        return;
    char text[LINE + 1] = {0};
    memset(text, 'x', LINE);
    for (int i = 0; i < FLOOD; i++)
        say(state->observer, "flood", text);
    *flooded = true;
}

static void changed(void *data, const char *key, const char *value)
{
    say(((struct state *)data)->observer, key, value);
    observe_put(((struct state *)data)->observer, RECORD(progress, .source = key)); /* a type that is not flooded */
}

static void ending(void *data)
{
    say(((struct state *)data)->observer, "ending", NULL);
}

static void end(void *data)
{
    struct state *state = data;
    say(state->observer, "over", NULL);
    free(state);
}

static void *last_start(struct observer *observer, struct err *err)
{
    return observer;
}

static bool last_ready(void *data, struct err *err)
{
    const struct observer *observer = data;
    bool ready = strcmp(observer->options->name, "breaks") != 0;
    if (!ready)
        err_set(err, -EPIPE, "it has ended");
    return ready;
}

static void last_end(void *data)
{
    const struct observer *observer = data;
    while (strcmp(observer->options->name, "hangs") == 0)
        pause();
}

static const struct observe_source source = {.name = "test",
                                             .start = start,
                                             .process = process,
                                             .process_ended = process_ended,
                                             .tick = tick,
                                             .changed = changed,
                                             .ending = ending,
                                             .end = end};
static const struct observe_source last = {.name = "last", .start = last_start, .ready = last_ready, .end = last_end};
static const struct observe_source *const sources[] = {&source, &last, NULL};

/* ---- what scry run has of it ---- */

static void on_recorded(void *ctx, enum record_type type, json_t *record)
{
    struct fixture *fixture = ctx;
    assert_int_not_equal(type, RECORD_TYPES);
    json_array_append(fixture->seen, record);
}

static int set_up(void **ret_state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    fixture->recorder.writer.fd = -1;
    fixture->recorder.start_ns = clock_now_ns();
    fixture->recorder.recorded = on_recorded;
    fixture->recorder.ctx = fixture;
    fixture->seen = json_array();
    fixture->options = (struct run_options){.sample_seconds = 0.01, .name = ""};
    fixture->link =
        (struct observer_link){.fd = -1,
                               .recorder = &fixture->recorder,
                               .sources = sources,
                               .given = {.options = &fixture->options, .root = getpid(), .dir = "/", .cwd = "/there"}};
    *ret_state = fixture;
    return job_model_init(&fixture->recorder.model, 0);
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    observer_end(&fixture->link);
    while (waitpid(-1, NULL, 0) > 0)
        continue;
    job_model_done(&fixture->recorder.model);
    json_decref(fixture->seen);
    run_options_done(&fixture->options);
    free(fixture);
    return 0;
}

static size_t count(const struct fixture *fixture, const char *member, const char *value)
{
    size_t index, found = 0;
    json_t *record;
    json_array_foreach(fixture->seen, index, record)
    {
        const char *text = json_string_value(json_object_get(record, member));
        found += text && strcmp(text, value) == 0;
    }
    return found;
}

static void wait_until(struct fixture *fixture, const char *member, const char *value)
{
    while (!count(fixture, member, value)) {
        struct pollfd input = {.fd = fixture->link.fd, .events = POLLIN};
        assert_true(fixture->link.fd >= 0);
        poll(&input, 1, -1);
        observer_handle(&fixture->link);
    }
}

static void test_whole_life(void **state)
{
    struct fixture *fixture = *state;
    observer_start(&fixture->link);
    assert_int_equal(json_array_size(fixture->seen), 0); /* what it has found waits */
    observer_await(&fixture->link);
    assert_int_equal(count(fixture, "reason", "/there"), 1); /* it has started before the command does */
    observer_tell_take(&fixture->link, record_json(RECORD(process, .pid = 7, .ppid = 6, .name = "seven")));
    wait_until(fixture, "reason", "seven");
    observer_tell_take(&fixture->link, record_json(RECORD(process_end, .process = {.pid = 7, .name = "seven"})));
    wait_until(fixture, "file", "ended");
    observer_tell_take(&fixture->link, record_json(RECORD(process_end, .process = {.pid = 8, .name = "short"})));
    wait_until(fixture, "reason", "short");
    observer_tell_take(&fixture->link, record_json(RECORD(setting, .key = "sample", .value = "0.5", .taken = true)));
    wait_until(fixture, "reason", "0.5");
    observer_ending(&fixture->link);
    wait_until(fixture, "file", "ending");
    observer_over(&fixture->link);
    observer_finish(&fixture->link);
    assert_int_equal(count(fixture, "file", "over"), 1);
    assert_int_equal(count(fixture, "file", "ended"), 2);
    assert_int_equal(count(fixture, "type", "warning"), 0);
}

static void test_refused(void **state)
{
    struct fixture *fixture = *state;
    fixture->options.name = "refuses";
    observer_start(&fixture->link);
    observer_over(&fixture->link);
    observer_finish(&fixture->link);
    assert_int_equal(count(fixture, "text", "not watched: test: there is none"), 1);
    assert_int_equal(json_array_size(fixture->seen), 1);
}

static void test_breaks(void **state)
{
    struct fixture *fixture = *state;
    fixture->options.name = "breaks";
    observer_start(&fixture->link);
    observer_over(&fixture->link);
    observer_finish(&fixture->link);
    assert_int_equal(count(fixture, "text", "not watched: last: it has ended"), 1);
    assert_int_equal(count(fixture, "file", "over"), 1);
}

static void test_killed(void **state)
{
    struct fixture *fixture = *state;
    observer_start(&fixture->link);
    for (unsigned i = 1; i < OBSERVER_STARTS; i++) {
        kill(fixture->link.pid, SIGKILL);
        json_array_clear(fixture->seen);
        wait_until(fixture, "file", "started again");
    }
    kill(fixture->link.pid, SIGKILL);
    while (fixture->link.fd >= 0) {
        poll(&(struct pollfd){.fd = fixture->link.fd, .events = POLLIN}, 1, -1);
        observer_handle(&fixture->link);
    }
    assert_int_equal(count(fixture, "note", "observer_lost"), 2);
    observer_handle(&fixture->link); /* nothing is left to do */
    observer_over(&fixture->link);
    observer_finish(&fixture->link);
}

/* A file system that does not answer: the job's end waits a while, and no longer. What others have said at their ends is there. */
static void test_hangs(void **state)
{
    struct fixture *fixture = *state;
    fixture->options.name = "hangs";
    observer_start(&fixture->link);
    observer_over(&fixture->link);
    observer_finish(&fixture->link);
    assert_int_equal(count(fixture, "note", "observer_late"), 1);
    assert_int_equal(count(fixture, "file", "over"), 1);
}

/* scry run does not read: the observer goes on, and what is too much is counted. */
static void test_too_much(void **state)
{
    struct fixture *fixture = *state;
    fixture->options.name = "floods";
    observer_start(&fixture->link);
    while (!*flooded)
        poll(NULL, 0, 1);
    size_t told = 0;
    while (!count(fixture, "source", "sample")) { /* its answer is dropped, too, until what was kept has been read */
        observer_tell_take(&fixture->link,
                           record_json(RECORD(setting, .key = "sample", .value = "0.5", .taken = true)));
        told++;
        struct pollfd input = {.fd = fixture->link.fd, .events = POLLIN};
        while (!count(fixture, "source", "sample") && poll(&input, 1, 200) > 0)
            observer_handle(&fixture->link);
    }
    observer_over(&fixture->link);
    observer_finish(&fixture->link);
    size_t index, dropped = 0;
    json_t *record;
    json_array_foreach(fixture->seen, index, record) dropped +=
        (size_t)json_integer_value(json_object_get(json_object_get(record, "fields"), "records"));
    assert_true(dropped > 0);
    assert_int_equal(count(fixture, "file", "flood") + count(fixture, "file", "sample") +
                         count(fixture, "source", "sample") + dropped,
                     FLOOD + 2 * told);
    assert_int_equal(count(fixture, "file", "over"), 1);
}

/* scry run is gone: so is the observer. */
static void test_alone(void **state)
{
    struct fixture *fixture = *state;
    observer_start(&fixture->link);
    pid_t pid = fixture->link.pid;
    close(fixture->link.fd);
    fixture->link.fd = -1;
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    fixture->link.pid = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_whole_life, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_breaks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_killed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_hangs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_too_much, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_alone, set_up, tear_down),
    };
    flooded = mmap(NULL, sizeof *flooded, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (flooded == MAP_FAILED)
        return 1;
    return cmocka_run_group_tests_name("observer", tests, NULL, NULL);
}
