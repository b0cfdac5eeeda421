/* SPDX-License-Identifier: Apache-2.0 */
/* A script's ring: what is written is read, by many threads, around the end, after forks, and when it is damaged. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "shm/script_ring.h"

enum { RING = SCRIPT_RING_LEAST, THREADS = 4, RECORDS = 20000 };

static char directory[] = "/tmp/test-script-ring.XXXXXX", file[600];
static struct script_writer *writer;
static struct script_view view;
static size_t mapped;

static struct script_open plain(void)
{
    return (struct script_open){
        .directory = directory, .language = "bash", .ring_size = RING, .sum_count = 4, .texts_size = 256};
}

static void map(void)
{
    struct stat status;
    int fd = open(file, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &status), 0);
    mapped = (size_t)status.st_size;
    void *memory = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    assert_true(memory != MAP_FAILED);
    assert_true(script_view_init(&view, memory, mapped));
}

static void open_with(struct script_open open)
{
    int error = 0;
    writer = script_writer_open(&open, &error);
    assert_int_equal(error, 0);
    assert_non_null(writer);
    snprintf(file, sizeof file, "%s/bash.%d.%llu", directory, getpid(),
             (unsigned long long)script_writer_ring(writer)->born_ns);
    map();
}

static int setup(void **state)
{
    open_with(plain());
    return 0;
}

static int teardown(void **state)
{
    munmap(view.ring, mapped);
    script_writer_close(writer);
    unlink(file);
    return 0;
}

static struct script_text text(const char *bytes)
{
    return (struct script_text){bytes, (uint32_t)strlen(bytes)};
}

static bool put(int32_t line, const char *command)
{
    return script_put(writer, &(struct script_event){.kind = SCRIPT_LINE,
                                                     .line = line,
                                                     .duration_ns = UINT64_MAX,
                                                     .texts = {[SCRIPT_COMMAND] = text(command)}});
}

static void test_record(void **state)
{
    const struct script_frame frames[] = {{text("a.sh"), text("f"), 3}, {text("b.sh"), {0}, -1}};
    struct script_event got;
    assert_false(script_view_take(&view, 0, &got));
    assert_true(script_put(writer, &(struct script_event){.kind = SCRIPT_FAILED,
                                                          .tid = 7,
                                                          .line = 12,
                                                          .status = 2,
                                                          .time_ns = 5,
                                                          .duration_ns = 6,
                                                          .texts = {text("a.sh"), {0}, text("ls $x"), text("")},
                                                          .frames = frames,
                                                          .frame_count = 2}));
    assert_true(script_view_take(&view, 0, &got));
    assert_int_equal(got.kind, SCRIPT_FAILED);
    assert_int_equal(got.pid, getpid());
    assert_int_equal(got.line, 12);
    assert_int_equal(got.status, 2);
    assert_int_equal(got.time_ns, 5);
    assert_int_equal(got.duration_ns, 6);
    assert_int_equal(got.texts[SCRIPT_COMMAND].size, 5);
    assert_memory_equal(got.texts[SCRIPT_COMMAND].bytes, "ls $x", 5);
    assert_null(got.texts[SCRIPT_FUNCTION].bytes);
    assert_non_null(got.texts[SCRIPT_MESSAGE].bytes);
    assert_int_equal(got.frame_count, 2);
    assert_memory_equal(got.frames[0].function.bytes, "f", 1);
    assert_int_equal(got.frames[1].line, -1);
    assert_null(got.frames[1].function.bytes);
    assert_int_equal(got.cut, 0);
    assert_false(script_view_take(&view, 0, &got));
}

static void test_cut(void **state)
{
    static char longest[3 * SCRIPT_TEXT_MOST];
    struct script_frame frames[SCRIPT_FRAMES_MOST + 1];
    struct script_event got;
    memset(longest, 'x', sizeof longest);
    for (size_t i = 0; i < SCRIPT_FRAMES_MOST + 1; i++)
        frames[i] = (struct script_frame){{longest, sizeof longest}, {longest, sizeof longest}, 1};
    assert_true(script_put(writer, &(struct script_event){.kind = SCRIPT_EXCEPTION,
                                                          .texts = {[SCRIPT_MESSAGE] = {longest, sizeof longest}},
                                                          .frames = frames,
                                                          .frame_count = SCRIPT_FRAMES_MOST + 1}));
    assert_true(script_view_take(&view, 0, &got));
    assert_int_equal(got.texts[SCRIPT_MESSAGE].size, SCRIPT_TEXT_MOST);
    assert_int_equal(got.cut, 1u << SCRIPT_MESSAGE | 1u << SCRIPT_TEXTS);
    assert_true(got.frame_count > 8);
}

/* Sizes that meet the end of the ring in all ways. */
static void test_around(void **state)
{
    static char command[600];
    struct script_event got;
    for (int32_t i = 0; i < 5000; i++) {
        size_t size = (size_t)(i * 37) % sizeof command;
        memset(command, 'a' + i % 26, sizeof command);
        command[size] = 0;
        assert_true(put(i, command));
        assert_true(script_view_take(&view, 0, &got));
        assert_int_equal(got.line, i);
        assert_int_equal(got.texts[SCRIPT_COMMAND].size, size);
        assert_memory_equal(got.texts[SCRIPT_COMMAND].bytes, command, size);
    }
    assert_int_equal(view.damaged, 0);
}

