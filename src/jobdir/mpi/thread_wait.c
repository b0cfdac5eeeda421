/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/mpi/thread_wait.h"

#include "base/system/proc_file.h"
#include "base/system/wait_world.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * glibc keeps what a thread began with in its descriptor, which lies above all of its stack, and tells debuggers where
 * in it (nptl_db). It is found by what it holds: twice its own address, and the thread's number.
 */

enum {
    PAGE = 4096,
    STACK_MOST = 16 << 20,
    SELF_WORD = 2, /* header.self; header.tcb is the first */
    WORD = sizeof(uint64_t),
};

static bool is_descriptor(pid_t pid, pid_t tid, uint64_t address, uint32_t tid_offset)
{
    int32_t number = 0;
    return proc_peek(pid, address + tid_offset, &number, sizeof number) == sizeof number && number == tid;
}

/* 0: there is none above. */
static uint64_t descriptor_above(pid_t pid, pid_t tid, uint64_t sp, uint32_t tid_offset)
{
    uint64_t words[PAGE / WORD];
    const uint64_t end = sp + STACK_MOST;
    for (uint64_t at = sp & ~(uint64_t)(WORD - 1); at < end;) {
        size_t got = proc_peek(pid, at, words, sizeof words) / WORD;
        for (size_t i = 0; i + SELF_WORD < got; i++)
            if (words[i] == at + i * WORD && words[i + SELF_WORD] == words[i] &&
                is_descriptor(pid, tid, words[i], tid_offset))
                return words[i];
        if (got <= SELF_WORD)
            break;
        at += (got - SELF_WORD) * WORD;
    }
    return 0;
}

bool thread_file_is_of_mpi(const char *path)
{
    static const char *const names[] = {
        "libmpi.so",    "libmpich.so", "libmpich-", "libopen-",   "libompi",   "libprrte", "libpmix",
        "libpmi2",      "libevent",    "libmpl.so", "libucs.so",  "libucp.so", "libuct",   "libucm",
        "libfabric.so", "libpsm2.so",  "librdmacm", "libibverbs", "libmca_",   "mca_",     NULL};
    return text_begins_with_one(text_base(path), names);
}

static bool is_in_mpi(pid_t pid, uint64_t address)
{
    struct proc_maps maps;
    if (proc_maps_read(pid, &maps) < 0)
        return false;
    const struct proc_map *map = proc_maps_find(&maps, address);
    bool found = map && map->execute && thread_file_is_of_mpi(map->path);
    proc_maps_done(&maps);
    return found;
}

/* `syscall`: of /proc/PID/task/TID/syscall, for its stack pointer. false: the program's, or not known. */
static bool thread_is_of_mpi(pid_t pid, pid_t tid, const char *syscall)
{
    uint32_t tid_offset = pthread_field("_thread_db_pthread_tid");
    uint32_t start_offset = pthread_field("_thread_db_pthread_start_routine");
    unsigned long long sp = 0;
    if (!tid_offset || !start_offset || sscanf(syscall, "%*s 0x%*x 0x%*x 0x%*x 0x%*x 0x%*x 0x%*x 0x%llx", &sp) != 1 ||
        !sp)
        return false;
    uint64_t descriptor = descriptor_above(pid, tid, sp, tid_offset), routine = 0;
    return descriptor && proc_peek(pid, descriptor + start_offset, &routine, sizeof routine) == sizeof routine &&
           is_in_mpi(pid, routine);
}

enum { THREADS_MOST = 65536, WORDS_OF_MUTEX = 5, WORDS_OF_OWNER = 3, MUTEX_WANTED = 2, MUTEX_KINDS = 1024 };

static bool is_thread(pid_t pid, int64_t tid)
{
    char path[64];
    if (tid <= 0 || tid > INT_MAX)
        return false;
    snprintf(path, sizeof path, "/proc/%d/task/%d", pid, (int)tid);
    return access(path, F_OK) == 0;
}

