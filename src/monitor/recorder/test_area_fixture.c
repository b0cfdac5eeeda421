/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/recorder/test_area_fixture.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/data/buf.h"
#include "base/system/file.h"
#include "monitor/tracing/tracing.h"
#include "monitor/mpi/mpi.h"

char dir[64], job[128];
struct loop *loop;
struct monitor *monitor;
struct agents *agents;
static void (*attach_agents)(void);

/* ---- the monitor ---- */

static int register_nothing(struct monitor *made)
{
    made->tracing = &tracing_for_engine;
    return 0;
}

void fixture_agents(void)
{
    struct err err = {0};
    if (agents_new(&agents, monitor, dir, &agents_mpi, &err) < 0)
        fail_msg("%s", err.text);
    if (attach_agents)
        attach_agents();
    assert_int_equal(agents_job_set(agents, job, NULL, NULL, &err), 0);
}

int fixture_start(void (*attach)(void))
{
    struct err err;
    attach_agents = attach;
    strcpy(dir, "/tmp/scry-area-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(job, sizeof job, "%s/job", dir);
    setenv("SCRY_CACHE_DIR", dir, 1);
    if (mkdir(job, 0700) < 0 || loop_new(&loop) < 0 || monitor_new(&monitor, loop, register_nothing, &err) < 0)
        return -1;
    fixture_agents();
    return 0;
}

int fixture_stop(void **state)
{
    char command[128];
    (void)state;
    agents_free(agents);
    agents = NULL;
    monitor_free(monitor);
    loop_free(loop);
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    return system(command);
}

unsigned fixture_rings(const char *pattern)
{
    char command[256], line[32];
    snprintf(command, sizeof command, "ls '%s/rings' | grep -c '^%s'", dir, pattern);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    assert_non_null(fgets(line, sizeof line, pipe));
    pclose(pipe);
    return (unsigned)atoi(line);
}

/* ---- traces ---- */

char *babeltrace(void)
{
    char command[256];
    struct buf text = BUF_INIT;
    char block[65536];
    snprintf(command, sizeof command, "babeltrace2 '%s/trace' 2>&1", job);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    for (size_t got; (got = fread(block, 1, sizeof block, pipe)) > 0;)
        buf_append(&text, block, got);
    int status = pclose(pipe);
    buf_putc(&text, 0);
    if (status)
        print_message("%.2000s\n", text.data);
    assert_int_equal(status, 0);
    return buf_take(&text);
}

size_t occurrences(const char *text, const char *what)
{
    size_t count = 0, len = strlen(what);
    /* not strstr: AddressSanitizer has it look at all that is behind, each time */
    for (; (text = strchr(text, *what)); text++)
        count += strncmp(text, what, len) == 0;
    return count;
}

char *process_file(pid_t pid, unsigned incarnation)
{
    char path[256], *text;
    char command[512], found[256] = "";
    snprintf(command, sizeof command, "ls -d '%s'/trace/*/%d-%u", job, pid, incarnation);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    assert_non_null(fgets(found, sizeof found, pipe));
    pclose(pipe);
    found[strcspn(found, "\n")] = 0;
    assert_true(snprintf(path, sizeof path, "%.200s/.process", found) < (int)sizeof path);
    assert_int_equal(file_read(path, &text, NULL), 0);
    return text;
}

/* ---- a child ---- */

struct child child_new(void (*main_)(int fd))
{
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(fds[0]);
        main_(fds[1]);
        _exit(1);
    }
    close(fds[1]);
    return (struct child){pid, fds[0]};
}

void child_serve(int fd, bool (*serve)(void *ctx, const struct child_command *command), void *ctx)
{
    struct child_command command;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (read(fd, &command, sizeof command) == sizeof command) {
        char done = serve(ctx, &command) ? command.letter : '!';
        if (write(fd, &done, 1) != 1)
            break;
    }
    _exit(1);
}

void step_until_readable(int fd)
{
    char byte;
    step_until(recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0);
}

void child_send(const struct child *child, char letter, uint32_t number)
{
    struct child_command command = {letter, number};
    assert_int_equal(write(child->fd, &command, sizeof command), sizeof command);
}

void child_heard(const struct child *child, char letter)
{
    char done;
    assert_int_equal(read(child->fd, &done, 1), 1);
    assert_int_equal(done, letter);
}

void child_tell(const struct child *child, char letter, uint32_t number)
{
    child_send(child, letter, number);
    step_until_readable(child->fd);
    child_heard(child, letter);
}

void child_end(struct child *child, int signo)
{
    if (signo)
        kill(child->pid, signo);
    else
        child_send(child, 'q', 0);
    waitpid(child->pid, NULL, 0);
    close(child->fd);
}

/* ---- what a child says to the monitor ---- */

size_t hello_fill(struct agent_hello *ret_hello, uint32_t flags, const char *exe)
{
    memset(ret_hello, 0, sizeof *ret_hello);
    ret_hello->magic = AREA_MAGIC;
    ret_hello->version = AREA_VERSION;
    ret_hello->pid = getpid();
    ret_hello->flags = flags;
    ret_hello->room = UINT64_MAX;
    size_t at = strlen(strcpy(ret_hello->texts, job)) + 1;
    if (exe) {
        at += strlen(strcpy(ret_hello->texts + at, exe)) + 1;
    } else {
        ssize_t len = readlink("/proc/self/exe", ret_hello->texts + at, AREA_PATH - 1);
        at += (size_t)(len > 0 ? len : 0) + 1;
    }
    return ret_hello->size = (uint32_t)(AGENT_HELLO_HEAD + at);
}

int hello_dial(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s/agent.sock", dir);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    return connect(fd, (struct sockaddr *)&address, sizeof address) == 0 ? fd : -1;
}

bool hello_hear(int fd, void *ret_welcome, size_t size, int *ret_fds, size_t fd_count)
{
    struct iovec part = {ret_welcome, size};
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(3 * sizeof(int))];
    } control;
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = CMSG_SPACE(fd_count * sizeof(int))};
    for (size_t i = 0; i < fd_count; i++)
        ret_fds[i] = -1;
    if (recvmsg(fd, &message, 0) != (ssize_t)size)
        return false;
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    if (head)
        memcpy(ret_fds, CMSG_DATA(head), fd_count * sizeof(int));
    return true;
}
