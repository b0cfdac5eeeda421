/* SPDX-License-Identifier: Apache-2.0 */
#include "link/await.h"

#include "base/data/cleanup.h"
#include "base/system/dirs.h"
#include "base/system/file.h"
#include "base/system/log.h"
#include "client/client.h"
#include "client/session.h"
#include "lang/put.h"
#include "link/node.h"
#include "wire/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

/*
 * scry-link await: monitors come by themselves, where nobody may start anything on their machines (mpirun, srun). Each becomes
 * a session, and a node of the monitor here: that one is asked to attach what listens at a socket of ours, the door, and
 * what it says there goes to the monitor that came. So it is the one here that attaches, as everywhere.
 *
 * Whoever comes shows that they know the secret, which is made here and handed out with the job. Nothing else is asked.
 */

static const char scheme[] = "unix:";

struct door {
    door_fn *fn; /* NULL: the session is gone; the answer is still to come */
    void *ctx;
    int fd; /* -1: the monitor has come */
    struct loop_source *source;
    char name[sizeof scheme + 107];
    bool answered;
};

/* ---- doors ---- */

static void close_door(struct door *door)
{
    if (door->fd < 0)
        return;
    loop_remove(door->source);
    close(door->fd);
    unlink(door->name + sizeof scheme - 1);
    door->fd = -1;
}

void door_free(struct door *door)
{
    if (!door)
        return;
    close_door(door);
    door->fn = NULL;
    if (door->answered)
        free(door);
}

static void on_door(void *ctx, int fd, uint32_t events)
{
    struct door *door = ctx;
    int monitor = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    (void)events;
    if (monitor < 0)
        return;
    close_door(door);
    door->fn(door->ctx, monitor, NULL);
}

/* Node or error. The session may have gone meanwhile. */
static void on_answer(Omis_reply reply, void *param)
{
    struct door *door = param;
    const Omis_object_result *results = reply[0]->status == OMIS_OK && reply[1] ? reply[1] : reply[0];
    const char *text = results->result ? results->result : "";
    bool fine = results->status == OMIS_OK && results != reply[0];
    door->answered = true;
    if (fine)
        printf("node %s\n", text);
    fflush(stdout);
    if (!fine)
        log_error("a monitor came, and cannot be attached: %s", text);
    if (!door->fn) {
        free(door);
    } else if (!fine) {
        close_door(door);
        door->fn(door->ctx, -1, text);
    }
    omis_reply_free(reply);
}

int door_open(struct serve *serve, door_fn *fn, void *ctx, struct door **ret_door, struct err *err)
{
    static unsigned count;
    _cleanup_(freep) struct door *door = calloc(1, sizeof *door);
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    if (!door)
        return err_set(err, -ENOMEM, "out of memory at the other end");
    snprintf(door->name, sizeof door->name, "%s%.90s/join%d.%u", scheme, serve->dir, (int)getpid(), count++);
    door->fn = fn;
    door->ctx = ctx;
    door->fd = local_listen(door->name + sizeof scheme - 1, err);
    if (door->fd < 0)
        return door->fd;
    PUT_CALL(&text, "node_attach2", (const char *)door->name);
    door->source = loop_add_fd(serve->loop, door->fd, EPOLLIN, on_door, door);
    if (text.failed || !door->source) {
        close_door(door);
        return err_set(err, -ENOMEM, "out of memory at the other end");
    }
    *ret_door = door;
    client_request(span_of(text.data, text.len), on_answer, TAKE_PTR(door), 0);
    return 0;
}

/* ---- the whole ---- */

static void on_replies(void *ctx, int fd, uint32_t events)
{
    struct serve *serve = ctx;
    (void)fd;
    (void)events;
    omis_handler();
    if (client_connected())
        return;
    log_error("the connection to the monitor here is lost");
    loop_stop(serve->loop);
}

int await_begin(struct serve *serve, struct err *err)
{
    uint8_t secret[TLS_SECRET];
    int id = 0;
    if (getrandom(secret, sizeof secret, 0) != sizeof secret)
        return err_errno(err, -errno, "no random numbers");
    int code = tls_new_shared(&serve->tls, secret, true, err);
    for (size_t i = 0; i < sizeof secret; i++)
        snprintf(serve->secret + 2 * i, 3, "%02x", secret[i]);
    explicit_bzero(secret, sizeof secret);
    if (code == 0 && omis_init(NULL, NULL, NULL, &id) != OMIS_OK)
        code = err_set(err, -ECANCELED, "%s", client_error());
    if (code < 0)
        return code;
    return loop_add_fd(serve->loop, omis_fd(), EPOLLIN, on_replies, serve) ? 0 : err_set(err, -ENOMEM, "out of memory");
}

