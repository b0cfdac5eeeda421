/* SPDX-License-Identifier: Apache-2.0 */
#include "python/python.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum py_trace { PY_TRACE_CALL, PY_TRACE_EXCEPTION, PY_TRACE_LINE, PY_TRACE_RETURN, PY_TRACE_C_RETURN = 6 };
enum { PY_METHOD_FAST = 0x80 };

/*
 * Python 3.9 to 3.11: a profile function (level calls) or a trace function (level lines) in C, in each thread that
 * Python makes. The program sees neither: sys.getprofile() and sys.gettrace() are None. If it sets its own, that
 * replaces ours, until it takes its own away again: then ours comes back when it executes some code, as notebooks do for
 * each cell.
 */

/* Python 3.12 and 3.13: sys.monitoring with callbacks in C, as a tool of our own beside those of the program. */

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

/* In the main thread, behind watch_start. NULL, or why not. */
static const char *profile_start(bool lines)
{
    with_lines = lines;
    if (!py.set_profile || !py.set_trace || !follow_threads())
        return "threads of this Python cannot be followed";
    set_own();
    if (!lines)
        follow_profilers();
    return NULL;
}

/* An audit event of Python, behind profile_start: has the program set such a function? */
static void profile_audit(const char *event)
{
    if (own_call || strcmp(event, with_lines ? "sys.settrace" : "sys.setprofile") != 0 || aside)
        return;
    aside = true;
    watch_step_aside(with_lines ? "the program has set a trace function (a debugger, coverage), which goes first"
                                : "the program has set a profile function, which goes first");
}

/* The program is about to execute code, in this thread. */
static void profile_resume(void)
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

/* In the main thread, behind watch_start. NULL, or why not. */
static const char *monitoring_start(bool lines)
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

struct py_api py;

static bool find(void **to, const char *name)
{
    *to = dlsym(RTLD_DEFAULT, name);
    return *to != NULL;
}

/* Are we in a Python 3, and is all there? Before it is initialised; needs no GIL. Fills in py. */
static bool py_find(void)
{
    bool all = true;
    void *type, *os_error;
#define FIND(result, name, arguments) all = all && find((void **)&py.name, #name);
    PY_FUNCTIONS(FIND)
#undef FIND
    if (!py.Py_GetVersion || !py.PySys_AddAuditHook)
        return false;
    find((void **)&py.set_profile, "_PyEval_SetProfile");
    find((void **)&py.set_trace, "_PyEval_SetTrace");
    all = all && find((void **)&py.none, "_Py_NoneStruct") && find((void **)&py.string, "PyUnicode_Type") &&
          find((void **)&py.integer, "PyLong_Type") && find((void **)&py.list, "PyList_Type") &&
          find(&type, "PyExc_BaseException") && find(&os_error, "PyExc_OSError");
    if (!all)
        return false;
    py.exception = type;    /* the address of a pointer, which is not set yet; */
    py.os_error = os_error; /* so is this */
    const char *version = py.Py_GetVersion();
    if (strncmp(version, "3.", 2) == 0)
        for (const char *digit = version + 2; *digit >= '0' && *digit <= '9'; digit++)
            py.minor = 10 * py.minor + *digit - '0';
    py.free_threading = strstr(version, "free-threading") != NULL;
    return py.minor > 0;
}

struct py *py_member(struct py *object, const char *name)
{
    struct py *found = object ? py.PyObject_GetAttrString(object, name) : NULL;
    if (!found)
        py.PyErr_Clear();
    return found;
}

int py_member_int(struct py *object, const char *name)
{
    struct py *found = py_member(object, name);
    if (!found)
        return -1;
    int number = found == py.none ? -1 : (int)py.PyLong_AsLong(found);
    if (number == -1)
        py.PyErr_Clear();
    py.Py_DecRef(found);
    return number;
}

struct py *py_text(struct py *string, const char **ret_bytes, size_t *ret_size)
{
    char *bytes;
    ssize_t size;
    struct py *encoded = string ? py.PyUnicode_AsEncodedString(string, "utf-8", "surrogateescape") : NULL;
    if (!encoded || py.PyBytes_AsStringAndSize(encoded, &bytes, &size) < 0) {
        py.PyErr_Clear();
        if (encoded)
            py.Py_DecRef(encoded);
        return NULL;
    }
    *ret_bytes = bytes;
    *ret_size = (size_t)size;
    return encoded;
}

bool py_is(struct py *object, struct py *type)
{
    struct py *own = py.PyObject_Type(object);
    bool same = own == type;
    py.Py_DecRef(own);
    return same;
}

/*
 * The library is loaded into each process of a job with --script calls or lines (job/launch/preload.h). In all that
 * are no Python interpreter it does nothing. In these it adds an audit hook, which Python allows before it is
 * initialised. So it learns when Python is ready and has not run the program yet: however Python was started (-I, -S,
 * -E, -c, -m), and without a trace in sys.path, sys.modules or the environment.
 */

