/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of files that grow, are renamed, cut short, removed, or are no files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/data/buf.h"
#include "base/system/clock.h"
#include "job/logs/files.h"

static char dir[] = "/tmp/scry-tail-XXXXXX", path[64], other[64];
static struct buf text, states; /* lines with | behind each block; the words of states */
static size_t longest;
static bool was_cut;

static void on_lines(void *ctx, const char *bytes, size_t len, bool cut)
{
    longest = len > longest ? len : longest;
    was_cut |= cut;
    buf_append(&text, bytes, len < 100 ? len : 100);
    buf_putc(&text, '|');
}

static void on_state(void *ctx, enum tail_state state, bool first, uint64_t bytes, const char *reason)
{
    buf_printf(&states, "%s%s%.0llu ", tail_state_names[state], first ? "*" : "", (unsigned long long)bytes);
}

static void append(const char *name, const char *bytes)
{
    FILE *file = fopen(name, "a");
    fputs(bytes, file);
    fclose(file);
}

static void look_and_read(struct tail *tail)
{
    tail_look(tail, false);
    while (tail_read(tail))
        continue;
}

static void assert_seen(const char *lines, const char *said)
{
    assert_string_equal(text.data ? text.data : "", lines);
    assert_string_equal(states.data ? states.data : "", said);
    buf_clear(&text);
    buf_clear(&states);
}

static struct tail start(void)
{
    struct tail tail;
    tail_init(&tail, path, (struct tail_calls){.lines = on_lines, .state = on_state});
    return tail;
}

static int clean(void **state)
{
    unlink(path);
    unlink(other);
    buf_done(&text);
    buf_done(&states);
    longest = was_cut = 0;
    return 0;
}

static void test_grows(void **state)
{
    append(path, "old\nhal");
    struct tail tail = start();
    tail_look(&tail, true);
    look_and_read(&tail);
    assert_seen("", "watched ");
    append(path, "f\nnew\nx");
    look_and_read(&tail);
    assert_seen("f\nnew\n|", "");
    append(path, "y\r10%\r");
    look_and_read(&tail);
    assert_seen("xy\r10%\r|", "");
    append(path, "rest");
    look_and_read(&tail);
    assert_seen("", "");
    tail_end(&tail);
    assert_seen("rest|", "");
    tail_done(&tail);
}

static void test_appears_and_goes(void **state)
{
    struct tail tail = start();
    look_and_read(&tail);
    look_and_read(&tail);
    assert_seen("", "waited_for ");
    append(path, "a\n");
    look_and_read(&tail);
    assert_seen("a\n|", "watched* ");
    append(path, "last");
    unlink(path);
    for (int i = 0; i < 4; i++)
        look_and_read(&tail);
    assert_seen("last|", "removed ");
    assert_int_equal(tail.fd, -1); /* its blocks are free */
    append(path, "b\n");
    look_and_read(&tail);
    assert_seen("b\n|", "watched* ");
    tail_done(&tail);
}

static bool always(void *ctx, int fd)
{
    return fd >= 0;
}

/* On NFS an open file cannot be removed with its directory. */
static void test_rests(void **state)
{
    struct tail tail = start();
    tail.calls.yields = always;
    append(path, "a\nb");
    look_and_read(&tail);
    tail_rest(&tail);
    assert_seen("a\n|", "watched* ");
    assert_true(tail.fd < 0 && tail_is_open(&tail));
    append(path, "c\nd");
    look_and_read(&tail);
    assert_seen("bc\n|", "");
    tail_rest(&tail);
    rename(path, other); /* and another one in its place */
    append(path, "e\n");
    look_and_read(&tail);
    assert_seen("d|e\n|", "rotated* ");
    tail_rest(&tail);
    unlink(path);
    look_and_read(&tail);
    look_and_read(&tail);
    assert_seen("", "removed ");
    assert_false(tail_is_open(&tail));
    append(path, "f\n");
    look_and_read(&tail);
    assert_seen("f\n|", "watched* ");
    tail_done(&tail);
}