/* What finds no room is counted, and changes nothing; half full, the reader is called once. */
static void test_full(void **state)
{
    struct script_event got;
    struct stat before, after;
    int32_t written = 0, seen = 0;
    assert_int_equal(utimensat(AT_FDCWD, file, (struct timespec[2]){{1, 0}, {1, 0}}, 0), 0);
    stat(file, &before);
    while (put(written, "sleep 1"))
        written++;
    stat(file, &after);
    assert_true(after.st_mtime != before.st_mtime);
    assert_int_equal(view.ring->belled, 1);
    assert_false(put(written, "sleep 1"));
    assert_int_equal(view.ring->dropped, 2);
    for (; script_view_take(&view, 0, &got); seen++)
        assert_int_equal(got.line, seen);
    assert_int_equal(seen, written);
    assert_true(put(0, ""));
}

static void *write_many(void *number)
{
    struct script_event record = {.kind = SCRIPT_LINE, .tid = (int32_t)(intptr_t)number, .texts = {text("threads")}};
    for (record.line = 0; record.line < RECORDS; record.line++)
        while (!script_put(writer, &record))
            sched_yield();
    return NULL;
}

static void test_threads(void **state)
{
    pthread_t threads[THREADS];
    int32_t next[THREADS] = {0};
    struct script_event got;
    for (intptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_many, (void *)i), 0);
    for (int left = THREADS * RECORDS; left;) {
        if (!script_view_take(&view, 0, &got)) {
            sched_yield();
            continue;
        }
        assert_in_range(got.tid, 0, THREADS - 1);
        assert_int_equal(got.line, next[got.tid]++);
        left--;
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(view.damaged, 0);
}