enum { NEWEST = 13, FIRST_MONITORING = 12 };

static enum { WAITING, STARTING, PROFILING, MONITORING, OFF } phase;
static const char *directory;
static bool lines;

static bool starts_with(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* The program's file, module or code: the event's first argument. */
static void start(const char *event, struct py *arguments)
{
    struct py *types[3] = {0};
    phase = STARTING;
    py.PyErr_Fetch(&types[0], &types[1], &types[2]);
    bool is_file = strcmp(event, "cpython.run_file") == 0 || strcmp(event, "cpython.run_module") == 0;
    struct py *program = is_file && py.PyTuple_Size(arguments) > 0 ? py.PyTuple_GetItem(arguments, 0) : NULL;
    if (!watch_start(directory, lines, program && py_is(program, py.string) ? program : NULL)) {
        phase = OFF;
    } else {
        bool monitors = py.minor >= FIRST_MONITORING;
        const char *why = py.free_threading                  ? "unsupported: Python without its global lock"
                          : py.minor > NEWEST                ? "unsupported: Python after 3.13"
                          : py.PySys_GetObject("getobjects") ? "unsupported: Python built to trace references"
                          : monitors                         ? monitoring_start(lines)
                                                             : profile_start(lines);
        phase = why ? OFF : monitors ? MONITORING : PROFILING;
        if (why)
            watch_step_aside(why);
    }
    py.PyErr_Restore(types[0], types[1], types[2]);
}

static void uncaught(struct py *arguments)
{
    if (py.PyTuple_Size(arguments) != 4 || !watch_ready())
        return;
    struct py *type = py.PyTuple_GetItem(arguments, 1), *traceback = py.PyTuple_GetItem(arguments, 3);
    watch_uncaught(type, py.PyTuple_GetItem(arguments, 2), traceback);
}

/* Called often: by open() and id(), too. */
static int on_audit(const char *event, struct py *arguments, void *data)
{
    if (phase == WAITING) {
        if (starts_with(event, "cpython.run_") && strcmp(event, "cpython.run_startup") != 0)
            start(event, arguments);
        return 0;
    }
    bool executes = phase == PROFILING && strcmp(event, "exec") == 0;
    if ((!executes && (event[0] != 's' || event[1] != 'y')) || phase < PROFILING || phase > MONITORING ||
        py.PyInterpreterState_Get() != py.PyInterpreterState_Main()) /* which may have a lock of its own */
        return 0;
    if (executes)
        profile_resume();
    else if (strcmp(event, "sys.excepthook") == 0)
        uncaught(arguments);
    else if (strcmp(event, "sys.unraisablehook") == 0)
        watch_unraisable();
    else if (phase == PROFILING)
        profile_audit(event);
    return 0;
}

/* Is the program a Python? Other programs that embed one would find that Python's main thread is not theirs. */
static bool is_python(void)
{
    char path[4096];
    ssize_t size = readlink("/proc/self/exe", path, sizeof path - 1);
    if (size <= 0)
        return false;
    path[size] = 0;
    const char *slash = strrchr(path, '/');
    return starts_with(slash ? slash + 1 : path, "python");
}

static bool ends_with(const char *text, char last)
{
    size_t size = strlen(text);
    return size && text[size - 1] == last;
}

/* Python then frees our hook with another allocator than it was allocated with, and aborts at its end. In doubt: yes.
 */
static bool is_debugged(int count, char **arguments)
{
    const char *allocator = getenv("PYTHONMALLOC"), *mode = getenv("PYTHONDEVMODE");
    if ((allocator && strstr(allocator, "debug")) || (mode && *mode))
        return true;
    for (int i = 1; i < count; i++)
        if (arguments[i][0] == '-' && (strstr(arguments[i], "Xdev") || (ends_with(arguments[i], 'X') && i + 1 < count &&
                                                                        strcmp(arguments[i + 1], "dev") == 0)))
            return true;
    return false;
}

__attribute__((constructor)) static void begin(int count, char **arguments)
{
    const char *level = getenv("SCRY_SCRIPT"), *off = getenv("SCRY");
    directory = getenv(SCRIPT_RING_DIR);
    if (!directory || !level || (off && strcmp(off, "off") == 0) || !is_python())
        return;
    if (!py_find()) {
        if (py.Py_GetVersion)
            watch_refuse(directory, "unsupported: Python before 3.9");
        return;
    }
    if (is_debugged(count, arguments)) {
        watch_refuse(directory, "unsupported: Python's debug allocator (PYTHONMALLOC, -X dev)");
        return;
    }
    lines = strcmp(level, "lines") == 0;
    size_t size = strlen(directory) + 1;
    char *copy = malloc(size); /* Python may change its environment */
    if (!copy)
        return;
    directory = memcpy(copy, directory, size);
    py.PySys_AddAuditHook(on_audit, NULL);
}
