/* SPDX-License-Identifier: Apache-2.0 */
/* A Python that waits at known lines, read as it is and with damaged memory. PYTHONS: those to try, apart by blanks. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "symbols/python/python.h"

/* Lines count from 1. The main thread waits in line 6, its second thread in line 12. */
static const char script[] = "import os, threading\n"
                             "class Solver:\n"
                             "    def run(self, n):\n"
                             "        if n:\n"
                             "            return self.run(n - 1)\n"
                             "        os.read(0, 1)\n"
                             "def values():\n"
                             "    yield 1\n"
                             "    lock.acquire(); os.write(1, b'r'); hold()\n"
                             "def worker():\n"
                             "    for _ in values():\n"
                             "        pass\n"
                             "def hold():\n"
                             "    end.wait()\n"
                             "lock, end = threading.Lock(), threading.Event()\n"
                             "exec(compile('def \\u00e9t\\u00e9(n):\\n  Solver().run(n)\\n', 'made \\u20ac', 'exec'))\n"
                             "threading.Thread(target=worker, daemon=True).start()\n"
                             "\u00e9t\u00e9(2)\n";

struct child {
    pid_t pid;
    int in, out;
    struct python_program program;
    struct python_memory memory;
};

static bool start(struct child *child, const char *python)
{
    int in[2], out[2];
    char byte = 0;
    if (pipe(in) < 0 || pipe(out) < 0)
        fail();
    child->pid = fork();
    if (child->pid == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        close(in[1]);
        execlp(python, python, "-X", "utf8", "-c", script, NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    child->in = in[1];
    child->out = out[0];
    child->memory = python_memory_of(&child->pid);
    return read(out[0], &byte, 1) == 1;
}

static void stop(struct child *child)
{
    kill(child->pid, SIGKILL);
    waitpid(child->pid, NULL, 0);
    close(child->in);
    close(child->out);
}

static void expect(const struct python_frame *frame, const char *function, const char *file, int64_t line)
{
    const char *dot = strrchr(frame->function, '.'); /* before 3.11 there is no class in front */
    assert_string_equal(dot ? dot + 1 : frame->function, function);
    assert_string_equal(frame->file, file);
    assert_int_equal(frame->line, line);
}

/* It has told that it is about to wait: asks until it does. */
static void wait_for(struct child *child, struct python_stacks *stacks)
{
    for (;;) {
        int r = python_read(stacks, &child->program, &child->memory, 0, PYTHON_FRAMES);
        if (r == 0 && stacks->count == 2 && stacks->threads[0].count == 5 && stacks->threads[0].frames[0].line == 6 &&
            stacks->threads[1].count && strstr(stacks->threads[1].frames[0].function, "wait"))
            return;
        python_stacks_done(stacks);
        if (waitpid(child->pid, NULL, WNOHANG))
            fail_msg("it ended");
    }
}

static void check(const char *python)
{
    struct child child;
    struct python_stacks stacks;
    if (!start(&child, python)) {
        stop(&child);
        print_message("SKIP: no %s\n", python);
        return;
    }
    assert_int_equal(python_find(&child.program, child.pid), 0);
    wait_for(&child, &stacks);
    assert_int_equal(stacks.threads[0].tid, child.pid);
    expect(&stacks.threads[0].frames[0], "run", "<string>", 6);
    expect(&stacks.threads[0].frames[1], "run", "<string>", 5);
    expect(&stacks.threads[0].frames[3], "\u00e9t\u00e9", "made \u20ac", 2);
    expect(&stacks.threads[0].frames[4], "<module>", "<string>", 18);
    assert_false(stacks.threads[0].moved);
    assert_true(stacks.threads[0].frames[4].entry);
    const struct python_thread *second = &stacks.threads[1];
    size_t at = 0;
    while (at + 2 < second->count && strcmp(second->frames[at].function, "hold") != 0)
        at++;
    expect(&second->frames[at], "hold", "<string>", 14);
    expect(&second->frames[at + 1], "values", "<string>", 9);
    expect(&second->frames[at + 2], "worker", "<string>", 11);
    assert_ptr_equal(python_own_frame(second), &second->frames[at]);
    python_stacks_done(&stacks);

    assert_int_equal(python_read(&stacks, &child.program, &child.memory, child.pid, 2), 0);
    assert_int_equal(stacks.count, 1);
    assert_int_equal(stacks.threads[0].count, 2);
    assert_true(stacks.threads[0].cut);
    python_stacks_done(&stacks);

    kill(child.pid, SIGKILL);
    waitpid(child.pid, NULL, 0);
    assert_int_equal(python_read(&stacks, &child.program, &child.memory, 0, PYTHON_FRAMES), -ESRCH);
    python_stacks_done(&stacks);
    assert_int_equal(python_find(&child.program, child.pid), -ESRCH);
    stop(&child);
}

/* What the user's own code called is what it waits for, whatever that is in. */
static void waits_for(void **state)
{
    static const char library[] = "/usr/lib/python3.11";
    static const struct {
        const char *file, *function, *what;
    } rows[] = {
        {"/multiprocessing/queues.py", "get", "an item in a queue of multiprocessing"},
        {"/multiprocessing/queues.py", "Queue.put", "room in a queue of multiprocessing"},
        {"/multiprocessing/synchronize.py", "SemLock.__enter__", "a lock of multiprocessing"},
        {"/queue.py", "Queue.get", "an item in a queue"},
        {"/threading.py", "Thread.join", "the end of a thread"},
        {"/threading.py", "Thread.run", NULL},
        {"/myqueue.py", "get", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char file[128];
        snprintf(file, sizeof file, "%s%s", library, rows[i].file);
        struct python_frame frames[] = {{"Condition.wait", "/usr/lib/python3.11/threading.py", 327, false},
                                        {rows[i].function, file, 10, false},
                                        {"work", "/home/u/steer.py", 3, false}};
        const struct python_thread thread = {.frames = frames, .count = 3}, own = {.frames = frames + 2, .count = 1};
        const char *what = python_waits_for(&thread);
        assert_string_equal(what ? what : "", rows[i].what ? rows[i].what : "");
        assert_null(python_waits_for(&own));
    }
}

/* What was put into a queue waits in a thread of its own for its reader, and the process at its end for that thread. */
static void feeds_queue(void **state)
{
    static const char queues[] = "/usr/lib/python3.11/multiprocessing/queues.py", what[] = "somebody to read ";
    struct python_frame frames[] = {
        {"Connection._send", "/usr/lib/python3.11/multiprocessing/connection.py", 367, false},
        {"Queue._feed", queues, 250, false},
        {"Thread.run", "/usr/lib/python3.11/threading.py", 975, false}};
    const struct python_thread thread = {.frames = frames, .count = 3};
    assert_true(strncmp(python_waits_for(&thread), what, sizeof what - 1) == 0);
    frames[0].file = "/usr/lib/python3.11/threading.py"; /* it waits for something to write */
    assert_null(python_waits_for(&thread));
    frames[1].function = "Queue._finalize_join";
    frames[2] = (struct python_frame){"<module>", "/home/u/steer.py", 8, false};
    assert_true(strncmp(python_waits_for(&thread), what, sizeof what - 1) == 0);
}

static void known_lines(void **state)
{
    char list[1024];
    (void)state;
    snprintf(list, sizeof list, "%s", getenv("PYTHONS") ? getenv("PYTHONS") : "python3");
    for (char *rest = list, *python; (python = strsep(&rest, " ")) != NULL;)
        check(python);
}

/* ---- damaged memory ---- */

struct damage {
    struct python_memory real;
    unsigned seed, one_in;
};

static int read_damaged(void *ctx, const struct python_part *parts, size_t count)
{
    struct damage *damage = ctx;
    int r = damage->real.read(damage->real.ctx, parts, count);
    for (size_t i = 0; i < count && r == 0; i++)
        if (parts[i].size && (unsigned)rand_r(&damage->seed) % damage->one_in == 0) {
            unsigned char *byte = (unsigned char *)parts[i].bytes + (unsigned)rand_r(&damage->seed) % parts[i].size;
            *byte = (unsigned char)rand_r(&damage->seed);
        }
    return r;
}

static void damaged(void **state)
{
    struct child child;
    (void)state;
    if (!start(&child, "python3")) {
        stop(&child);
        print_message("SKIP: no python3\n");
        skip();
    }
    assert_int_equal(python_find(&child.program, child.pid), 0);
    for (unsigned seed = 0; seed < 3000; seed++) {
        struct damage damage = {child.memory, seed, 1U << seed % 9};
        struct python_memory memory = {read_damaged, &damage};
        struct python_program program = child.program;
        struct python_stacks stacks;
        if (seed % 3 == 0) /* offsets that make no sense, too */
            ((uint32_t *)&program.layout)[seed % (offsetof(struct python_layout, lines) / sizeof(uint32_t))] =
                seed * 37;
        python_read(&stacks, &program, &memory, 0, PYTHON_FRAMES);
        for (size_t i = 0; i < stacks.count; i++)
            for (size_t j = 0; j < stacks.threads[i].count; j++) {
                const struct python_frame *frame = &stacks.threads[i].frames[j];
                assert_true(strlen(frame->file) <= PYTHON_FILE + 3 && strlen(frame->function) <= PYTHON_NAME + 3);
                assert_true(frame->line >= -1);
            }
        python_stacks_done(&stacks);
    }
    stop(&child);
}

static void no_python(void **state)
{
    struct python_program program;
    (void)state;
    assert_int_equal(python_find(&program, getpid()), -ENOENT);
}

/* ---- tables that CPython 3.9, 3.10 and 3.11 made of the same two functions, with what co_lines() says of them ---- */

#define SIZED(...) \
    (const uint8_t[]){__VA_ARGS__}, sizeof(const uint8_t[]) \
    { \
        __VA_ARGS__ \
    }

struct expected {
    int64_t at, line;
};

static void check_lines(enum python_lines kind, const uint8_t *table, size_t size, int64_t first,
                        const struct expected *expected, size_t count)
{
    for (size_t i = 0; i < count; i++)
        assert_int_equal(python_line(kind, table, size, first, expected[i].at), expected[i].line);
}
#define CHECK(kind, first, table_and_size, ...) \
    check_lines(kind, table_and_size, first, (const struct expected[]){__VA_ARGS__}, \
                sizeof((const struct expected[]){__VA_ARGS__}) / sizeof(struct expected))

static void of_3_9(void **state)
{
    (void)state;
    CHECK(PYTHON_LINES_LNOTAB, 1, SIZED(0, 1, 4, 2, 8, 1, 4, 1, 2, 255, 6, 2, 6, 1, 2, 255), {-1, 1}, {0, 2}, {2, 2},
          {4, 4}, {12, 5}, {16, 6}, {18, 5}, {24, 7}, {30, 8}, {36, 7});
}

static void of_3_10(void **state)
{
    (void)state;
    CHECK(PYTHON_LINES_RANGES, 1, SIZED(4, 1, 8, 2, 4, 1, 2, 1, 6, 255, 6, 2, 2, 1, 6, 255), {-1, 1}, {0, 2}, {10, 4},
          {16, 6}, {18, 5}, {24, 7}, {30, 8}, {36, 7}, {38, -1});
    CHECK(PYTHON_LINES_RANGES, 7, SIZED(2, 1, 2, 128, 2, 1), {0, 8}, {2, -1}, {4, 9}); /* no line in between */
}

static void since_3_11(void **state)
{
    (void)state;
    CHECK(PYTHON_LINES_LOCATIONS, 209,
          SIZED(128, 0, 240, 2, 3, 5, 13, 216, 8, 9, 136, 1, 137, 3, 140, 3, 136, 3, 136, 3, 136, 3, 248, 221, 11, 18,
                240, 0, 1, 5, 13, 240, 0, 1, 5, 13, 240, 0, 1, 5, 13, 216, 8, 12, 136, 4, 136, 4, 240, 3, 1, 5, 13, 248,
                248, 248),
          {-2, 209}, {0, 209}, {2, 210}, {4, 211}, {26, 211}, {28, -1}, {40, 212}, {48, 213}, {54, 212}, {56, -1},
          {62, -1});
}

static void damaged_tables(void **state)
{
    uint8_t table[64];
    (void)state;
    srand(7);
    for (int round = 0; round < 20000; round++) {
        for (size_t i = 0; i < sizeof table; i++)
            table[i] = (uint8_t)rand();
        for (int kind = PYTHON_LINES_LNOTAB; kind <= PYTHON_LINES_LOCATIONS; kind++) {
            int64_t line = python_line(kind, table, (size_t)rand() % sizeof table, rand(), rand() % 256);
            assert_true(line >= -1 && line <= INT32_MAX);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits_for), cmocka_unit_test(feeds_queue), cmocka_unit_test(known_lines),
        cmocka_unit_test(damaged),   cmocka_unit_test(no_python),   cmocka_unit_test(of_3_9),
        cmocka_unit_test(of_3_10),   cmocka_unit_test(since_3_11),  cmocka_unit_test(damaged_tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
