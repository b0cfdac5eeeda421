/* SPDX-License-Identifier: Apache-2.0 */
/* What programs say of their commands when they begin: real ones, with the library as it is. argv[1]: the library. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "shm/area.h"

static char *library;
static char dir[64], fifo[96], sockets[128];

static int start(void **state)
{
    snprintf(dir, sizeof dir, "/tmp/test_command.XXXXXX");
    assert_non_null(mkdtemp(dir));
    snprintf(fifo, sizeof fifo, "%s/" COMMAND_FIFO, dir);
    snprintf(sockets, sizeof sockets, "SCRY_AGENT_SOCKET=%s/agent.sock", dir); /* nobody is there */
    return mkfifo(fifo, 0600);
}

static int stop(void **state)
{
    unlink(fifo);
    return rmdir(dir);
}

/* Runs it with the library, in the directory; its wait status. */
static int run(char *const *argv)
{
    char preload[4096];
    int status;
    snprintf(preload, sizeof preload, "LD_PRELOAD=%s", library);
    char *const environment[] = {preload, sockets, NULL};
    pid_t pid = fork();
    if (pid == 0) {
        if (chdir(dir) == 0)
            execve(argv[0], argv, environment);
        _exit(99);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

union said {
    struct command_note note;
    char bytes[PIPE_BUF];
};

static void read_command(int fd, union said *said)
{
    ssize_t got = read(fd, said, sizeof said->note);
    assert_int_equal(got, sizeof said->note);
    assert_int_equal(said->note.magic, COMMAND_MAGIC);
    size_t rest = said->note.size - sizeof said->note;
    assert_int_equal(read(fd, said->note.texts, rest), rest);
}

static char name_true[] = "/bin/true", argument[] = "an argument", nothing[] = "";

static void test_said(void **state)
{
    char *const argv[] = {name_true, argument, nothing, NULL};
    union said said;
    int fd = open(fifo, O_RDONLY | O_NONBLOCK);
    assert_int_equal(run(argv), 0);
    read_command(fd, &said);
    assert_true(said.note.pid > 0);
    assert_true(said.note.time_ns > 0);
    assert_int_equal(said.note.flags, 0);
    assert_string_equal(said.note.texts, dir);
    const char *args = said.note.texts + said.note.directory;
    static const char wanted[] = "/bin/true\0an argument\0";
    assert_int_equal(said.note.size, sizeof said.note + said.note.directory + sizeof wanted);
    assert_memory_equal(args, wanted, sizeof wanted);
    close(fd);
}

/* One write that is whole or not at all: what is too long is cut, and said to be. */
static void test_long_one(void **state)
{
    static char word[3000];
    memset(word, 'x', sizeof word - 1);
    char *const argv[] = {name_true, word, word, word, NULL};
    union said said;
    int fd = open(fifo, O_RDONLY | O_NONBLOCK);
    assert_int_equal(run(argv), 0);
    read_command(fd, &said);
    assert_int_equal(said.note.flags, COMMAND_CUT);
    assert_int_equal(said.note.size, sizeof said.bytes);
    assert_int_equal(said.bytes[said.note.size - 1], 'x');
    assert_int_equal(read(fd, said.bytes, 1), 0);
    close(fd);
}

/* Nobody reads, the fifo is full, is not there: no matter. */
static void test_nobody_hears(void **state)
{
    char *const argv[] = {name_true, NULL};
    assert_int_equal(run(argv), 0);
    int fd = open(fifo, O_RDWR | O_NONBLOCK);
    static char bytes[4096];
    while (write(fd, bytes, sizeof bytes) > 0)
        ;
    assert_int_equal(run(argv), 0);
    close(fd);
    unlink(fifo);
    assert_int_equal(run(argv), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_said, start, stop),
        cmocka_unit_test_setup_teardown(test_long_one, start, stop),
        cmocka_unit_test_setup_teardown(test_nobody_hears, start, stop),
    };
    library = argc > 1 ? realpath(argv[1], NULL) : NULL;
    if (!library)
        return 1;
    return cmocka_run_group_tests_name("agent command", tests, NULL, NULL);
}
