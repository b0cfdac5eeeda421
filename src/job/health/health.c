/* SPDX-License-Identifier: Apache-2.0 */
#include "job/health/health.h"

#include "base/data/cleanup.h"
#include "base/data/number.h"
#include "base/system/clock.h"
#include "base/system/file.h"
#include "job/health/credentials.h"
#include "job/health/filesystems.h"
#include "job/health/judge.h"
#include "job/health/processes.h"
#include "job/places/blocked.h"
#include "job/places/where.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"

#include <errno.h>
#include <limits.h>
#include <linux/magic.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <time.h>
#include <sys/wait.h>
#include <unistd.h>

#define XFS_MAGIC 0x58465342
#define ZFS_MAGIC 0x2fc12fc1
enum { STACK_BYTES = 512 << 10 /* what reads tickets needs some */ };

struct ask {
    atomic_int users; /* who asked, and the thread; the last one frees it */
    int done;         /* eventfd */
    ask_fn *how;
    size_t answer_at, answer_size;
    _Alignas(max_align_t) char question[];
};

static bool is_elsewhere(unsigned long type)
{
    static const unsigned long here[] = {EXT4_SUPER_MAGIC,      XFS_MAGIC,        BTRFS_SUPER_MAGIC, TMPFS_MAGIC,
                                         OVERLAYFS_SUPER_MAGIC, F2FS_SUPER_MAGIC, ZFS_MAGIC,         RAMFS_MAGIC};
    for (size_t i = 0; i < sizeof here / sizeof *here; i++)
        if (type == here[i])
            return false;
    return true;
}

static int64_t times(uint64_t count, uint64_t size)
{
    uint64_t product;
    return __builtin_mul_overflow(count, size, &product) || product > INT64_MAX ? INT64_MAX : (int64_t)product;
}

void ask_now(const void *path, void *ret_answer)
{
    struct ask_answer *answer = ret_answer;
    struct stat info;
    struct statfs figures;
    *answer = (struct ask_answer){0};
    if (stat(path, &info) < 0 || statfs(path, &figures) < 0)
        return;
    uint64_t block = (uint64_t)(figures.f_frsize > 0 ? figures.f_frsize : figures.f_bsize);
    *answer = (struct ask_answer){
        .there = true,
        .device = info.st_dev,
        .elsewhere = is_elsewhere((unsigned long)figures.f_type),
        .total_bytes = times(figures.f_blocks, block),
        .free_bytes = times(figures.f_bavail < figures.f_blocks ? figures.f_bavail : figures.f_blocks, block),
        .inodes = times(figures.f_files, 1),
        .free_inodes = times(figures.f_ffree < figures.f_files ? figures.f_ffree : figures.f_files, 1)};
}

void ask_drop(struct ask *ask)
{
    if (!ask || atomic_fetch_sub(&ask->users, 1) != 1)
        return;
    close(ask->done);
    free(ask);
}

static void *ask_run(void *state)
{
    struct ask *ask = state;
    ask->how(ask->question, ask->question + ask->answer_at);
    eventfd_write(ask->done, 1);
    ask_drop(ask);
    return NULL;
}

/* Signals are for the thread that has the loop. */
static bool start_thread(struct ask *ask)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    if (pthread_attr_init(&attributes) != 0)
        return false;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(&thread, &attributes, ask_run, ask) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return started;
}

struct ask *ask_start(ask_fn *how, const void *question, size_t question_size, size_t answer_size)
{
    size_t align = _Alignof(max_align_t), answer_at = (question_size + align - 1) / align * align;
    struct ask *ask = calloc(1, sizeof *ask + answer_at + answer_size);
    if (!ask)
        return NULL;
    memcpy(ask->question, question, question_size);
    ask->answer_at = answer_at;
    ask->answer_size = answer_size;
    ask->how = how;
    ask->done = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    atomic_init(&ask->users, 2);
    if (ask->done >= 0 && start_thread(ask))
        return ask;
    if (ask->done >= 0)
        close(ask->done);
    free(ask);
    return NULL;
}

bool ask_take(struct ask *ask, int wait_ms, void *ret_answer)
{
    if (!wait_fd(ask->done, POLLIN, wait_ms))
        return false;
    memcpy(ret_answer, ask->question + ask->answer_at, ask->answer_size);
    ask_drop(ask);
    return true;
}

