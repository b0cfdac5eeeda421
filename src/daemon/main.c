/* SPDX-License-Identifier: Apache-2.0 */
#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/dirs.h"
#include "base/system/file.h"
#include "base/system/log.h"
#include "base/system/loop.h"
#include "base/system/own_memory.h"
#include "base/system/pause.h"
#include "base/system/process.h"
#include "base/system/wait_world.h"
#include "daemon/connection.h"
#include "daemon/home.h"
#include "daemon/reference.h"
#include "monitor/engine/monitor.h"
#include "monitor/engine/object.h"
#include "monitor/engine/tool.h"
#include "monitor/mpi/mpi.h"
#include "monitor/parts/lock.h"
#include "monitor/recorder/agents.h"
#include "monitor/tree/conditional.h"
#include "options/options.h"
#include "service/all/register.h"
#include "service/omis/service.h"
#include "shm/waits.h"
#include "wire/stream.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LISTEN_MOST = 16 };

static const char file_prefix[] = "scry_ext_";

static void load(struct monitor *monitor, const char *name, const char *prefix)
{
    struct registry *registry = monitor->registry;
    struct err err;
    char path[PATH_MAX];
    if (registry_has_extension(registry, span_str(prefix)))
        return; /* the first one in the path wins */
    if (trusted_path(path, name, S_IFREG, &err) < 0) {
        log_error("extension %s is left out: %s", name, err.text);
        return;
    }
    pause_at("extensions.trusted");
    /* By its real name: by a descriptor's name in /proc it could not find files beside it. */
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        log_error("extension %s is left out: %s", name, dlerror());
        return;
    }
    char symbol[TOKEN_CLASS_SIZE + 16];
    snprintf(symbol, sizeof symbol, "%s_register", prefix);
    int (*start)(void);
    *(void **)&start = dlsym(handle, symbol);
    snprintf(registry->registering, sizeof registry->registering, "%s", prefix);
    bool ok = start && start() == 0 && registry_add_extension(registry, prefix, &err) == 0;
    registry->registering[0] = 0;
    struct tool *tool = registry->registering_tool;
    registry->registering_tool = NULL;
    if (ok)
        return;
    if (tool) /* its requests refer to its services */
        tool_end(tool);
    /* it stays mapped: classes may refer to its rows */
    log_error("extension %s is left out: %s", name,
              start ? "its register function failed" : "it exports no register function");
    registry_remove_extension(registry, prefix);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void load_dir(void *ctx, const char *name_of_dir)
{
    struct dirent **entries;
    struct err err;
    char dir[PATH_MAX];
    if (trusted_path(dir, name_of_dir, S_IFDIR, &err) < 0) {
        log_error("extensions in %s are left out: %s", name_of_dir, err.text);
        return;
    }
    int count = scandir(dir, &entries, NULL, by_name);
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name, *dot = strrchr(name, '.');
        size_t start = sizeof file_prefix - 1;
        if (strncmp(name, file_prefix, start) == 0 && dot && strcmp(dot, ".so") == 0 && dot > name + start) {
            char path[PATH_MAX + NAME_MAX + 2], prefix[TOKEN_CLASS_SIZE - 2];
            size_t len = (size_t)(dot - name) - start;
            snprintf(path, sizeof path, "%s/%s", dir, name);
            if (len < sizeof prefix) {
                memcpy(prefix, name + start, len);
                prefix[len] = 0;
                load(ctx, path, prefix);
            } else {
                log_error("extension %s is left out: its prefix is longer than %zu characters", path,
                          sizeof prefix - 1);
            }
        }
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
}

/* Ends extensions that are tools themselves, when there is no other tool. */
static void extensions_end(struct monitor *monitor)
{
    while (monitor->tools)
        tool_end(monitor->tools);
}

/* Loads all extensions. Logs and omits those that cannot be loaded, or that others could change
 * (base/system/dirs.h). */
static void extensions_load(struct monitor *monitor)
{
    dirs_extensions(load_dir, monitor);
}

/* --listen: the program scry-link beside the monitor, which takes connections from other machines. */