/* What a process said last is known when its file is gone. */
static void test_stream_rests(void **state)
{
    struct tail tail = start();
    tail.calls.yields = always;
    tail.stream = true;
    append(path, "one\ntwo\n");
    look_and_read(&tail);
    tail_rest(&tail);
    unlink(path);
    append(path, "another's\n");
    look_and_read(&tail);
    look_and_read(&tail);
    assert_seen("one\ntwo\n|", "watched* removed ");
    tail_end(&tail);
    assert_int_equal(tail.last_len, 8);
    assert_memory_equal(tail.last, "one\ntwo\n", 8);
    tail_done(&tail);
}

static void test_rotates(void **state)
{
    struct tail tail = start();
    append(path, "1\n");
    look_and_read(&tail);
    rename(path, other);
    append(other, "2\n");
    append(path, "4\n");
    look_and_read(&tail);
    append(other, "3\n"); /* whoever writes has not noticed yet */
    for (int i = 0; i < 4; i++)
        look_and_read(&tail);
    assert_seen("1\n|2\n|3\n|4\n|", "watched* rotated* ");
    tail_done(&tail);
}

static void test_is_cut_short(void **state)
{
    struct tail tail = start();
    append(path, "one\ntwo\nthr");
    look_and_read(&tail);
    assert_int_equal(truncate(path, 0), 0);
    append(path, "1\n");
    look_and_read(&tail);
    assert_seen("one\ntwo\n|1\n|", "watched* truncated* ");
    tail_done(&tail);
}

static void test_long_line(void **state)
{
    enum { LONG = 10 << 20 };
    char *bytes = malloc(LONG);
    memset(bytes, 'a', LONG);
    bytes[LONG - 1] = 0;
    append(path, "b\n");
    append(path, bytes);
    append(path, "\nc\n");
    struct tail tail = start();
    look_and_read(&tail);
    assert_true(was_cut);
    assert_int_equal(longest, LINE_MOST);
    assert_non_null(strstr(text.data, "a|\nc\n|"));
    assert_int_equal(strncmp(text.data, "b\n|aaa", 6), 0);
    tail_done(&tail);
    free(bytes);
}

/* A file was made empty, and its writer went on where it was: what comes is whole. */
static void test_hole(void **state)
{
    append(path, "a\n");
    struct tail tail = start();
    look_and_read(&tail);
    assert_int_equal(truncate(path, (1 << 20) + 17), 0);
    append(path, "b\n");
    was_cut = false;
    longest = 0;
    look_and_read(&tail);
    assert_false(was_cut);
    assert_true(longest >= 2);
    tail_done(&tail);
}

static void test_skips(void **state)
{
    append(path, "1\n2\n3\n4\n5\n");
    struct tail tail = start();
    tail_look(&tail, false);
    tail_skip(&tail, 10, "");
    assert_seen("", "watched* ");
    tail_skip(&tail, 5, "");
    look_and_read(&tail);
    assert_seen("\n4\n5\n|", "skipped5 ");
    tail_done(&tail);
}

/* Nobody who writes to it notices, and it is said once. */
static void test_pipe(void **state)
{
    assert_int_equal(mkfifo(path, 0600), 0);
    struct tail tail = start();
    look_and_read(&tail);
    look_and_read(&tail);
    assert_seen("", "unwatched ");
    assert_int_equal(open(path, O_WRONLY | O_NONBLOCK), -1); /* ENXIO: there is no reader */
    tail_done(&tail);
}

static void test_no_files(void **state)
{
    static const char *const names[] = {"/", "/dev/null", "/proc/self/status", "/proc/self/status/x"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct tail tail = start();
        tail.path = names[i];
        look_and_read(&tail);
        assert_seen("", i < 3 ? "unwatched " : "waited_for ");
        tail_done(&tail);
    }
}

/* Whatever the pieces in which it is read, the lines are the same. */
static void test_pieces(void **state)
{
    static const char all[] = "one\r\n\ntwo\n\0three\rfour\n\n\nfive";
    for (size_t piece = 1; piece < sizeof all; piece++) {
        struct lines lines = {0};
        size_t room;
        for (size_t at = 0; at < sizeof all - 1; at += piece) {
            size_t len = sizeof all - 1 - at < piece ? sizeof all - 1 - at : piece;
            memcpy(lines_room(&lines, &room), all + at, len);
            lines_take(&lines, len, on_lines, NULL);
        }
        lines_end(&lines, on_lines, NULL);
        size_t len = 0;
        for (size_t i = 0; i < text.len; i++)
            if (text.data[i] != '|')
                text.data[len++] = text.data[i];
        assert_int_equal(len, sizeof all - 1);
        assert_memory_equal(text.data, all, len);
        buf_clear(&text);
        lines_done(&lines);
    }
}

