/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "wire/stream.h"

static char dir[64], path[96];
static struct err err;

static int setup(void **state)
{
    snprintf(dir, sizeof dir, "/tmp/scry-test-local-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof path, "%s/socket", dir);
    return 0;
}

static int teardown(void **state)
{
    unlink(path);
    return rmdir(dir);
}

static void tool_and_monitor_meet(void **state)
{
    int listener = local_listen(path, &err);
    assert_true(listener >= 0);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_true(fcntl(listener, F_GETFD) & FD_CLOEXEC);
    assert_true(fcntl(listener, F_GETFL) & O_NONBLOCK);
    assert_int_equal(accept(listener, NULL, NULL), -1);
    assert_int_equal(errno, EAGAIN);
    int tool = local_connect(path, &err);
    assert_true(tool >= 0);
    assert_true(fcntl(tool, F_GETFD) & FD_CLOEXEC);
    assert_false(fcntl(tool, F_GETFL) & O_NONBLOCK);
    int monitor = accept(listener, NULL, NULL);
    assert_true(monitor >= 0);
    uid_t uid = (uid_t)-1;
    pid_t pid = -1;
    assert_int_equal(local_peer(monitor, &uid, &pid), 0);
    assert_int_equal(uid, geteuid());
    assert_int_equal(pid, getpid());
    assert_int_equal(local_peer(monitor, NULL, NULL), 0);
    assert_int_equal(write(tool, "x", 1), 1);
    char byte = 0;
    assert_int_equal(read(monitor, &byte, 1), 1);
    assert_int_equal(byte, 'x');
    close(tool);
    close(monitor);
    close(listener);
}

static void the_mode_does_not_depend_on_the_umask(void **state)
{
    mode_t old = umask(0);
    int listener = local_listen(path, &err);
    umask(old);
    assert_true(listener >= 0);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    close(listener);
}

static void a_living_socket_is_not_taken(void **state)
{
    int listener = local_listen(path, &err);
    assert_true(listener >= 0);
    assert_int_equal(local_listen(path, &err), -EADDRINUSE);
    assert_non_null(strstr(err.text, "somebody answers at"));
    int tool = local_connect(path, &err); /* the first still answers */
    assert_true(tool >= 0);
    close(tool);
    close(listener);
}

static void a_dead_socket_is_replaced(void **state)
{
    int listener = local_listen(path, &err);
    assert_true(listener >= 0);
    close(listener); /* the file stays, as after SIGKILL */
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(local_connect(path, &err), -ECONNREFUSED);
    assert_non_null(strstr(err.text, path));
    listener = local_listen(path, &err);
    assert_true(listener >= 0);
    int tool = local_connect(path, &err);
    assert_true(tool >= 0);
    close(tool);
    close(listener);
}

static void a_file_that_is_there_can_be_connected_to(void **state)
{
    for (int i = 0; i < 200; i++) {
        pid_t child = fork();
        if (child == 0) {
            while (access(path, F_OK) < 0)
                sched_yield();
            _exit(local_connect(path, &err) >= 0 ? 0 : 1);
        }
        int listener = local_listen(path, &err);
        assert_true(listener >= 0);
        int status = -1;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        close(listener);
        unlink(path);
    }
}

static void what_is_no_socket_is_left_alone(void **state)
{
    int fd = open(path, O_CREAT | O_WRONLY, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "precious", 8), 8);
    close(fd);
    assert_int_equal(local_listen(path, &err), -ENOTSOCK);
    assert_non_null(strstr(err.text, "is no socket: remove it"));
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, 8);
    unlink(path);
    assert_int_equal(symlink("/nonexistent", path), 0);
    assert_int_equal(local_listen(path, &err), -ENOTSOCK);
}

static void paths_have_a_longest_length(void **state)
{
    char far[200];
    memset(far, 'x', sizeof far);
    far[108] = 0;
    assert_int_equal(local_listen(far, &err), -ENAMETOOLONG);
    assert_non_null(strstr(err.text, "has 108 bytes, 107 are possible"));
    assert_int_equal(local_connect(far, &err), -ENAMETOOLONG);
    far[107] = 0; /* short enough: fails for another reason */
    assert_int_equal(local_connect(far, &err), -ENOENT);
    assert_int_equal(local_connect("", &err), -EINVAL); /* would be the kernel's choice of a name */
    assert_int_equal(local_listen("", &err), -EINVAL);
    snprintf(far, sizeof far, "%s/none/socket", dir);
    assert_int_equal(local_listen(far, &err), -ENOENT);
    assert_int_equal(local_peer(-1, NULL, NULL), -EBADF);
}

/* What does not fit stays, in both directions, and what was said before the end is read before the end. */
static void bytes_wait_for_room(void **state)
{
    enum { ALL = 4 << 20, MOST = 256 << 10 };
    struct buf out = BUF_INIT, in = BUF_INIT;
    int ends[2], code;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    for (size_t i = 0; i < ALL; i++)
        buf_putc(&out, (char)(i * 2654435761u >> 13));
    assert_int_equal(local_receive(ends[1], &in, MOST), 0);
    assert_int_equal(in.len, 0);
    assert_int_equal(local_send(ends[0], &out), -EAGAIN);
    size_t left = out.len;
    assert_true(left > 0 && left < ALL);
    assert_int_equal(local_receive(ends[1], &in, 1), 0);
    assert_in_range(in.len, 1, 64 << 10);
    while ((code = local_send(ends[0], &out)) == -EAGAIN) {
        size_t before = in.len;
        assert_int_equal(local_receive(ends[1], &in, MOST), 0);
        assert_true(in.len < before + MOST + (64 << 10));
    }
    assert_int_equal(code, 0);
    close(ends[0]);
    while ((code = local_receive(ends[1], &in, MOST)) == 0)
        ;
    assert_int_equal(code, -EPIPE);
    assert_int_equal(in.len, ALL);
    for (size_t i = 0; i < ALL; i++)
        if (in.data[i] != (char)(i * 2654435761u >> 13))
            fail_msg("byte %zu is wrong", i);
    buf_putc(&out, 'x');
    assert_int_equal(local_send(ends[1], &out), -EPIPE);
    assert_int_equal(out.len, 1);
    close(ends[1]);
    buf_done(&out);
    buf_done(&in);
}

#define EACH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH(tool_and_monitor_meet),
        EACH(the_mode_does_not_depend_on_the_umask),
        EACH(a_living_socket_is_not_taken),
        EACH(a_dead_socket_is_replaced),
        EACH(a_file_that_is_there_can_be_connected_to),
        EACH(what_is_no_socket_is_left_alone),
        EACH(paths_have_a_longest_length),
        cmocka_unit_test(bytes_wait_for_room),
    };
    return cmocka_run_group_tests_name("local", tests, NULL, NULL);
}
