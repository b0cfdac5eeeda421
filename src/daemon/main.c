/* SPDX-License-Identifier: Apache-2.0 */
#include "base/data/cleanup.h"
#include "base/data/err.h"
#include "base/data/notes.h"
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
#include "monitor/engine/monitor.h"
#include "monitor/engine/object.h"
#include "monitor/engine/tool.h"
#include "monitor/mpi/mpi.h"
#include "monitor/params/params.h"
#include "monitor/parts/parts.h"
#include "monitor/recorder/agents.h"
#include "monitor/tree/tree.h"
#include "options/options.h"
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
#include <scry/omis.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

struct agents;
struct loop;
struct loop_source;
struct server;

struct home {
    char dir[PATH_MAX - 32], socket_path[PATH_MAX], pid_path[PATH_MAX];
    int dir_fd, pid_fd, socket_file; /* to recognise them at their paths; the first two hold the locks */
    int notify_fd;
    bool lost, taken; /* lost: nobody finds us; taken: another monitor owns the directory, so nobody will */
    struct loop *loop;
    struct server *server;
    struct agents *agents; /* NULL: tracing is not possible */
    struct loop_source *notify, *timer;
    unsigned settling; /* events in a row */
};
#define HOME_INIT ((struct home){.dir_fd = -1, .pid_fd = -1, .socket_file = -1, .notify_fd = -1})

struct monitor;

/*
 * The runtime directory of this monitor. A lock on the directory itself makes it ours: removing or renaming files does
 * not end that, but the end of the process does. So two monitors never serve one directory, nor wait at one doorbell.
 *
 * Removing files there must not harm a job. Missing files (a socket, the folder of areas) are made again. So is the
 * directory, which systemd removes with /run/user/UID at logout, as soon as the folder around it is there; a monitor
 * that nobody needs ends instead. If another monitor was faster and owns the new directory, this one goes on with the
 * tools and programs that it has, and ends with the last of them.
 */

enum {
    TAKE_TRIES = 10,
    SETTLE_MOST = 20, /* times in a row */
};

/* ---- owning it ---- */