static void no_put(void *ctx, enum record_type type, const void *row)
{
}

static void no_note(void *ctx, struct note note)
{
}

/* A process that has the file as its standard output and error, and has written there, if it may. */
static pid_t start_writer(const char *file, int flags, int ends[2])
{
    char byte;
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        int fd = open(file, flags, 0600);
        dup2(dup2(fd, STDOUT_FILENO), STDERR_FILENO);
        close(ends[0]);
        if (!(flags & O_ACCMODE) || write(STDOUT_FILENO, "mine\n", 5) == 5)
            close(ends[1]); /* the other end sees that it is so far */
        pause();
        _exit(0);
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &byte, 1), 0);
    close(ends[0]);
    return pid;
}

/* How many files are found, and from where on the first is read. */
static size_t find_streams(const char *file, int flags, uint64_t *ret_offset)
{
    const struct log_sink sink = {NULL, no_put, no_note};
    struct log_files files = {
        .expressions.sink = &sink, .cwd = dir, .now_ns = clock_now_ns, .start_ns = UINT64_MAX - 1};
    int ends[2];
    pid_t pid = start_writer(file, flags, ends);
    log_files_add_streams(&files, pid, 1);
    log_files_add_streams(&files, pid, 1); /* it is known */
    size_t count = HASH_COUNT(files.files);
    log_files_note_holder(&files, pid, getpid()); /* which has it only where it reads it */
    assert_true(!count || !files.files->holder);
    log_files_note_holder(&files, pid, pid);
    assert_true(!count || files.files->holder == pid);
    assert_int_equal(files.found_count, count);
    *ret_offset = count ? files.files->tail.offset : 0;
    if (count)
        assert_string_equal(files.files->name, "log");
    log_files_done(&files);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    return count;
}

static unsigned put_lines;

static void put_line(void *ctx, enum record_type type, const void *row)
{
    put_lines += type == RECORD_log;
}

