/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The safety half of the agent as a library of its own, for tests: preloaded, with an area that the test made (file
 * TEST_AREA; struct area only, `reader` and `on` set), it connects at start as the agent does after its handshake.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/safety/crash.h"
#include "agent/safety/read.h"
#include "agent/safety/signals.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT int test_read(void *dst, uint64_t address, size_t size);
EXPORT int test_read(void *dst, uint64_t address, size_t size)
{
    unsigned before = agent_read_begin();
    int result = agent_read(dst, address, size);
    agent_read_end(before);
    return result;
}

static struct area_view view;

static void forked(void)
{
    agent_read_init(&view);
    agent_signals_forked();
}

__attribute__((constructor(101))) static void start(void)
{
    const char *path = getenv("TEST_AREA");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    void *area = mmap(NULL, AREA_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (area == MAP_FAILED)
        return;
    view.area = area;
    agent_read_init(&view);
    agent_crash_init(&view, NULL, &(struct agent_crash_ops){0});
    agent_signals_start();
    atexit(agent_read_done);
    extern int pthread_atfork(void (*)(void), void (*)(void), void (*)(void));
    pthread_atfork(NULL, NULL, forked);
}
