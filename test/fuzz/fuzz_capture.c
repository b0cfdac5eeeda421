/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Capture programs from any bytes, checked or not: they end, read only the frame or through the function for it, and
 * write only where they may. The first byte says how much room there is.
 */
#include <string.h>

#include "fuzz.h"
#include "shm/capture.h"

enum { STACK = CAPTURE_RED_ZONE + CAPTURE_DIRECT, HEAP = 8192 };

static uint8_t stack[STACK] __attribute__((aligned(16)));
static uint8_t heap[HEAP] __attribute__((aligned(4096)));

static int read_heap(void *dst, uint64_t address, size_t size)
{
    uint64_t from = address - (uint64_t)(uintptr_t)heap;
    if (from > HEAP || size > HEAP - from)
        return -1;
    memcpy(dst, heap + from, size);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    size_t room = (size_t)data[0] * 16;
    uint8_t *code = malloc(size), *out = malloc(room ? room : 1);
    if (!code || !out)
        abort();
    memcpy(code, data + 1, size - 1);
    struct capture_frame frame = {.has_xmm = data[0] & 1};
    for (unsigned i = 0; i < 17; i++) /* pointers to the heap, into each other */
        frame.gpr[i] = (uint64_t)(uintptr_t)heap + i * 64;
    for (size_t i = 0; i + 8 <= HEAP; i += 8) {
        uint64_t next = i % 24 == 0 ? i : (uint64_t)(uintptr_t)heap + i * 7 % HEAP;
        memcpy(heap + i, &next, 8);
    }
    frame.gpr[7] = (uint64_t)(uintptr_t)(stack + CAPTURE_RED_ZONE);
    frame.gpr[6] = frame.gpr[7] + 256;
    size_t before = (data[0] & 14u) * 16; /* shared blocks */
    before = before < size - 1 ? before : 0;
    const uint8_t *program = code + before;
    size_t length = size - 1 - before;
    bool checked = capture_check_sharing(program, length, before);
    size_t n = capture_run_sharing(program, length, before, &frame, read_heap, out, room);
    fuzz_expect(n <= room);
    if (checked) {
        uint8_t *again = malloc(room ? room : 1);
        memset(again, 0xa5, room);
        fuzz_expect(capture_run_sharing(program, length, before, &frame, read_heap, again, room) == n);
        fuzz_expect(memcmp(out, again, n) == 0); /* nothing of what lay there before gets out */
        free(again);
    }
    capture_check_apart(code, size - 1);
    capture_check_block(code, size - 1);
    capture_wants_xmm(code, size - 1);
    fuzz_expect(capture_minimum(code, size - 1) <= UINT16_MAX);
    free(code);
    free(out);
    return 0;
}
