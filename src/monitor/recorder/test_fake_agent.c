/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/recorder/test_fake_agent.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <x86intrin.h>

#include "monitor/recorder/test_area_fixture.h"
#include "shm/record.h"

struct fake {
    struct area_view view;
    struct doorbell *bell;
    struct area_thread *thread;
    uint32_t slots[FAKE_FUNCTIONS];
    uint32_t packet, next;
    uint64_t seq, last;
    uint32_t depth;
    uint64_t discarded;
};

__attribute__((noinline)) static int function_a(int n)
{
    return n + 1;
}
__attribute__((noinline)) static int function_b(int n)
{
    return n + 2;
}
__attribute__((noinline)) static int function_c(int n)
{
    return n + 3;
}

static bool fake_connect(struct fake *fake)
{
    static struct agent_hello hello;
    struct agent_welcome welcome;
    int fds[3], fd = hello_dial();
    struct stat st;
    size_t size = hello_fill(&hello, AGENT_HAS_HOOKS, NULL);
    if (fd < 0 || send(fd, &hello, size, 0) != (ssize_t)size || !hello_hear(fd, &welcome, sizeof welcome, fds, 3) ||
        welcome.status)
        return false;
    close(fd);
    fstat(fds[0], &st);
    void *base = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
    void *bell = mmap(NULL, AREA_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fds[1], 0);
    if (base == MAP_FAILED || bell == MAP_FAILED || !area_take(&fake->view, base, (uint64_t)st.st_size))
        return false;
    fake->bell = bell;
    while (!atomic_load(&fake->view.area->go))
        syscall(SYS_futex, &fake->view.area->go, FUTEX_WAIT, 0, NULL, NULL, 0);
    uint64_t functions[FAKE_FUNCTIONS] = {(uintptr_t)function_a, (uintptr_t)function_b, (uintptr_t)function_c};
    for (unsigned i = 0; i < FAKE_FUNCTIONS; i++)
        fake->slots[i] = (uint32_t)(area_slot_find(&fake->view, functions[i], true) - fake->view.slots);
    fake->thread = area_thread_at(&fake->view, 0);
    fake->thread->tid = (uint32_t)getpid();
    fake->thread->serial = 1;
    fake->packet = UINT32_MAX;
    atomic_store(&fake->thread->packet, UINT32_MAX);
    atomic_store(&fake->thread->state, AREA_THREAD_LIVE);
    return true;
}

static struct packet_head *head_at(const struct fake *fake, uint32_t packet)
{
    return (struct packet_head *)(void *)(fake->view.base + fake->view.packets_at +
                                          (uint64_t)packet * fake->view.packet_size);
}

static struct packet_head *fake_head(const struct fake *fake)
{
    return head_at(fake, fake->packet);
}

static void fake_close(struct fake *fake)
{
    if (fake->packet == UINT32_MAX)
        return;
    struct packet_head *head = fake_head(fake);
    head->content_size = 8 * (atomic_load(&fake->thread->cursor) - (uint64_t)((uint8_t *)head - fake->view.base));
    head->time_end = fake->last;
    head->events_discarded = fake->discarded;
    uint64_t order = atomic_fetch_add(&fake->view.area->packet_order, 1);
    atomic_store(&fake->thread->packet, UINT32_MAX);
    atomic_store(&fake->view.states[fake->packet], order << 8 | AREA_PACKET_FULL);
    fake->packet = UINT32_MAX;
    area_ring(fake->bell);
}

static bool fake_open(struct fake *fake, uint64_t time)
{
    for (uint32_t k = 0; k < fake->view.packet_count; k++) {
        uint32_t i = (fake->next + k) % fake->view.packet_count;
        uint64_t word = AREA_PACKET_FREE;
        if (!atomic_compare_exchange_strong(&fake->view.states[i], &word, AREA_PACKET_TAKEN))
            continue;
        fake->packet = i;
        *fake_head(fake) = (struct packet_head){.magic = PACKET_MAGIC,
                                                .time_begin = time,
                                                .packet_seq = fake->seq++,
                                                .tid = fake->thread->tid,
                                                .depth = fake->depth,
                                                .thread_serial = 1};
        atomic_store(&fake->thread->cursor,
                     (uint64_t)((uint8_t *)fake_head(fake) - fake->view.base) + sizeof(struct packet_head));
        atomic_store(&fake->thread->packet, i);
        fake->last = time;
        return true;
    }
    return false;
}

