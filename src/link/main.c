/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scry-link COMMAND: carries the connections of tools and monitors between machines (link/link.h).
 *
 *     connect   for a tool: standard input is a socket of libomis, and the other end its first line
 *     node      for a monitor: standard input is a socket, and the name of the node that it leads to an argument
 *     beside    the other end, for the monitor that has started it: ends with standard input
 *     look      for scry doctor: prints whether a node can be reached, and what is there
 *     serve     the other end (scry link serve)
 *     bridge    for ssh: from standard input and output to the other end (scry link bridge)
 *     await     takes monitors that come by themselves (scry link await)
 *     join      brings the monitor here to it (scry link join)
 *     copy      puts scry onto a node (scry link copy)
 */
#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/dirs.h"
#include "base/system/file.h"
#include "base/system/log.h"
#include "client/session.h"
#include "link/link.h"
#include "options/options.h"
#include "shm/waits.h"
#include "wire/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>

/*
 * scry-link bridge: standard input and output are the connection of a link, as ssh carries it, and lead to scry-link serve,
 * which is started if it does not run. The session lives there, and outlives this.
 */

enum { FLOW_BYTES = 64 << 10 };

int link_open_log(const char *dir)
{
    char path[PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/link.log", dir);
    return file_open_own(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND);
}

/* It listens when it has written its first line. */
static int bridge_start_serve(const char *dir, struct err *err)
{
    char path[PATH_MAX], name[] = "scry-link", command[] = "serve", *argv[] = {name, command, NULL}, byte;
    int ends[3], code = dirs_libexec("scry-link", path, sizeof path, err);
    if (code < 0)
        return code;
    _cleanup_(closep) int log = link_open_log(dir);
    pid_t pid;
    code = client_spawn(
        (struct spawn){
            .path = path, .argv = argv, .in = SPAWN_NULL, .out = SPAWN_PIPE, .error = log >= 0 ? log : SPAWN_NULL},
        &pid, ends);
    if (code < 0)
        return err_errno(err, code, "cannot start %s", path);
    _cleanup_(closep) int said = ends[STDOUT_FILENO];
    uint64_t until_ns = clock_now_ns() + (uint64_t)BRIDGE_START_MS * WAITS_NS_PER_MS;
    while (!wait_fd_until(said, POLLIN, until_ns))
        if (clock_now_ns() >= until_ns)
            return err_set(err, -ETIMEDOUT, "%s did not start", path);
    return read(said, &byte, 1) == 1 ? 0
                                     : err_set(err, -ECANCELED, "%s could not start: see link.log in %s", path, dir);
}

static int bridge_connect(struct err *err)
{
    char dir[PATH_MAX], path[PATH_MAX + 32];
    int code = dirs_runtime(dir, sizeof dir, err);
    if (code < 0)
        return code;
    _cleanup_(closep) int lock = client_lock(dir, "link.lock", err);
    if (lock < 0)
        return lock;
    snprintf(path, sizeof path, "%s/link.sock", dir);
    int fd = local_connect(path, err);
    if (fd != -ENOENT && fd != -ECONNREFUSED)
        return fd;
    code = bridge_start_serve(dir, err);
    return code < 0 ? code : local_connect(path, err);
}

/* Bytes of one direction. */
struct flow {
    int from, to;
    char bytes[FLOW_BYTES];
    size_t at, len;
    bool ended;
};

/* false: nobody takes it any more. */
static bool flow_move(struct flow *flow, short from, short to)
{
    if (flow->at == flow->len && from) {
        ssize_t got = read(flow->from, flow->bytes, sizeof flow->bytes);
        flow->at = 0;
        flow->len = got > 0 ? (size_t)got : 0;
        flow->ended = got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
        to = POLLOUT; /* it mostly takes it */
    }
    if (flow->at < flow->len && to) {
        ssize_t put = write(flow->to, flow->bytes + flow->at, flow->len - flow->at);
        if (put < 0 && errno != EAGAIN && errno != EINTR)
            return false;
        flow->at += put > 0 ? (size_t)put : 0;
    }
    return !flow->ended;
}

static void flow_events(const struct flow *flow, struct pollfd *from, struct pollfd *to)
{
    *from = (struct pollfd){.fd = flow->at == flow->len ? flow->from : -1, .events = POLLIN};
    *to = (struct pollfd){.fd = flow->at < flow->len ? flow->to : -1, .events = POLLOUT};
}

/* Until one side has ended. Standard streams stay as they are: others may have them, too, so they are only touched when
 * they are ready; a write of what a pipe has no room for may wait, which holds nobody but this connection. */
static void bridge_carry(int fd)
{
    static struct flow up, down;
    up = (struct flow){.from = STDIN_FILENO, .to = fd};
    down = (struct flow){.from = fd, .to = STDOUT_FILENO};
    for (;;) {
        struct pollfd ready[4];
        flow_events(&up, &ready[0], &ready[1]);
        flow_events(&down, &ready[2], &ready[3]);
        if (poll(ready, 4, -1) < 0 && errno != EINTR)
            return;
        if (!flow_move(&up, ready[0].revents, ready[1].revents) ||
            !flow_move(&down, ready[2].revents, ready[3].revents))
            return;
    }
}

/* scry-link bridge; an exit status. */
static int bridge(void)
{
    struct err err;
    int fd = bridge_connect(&err);
    if (fd < 0) {
        log_error("%s", err.text);
        return 1;
    }
    bridge_carry(fd);
    return 0;
}

/*
 * scry-link join: brings the monitor of this machine to one that awaits it (serve.c). Among the ranks of a job, whom it must not
 * harm: it returns at once, and what is wrong later is in link.log.
 */

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Of SCRY_JOIN: tls://HOST:PORT#SECRET. The error does not show it. */
static int join_parse(const char *text, struct link_endpoint *ret_endpoint, uint8_t secret[TLS_SECRET], struct err *err)
{
    char url[LINK_NAME];
    const char *at = strchr(text, '#');
    size_t len = at ? (size_t)(at - text) : 0;
    int code = at && len < sizeof url && strlen(at + 1) == 2 * (size_t)TLS_SECRET ? 0 : -EINVAL;
    for (size_t i = 0; code == 0 && i < TLS_SECRET; i++) {
        int high = hex_digit(at[1 + 2 * i]), low = hex_digit(at[2 + 2 * i]);
        secret[i] = (uint8_t)(high << 4 | low);
        if (high < 0 || low < 0)
            code = -EINVAL;
    }
    if (code < 0) /* without the text, which may be nearly right */
        return err_set(err, code, "SCRY_JOIN is not what `scry link await` has printed: tls://HOST:PORT#SECRET");
    snprintf(url, sizeof url, "%.*s", (int)len, text);
    code = link_endpoint_parse(url, ret_endpoint, err);
    if (code == 0 && ret_endpoint->kind != LINK_TLS)
        code = err_set(err, -EINVAL, "SCRY_JOIN begins with tls://");
    return code;
}

/* One of the ranks on a machine does it for all. The lock is held as long as the process lives. */
static int join_lock(const char *dir, const struct link_endpoint *endpoint, struct err *err)
{
    char path[PATH_MAX + LINK_NAME + 32];
    snprintf(path, sizeof path, "%s/join-%s-%u.lock", dir, endpoint->host, endpoint->port);
    int fd = file_open_own(AT_FDCWD, path, O_RDWR | O_CREAT);
    if (fd < 0)
        return err_errno(err, fd, "cannot open %s", path);
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        return fd;
    close(fd);
    return -EWOULDBLOCK;
}

/* Away from the job's streams, and from the terminal. */
static void join_detach(const char *dir)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC), log = link_open_log(dir);
    setsid();
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        dup2(fd == STDERR_FILENO && log >= 0 ? log : null, fd);
    if (chdir("/") < 0)
        log_warning("cannot change to /");
}

