/* SPDX-License-Identifier: Apache-2.0 */
#include "tracer/test_support.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/system/clock.h"
#include "base/system/file.h"

struct shared *shared;
struct tracer *tracer;
code_cell *test_cells;

enum { QUEUE_SIZE = 65536 };
static struct tracer_event *queue;
static size_t queue_first, queue_end;
static int cells_fd = -1;

uint64_t test_now_ms(void)
{
    return clock_now_ns() / 1000000;
}

void test_pause(void)
{
    usleep(200);
}

pid_t target_start(target_fn *fn)
{
    shared->ready = 0;
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close_range(3, ~0U, 0);
        for (int signo = 1; signo < NSIG; signo++) /* cmocka's handlers */
            signal(signo, SIG_DFL);
        fn();
        _exit(0);
    }
    WAIT_FOR(shared->ready);
    return pid;
}

void target_ready(void)
{
    shared->ready = 1;
    while (!shared->go)
        usleep(200);
}

int target_wait(pid_t pid)
{
    int status = -1;
    pid_t got = 0;
    WAIT_FOR((got = waitpid(pid, &status, WNOHANG)) != 0);
    assert_int_equal(got, pid);
    return status;
}

void target_kill(pid_t pid)
{
    kill(pid, SIGKILL);
    int status = target_wait(pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void on_event(void *ctx, const struct tracer_event *event)
{
    (void)ctx;
    assert_true(queue_end < QUEUE_SIZE);
    queue[queue_end++] = *event;
}

void tracer_begin(void)
{
    struct err err = {0};
    const char *path = getenv("SCRY_TRACER");
    assert_non_null(path);
    if (tracer_start(&tracer, path, cells_fd, on_event, NULL, &err) < 0)
        fail_msg("%s", err.text);
}

int test_setup(void **state)
{
    (void)state;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    cells_fd = memfd_create("cells", MFD_CLOEXEC);
    assert_true(cells_fd >= 0);
    assert_int_equal(ftruncate(cells_fd, CODE_CELLS * sizeof(code_cell)), 0);
    test_cells = mmap(NULL, CODE_CELLS * sizeof(code_cell), PROT_READ | PROT_WRITE, MAP_SHARED, cells_fd, 0);
    assert_true(test_cells != MAP_FAILED);
    queue = calloc(QUEUE_SIZE, sizeof *queue);
    queue_first = queue_end = 0;
    tracer = NULL;
    return 0;
}

int test_teardown(void **state)
{
    (void)state;
    tracer_stop_all(tracer);
    tracer = NULL;
    munmap(shared, sizeof *shared);
    munmap(test_cells, CODE_CELLS * sizeof(code_cell));
    close(cells_fd);
    free(queue);
    return 0;
}

bool poll_event(struct tracer_event *ret_event, int timeout_ms)
{
    uint64_t until = test_now_ms() + (uint64_t)timeout_ms;
    while (queue_first == queue_end) {
        queue_first = queue_end = 0;
        struct pollfd poll_fd = {.fd = tracer_fd(tracer), .events = POLLIN};
        uint64_t now = test_now_ms();
        if (!tracer_pending(tracer) && (now > until || poll(&poll_fd, 1, (int)(until - now)) == 0))
            return false;
        if (tracer_dispatch(tracer) < 0 && queue_end == 0)
            return false;
    }
    *ret_event = queue[queue_first++];
    return true;
}

struct tracer_event next_event(enum tracer_event_kind kind, unsigned skip)
{
    for (;;) {
        struct tracer_event event;
        if (!poll_event(&event, TEST_TIMEOUT_S * 1000))
            fail_msg("no event of kind %d came", kind);
        if (event.kind == kind)
            return event;
        if (!(skip >> event.kind & 1))
            fail_msg("event %d (tid %d, addr %lx) instead of %d", event.kind, event.tid, (unsigned long)event.addr,
                     kind);
        tracer_release_hold(tracer, event.hold);
    }
}

long status_field(pid_t tid, const char *name)
{
    char path[64], *text;
    size_t len;
    snprintf(path, sizeof path, "/proc/%d/status", tid);
    if (file_read(path, &text, &len) < 0)
        return -1;
    const char *at = strstr(text, name);
    long value = at ? strtol(at + strlen(name), NULL, 10) : -1;
    free(text);
    return value;
}

char state_of(pid_t tid)
{
    char path[64], *text;
    size_t len;
    snprintf(path, sizeof path, "/proc/%d/stat", tid);
    if (file_read(path, &text, &len) < 0)
        return 0;
    const char *end = strrchr(text, ')');
    char state = end ? end[2] : 0;
    free(text);
    return state;
}

uint8_t byte_at(pid_t pid, uint64_t addr)
{
    char path[64];
    uint8_t byte = 0;
    snprintf(path, sizeof path, "/proc/%d/mem", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, (off_t)addr), 1);
    close(fd);
    return byte;
}
