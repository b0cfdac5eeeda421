/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/python/python.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "base/system/proc_file.h"

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

/* Inside symbols/python: str objects, as UTF-8. */

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

/* A copy in `arena`, of at most `most` bytes: what is longer ends in "...". NULL: it is no str, or cannot be read.
 * Surrogates that stand for bytes of a file's name (PEP 383) become those bytes. */
static const char *python_text(const struct python_program *program, const struct python_memory *memory,
                               struct arena *arena, uint64_t address, size_t most)
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

/* The list of interpreters, their threads, and the frames of each. */

enum {
    INTERPRETERS = 64,
    WALK_MOST = 1200, /* frames that are followed: Python's own limit is 1000 */
    ATTEMPTS = 4,
    AGAIN = 6,
    OWN_FRAMES = 32, /* within which the user's own code is looked for */
    TABLE_MOST = 4 << 20,
    FRAME_BYTES = 128, /* of a frame, those that are read */
    FRAME_PARTS = PYTHON_PARTS - 2,
};

struct raw_frame {
    uint64_t address, code, previous, at;
    bool shim, entry;
};

struct walk {
    uint64_t top_at[2], top[2]; /* pointers on the way to the first frame: where, and what was there */
    size_t top_count;
    struct raw_frame frames[WALK_MOST];
    size_t count;
    bool cut;
};

struct reading {
    const struct python_program *program;
    const struct python_memory *memory;
    struct python_stacks *stacks;
    pid_t wanted;
    size_t frames_most, room;
    bool own; /* up to the user's own code */
    uint32_t frame_from, frame_size;
    struct walk *first, *second;
    size_t described[PYTHON_FRAMES]; /* which frame of the first walk each one is */
};

static int memory_get(const struct reading *reading, uint64_t address, void *ret_bytes, size_t size)
{
    return python_get(reading->memory, address, ret_bytes, size);
}

/* ---- frames ---- */

/* What is needed of a frame lies together. False: offsets that make no sense. */
static bool measure_frame(struct reading *reading)
{
    const struct python_layout *layout = &reading->program->layout;
    const uint32_t at[] = {layout->frame_code,
                           layout->frame_previous,
                           layout->frame_at,
                           layout->frame_owner ? layout->frame_owner : layout->frame_at,
                           layout->frame_entry ? layout->frame_entry : layout->frame_at,
                           layout->objects ? layout->object_type : layout->frame_at};
    uint32_t low = UINT32_MAX, high = 0;
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        low = at[i] < low ? at[i] : low;
        high = at[i] > high ? at[i] : high;
    }
    reading->frame_from = low;
    reading->frame_size = high - low + (uint32_t)sizeof(uint64_t);
    return high - low <= FRAME_BYTES - sizeof(uint64_t);
}

static uint64_t memory_word(const struct reading *reading, const uint8_t *bytes, uint32_t offset)
{
    uint64_t value;
    memcpy(&value, bytes + (offset - reading->frame_from), sizeof value);
    return value;
}

/* False: it is no frame, or not any more. */
static bool decode_frame(const struct reading *reading, uint64_t address, const uint8_t *bytes,
                         struct raw_frame *ret_frame)
{
    const struct python_layout *layout = &reading->program->layout;
    const unsigned owner = layout->frame_owner ? memory_word(reading, bytes, layout->frame_owner) & 255 : 0;
    const unsigned entry = layout->frame_entry ? memory_word(reading, bytes, layout->frame_entry) & 255 : 0;
    const uint64_t at = memory_word(reading, bytes, layout->frame_at);
    if ((layout->objects && memory_word(reading, bytes, layout->object_type) != reading->program->frame_type) ||
        owner > layout->shims + 1U || entry > 1)
        return false;
    *ret_frame = (struct raw_frame){
        .address = address,
        .code = memory_word(reading, bytes, layout->frame_code) & ~(uint64_t)7, /* 3.14 has tags there */
        .previous = memory_word(reading, bytes, layout->frame_previous),
        .at = layout->objects ? (uint64_t)((int64_t)(int32_t)at * layout->at_unit) : at,
        .shim = layout->frame_owner && owner >= layout->shims,
        .entry = layout->objects || entry,
    };
    return ret_frame->previous != address;
}