/* The first line that it says: that it listens, or why not. -ECANCELED. */
static int wait_for_line(int fd, struct err *err)
{
    static const char fine[] = "scry: listens";
    char text[ERR_TEXT_SIZE];
    size_t len = 0;
    while (len + 1 < sizeof text && !memchr(text, '\n', len)) {
        struct pollfd said = {.fd = fd, .events = POLLIN};
        int count = poll(&said, 1, MONITOR_START_MS);
        ssize_t got = count > 0 ? read(fd, text + len, sizeof text - 1 - len) : count;
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        len += (size_t)got;
    }
    text[len] = 0;
    text[strcspn(text, "\n")] = 0;
    if (strncmp(text, fine, sizeof fine - 1) == 0)
        return 0;
    return err_set(err, -ECANCELED, "%s", *text ? text : "scry-link does not start");
}

/* Starts it, and waits until it listens. It ends with the monitor, however that ends. 0 or -errno with err. */
static int listen_start(const char *const *addresses, size_t count, struct err *err)
{
    char path[PATH_MAX], command[] = "beside", *argv[LISTEN_MOST + 3] = {path, command};
    int said[2], held[2], code = dirs_libexec("scry-link", path, sizeof path, err);
    pid_t pid;
    if (code < 0)
        return code;
    for (size_t i = 0; i < count && i < LISTEN_MOST; i++)
        argv[2 + i] = (char *)addresses[i];
    if (pipe2(said, O_CLOEXEC) < 0)
        return err_errno(err, -errno, "cannot start %s", path);
    _cleanup_(closep) int reads = said[0], says = said[1];
    if (pipe2(held, O_CLOEXEC) < 0)
        return err_errno(err, -errno, "cannot start %s", path);
    code = spawn_program(
        &(struct spawn){
            .path = path, .argv = argv, .in = held[0], .out = says, .error = says, .group = SPAWN_OWN_SESSION},
        &pid);
    close(held[0]); /* held[1] stays open until the monitor ends, which it sees */
    close(TAKE_FD(says));
    if (code < 0) {
        close(held[1]);
        return err_errno(err, code, "cannot start %s", path);
    }
    return wait_for_line(reads, err);
}

/*
 * scry-monitor: the node monitor of one user. Started on demand (libomis, scry run) with --daemon, or by hand with
 * `scry monitor`. Ends when nobody has been connected for a while.
 */

enum { EXIT_USAGE = 2, LEAST_FILES = 32 };

struct daemon {
    struct loop *loop;
    struct monitor *monitor;
    struct agents *agents; /* NULL: tracing is not possible */
    struct server *server;
    struct loop_source *idle_timer;
    uint64_t idle_ns;
    const char *listen[LISTEN_MOST];
    size_t listen_count;
    struct home home;
};

static void stop_loop(void *ctx)
{
    struct daemon *daemon = ctx;
    if (server_connections(daemon->server) > 0)
        return;
    if (daemon->agents && agents_count(daemon->agents) > 0) /* traced programs still need us */
        loop_set_timer(daemon->idle_timer, daemon->idle_ns, 0);
    else
        loop_stop(daemon->loop);
}

static void stop_signal(void *ctx, int fd, uint32_t signo)
{
    (void)fd;
    (void)signo;
    loop_stop(((struct daemon *)ctx)->loop);
}

/* The last tool has gone. Only now the timer is armed: a monitor with tools does not wake up for it. */
static void became_idle(void *ctx, bool stop)
{
    struct daemon *daemon = ctx;
    malloc_trim(0); /* memory of thousands of requests */
    loop_remove(daemon->idle_timer);
    daemon->idle_timer = loop_add_timer(daemon->loop, stop ? 1 : daemon->idle_ns, 0, stop_loop, daemon);
}

/* Raises limits: a pidfd for each of a thousand processes, and the log. Children get the old limits back
 * (monitor/tracing/tracing.c). */
static void raise_limit(int resource, rlim_t most, const char *variable)
{
    struct rlimit limit;
    if (getrlimit((__rlimit_resource_t)resource, &limit) < 0 || limit.rlim_cur >= limit.rlim_max)
        return;
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)limit.rlim_cur);
    setenv(variable, text, 1);
    limit.rlim_cur = limit.rlim_max > most ? most : limit.rlim_max;
    setrlimit((__rlimit_resource_t)resource, &limit);
}

/* 0 or -EMFILE. */
static int raise_limits(struct err *err)
{
    raise_limit(RLIMIT_NOFILE, 65536, "SCRY_NOFILE");
    raise_limit(RLIMIT_FSIZE, RLIM_INFINITY, "SCRY_FSIZE");
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur >= LEAST_FILES)
        return 0;
    return err_set(err, -EMFILE, "it needs %d open files, and %llu are allowed (ulimit -n)", LEAST_FILES,
                   (unsigned long long)files.rlim_cur);
}