static int read_at(const char *root, char *ret_text, size_t size, const char *format, va_list args)
{
    char path[2 * PATH_MAX];
    int at = snprintf(path, sizeof path, "%s", root);
    if (at < 0 || at >= PATH_MAX)
        return -ENAMETOOLONG;
    int more = vsnprintf(path + at, sizeof path - (size_t)at, format, args);
    if (more < 0 || (size_t)at + (size_t)more >= sizeof path)
        return -ENAMETOOLONG;
    *ret_text = 0;
    return file_read_start(path, ret_text, size, NULL);
}

int look_read(const char *root, char *ret_text, size_t size, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int code = read_at(root, ret_text, size, format, args);
    va_end(args);
    return code;
}

/* Up to INT64_MAX, whatever stands there. */
static int64_t number_of(const char *text)
{
    if (*text < '0' || *text > '9')
        return -1;
    unsigned long long number = strtoull(text, NULL, 10);
    return number > INT64_MAX ? INT64_MAX : (int64_t)number;
}

int64_t look_number(const char *root, const char *format, ...)
{
    char text[64];
    va_list args;
    va_start(args, format);
    int code = read_at(root, text, sizeof text, format, args);
    va_end(args);
    if (code < 0)
        return -1;
    return strncmp(text, "max", 3) == 0 ? INT64_MAX : number_of(text);
}

const char *look_next_line(const char *line)
{
    const char *end = strchr(line, '\n');
    return end && end[1] ? end + 1 : NULL;
}

int64_t look_find(const char *text, const char *name)
{
    size_t len = strlen(name);
    for (const char *line = text; line; line = look_next_line(line))
        if (strncmp(line, name, len) == 0 && (line[len] == ' ' || line[len] == ':')) {
            const char *value = line + len + 1;
            return number_of(value + strspn(value, " \t"));
        }
    return -1;
}

#define MOVED_SHARE 0.1 /* of the processors, of time, of memory, of a limit, of a file system */

void window_begin(struct health_window *window, const struct node_state *node, const struct cgroup_state *group,
                  double rooms)
{
    *window = (struct health_window){.from = *node,
                                     .last = *node,
                                     .group = *group,
                                     .cpu_peak = -1,
                                     .available_least = node->memory_available,
                                     .rooms = rooms};
}

/* ---- whether something moved ---- */

static double share(int64_t part, int64_t whole)
{
    return part < 0 || whole <= 0 ? 0 : (double)part / (double)whole;
}

static bool memory_moved(const struct health_window *window, const struct node_state *node,
                         const struct cgroup_state *group)
{
    double by = share(node->memory_available, node->memory_total) -
                share(window->from.memory_available, window->from.memory_total);
    double group_by =
        share(group->memory, group->memory_limit) - share(window->group.memory, window->group.memory_limit);
    return fabs(by) > MOVED_SHARE || fabs(group_by) > MOVED_SHARE || group->oom_kills != window->group.oom_kills;
}

/* Between the last two looks, and between the record before and then. */
static bool share_moved(const struct health_window *window, const struct node_state *node, enum node_count which,
                        double (*of)(const struct node_state *, const struct node_state *, enum node_count))
{
    double now = of(&window->last, node, which), before = of(&window->from, &window->last, which);
    return now >= 0 && before >= 0 && fabs(now - before) > MOVED_SHARE;
}

static bool rooms_moved(const struct health_window *window, double rooms)
{
    return fabs(rooms - window->rooms) > MOVED_SHARE / 2;
}

bool window_rooms_moved(const struct health_window *window, const struct cgroup_state *group, double rooms)
{
    return memory_moved(window, &window->last, group) || rooms_moved(window, rooms);
}

static bool has_moved(const struct health_window *window, const struct node_state *node,
                      const struct cgroup_state *group, double rooms)
{
    return memory_moved(window, node, group) || rooms_moved(window, rooms) ||
           share_moved(window, node, NODE_CPU_BUSY, node_cpu_share) ||
           share_moved(window, node, NODE_CPU_IOWAIT, node_cpu_share) ||
           share_moved(window, node, NODE_CPU_STEAL, node_cpu_share) ||
           share_moved(window, node, NODE_WAITED_MEMORY, node_waited_share) ||
           share_moved(window, node, NODE_WAITED_IO, node_waited_share);
}

bool window_add(struct health_window *window, const struct node_state *node, const struct cgroup_state *group,
                double rooms)
{
    uint64_t passed_ns = node->time_ns - window->from.time_ns;
    double busy = node_cpu_share(&window->last, node, NODE_CPU_BUSY);
    bool due = passed_ns >= HEALTH_RECORD_LEAST_NS ||
               (passed_ns >= HEALTH_RECORD_MOST_NS && has_moved(window, node, group, rooms));
    if (node->time_ns - window->last.time_ns >= HEALTH_PEAK_NS)
        window->cpu_peak = number_max(window->cpu_peak, busy);
    if (node->memory_available >= 0 && node->memory_available < window->available_least)
        window->available_least = node->memory_available;
    window->last = *node;
    return due;
}