/* Of what is compressed no line is a message; of a log with some strange letters each is. */
static void test_data(void **state)
{
    static const char error[] = "ERROR: no space left\n";
    static const struct {
        const char *head;
        unsigned found;
    } rows[] = {{"\x1b[1mbold\x1b[0m\tand \b\a words that go on for a while \x01\n", 1},
                {"\x01\x02\xff\x03\x04\x05\x06\x0e\x0f\x10\n", 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct log_sink sink = {NULL, put_line, no_note};
        struct log_files files = {
            .expressions.sink = &sink, .cwd = dir, .now_ns = clock_now_ns, .start_ns = UINT64_MAX - 1};
        int ends[2];
        append(path, "");
        pid_t pid = start_writer(path, O_WRONLY | O_TRUNC, ends);
        log_files_add_streams(&files, pid, 1);
        assert_int_equal(HASH_COUNT(files.files), 1);
        put_lines = 0;
        for (unsigned k = 0; k < 20; k++) {
            append(path, rows[i].head);
            append(path, k % 10 == 5 ? error : rows[i].head);
        }
        files.files->matcher.rows = UINT64_MAX;
        look_and_read(&files.files->tail);
        log_files_done(&files);
        kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        assert_int_equal(put_lines > 0, rows[i].found);
    }
}

/* What a script redirects: a file that is written anew is read whole, of what is appended to only what is new. */
static void test_streams_of_processes(void **state)
{
    uint64_t offset;
    append(path, "of before\n");
    assert_int_equal(find_streams(path, O_WRONLY | O_TRUNC, &offset), 1);
    assert_int_equal(offset, 0);
    assert_int_equal(find_streams(path, O_WRONLY | O_APPEND, &offset), 1);
    assert_int_equal(offset, 10);
    assert_int_equal(find_streams(path, O_RDONLY, &offset), 0);
    assert_int_equal(find_streams("/dev/null", O_WRONLY, &offset), 0);
}

/* What a program has opened by itself, to write, and is called a log. */
static void test_logs_of_processes(void **state)
{
    static const struct {
        const char *name;
        int flags;
        bool found;
    } rows[] = {
        {"log", O_WRONLY, true},
        {"solver.log", O_WRONLY, true},
        {"log.simpleFoam", O_RDWR, true},
        {"rsl.error.0000", O_WRONLY, true},
        {"beam.msg", O_WRONLY, true},
        {"run.0001", O_WRONLY, false},
        {"error.h5", O_WRONLY, false},
        {"run_LOG.txt", O_WRONLY, true},
        {"model.3.err", O_WRONLY, true},
        {"solver.log", O_RDONLY, false},
        {"catalog", O_WRONLY, false},
        {"login.db", O_WRONLY, false},
        {"grid.nc", O_WRONLY, false},
        {"events.jsonl", O_WRONLY, true},
        {"trace.ndjson", O_WRONLY, true},
        {"output.txt", O_WRONLY, true},
        {"run7_stdout.txt", O_WRONLY, true},
        {"table.txt", O_WRONLY, false},
        {"output.csv", O_WRONLY, false},
        {".txt", O_WRONLY, false},
    };
    const struct log_sink sink = {NULL, no_put, no_note};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct log_files files = {
            .expressions.sink = &sink, .cwd = dir, .now_ns = clock_now_ns, .start_ns = UINT64_MAX - 1};
        char name[128];
        snprintf(name, sizeof name, "%s/%s", dir, rows[i].name);
        int fd = open(name, rows[i].flags | O_CREAT, 0600);
        assert_true(fd >= 0);
        log_files_add_logs(&files, getpid(), 1);
        log_files_add_logs(&files, getpid(), 1); /* it is known */
        if (HASH_COUNT(files.files) != rows[i].found)
            fail_msg("%s", rows[i].name);
        if (rows[i].found) {
            assert_string_equal(files.files->name, rows[i].name);
            assert_true(files.files->data && files.files->log);
        }
        log_files_done(&files);
        close(fd);
        unlink(name);
    }
}

/* What was written within a moment by nobody knows whom: logs of the job's time, of those before it what is new. */
static void test_logs_written_soon(void **state)
{
    static const struct {
        const char *name;
        bool before, written, late, found;
        uint64_t offset;
    } rows[] = {{"run.log", false, true, false, true, 0},
                {"old.log", true, true, false, true, 10},
                {"idle.log", true, false, false, false, 0},
                {"table.csv", false, true, false, false, 0},
                {"next.log", false, true, true, false, 0}};
    const struct log_sink sink = {NULL, no_put, no_note};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct log_files files = {.expressions.sink = &sink, .cwd = dir, .now_ns = clock_now_ns};
        char name[128];
        snprintf(name, sizeof name, "%s/%s", dir, rows[i].name);
        if (rows[i].before)
            append(name, "of before\n");
        files.start_ns = clock_ns(CLOCK_REALTIME_COARSE);
        log_files_note_logs(&files, dir);
        if (rows[i].written)
            append(name, "ERROR: of now\n");
        uint64_t end_ns = clock_wall_ns();
        log_files_find_logs(&files, dir, 7, rows[i].late ? end_ns - NS_PER_SECOND : end_ns);
        log_files_find_logs(&files, dir, 7, rows[i].late ? end_ns - NS_PER_SECOND : end_ns); /* it is known */
        if (HASH_COUNT(files.files) != rows[i].found)
            fail_msg("%s", rows[i].name);
        if (rows[i].found) {
            assert_string_equal(files.files->name, rows[i].name);
            assert_true(files.files->data && files.files->log && files.files->found == 7);
            assert_int_equal(files.files->tail.offset, rows[i].offset);
        }
        log_files_done(&files);
        unlink(name);
    }
}