static int daemon_start(struct daemon *daemon, struct err *err)
{
    int code = home_take(&daemon->home, err);
    if (code == 0 && (code = loop_new(&daemon->loop)) < 0)
        err_errno(err, code, "cannot start the event loop");
    if (code == 0)
        code = monitor_new(&daemon->monitor, daemon->loop, service_register_all, err);
    if (code == 0 && (code = lock_start(daemon->monitor)) < 0)
        err_errno(err, code, "cannot start the engine");
    if (code < 0)
        return code;
    struct err why = {0};
    if (agents_new(&daemon->agents, daemon->monitor, daemon->home.dir, &agents_mpi, &why) < 0) {
        log_error("programs cannot be traced: %s", why.text);
    } else {
        daemon->monitor->agents = daemon->agents;
        ct_start(daemon->monitor);
    }
    pause_at("monitor.starts");
    int fd = home_listen(&daemon->home, err);
    if (fd < 0)
        return fd;
    code = server_new(&daemon->server, daemon->loop, daemon->monitor, fd, became_idle, daemon);
    if (code < 0)
        return err_errno(err, code, "cannot serve %s", daemon->home.socket_path);
    conditional_start(daemon->monitor->tree);
    home_watch(&daemon->home, daemon->loop, daemon->server, daemon->agents);
    if (!loop_add_signal(daemon->loop, SIGTERM, stop_signal, daemon) ||
        !loop_add_signal(daemon->loop, SIGINT, stop_signal, daemon))
        return err_set(err, -ENOMEM, "cannot handle signals");
    log_debug("monitor state=started pid=%d version=%s dir=%s", (int)getpid(), SCRY_VERSION,
              LOG_TEXT(daemon->home.dir));
    became_idle(daemon, false); /* whoever started us should come soon */
    return 0;
}

static void daemon_end(struct daemon *daemon)
{
    log_debug("monitor state=ended pid=%d", (int)getpid());
    /* first let nobody new in, then release everything */
    home_shut(&daemon->home);
    server_free(daemon->server);
    extensions_end(daemon->monitor);
    daemon->monitor->agents = NULL;
    agents_free(daemon->agents);
    lock_done(daemon->monitor);
    monitor_free(daemon->monitor);
    loop_free(daemon->loop);
    home_leave(&daemon->home);
}

/* ---- becoming a daemon ---- */

static void redirect_streams(void)
{
    char dir[PATH_MAX - 32], path[PATH_MAX];
    struct err err;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC), log = -1;
    if (dirs_runtime(dir, sizeof dir, &err) == 0) {
        snprintf(path, sizeof path, "%s/monitor.log", dir);
        log = file_open_own(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND);
    }
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    dup2(log >= 0 ? log : null, STDERR_FILENO);
    if (log > STDERR_FILENO)
        close(log);
    if (null > STDERR_FILENO)
        close(null);
}

/* Waits for the status that the child tells when it is ready, but not for one that is stopped. */
static int await_ready(pid_t child, int fd)
{
    struct wait_seen seen = {.limit_ns = START_TIMEOUT_MS * WAITS_NS_PER_MS};
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    uint64_t since_ns = clock_now_ns();
    while (poll(&ready, 1, (int)wait_policies[WAIT_ANSWER].look_ms) <= 0) {
        seen.passed_ns = clock_now_ns() - since_ns;
        seen.state = wait_look(child).state;
        if (waits_judge(&wait_policies[WAIT_ANSWER], &seen) != WAIT_STOPPED)
            continue;
        log_error("the monitor (pid %d) was stopped: `kill -CONT %d` lets it go on", (int)child, (int)child);
        return EXIT_FAILURE;
    }
    char byte;
    return read(fd, &byte, 1) == 1 ? byte : EXIT_FAILURE;
}

/* The parent waits until the child is ready, so that its own parent can connect, and ends with the status that it gets.
 * In the child, returns the descriptor for that status. */
static int detach(void)
{
    int ready[2];
    if (pipe2(ready, O_CLOEXEC) < 0) {
        log_error("cannot make a pipe: %s", strerror(errno));
        exit(EXIT_FAILURE);
    }
    pid_t child = fork();
    if (child < 0) {
        log_error("cannot fork: %s", strerror(errno));
        exit(EXIT_FAILURE);
    }
    if (child > 0) {
        close(ready[1]);
        _exit(await_ready(child, ready[0]));
    }
    close(ready[0]);
    setsid();
    return ready[1];
}

