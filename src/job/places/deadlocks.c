/* SPDX-License-Identifier: Apache-2.0 */
#include "job/places/deadlocks.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/proc_file.h"
#include "base/system/wait_world.h"
#include "job/places/blocked.h"
#include "job/places/fifos.h"
#include "job/places/where.h"
#include "jobdir/mpi/thread_wait.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"

enum {
    SHOWN_THREADS = 16,
    LINE_SHOWN = 4,
    PROCESSES_MOST = 256 /* each is looked at, and who has the other end of its pipe */
};

/* ---- what its threads are blocked in ---- */

void deadlock_threads_tell(struct deadlock_thread *threads, size_t count, pid_t pid)
{
    struct blocked *blocked = NULL;
    size_t blocked_count = 0;
    _cleanup_(freep) pid_t *tids = calloc(count + 1, sizeof *tids);
    for (size_t i = 0; tids && i < count; i++)
        tids[i] = threads[i].tid;
    json_t *places = tids ? where_blocked(pid, tids, count) : NULL;
    if (blocked_read(pid, &blocked, &blocked_count, NULL) < 0)
        blocked_count = 0;
    for (size_t i = 0; i < count; i++) {
        struct deadlock_thread *thread = &threads[i];
        json_t *place = json_array_get(places, i);
        for (size_t k = 0; k < blocked_count; k++) {
            if (blocked[k].tid != thread->tid)
                continue;
            buf_puts(&thread->text, blocked[k].text.data ? blocked[k].text.data : "");
            if (blocked[k].python_file) /* below that are only frames of its interpreter */
                thread->place = json_pack("{s:s*, s:s, s:I}", "function", blocked[k].python_function, "file",
                                          blocked[k].python_file, "line", (json_int_t)blocked[k].python_line);
        }
        if (thread->place || !json_is_object(place))
            continue;
        thread->place = json_incref(place);
        if (!json_object_get(place, "function"))
            continue;
        buf_puts(&thread->text, thread->text.len ? ", at " : "at ");
        where_put(&thread->text, place);
    }
    json_decref(places);
    if (blocked_count)
        blocked_free(blocked, blocked_count);
}

void deadlock_threads_done(struct deadlock_thread *threads, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        buf_done(&threads[i].text);
        json_decref(threads[i].place);
    }
}

/* ---- signals ---- */

/* Which it handles: bit n - 1 for signal n. All, where that is not known. */
static uint64_t signals_handled(pid_t pid)
{
    static const char caught[] = "\nSigCgt:";
    char text[4096];
    const char *at = proc_file_read(pid, 0, "status", text, sizeof text, NULL) < 0 ? NULL : strstr(text, caught);
    return at ? strtoull(at + sizeof caught - 1, NULL, 16) : UINT64_MAX;
}

/* A handler could wake a thread: of signals other than those of faults, and those that runtimes catch by themselves. */
static bool handles_signals(pid_t pid)
{
    static const int others[] = {SIGINT, SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGPIPE, SIGXFSZ, SIGSYS};
    uint64_t mask = UINT64_C(0x7fffffff); /* the rest are of the C library, or for real time */
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        mask &= ~(UINT64_C(1) << (others[i] - 1));
    return signals_handled(pid) & mask;
}

/* ---- finding circles ---- */

struct process {
    pid_t pid;
    struct thread_seen *threads;
    size_t count;
    bool candidate;
};

static bool has_circle(const struct thread_seen *threads, size_t count)
{
    _cleanup_(freep) size_t *circle = calloc(count + 1, sizeof *circle);
    for (size_t i = 0; circle && i < count; i++)
        if (threads_circle(threads, count, i, circle))
            return true;
    return false;
}