/* An exit status. */
static int join(const char *text)
{
    static uint8_t secret[TLS_SECRET];
    struct link_endpoint endpoint;
    char dir[PATH_MAX];
    struct err err;
    int code = join_parse(text, &endpoint, secret, &err);
    if (code == 0)
        code = dirs_runtime(dir, sizeof dir, &err);
    int lock = code < 0 ? code : join_lock(dir, &endpoint, &err);
    if (lock == -EWOULDBLOCK)
        return 0;
    if (lock < 0) {
        log_error("%s", err.text);
        return 1;
    }
    endpoint.secret = secret;
    pid_t pid = fork();
    if (pid != 0)
        return pid < 0;
    join_detach(dir);
    char path[PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/monitor.sock", dir);
    int fd = client_monitor_socket(dir, path, &err);
    if (fd < 0) {
        log_error("%s", err.text);
        return 1;
    }
    return link_run(&endpoint, fd);
}

/* ---- the commands ---- */

enum { EXIT_USAGE = 2 };

static int cmd_connect(int argc, char **argv)
{
    char line[LINK_NAME + 1] = "";
    struct link_endpoint endpoint;
    struct err err;
    (void)argc;
    (void)argv;
    if (fork() > 0) /* the tool that started it has no child of ours to wait for */
        _exit(0);
    int code = line_read(line, sizeof line) ? link_endpoint_parse(line, &endpoint, &err)
                                            : err_set(&err, -EINVAL, "the name of the other end is too long");
    return code < 0 ? link_refuse(STDIN_FILENO, &err) : link_run(&endpoint, STDIN_FILENO);
}

static int cmd_node(int argc, char **argv)
{
    if (argc != 2)
        return EXIT_USAGE;
    if (fork() > 0) /* as above */
        _exit(0);
    return node_run(argv[1], STDIN_FILENO);
}

static int cmd_look(int argc, char **argv)
{
    return argc == 2 ? node_look(argv[1]) : EXIT_USAGE;
}

static int cmd_version(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    puts(SCRY_VERSION);
    return 0;
}

static int cmd_beside(int argc, char **argv)
{
    struct link_wishes wishes = {.beside = true};
    for (int i = 1; i < argc && wishes.count < LINK_LISTEN_MOST; i++)
        wishes.listen[wishes.count++] = argv[i];
    return link_serve(&wishes);
}

/* The secret is not among the arguments, which everybody sees. */
static int cmd_join(void)
{
    char line[LINK_NAME + 2 * TLS_SECRET + 16] = "", *text = line;
    static const char name[] = "SCRY_JOIN";
    const char *given = getenv(name);
    if (given && *given)
        snprintf(line, sizeof line, "%s", given);
    else if (!line_read(line, sizeof line))
        line[0] = 0;
    if (strncmp(text, name, sizeof name - 1) == 0 && text[sizeof name - 1] == '=') /* the line as it was printed */
        text += sizeof name;
    unsetenv(name); /* the monitor that is started, and its programs, need not know */
    return join(text);
}

/* What a person may start, as `scry link`. */
static int run_command(int argc, char **argv)
{
    struct options options;
    struct link_wishes wishes = {.count = 0};
    struct err err;
    int status = EXIT_USAGE;
    if (options_parse(&options, COMMAND_LINK, argc, argv, &err) < 0) {
        log_error("%s; see `scry link --help`", err.text);
    } else if (options.help) {
        _cleanup_(buf_done) struct buf text = BUF_INIT;
        options_help(&text, COMMAND_LINK);
        status = text.data && fputs(text.data, stdout) >= 0 ? EXIT_SUCCESS : EXIT_FAILURE;
    } else {
        const char *listen, *action = options.words[0];
        for (size_t at = 0; (listen = options_next(&options, "listen", &at)) && wishes.count < LINK_LISTEN_MOST;)
            wishes.listen[wishes.count++] = listen;
        wishes.awaits = strcmp(action, "await") == 0;
        bool alone = options.word_count == 1;
        if ((strcmp(action, "serve") == 0 || wishes.awaits) && alone)
            status = link_serve(&wishes);
        else if (strcmp(action, "bridge") == 0 && alone && !wishes.count)
            status = bridge();
        else if (strcmp(action, "join") == 0 && alone && !wishes.count)
            status = cmd_join();
        else if (strcmp(action, "copy") == 0 && !wishes.count && options.word_count == 2)
            status = node_install(options.words[1]);
        else
            log_error(
                "expected serve or await [--listen HOST:PORT]..., join, bridge, or copy HOST; see `scry link --help`");
    }
    options_done(&options);
    return status;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(int argc, char **argv);
    } commands[] = {{"connect", cmd_connect},
                    {"node", cmd_node},
                    {"beside", cmd_beside},
                    {"look", cmd_look},
                    {"--version", cmd_version}};
    log_open("scry link", 0);
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_DUMPABLE, 0); /* there is a key in memory */
    for (size_t i = 0; argc > 1 && i < sizeof commands / sizeof *commands; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    return run_command(argc, argv);
}
