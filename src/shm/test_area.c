/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "shm/area.h"

struct fixture {
    struct area_view view;
    void *base;
    uint64_t size;
};

static void setup(struct fixture *f, uint32_t slots)
{
    struct area header;
    f->size = area_plan(&header, 0, slots, 4);
    f->base = mmap(NULL, f->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(f->base != MAP_FAILED);
    memcpy(f->base, &header, sizeof header);
    assert_true(area_take(&f->view, f->base, f->size));
}

static void teardown(struct fixture *f)
{
    munmap(f->base, f->size);
}

static void plan_keeps_to_its_limits(void **state)
{
    struct area header;
    uint64_t size = area_plan(&header, 1, 1, 0);
    assert_int_equal(header.packet_count, AREA_BUFFER_MIN / AREA_PACKET_SIZE);
    assert_int_equal(header.slot_count, 1024);
    assert_int_equal(header.thread_count, 1);
    assert_int_equal(size, header.size);
    area_plan(&header, 3 * AREA_BUFFER_MIN + 5, 5000, 1 << 30);
    assert_int_equal(header.packet_count, 96);
    assert_int_equal(header.slot_count, 4096);
    assert_int_equal(header.thread_count, AREA_THREADS);
    area_plan(&header, 1, UINT32_MAX, 1);
    assert_int_equal(header.slot_count, AREA_SLOTS);
}

static void parts_lie_apart_and_aligned(void **state)
{
    struct fixture f;
    setup(&f, AREA_SLOTS);
    assert_ptr_equal(f.view.forks, f.view.base + AREA_PAGE);
    assert_true((uint8_t *)(f.view.forks + 1) <= f.view.filter);
    assert_int_equal((uintptr_t)f.view.filter % AREA_PAGE, 0);
    assert_int_equal((uintptr_t)f.view.slots % sizeof(struct area_slot), 0);
    assert_true(f.view.filter + AREA_FILTER <= (uint8_t *)f.view.slots);
    assert_true((uint8_t *)(f.view.slots + f.view.slot_mask + 1) <= (uint8_t *)f.view.sites);
    assert_true((uint8_t *)(f.view.sites + f.view.site_mask + 1) <= f.view.programs);
    assert_true(f.view.programs + f.view.programs_size <= f.view.threads);
    assert_true(f.view.threads + (uint64_t)f.view.thread_count * AREA_THREAD_SIZE <= (uint8_t *)f.view.states);
    assert_true((uint8_t *)(f.view.states + f.view.packet_count) <= f.view.base + f.view.packets_at);
    assert_int_equal(f.view.packets_at % AREA_PAGE, 0);
    assert_int_equal(f.view.packets_at + (uint64_t)f.view.packet_count * f.view.packet_size, f.size);
    teardown(&f);
}

static void takes_over_only_what_fits(void **state)
{
    struct fixture f;
    setup(&f, 1024);
    struct area_view view;
    assert_false(area_take(&view, f.base, f.size - AREA_PAGE));
    assert_false(area_take(&view, f.base, f.size + AREA_PAGE));
    assert_false(area_take(&view, f.base, 0));
    assert_false(area_take(&view, NULL, f.size));
    assert_false(area_take(&view, (uint8_t *)f.base + 8, f.size));

    /* any field of the geometry that was changed is refused: each of its words in turn */
    uint32_t *words = f.base;
    size_t words_of_geometry = offsetof(struct area, serial) / sizeof *words;
    for (size_t i = 0; i < words_of_geometry; i++) {
        uint32_t was = words[i];
        const uint32_t wrong[] = {was + 1, was ^ 0x80000000u, ~was, was * 2 + 1};
        for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
            words[i] = wrong[k];
            assert_false(area_take(&view, f.base, f.size));
        }
        words[i] = was;
        assert_true(area_take(&view, f.base, f.size));
    }
    teardown(&f);
}

static void finds_what_was_put_in(void **state)
{
    struct fixture f;
    setup(&f, 4096);
    enum { COUNT = 2000 };
    for (uint64_t i = 1; i <= COUNT; i++) {
        assert_null(area_slot_find(&f.view, 0x400000 + i * 16, false));
        struct area_slot *slot = area_slot_find(&f.view, 0x400000 + i * 16, true);
        assert_non_null(slot);
        assert_int_equal(slot->mode, 0);
        slot->mode = (uint32_t)i;
        struct area_site *site = area_site_find(&f.view, 0x400000 + i * 16, true);
        assert_non_null(site);
        site->layout = (uint32_t)i;
    }
    for (uint64_t i = 1; i <= COUNT; i++) {
        struct area_slot *slot = area_slot_find(&f.view, 0x400000 + i * 16, i & 1);
        assert_non_null(slot);
        assert_int_equal(slot->mode, i);
        assert_int_equal(area_site_find(&f.view, 0x400000 + i * 16, true)->layout, i);
    }
    assert_null(area_slot_find(&f.view, 0, true));
    assert_null(area_site_find(&f.view, 0x3fffff, false));
    teardown(&f);
}

static void full_tables_say_so(void **state)
{
    struct fixture f;
    setup(&f, 1024);
    unsigned in = 0, refused = 0;
    for (uint64_t i = 1; i <= 3000; i++)
        *(area_slot_find(&f.view, i * 32, true) ? &in : &refused) += 1;
    assert_true(in <= 1024 && in > 900);
    assert_int_equal(in + refused, 3000);
    unsigned found = 0;
    for (uint64_t i = 1; i <= 3000; i++)
        found += area_slot_find(&f.view, i * 32, false) != NULL;
    assert_int_equal(found, in);
    teardown(&f);
}

static void *insert_all(void *arg)
{
    struct fixture *f = arg;
    for (uint64_t i = 1; i <= 1500; i++)
        atomic_fetch_add(&area_slot_find(&f->view, i * 48, true)->calls, 1);
    return NULL;
}

static void threads_agree_on_a_slot(void **state)
{
    struct fixture f;
    setup(&f, 4096);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, insert_all, &f), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    unsigned used = 0;
    for (uint32_t i = 0; i <= f.view.slot_mask; i++)
        used += f.view.slots[i].function != 0;
    assert_int_equal(used, 1500);
    for (uint64_t i = 1; i <= 1500; i++)
        assert_int_equal(area_slot_find(&f.view, i * 48, false)->calls, 4);
    teardown(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plan_keeps_to_its_limits),  cmocka_unit_test(parts_lie_apart_and_aligned),
        cmocka_unit_test(takes_over_only_what_fits), cmocka_unit_test(finds_what_was_put_in),
        cmocka_unit_test(full_tables_say_so),        cmocka_unit_test(threads_agree_on_a_slot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