/* All of its threads wait for what only another one of them could give; there may be none. */
static bool is_asleep(const struct process *process)
{
    struct proc_stat stat;
    size_t waiting = 0;
    bool others = false;
    for (size_t i = 0; i < process->count; i++) {
        enum thread_wait_kind kind = process->threads[i].wait.kind;
        if (kind == THREAD_MAY_ACT || !process->threads[i].timed)
            return false;
        waiting += kind != THREAD_HAS_ENDED;
        others |= kind == THREAD_WAITS_OTHERS;
    }
    return others && waiting && proc_stat_of(process->pid, 0, &stat) == 0 && stat.threads == (int64_t)process->count &&
           !handles_signals(process->pid);
}

static struct deadlock *deadlock_add(struct deadlock **locks, size_t *count, const struct process *process,
                                     const size_t *circle, size_t length)
{
    struct deadlock *larger = realloc(*locks, (*count + 1) * sizeof *larger);
    struct deadlock lock = {.pid = process->pid, .threads = calloc(length, sizeof *lock.threads), .count = length};
    *locks = larger ? larger : *locks;
    if (!larger || !lock.threads) {
        free(lock.threads);
        return NULL;
    }
    memcpy(lock.name, process->threads[0].name, sizeof lock.name); /* of its first thread */
    for (size_t i = 0; i < length; i++) {
        const struct thread_seen *seen = &process->threads[circle[i]];
        if (seen->tid == process->pid)
            memcpy(lock.name, seen->name, sizeof lock.name);
        lock.threads[i] = (struct deadlock_thread){.pid = process->pid, .tid = seen->tid, .text = BUF_INIT};
        memcpy(lock.threads[i].name, seen->name, sizeof seen->name);
    }
    deadlock_threads_tell(lock.threads, length, process->pid);
    larger[*count] = lock;
    return &larger[(*count)++];
}

static void find_in(struct deadlock **locks, size_t *count, const struct process *process)
{
    _cleanup_(freep) size_t *circle = calloc(process->count + 1, sizeof *circle);
    _cleanup_(freep) bool *told = calloc(process->count + 1, sizeof *told);
    bool any = false;
    for (size_t i = 0; circle && told && i < process->count; i++) {
        size_t length = told[i] ? 0 : threads_circle(process->threads, process->count, i, circle);
        for (size_t k = 0; k < length; k++)
            told[circle[k]] = true;
        if (length)
            deadlock_add(locks, count, process, circle, length);
        any |= length > 0;
    }
    if (!circle || any || !is_asleep(process))
        return;
    size_t length = 0;
    for (size_t i = 0; i < process->count; i++)
        if (process->threads[i].wait.kind != THREAD_HAS_ENDED)
            circle[length++] = i;
    struct deadlock *lock = deadlock_add(locks, count, process, circle, length);
    if (lock)
        lock->asleep = true;
}

static bool look_again(struct process *process)
{
    struct thread_seen *threads;
    size_t count;
    if (threads_look(&threads, &count, process->pid) < 0)
        return false;
    bool good = threads_settle(&threads, &count, process->threads, process->count) == 0;
    free(process->threads);
    process->threads = threads;
    process->count = count;
    return good;
}

/* ---- processes that wait for each other ---- */

/* A process whose threads can do nothing else meanwhile. Any of these may let it go on, and nobody else. */
struct waiting {
    pid_t pid, by[BLOCKED_WAITED];
    size_t count;
    uint64_t ran_ns;        /* a process that has run between two looks has had what it waited for */
    bool file, fifo, child; /* it waits for the lock of a file; for a FIFO to be opened; for the end of a child, */
    enum deadlock_own own;  /* that only itself could end; */
    bool memory;            /* for what is in memory, which it shares with others, or its threads with each other; */
    bool free;              /* it may go on */
};

static void find_openers(struct waiting *waiting, const pid_t *pids, size_t count, const char *path, bool writes)
{
    _cleanup_(freep) struct fifo_user *users = calloc(count + 1, sizeof *users);
    size_t found = users ? fifo_users(pids, count, path, writes, users) : 0;
    for (size_t i = 0; i < found && waiting->count < BLOCKED_WAITED; i++)
        if (users[i].use == FIFO_OPENED && users[i].pid != waiting->pid)
            waiting->by[waiting->count++] = users[i].pid;
}

