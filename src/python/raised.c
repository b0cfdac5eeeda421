/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exceptions. Their text is made without calling anything of the program: what str() would return is taken from the
 * arguments where these are plain. An exception is told when it is raised, and once more when it is known whether it
 * was caught: when the function that it came to returns, or when Python reports it.
 */
#include <string.h>

#include "python/internal.h"

enum { MESSAGE = SCRIPT_TEXT_MOST + 1, TOLD_FRAMES = 16 };

struct told {
    struct script_event event;
    struct script_frame frames[TOLD_FRAMES];
    struct py *kept[2 * TOLD_FRAMES]; /* what the texts are in */
    unsigned kept_count;
    char message[MESSAGE + 64];
    size_t message_size;
};

static void say(struct told *told, const char *bytes, size_t size)
{
    size_t room = MESSAGE - told->message_size;
    size = size < room ? size : room;
    memcpy(told->message + told->message_size, bytes, size);
    told->message_size += size;
}

static void say_number(struct told *told, long number)
{
    char digits[24];
    size_t at = sizeof digits;
    unsigned long rest = number < 0 ? -(unsigned long)number : (unsigned long)number;
    do
        digits[--at] = (char)('0' + rest % 10);
    while (rest /= 10);
    if (number < 0)
        digits[--at] = '-';
    say(told, digits + at, sizeof digits - at);
}

/* A str or an int, and nothing that is derived from them. */
static bool say_plain(struct told *told, struct py *value)
{
    const char *bytes;
    size_t size;
    if (py_is(value, py.string)) {
        struct py *text = py_text(value, &bytes, &size);
        if (!text)
            return false;
        say(told, bytes, size);
        py.Py_DecRef(text);
        return true;
    }
    if (!py_is(value, py.integer))
        return false;
    long number = py.PyLong_AsLong(value);
    if (number == -1)
        py.PyErr_Clear();
    say_number(told, number);
    return true;
}

/* What the class of the library, BaseException or OSError, has under that name, whatever the exception's own has. */
static struct py *own_member(struct py *class, const char *name, struct py *exception)
{
    struct py *descriptor = py_member(*(struct py **)(void *)class, name);
    struct py *found = descriptor ? py.PyObject_CallMethod(descriptor, "__get__", "O", exception) : NULL;
    if (!found)
        py.PyErr_Clear();
    if (descriptor)
        py.Py_DecRef(descriptor);
    return found;
}

static void say_file_name(struct told *told, struct py *exception)
{
    struct py *name = own_member(py.os_error, "filename", exception); /* NULL: it is none of these */
    if (name && py_is(name, py.string)) {
        say(told, ": '", 3);
        say_plain(told, name);
        say(told, "'", 1);
    }
    if (name)
        py.Py_DecRef(name);
}

static void say_message(struct told *told, struct py *exception)
{
    if (py_is(exception, py.string)) { /* it is not made yet: its only argument */
        say_plain(told, exception);
        return;
    }
    if (py.PyObject_IsInstance(exception, *(struct py **)(void *)py.exception) != 1) {
        py.PyErr_Clear();
        return;
    }
    struct py *arguments = own_member(py.exception, "args", exception);
    if (!arguments)
        return;
    ssize_t count = py.PyTuple_Size(arguments);
    struct py *first = count > 0 ? py.PyTuple_GetItem(arguments, 0) : NULL;
    struct py *second = count > 1 ? py.PyTuple_GetItem(arguments, 1) : NULL;
    if (count == 1)
        say_plain(told, first);
    else if (second && py_is(first, py.integer) && py_is(second, py.string)) { /* as of OSError */
        say(told, "[Errno ", 7);
        say_plain(told, first);
        say(told, "] ", 2);
        say_plain(told, second);
        say_file_name(told, exception);
    }
    py.Py_DecRef(arguments);
}

static struct script_text keep(struct told *told, struct py *owner, const char *name)
{
    struct script_text found = {0};
    const char *bytes;
    size_t size;
    struct py *value = py_member(owner, name), *text = py_text(value, &bytes, &size);
    if (value)
        py.Py_DecRef(value);
    if (text) {
        found = (struct script_text){bytes, (uint32_t)size};
        told->kept[told->kept_count++] = text;
    }
    return found;
}

static void forget_frame(struct told *told)
{
    for (unsigned i = 0; i < told->kept_count; i++)
        py.Py_DecRef(told->kept[i]);
    told->kept_count = 0;
}

static void add_frame(struct told *told, struct py *frame, int line)
{
    struct py *code = py_member(frame, "f_code");
    if (!code)
        return;
    struct script_frame *next = &told->frames[told->event.frame_count++];
    next->file = keep(told, code, "co_filename");
    next->function = keep(told, code, py.minor >= 11 ? "co_qualname" : "co_name");
    next->line = line;
    py.Py_DecRef(code);
}

/* From the frame outwards. */
static void add_stack(struct told *told, int line)
{
    struct py *frame = py.PyEval_GetFrame();
    if (frame)
        py.Py_IncRef(frame);
    while (frame && told->event.frame_count < TOLD_FRAMES) {
        add_frame(told, frame, line >= 0 ? line : py_member_int(frame, "f_lineno"));
        line = -1;
        struct py *back = py_member(frame, "f_back");
        py.Py_DecRef(frame);
        frame = back;
        if (frame == py.none) {
            py.Py_DecRef(frame);
            frame = NULL;
        }
    }
    if (frame)
        py.Py_DecRef(frame);
}