/* ---- the record ---- */

/* Four digits of shares, and whole bytes: more would only make records longer. */
static double tidy(double number, double digits)
{
    return number < 0 ? -1 : floor(number * digits + 0.5) / digits;
}

static double cpu(const struct health_window *window, enum node_count which)
{
    return tidy(node_cpu_share(&window->from, &window->last, which), 1e4);
}

static double waited(const struct health_window *window, enum node_count which)
{
    return tidy(node_waited_share(&window->from, &window->last, which), 1e4);
}

static double rate(const struct health_window *window, enum node_count which, double digits)
{
    return tidy(node_rate(&window->from, &window->last, which), digits);
}

struct health_record window_record(const struct health_window *window)
{
    const struct node_state *from = &window->from, *to = &window->last;
    return (struct health_record){
        .seconds = tidy((double)(to->time_ns - from->time_ns) / NS_PER_SECOND, 1e3),
        .load = {.cpu = cpu(window, NODE_CPU_BUSY),
                 .cpu_peak = tidy(window->cpu_peak, 1e4),
                 .iowait = cpu(window, NODE_CPU_IOWAIT),
                 .steal = cpu(window, NODE_CPU_STEAL),
                 .load = to->load},
        .pressure = {.cpu = waited(window, NODE_WAITED_CPU),
                     .memory = waited(window, NODE_WAITED_MEMORY),
                     .memory_full = waited(window, NODE_WAITED_MEMORY_FULL),
                     .io = waited(window, NODE_WAITED_IO),
                     .io_full = waited(window, NODE_WAITED_IO_FULL)},
        .memory = {.total_bytes = to->memory_total,
                   .available_bytes = to->memory_available,
                   .available_least_bytes = window->available_least,
                   .swap_total_bytes = to->swap_total,
                   .swap_free_bytes = to->swap_free},
        .traffic = {.disk_read_bytes = rate(window, NODE_DISK_READ, 1),
                    .disk_written_bytes = rate(window, NODE_DISK_WRITTEN, 1),
                    .received_bytes = rate(window, NODE_RECEIVED, 1),
                    .sent_bytes = rate(window, NODE_SENT, 1),
                    .network_errors = rate(window, NODE_NETWORK_ERRORS, 1e4)},
    };
}

/* Share of the periods since the record before in which the group was kept from the processors; -1: unknown. */
static double window_throttled(const struct health_window *window, const struct cgroup_state *group)
{
    int64_t periods = group->periods - window->group.periods;
    int64_t kept = group->throttled_periods - window->group.throttled_periods;
    return window->group.periods < 0 || periods <= 0 || kept < 0 ? -1 : (double)kept / (double)periods;
}

struct health {
    struct observer *observer;
    struct look look;
    struct filesystems filesystems;
    struct cgroup group;
    uint64_t group_found_ns;
    struct cgroup_state group_state;
    struct cgroup_before group_before;
    struct health_window window;
    struct judge judge;
    struct processes processes;
    struct memory memory;
    struct credentials credentials;
    struct stall stall;
    struct stuck stuck;
    struct late {
        struct ask *ask;
        pid_t pid;
    } late;
    bool looked;         /* at more than what is counted */
    bool due;            /* a record is, by the look when the command had ended, */
    uint64_t ending_ns;  /* which was then; 0: there was none */
    struct stall before; /* as it was in the last look before */
    bool cut_short;      /* the command was ended by a signal, or as by timeout(1) */
};

static void health_say(void *ctx, struct note note)
{
    struct health *health = ctx;
    observe_note(health->observer, note);
}

/* What is counted, as the base of all differences. Nothing of it may hang. */
static void *health_start(struct observer *observer, struct err *err)
{
    struct health *health = calloc(1, sizeof *health);
    if (!health) {
        err_set(err, -ENOMEM, "out of memory");
        return NULL;
    }
    struct node_state node;
    health->stuck.changed = observer->restarted; /* what the one before has said may be over */
    health->observer = observer;
    health->look = (struct look){
        .root = "", .now_ns = clock_now_ns(), .quiet = observer->restarted, .say = health_say, .ctx = health};
    node_state_read("", health->look.now_ns, &node);
    cgroup_find("", observer->root, &health->group);
    health->group_found_ns = health->look.now_ns;
    cgroup_read("", &health->group, &health->group_state);
    cgroup_enter(&health->group_before, NULL, &health->group_state);
    window_begin(&health->window, &node, &health->group_state, 1);
    judge_look(&health->judge, &health->look, &node, &health->group_state, &health->processes.motion);
    return health;
}