/* C called the interpreter at the frame before each shim, and at the outermost. */
static void mark_entries(struct walk *walk)
{
    for (size_t i = 0; i + 1 < walk->count; i++)
        walk->frames[i].entry |= walk->frames[i + 1].shim;
    if (walk->count && !walk->cut)
        walk->frames[walk->count - 1].entry = true;
}

static int find_top(const struct reading *reading, uint64_t thread, struct walk *walk)
{
    const struct python_layout *layout = &reading->program->layout;
    walk->top_count = 1;
    walk->top_at[0] = thread + layout->thread_frame;
    int r = memory_get(reading, walk->top_at[0], &walk->top[0], sizeof walk->top[0]);
    if (r < 0 || !layout->by_cframe || !walk->top[0])
        return r;
    walk->top_count = 2;
    walk->top_at[1] = walk->top[0] + layout->cframe_frame;
    return memory_get(reading, walk->top_at[1], &walk->top[1], sizeof walk->top[1]);
}

/* From the innermost frame outwards. 0, or -EFAULT: the thread went on meanwhile. */
static int stack_follow(const struct reading *reading, uint64_t thread, struct walk *walk)
{
    uint8_t bytes[FRAME_BYTES];
    walk->count = 0;
    walk->cut = false;
    int r = find_top(reading, thread, walk);
    uint64_t address = r == 0 ? walk->top[walk->top_count - 1] : 0;
    while (r == 0 && address) {
        if (walk->count == WALK_MOST) {
            walk->cut = true;
            break;
        }
        if (address % sizeof address)
            return -EFAULT;
        r = memory_get(reading, address + reading->frame_from, bytes, reading->frame_size);
        if (r == 0 && !decode_frame(reading, address, bytes, &walk->frames[walk->count]))
            return -EFAULT;
        if (r == 0)
            address = walk->frames[walk->count++].previous;
    }
    mark_entries(walk);
    return r;
}

/* Is all as in that walk, but where the innermost frame is? Reads all at once, as far as that can be; false if it
 * cannot. */
static bool is_as_before(const struct reading *reading, const struct walk *walk)
{
    uint8_t bytes[FRAME_PARTS][FRAME_BYTES];
    uint64_t top[2];
    for (size_t from = 0; from == 0 || from < walk->count; from += FRAME_PARTS) {
        struct python_part parts[PYTHON_PARTS];
        size_t count = 0, frames = 0;
        for (size_t i = 0; i < walk->top_count; i++)
            parts[count++] = (struct python_part){walk->top_at[i], &top[i], sizeof top[i]};
        for (; frames < FRAME_PARTS && from + frames < walk->count; frames++)
            parts[count++] = (struct python_part){walk->frames[from + frames].address + reading->frame_from,
                                                  bytes[frames], reading->frame_size};
        if (reading->memory->read(reading->memory->ctx, parts, count) < 0 ||
            memcmp(top, walk->top, walk->top_count * sizeof *top) != 0)
            return false;
        for (size_t i = 0; i < frames; i++) {
            const struct raw_frame *old = &walk->frames[from + i];
            struct raw_frame now;
            if (!decode_frame(reading, old->address, bytes[i], &now) || now.code != old->code ||
                now.previous != old->previous || (now.at != old->at && from + i > 0))
                return false;
        }
    }
    return true;
}

/* How many of the outermost frames both have. What is inside one that went on has not been inside it all the time. */
static size_t stacks_agree(const struct walk *a, const struct walk *b)
{
    size_t same = 0;
    while (same < a->count && same < b->count) {
        const struct raw_frame *one = &a->frames[a->count - 1 - same], *other = &b->frames[b->count - 1 - same];
        if (one->address != other->address || one->code != other->code || one->previous != other->previous)
            break;
        same++;
        if (one->at != other->at)
            break;
    }
    return same;
}

/* ---- what they run ---- */