/*
 * glibc's locks: the word of a mutex is 2 while somebody waits, and its owner stands 8 bytes behind it; of a robust
 * one, and of one that inherits priorities, the word has the owner and FUTEX_WAITERS; of a joined thread it is the
 * number until that has ended (nptl). A shared word that is none of these may be changed by another process.
 * An owner that is no thread of the process is believed if what follows it is that of a mutex: who uses it, and its kind.
 */
struct thread_wait thread_wait_of(pid_t pid, const char *syscall)
{
    unsigned long long number, word, operation, value, limit;
    uint32_t words[WORDS_OF_MUTEX];
    struct thread_wait wait = {.kind = THREAD_MAY_ACT};
    if (sscanf(syscall, "%llu 0x%llx 0x%llx 0x%llx 0x%llx", &number, &word, &operation, &value, &limit) != 5 ||
        number != SYS_futex)
        return wait;
    wait.limited = limit != 0;
    unsigned command = (unsigned)operation & (unsigned)FUTEX_CMD_MASK;
    bool waits = command == FUTEX_WAIT || command == FUTEX_WAIT_BITSET;
    bool inherits = command == FUTEX_LOCK_PI || command == FUTEX_LOCK_PI2;
    if (!waits && !inherits)
        return wait;
    bool whole = proc_peek(pid, word, words, sizeof words) == sizeof words;
    if (!whole &&
        proc_peek(pid, word, words, WORDS_OF_OWNER * sizeof *words) != (ssize_t)(WORDS_OF_OWNER * sizeof *words))
        return wait;
    uint32_t owner = 0;
    wait.word = word;
    if (inherits || (waits && value & FUTEX_WAITERS && words[0] == (uint32_t)value))
        owner = words[0] & FUTEX_TID_MASK;
    else if (command == FUTEX_WAIT && value == MUTEX_WANTED && words[0] == MUTEX_WANTED)
        owner = words[2];
    bool used = whole && words[3] > 0 && words[3] < THREADS_MOST && words[4] < MUTEX_KINDS;
    bool ends = waits && words[0] == (uint32_t)value && is_thread(pid, (int64_t)value);
    if (ends || is_thread(pid, owner)) {
        wait.kind = ends ? THREAD_WAITS_END : THREAD_WAITS_OWNER;
        wait.tid = (int32_t)(ends ? value : owner);
    } else {
        wait.other = used && owner <= FUTEX_TID_MASK ? (int32_t)owner : 0;
        if (operation & FUTEX_PRIVATE_FLAG)
            wait.kind = THREAD_WAITS_OTHERS;
    }
    return wait;
}

void thread_wait_put_others(struct buf *out, const struct thread_wait *wait)
{
    if (wait->other)
        buf_printf(out, "waits for a mutex whose owner, %d, is no thread of its process", (int)wait->other);
    else
        buf_puts(out, "waits for a semaphore, a condition, or a lock whose owner is not known");
}

/* false: it is none that counts. */
static bool thread_look(struct thread_seen *thread, pid_t pid)
{
    char text[256];
    struct wait_thread now = wait_look_thread(pid, thread->tid);
    if (!now.state)
        return false;
    thread->timed = now.timed;
    thread->ran_ns = now.ran_ns;
    proc_comm(pid, thread->tid, thread->name, sizeof thread->name);
    if (waits_is_dead(now.state)) {
        thread->wait.kind = THREAD_HAS_ENDED;
        return true;
    }
    int code = proc_file_read(pid, thread->tid, "syscall", text, sizeof text, NULL);
    bool seen = code == 0 && *text;
    if (code < 0 && code != -ESRCH)
        thread->wait.unseen = true;
    if (now.state == 'S' && seen)
        thread->wait = thread_wait_of(pid, text);
    if (thread->wait.limited)
        thread->wait.kind = THREAD_MAY_ACT;
    return thread->tid == pid || !seen || thread->wait.kind != THREAD_MAY_ACT ||
           !thread_is_of_mpi(pid, thread->tid, text);
}

