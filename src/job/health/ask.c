/* SPDX-License-Identifier: Apache-2.0 */
#include "job/health/ask.h"

#include <linux/magic.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/statfs.h>
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

static void *run(void *state)
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
    bool started = pthread_create(&thread, &attributes, run, ask) == 0;
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
    struct pollfd done = {.fd = ask->done, .events = POLLIN};
    if (poll(&done, 1, wait_ms) != 1)
        return false;
    memcpy(ret_answer, ask->question + ask->answer_at, ask->answer_size);
    ask_drop(ask);
    return true;
}