static int64_t line_at(const struct reading *reading, uint64_t table, int64_t first_line, int64_t at)
{
    const struct python_layout *layout = &reading->program->layout;
    uint64_t type, size;
    const struct python_part parts[] = {{table + layout->object_type, &type, sizeof type},
                                        {table + layout->bytes_size, &size, sizeof size}};
    if (reading->memory->read(reading->memory->ctx, parts, 2) < 0 || type != reading->program->bytes_type ||
        size > TABLE_MOST)
        return -1;
    uint8_t room[1024];
    _cleanup_(freep) uint8_t *large = size > sizeof room ? malloc(size) : NULL;
    uint8_t *bytes = size > sizeof room ? large : room;
    if (!bytes || memory_get(reading, table + layout->bytes_data, bytes, size) < 0)
        return -1;
    return python_line(layout->lines, bytes, size, first_line, at);
}

/* False: it is no code object. */
static bool frame_describe(const struct reading *reading, const struct raw_frame *raw, struct python_frame *ret_frame)
{
    const struct python_layout *layout = &reading->program->layout;
    uint64_t type, file, name, table;
    int32_t first_line;
    const struct python_part parts[] = {
        {raw->code + layout->object_type, &type, sizeof type},
        {raw->code + layout->code_file, &file, sizeof file},
        {raw->code + layout->code_name, &name, sizeof name},
        {raw->code + layout->code_table, &table, sizeof table},
        {raw->code + layout->code_first_line, &first_line, sizeof first_line},
    };
    if (reading->memory->read(reading->memory->ctx, parts, 5) < 0 || type != reading->program->code_type ||
        first_line < 0)
        return false;
    struct arena *arena = &reading->stacks->memory;
    *ret_frame = (struct python_frame){
        .file = python_text(reading->program, reading->memory, arena, file, PYTHON_FILE),
        .function = python_text(reading->program, reading->memory, arena, name, PYTHON_NAME),
        .line = -1,
        .entry = raw->entry,
    };
    if (!layout->no_lines)
        ret_frame->line =
            line_at(reading, table, first_line,
                    layout->objects ? (int64_t)raw->at : (int64_t)(raw->at - raw->code - layout->code_start));
    return ret_frame->file && ret_frame->function;
}

/* From that frame of the walk on outwards. Which of them could not be understood has no function. */
static void frames_describe(struct reading *reading, size_t from, struct python_thread *thread)
{
    const struct walk *walk = reading->first;
    thread->count = 0;
    thread->cut = walk->cut;
    for (size_t i = from; i < walk->count; i++) {
        if (walk->frames[i].shim)
            continue;
        if (thread->count == reading->frames_most) {
            thread->cut = true;
            break;
        }
        reading->described[thread->count] = i;
        struct python_frame *frame = &thread->frames[thread->count++];
        if (!frame_describe(reading, &walk->frames[i], frame))
            frame->function = NULL;
        else if (reading->own && python_is_own_code(frame->file))
            break;
    }
}

/* Leaves out the frames inside the `same` outermost ones of the walk. False: some of the others are not understood. */
static bool keep_outer(const struct reading *reading, struct python_thread *thread, size_t same)
{
    size_t inner = 0;
    while (inner < thread->count && reading->described[inner] + same < reading->first->count)
        inner++;
    thread->count -= inner;
    memmove(thread->frames, thread->frames + inner, thread->count * sizeof *thread->frames);
    for (size_t i = 0; i < thread->count; i++)
        if (!thread->frames[i].function)
            return false;
    return true;
}

/* How many of the outermost frames of the first walk are there each time. */
static size_t stack_look_again(const struct reading *reading, uint64_t address, bool *ret_moved)
{
    size_t same = reading->first->count;
    *ret_moved = false;
    for (int again = 0; again < AGAIN && same; again++) {
        if (is_as_before(reading, reading->first))
            continue;
        size_t both = 0;
        if (stack_follow(reading, address, reading->second) == 0) {
            both = stacks_agree(reading->first, reading->second);
            *ret_moved |= both < reading->first->count || both < reading->second->count;
            same = both < same ? both : same;
        } else {
            *ret_moved = true; /* says nothing of the outer ones */
        }
    }
    return same;
}