/* A handler may write to its own pipe: programs wait so for signals. Python always handles SIGINT, others only for a purpose. */
static bool handler_may_act(pid_t pid, bool python)
{
    return handles_signals(pid) || (!python && signals_handled(pid) & UINT64_C(1) << (SIGINT - 1));
}

static void add_pid(struct waiting *waiting, pid_t pid)
{
    bool known = false;
    for (size_t k = 0; k < waiting->count; k++)
        known |= waiting->by[k] == pid;
    if (!known && waiting->count < BLOCKED_WAITED)
        waiting->by[waiting->count++] = pid;
}

static void add_waited(struct waiting *waiting, const struct blocked *thread)
{
    for (size_t i = 0; i < thread->waits_count; i++)
        add_pid(waiting, thread->waits_for[i]);
}

/* A semaphore has no owner, and who uses it does not show that: probably what runs the same program. */
static bool is_same_program(pid_t one, pid_t other)
{
    char link[PROC_PATH_SIZE], a[PATH_MAX], b[PATH_MAX];
    proc_path(link, one, 0, "exe");
    ssize_t len = readlink(link, a, sizeof a);
    proc_path(link, other, 0, "exe");
    return len > 0 && readlink(link, b, sizeof b) == len && memcmp(a, b, (size_t)len) == 0;
}

/* The only thread of a process. */
static void look_at_thread(struct waiting *waiting, const struct blocked *thread, const pid_t *pids, size_t count)
{
    waiting->fifo = thread->fifo && *thread->fifo && !thread->fifo_open;
    if (waiting->fifo) {
        find_openers(waiting, pids, count, thread->fifo, thread->fifo_writes);
        if (waiting->count == BLOCKED_WAITED)
            waiting->count = 0;
    } else if (thread->own_pipe || thread->own_loop || thread->own_lock || thread->own_shared) {
        waiting->by[0] = waiting->pid;
        waiting->count = !handler_may_act(waiting->pid, thread->python_file);
        waiting->own = thread->own_loop                   ? OWN_LOOP
                       : thread->own_lock                 ? OWN_LOCK
                       : thread->own_shared               ? OWN_SHARED
                       : strstr(thread->syscall, "write") ? OWN_WRITES
                                                          : OWN_READS;
    } else if (thread->only_these || thread->semaphore) {
        add_waited(waiting, thread);
        for (size_t i = 0; i < count && thread->semaphore && waiting->count; i++)
            if (pids[i] != waiting->pid && is_same_program(pids[i], waiting->pid))
                add_pid(waiting, pids[i]);
        if (thread->semaphore && waiting->count == BLOCKED_WAITED) /* there may be more */
            waiting->count = 0;
    }
}

/* Of several all have to wait: for other processes, or for each other. */
static void look_at_threads(struct waiting *waiting, const struct blocked *threads, size_t found)
{
    for (size_t i = 0; i < found; i++) {
        if (!threads[i].inside && (!threads[i].only_these || threads[i].own_pipe || threads[i].own_lock)) {
            waiting->count = 0;
            return;
        }
        if (!threads[i].inside)
            add_waited(waiting, &threads[i]);
    }
    if (waiting->count == BLOCKED_WAITED) /* there may be more */
        waiting->count = 0;
}