static void tell(int ready, char status)
{
    if (write(ready, &status, 1) != 1)
        log_warning("the process that started the monitor is gone");
    close(ready);
}

static void close_descriptors(void)
{
    close_range(3, ~0u, 0);
}

/* Prints a page of the reference ("": services), and serves nobody. */
static int print_reference(const char *page)
{
    if (*page) {
        (strcmp(page, "notes") == 0 ? reference_print_notes : reference_print_mpi_calls)(stdout);
        return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    struct loop *loop;
    struct monitor *monitor;
    struct err err = {.text = "out of memory"};
    if (loop_new(&loop) < 0 || monitor_new(&monitor, loop, service_register_all, &err) < 0) {
        log_error("%s", err.text);
        return EXIT_FAILURE;
    }
    extensions_load(monitor);
    reference_print(monitor, stdout);
    extensions_end(monitor);
    monitor_free(monitor);
    loop_free(loop);
    return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* False: end with this status. */
static bool read_options(int argc, char **argv, struct daemon *daemon, bool *ret_daemon, int *ret_status)
{
    struct options options;
    struct err err;
    bool serve = false;
    if (options_parse(&options, COMMAND_MONITOR, argc, argv, &err) < 0) {
        log_error("%s; see `scry monitor --help`", err.text);
        *ret_status = EXIT_USAGE;
    } else if (options.help) {
        _cleanup_(buf_done) struct buf text = BUF_INIT;
        options_help(&text, COMMAND_MONITOR);
        *ret_status = text.data && fputs(text.data, stdout) >= 0 ? EXIT_SUCCESS : EXIT_FAILURE;
    } else if (options_given(&options, "reference")) {
        *ret_status = print_reference(options_text(&options, "reference"));
    } else {
        serve = true;
        if (options_given(&options, "log-level"))
            log_set_level(options_text(&options, "log-level"));
        *ret_daemon = options_on(&options, "daemon");
        daemon->idle_ns = (uint64_t)(options_seconds(&options, "idle") * NS_PER_SECOND) + 1;
        const char *listen; /* borrowed from argv */
        for (size_t at = 0; (listen = options_next(&options, "listen", &at)) && daemon->listen_count < LISTEN_MOST;)
            daemon->listen[daemon->listen_count++] = listen;
        if (daemon->listen_count && !options_given(&options, "idle")) /* somebody may come at any time */
            daemon->idle_ns = UINT64_MAX / 4;
    }
    options_done(&options);
    return serve;
}

static int run(int argc, char **argv)
{
    bool as_daemon;
    int status;
    struct daemon daemon = {.home = HOME_INIT};
    log_open("scry monitor", 0);
    if (!read_options(argc, argv, &daemon, &as_daemon, &status))
        return status;
    close_descriptors();
    int ready = as_daemon ? detach() : -1;
    if (as_daemon && chdir("/") < 0)
        log_warning("cannot change to /: %s", strerror(errno));
    umask(077);
    unsetenv("DEBUGINFOD_URLS");
    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    map_guard_install();
    mallopt(M_ARENA_MAX, 1);
    struct err err;
    int code = raise_limits(&err);
    if (code == 0)
        code = daemon_start(&daemon, &err);
    if (code == -EBUSY && daemon.listen_count && !as_daemon)
        log_error("to listen beside the monitor that runs already: `scry link serve --listen %s`", daemon.listen[0]);
    if (code == 0 && daemon.listen_count && (code = listen_start(daemon.listen, daemon.listen_count, &err)) < 0)
        daemon_end(&daemon);
    if (code < 0) {
        log_error("%s", err.text);
        if (as_daemon && code == -EBUSY)
            tell(ready, LOCAL_BUSY);
        return EXIT_FAILURE;
    }
    if (as_daemon) { /* from here on, errors go to the log; before, to whoever started us */
        redirect_streams();
        log_open("scry-monitor", 1);
    }
    extensions_load(daemon.monitor);
    if (as_daemon)
        tell(ready, EXIT_SUCCESS);
    start_memory_drop();
    code = loop_run(daemon.loop);
    if (code < 0)
        log_error("the event loop failed: %s", strerror(-code));
    daemon_end(&daemon);
    return code < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    return stack_run(run, argc, argv);
}
