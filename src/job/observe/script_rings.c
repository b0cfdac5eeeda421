/* SPDX-License-Identifier: Apache-2.0 */
#include "job/observe/script_rings.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/data/hash.h"
#include "base/system/clock.h"
#include "base/system/dirs.h"
#include "base/system/file.h"
#include "base/system/log.h"
#include "base/system/own_memory.h"
#include "base/system/proc_file.h"
#include "job/launch/preload.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"

enum {
    LIFE_PERIODS = 5,      /* so seldom it is looked whether the process lives */
    RINGS_MOST = 4096,     /* of one job at one time */
    RECORDS_MOST = 100000, /* of one ring at one look */
    REASONS = 8,           /* more kinds of them there are not */
};

struct ring {
    struct script_rings_ring seen;
    struct script_view view;
    void *memory;
    size_t size;
    char name[NAME_MAX + 1];
    uint64_t look_life; /* periods until then */
    bool foreign;       /* the numbers of its processes are those of another PID namespace */
    UT_hash_handle hh;  /* by name */
};

struct script_rings {
    struct observer *observer;
    const struct script_rings_use *use;
    void *ctx;
    char dir[PATH_MAX];
    int notify;
    struct ring *rings;
    struct loop_source *input, *timer;
    uint64_t start_ticks, start_ns;
    uint32_t pid_namespace; /* ours */
    bool too_many;
    char *told[REASONS]; /* reasons why one is not watched */
};

/* ---- containers ---- */

static uint32_t namespace_of(const char *pid)
{
    char path[64];
    struct stat status;
    snprintf(path, sizeof path, "/proc/%.20s/ns/pid", pid);
    return stat(path, &status) == 0 ? (uint32_t)status.st_ino : 0;
}

/* The number that we know a process of another namespace by: the one whose stack is there. 0: it is gone. */
static pid_t outer_pid(const struct script_ring *head)
{
    pid_t found = 0;
    struct proc_stat stat;
    DIR *processes = head->stack ? opendir("/proc") : NULL;
    for (struct dirent *entry; !found && processes && (entry = readdir(processes));) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (pid > 0 && proc_stat_of(pid, 0, &stat) == 0 && stat.start_stack == head->stack &&
            namespace_of(entry->d_name) == head->pid_namespace)
            found = pid;
    }
    if (processes)
        closedir(processes);
    return found;
}

/* ---- times ---- */

static uint64_t ticks(void)
{
    return __builtin_ia32_rdtsc();
}

uint64_t script_rings_ns(const struct script_rings *rings, const struct script_rings_ring *ring, uint64_t time)
{
    if (!ring->view->head.in_ticks)
        return time;
    uint64_t passed_ns = clock_now_ns() - rings->start_ns, passed = ticks() - rings->start_ticks;
    return passed ? (uint64_t)((double)time * (double)passed_ns / (double)passed) : 0;
}

/* ---- a record ---- */

char *script_text_copy(const struct script_text *text)
{
    return strndup(text->bytes ? text->bytes : "", text->bytes ? text->size : 0);
}

void script_rings_note_aside(struct script_rings *rings, const struct script_rings_ring *ring,
                             const struct script_event *event)
{
    _cleanup_(freep) char *reason = script_text_copy(&event->texts[SCRIPT_MESSAGE]);
    size_t at = 0;
    while (reason && at < REASONS && rings->told[at] && strcmp(rings->told[at], reason) != 0)
        at++;
    if (!reason || at == REASONS || rings->told[at])
        return;
    rings->told[at] = TAKE_PTR(reason);
    observe_note(rings->observer, NOTE(script_aside, .pid = (uint64_t)ring->pid, .reason = rings->told[at]));
}

static json_t *text_of(const struct script_text *text)
{
    _cleanup_(freep) char *ended = script_text_copy(text);
    return ended ? text_json(ended) : NULL;
}