/*
 * A thread in a loop may be back where it was, with other frames in between. So several walks have to agree, not two.
 * While a frame is there, what it runs is not freed: that is looked at in between. Where all that was looked at is
 * gone, it looks at what is further outside.
 */
static int read_frames(struct reading *reading, uint64_t address, struct python_thread *thread)
{
    size_t outer = SIZE_MAX;
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        int r = stack_follow(reading, address, reading->first);
        if (r == -ESRCH || r == -EACCES)
            return r;
        thread->moved = true;
        thread->count = 0;
        if (r < 0)
            continue;
        const size_t count = reading->first->count;
        frames_describe(reading, outer < count ? count - outer : 0, thread);
        const size_t same = stack_look_again(reading, address, &thread->moved);
        thread->moved |= outer < count;
        if (!keep_outer(reading, thread, same))
            thread->count = 0;
        if (thread->count || !count)
            return 0;
        outer = same ? same : outer;
    }
    thread->moved = true;
    return 0;
}

/* ---- threads ---- */

static pid_t thread_number(const struct reading *reading, uint64_t thread)
{
    const struct python_layout *layout = &reading->program->layout;
    uint64_t number = 0, descriptor = 0;
    uint32_t offset = pthread_field("_thread_db_pthread_tid");
    int32_t tid = 0;
    if (layout->thread_tid)
        return memory_get(reading, thread + layout->thread_tid, &number, sizeof number) == 0 && number <= INT32_MAX
                   ? (pid_t)number
                   : 0;
    if (!offset || memory_get(reading, thread + layout->thread_pthread, &descriptor, sizeof descriptor) < 0 ||
        memory_get(reading, descriptor + offset, &tid, sizeof tid) < 0)
        return 0;
    return tid;
}

static bool is_known(const struct python_stacks *stacks, pid_t tid)
{
    for (size_t i = 0; i < stacks->count; i++)
        if (stacks->threads[i].tid == tid)
            return true;
    return false;
}

static int add_thread(struct reading *reading, uint64_t address)
{
    struct python_stacks *stacks = reading->stacks;
    pid_t tid = thread_number(reading, address), pid = reading->program->pid;
    if (tid <= 0 || (reading->wanted && tid != reading->wanted) || is_known(stacks, tid) || !proc_letter(pid, tid))
        return 0;
    if (!GROW(stacks->threads, stacks->count, reading->room))
        return -ENOMEM;
    struct python_thread *thread = &stacks->threads[stacks->count];
    *thread = (struct python_thread){.tid = tid};
    thread->frames = arena_zalloc(&stacks->memory, reading->frames_most, sizeof *thread->frames);
    if (!thread->frames)
        return -ENOMEM;
    int r = read_frames(reading, address, thread);
    if (r == 0 && (thread->count || thread->moved))
        stacks->count++;
    return r;
}

static int read_threads(struct reading *reading, uint64_t interpreter)
{
    const struct python_layout *layout = &reading->program->layout;
    uint64_t thread = 0, its = 0, next = 0;
    int r = memory_get(reading, interpreter + layout->interpreter_threads, &thread, sizeof thread);
    for (size_t i = 0; r == 0 && thread; i++, thread = next) {
        const struct python_part parts[] = {{thread + layout->thread_interpreter, &its, sizeof its},
                                            {thread + layout->thread_next, &next, sizeof next}};
        r = reading->memory->read(reading->memory->ctx, parts, 2);
        if (r == 0 && its != interpreter)
            return -EAGAIN;
        if (i == PYTHON_THREADS || reading->stacks->count == PYTHON_THREADS) {
            reading->stacks->cut = true;
            break;
        }
        if (r == 0)
            r = add_thread(reading, thread);
        if (reading->wanted && reading->stacks->count)
            break;
    }
    return r;
}

static int compare_threads(const void *a, const void *b)
{
    const struct python_thread *one = a, *other = b;
    return (one->tid > other->tid) - (one->tid < other->tid);
}