static bool look_at(struct waiting *ret_waiting, pid_t pid, const pid_t *pids, size_t count)
{
    struct proc_stat stat;
    struct blocked *threads;
    size_t found;
    *ret_waiting = (struct waiting){.pid = pid};
    if (proc_stat_of(pid, 0, &stat) < 0 || stat.state != 'S' || blocked_read(pid, &threads, &found, NULL) < 0)
        return false;
    bool good = stat.threads == (int64_t)found, alarmed = false;
    for (size_t i = 0; i < found && good; i++) {
        const char *syscall = threads[i].syscall;
        struct wait_thread ran = wait_look_thread(pid, threads[i].tid);
        good = ran.timed && threads[i].state == 'S';
        ret_waiting->ran_ns += ran.ran_ns;
        ret_waiting->file |= strcmp(syscall, "flock") == 0 || strcmp(syscall, "fcntl") == 0;
        ret_waiting->child |= strncmp(syscall, "wait", strlen("wait")) == 0 || strcmp(syscall, "rt_sigsuspend") == 0;
        ret_waiting->memory |= threads[i].inside || threads[i].shared;
        alarmed |= ret_waiting->file || strncmp(syscall, "sem", strlen("sem")) == 0;
    }
    if (good && found == 1)
        look_at_thread(ret_waiting, &threads[0], pids, count);
    else if (good)
        look_at_threads(ret_waiting, threads, found);
    blocked_free(threads, found);
    /* as flock -w, after a time; a handler may give a semaphore */
    bool handled = (alarmed && signals_handled(pid) & UINT64_C(1) << (SIGALRM - 1)) ||
                   (ret_waiting->memory && handles_signals(pid));
    return good && ret_waiting->count && !handled;
}

static struct waiting *waiting_of(struct waiting *list, size_t count, pid_t pid)
{
    for (size_t i = 0; i < count; i++)
        if (list[i].pid == pid && !list[i].free)
            return &list[i];
    return NULL;
}

/* Those of which any other one may let it go on, may go on themselves. */
static void set_free(struct waiting *list, size_t count)
{
    for (bool again = true; again;) {
        again = false;
        for (size_t i = 0; i < count; i++)
            for (size_t k = 0; k < list[i].count && !list[i].free; k++)
                if (!waiting_of(list, count, list[i].by[k]))
                    again = list[i].free = true;
    }
}

/* Of those that may let it go on, one that waits for a FIFO, too, if there is one; rather one that waits for no child: a parent
 * that waits for both, and has the ends of their pipes or their memory, is no part of that circle. */
static struct waiting *next_of(struct waiting *list, size_t count, const struct waiting *at)
{
    struct waiting *next = NULL, *each;
    for (size_t i = 0; i < at->count && !(at->fifo && next && next->fifo); i++)
        if ((each = waiting_of(list, count, at->by[i])) != NULL &&
            (!next || each->fifo || (!at->file && next->child && !each->child)))
            next = each;
    return next;
}

/* The circle that begins with the process, if that is the lowest in it: 0 if there is none. Nobody on the way may go on. */
static size_t circle_from(struct waiting *list, size_t count, struct waiting *start, struct waiting **ret_circle)
{
    size_t length = 0;
    struct waiting *at = start;
    do {
        ret_circle[length++] = at;
        at = next_of(list, count, at);
    } while (at && at->pid > start->pid && length < count);
    size_t fifos = 0;
    for (size_t i = 0; i < length; i++)
        fifos += ret_circle[i]->fifo;
    return at == start && fifos != 1 ? length
                                     : 0; /* that its parent has the FIFO in its script may mean the process itself */
}

