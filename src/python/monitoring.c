/* SPDX-License-Identifier: Apache-2.0 */
#include "python/monitoring.h"

#include "python/watch.h"

enum { TOOL = 4 /* one that has no name in Python's documentation */ };

typedef struct py *fast_fn(struct py *self, struct py *const *arguments, ssize_t count);

static struct py *monitoring, *disable;

static struct py *nothing(void)
{
    py.Py_IncRef(py.none);
    return py.none;
}

/* No such event of this code any more. */
static struct py *never_again(void)
{
    py.Py_IncRef(disable);
    return disable;
}

static struct watch_code *code_in(struct py *const *arguments, ssize_t count)
{
    return count > 0 && watch_ready() ? watch_code_of(arguments[0]) : NULL;
}

static struct py *on_start(struct py *self, struct py *const *arguments, ssize_t count)
{
    struct watch_code *code = code_in(arguments, count);
    if (!code)
        return never_again();
    watch_enter(code, true);
    return nothing();
}

static struct py *on_resume(struct py *self, struct py *const *arguments, ssize_t count)
{
    struct watch_code *code = code_in(arguments, count);
    if (!code)
        return never_again();
    watch_enter(code, false);
    return nothing();
}

/* Into a generator with an exception. */
static struct py *on_throw(struct py *self, struct py *const *arguments, ssize_t count)
{
    struct watch_code *code = code_in(arguments, count);
    if (code)
        watch_enter(code, false);
    return nothing();
}

static struct py *on_return(struct py *self, struct py *const *arguments, ssize_t count)
{
    struct watch_code *code = code_in(arguments, count);
    if (!code)
        return never_again();
    watch_leave(code, false);
    return nothing();
}

static struct py *on_unwind(struct py *self, struct py *const *arguments, ssize_t count)
{
    struct watch_code *code = code_in(arguments, count);
    if (code)
        watch_leave(code, true);
    return nothing();
}

static struct py *on_line(struct py *self, struct py *const *arguments, ssize_t count)
{
    struct watch_code *code = count > 1 ? code_in(arguments, count) : NULL;
    if (!code)
        return never_again();
    watch_line(code, (int)py.PyLong_AsLong(arguments[1]));
    return nothing();
}

static struct py *on_raise(struct py *self, struct py *const *arguments, ssize_t count)
{
    struct watch_code *code = count > 2 ? code_in(arguments, count) : NULL;
    if (code) {
        struct py *type = py.PyObject_Type(arguments[2]);
        watch_raised(code, -1, arguments[2], type);
        py.Py_DecRef(type);
    } else if (count > 2) {
        watch_passed(arguments[0], arguments[2]);
    }
    return nothing();
}

static const struct {
    const char *event;
    fast_fn *call;
    bool lines;
} events[] = {
    {"PY_START", on_start},  {"PY_RESUME", on_resume}, {"PY_THROW", on_throw}, {"PY_RETURN", on_return},
    {"PY_YIELD", on_return}, {"PY_UNWIND", on_unwind}, {"RAISE", on_raise},    {"LINE", on_line, .lines = true},
};
enum { EVENTS = sizeof events / sizeof *events };
static struct py_method methods[EVENTS];

static bool worked(struct py *result)
{
    if (!result) {
        py.PyErr_Clear();
        return false;
    }
    py.Py_DecRef(result);
    return true;
}

/* Its callback is there. Its number, -1: it is not. */
static int take_event(struct py *numbers, size_t i)
{
    int number = py_member_int(numbers, events[i].event);
    methods[i] = (struct py_method){"scry", (void *)events[i].call, PY_METHOD_FAST, NULL};
    struct py *function = number > 0 ? py.PyCFunction_NewEx(&methods[i], NULL, NULL) : NULL;
    if (!function)
        return -1;
    bool done = worked(py.PyObject_CallMethod(monitoring, "register_callback", "iiO", TOOL, number, function));
    py.Py_DecRef(function);
    return done ? number : -1;
}

const char *monitoring_start(bool lines)
{
    monitoring = py.PySys_GetObject("monitoring");
    disable = monitoring ? py_member(monitoring, "DISABLE") : NULL;
    struct py *numbers = disable ? py_member(monitoring, "events") : NULL;
    int wanted = 0;
    if (!numbers)
        return "this Python has no sys.monitoring";
    if (!worked(py.PyObject_CallMethod(monitoring, "use_tool_id", "is", TOOL, "scry")))
        return "another tool has number 4 of sys.monitoring";
    for (size_t i = 0; i < EVENTS && wanted >= 0; i++) {
        int number = events[i].lines && !lines ? 0 : take_event(numbers, i);
        wanted = number < 0 ? -1 : wanted | number;
    }
    py.Py_DecRef(numbers);
    if (wanted < 0 || !worked(py.PyObject_CallMethod(monitoring, "set_events", "ii", TOOL, wanted))) {
        worked(py.PyObject_CallMethod(monitoring, "free_tool_id", "i", TOOL));
        return "sys.monitoring refuses our events";
    }
    return NULL;
}