static void sort_threads(struct python_stacks *stacks, pid_t pid)
{
    if (stacks->count)
        qsort(stacks->threads, stacks->count, sizeof *stacks->threads, compare_threads);
    for (size_t i = 1; i < stacks->count; i++)
        if (stacks->threads[i].tid == pid) {
            struct python_thread first = stacks->threads[i];
            memmove(stacks->threads + 1, stacks->threads, i * sizeof first);
            stacks->threads[0] = first;
        }
}

static int read_interpreters(struct reading *reading)
{
    const struct python_layout *layout = &reading->program->layout;
    uint64_t interpreter = 0;
    int r = memory_get(reading, reading->program->runtime + layout->interpreters, &interpreter, sizeof interpreter);
    for (int i = 0; r == 0 && interpreter && i < INTERPRETERS; i++) {
        r = read_threads(reading, interpreter);
        if (r == 0)
            r = memory_get(reading, interpreter + layout->interpreter_next, &interpreter, sizeof interpreter);
    }
    return r;
}

int python_read(struct python_stacks *ret_stacks, const struct python_program *program,
                const struct python_memory *memory, pid_t tid, size_t frames)
{
    *ret_stacks = (struct python_stacks){.memory = ARENA_INIT};
    _cleanup_(freep) struct walk *walks = malloc(2 * sizeof *walks);
    if (!walks)
        return -ENOMEM;
    struct reading reading = {
        .program = program,
        .memory = memory,
        .stacks = ret_stacks,
        .wanted = tid,
        .own = frames == PYTHON_OWN_FRAME,
        .frames_most = frames == PYTHON_OWN_FRAME ? OWN_FRAMES
                       : frames < PYTHON_FRAMES   ? frames
                                                  : PYTHON_FRAMES,
        .first = &walks[0],
        .second = &walks[1],
    };
    int r = measure_frame(&reading) ? read_interpreters(&reading) : -EAGAIN;
    sort_threads(ret_stacks, program->pid);
    if (ret_stacks->memory.failed)
        return -ENOMEM;
    return r == -EFAULT ? -EAGAIN : r;
}

void python_stacks_done(struct python_stacks *stacks)
{
    free(stacks->threads);
    arena_done(&stacks->memory);
    *stacks = (struct python_stacks){0};
}

/* ---- samples ---- */

enum {
    CODES_MOST = 1 << 14, /* then all are read anew: a program may make code, and threads, for as long as it runs */
    THREADS_MOST = 1 << 12,
    CODE_PARTS = 3,
    CODES_AT_ONCE = PYTHON_PARTS / CODE_PARTS
};

struct sampled_code { /* a code object, and what told it from others at the same address */
    uint64_t address, file, name;
    int32_t first_line;
    struct python_code code;
    UT_hash_handle hh;
};

struct sampled_thread {
    pid_t tid;
    uint64_t address;
    UT_hash_handle hh;
};

struct python_sampler {
    struct python_program program;
    struct python_memory memory;
    struct python_stacks stacks; /* for its arena: texts of all codes since they were forgotten, */
    unsigned read;               /* so many */
    struct sampled_code *codes;
    struct sampled_thread *threads;
    struct walk walk;
};

struct python_sampler *python_sampler_new(const struct python_program *program)
{
    struct python_sampler *sampler = calloc(1, sizeof *sampler);
    if (!sampler)
        return NULL;
    sampler->program = *program;
    sampler->memory = python_memory_of(&sampler->program.pid);
    sampler->stacks.memory = ARENA_INIT;
    return sampler;
}

static void codes_forget(struct python_sampler *sampler)
{
    struct sampled_code *code, *next;
    HASH_ITER(hh, sampler->codes, code, next)
    {
        HASH_DEL(sampler->codes, code);
        free(code);
    }
    arena_reset(&sampler->stacks.memory);
    sampler->read = 0;
}

static void threads_forget(struct python_sampler *sampler)
{
    struct sampled_thread *thread, *next;
    HASH_ITER(hh, sampler->threads, thread, next)
    {
        HASH_DEL(sampler->threads, thread);
        free(thread);
    }
}

