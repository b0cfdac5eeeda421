/* SPDX-License-Identifier: Apache-2.0 */
/* Rings of records made by hand: wrapped around the end, incomplete, torn, and of bytes at random. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "probe/perf_ring.h"
#include "probe/follow.h"

enum { SIZE = 4096 };

struct fixture {
    struct perf_ring ring;
    unsigned char *data;
};

static int make(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    fixture->ring.fd = -1;
    fixture->ring.size = SIZE;
    fixture->ring.copy_size = 512;
    fixture->ring.copy = malloc(fixture->ring.copy_size);
    fixture->ring.page = mmap(NULL, page + SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    fixture->data = (unsigned char *)fixture->ring.page + page;
    *state = fixture;
    return fixture->ring.page == MAP_FAILED;
}

static int unmake(void **state)
{
    struct fixture *fixture = *state;
    perf_ring_close(&fixture->ring);
    free(fixture);
    return 0;
}

/* As the kernel does: bytes first, then the head. */
static void put(struct fixture *fixture, const void *bytes, size_t len)
{
    uint64_t head = fixture->ring.page->data_head;
    for (size_t i = 0; i < len; i++)
        fixture->data[(head + i) % SIZE] = ((const unsigned char *)bytes)[i];
    fixture->ring.page->data_head = head + len;
}

struct sample {
    struct perf_event_header header;
    uint64_t number;
    struct perf_record_id id;
};

static void put_sample(struct fixture *fixture, uint64_t number)
{
    struct sample sample = {{PERF_RECORD_READ, 0, sizeof sample}, number, {1, 2, number * 10}};
    put(fixture, &sample, sizeof sample);
}

static void test_wrap(void **state)
{
    struct fixture *fixture = *state;
    struct perf_ring *ring = &fixture->ring;
    uint64_t written = 0, seen = 0, dropped = 0;
    /* 40-byte records in 4096 bytes: every tenth or so lies across the end, in ever other places */
    for (int round = 0; round < 300; round++) {
        for (int i = 0; i < 7; i++)
            put_sample(fixture, written++);
        const struct perf_event_header *record;
        perf_ring_begin(ring);
        while ((record = perf_ring_next(ring, &dropped))) {
            struct perf_record_id id;
            assert_int_equal(record->type, PERF_RECORD_READ);
            assert_int_equal(((const struct sample *)record)->number, seen);
            assert_true(perf_record_id(record, &id));
            assert_int_equal(id.time_ns, seen * 10);
            if (round % 3 == 0 && seen % 7 == 6) { /* once more, please */
                perf_ring_unread(ring, record);
                record = perf_ring_next(ring, &dropped);
                assert_int_equal(((const struct sample *)record)->number, seen);
            }
            seen++;
        }
        perf_ring_end(ring);
        assert_int_equal(ring->page->data_tail, ring->page->data_head);
    }
    assert_int_equal(seen, written);
    assert_int_equal(dropped, 0);
}

static void assert_next(struct perf_ring *ring, uint64_t number, uint64_t *dropped)
{
    const struct perf_event_header *record = perf_ring_next(ring, dropped);
    assert_non_null(record);
    assert_int_equal(((const struct sample *)record)->number, number);
}

/* Sizes and kinds that cannot be: the rest is dropped and counted, and what comes later is read again. */
static void test_torn(void **state)
{
    static const struct perf_event_header bad[] = {
        {PERF_RECORD_EXIT, 0, 0},     {PERF_RECORD_EXIT, 0, 4}, {PERF_RECORD_EXIT, 0, 13}, {PERF_RECORD_EXIT, 0, 4000},
        {PERF_RECORD_EXIT, 0, 65528}, {PERF_RECORD_MAX, 0, 8},  {UINT32_MAX, 0, 8},        {0, 0, 8}};
    struct fixture *fixture = *state;
    struct perf_ring *ring = &fixture->ring;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint64_t dropped = 0;
        put_sample(fixture, 1);
        put(fixture, &bad[i], sizeof *bad);
        put_sample(fixture, 2);
        perf_ring_begin(ring);
        assert_next(ring, 1, &dropped);
        assert_int_equal(dropped, 0);
        assert_null(perf_ring_next(ring, &dropped));
        assert_int_equal(dropped, sizeof *bad + sizeof(struct sample));
        perf_ring_end(ring);

        dropped = 0;
        put_sample(fixture, 3);
        perf_ring_begin(ring);
        assert_next(ring, 3, &dropped);
        assert_null(perf_ring_next(ring, &dropped));
        assert_int_equal(dropped, 0);
        perf_ring_end(ring);
    }
}

