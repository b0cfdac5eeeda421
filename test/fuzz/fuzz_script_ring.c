/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A script's ring that its process has written over: 13 bytes each, which part of it, where, and eight bytes that stand
 * there then. Whatever comes out of it holds together, it comes to an end, and afterwards records are read again.
 */
#include <string.h>

#include "fuzz.h"
#include "shm/script_ring.h"

enum { PATCH = 13, PATCHES = 64, RING = SCRIPT_RING_LEAST, SUMS = 8, TEXTS = 256, HEAD = 4096 };
enum { SIZE = HEAD + RING + SUMS * sizeof(struct script_sum) + TEXTS };

static _Alignas(4096) char memory[SIZE], clean[SIZE];
static struct script_view view;

static void store(char *at, uint32_t size, int32_t line)
{
    struct script_stored *stored = (void *)at;
    struct script_stored_frame frame = {.line = line, .file = 3, .function = UINT16_MAX};
    stored->kind = SCRIPT_LINE;
    stored->line = line;
    stored->text_sizes[SCRIPT_COMMAND] = 5;
    stored->none_bits = 3;
    stored->frame_count = 1;
    memcpy(stored->bytes + 5, &frame, sizeof frame);
    stored->word = script_word(size, line % 4 ? SCRIPT_WHOLE : line % 8 ? SCRIPT_OPEN : SCRIPT_PAD, 1);
}

static void make(void)
{
    struct script_ring *ring = (void *)clean;
    *ring = (struct script_ring){.magic = SCRIPT_RING_MAGIC,
                                 .version = SCRIPT_RING_VERSION,
                                 .ring_at = HEAD,
                                 .ring_size = RING,
                                 .sums_at = HEAD + RING,
                                 .sum_count = SUMS,
                                 .texts_at = SIZE - TEXTS,
                                 .texts_size = TEXTS,
                                 .size = SIZE,
                                 .sums_used = 4,
                                 .texts_used = 100};
    memset(clean + SIZE - TEXTS, 'x', TEXTS); /* names without ends */
    struct script_sum *sums = (void *)(clean + HEAD + RING);
    for (uint32_t i = 0; i < SUMS; i++) {
        sums[i].kind = i % 3;
        sums[i].file = 16 * i;
    }
    for (int32_t i = 0; i < 40; i++)
        store(clean + HEAD + 128 * i, 128, i);
    ring->reserved = 40 * 128;
}

static void check_text(const struct script_text *text, uint32_t most)
{
    static char copy[SCRIPT_RECORD_MOST];
    fuzz_expect(text->size <= most);
    if (text->size)
        memcpy(copy, text->bytes, text->size);
}

static void check(const struct script_event *record)
{
    fuzz_expect(record->kind && record->frame_count <= SCRIPT_FRAMES_MOST);
    for (unsigned i = 0; i < SCRIPT_TEXTS; i++)
        check_text(&record->texts[i], SCRIPT_TEXT_MOST);
    for (unsigned i = 0; i < record->frame_count; i++) {
        check_text(&record->frames[i].file, SCRIPT_NAME_MOST);
        check_text(&record->frames[i].function, SCRIPT_NAME_MOST);
    }
}

static void check_sums(void)
{
    struct script_sum_copy sum;
    uint32_t count = script_view_sums(&view), now = script_view_now(&view);
    uint32_t most = view.head.sum_count; /* which may be damaged, too, but lies within the file */
    fuzz_expect(count <= most && (now < most || now == UINT32_MAX));
    for (uint32_t i = 0; i <= count; i++)
        if (script_view_sum(&view, i, true, &sum))
            fuzz_expect(strlen(sum.file) < SCRIPT_NAME_MOST && strlen(sum.function) < SCRIPT_NAME_MOST);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct script_event record;
    if (!clean[0])
        make();
    memcpy(memory, clean, SIZE);
    for (unsigned i = 0; i < PATCHES && size >= PATCH; i++, data += PATCH, size -= PATCH) {
        uint32_t at;
        memcpy(&at, data + 1, sizeof at);
        at = data[0] % 4 == 0 ? at % 512 : data[0] % 4 == 1 ? HEAD + at % (40 * 128) : at % (SIZE - 8);
        memcpy(memory + at, data + 5, 8);
    }
    if (!script_view_init(&view, memory, SIZE))
        return 0;
    unsigned records = 0;
    for (int32_t gone = SCRIPT_GONE_NONE; gone >= SCRIPT_GONE_ALL; gone--)
        for (; script_view_take(&view, gone, &record); records++)
            check(&record);
    fuzz_expect(records <= RING / sizeof(struct script_stored));
    fuzz_expect(view.ring->taken == view.taken);
    check_sums();
    return 0;
}