void python_sampler_free(struct python_sampler *sampler)
{
    if (!sampler)
        return;
    codes_forget(sampler);
    threads_forget(sampler);
    arena_done(&sampler->stacks.memory);
    free(sampler);
}

/* The thread's structure, as an address; 0: it has none. */
static uint64_t sampled_thread_find(struct python_sampler *sampler, struct reading *reading, pid_t tid)
{
    const struct python_layout *layout = &reading->program->layout;
    struct sampled_thread *thread;
    uint64_t interpreter = 0, next = 0, at = 0;
    HASH_FIND_INT(sampler->threads, &tid, thread);
    if (thread && thread_number(reading, thread->address) == tid)
        return thread->address;
    memory_get(reading, reading->program->runtime + layout->interpreters, &interpreter, sizeof interpreter);
    for (int i = 0; interpreter && i < INTERPRETERS; i++, interpreter = next) {
        if (memory_get(reading, interpreter + layout->interpreter_threads, &at, sizeof at) < 0)
            return 0;
        for (int k = 0; at && k < PYTHON_THREADS && thread_number(reading, at) != tid; k++)
            if (memory_get(reading, at + layout->thread_next, &at, sizeof at) < 0)
                return 0;
        if (at || memory_get(reading, interpreter + layout->interpreter_next, &next, sizeof next) < 0)
            break;
    }
    if (at && !thread && (thread = calloc(1, sizeof *thread))) {
        thread->tid = tid;
        HASH_ADD_INT(sampler->threads, tid, thread);
    }
    if (thread)
        thread->address = at;
    return at;
}

/* What a code object was known for; NULL: it is none, or there is no memory. */
static const struct python_code *code_read(struct python_sampler *sampler, const struct reading *reading,
                                           const struct raw_frame *raw, const struct sampled_code *now)
{
    struct sampled_code *code;
    struct python_frame frame;
    HASH_FIND(hh, sampler->codes, &raw->code, sizeof raw->code, code);
    if (code && code->file == now->file && code->name == now->name && code->first_line == now->first_line)
        return &code->code;
    sampler->read++;
    if (!frame_describe(reading, raw, &frame))
        return NULL;
    if (!code) {
        code = calloc(1, sizeof *code);
        if (!code)
            return NULL;
        code->address = raw->code;
        HASH_ADD(hh, sampler->codes, address, sizeof code->address, code);
    }
    code->file = now->file;
    code->name = now->name;
    code->first_line = now->first_line;
    code->code = (struct python_code){frame.function, frame.file, now->first_line};
    return &code->code;
}

/* So many frames from the one of that number on, with one read for all. false: one of them is not understood. */
static bool codes_read(struct python_sampler *sampler, const struct reading *reading, size_t from, size_t count,
                       struct python_sample_frame *ret_frames, size_t *inout_count)
{
    const struct python_layout *layout = &reading->program->layout;
    struct sampled_code now[CODES_AT_ONCE];
    struct python_part parts[PYTHON_PARTS];
    size_t part = 0;
    for (size_t i = 0; i < count; i++) {
        const uint64_t code = sampler->walk.frames[from + i].code;
        if (sampler->walk.frames[from + i].shim)
            continue;
        parts[part++] = (struct python_part){code + layout->code_file, &now[i].file, sizeof now[i].file};
        parts[part++] = (struct python_part){code + layout->code_name, &now[i].name, sizeof now[i].name};
        parts[part++] =
            (struct python_part){code + layout->code_first_line, &now[i].first_line, sizeof now[i].first_line};
    }
    if (part && reading->memory->read(reading->memory->ctx, parts, part) < 0)
        return false;
    for (size_t i = 0; i < count; i++) {
        const struct raw_frame *raw = &sampler->walk.frames[from + i];
        const struct python_code *code = raw->shim ? NULL : code_read(sampler, reading, raw, &now[i]);
        if (!code && !raw->shim)
            return false;
        if (code)
            ret_frames[(*inout_count)++] = (struct python_sample_frame){code, raw->entry};
    }
    return true;
}