/* What may hang waits for the job to begin. */
static void health_begin(struct health *health)
{
    const struct observer *observer = health->observer;
    health->looked = true;
    filesystems_add(&health->filesystems, observer->cwd, "work");
    filesystems_add(&health->filesystems, getenv("TMPDIR"), "temporary");
    filesystems_add(&health->filesystems, "/tmp", "temporary");
    filesystems_add(&health->filesystems, observer->dir, "job directory");
    filesystems_add(&health->filesystems, getenv("HOME"), "home");
    filesystems_add(&health->filesystems, "/dev/shm", "shared memory");
    credentials_init(&health->credentials, getenv, observer->cwd);
}

/* ---- looking ---- */

/* Limits may change, and batch systems move processes. */
static void read_group(struct health *health)
{
    pid_t root = health->observer->root;
    bool left = cgroup_left("", root, &health->group);
    size_t limit_len = health->group.at[CGROUP_MEMORY].limit_len; /* of the group whose memory is looked at */
    struct cgroup_state last = health->group_state;
    struct cgroup *group = NULL;
    if (left || health->look.now_ns >= health->group_found_ns + HEALTH_GROUP_NS) {
        group = malloc(sizeof *group);
        health->group_found_ns = health->look.now_ns;
    }
    if (group) {
        cgroup_find("", root, group);
        if (group->said[0]) /* else the command has ended, and others go on */
            health->group = *group;
        free(group);
    }
    cgroup_read("", &health->group, &health->group_state);
    if (left || health->group.at[CGROUP_MEMORY].limit_len != limit_len)
        cgroup_enter(&health->group_before, &last, &health->group_state);
    if (left)
        judge_group_changed(&health->judge, &health->group_state);
}

/* How far the command has come in the files that it writes its output to. Asks no file system, which might hang. */
static int64_t output_bytes(const struct health *health)
{
    int64_t sum = 0;
    for (int stream = STDOUT_FILENO; stream <= STDERR_FILENO; stream++) {
        char text[512];
        int64_t at = look_read("", text, sizeof text, "/proc/%d/fdinfo/%d", (int)health->observer->root, stream) < 0
                         ? -1
                         : look_find(text, "pos");
        sum += at > 0 ? at : 0;
    }
    return sum;
}

static void put_record(struct health *health)
{
    struct health_record row = window_record(&health->window);
    row.filesystems = filesystems_json(&health->filesystems);
    row.cgroup = cgroup_json(&health->group, &health->group_state, &health->group_before,
                             window_throttled(&health->window, &health->group_state));
    row.processes = processes_json(&health->processes);
    observe_put(health->observer, RECORD_health, &row);
    json_decref(row.filesystems);
    json_decref(row.cgroup);
    json_decref(row.processes);
    struct node_state last = health->window.last;
    window_begin(&health->window, &last, &health->group_state, filesystems_least_share(&health->filesystems));
}

static void look_at_memory(struct health *health, int wait_ms)
{
    struct memory_record row;
    if (memory_look(&health->memory, &health->processes, &health->look, wait_ms, &row))
        observe_put(health->observer, RECORD_memory, &row);
}

static void look_at_standing(struct health *health)
{
    struct stuck *stuck = &health->stuck;
    stuck_look(stuck, &health->look, &health->stall, &health->processes);
    if (!stuck->changed)
        return;
    stuck->changed = false;
    bool still = *stuck->standing;
    double seconds = still ? (double)(health->look.now_ns - stuck->moved_ns) / NS_PER_SECOND : 0;
    observe_put(health->observer, RECORD_standing,
                &(struct standing_record){still, seconds, stuck->deadlock, still ? stuck->standing : NULL});
}

static void look_at_hanging(struct health *health)
{
    if (!health->looked)
        health_begin(health);
    filesystems_look(&health->filesystems, &health->look);
    credentials_look(&health->credentials, &health->look, (int64_t)time(NULL));
}

