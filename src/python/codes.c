/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of code objects: a table by their addresses. A weak reference says whether it is still the same object,
 * so none is kept alive. (CPython's own "extra" of code objects would do, but what one tool puts there makes Python
 * call the functions of all others when the object goes.)
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "python/internal.h"

enum { LINES_MOST = 100000, FIRST_ROWS = 4096 };

struct row {
    const struct py *code;    /* NULL: free */
    struct py *alive;         /* weak reference */
    struct watch_code *known; /* NULL: of no interest */
};

static struct row *rows;
static size_t row_count, rows_used;
static char library[256]; /* "/usr/lib", below which .../python3.11/ is the standard library */

static size_t place_of(const struct py *code, size_t count)
{
    return (size_t)((uintptr_t)code / 16 * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (count - 1);
}

/* Its row, or the free one where it would be. */
static struct row *find(struct row *in, size_t count, const struct py *code)
{
    size_t at = place_of(code, count);
    while (in[at].code && in[at].code != code)
        at = (at + 1) & (count - 1);
    return &in[at];
}

/* At most half of the rows are used. */
static bool make_room(void)
{
    if (2 * (rows_used + 1) <= row_count)
        return true;
    size_t count = row_count ? 2 * row_count : FIRST_ROWS;
    struct row *grown = calloc(count, sizeof *grown);
    if (!grown)
        return false;
    for (size_t i = 0; i < row_count; i++)
        if (rows[i].code)
            *find(grown, count, rows[i].code) = rows[i];
    free(rows);
    rows = grown;
    row_count = count;
    return true;
}

static void forget(struct row *row)
{
    struct watch_code *known = row->known;
    py.Py_DecRef(row->alive);
    row->alive = NULL;
    row->known = NULL;
    if (!known || known->active) /* frames of it are still noted: it must not be used again */
        return;
    free(known->lines);
    free(known);
}

bool codes_start(void)
{
    const char *bytes;
    size_t size;
    struct py *prefix = py.PySys_GetObject("base_prefix"), *text = py_text(prefix, &bytes, &size);
    if (text && size < sizeof library - 8) {
        memcpy(library, bytes, size);
        memcpy(library + size, "/lib", sizeof "/lib");
    }
    if (text)
        py.Py_DecRef(text);
    return make_room();
}

static bool has(const char *bytes, size_t size, const char *part)
{
    return memmem(bytes, size, part, strlen(part)) != NULL;
}

static bool is_users(const char *file, size_t size)
{
    size_t start = strlen(library);
    if (has(file, size, "/site-packages/") || has(file, size, "/dist-packages/"))
        return false;
    if (size >= 7 && memcmp(file, "<frozen", 7) == 0)
        return false;
    if (size == 8 && memcmp(file, "<string>", 8) == 0 && watch.program[0]) /* what libraries make; else python -c */
        return false;
    return !start || size <= start || memcmp(file, library, start) != 0 || !has(file + start, size - start, "/python3");
}

/* threading.Thread's function around the one of the thread. */
static bool ends_threads(struct py *code)
{
    static const char wanted[] = "_bootstrap_inner";
    const char *bytes;
    size_t size;
    struct py *name = py_member(code, "co_name"), *text = py_text(name, &bytes, &size);
    bool is = text && size == sizeof wanted - 1 && memcmp(bytes, wanted, size) == 0;
    if (text)
        py.Py_DecRef(text);
    if (name)
        py.Py_DecRef(name);
    return is;
}

/* The names of its file and of itself, in the ring. false: it is of no interest. */
static bool keep_names(struct watch_code *known, struct py *code)
{
    const char *names[] = {"co_filename", py.minor >= 11 ? "co_qualname" : "co_name"};
    uint32_t *texts[] = {&known->file, &known->function};
    bool users = true;
    for (int i = 0; i < 2 && users; i++) {
        const char *bytes;
        size_t size;
        struct py *name = py_member(code, names[i]), *text = py_text(name, &bytes, &size);
        users = text && (i || is_users(bytes, size));
        *texts[i] = users ? script_text_keep(watch.writer, bytes, size) : 0;
        if (text)
            py.Py_DecRef(text);
        if (name)
            py.Py_DecRef(name);
    }
    known->generation = watch.generation;
    if (!users && ends_threads(code))
        watch.thread_end = code;
    return users;
}

static void fill(struct row *row, struct py *code)
{
    struct watch_code *known = NULL;
    struct py *alive = py.PyWeakref_NewRef(code, NULL);
    if (!alive) {
        py.PyErr_Clear();
        return;
    }
    known = calloc(1, sizeof *known);
    if (known && !keep_names(known, code)) {
        free(known);
        known = NULL;
    }
    if (known)
        known->first_line = py_member_int(code, "co_firstlineno");
    rows_used += !row->code;
    *row = (struct row){code, alive, known};
}

/* In a child of a fork the texts are in another ring. */
static void fill_again(struct watch_code *known, struct py *code)
{
    keep_names(known, code);
    known->sum = NULL;
    known->exceptions = 0;
    if (known->lines)
        memset(known->lines, 0, known->line_room * sizeof(struct script_sum *));
}

static struct watch_code *look_closely(struct py *code)
{
    struct py *type = NULL, *value = NULL, *traceback = NULL;
    py.PyErr_Fetch(&type, &value, &traceback);
    struct row *row = NULL;
    if (make_room()) {
        row = find(rows, row_count, code);
        if (row->alive && py.PyWeakref_GetObject(row->alive) != code)
            forget(row); /* another one lies there now */
        if (!row->alive)
            fill(row, code);
        else if (row->known)
            fill_again(row->known, code);
    }
    py.PyErr_Restore(type, value, traceback);
    return row ? row->known : NULL;
}

struct watch_code *watch_code_of(struct py *code)
{
    struct row *row = find(rows, row_count, code);
    if (row->code && row->alive && py.PyWeakref_GetObject(row->alive) == code &&
        (!row->known || row->known->generation == watch.generation))
        return row->known;
    return look_closely(code);
}

/* Where there is no room, all of them share one that nobody reads. */
static struct script_sum nowhere;

struct script_sum *code_sum(struct watch_code *code)
{
    if (code->generation != watch.generation) /* it began before a fork: what is known of it is the parent's */
        return &nowhere;
    if (!code->sum) {
        code->sum = script_sum_new(watch.writer, SCRIPT_SUM_FUNCTION, code->file, code->function, code->first_line);
        if (!code->sum)
            code->sum = &nowhere;
    }
    return code->sum;
}

struct script_sum *code_line(struct watch_code *code, int line)
{
    uint32_t index = (uint32_t)(line - code->first_line);
    if (line < code->first_line || index >= LINES_MOST)
        return &nowhere;
    if (index >= code->line_room) {
        uint32_t room = code->line_room ? code->line_room : 16;
        while (room <= index)
            room *= 2;
        struct script_sum **lines = reallocarray(code->lines, room, sizeof *lines);
        if (!lines)
            return &nowhere;
        memset(lines + code->line_room, 0, (room - code->line_room) * sizeof *lines);
        code->lines = lines;
        code->line_room = room;
    }
    if (!code->lines[index]) {
        struct script_sum *sum = script_sum_new(watch.writer, SCRIPT_SUM_LINE, code->file, code->function, line);
        code->lines[index] = sum ? sum : &nowhere;
    }
    return code->lines[index];
}