size_t python_sample(struct python_sampler *sampler, pid_t tid, struct python_sample_frame *ret_frames, size_t most)
{
    struct reading reading = {
        .program = &sampler->program, .memory = &sampler->memory, .stacks = &sampler->stacks, .first = &sampler->walk};
    if (sampler->read >= CODES_MOST)
        codes_forget(sampler);
    if (HASH_COUNT(sampler->threads) >= THREADS_MOST)
        threads_forget(sampler);
    uint64_t thread = measure_frame(&reading) ? sampled_thread_find(sampler, &reading, tid) : 0;
    size_t count = 0;
    if (!thread || stack_follow(&reading, thread, &sampler->walk) < 0)
        return 0;
    const size_t frames = sampler->walk.count < most ? sampler->walk.count : most;
    for (size_t from = 0; from < frames; from += CODES_AT_ONCE)
        if (!codes_read(sampler, &reading, from, frames - from < CODES_AT_ONCE ? frames - from : CODES_AT_ONCE,
                        ret_frames, &count))
            return 0;
    return count;
}

enum { UNIT = 2 /* bytes of a code unit */, NO_LINE = -128 };

static int64_t line_checked(int64_t line)
{
    return line >= 0 && line <= INT32_MAX ? line : -1;
}

/* Pairs: so many bytes on, so many lines on. */
static int64_t by_lnotab(const uint8_t *table, size_t size, int64_t line, int64_t at)
{
    int64_t address = 0;
    for (size_t i = 0; i + 1 < size; i += 2) {
        address += table[i];
        if (address > at)
            break;
        line += (int8_t)table[i + 1];
    }
    return line;
}

/* Pairs: a range of so many bytes, so many lines on from the one before. */
static int64_t by_ranges(const uint8_t *table, size_t size, int64_t line, int64_t at)
{
    int64_t end = 0;
    for (size_t i = 0; i + 1 < size; i += 2) {
        int delta = table[i + 1] < 128 ? table[i + 1] : table[i + 1] - 256;
        end += table[i];
        line += delta == NO_LINE ? 0 : delta;
        if (at < end)
            return delta == NO_LINE ? -1 : line;
    }
    return -1;
}

/* A number in pieces of six bits, the lowest first; bit 6: more follow. False: the table ends in it. */
static bool get_number(const uint8_t *table, size_t size, size_t *i, uint64_t *ret_number)
{
    uint64_t number = 0;
    for (unsigned shift = 0; shift < 36; shift += 6) {
        if (*i >= size)
            return false;
        uint8_t byte = table[(*i)++];
        number |= (uint64_t)(byte & 63) << shift;
        if (!(byte & 64)) {
            *ret_number = number;
            return true;
        }
    }
    return false;
}

/* Entries: the first byte has bit 7, what follows it has not. */
static int64_t by_locations(const uint8_t *table, size_t size, int64_t line, int64_t at)
{
    enum { ONE_LINE = 10, NO_COLUMNS = 13, LONG = 14, NONE = 15 };
    int64_t end = 0;
    for (size_t i = 0; i < size;) {
        const uint8_t first = table[i++];
        const int kind = first >> 3 & 15;
        uint64_t number;
        if (!(first & 128))
            return -1;
        end += ((first & 7) + 1) * UNIT;
        if (kind == NO_COLUMNS || kind == LONG) {
            if (!get_number(table, size, &i, &number))
                return -1;
            line += number & 1 ? -(int64_t)(number >> 1) : (int64_t)(number >> 1);
        } else if (kind >= ONE_LINE && kind < NO_COLUMNS) {
            line += kind - ONE_LINE;
        }
        if (at < end)
            return kind == NONE ? -1 : line;
        while (i < size && !(table[i] & 128))
            i++;
    }
    return -1;
}

int64_t python_line(enum python_lines kind, const uint8_t *table, size_t size, int64_t first_line, int64_t at)
{
    if (at < 0)
        return line_checked(first_line);
    return line_checked(kind == PYTHON_LINES_LNOTAB   ? by_lnotab(table, size, first_line, at)
                        : kind == PYTHON_LINES_RANGES ? by_ranges(table, size, first_line, at)
                                                      : by_locations(table, size, first_line, at));
}