static int is_busy(const struct home *home, struct err *err)
{
    char pid[32] = "";
    _cleanup_(closep) int fd = open(home->pid_path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t len = fd < 0 ? 0 : pread(fd, pid, sizeof pid - 1, 0);
    pid[len > 0 ? strcspn(pid, "\n") : 0] = 0;
    return err_set(err, -EBUSY, "a monitor has %s already (pid %s)", home->dir, *pid ? pid : "unknown");
}

/* -EBUSY: another monitor owns it; -EAGAIN: it was removed meanwhile. */
static int home_lock(const struct home *home, int *ret_fd, struct err *err)
{
    _cleanup_(closep) int fd = open(home->dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return err_errno(err, errno == ENOENT ? -EAGAIN : -errno, "cannot open %s", home->dir);
    /* some file systems cannot lock directories (NFS): there the pid file's lock must do */
    if (flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
        return is_busy(home, err);
    if (!file_is_at(home->dir, fd))
        return err_errno(err, -EAGAIN, "%s was removed", home->dir);
    *ret_fd = TAKE_FD(fd);
    return 0;
}

/* Its lock is for monitors that do not lock the directory. */
static int take_pid_file(struct home *home, struct err *err)
{
    _cleanup_(closep) int fd = file_open_own(AT_FDCWD, home->pid_path, O_RDWR | O_CREAT);
    if (fd < 0)
        return err_errno(err, fd, "cannot open %s", home->pid_path);
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return is_busy(home, err);
    /* a monitor that has just ended may have removed the file that we locked */
    if (!file_is_at(home->pid_path, fd))
        return take_pid_file(home, err);
    char pid[32];
    int len = snprintf(pid, sizeof pid, "%d\n", getpid());
    if (ftruncate(fd, 0) < 0 || pwrite(fd, pid, (size_t)len, 0) != len)
        return err_errno(err, -errno, "cannot write %s", home->pid_path);
    if (home->pid_fd >= 0)
        close(home->pid_fd);
    home->pid_fd = TAKE_FD(fd);
    return 0;
}

/* Finds and locks the directory. 0, -EBUSY (a monitor has it) or -errno, with err. */
static int home_take(struct home *home, struct err *err)
{
    int code = -EAGAIN;
    for (unsigned tries = 0; code == -EAGAIN && tries < TAKE_TRIES; tries++) {
        code = dirs_runtime(home->dir, sizeof home->dir, err);
        if (code < 0)
            return code;
        snprintf(home->socket_path, sizeof home->socket_path, "%s/monitor.sock", home->dir);
        snprintf(home->pid_path, sizeof home->pid_path, "%s/monitor.pid", home->dir);
        code = home_lock(home, &home->dir_fd, err);
    }
    return code < 0 ? code : take_pid_file(home, err);
}

/* The socket for tools: a listening descriptor, the caller's, or -errno with err. */
static int home_listen(struct home *home, struct err *err)
{
    int fd = local_listen(home->socket_path, err);
    if (fd < 0)
        return fd;
    if (home->socket_file >= 0)
        close(home->socket_file);
    home->socket_file = open(home->socket_path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    return fd;
}

/* ---- watching it ---- */

static void home_look(void *ctx);

static void look_in(struct home *home, uint64_t delay_ns)
{
    if (!home->timer)
        home->timer = loop_add_timer(home->loop, delay_ns, 0, home_look, home);
}

static void home_notified(void *ctx, int fd, uint32_t events)
{
    struct home *home = ctx;
    char bytes[4096];
    (void)events;
    while (read(fd, bytes, sizeof bytes) > 0)
        ;
    look_in(home, HOME_SETTLE_NS);
    if (home->timer && home->settling++ < SETTLE_MOST)
        loop_set_timer(home->timer, HOME_SETTLE_NS, 0);
}

static bool can_be_notified(struct home *home)
{
    loop_remove(home->notify);
    home->notify = NULL;
    if (home->notify_fd >= 0)
        close(home->notify_fd);
    home->notify_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (home->notify_fd < 0 ||
        inotify_add_watch(home->notify_fd, home->dir,
                          IN_ONLYDIR | IN_DELETE | IN_DELETE_SELF | IN_MOVE_SELF | IN_MOVED_FROM | IN_MOVED_TO) < 0)
        return false;
    home->notify = loop_add_fd(home->loop, home->notify_fd, EPOLLIN, home_notified, home);
    return home->notify != NULL;
}

/* Makes missing files of our directory again, as far as possible. 1: something was missing; 0; or -errno. */
static int home_settle(struct home *home, bool moved, struct err *err)
{
    bool listens = file_is_at(home->socket_path, home->socket_file);
    bool named = file_is_at(home->pid_path, home->pid_fd);
    int code = home->agents ? agents_again(home->agents, moved, err) : 0;
    if (code == -EBUSY)
        return code;
    int fd = listens ? -1 : home_listen(home, err);
    int listened = listens ? 0 : fd < 0 ? fd : server_listen(home->server, fd);
    int noted = named ? 0 : take_pid_file(home, err);
    code = code < 0 ? code : listened < 0 ? listened : noted;
    return code < 0 ? code : !listens || !named;
}

static int home_move(struct home *home, struct err *err)
{
    struct stat before;
    int fd = -1, former = home->dir_fd;
    int code = dirs_runtime_again(home->dir, err);
    if (code == 0)
        code = home_lock(home, &fd, err);
    if (code < 0)
        return code;
    home->dir_fd = fd;
    code = home_settle(home, true, err);
    if (code == -EBUSY) {
        home->dir_fd = former;
        close(fd);
    } else if (fstat(former, &before) == 0 && !before.st_nlink) {
        close(former);
    } /* else it was renamed, and stays locked: the buffers of our programs are in it */
    return code < 0 ? code : 1;
}

static void home_look(void *ctx)
{
    struct home *home = ctx;
    struct err err = {.text = ""};
    loop_remove(home->timer);
    home->timer = NULL;
    home->settling = 0;
    bool here = file_is_at(home->dir, home->dir_fd), was_lost = home->lost;
    bool needed = server_connections(home->server) || (home->agents && agents_count(home->agents));
    if (!here && !needed) {
        log_info("%s was removed, and nobody needs this monitor", home->dir);
        loop_stop(home->loop);
        return;
    }
    pause_at("home.look");
    int code = here ? home_settle(home, false, &err) : home->taken ? -EBUSY : home_move(home, &err);
    home->taken |= !here && code == -EBUSY;
    home->lost = code < 0;
    if (home->lost && !was_lost) {
        log_warning("removed files of %s are still missing: %s", home->dir, err.text);
        if (!here && home->agents)
            agents_unreachable(home->agents);
    } else if (!home->lost && (was_lost || code)) {
        log_info("removed files of %s were made again", home->dir);
    }
    if (code > 0)
        can_be_notified(home);
    if (code || !home->notify)
        look_in(home, HOME_AGAIN_NS);
}

/* Watches the directory from here on. */
static void home_watch(struct home *home, struct loop *loop, struct server *server, struct agents *agents)
{
    home->loop = loop;
    home->server = server;
    home->agents = agents;
    if (!can_be_notified(home))
        log_info("no inotify: %s is checked once a second", home->dir);
    look_in(home, home->notify ? 1 : HOME_AGAIN_NS); /* it may have gone before */
}

/* ---- releasing it ---- */

/* First lets nobody new in. Then, when everything is released, lets another monitor in. Removes only our own files. */
static void home_shut(struct home *home)
{
    loop_remove(home->notify);
    loop_remove(home->timer);
    if (home->notify_fd >= 0)
        close(home->notify_fd);
    file_unlink_own(home->socket_path, home->socket_file);
    if (home->socket_file >= 0)
        close(home->socket_file);
}

static void home_leave(struct home *home)
{
    file_unlink_own(home->pid_path, home->pid_fd);
    if (home->pid_fd >= 0)
        close(home->pid_fd);
    if (home->dir_fd >= 0)
        close(home->dir_fd);
}

/* Prints the reference pages of services, MPI calls and notes from the tables. */

static const char intro[] =
    "# Services\n"
    "\n"
    "<!-- Generated by scry-monitor --reference from the tables of the services; a test keeps it true. -->\n"
    "\n"
    "Every service of this monitor, from its own tables. *Class* is the specification's: **R** required, **P**\n"
    "partly required, **O** optional. A `token<p>` is converted to a process by localisation and expansion. The\n"
    "letters are those of the tokens: `n` node, `p` process, `t` thread, `q` message queue, `m` message, `e`\n"
    "user-defined event, `c` conditional service request. For an event service, the context parameters follow `->`\n"
    "(`$sig`, `$new_proc`, ...). Every event also has `$node`, `$proc`, `$thread`, `$time` and `$csr`. Parameters\n"
    "in brackets may be left out. A service that cannot work answers `OMIS_UNSUPPORTED_SERVICE`, with the reason\n"
    "given here.\n"
    "\n"
    "Units follow the type: `integer<bytes> size`, `floating<s> duration`. `1/s` is per second, and pages have\n"
    "`mem_pagesize` bytes. Numbers without a unit are counts, identifiers or flags.\n"
    "\n"
    "*Right* is what the key of somebody needs who speaks with a job through a broker (`scry keys`): observe, control "
    "or\n"
    "memory; *none* for what can be used on the node alone. Such a tool has only the processes of its job, and its "
    "own\n"
    "objects. An argument `job` can name that job only, and means it if it is empty.\n"
    "\n"
    "*Errors* are the statuses, without their `OMIS_`, that a service may answer for an object. A request as a\n"
    "whole (element 0 of the reply) may also have `OMIS_SYNTAX_ERROR`, `OMIS_UNKNOWN_SERVICE`, `OMIS_UNKNOWN_ECP`,\n"
    "`OMIS_TYPE_MISMATCH`, `OMIS_PARAMETER_ERROR`, `OMIS_NO_MEMORY` and `OMIS_INTERNAL_ERROR`; every action\n"
    "`OMIS_UNKNOWN_ECP`, `OMIS_TYPE_MISMATCH` and `OMIS_NO_MEMORY`. Any of them with `OMIS_FATAL` means: the\n"
    "object's state was changed and could not be restored. A conditional request is answered with\n"
    "`OMIS_CSR_DEFINED`, later `_ENABLED`, `_DISABLED`, `_TRIGGERED` and `_DELETED`.\n";

static void print_escaped(FILE *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '|')
            fputc('\\', out);
        fputc(*text, out);
    }
}

/* What may go wrong beyond what every request may answer. */
static void print_statuses(const struct service *service, FILE *out)
{
    static const Omis_status statuses[] = {
        OMIS_UNKNOWN_SERVICE, OMIS_UNSUPPORTED_SERVICE, OMIS_UNKNOWN_OBJECT,   OMIS_PARAMETER_ERROR,
        OMIS_OS_ERROR,        OMIS_NO_PERMISSION,       OMIS_UNSPECIFIED_ERROR};
    const char *comma = "";
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
        if (registry_may_answer(service, statuses[i])) {
            fprintf(out, "%s%s", comma, omis_status_name(statuses[i]) + strlen("OMIS_"));
            comma = ", ";
        }
}

static void print_row(const struct service *service, FILE *out)
{
    static const char *const kinds[] = {"information", "manipulation", "event"};
    static const char classes[] = {'R', 'P', 'O'};
    const struct scry_service *row = service->row;
    const char *missing = row->missing ? row->missing() : NULL;
    fprintf(out, "| `%s` | %s | %c | %s | `", row->name, kinds[row->kind],
            classes[row->requirement & ~(SCRY_PARTLY | SCRY_RIGHTS)],
            service->right == RIGHT_LOCAL ? "none" : right_name(service->right));
    const struct span result = service->signature.result; /* the statuses behind it have a column */
    fprintf(out, "%.*s", (int)(result.ptr + result.len - row->signature), row->signature);
    fputs("` | ", out);
    if (missing)
        fputs("unsupported: ", out);
    print_escaped(out, missing ? missing : row->requirement & SCRY_PARTLY ? "works in part" : "works");
    fputs(" | ", out);
    print_escaped(out, row->doc);
    fputs(" | ", out);
    print_statuses(service, out);
    fputs(" |\n", out);
}

static void print_family(const struct registry *registry, const char *extension, FILE *out)
{
    fputs("\n| service | kind | class | right | signature | state | what it does | errors "
          "|\n|---|---|---|---|---|---|---|---|\n",
          out);
    for (const struct service *service = registry->services; service; service = service->hh.next)
        if (strcmp(service->extension, extension) == 0)
            print_row(service, out);
}

/* Markdown: a table for each extension, with name, kind, class, signature, state on this machine, description. */
static void reference_print(const struct monitor *monitor, FILE *out)
{
    const struct registry *registry = monitor->registry;
    fputs(intro, out);
    fputs("\n## Basic services (OMIS 2.0, chapter 8)\n", out);
    print_family(registry, "", out);
    for (size_t i = 0; i < registry->extension_count; i++) {
        fprintf(out, "\n## Extension `%s`\n", registry->extensions[i]);
        print_family(registry, registry->extensions[i], out);
    }
}

/* ", " before all but the first of a list. */
static void print_name(const char *name, const char **comma, FILE *out)
{
    fprintf(out, "%s\"%s\"", *comma, name);
    *comma = ", ";
}

/* A call as a line of JSON: doc/reference/omis-readings.md has the members. */
static void print_call(uint32_t call, FILE *out)
{
    static const char *const about[] = {"peer", "tag", "source", "source_tag", "comm", "bytes", "received", "ordinal"};
    static const char *const libraries[] = {"Open MPI", "MPICH"};
    const struct call_info *info = &call_infos[call];
    fprintf(out, "    \"%s\": {\"libraries\": [", info->name);
    const char *comma = "";
    for (unsigned i = 0; i < 2; i++)
        if (info->libraries & 1U << i)
            print_name(libraries[i], &comma, out);
    fputs("], \"parameters\": [", out);
    comma = "";
    for (unsigned i = 0; i < info->param_count; i++)
        print_name(call_param_name(&call_info_params(info)[i]), &comma, out);
    fputs("], \"more\": [", out);
    comma = "";
    for (unsigned i = info->param_count + 1; i <= mpi_param_last(call); i++)
        print_name(mpi_param_at(call, true, i).kind >= MPI_PARAM_SENT ? "message" : "length", &comma, out);
    fputs("], \"about\": [", out);
    comma = "";
    for (size_t i = 0; i < sizeof about / sizeof *about; i++)
        if (mpi_param_is_about(call, true, span_str(about[i])))
            print_name(about[i], &comma, out);
    fputs("]}", out);
}

/* What events of MPI calls report, for programs. */
static void reference_print_mpi_calls(FILE *out)
{
    fputs(
        "{\n"
        "  \"generated\": \"scry-monitor --reference=mpi-calls, from the table of MPI calls; a test keeps it true\",\n"
        "  \"calls\": {\n",
        out);
    for (uint32_t call = 1; call < CALL_COUNT; call++) {
        print_call(call, out);
        fputs(call + 1 < CALL_COUNT ? ",\n" : "\n", out);
    }
    fputs("  }\n}\n", out);
}

/* ---- notes ---- */

static const char notes_intro[] =
    "# Notes\n"
    "\n"
    "<!-- Generated by scry-monitor --reference=notes from the table of notes; a test keeps it true. -->\n"
    "\n"
    "What scry says about a job. In JSON (the `warnings` of `scry report --json` and of `job.json`, the\n"
    "`trace.notes` of the report), each note has its name as `note`, its group as `kind`, its `fields`, and the\n"
    "`text` for people. The service `job_trace_info` has lists of the name and the fields in this order. Texts may\n"
    "change: programs read `note`.\n"
    "\n"
    "In the texts, `{name}` is a field, and `{name.1}` has one decimal. `{name?one/other}` is `one` if the field is\n"
    "1 or true, else `other`. Jobs recorded by earlier versions only have `kind` and `text`.\n"
    "\n"
    "| note | kind | fields | text |\n"
    "| --- | --- | --- | --- |\n";

/* In a table, a bar would end the cell. */
static void print_template(const char *text, FILE *out)
{
    for (; *text; text++)
        fputc(*text == '|' ? '/' : *text, out);
}

/* The page of notes: "note" and "fields" of a job's warnings and problems. */
static void reference_print_notes(FILE *out)
{
    static const char *const types[] = {"integer", "floating", "string", "flag"};
    fputs(notes_intro, out);
    for (enum note_kind kind = NOTE_NONE + 1; kind < NOTE_KINDS; kind++) {
        const struct note_field *fields = note_fields(kind);
        fprintf(out, "| `%s` | `%s` | ", note_name(kind), note_group(kind));
        for (size_t i = 0; fields[i].name[0]; i++)
            fprintf(out, "%s%s `%s`", i ? ", " : "", types[fields[i].type], fields[i].name);
        fputs(" | ", out);
        print_template(note_template(kind), out);
        fputs(" |\n", out);
    }
}

enum { LISTEN_MOST = 16 };

static const char file_prefix[] = "scry_ext_";

static void extension_load(struct monitor *monitor, const char *name, const char *prefix)
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
                extension_load(ctx, path, prefix);
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
    for (uint64_t until_ns = clock_now_ns() + MONITOR_START_MS * WAITS_NS_PER_MS;
         clock_now_ns() < until_ns && len + 1 < sizeof text && !memchr(text, '\n', len);) {
        if (!wait_fd_until(fd, POLLIN, until_ns))
            continue;
        ssize_t got = read(fd, text + len, sizeof text - 1 - len);
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
    int said[2], ends[3], code = dirs_libexec("scry-link", path, sizeof path, err);
    pid_t pid;
    if (code < 0)
        return code;
    for (size_t i = 0; i < count && i < LISTEN_MOST; i++)
        argv[2 + i] = (char *)addresses[i];
    if (pipe2(said, O_CLOEXEC) < 0)
        return err_errno(err, -errno, "cannot start %s", path);
    _cleanup_(closep) int reads = said[0], says = said[1];
    code = spawn_piped(
        &(struct spawn){
            .path = path, .argv = argv, .in = SPAWN_PIPE, .out = says, .error = says, .group = SPAWN_OWN_SESSION},
        &pid, ends); /* our end stays open until the monitor ends, which it sees */
    close(TAKE_FD(says));
    return code < 0 ? err_errno(err, code, "cannot start %s", path) : wait_for_line(reads, err);
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
    uint64_t since_ns = clock_now_ns();
    while (!wait_fd(fd, POLLIN, (int)wait_policies[WAIT_ANSWER].look_ms)) {
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
static int daemon_detach(void)
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

static void starter_tell(int ready, char status)
{
    if (write(ready, &status, 1) != 1)
        log_warning("the process that started the monitor is gone");
    close(ready);
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

static int daemon_run(int argc, char **argv)
{
    bool as_daemon;
    int status;
    struct daemon daemon = {.home = HOME_INIT};
    log_open("scry monitor", 0);
    if (!read_options(argc, argv, &daemon, &as_daemon, &status))
        return status;
    close_range(3, ~0u, 0);
    int ready = as_daemon ? daemon_detach() : -1;
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
            starter_tell(ready, LOCAL_BUSY);
        return EXIT_FAILURE;
    }
    if (as_daemon) { /* from here on, errors go to the log; before, to whoever started us */
        redirect_streams();
        log_open("scry-monitor", 1);
    }
    extensions_load(daemon.monitor);
    if (as_daemon)
        starter_tell(ready, EXIT_SUCCESS);
    start_memory_drop();
    code = loop_run(daemon.loop);
    if (code < 0)
        log_error("the event loop failed: %s", strerror(-code));
    daemon_end(&daemon);
    return code < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    return stack_run(daemon_run, argc, argv);
}