static int by_tid(const void *a, const void *b)
{
    const struct thread_seen *left = a, *right = b;
    return left->tid < right->tid ? -1 : left->tid > right->tid;
}

static struct thread_seen *threads_grow(struct thread_seen **threads, size_t count)
{
    if ((count & (count - 1)) == 0) { /* a power of two, or none: it is full */
        struct thread_seen *larger = realloc(*threads, (count ? 2 * count : 1) * sizeof *larger);
        if (!larger)
            return NULL;
        *threads = larger;
    }
    return *threads + count;
}

int threads_look(struct thread_seen **ret_threads, size_t *ret_count, pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *dir = opendir(path);
    struct thread_seen *threads = NULL;
    size_t count = 0;
    int code = dir ? 0 : errno == EACCES ? -EACCES : -ESRCH;
    for (struct dirent *entry; code == 0 && count < THREADS_MOST && (entry = readdir(dir));) {
        if (entry->d_name[0] == '.')
            continue;
        struct thread_seen *thread = threads_grow(&threads, count);
        if (!thread) {
            code = -ENOMEM;
            break;
        }
        *thread = (struct thread_seen){.tid = (int32_t)atoi(entry->d_name)};
        count += thread_look(thread, pid);
    }
    if (dir)
        closedir(dir);
    if (code == 0 && count == 0)
        code = -ESRCH;
    if (code < 0) {
        free(threads);
        return code;
    }
    qsort(threads, count, sizeof *threads, by_tid);
    *ret_threads = threads;
    *ret_count = count;
    return 0;
}

static bool is_steady(const struct thread_seen *now, const struct thread_seen *before)
{
    return before && before->wait.kind == now->wait.kind && before->wait.tid == now->wait.tid &&
           before->wait.word == now->wait.word && before->timed && now->timed && before->ran_ns == now->ran_ns;
}

static const struct thread_seen *seen_in(const struct thread_seen *list, size_t count, const struct thread_seen *thread)
{
    return count ? bsearch(thread, list, count, sizeof *list, by_tid) : NULL;
}

int threads_settle(struct thread_seen **threads, size_t *count, const struct thread_seen *before, size_t before_count)
{
    size_t met = 0;
    for (size_t i = 0; i < *count; i++) {
        struct thread_seen *now = &(*threads)[i];
        const struct thread_seen *found = seen_in(before, before_count, now);
        met += found != NULL;
        if (now->wait.kind != THREAD_HAS_ENDED && !is_steady(now, found))
            now->wait = (struct thread_wait){.kind = THREAD_MAY_ACT, .unseen = now->wait.unseen};
    }
    for (size_t i = 0; i < before_count && met < before_count; i++) {
        if (seen_in(*threads, *count, &before[i]))
            continue;
        struct thread_seen *larger = realloc(*threads, (*count + 1) * sizeof *larger);
        if (!larger)
            return -ENOMEM;
        *threads = larger;
        larger[(*count)++] = (struct thread_seen){.tid = before[i].tid, .wait = {.kind = THREAD_MAY_ACT}};
        qsort(larger, *count, sizeof *larger, by_tid);
        break; /* one that may have acted is enough */
    }
    return 0;
}

static bool waits_for_one(const struct thread_seen *thread)
{
    return thread->wait.kind == THREAD_WAITS_OWNER || thread->wait.kind == THREAD_WAITS_END;
}

size_t threads_circle(const struct thread_seen *threads, size_t count, size_t start, size_t *ret_circle)
{
    size_t at = start;
    for (size_t length = 0; length < count; length++) {
        const struct thread_seen key = {.tid = threads[at].wait.tid};
        if (!waits_for_one(&threads[at]))
            return 0;
        ret_circle[length] = at;
        const struct thread_seen *next = seen_in(threads, count, &key);
        if (!next)
            return 0;
        at = (size_t)(next - threads);
        if (at == start)
            return length + 1;
    }
    return 0;
}