static void add_processes(struct deadlock **locks, size_t *count, struct waiting *const *circle, size_t length)
{
    struct deadlock *larger = realloc(*locks, (*count + 1) * sizeof *larger);
    struct deadlock lock = {.processes = true,
                            .files = true,
                            .fifos = true,
                            .own = circle[0]->own,
                            .pid = circle[0]->pid,
                            .threads = calloc(length, sizeof *lock.threads),
                            .count = length};
    bool any_file = false;
    *locks = larger ? larger : *locks;
    if (!larger || !lock.threads) {
        free(lock.threads);
        return;
    }
    proc_comm(lock.pid, 0, lock.name, sizeof lock.name);
    for (size_t i = 0; i < length; i++) {
        pid_t pid = circle[i]->pid;
        lock.files &= circle[i]->file || circle[i]->child;
        any_file |= circle[i]->file;
        lock.fifos &= circle[i]->fifo;
        lock.threads[i] = (struct deadlock_thread){.pid = pid, .tid = pid, .text = BUF_INIT};
        proc_comm(pid, 0, lock.threads[i].name, sizeof lock.threads[i].name);
        deadlock_threads_tell(&lock.threads[i], 1, pid);
    }
    lock.files &= any_file;
    larger[(*count)++] = lock;
}

/* Both looks have found it as it is, and it has not run between them. */
static bool is_unchanged(const struct waiting *before, const pid_t *pids, size_t count)
{
    struct waiting now;
    return look_at(&now, before->pid, pids, count) && now.ran_ns == before->ran_ns && now.count == before->count &&
           memcmp(now.by, before->by, before->count * sizeof *now.by) == 0;
}

/* The other end of a pipe may be in a process that we must not look at, or in one of too many. */
static bool are_all_seen(const pid_t *pids, size_t count)
{
    for (size_t i = 0; i < count && count <= PROCESSES_MOST; i++) {
        char path[64];
        snprintf(path, sizeof path, "/proc/%d/fd", pids[i]);
        if (access(path, R_OK) < 0 && errno == EACCES)
            return false;
    }
    return count <= PROCESSES_MOST;
}

/* Who holds the lock of a file stands in /proc/locks, whoever else there is. */
static void find_processes(struct deadlock **ret_locks, size_t *found, const pid_t *pids, size_t count)
{
    _cleanup_(freep) struct waiting *list = calloc(count + 1, sizeof *list);
    _cleanup_(freep) struct waiting **circle = calloc(count + 1, sizeof *circle);
    size_t waiting = 0;
    bool all = are_all_seen(pids, count);
    for (size_t i = 0; list && circle && i < count; i++)
        waiting += look_at(&list[waiting], pids[i], pids, count) && (all || list[waiting].file);
    set_free(list, waiting);
    for (size_t i = 0; i < waiting; i++) {
        size_t length = list[i].free ? 0 : circle_from(list, waiting, &list[i], circle);
        bool same = length;
        if (length)
            wait_poll(NULL, 0, LOCKS_BETWEEN_MS);
        for (size_t k = 0; k < length && same; k++)
            same = is_unchanged(circle[k], pids, count);
        if (same)
            add_processes(ret_locks, found, circle, length);
    }
}

/* ---- all ---- */

size_t deadlocks_find(struct deadlock **ret_locks, const pid_t *pids, size_t count)
{
    _cleanup_(freep) struct process *processes = calloc(count + 1, sizeof *processes);
    size_t found = 0;
    bool any = false;
    *ret_locks = NULL;
    for (size_t i = 0; processes && i < count; i++) {
        struct process *process = &processes[i];
        process->pid = pids[i];
        if (threads_look(&process->threads, &process->count, pids[i]) < 0)
            continue;
        process->candidate = has_circle(process->threads, process->count) || is_asleep(process);
        any |= process->candidate;
    }
    if (any)
        wait_poll(NULL, 0, LOCKS_BETWEEN_MS);
    for (size_t i = 0; processes && i < count; i++) {
        if (processes[i].candidate && look_again(&processes[i]))
            find_in(ret_locks, &found, &processes[i]);
        free(processes[i].threads);
    }
    find_processes(ret_locks, &found, pids, count);
    return found;
}

void deadlocks_free(struct deadlock *locks, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        deadlock_threads_done(locks[i].threads, locks[i].count);
        free(locks[i].threads);
    }
    free(locks);
}

/* ---- a job that waits, but not for itself ---- */

