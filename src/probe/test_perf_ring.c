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
    bool torn = false;
    uint64_t written = 0, seen = 0;
    /* 40-byte records in 4096 bytes: every tenth or so lies across the end, in ever other places */
    for (int round = 0; round < 300; round++) {
        for (int i = 0; i < 7; i++)
            put_sample(fixture, written++);
        const struct perf_event_header *record;
        perf_ring_begin(ring);
        while ((record = perf_ring_next(ring, &torn))) {
            struct perf_record_id id;
            assert_int_equal(record->type, PERF_RECORD_READ);
            assert_int_equal(((const struct sample *)record)->number, seen);
            assert_true(perf_record_id(record, &id));
            assert_int_equal(id.time_ns, seen * 10);
            if (round % 3 == 0 && seen % 7 == 6) { /* once more, please */
                perf_ring_unread(ring, record);
                record = perf_ring_next(ring, &torn);
                assert_int_equal(((const struct sample *)record)->number, seen);
            }
            seen++;
        }
        perf_ring_end(ring);
        assert_int_equal(ring->page->data_tail, ring->page->data_head);
    }
    assert_int_equal(seen, written);
    assert_false(torn);
}

/* Sizes that cannot be: the rest is dropped, and what comes later is read again. */
static void test_torn(void **state)
{
    static const uint16_t sizes[] = {0, 4, 13, 4000, 65528};
    struct fixture *fixture = *state;
    struct perf_ring *ring = &fixture->ring;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct perf_event_header bad = {PERF_RECORD_EXIT, 0, sizes[i]};
        bool torn = false;
        put_sample(fixture, 1);
        put(fixture, &bad, sizeof bad);
        put_sample(fixture, 2);
        perf_ring_begin(ring);
        const struct perf_event_header *record = perf_ring_next(ring, &torn);
        assert_int_equal(((const struct sample *)record)->number, 1);
        assert_false(torn);
        assert_null(perf_ring_next(ring, &torn));
        assert_true(torn);
        perf_ring_end(ring);

        torn = false;
        put_sample(fixture, 3);
        perf_ring_begin(ring);
        record = perf_ring_next(ring, &torn);
        assert_non_null(record);
        assert_int_equal(((const struct sample *)record)->number, 3);
        assert_null(perf_ring_next(ring, &torn));
        assert_false(torn);
        perf_ring_end(ring);
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
        bool torn = false;
        size_t count = 0;
        const struct perf_event_header *record;
        perf_ring_begin(ring);
        while ((record = perf_ring_next(ring, &torn))) {
            assert_true(record->size >= sizeof *record && record->size <= sizeof ring->copy);
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
        cmocka_unit_test_setup_teardown(test_random, make, unmake),
    };
    return cmocka_run_group_tests_name("perf_ring", tests, NULL, NULL);
}