/* And those in directories of its time, unless others may have made them. */
static void test_logs_in_new_places(void **state)
{
    static const struct {
        const char *names[2];
        bool alone;
        unsigned found;
    } rows[] = {{{"out/1/run.log", NULL}, false, 1},      {{"out/1/2/3/run.log", NULL}, false, 0},
                {{"out/table.csv", NULL}, false, 0},      {{"out/.hidden.log", NULL}, false, 0},
                {{"out/1/run.log", NULL}, true, 1},       {{"out/run.log", "out/err.log"}, false, 2},
                {{"out/run.log", "out/err.log"}, true, 0}};
    const struct log_sink sink = {NULL, no_put, no_note};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct log_files files = {
            .expressions.sink = &sink, .cwd = dir, .now_ns = clock_now_ns, .start_ns = clock_ns(CLOCK_REALTIME_COARSE)};
        char name[128];
        static const char *const folders[] = {"out", "out/1", "out/1/2", "out/1/2/3"};
        for (size_t k = 0; k < 4; k++) {
            snprintf(name, sizeof name, "%s/%s", dir, folders[k]);
            mkdir(name, 0700);
        }
        for (size_t k = 0; k < 2 && rows[i].names[k]; k++) {
            snprintf(name, sizeof name, "%s/%s", dir, rows[i].names[k]);
            append(name, "ERROR: of now\n");
        }
        log_files_find_new(&files, dir, 7, files.start_ns, clock_wall_ns(), rows[i].alone);
        assert_int_equal(HASH_COUNT(files.files), rows[i].found);
        if (rows[i].found == 1)
            assert_string_equal(files.files->name, rows[i].names[0]);
        log_files_done(&files);
        for (size_t k = 0; k < 2 && rows[i].names[k]; k++) {
            snprintf(name, sizeof name, "%s/%s", dir, rows[i].names[k]);
            unlink(name);
        }
        for (size_t k = 4; k-- > 0;) {
            snprintf(name, sizeof name, "%s/%s", dir, folders[k]);
            rmdir(name);
        }
    }
}

/* By its text: what was there before has at least its last line from the job. */
static void test_outputs_of_scripts(void **state)
{
    const struct log_sink sink = {NULL, no_put, no_note};
    struct log_files files = {.expressions.sink = &sink, .cwd = dir, .now_ns = clock_now_ns};
    char name[128], link[128];
    snprintf(name, sizeof name, "%s/out.txt", dir);
    snprintf(link, sizeof link, "%s/link.txt", dir);
    append(name, "ERROR: of before\n");
    files.start_ns = clock_wall_ns() + NS_PER_SECOND;
    assert_null(log_files_find_output(&files, name)); /* nothing was written */
    struct timespec now[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = (time_t)(files.start_ns / NS_PER_SECOND) + 1}};
    append(name, "no convergence\n");
    assert_int_equal(utimensat(AT_FDCWD, name, now, 0), 0);
    assert_int_equal(symlink(name, link), 0);
    assert_null(log_files_find_output(&files, link));
    struct log_file *file = log_files_find_output(&files, name);
    assert_non_null(file);
    assert_int_equal(file->tail.start, strlen("ERROR: of before\n"));
    assert_ptr_equal(log_files_find_output(&files, name), file);
    log_files_done(&files);
    unlink(link);
    unlink(name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_grows, clean),
        cmocka_unit_test_teardown(test_appears_and_goes, clean),
        cmocka_unit_test_teardown(test_rests, clean),
        cmocka_unit_test_teardown(test_stream_rests, clean),
        cmocka_unit_test_teardown(test_rotates, clean),
        cmocka_unit_test_teardown(test_is_cut_short, clean),
        cmocka_unit_test_teardown(test_long_line, clean),
        cmocka_unit_test_teardown(test_hole, clean),
        cmocka_unit_test_teardown(test_skips, clean),
        cmocka_unit_test_teardown(test_pipe, clean),
        cmocka_unit_test_teardown(test_data, clean),
        cmocka_unit_test_teardown(test_streams_of_processes, clean),
        cmocka_unit_test_teardown(test_logs_of_processes, clean),
        cmocka_unit_test_teardown(test_logs_written_soon, clean),
        cmocka_unit_test_teardown(test_logs_in_new_places, clean),
        cmocka_unit_test_teardown(test_outputs_of_scripts, clean),
        cmocka_unit_test_teardown(test_no_files, clean),
        cmocka_unit_test_teardown(test_pieces, clean),
    };
    if (!mkdtemp(dir))
        return 1;
    snprintf(path, sizeof path, "%s/log", dir);
    snprintf(other, sizeof other, "%s/log.1", dir);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rmdir(dir);
    return failed;
}