/* What was seen of all processes at once. */
struct standing {
    enum awaited kind;
    pid_t pid; /* of the first of that kind */
    char name[32];
    size_t seen, ends; /* so many there are, and so many of them wait for no other one */
    bool unclear;      /* one runs, or waits for another thread of its own, which may wait for anything */
    uint64_t ran_ns;
};

static enum awaited kind_of(const struct blocked *thread)
{
    bool reads = strncmp(thread->syscall, "read", strlen("read")) == 0;
    if (thread->state == 'T')
        return AWAITED_STOPPED;
    bool sleeps = strcmp(thread->syscall, "nanosleep") == 0 || strcmp(thread->syscall, "clock_nanosleep") == 0;
    if (sleeps || strcmp(thread->syscall, "flock") == 0 || strcmp(thread->syscall, "fcntl") == 0)
        return thread->waits_count ? AWAITED_LOCK : AWAITED_OTHER; /* who holds it is known */
    if (reads && thread->terminal)
        return AWAITED_TERMINAL;
    bool receives = strncmp(thread->syscall, "recv", strlen("recv")) == 0 || strcmp(thread->syscall, "connect") == 0;
    return (reads || receives) && thread->connection ? AWAITED_CONNECTION : AWAITED_OTHER;
}

static bool waits_for_one_of(const struct blocked *thread, pid_t own, const pid_t *pids, size_t count)
{
    for (size_t i = 0; i < thread->waits_count; i++)
        for (size_t k = 0; k < count; k++)
            if (pids[k] != own && pids[k] == thread->waits_for[i])
                return true;
    return false;
}

static void standing_add(struct standing *all, pid_t pid, const pid_t *pids, size_t count)
{
    struct blocked *threads;
    size_t found, first = 0;
    bool inner = false;
    if (blocked_read(pid, &threads, &found, NULL) < 0)
        return;
    for (size_t i = 0; i < found; i++) {
        first = threads[i].tid == pid ? i : first;
        inner |= waits_for_one_of(&threads[i], pid, pids, count);
        all->unclear |=
            threads[i].state == 'R' || (threads[i].tid == pid && found > 1 && strcmp(threads[i].syscall, "futex") == 0);
        all->ran_ns += wait_look_thread(pid, threads[i].tid).ran_ns;
    }
    enum awaited kind = kind_of(&threads[first]);
    bool ended = threads[first].state == 'Z';
    all->seen += !ended;
    all->ends += !ended && !inner;
    if (!ended && !inner && kind > all->kind) {
        all->kind = kind;
        all->pid = pid;
        memcpy(all->name, threads[first].name, sizeof all->name);
    }
    blocked_free(threads, found);
}

static struct standing standing_of(const pid_t *pids, size_t count)
{
    struct standing all = {0};
    for (size_t i = 0; i < count && count <= PROCESSES_MOST; i++)
        standing_add(&all, pids[i], pids, count);
    bool unclear = all.unclear || (all.kind == AWAITED_OTHER && all.ends > 1);
    if (unclear && all.kind != AWAITED_STOPPED)
        all.kind = AWAITED_NOTHING;
    return all;
}

enum awaited awaited_put(struct buf *out, const pid_t *pids, size_t count, pid_t *ret_pid)
{
    enum { IDLE = 200 }; /* what wakes up now and then, to look, runs for less than that part of the time */
    uint64_t began_ns = wait_now_ns();
    struct standing before = standing_of(pids, count);
    if (before.kind == AWAITED_NOTHING)
        return AWAITED_NOTHING;
    wait_poll(NULL, 0, LOCKS_BETWEEN_MS);
    struct standing now = standing_of(pids, count);
    uint64_t idle_ns = (wait_now_ns() - began_ns) / IDLE;
    if (now.kind != before.kind || now.pid != before.pid ||
        (now.kind != AWAITED_STOPPED && now.ran_ns > before.ran_ns + idle_ns))
        return AWAITED_NOTHING;
    struct deadlock_thread told = {.tid = now.pid};
    deadlock_threads_tell(&told, 1, now.pid);
    buf_printf(out, "process %d (", now.pid);
    text_show(out, now.name);
    buf_printf(out, ") %s", told.text.data ? told.text.data : "waits");
    deadlock_threads_done(&told, 1);
    if (now.kind == AWAITED_LOCK)
        buf_puts(out, "; that process is not of this job");
    else if (now.kind <= AWAITED_CONNECTION && now.ends == 1 && now.seen > 1)
        buf_puts(out, "; all others wait for it");
    *ret_pid = now.pid;
    return now.kind;
}

