/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of code objects: it hangs on each of them ("extra"), and goes with it. */
#include <stdlib.h>
#include <string.h>

#include "python/internal.h"

enum { LINES_MOST = 100000 };

static ssize_t extra = -1;
static char library[256]; /* "/usr/lib/", where .../python3.11/ is the standard library */
/* On code that is of no interest, so that this is found at once. */
static struct watch_code foreign;

static void forget(void *found)
{
    struct watch_code *code = found;
    if (!code || code == &foreign)
        return;
    if (code->active) { /* frames of it are still noted: it must not be used again */
        code->lines = NULL;
        return;
    }
    free(code->lines);
    free(code);
}

bool codes_start(void)
{
    const char *bytes;
    size_t size;
    struct py *prefix = py.PySys_GetObject("base_prefix"), *text = py_text(prefix, &bytes, &size);
    if (text && size < sizeof library - 8) {
        memcpy(library, bytes, size);
        strcpy(library + size, "/lib");
    }
    if (text)
        py.Py_DecRef(text);
    extra = py.request_extra(forget);
    return extra >= 0;
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
    return !start || size <= start || memcmp(file, library, start) != 0 || !has(file + start, size - start, "/python3");
}

static struct watch_code *make(struct py *code)
{
    struct py *type = NULL, *value = NULL, *traceback = NULL;
    const char *bytes;
    size_t size;
    py.PyErr_Fetch(&type, &value, &traceback);
    struct py *name = py_member(code, "co_filename"), *text = py_text(name, &bytes, &size);
    struct watch_code *made = &foreign;
    if (text && is_users(bytes, size)) {
        made = calloc(1, sizeof *made);
        if (made) {
            made->users = true;
            made->first_line = py_member_int(code, "co_firstlineno");
            made->file = script_text_keep(watch.writer, bytes, size);
            made->generation = watch.generation;
            struct py *function = py_member(code, py.minor >= 11 ? "co_qualname" : "co_name"), *function_text;
            if ((function_text = py_text(function, &bytes, &size))) {
                made->function = script_text_keep(watch.writer, bytes, size);
                py.Py_DecRef(function_text);
            }
            if (function)
                py.Py_DecRef(function);
        }
    }
    if (text)
        py.Py_DecRef(text);
    if (name)
        py.Py_DecRef(name);
    if (made && py.set_extra(code, extra, made) < 0) {
        py.PyErr_Clear();
        if (made != &foreign)
            free(made);
        made = NULL;
    }
    py.PyErr_Restore(type, value, traceback);
    return made;
}

/* In a child of a fork the texts are in another ring. */
static void make_again(struct watch_code *found, struct py *code)
{
    struct py *type = NULL, *value = NULL, *traceback = NULL;
    py.PyErr_Fetch(&type, &value, &traceback);
    const char *names[] = {"co_filename", py.minor >= 11 ? "co_qualname" : "co_name"};
    uint32_t *texts[] = {&found->file, &found->function};
    for (int i = 0; i < 2; i++) {
        const char *bytes;
        size_t size;
        struct py *name = py_member(code, names[i]), *text = py_text(name, &bytes, &size);
        *texts[i] = text ? script_text_keep(watch.writer, bytes, size) : 0;
        if (text)
            py.Py_DecRef(text);
        if (name)
            py.Py_DecRef(name);
    }
    py.PyErr_Restore(type, value, traceback);
    found->sum = NULL;
    found->exceptions = 0;
    if (found->lines)
        memset(found->lines, 0, found->line_room * sizeof(struct script_sum *));
    found->generation = watch.generation;
}

struct watch_code *watch_code_of(struct py *code)
{
    void *found = NULL;
    if (py.get_extra(code, extra, &found) < 0) {
        py.PyErr_Clear();
        return NULL;
    }
    if (!found)
        found = make(code);
    if (!found || found == &foreign)
        return NULL;
    if (((struct watch_code *)found)->generation != watch.generation)
        make_again(found, code);
    return found;
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
