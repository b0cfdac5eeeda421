/* SPDX-License-Identifier: Apache-2.0 */
#include "python/profile.h"

#include <string.h>
#include <sys/mman.h>

#include "python/watch.h"

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
