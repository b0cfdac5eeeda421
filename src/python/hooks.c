/* SPDX-License-Identifier: Apache-2.0 */
#include "python/hooks.h"

#include "python/watch.h"

#include <string.h>
#include <sys/mman.h>

enum { LINE_OF_3_9 = 108 /* PyFrameObject.f_lineno: PyFrame_GetLineNumber would search for it each time */ };

typedef struct py *method_fn(struct py *self, struct py *arguments);

static bool with_lines, own_call, aside;
static method_fn *start_thread, *set_profile;
static struct py *set_profile_object;
static size_t profiler_place;        /* of the profile function in a thread's state */
static py_trace_fn *python_profiler; /* with which Python calls what sys.setprofile was given */

static int line_of(struct py *frame)
{
    return py.minor == 9 ? *(const int *)(const void *)((const char *)frame + LINE_OF_3_9)
                         : py.PyFrame_GetLineNumber(frame);
}

static int on_event(struct py *object, struct py *frame, int what, struct py *argument)
{
    if (what > PY_TRACE_RETURN || (what == PY_TRACE_EXCEPTION && !argument) || !watch_ready())
        return 0;
    struct py *code = py.PyFrame_GetCode(frame);
    struct watch_code *known = watch_code_of(code);
    py.Py_DecRef(code);
    if (!known && what == PY_TRACE_EXCEPTION && py.PyTuple_Size(argument) == 3)
        watch_passed(code, py.PyTuple_GetItem(argument, 1));
    if (!known)
        return 0;
    if (what == PY_TRACE_LINE)
        watch_line(known, line_of(frame));
    else if (what == PY_TRACE_CALL)
        watch_enter(known, true);
    else if (what == PY_TRACE_RETURN)
        watch_leave(known, !argument);
    else if (py.PyTuple_Size(argument) == 3)
        watch_raised(known, line_of(frame), py.PyTuple_GetItem(argument, 1), py.PyTuple_GetItem(argument, 0));
    return 0;
}

/* Python makes the thread's state before the thread runs, and we have the GIL: it is the first in the list. */
static struct py *on_start_thread(struct py *self, struct py *arguments)
{
    struct py_state *interpreter = py.PyInterpreterState_Get();
    struct py_state *before = py.PyInterpreterState_ThreadHead(interpreter);
    struct py *result = start_thread(self, arguments);
    struct py_state *after = py.PyInterpreterState_ThreadHead(interpreter);
    if (result && after != before && !aside && interpreter == py.PyInterpreterState_Main()) {
        bool was = own_call;
        own_call = true;
        if ((with_lines ? py.set_trace : py.set_profile)(after, on_event, NULL) < 0)
            py.PyErr_Clear();
        own_call = was;
    }
    return result;
}

/* Lets ours be called in place of a function of a module, by all its names. */
static method_fn *replace(struct py *function, const char *name, method_fn *ours)
{
    struct py_method *method = function ? ((struct py_method **)(void *)function)[2] : NULL; /* m_ml */
    void *called = function ? py.PyCFunction_GetFunction(function) : NULL;
    py.PyErr_Clear();
    if (!method || method->function != called || strcmp(method->name, name) != 0)
        return NULL;
    method->function = (void *)ours;
    return (method_fn *)called;
}

/* Its names each have a place in the module's table of functions. */
static bool follow_threads(void)
{
    static const char *const names[] = {"start_new_thread", "start_new"};
    struct py *module = py.PyImport_ImportModule("_thread");
    bool done = module != NULL;
    for (size_t i = 0; done && i < sizeof names / sizeof *names; i++) {
        struct py *function = py_member(module, names[i]);
        method_fn *called = replace(function, names[i], on_start_thread);
        done = called != NULL;
        if (done)
            start_thread = called;
        if (function)
            py.Py_DecRef(function);
    }
    py.PyErr_Clear();
    if (module)
        py.Py_DecRef(module);
    return done;
}

static py_trace_fn **profiler(void)
{
    return (py_trace_fn **)(void *)((char *)py.PyThreadState_Get() + profiler_place);
}

static int on_first_event(struct py *object, struct py *frame, int what, struct py *argument)
{
    *profiler() = python_profiler;
    if (what == PY_TRACE_C_RETURN && argument == set_profile_object)
        return 0;
    return python_profiler(object, frame, what, argument);
}

/* The call of sys.setprofile is traced already, by us, so its return would be told to the program's function, which was
 * told of no call: the module profile fails then. */
static struct py *on_set_profile(struct py *self, struct py *argument)
{
    bool ours = *profiler() == on_event;
    struct py *result = set_profile(self, argument);
    py_trace_fn **now = profiler();
    if (result && ours && *now && *now != on_event) {
        python_profiler = *now;
        *now = on_first_event;
    }
    return result;
}

/* Where a thread's state has the profile function, which is ours now. */
static void follow_profilers(void)
{
    enum { WORDS = 24 }; /* it is among the first 12 */
    py_trace_fn *const *words = (py_trace_fn *const *)(const void *)py.PyThreadState_Get();
    size_t at = 0;
    while (at < WORDS && words[at] != on_event)
        at++;
    if (at == WORDS)
        return;
    profiler_place = at * sizeof *words;
    set_profile_object = py.PySys_GetObject("setprofile");
    set_profile = replace(set_profile_object, "setprofile", on_set_profile);
}

/* In this thread. */
static void set_own(void)
{
    own_call = true;
    if (with_lines)
        py.PyEval_SetTrace(on_event, NULL);
    else
        py.PyEval_SetProfile(on_event, NULL);
    own_call = false;
}

const char *profile_start(bool lines)
{
    with_lines = lines;
    if (!py.set_profile || !py.set_trace || !follow_threads())
        return "threads of this Python cannot be followed";
    set_own();
    if (!lines)
        follow_profilers();
    return NULL;
}

void profile_audit(const char *event)
{
    if (own_call || strcmp(event, with_lines ? "sys.settrace" : "sys.setprofile") != 0 || aside)
        return;
    aside = true;
    watch_step_aside(with_lines ? "the program has set a trace function (a debugger, coverage), which goes first"
                                : "the program has set a profile function, which goes first");
}

void profile_resume(void)
{
    struct py *get = aside ? py.PySys_GetObject(with_lines ? "gettrace" : "getprofile") : NULL;
    struct py *its = get ? py.PyObject_CallFunction(get, NULL) : NULL;
    if (!its) {
        if (get)
            py.PyErr_Clear();
        return;
    }
    if (its == py.none) {
        aside = false;
        set_own();
        watch_go_on();
    }
    py.Py_DecRef(its);
}

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