static void fake_record(struct fake *fake, uint32_t id, const void *payload, size_t size)
{
    uint64_t time = __rdtsc();
    if (fake->packet != UINT32_MAX) {
        uint64_t used = atomic_load(&fake->thread->cursor) - (uint64_t)((uint8_t *)fake_head(fake) - fake->view.base);
        if (used + RECORD_EXTENDED_HEAD + size > fake->view.packet_size)
            fake_close(fake);
    }
    if (fake->packet == UINT32_MAX && !fake_open(fake, time)) {
        atomic_store(&fake->thread->discarded, ++fake->discarded);
        return;
    }
    uint8_t *at = fake->view.base + atomic_load(&fake->thread->cursor);
    size_t head = RECORD_HEAD;
    uint32_t word = (uint32_t)(time << 5) | id;
    if ((time - fake->last) >> RECORD_TIME_BITS) {
        word |= RECORD_EXTENDED;
        memcpy(at + 4, &id, 4);
        memcpy(at + 8, &time, 8);
        head = RECORD_EXTENDED_HEAD;
    }
    memcpy(at, &word, 4);
    memcpy(at + head, payload, size);
    fake->last = time;
    atomic_fetch_add(&fake->thread->cursor, head + size);
}

static void fake_enter(struct fake *fake, unsigned function)
{
    fake_record(fake, RECORD_ENTRY, &fake->slots[function], 4);
    fake->depth++;
}

static void fake_leave(struct fake *fake)
{
    fake_record(fake, RECORD_EXIT, "", 0);
    fake->depth--;
}

/* As far as the flight recorder comes before it wipes it. */
static bool fake_overwrite(const struct fake *fake, uint32_t number)
{
    for (uint32_t i = 0; i < fake->view.packet_count; i++) {
        uint64_t word = atomic_load(&fake->view.states[i]);
        if ((word & 0xff) == AREA_PACKET_FULL && head_at(fake, i)->packet_seq == number)
            return atomic_compare_exchange_strong(&fake->view.states[i], &word, AREA_PACKET_TAKEN);
    }
    return false;
}

/* false: nobody has woken it. */
static bool fake_sleep(const _Atomic uint32_t *word, uint32_t value)
{
    const struct timespec most = {TIMEOUT_S, 0};
    return syscall(SYS_futex, word, FUTEX_WAIT, value, &most, NULL, 0) == 0;
}

static bool fake_hello(uint32_t flags)
{
    static struct agent_hello hello;
    size_t size = hello_fill(&hello, flags, NULL);
    int other = hello_dial();
    bool sent = send(other, &hello, size, 0) == (ssize_t)size;
    close(other);
    return sent;
}

static bool fake_serve(void *ctx, const struct child_command *command)
{
    struct fake *fake = ctx;
    switch (command->letter) {
    case 'c':
        return fake_connect(fake);
    case 'e':
        fake_enter(fake, command->number);
        return true;
    case 'x':
        fake_leave(fake);
        return true;
    case 'n': /* calls */
        for (uint32_t i = 0; i < command->number; i++) {
            fake_enter(fake, i % FAKE_FUNCTIONS);
            fake_leave(fake);
        }
        return true;
    case 'f':
        fake_close(fake);
        return true;
    case 'i':
        fake->next = command->number;
        return true;
    case 'o':
        return fake_overwrite(fake, command->number);
    case 'g': /* garbage over everything the monitor reads */
        for (uint64_t i = fake->view.packets_at; i < fake->view.packets_at + 16 * fake->view.packet_size; i++)
            if (i % fake->view.packet_size >= 4)
                fake->view.base[i] = (uint8_t)(i * 2654435761u >> 13);
        for (uint32_t i = 0; i < 16; i++)
            atomic_store(&fake->view.states[i], (uint64_t)i << 8 | AREA_PACKET_FULL);
        memset(&fake->thread->cursor, 0xee, sizeof fake->thread->cursor);
        area_ring(fake->bell);
        return true;
    case 's':
        return command->number ? fake_sleep(&fake->thread->raise.hold, AREA_HOLD_POSTED)
                               : fake_sleep(&fake->view.area->freed, atomic_load(&fake->view.area->freed));
    case 'h': /* no hooks */
        return fake_hello(0);
    case 'l':
        return fake_hello(AGENT_HAS_HOOKS | AGENT_NO_FILES);
    case 'q':
        _exit(0);
    }
    return true;
}

void fake_agent(int fd)
{
    struct fake fake = {.packet = UINT32_MAX};
    child_serve(fd, fake_serve, &fake);
}
