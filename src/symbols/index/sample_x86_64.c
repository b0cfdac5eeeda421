/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/index/sample.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/system/clock.h"
#include "shm/waits.h"

enum { RING_PAGES = 8, SAMPLED = 17 };

/* ax, bx, cx, dx, si, di, bp, sp, ip, r8 ... r15, as <asm/perf_regs.h> numbers them, and their DWARF numbers. */
#define REGISTERS_MASK UINT64_C(0xff01ff)
static const unsigned char dwarf_numbers[SAMPLED] = {0, 3, 2, 1, 4, 5, 6, 7, 16, 8, 9, 10, 11, 12, 13, 14, 15};

struct ring {
    int fd;
    struct perf_event_mmap_page *page;
    size_t page_size;
};

/* A thread that spins in a call of the kernel is there most of the time, so that is sampled, too, where it is allowed
 * (perf_event_paranoid); the registers are the program's own in any case. */
static int ring_open(struct ring *ring, pid_t tid)
{
    struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE,
                                   .size = sizeof attr,
                                   .config = PERF_COUNT_SW_TASK_CLOCK,
                                   .sample_period = SAMPLE_PERIOD_NS,
                                   .sample_type = PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER,
                                   .sample_regs_user = REGISTERS_MASK,
                                   .sample_stack_user = SAMPLE_STACK,
                                   .exclude_hv = 1,
                                   .exclude_callchain_user = 1};
    ring->page_size = (size_t)sysconf(_SC_PAGESIZE);
    ring->page = MAP_FAILED;
    ring->fd = (int)syscall(SYS_perf_event_open, &attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
    if (ring->fd < 0 && errno == EACCES) {
        attr.exclude_kernel = 1;
        ring->fd = (int)syscall(SYS_perf_event_open, &attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
    }
    if (ring->fd >= 0)
        ring->page = mmap(NULL, (RING_PAGES + 1) * ring->page_size, PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd, 0);
    if (ring->page != MAP_FAILED)
        return 0;
    return errno == EPERM ? -EACCES : -errno;
}

static void ring_close(struct ring *ring)
{
    if (ring->page != MAP_FAILED)
        munmap(ring->page, (RING_PAGES + 1) * ring->page_size);
    if (ring->fd >= 0)
        close(ring->fd);
}

/* The first record: it lies at the start of the ring, so it does not wrap. */
static bool ring_take(const struct ring *ring, struct sample *sample)
{
    const char *data = (const char *)ring->page + ring->page_size, *at = data;
    uint64_t head = atomic_load_explicit((const _Atomic uint64_t *)&ring->page->data_head, memory_order_acquire);
    struct perf_event_header header;
    uint64_t abi, value, size = 0, used = 0;
    if (head < sizeof header + sizeof abi)
        return false;
    memcpy(&header, at, sizeof header);
    memcpy(&abi, at + sizeof header, sizeof abi);
    at += sizeof header + sizeof abi;
    if (header.type != PERF_RECORD_SAMPLE || abi != PERF_SAMPLE_REGS_ABI_64 || header.size > head ||
        header.size < sizeof header + sizeof abi + SAMPLED * sizeof value + sizeof size)
        return false;
    for (int i = 0; i < SAMPLED; i++, at += sizeof value) {
        memcpy(&value, at, sizeof value);
        sample->registers[dwarf_numbers[i]] = value;
    }
    memcpy(&size, at, sizeof size);
    at += sizeof size;
    uint64_t left = header.size - (uint64_t)(at - data);
    if (size && size <= SAMPLE_STACK && size + sizeof used <= left) {
        memcpy(&used, at + size, sizeof used);
        sample->stack_size = used < size ? used : size;
        memcpy(sample->stack, at, sample->stack_size);
    }
    return true;
}

void samples_take(struct sample *samples, size_t count)
{
    struct ring rings[SAMPLE_BATCH];
    size_t waiting = 0;
    count = count > SAMPLE_BATCH ? SAMPLE_BATCH : count;
    for (size_t i = 0; i < count; i++) {
        samples[i].stack_size = 0;
        samples[i].code = ring_open(&rings[i], samples[i].tid);
        if (samples[i].code == 0) {
            samples[i].code = -EAGAIN;
            waiting++;
        }
    }
    const uint64_t until = clock_now_ns() + SAMPLE_WAIT_MS * UINT64_C(1000000);
    while (waiting && clock_now_ns() < until) {
        poll(NULL, 0, SAMPLE_LOOK_MS);
        for (size_t i = 0; i < count; i++)
            if (samples[i].code == -EAGAIN && ring_take(&rings[i], &samples[i])) {
                samples[i].code = 0;
                waiting--;
            }
    }
    for (size_t i = 0; i < count; i++)
        ring_close(&rings[i]);
}
