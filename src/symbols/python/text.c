/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/python/text.h"

#include <string.h>

struct state { /* PyASCIIObject.state */
    unsigned kind;
    bool compact, ascii;
};

/* Behind 2 bits for "interned", since 3.14 behind 16. Kinds begin with 1, so one excludes the other. */
static struct state state_of(uint32_t bits)
{
    if (!(bits >> 2 & 7))
        bits >>= 14;
    return (struct state){bits >> 2 & 7, bits >> 5 & 1, bits >> 6 & 1};
}

static uint32_t character(const unsigned char *bytes, unsigned kind, size_t i)
{
    uint16_t two;
    uint32_t four;
    if (kind == 1)
        return bytes[i];
    if (kind == 2) {
        memcpy(&two, bytes + i * sizeof two, sizeof two);
        return two;
    }
    memcpy(&four, bytes + i * sizeof four, sizeof four);
    return four;
}

/* At most 4 bytes. */
static size_t put_character(char *out, uint32_t c)
{
    enum { REPLACEMENT = 0xfffd };
    if (c >= 0xdc80 && c <= 0xdcff) { /* a byte that was no UTF-8 */
        *out = (char)(c - 0xdc00);
        return 1;
    }
    if (c == 0 || (c >= 0xd800 && c < 0xe000) || c > 0x10ffff)
        c = REPLACEMENT;
    if (c < 0x80) {
        *out = (char)c;
        return 1;
    }
    size_t more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    out[0] = (char)(0xff00 >> (more + 1) | c >> (6 * more));
    for (size_t i = 1; i <= more; i++)
        out[i] = (char)(0x80 | (c >> (6 * (more - i)) & 0x3f));
    return more + 1;
}

const char *python_text(const struct python_program *program, const struct python_memory *memory, struct arena *arena,
                        uint64_t address, size_t most)
{
    const struct python_layout *layout = &program->layout;
    static const char cut[] = "...";
    unsigned char bytes[PYTHON_FILE * sizeof(uint32_t)];
    uint64_t type, length;
    uint32_t bits;
    const struct python_part parts[] = {{address + layout->object_type, &type, sizeof type},
                                        {address + layout->text_length, &length, sizeof length},
                                        {address + layout->text_state, &bits, sizeof bits}};
    if (memory->read(memory->ctx, parts, 3) < 0 || type != program->text_type)
        return NULL;
    const struct state state = state_of(bits);
    if (!state.compact || (state.kind != 1 && state.kind != 2 && state.kind != 4) || (state.ascii && state.kind != 1) ||
        length > INT32_MAX || most > PYTHON_FILE)
        return NULL;
    const size_t count = length < most ? length : most;
    if (count && python_get(memory, address + (state.ascii ? layout->text_ascii : layout->text_wide), bytes,
                            count * state.kind) < 0)
        return NULL;
    char *text = arena_alloc(arena, most + sizeof cut + 4);
    if (!text)
        return NULL;
    size_t len = 0, i = 0;
    for (; i < count; i++) {
        char one[4];
        size_t size = put_character(one, character(bytes, state.kind, i));
        if (len + size > most)
            break;
        memcpy(text + len, one, size);
        len += size;
    }
    memcpy(text + len, i < length ? cut : "", i < length ? sizeof cut : 1);
    return text;
}
