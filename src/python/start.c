/* SPDX-License-Identifier: Apache-2.0 */
#include "python/start.h"

#include "python/hooks.h"
#include "python/watch.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