json_t *script_frames_json(const struct script_event *event)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < event->frame_count; i++)
        json_array_append_new(list,
                              json_pack("{s:o, s:o, s:i}", "function", text_of(&event->frames[i].function), "file",
                                        text_of(&event->frames[i].file), "line", (int)event->frames[i].line));
    return list;
}

/* ---- one ring ---- */

static void path_of(const struct script_rings *rings, const char *name, char path[2 * PATH_MAX])
{
    snprintf(path, 2 * PATH_MAX, "%s/%s", rings->dir, name);
}

static void ring_take(struct script_rings *rings, struct ring *ring, int32_t gone)
{
    struct script_event record;
    atomic_store_explicit(&ring->view.ring->belled, 0, memory_order_relaxed);
    for (int i = 0; i < RECORDS_MOST && script_view_take(&ring->view, gone, &record); i++) {
        if (ring->foreign) { /* of its subshells and threads, too, there is only the number of the process */
            record.tid = record.tid == ring->view.head.pid ? ring->seen.pid : record.tid;
            record.pid = ring->seen.pid;
        }
        if (rings->use->record)
            rings->use->record(rings->ctx, &ring->seen, &record);
    }
}

static void ring_look(struct script_rings *rings, struct ring *ring)
{
    ring_take(rings, ring, SCRIPT_GONE_NONE);
    pid_t writer = ring->view.waits_for;
    if (writer > 0 && !ring->foreign && kill(writer, 0) < 0 && errno == ESRCH)
        ring_take(rings, ring, writer);
    if (rings->use->looked)
        rings->use->looked(rings->ctx, &ring->seen);
}

static void end_ring(struct script_rings *rings, struct ring *ring)
{
    char path[2 * PATH_MAX];
    path_of(rings, ring->name, path);
    unlink(path);
    ring_take(rings, ring, SCRIPT_GONE_ALL);
    if (rings->use->looked)
        rings->use->looked(rings->ctx, &ring->seen);
    if (rings->use->ended)
        rings->use->ended(rings->ctx, &ring->seen);
    log_debug("script ring: over pid=%d damaged=%lu", ring->seen.pid, ring->view.damaged);
    munmap(ring->memory, ring->size);
    HASH_DEL(rings->rings, ring);
    free(ring);
}

/* Is it the process that made the file, and the program? A zombie is gone. */
static bool lives(const struct ring *ring)
{
    struct proc_stat stat;
    if (proc_stat_of(ring->seen.pid, 0, &stat) < 0 || stat.state == 'Z' || stat.state == 'X')
        return false;
    if (ring->view.head.stack && stat.start_stack && stat.start_stack != ring->view.head.stack)
        return false;
    uint64_t started_ns = stat.start_ticks * (NS_PER_SECOND / (uint64_t)sysconf(_SC_CLK_TCK));
    return started_ns < ring->view.head.born_ns + RINGS_LATE_NS;
}

/* Its process is gone, and has not been told as ended: that comes, with the status, to script_rings_process_changed. */
static bool end_comes(const struct script_rings *rings, const struct ring *ring)
{
    struct observed_process *process;
    char letter = proc_letter(ring->seen.pid, 0);
    HASH_FIND_INT(rings->observer->processes, &ring->seen.pid, process);
    return process && (letter == 0 || letter == 'Z');
}