static int in_child(int (*check)(void))
{
    int status;
    pid_t pid = fork();
    if (pid == 0)
        _exit(check());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static int child_is_without(void)
{
    struct script_open open = plain();
    int error;
    if (script_writer_mine(writer) || put(1, "x") || script_text_keep(writer, "x", 1) ||
        script_sum_new(writer, SCRIPT_SUM_LINE, 0, 0, 1))
        return 1;
    struct script_writer *own = script_writer_open(&open, &error);
    if (!own || !script_writer_mine(own))
        return 2;
    struct script_writer *parents = writer;
    writer = own;
    bool written = put(2, "own");
    unlink(file);
    writer = parents;
    return written ? 0 : 3;
}

static void test_fork(void **state)
{
    struct script_event got;
    assert_int_equal(in_child(child_is_without), 0);
    assert_false(script_view_take(&view, 0, &got));
    assert_true(put(1, "x"));
}

static int child_writes(void)
{
    return put(1, "x") ? 0 : 1;
}

/* It dies while it writes: reserved, not finished. */
static int child_dies_writing(void)
{
    struct script_ring *ring = script_writer_ring(writer);
    uint64_t at = atomic_fetch_add(&ring->reserved, 128);
    char *to = (char *)ring + ring->ring_at + at % ring->ring_size;
    atomic_store((_Atomic uint64_t *)(void *)to, script_word(128, SCRIPT_OPEN, getpid()));
    return 0;
}

static void test_shared(void **state)
{
    struct script_event got;
    teardown(NULL);
    struct script_open open = plain();
    open.shared = true;
    open_with(open);
    assert_int_equal(in_child(child_writes), 0);
    assert_true(script_view_take(&view, 0, &got));
    assert_true(got.pid != getpid());
    assert_int_equal(in_child(child_dies_writing), 0);
    assert_true(put(3, "x"));
    assert_false(script_view_take(&view, 0, &got));
    assert_true(view.waits_for > 0 && view.waits_for != getpid());
    assert_true(script_view_take(&view, view.waits_for, &got));
    assert_int_equal(got.line, 3);
}

static void test_sums(void **state)
{
    struct script_sum_copy copy;
    uint32_t name = script_text_keep(writer, "f(x)", 4);
    struct script_sum *sum = script_sum_new(writer, SCRIPT_SUM_FUNCTION, name, 0, 9);
    assert_non_null(sum);
    atomic_store(&sum->count, 3);
    script_writer_ring(writer)->now = script_sum_number(writer, sum);
    assert_int_equal(script_view_sums(&view), 1);
    assert_int_equal(script_view_now(&view), 0);
    assert_true(script_view_sum(&view, 0, true, &copy));
    assert_int_equal(copy.count, 3);
    assert_int_equal(copy.line, 9);
    assert_string_equal(copy.file, "f(x)");
    assert_string_equal(copy.function, "");
    assert_false(script_view_sum(&view, 1, true, &copy));
    sum->file = UINT32_MAX;
    assert_false(script_view_sum(&view, 0, true, &copy));
    for (int i = 0; i < 3; i++)
        assert_non_null(script_sum_new(writer, SCRIPT_SUM_LINE, 0, 0, 1));
    assert_null(script_sum_new(writer, SCRIPT_SUM_LINE, 0, 0, 1));
    assert_int_equal(script_text_keep(writer, file, 250), 0);
    assert_int_equal(view.ring->sums_dropped, 2);
}

static void test_damaged_heads(void **state)
{
    static struct script_view other;
    _Alignas(64) char head[4096];
    uint32_t *words = (void *)head;
    memcpy(head, view.ring, sizeof head);
    assert_false(script_view_init(&other, head, sizeof head)); /* the rest is missing */
    for (size_t word = 0; word < 10; word++) {
        struct script_ring *ring = view.ring;
        memcpy(head, ring, sizeof head);
        words[word] = UINT32_MAX - 7;
        memcpy((void *)ring, head, sizeof head);
        bool is_pid_or_size = word == 2 || word == 9;
        assert_int_equal(script_view_init(&other, ring, mapped), is_pid_or_size);
        memcpy((void *)ring, head, 0);
        words[word] = ((uint32_t *)(void *)&view.head)[word];
        memcpy((void *)ring, head, sizeof head);
    }
    view.ring->reserved = 3; /* goes on, with nothing */
    struct script_event got;
    assert_false(script_view_take(&view, 0, &got));
    assert_int_equal(view.damaged, 1);
    assert_true(put(8, "again"));
    assert_true(script_view_take(&view, 0, &got));
    assert_int_equal(got.line, 8);
}

static int child_is_limited(void)
{
    struct script_open open = plain();
    int error = 0;
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){4096, 4096});
    return !script_writer_open(&open, &error) && error == EFBIG ? 0 : 1;
}

static void test_refused(void **state)
{
    int error = 0;
    struct script_open open = plain();
    open.directory = "/nonexistent";
    assert_null(script_writer_open(&open, &error));
    assert_int_equal(error, ENOENT);
    open = plain();
    open.ring_size = RING + 1;
    assert_null(script_writer_open(&open, &error));
    assert_int_equal(error, EINVAL);
    assert_int_equal(in_child(child_is_limited), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)
        TEST(record), TEST(cut),    TEST(around), TEST(full),          TEST(threads),
        TEST(fork),   TEST(shared), TEST(sums),   TEST(damaged_heads), TEST(refused),
    };
    if (!mkdtemp(directory))
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", directory); /* what children left */
    return system(command) ? 1 : failed;
}