/* ---- output ---- */

/* What the threads of one process do. */
static const char *waits_text(const struct deadlock *lock)
{
    return lock->count > 1 ? "wait for each other"
           : lock->asleep
               ? "waits for a semaphore, a condition or a lock that nobody can give any more (its process has no "
                 "other thread)"
               : "waits for a mutex that it holds itself";
}

/* What processes do. */
static const char *processes_text(const struct deadlock *lock)
{
    static const char *const own[] = {
        [OWN_NOTHING] = "waits for itself",
        [OWN_READS] = "waits for itself: it reads a pipe that no other process can write",
        [OWN_WRITES] = "waits for itself: it writes to a pipe that no other process can read",
        [OWN_LOCK] = "waits for itself: for the lock of a file that it has already, by another descriptor",
        [OWN_SHARED] = "waits for itself: for a lock or a semaphore that no other process has",
        [OWN_LOOP] = "waits for itself: no task of its event loop can go on",
    };
    return lock->count == 1 ? own[lock->own]
           : lock->files    ? "wait for each other's locks of files"
           : lock->fifos    ? "wait for each other to open FIFOs"
                            : "wait for each other";
}

/* "both threads", "all 3 threads", "2 threads". */
static void put_threads(struct buf *out, const struct deadlock *lock)
{
    if (lock->asleep && lock->count == 2)
        buf_puts(out, "both threads");
    else
        buf_printf(out, "%s%zu threads", lock->asleep ? "all " : "", lock->count);
}

static void put_head(struct buf *out, const struct deadlock *lock)
{
    buf_puts(out, "deadlock: ");
    if (lock->processes && lock->count > 1) {
        buf_printf(out, "%zu processes %s", lock->count, processes_text(lock));
        return;
    }
    if (lock->processes) {
        buf_printf(out, "process %d (", lock->pid);
        text_show(out, lock->name);
        buf_printf(out, ") %s", processes_text(lock));
        return;
    }
    if (lock->count == 1)
        buf_printf(out, "thread %d", lock->threads[0].tid);
    else
        put_threads(out, lock);
    buf_printf(out, " of process %d (", lock->pid);
    text_show(out, lock->name);
    buf_printf(out, ") %s", waits_text(lock));
}

void deadlocks_text(struct buf *out, const struct deadlock *locks, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct deadlock *lock = &locks[i];
        buf_puts(out, i ? "\n" : "");
        put_head(out, lock);
        buf_putc(out, '\n');
        for (size_t k = 0; k < lock->count && k < SHOWN_THREADS; k++) {
            buf_printf(out, "  %s %d (", lock->processes ? "process" : "thread", lock->threads[k].tid);
            text_show(out, lock->threads[k].name);
            buf_printf(out, "): %s\n", lock->threads[k].text.data ? lock->threads[k].text.data : "?");
        }
        if (lock->count > SHOWN_THREADS)
            buf_printf(out, "  ... and %zu more (--json lists them)\n", lock->count - SHOWN_THREADS);
    }
}

