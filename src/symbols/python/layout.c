/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/python/layout.h"

#include <errno.h>
#include <string.h>

#define MINOR(version) ((version) >> 16)

/* clang-format off */
#define OBJECTS_OLD .object_type = 8, .text_length = 16, .text_state = 32, .text_ascii = 48, .text_wide = 72, \
    .bytes_size = 16, .bytes_data = 32
#define OBJECTS_NEW .object_type = 8, .text_length = 16, .text_state = 32, .text_ascii = 40, .text_wide = 56, \
    .bytes_size = 16, .bytes_data = 32
/* clang-format on */

static const struct {
    uint32_t version;
    struct python_layout layout;
} layouts[] = {
    {0x0309,
     {.interpreters = 32,
      .interpreter_next = 0,
      .interpreter_threads = 8,
      .thread_next = 8,
      .thread_interpreter = 16,
      .thread_frame = 24,
      .thread_pthread = 176,
      .frame_code = 32,
      .frame_previous = 24,
      .frame_at = 104,
      .code_file = 104,
      .code_name = 112,
      .code_first_line = 40,
      .code_table = 120,
      .objects = true,
      .at_unit = 1,
      .lines = PYTHON_LINES_LNOTAB,
      OBJECTS_OLD}},
    {0x030a,
     {.interpreters = 32,
      .interpreter_next = 0,
      .interpreter_threads = 8,
      .thread_next = 8,
      .thread_interpreter = 16,
      .thread_frame = 24,
      .thread_pthread = 176,
      .frame_code = 32,
      .frame_previous = 24,
      .frame_at = 96,
      .code_file = 104,
      .code_name = 112,
      .code_first_line = 40,
      .code_table = 120,
      .objects = true,
      .at_unit = 2,
      .lines = PYTHON_LINES_RANGES,
      OBJECTS_OLD}},
    {0x030b,
     {.interpreters = 40,
      .interpreter_next = 0,
      .interpreter_threads = 16,
      .thread_next = 8,
      .thread_interpreter = 16,
      .thread_frame = 56,
      .by_cframe = true,
      .cframe_frame = 8,
      .thread_tid = 160,
      .frame_code = 32,
      .frame_previous = 48,
      .frame_at = 56,
      .frame_entry = 68,
      .frame_owner = 69,
      .shims = 3,
      .code_file = 112,
      .code_name = 128,
      .code_first_line = 72,
      .code_table = 136,
      .code_start = 184,
      .lines = PYTHON_LINES_LOCATIONS,
      OBJECTS_OLD}},
    {0x030c,
     {.interpreters = 40,
      .interpreter_next = 0,
      .interpreter_threads = 72,
      .thread_next = 8,
      .thread_interpreter = 16,
      .thread_frame = 56,
      .by_cframe = true,
      .cframe_frame = 0,
      .thread_tid = 144,
      .frame_code = 0,
      .frame_previous = 8,
      .frame_at = 56,
      .frame_owner = 70,
      .shims = 3,
      .code_file = 112,
      .code_name = 128,
      .code_first_line = 68,
      .code_table = 136,
      .code_start = 192,
      .lines = PYTHON_LINES_LOCATIONS,
      OBJECTS_NEW}},
};

/* The words of _Py_DebugOffsets that are needed, by their numbers. */
enum { COOKIE, VERSION, FREE_THREADED, WORDS = 88, OFFSET_MOST = 1 << 20 };
struct offset_words {
    uint32_t version;
    uint8_t interpreters, interpreter_next, interpreter_threads, thread_next, thread_interpreter, thread_frame,
        thread_tid, frame_code, frame_previous, frame_at, frame_owner, code_file, code_name, code_first_line,
        code_table, code_start, object_type, bytes_size, bytes_data, text_state, text_length, text_ascii;
};
static const struct offset_words offset_words[] = {
    {0x030d, 5, 8, 9, 21, 22, 23, 25, 30, 29, 31, 33, 35, 37, 39, 38, 43, 45, 65, 66, 68, 69, 70},
    {0x030e, 5, 8, 9, 24, 25, 26, 28, 33, 32, 34, 36, 40, 42, 44, 43, 48, 51, 75, 76, 78, 79, 80},
};

static int from_process(struct python_layout *ret_layout, const struct offset_words *at, uint32_t version,
                        const struct python_memory *memory, uint64_t runtime)
{
    static const char cookie[8] = {'x', 'd', 'e', 'b', 'u', 'g', 'p', 'y'};
    uint64_t words[WORDS];
    int r = python_get(memory, runtime, words, sizeof words);
    if (r < 0)
        return r;
    if (memcmp(&words[COOKIE], cookie, sizeof cookie) != 0 || words[VERSION] != version)
        return -ENOTSUP;
    for (size_t i = FREE_THREADED; i <= at->text_ascii; i++)
        if (words[i] > OFFSET_MOST && i != FREE_THREADED)
            return -ENOTSUP;
#define WORD(field) .field = (uint32_t)words[at->field]
    *ret_layout = (struct python_layout){
        WORD(interpreters),
        WORD(interpreter_next),
        WORD(interpreter_threads),
        WORD(thread_next),
        WORD(thread_interpreter),
        WORD(thread_frame),
        WORD(thread_tid),
        WORD(frame_code),
        WORD(frame_previous),
        WORD(frame_at),
        WORD(frame_owner),
        WORD(code_file),
        WORD(code_name),
        WORD(code_first_line),
        WORD(code_table),
        WORD(code_start),
        WORD(object_type),
        WORD(text_length),
        WORD(text_state),
        WORD(text_ascii),
        WORD(bytes_size),
        WORD(bytes_data),
        .shims = 3,
        .lines = PYTHON_LINES_LOCATIONS,
        .no_lines = words[FREE_THREADED] != 0,
    };
#undef WORD
    ret_layout->text_wide = ret_layout->text_ascii + 2 * sizeof(uint64_t); /* utf8 and its length lie between */
    return 0;
}

int python_layout_find(struct python_layout *ret_layout, uint32_t version, const struct python_memory *memory,
                       uint64_t runtime)
{
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (layouts[i].version == MINOR(version)) {
            *ret_layout = layouts[i].layout;
            return 0;
        }
    for (size_t i = 0; i < sizeof offset_words / sizeof *offset_words; i++)
        if (offset_words[i].version == MINOR(version))
            return from_process(ret_layout, &offset_words[i], version, memory, runtime);
    return -ENOTSUP;
}