/* A traceback has the outermost first: the last ones, the other way round. */
static void add_traceback(struct told *told, struct py *traceback)
{
    struct py *last[TOLD_FRAMES] = {0};
    unsigned count = 0;
    if (traceback)
        py.Py_IncRef(traceback);
    while (traceback && traceback != py.none) {
        struct py **place = &last[count++ % TOLD_FRAMES];
        if (*place)
            py.Py_DecRef(*place);
        *place = traceback;
        traceback = py_member(traceback, "tb_next");
    }
    if (traceback)
        py.Py_DecRef(traceback);
    for (unsigned i = 0; i < count && i < TOLD_FRAMES; i++) {
        struct py *one = last[(count - 1 - i) % TOLD_FRAMES], *frame = py_member(one, "tb_frame");
        if (frame)
            add_frame(told, frame, py_member_int(one, "tb_lineno"));
        if (frame)
            py.Py_DecRef(frame);
        py.Py_DecRef(one);
    }
}

static void fill(struct told *told, struct py *exception, struct py *type, enum script_caught caught, int32_t tid)
{
    const char *name = py.PyExceptionClass_Name(type);
    say_message(told, exception);
    told->event.kind = SCRIPT_EXCEPTION;
    told->event.tid = tid;
    told->event.status = caught;
    told->event.duration_ns = UINT64_MAX;
    told->event.frames = told->frames;
    told->event.line = told->event.frame_count ? told->frames[0].line : -1;
    told->event.texts[SCRIPT_FILE] = told->frames[0].file;
    told->event.texts[SCRIPT_FUNCTION] = told->frames[0].function;
    told->event.texts[SCRIPT_COMMAND] = (struct script_text){name, (uint32_t)strlen(name)};
    told->event.texts[SCRIPT_MESSAGE] = (struct script_text){told->message, (uint32_t)told->message_size};
}

/* Those with which Python ends loops and programs. */
static bool is_ordinary(const char *name)
{
    static const char *const ordinary[] = {"StopIteration", "StopAsyncIteration", "GeneratorExit", "SystemExit"};
    for (size_t i = 0; i < sizeof ordinary / sizeof *ordinary; i++)
        if (strcmp(name, ordinary[i]) == 0)
            return true;
    return false;
}

static void end_raised(struct watch_thread *self, enum script_caught caught)
{
    self->raised = NULL;
    script_put(watch.writer,
               &(struct script_event){
                   .kind = SCRIPT_EXCEPTION, .tid = self->tid, .duration_ns = UINT64_MAX, .status = (int32_t)caught});
}

void watch_caught(struct watch_thread *self)
{
    end_raised(self, SCRIPT_CAUGHT);
}

void watch_passed(const struct py *code, struct py *exception)
{
    struct watch_thread *self = code == watch.thread_end && watch_ready() ? watch_self() : NULL;
    if (self && self->raised == exception)
        end_raised(self, SCRIPT_UNCAUGHT);
}

void watch_unraisable(void)
{
    struct watch_thread *self = watch_ready() ? watch_self() : NULL;
    if (self && self->raised && !self->raised_at)
        end_raised(self, SCRIPT_UNCAUGHT);
}

static void tell(struct py *exception, struct py *type, int line, struct watch_thread *self)
{
    struct told told;
    memset(&told, 0, offsetof(struct told, message));
    told.message_size = 0;
    add_stack(&told, line);
    fill(&told, exception, type, SCRIPT_RAISED, self->tid);
    if (script_put(watch.writer, &told.event))
        self->raised = exception;
    forget_frame(&told);
}

void watch_raised(struct watch_code *code, int line, struct py *exception, struct py *type)
{
    struct watch_thread *self = watch_self();
    if (!self)
        return;
    if (self->raised == exception && self->depth < self->told_at) { /* not another one in the same memory */
        self->raised_at = self->told_at = self->depth;
        return;
    }
    struct py *types[3] = {0};
    py.PyErr_Fetch(&types[0], &types[1], &types[2]);
    if (self->raised)
        watch_caught(self);
    if (code->exceptions < EXCEPTIONS_OF_CODE && !is_ordinary(py.PyExceptionClass_Name(type))) {
        code->exceptions++;
        self->raised_at = self->told_at = self->depth;
        tell(exception, type, line, self);
    }
    py.PyErr_Restore(types[0], types[1], types[2]);
}

void watch_uncaught(struct py *type, struct py *exception, struct py *traceback)
{
    struct told told;
    struct watch_thread *self = watch_self();
    if (!self)
        return;
    if (self->raised && self->raised != exception)
        watch_caught(self);
    memset(&told, 0, offsetof(struct told, message));
    told.message_size = 0;
    add_traceback(&told, traceback);
    fill(&told, exception, type, SCRIPT_UNCAUGHT, self->tid);
    self->raised = NULL; /* the reader has it once */
    script_put(watch.writer, &told.event);
    script_ring_bell(watch.writer);
    forget_frame(&told);
}
