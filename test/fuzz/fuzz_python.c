/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a Python process: its version, the addresses of what it exports, then pieces, each an address, a size
 * (16 bits) and bytes. Its one thread is process 1, which is there always. The corpus was read from real ones.
 */
#include <errno.h>
#include <string.h>

#include "fuzz.h"
#include "symbols/python/python.h"

struct image {
    const uint8_t *data;
    size_t size;
};

/* A piece that begins there. */
static int read_part(const struct image *image, const struct python_part *part)
{
    uint64_t address;
    uint16_t size;
    for (size_t at = 0; at + sizeof address + sizeof size <= image->size; at += size) {
        memcpy(&address, image->data + at, sizeof address);
        memcpy(&size, image->data + at + sizeof address, sizeof size);
        at += sizeof address + sizeof size;
        if (size > image->size - at)
            return -EFAULT;
        if (address == part->address && size >= part->size) {
            memcpy(part->bytes, image->data + at, part->size);
            return 0;
        }
    }
    return -EFAULT;
}

static int read_image(void *ctx, const struct python_part *parts, size_t count)
{
    int r = 0;
    for (size_t i = 0; i < count && r == 0; i++)
        r = read_part(ctx, &parts[i]);
    return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct {
        uint64_t version, runtime, code_type, text_type, bytes_type, frame_type;
    } start;
    if (size < sizeof start)
        return 0;
    memcpy(&start, data, sizeof start);
    struct image image = {data + sizeof start, size - sizeof start};
    const struct python_memory memory = {read_image, &image};
    struct python_program program = {.pid = 1,
                                     .version = (uint32_t)start.version,
                                     .runtime = start.runtime,
                                     .code_type = start.code_type,
                                     .text_type = start.text_type,
                                     .bytes_type = start.bytes_type,
                                     .frame_type = start.frame_type};
    struct python_stacks stacks;
    if (python_layout_find(&program.layout, program.version, &memory, program.runtime) < 0)
        return 0;
    python_read(&stacks, &program, &memory, 0, start.version & 1 ? PYTHON_OWN_FRAME : PYTHON_FRAMES);
    for (size_t i = 0; i < stacks.count; i++)
        for (size_t k = 0; k < stacks.threads[i].count; k++) {
            const struct python_frame *frame = &stacks.threads[i].frames[k];
            fuzz_expect(strlen(frame->file) <= PYTHON_FILE + 3 && strlen(frame->function) <= PYTHON_NAME + 3);
            fuzz_expect(frame->line >= -1);
        }
    python_stacks_done(&stacks);
    return 0;
}