int await_listen(unsigned *ret_port)
{
    int no = 0;
    struct sockaddr_in6 all = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_ANY_INIT};
    struct sockaddr_in all4 = {.sin_family = AF_INET};
    socklen_t len = sizeof all;
    _cleanup_(closep) int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool fine = fd >= 0 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no) == 0 &&
                bind(fd, (struct sockaddr *)&all, sizeof all) == 0;
    if (!fine) { /* a machine without it */
        closep(&fd);
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        fine = fd >= 0 && bind(fd, (struct sockaddr *)&all4, sizeof all4) == 0;
    }
    if (!fine || listen(fd, SOMAXCONN) < 0 || getsockname(fd, (struct sockaddr *)&all, &len) < 0)
        return -errno;
    *ret_port = ntohs(all.sin6_port); /* at the same place in both */
    return TAKE_FD(fd);
}

void await_tell(const struct serve *serve, const char *address)
{
    char host[256] = "localhost";
    if (gethostname(host, sizeof host - 1) < 0)
        log_warning("this machine has no name");
    if (address)
        printf("SCRY_JOIN=tls://%s#%s\n", address, serve->secret);
    else
        printf("SCRY_JOIN=tls://%s:%u#%s\n", host, serve->port, serve->secret);
    fflush(stdout);
}

void await_end(struct serve *serve)
{
    explicit_bzero(serve->secret, sizeof serve->secret);
    omis_finalize();
}

/*
 * scry-link join: brings the monitor of this machine to one that awaits it (above). Among the ranks of a job, whom it must not
 * harm: it returns at once, and what is wrong later is in link.log.
 */

static int hex(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Of SCRY_JOIN: tls://HOST:PORT#SECRET. The error does not show it. */
static int join_parse(const char *text, struct link_way *ret_way, uint8_t secret[TLS_SECRET], struct err *err)
{
    char url[LINK_NAME];
    const char *at = strchr(text, '#');
    size_t len = at ? (size_t)(at - text) : 0;
    int code = at && len < sizeof url && strlen(at + 1) == 2 * (size_t)TLS_SECRET ? 0 : -EINVAL;
    for (size_t i = 0; code == 0 && i < TLS_SECRET; i++) {
        int high = hex(at[1 + 2 * i]), low = hex(at[2 + 2 * i]);
        secret[i] = (uint8_t)(high << 4 | low);
        if (high < 0 || low < 0)
            code = -EINVAL;
    }
    if (code < 0) /* without the text, which may be nearly right */
        return err_set(err, code, "SCRY_JOIN is not what `scry link await` has printed: tls://HOST:PORT#SECRET");
    snprintf(url, sizeof url, "%.*s", (int)len, text);
    code = link_way_parse(url, ret_way, err);
    if (code == 0 && ret_way->kind != LINK_TLS)
        code = err_set(err, -EINVAL, "SCRY_JOIN begins with tls://");
    return code;
}

/* One of the ranks on a machine does it for all. The lock is held as long as the process lives. */
static int lock_join(const char *dir, const struct link_way *way, struct err *err)
{
    char path[PATH_MAX + LINK_NAME + 32];
    snprintf(path, sizeof path, "%s/join-%s-%u.lock", dir, way->host, way->port);
    int fd = file_open_own(AT_FDCWD, path, O_RDWR | O_CREAT);
    if (fd < 0)
        return err_errno(err, fd, "cannot open %s", path);
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        return fd;
    close(fd);
    return -EWOULDBLOCK;
}

static int run(struct link_way *way, const char *dir)
{
    char path[PATH_MAX + 16];
    struct err err = {0};
    snprintf(path, sizeof path, "%s/monitor.sock", dir);
    int fd = client_monitor_socket(dir, path, &err);
    if (fd < 0) {
        log_error("%s", err.text);
        return 1;
    }
    return link_run(way, fd);
}

/* Away from the job's streams, and from the terminal. */
static void detach(const char *dir)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC), log = link_open_log(dir);
    setsid();
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        dup2(fd == STDERR_FILENO && log >= 0 ? log : null, fd);
    if (chdir("/") < 0)
        log_warning("cannot change to /");
}

int node_join(const char *text)
{
    static uint8_t secret[TLS_SECRET];
    struct link_way way;
    char dir[PATH_MAX];
    struct err err;
    int code = join_parse(text, &way, secret, &err);
    if (code == 0)
        code = dirs_runtime(dir, sizeof dir, &err);
    int lock = code < 0 ? code : lock_join(dir, &way, &err);
    if (lock == -EWOULDBLOCK)
        return 0;
    if (lock < 0) {
        log_error("%s", err.text);
        return 1;
    }
    way.secret = secret;
    pid_t pid = fork();
    if (pid != 0)
        return pid < 0;
    detach(dir);
    return run(&way, dir);
}