/* A record that its reader finds no sense in takes the rest along; so does a head that is behind, or too far ahead. */
static void test_dropped(void **state)
{
    static const int64_t off[] = {-40, 4 * SIZE};
    struct fixture *fixture = *state;
    struct perf_ring *ring = &fixture->ring;
    uint64_t dropped = 0;
    put_sample(fixture, 1);
    put_sample(fixture, 2);
    perf_ring_begin(ring);
    perf_ring_drop(ring, perf_ring_next(ring, &dropped), &dropped);
    assert_int_equal(dropped, 2 * sizeof(struct sample));
    assert_null(perf_ring_next(ring, &dropped));
    perf_ring_end(ring);
    for (size_t i = 0; i < sizeof off / sizeof *off; i++) {
        dropped = 0;
        ring->page->data_head += (uint64_t)off[i];
        perf_ring_begin(ring);
        assert_null(perf_ring_next(ring, &dropped));
        assert_int_equal(dropped, SIZE);
        perf_ring_end(ring);
        put_sample(fixture, 3);
        perf_ring_begin(ring);
        assert_next(ring, 3, &dropped);
        assert_int_equal(dropped, SIZE);
        perf_ring_end(ring);
    }
}

/* Of each kind only the sizes that the kernel writes are taken. */
static void test_decoded(void **state)
{
    static const struct {
        uint16_t type, least, most;
    } kinds[] = {{PERF_RECORD_FORK, 48, 48}, {PERF_RECORD_EXIT, 48, 48}, {PERF_RECORD_READ, 40, 40},
                 {PERF_RECORD_LOST, 40, 40}, {PERF_RECORD_COMM, 40, 48}, {PERF_RECORD_SAMPLE, 0, 0}};
    struct {
        struct perf_event_header header;
        uint64_t words[8];
    } record = {{0, PERF_RECORD_MISC_COMM_EXEC, 0}, {0}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        for (uint16_t size = 8; size <= sizeof record; size += 8) {
            struct task_record found;
            record.header.type = kinds[i].type;
            record.header.size = size;
            for (uint64_t word = 0; word < 8; word++)
                record.words[word] = (word + 1) << 32 | word;
            assert_int_equal(task_record_decode(&record.header, &found),
                             size >= kinds[i].least && size <= kinds[i].most);
            if (size < kinds[i].least || size > kinds[i].most)
                continue;
            assert_int_equal(found.type, kinds[i].type);
            assert_int_equal(found.time_ns, record.words[size / 8 - 2]);
            assert_int_equal(found.tid, found.type != PERF_RECORD_LOST);
        }
    }
}

static void test_random(void **state)
{
    struct fixture *fixture = *state;
    struct perf_ring *ring = &fixture->ring;
    unsigned int seed = 1;
    for (int round = 0; round < 2000; round++) {
        unsigned char bytes[512];
        for (size_t i = 0; i < sizeof bytes; i++)
            bytes[i] = (unsigned char)(rand_r(&seed) % (i % 8 == 6 ? 64 : i % 8 == 7 ? 1 : 256));
        put(fixture, bytes, 8 * (1 + (size_t)rand_r(&seed) % 64));
        uint64_t dropped = 0;
        size_t count = 0;
        const struct perf_event_header *record;
        perf_ring_begin(ring);
        while ((record = perf_ring_next(ring, &dropped))) {
            assert_true(record->size >= sizeof *record && record->size <= ring->copy_size);
            assert_true(++count <= 64);
        }
        perf_ring_end(ring);
        assert_int_equal(ring->page->data_tail, ring->page->data_head);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_wrap, make, unmake),
        cmocka_unit_test_setup_teardown(test_torn, make, unmake),
        cmocka_unit_test_setup_teardown(test_dropped, make, unmake),
        cmocka_unit_test(test_decoded),
        cmocka_unit_test_setup_teardown(test_random, make, unmake),
    };
    return cmocka_run_group_tests_name("perf_ring", tests, NULL, NULL);
}