static void *map_file(const char *path, size_t *ret_size)
{
    struct stat status;
    _cleanup_(closep) int fd = file_open_own(AT_FDCWD, path, O_RDWR);
    if (fd < 0 || fstat(fd, &status) < 0 || status.st_size <= 0 || status.st_size > UINT32_MAX)
        return NULL;
    *ret_size = (size_t)status.st_size;
    void *memory = mmap(NULL, *ret_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

/* A process that executes a program has a new ring, if any: the one before is not written to any more. */
static void end_older(struct script_rings *rings, const struct ring *newer)
{
    struct ring *ring, *next;
    HASH_ITER(hh, rings->rings, ring, next)
    {
        if (ring->seen.pid == newer->seen.pid && ring->view.head.born_ns < newer->view.head.born_ns)
            end_ring(rings, ring);
    }
}

static void add_ring(struct script_rings *rings, const char *name)
{
    char path[2 * PATH_MAX];
    if (HASH_COUNT(rings->rings) >= RINGS_MOST) {
        if (!rings->too_many)
            observe_note(rings->observer, NOTE(source_off, .source = "more scripts at one time",
                                               .reason = "4096 are looked at from inside"));
        rings->too_many = true;
        return;
    }
    struct ring *ring = calloc(1, sizeof *ring);
    if (!ring)
        return;
    path_of(rings, name, path);
    ring->memory = map_file(path, &ring->size);
    if (!ring->memory || !script_view_init(&ring->view, ring->memory, ring->size)) {
        log_debug("script ring: refused file=%s", name);
        if (ring->memory)
            munmap(ring->memory, ring->size);
        free(ring);
        return;
    }
    const struct script_ring *head = &ring->view.head;
    bool elsewhere = head->pid_namespace && rings->pid_namespace && head->pid_namespace != rings->pid_namespace;
    pid_t outer = elsewhere ? outer_pid(head) : 0;
    ring->foreign = outer > 0;
    ring->seen = (struct script_rings_ring){.pid = outer > 0 ? outer : head->pid, .view = &ring->view};
    snprintf(ring->name, sizeof ring->name, "%s", name);
    HASH_ADD_STR(rings->rings, name, ring);
    log_debug("script ring: new pid=%d language=%s", ring->seen.pid, ring->view.head.language);
    if (rings->use->began)
        rings->use->began(rings->ctx, &ring->seen);
    end_older(rings, ring);
}

/* ---- all of them ---- */

static bool is_ours(const struct script_rings *rings, const char *name)
{
    size_t size = strlen(rings->use->language);
    return strncmp(name, rings->use->language, size) == 0 && name[size] == '.';
}

static void script_rings_look(struct script_rings *rings);

static void on_timer(void *ctx)
{
    script_rings_look(ctx);
}

static struct ring *ring_find(struct script_rings *rings, const char *name)
{
    struct ring *ring;
    HASH_FIND_STR(rings->rings, name, ring);
    if (ring || !is_ours(rings, name))
        return ring;
    add_ring(rings, name);
    HASH_FIND_STR(rings->rings, name, ring);
    if (ring && !rings->timer)
        rings->timer = loop_add_timer(rings->observer->loop, RINGS_PERIOD_NS, RINGS_PERIOD_NS, on_timer, rings);
    return ring;
}

static void scan(struct script_rings *rings)
{
    DIR *dir = opendir(rings->dir);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        ring_find(rings, entry->d_name);
    if (dir)
        closedir(dir);
}

/* Looks at all rings. */
static void script_rings_look(struct script_rings *rings)
{
    struct ring *ring, *next;
    HASH_ITER(hh, rings->rings, ring, next)
    {
        ring_look(rings, ring);
        if (++ring->look_life >= LIFE_PERIODS) {
            ring->look_life = 0;
            if (!lives(ring) && !end_comes(rings, ring))
                end_ring(rings, ring);
        }
    }
    if (!rings->rings && rings->timer) {
        loop_remove(rings->timer);
        rings->timer = NULL;
    }
}

static void on_notify(void *ctx, int fd, uint32_t events)
{
    struct script_rings *rings = ctx;
    _Alignas(struct inotify_event) char bytes[16 << 10];
    ssize_t got;
    while ((got = read(fd, bytes, sizeof bytes)) > 0)
        for (ssize_t at = 0; at < got;) {
            const struct inotify_event *event = (const void *)(bytes + at);
            at += (ssize_t)(sizeof *event + event->len);
            if (event->mask & IN_Q_OVERFLOW)
                scan(rings);
            struct ring *ring = event->len ? ring_find(rings, event->name) : NULL;
            if (ring && event->mask & IN_ATTRIB)
                ring_look(rings, ring);
        }
}

void script_rings_process_changed(struct script_rings *rings, pid_t pid, bool ended)
{
    struct ring *ring, *next;
    on_notify(rings, rings->notify, EPOLLIN); /* a script may be over before its ring is heard of */
    HASH_ITER(hh, rings->rings, ring, next)
    {
        if (ring->seen.pid == pid && !ended && lives(ring))
            ring_look(rings, ring);
        else if (ring->seen.pid == pid)
            end_ring(rings, ring);
    }
}

/* ---- the directory ---- */

static void empty_dir(const char *path)
{
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        unlinkat(dirfd(dir), entry->d_name, 0);
    if (dir)
        closedir(dir);
}

/* scripts.PID of a scry run that is gone. */
static void sweep(const char *own)
{
    char runtime[PATH_MAX], path[2 * PATH_MAX];
    const char *slash = strrchr(own, '/');
    snprintf(runtime, sizeof runtime, "%.*s", (int)(slash - own), own);
    DIR *dir = opendir(runtime);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        char *end;
        if (strncmp(entry->d_name, "scripts.", 8) != 0)
            continue;
        long pid = strtol(entry->d_name + 8, &end, 10);
        if (*end || pid <= 0 || kill((pid_t)pid, 0) == 0 || errno != ESRCH)
            continue;
        snprintf(path, sizeof path, "%s/%s", runtime, entry->d_name);
        empty_dir(path);
        rmdir(path);
    }
    if (dir)
        closedir(dir);
}

static int open_dir(struct script_rings *rings, struct err *err)
{
    int code = script_env_dir(rings->dir, sizeof rings->dir, getppid(), err);
    if (code < 0)
        return code;
    sweep(rings->dir);
    if (mkdir(rings->dir, 0700) < 0 && errno != EEXIST)
        return err_errno(err, -errno, "%s cannot be made", rings->dir);
    if (!rings->observer->restarted) /* of another scry run with this pid; nothing is executed yet */
        empty_dir(rings->dir);
    rings->notify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (rings->notify < 0 || inotify_add_watch(rings->notify, rings->dir, IN_MOVED_TO | IN_ATTRIB | IN_ONLYDIR) < 0)
        return err_errno(err, -errno, "%s cannot be watched", rings->dir);
    rings->input = loop_add_fd(rings->observer->loop, rings->notify, EPOLLIN, on_notify, rings);
    return rings->input ? 0 : err_set(err, -ENOMEM, "out of memory");
}

bool script_rings_have_room(const struct script_rings *rings, uint64_t bytes)
{
    struct statvfs disk;
    return statvfs(rings->dir, &disk) < 0 || !disk.f_blocks || disk.f_bavail >= bytes / disk.f_frsize;
}

struct script_rings *script_rings_new(struct observer *observer, const struct script_rings_use *use, void *ctx,
                                      struct err *err)
{
    struct script_rings *rings = calloc(1, sizeof *rings);
    if (!rings) {
        err_set(err, -ENOMEM, "out of memory");
        return NULL;
    }
    *rings = (struct script_rings){
        .observer = observer, .use = use, .ctx = ctx, .notify = -1, .start_ticks = ticks(), .start_ns = clock_now_ns()};
    rings->pid_namespace = namespace_of("self");
    map_guard_install();
    if (open_dir(rings, err) < 0) {
        script_rings_free(rings);
        return NULL;
    }
    scan(rings); /* of an observer before this one */
    return rings;
}

void script_rings_free(struct script_rings *rings)
{
    struct ring *ring, *next;
    if (!rings)
        return;
    if (rings->input)
        scan(rings);
    HASH_ITER(hh, rings->rings, ring, next)
    {
        end_ring(rings, ring);
    }
    loop_remove(rings->timer);
    loop_remove(rings->input);
    if (rings->notify >= 0)
        close(rings->notify);
    if (rings->dir[0])
        rmdir(rings->dir);
    free(rings);
}