/* "solver (pid 12), a (pid 13) and 2 more", or the places of threads. */
static void put_list(struct buf *out, const struct deadlock *lock)
{
    size_t shown = lock->count > LINE_SHOWN ? LINE_SHOWN - 1 : lock->count;
    for (size_t i = 0; i < shown; i++) {
        const struct deadlock_thread *thread = &lock->threads[i];
        bool placed = json_object_get(thread->place, "function");
        buf_puts(out, !i ? "" : i + 1 == lock->count ? " and " : ", ");
        if (lock->processes) {
            text_show(out, thread->name);
            buf_printf(out, " (pid %d)%s", thread->pid, placed ? " " : "");
        } else if (!placed) {
            buf_printf(out, "thread %d", thread->tid);
        }
        if (placed) {
            buf_puts(out, "at ");
            where_put(out, thread->place);
        }
    }
    if (shown < lock->count)
        buf_printf(out, " and %zu more", lock->count - shown);
}

void deadlocks_line(struct buf *out, const struct deadlock *lock)
{
    if (lock->processes) {
        put_list(out, lock);
        buf_printf(out, " %s", processes_text(lock));
        return;
    }
    if (lock->count == 1)
        buf_puts(out, "a thread");
    else
        put_threads(out, lock);
    buf_puts(out, " of ");
    text_show(out, lock->name);
    buf_printf(out, " (pid %d) %s, ", lock->pid, waits_text(lock));
    put_list(out, lock);
}

static json_t *thread_text_json(const void *row, const void *all)
{
    const struct buf *text = &((const struct deadlock_thread *)row)->text;
    return text_json(text->data ? text->data : "");
}

static json_t *place_json(const void *row, const char *member)
{
    json_t *value = json_object_get(((const struct deadlock_thread *)row)->place, member);
    return value ? json_incref(value) : json_null();
}

static json_t *function_json(const void *row, const void *all)
{
    return place_json(row, "function");
}

static json_t *file_json(const void *row, const void *all)
{
    return place_json(row, "file");
}

static json_t *line_json(const void *row, const void *all)
{
    bool known = json_object_get(((const struct deadlock_thread *)row)->place, "file");
    return known ? place_json(row, "line") : json_null();
}

static json_t *module_json(const void *row, const void *all)
{
    return place_json(row, "module");
}

static const struct field thread_fields[] = {{"pid", FIELD_INTEGER, FIELD_AT(struct deadlock_thread, pid)},
                                             {"tid", FIELD_INTEGER, FIELD_AT(struct deadlock_thread, tid)},
                                             {"name", FIELD_TEXT, FIELD_AT(struct deadlock_thread, name)},
                                             {"text", FIELD_TEXT, .json = thread_text_json},
                                             {"function", FIELD_TEXT, .flags = FIELD_OR_NULL, .json = function_json,
                                              .about = "from where in the program it came to that"},
                                             {"file", FIELD_TEXT, .flags = FIELD_OR_NULL, .json = file_json},
                                             {"line", FIELD_INTEGER, .flags = FIELD_OR_NULL, .json = line_json},
                                             {"module", FIELD_TEXT, .flags = FIELD_OR_NULL, .json = module_json},
                                             {0}};

static json_t *head_json(const void *row, const void *all)
{
    struct buf text = BUF_INIT;
    put_head(&text, row);
    json_t *json = text_json(text.data ? text.data : "");
    buf_done(&text);
    return json;
}

static json_t *threads_json(const void *row, const void *all)
{
    const struct deadlock *lock = row;
    return fields_list(thread_fields, lock->threads, lock->count, sizeof *lock->threads, NULL);
}

const struct field deadlock_fields[] = {{"pid", FIELD_INTEGER, FIELD_AT(struct deadlock, pid), .about = "of the first"},
                                        {"name", FIELD_TEXT, FIELD_AT(struct deadlock, name)},
                                        {"text", FIELD_TEXT, .json = head_json},
                                        {"threads", FIELD_LIST, .json = threads_json, .of = thread_fields,
                                         .about = "in the order of the circle: each waits for the next"},
                                        {0}};