/* Whether a record is due. last: the command has ended. */
static bool look_at_all(struct health *health, bool last)
{
    const struct look *look = &health->look;
    struct node_state node;
    struct judge_clocks clocks;
    node_state_read("", look->now_ns, &node);
    processes_look(&health->processes, look);
    if (!last)
        look_at_memory(health, 0);
    read_group(health);
    judge_look(&health->judge, look, &node, &health->group_state, &health->processes.motion);
    judge_clocks_read(&clocks);
    judge_clocks_look(&health->judge, look, &clocks);
    health->stall.where = health->stuck.where;
    stall_look(&health->stall, look, &health->processes.motion, output_bytes(health),
               health->observer->options->still_seconds);
    if (!last && health->observer->options->still_seconds > 0)
        look_at_standing(health);
    look_at_hanging(health);
    return window_add(&health->window, &node, &health->group_state, filesystems_least_share(&health->filesystems));
}

/* ---- a rank for which others wait ---- */

struct late_answer {
    char where[STUCK_WHERE], what[STUCK_WHERE]; /* it computes in, or does; "": not known */
};

/* An ask_fn: to sample a place takes a moment, and its name needs debug information. */
static void find_late(const void *question, void *ret_answer)
{
    pid_t pid = *(const pid_t *)question;
    struct late_answer *answer = ret_answer;
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    bool waits = blocked_put(&text, pid, pid);
    buf_clear(&text);
    if (waits)
        stuck_put_where(answer->what, pid);
    else if (where_computes(pid, pid, &text, NULL) == 0 && !text.failed)
        memcpy(answer->where, text.data, text_fit(text.data, text.len, sizeof answer->where - 1));
}

static void late(void *state, pid_t pid)
{
    struct health *health = state;
    if (!health->late.ask)
        health->late = (struct late){ask_start(find_late, &pid, sizeof pid, sizeof(struct late_answer)), pid};
}

static void take_late(struct health *health)
{
    struct late_answer answer;
    if (!health->late.ask || !ask_take(health->late.ask, 0, &answer))
        return;
    health->late.ask = NULL;
    if (*answer.where)
        observe_note(health->observer, NOTE(mpi_late, .pid = (uint64_t)health->late.pid, .where = answer.where));
    if (*answer.what)
        observe_note(health->observer, NOTE(mpi_late_waits, .pid = (uint64_t)health->late.pid, .what = answer.what));
}

static void tick(void *state)
{
    struct health *health = state;
    health->look.now_ns = clock_now_ns();
    take_late(health);
    if (health->looked && health->look.now_ns < health->window.last.time_ns + HEALTH_LEAST_NS)
        return;
    if (look_at_all(health, false))
        put_record(health);
    health->look.quiet = false;
}

static void process(void *state, const struct observed_process *process)
{
    struct health *health = state;
    processes_add(&health->processes, process->pid, process->ppid, process->name);
}

static void process_ended(void *state, const struct observed_process *process)
{
    struct health *health = state;
    enum { TIMEOUT_STATUS = 124 };
    processes_ended(&health->processes, &health->look, process->pid, process->ppid, process->name);
    if (process->pid == health->observer->root)
        health->cut_short =
            process->status > 0 && (WIFSIGNALED(process->status) || WEXITSTATUS(process->status) >= TIMEOUT_STATUS);
}

static void ending(void *state)
{
    struct health *health = state;
    health->ending_ns = health->look.now_ns = clock_now_ns();
    health->before = health->stall;
    health->due = look_at_all(health, true);
}

/* scry run waits for this: it looks again only if the job's other processes lived on for a while. */
static void health_end(void *state)
{
    struct health *health = state;
    health->look.now_ns = clock_now_ns();
    bool due = health->due || health->look.now_ns >= health->window.from.time_ns + HEALTH_LAST_NS;
    if (!health->ending_ns || health->look.now_ns >= health->ending_ns + HEALTH_LEAST_NS)
        due |= look_at_all(health, true);
    if (health->cut_short)
        stuck_ended(&health->stuck, &health->look, health->ending_ns ? &health->before : &health->stall);
    judge_end(&health->judge, &health->look, &health->window.last, &health->group_state, &health->processes.motion);
    if (due || window_rooms_moved(&health->window, &health->group_state,
                                  filesystems_least_share(&health->filesystems))) /* its disk has just become full */
        put_record(health);
    filesystems_done(&health->filesystems);
    credentials_done(&health->credentials);
    processes_done(&health->processes);
    if (health->memory.ask) {
        look_at_memory(health, MEMORY_LAST_MS); /* what was seen before the end */
        ask_drop(health->memory.ask);
    }
    stuck_done(&health->stuck);
    ask_drop(health->late.ask);
    free(health);
}

const struct observe_source health_source = {.name = "health",
                                             .start = health_start,
                                             .process = process,
                                             .process_ended = process_ended,
                                             .tick = tick,
                                             .late = late,
                                             .ending = ending,
                                             .end = health_end};
